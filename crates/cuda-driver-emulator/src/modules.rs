//! Modules, their functions and variables.

use crate::{
    devices::{CAPABILITY, SHARED_OPT_IN, SHARED_PER_BLOCK},
    state::{FunctionState, Handle, ModuleState, call, call_in_context, put},
    status::{
        Code, FILE_NOT_FOUND, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NO_BINARY_FOR_GPU,
        NOT_FOUND, UNSUPPORTED_PTX_VERSION, from_error, report,
    },
};
use samebits_ptx_emulator::Module;
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    fs,
};

/// The newest PTX ISA that this version of the driver reads.
const NEWEST_ISA: (u32, u32) = (8, 5);

fn load(image: &str, out: *mut Handle) -> Code {
    call_in_context(|driver, context| {
        let module = Module::parse_with(image, &driver.config.approximate)
            .map_err(|error| from_error(&error))?;
        if module.isa() > NEWEST_ISA {
            let (major, minor) = module.isa();
            report(UNSUPPORTED_PTX_VERSION, &format!("the PTX is of version {major}.{minor}"));
            return Err(UNSUPPORTED_PTX_VERSION);
        }
        let target = module.target().trim_start_matches("sm_");
        let number: u32 = target.trim_end_matches(['a', 'f']).parse().unwrap_or(u32::MAX);
        // A target that ends in a letter runs only on exactly that device.
        if number > 10 * CAPABILITY.0 + CAPABILITY.1 || target.ends_with(['a', 'f']) {
            report(NO_BINARY_FOR_GPU, &format!("the PTX is for {}", module.target()));
            return Err(NO_BINARY_FOR_GPU);
        }
        let loaded = driver.device_of(context)?.load(module).map_err(|error| from_error(&error))?;
        let handle = driver.handle();
        driver
            .modules
            .insert(handle, ModuleState { context, loaded, functions: Default::default() });
        // SAFETY: every caller guarantees a pointer that is null or valid for a write.
        unsafe { put(out, handle) }
    })
}

/// # Safety
///
/// `image` is null or the start of a text that ends in a zero byte.
unsafe fn load_data(module: *mut Handle, image: *const c_void) -> Code {
    if image.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null, so the caller guarantees a text.
    let image = unsafe { CStr::from_ptr(image.cast()) };
    match image.to_str() {
        Ok(text) if !text.starts_with('\x7f') && text.contains(".version") => load(text, module),
        _ => {
            report(INVALID_IMAGE, "the image is not PTX: binaries cannot be emulated");
            INVALID_IMAGE
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> Code {
    // SAFETY: the interface requires a zero-terminated text for PTX; a binary has a zero byte
    // within its header too.
    unsafe { load_data(module, image) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    _count: c_uint,
    _options: *mut c_uint,
    _values: *mut *mut c_void,
) -> Code {
    // SAFETY: as for `cuModuleLoadData`. The options are for a compiler, which does not exist here.
    unsafe { load_data(module, image) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoad(module: *mut Handle, path: *const c_char) -> Code {
    if path.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the interface requires a zero-terminated text.
    let path = unsafe { CStr::from_ptr(path) };
    match path.to_str().ok().and_then(|path| fs::read_to_string(path).ok()) {
        Some(text) => load(&text, module),
        None => FILE_NOT_FOUND,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(module: Handle) -> Code {
    call_in_context(|driver, context| {
        driver.module(module, context)?;
        driver.unload(module)
    })
}

/// # Safety
///
/// `text` is null or a zero-terminated text.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Code> {
    if text.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, so the caller guarantees a text.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| INVALID_VALUE)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> Code {
    call_in_context(|driver, context| {
        // SAFETY: the interface requires a zero-terminated text.
        let name = unsafe { text(name)? };
        let state = driver.module(module, context)?;
        let info = state.loaded.entry(name).ok_or_else(|| {
            report(NOT_FOUND, &format!("the module has no entry point {name}"));
            NOT_FOUND
        })?;
        let handle = match state.functions.get(name) {
            Some(&known) => known,
            None => {
                let handle = driver.handle();
                let max_dynamic = SHARED_PER_BLOCK.saturating_sub(info.shared_bytes);
                let fresh = FunctionState { module, name: name.to_owned(), max_dynamic };
                driver.functions.insert(handle, fresh);
                let state = driver.modules.get_mut(&module).ok_or(INVALID_HANDLE)?;
                state.functions.insert(name.to_owned(), handle);
                handle
            }
        };
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(function, handle) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetGlobal_v2(
    address: *mut u64,
    size: *mut usize,
    module: Handle,
    name: *const c_char,
) -> Code {
    call_in_context(|driver, context| {
        // SAFETY: the interface requires a zero-terminated text.
        let name = unsafe { text(name)? };
        let state = driver.module(module, context)?;
        let (start, len) = state.loaded.variable(name).ok_or(NOT_FOUND)?;
        if !address.is_null() {
            // SAFETY: the interface requires a pointer that is null or valid for a write.
            unsafe { put(address, start)? };
        }
        if !size.is_null() {
            // SAFETY: the interface requires a pointer that is null or valid for a write.
            unsafe { put(size, len as usize)? };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetModule(module: *mut Handle, function: Handle) -> Code {
    call(|driver| {
        let found = driver.functions.get(&function).ok_or(INVALID_HANDLE)?.module;
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(module, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetAttribute(
    value: *mut c_int,
    attribute: c_uint,
    function: Handle,
) -> Code {
    call_in_context(|driver, context| {
        let state = driver.functions.get(&function).ok_or(INVALID_HANDLE)?;
        let module = driver.module(state.module, context)?;
        let info = module.loaded.entry(&state.name).ok_or(INVALID_HANDLE)?;
        let (major, minor) = module.loaded.module().isa();
        let found = match attribute {
            0 => driver.max_threads(&state.name, &info),
            1 => info.shared_bytes,
            2 => info.const_bytes,
            3 => info.local_bytes,
            // Virtual registers are only a rough bound for the registers of a compiled kernel.
            4 => {
                driver.config.registers.get(&state.name).copied().unwrap_or(info.registers.min(255))
            }
            5 => 10 * major + minor,
            6 => 10 * CAPABILITY.0 + CAPABILITY.1,
            7 => 0,
            8 => state.max_dynamic,
            // No preference.
            9 => u32::MAX,
            _ => return Err(INVALID_VALUE),
        };
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(value, found as c_int) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncSetAttribute(function: Handle, attribute: c_uint, value: c_int) -> Code {
    call_in_context(|driver, context| {
        let state = driver.functions.get(&function).ok_or(INVALID_HANDLE)?;
        let module = driver.module(state.module, context)?;
        let info = module.loaded.entry(&state.name).ok_or(INVALID_HANDLE)?;
        match attribute {
            8 => {
                let asked = u32::try_from(value).map_err(|_| INVALID_VALUE)?;
                if asked > SHARED_OPT_IN.saturating_sub(info.shared_bytes) {
                    return Err(INVALID_VALUE);
                }
                let state = driver.functions.get_mut(&function).ok_or(INVALID_HANDLE)?;
                state.max_dynamic = asked;
                Ok(())
            }
            // The preferred division of a cache, which does not exist here.
            9 if (-1..=100).contains(&value) => Ok(()),
            _ => Err(INVALID_VALUE),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncSetCacheConfig(function: Handle, config: c_uint) -> Code {
    call_in_context(|driver, _| match driver.functions.contains_key(&function) {
        true if config <= 3 => Ok(()),
        true => Err(INVALID_VALUE),
        false => Err(INVALID_HANDLE),
    })
}
