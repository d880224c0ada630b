//! Contexts.

use crate::{
    state::{CURRENT, Handle, call, call_in_context, put},
    status::{Code, INVALID_CONTEXT, INVALID_VALUE, PEER_ACCESS_UNSUPPORTED, UNSUPPORTED_LIMIT},
};
use std::ffi::{c_int, c_uint, c_void};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> Code {
    call(|driver| {
        let handle = match driver.device(device)?.primary {
            Some((handle, _)) => handle,
            None => driver.create_context(device as usize),
        };
        let state = driver.device(device)?;
        let count = state.primary.map_or(0, |(_, count)| count);
        state.primary = Some((handle, count + 1));
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(context, handle) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Code {
    call(|driver| {
        let state = driver.device(device)?;
        match state.primary {
            None => Err(INVALID_CONTEXT),
            Some((handle, 1)) => {
                state.primary = None;
                driver.destroy_context(handle)
            }
            Some((handle, count)) => {
                state.primary = Some((handle, count - 1));
                Ok(())
            }
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxReset_v2(device: c_int) -> Code {
    call(|driver| match driver.device(device)?.primary.take() {
        None => Ok(()),
        Some((handle, _)) => driver.destroy_context(handle),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxGetState(
    device: c_int,
    flags: *mut c_uint,
    active: *mut c_int,
) -> Code {
    call(|driver| {
        let found = driver.device(device)?.primary.is_some();
        // SAFETY: the interface requires pointers that are null or valid for a write.
        unsafe {
            put(flags, 0)?;
            put(active, c_int::from(found))
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, _flags: c_uint) -> Code {
    call(|driver| driver.device(device).map(|_| ()))
}

/// # Safety
///
/// `context` is null or valid for a write.
unsafe fn create(context: *mut Handle, device: c_int) -> Code {
    call(|driver| {
        driver.device(device)?;
        let handle = driver.create_context(device as usize);
        CURRENT.with_borrow_mut(|stack| stack.push(handle));
        // SAFETY: the caller guarantees it.
        unsafe { put(context, handle) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxCreate_v2(context: *mut Handle, _flags: c_uint, device: c_int) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    unsafe { create(context, device) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxCreate_v3(
    context: *mut Handle,
    _affinity: *mut c_void,
    _count: c_int,
    _flags: c_uint,
    device: c_int,
) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    unsafe { create(context, device) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxDestroy_v2(context: Handle) -> Code {
    call(|driver| {
        if driver.devices.iter().any(|state| state.primary.is_some_and(|(p, _)| p == context)) {
            return Err(INVALID_CONTEXT);
        }
        driver.destroy_context(context)?;
        CURRENT.with_borrow_mut(|stack| {
            if stack.last() == Some(&context) {
                stack.pop();
            }
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSetCurrent(context: Handle) -> Code {
    call(|driver| {
        if context != 0 && !driver.contexts.contains_key(&context) {
            return Err(INVALID_CONTEXT);
        }
        CURRENT.with_borrow_mut(|stack| {
            stack.pop();
            if context != 0 {
                stack.push(context);
            }
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> Code {
    call(|_| {
        let top = CURRENT.with_borrow(|stack| stack.last().copied().unwrap_or(0));
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(context, top) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxPushCurrent_v2(context: Handle) -> Code {
    call(|driver| {
        driver.context(context)?;
        CURRENT.with_borrow_mut(|stack| stack.push(context));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut Handle) -> Code {
    call(|_| {
        let top = CURRENT.with_borrow_mut(Vec::pop).ok_or(INVALID_CONTEXT)?;
        if context.is_null() {
            return Ok(());
        }
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(context, top) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> Code {
    call(|driver| {
        let context = driver.current()?;
        let ordinal = driver.context(context)?.ordinal;
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(device, ordinal as c_int) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetApiVersion(context: Handle, version: *mut c_uint) -> Code {
    call(|driver| {
        if context != 0 {
            driver.context(context)?;
        }
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(version, 3020) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSetFlags(_flags: c_uint) -> Code {
    call_in_context(|_, _| Ok(()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSynchronize() -> Code {
    call_in_context(|driver, context| {
        driver.drain(|other| other == context);
        driver.healthy(context)
    })
}

/// The number of limits that the interface defines.
const LIMITS: c_uint = 7;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetLimit(value: *mut usize, limit: c_uint) -> Code {
    call_in_context(|driver, context| {
        if limit >= LIMITS {
            return Err(UNSUPPORTED_LIMIT);
        }
        let default = [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0][limit as usize];
        let found = driver.context(context)?.limits.get(&limit).copied().unwrap_or(default);
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(value, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSetLimit(limit: c_uint, value: usize) -> Code {
    call_in_context(|driver, context| {
        if limit >= LIMITS {
            return Err(UNSUPPORTED_LIMIT);
        }
        driver.context(context)?.limits.insert(limit, value);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCacheConfig(config: *mut c_uint) -> Code {
    call_in_context(|driver, context| {
        let found = driver.context(context)?.cache;
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(config, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSetCacheConfig(config: c_uint) -> Code {
    call_in_context(|driver, context| {
        if config > 3 {
            return Err(INVALID_VALUE);
        }
        driver.context(context)?.cache = config;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> Code {
    call_in_context(|_, _| {
        for (to, value) in [(least, 0), (greatest, -5)] {
            if !to.is_null() {
                // SAFETY: the interface requires a pointer that is null or valid for a write.
                unsafe { put(to, value)? };
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxEnablePeerAccess(peer: Handle, _flags: c_uint) -> Code {
    call_in_context(|driver, _| {
        driver.context(peer)?;
        Err(PEER_ACCESS_UNSUPPORTED)
    })
}
