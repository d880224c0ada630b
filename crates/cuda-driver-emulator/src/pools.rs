//! Memory pools. Streams and devices keep freed memory, so a pool keeps nothing.

use crate::{
    memory::allocate,
    state::{Handle, PoolState, call, call_on_stream, put},
    status::{Code, INVALID_VALUE},
};
use std::ffi::{c_int, c_uint, c_void};

/// The head of `CUmemPoolProps`: allocation type, handle types, location type and device.
#[repr(C)]
struct PoolProps {
    allocation: c_uint,
    handles: c_uint,
    location: c_uint,
    device: c_int,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolCreate(pool: *mut Handle, props: *const c_void) -> Code {
    call(|driver| {
        if props.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the interface requires a `CUmemPoolProps`, which begins with these fields.
        let props = unsafe { props.cast::<PoolProps>().read() };
        // Pinned memory on a device is the only kind.
        if props.allocation != 1 || props.handles != 0 || props.location != 1 {
            return Err(INVALID_VALUE);
        }
        driver.device(props.device)?;
        let handle = driver.handle();
        let state = PoolState { ordinal: props.device as usize, ..PoolState::default() };
        driver.pools.insert(handle, state);
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(pool, handle) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolDestroy(pool: Handle) -> Code {
    call(|driver| {
        if driver.devices.iter().any(|device| device.default_pool == pool) {
            return Err(INVALID_VALUE);
        }
        driver.pools.remove(&pool).ok_or(INVALID_VALUE)?;
        for device in &mut driver.devices {
            if device.pool == pool {
                device.pool = device.default_pool;
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolTrimTo(pool: Handle, _keep: usize) -> Code {
    call(|driver| driver.pools.get(&pool).map(|_| ()).ok_or(INVALID_VALUE))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolGetAttribute(
    pool: Handle,
    attribute: c_uint,
    value: *mut c_void,
) -> Code {
    call(|driver| {
        let state = driver.pools.get(&pool).ok_or(INVALID_VALUE)?;
        let ordinal = state.ordinal;
        let stored = state.attributes.get(&attribute).copied();
        let (used, _) = driver.devices[ordinal].device.memory_info();
        match attribute {
            // SAFETY: the interface requires a pointer to an int for the first three attributes.
            1..=3 => unsafe { put(value.cast::<c_int>(), stored.unwrap_or(1) as c_int) },
            // SAFETY: the interface requires a pointer to 64 bits for the others.
            4 => unsafe { put(value.cast::<u64>(), stored.unwrap_or(0)) },
            // SAFETY: as above.
            5..=8 => unsafe { put(value.cast::<u64>(), used) },
            _ => Err(INVALID_VALUE),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolSetAttribute(
    pool: Handle,
    attribute: c_uint,
    value: *mut c_void,
) -> Code {
    call(|driver| {
        let state = driver.pools.get_mut(&pool).ok_or(INVALID_VALUE)?;
        if value.is_null() {
            return Err(INVALID_VALUE);
        }
        let value = match attribute {
            // SAFETY: the interface requires a pointer to an int for the first three attributes.
            1..=3 => u64::from(unsafe { value.cast::<c_uint>().read() }),
            // SAFETY: the interface requires a pointer to 64 bits for the others.
            4 | 6 | 8 => unsafe { value.cast::<u64>().read() },
            _ => return Err(INVALID_VALUE),
        };
        state.attributes.insert(attribute, value);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocFromPoolAsync(
    address: *mut u64,
    size: usize,
    pool: Handle,
    stream: Handle,
) -> Code {
    call_on_stream(stream, |driver, stream, context| {
        driver.pools.get(&pool).ok_or(INVALID_VALUE)?;
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { allocate(driver, context, stream, address, size) }
    })
}
