//! Initialisation, devices and their attributes.

use crate::{
    state::{Handle, call, initialise, put},
    status::{Code, INVALID_VALUE, SUCCESS},
};
use std::ffi::{c_char, c_int, c_uint};

/// The version of the emulated driver: CUDA 12.6.
const DRIVER_VERSION: c_int = 12060;
const NAME: &str = "samebits PTX emulator (emulated device)";

pub(crate) const MAX_THREADS: u32 = 1024;
/// The shared memory of a block, by default and with the opt-in attribute.
pub(crate) const SHARED_PER_BLOCK: u32 = 48 << 10;
pub(crate) const SHARED_OPT_IN: u32 = 163 << 10;
pub(crate) const SHARED_PER_SM: u32 = 164 << 10;
pub(crate) const THREADS_PER_SM: u32 = 2048;
pub(crate) const BLOCKS_PER_SM: u32 = 32;
pub(crate) const MULTIPROCESSORS: u32 = 4;
/// The compute capability that the device reports.
pub(crate) const CAPABILITY: (u32, u32) = (8, 0);

#[unsafe(no_mangle)]
unsafe extern "C" fn cuInit(flags: c_uint) -> Code {
    if flags != 0 { INVALID_VALUE } else { initialise() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    match unsafe { put(version, DRIVER_VERSION) } {
        Ok(()) => SUCCESS,
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    call(|driver| unsafe { put(count, driver.devices.len() as c_int) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Code {
    call(|driver| {
        driver.device(ordinal)?;
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(device, ordinal) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> Code {
    call(|driver| {
        driver.device(device)?;
        let len = usize::try_from(len).unwrap_or(0);
        if name.is_null() || len == 0 {
            return Err(INVALID_VALUE);
        }
        let kept = NAME.len().min(len - 1);
        // SAFETY: the interface requires room for `len` bytes at `name`; `kept` and a terminator
        // fit, and the two do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(NAME.as_ptr().cast(), name, kept);
            name.add(kept).write(0);
        }
        Ok(())
    })
}

/// # Safety
///
/// `uuid` is null or valid for a write.
unsafe fn uuid_out(uuid: *mut [u8; 16], device: c_int) -> Code {
    call(|driver| {
        driver.device(device)?;
        let mut value = *b"samebits-ptx-emu";
        value[15] = device as u8;
        // SAFETY: the caller guarantees it.
        unsafe { put(uuid, value) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write of 16 bytes.
    unsafe { uuid_out(uuid, device) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write of 16 bytes.
    unsafe { uuid_out(uuid, device) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> Code {
    call(|driver| {
        let (_, total) = driver.device(device)?.device.memory_info();
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(bytes, total as usize) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceComputeCapability(
    major: *mut c_int,
    minor: *mut c_int,
    device: c_int,
) -> Code {
    call(|driver| {
        driver.device(device)?;
        // SAFETY: the interface requires pointers that are null or valid for a write.
        unsafe {
            put(major, CAPABILITY.0 as c_int)?;
            put(minor, CAPABILITY.1 as c_int)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_uint,
    device: c_int,
) -> Code {
    call(|driver| {
        driver.device(device)?;
        let found = self::attribute(attribute).ok_or(INVALID_VALUE)?;
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(value, found as c_int) }
    })
}

/// Returns the value of a `CUdevice_attribute`. Texture sizes and other features that this device
/// lacks are zero.
fn attribute(attribute: c_uint) -> Option<u32> {
    Some(match attribute {
        // Block and grid dimensions.
        1..=3 => MAX_THREADS,
        4 => 64,
        5 => i32::MAX as u32,
        6 | 7 => 65535,
        8 => SHARED_PER_BLOCK,
        // Constant memory.
        9 => 64 << 10,
        // Warp size.
        10 => 32,
        // Pitch, registers per block and per multiprocessor.
        11 => i32::MAX as u32,
        12 | 82 => 64 << 10,
        // Clock rates in kHz: invented numbers.
        13 | 36 => 1_000_000,
        14 => 512,
        16 => MULTIPROCESSORS,
        // Concurrent kernels, and several other features that every device has.
        31 | 41 | 78 | 79 | 80 => 1,
        // Bus width and level-2 cache.
        37 => 256,
        38 => 4 << 20,
        39 => THREADS_PER_SM,
        75 => CAPABILITY.0,
        76 => CAPABILITY.1,
        81 => SHARED_PER_SM,
        97 => SHARED_OPT_IN,
        106 => BLOCKS_PER_SM,
        // Reserved shared memory.
        111 => 1024,
        // Memory pools.
        115 => 1,
        0 | 120.. => return None,
        _ => 0,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut Handle, device: c_int) -> Code {
    call(|driver| {
        let found = driver.device(device)?.default_pool;
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(pool, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetMemPool(pool: *mut Handle, device: c_int) -> Code {
    call(|driver| {
        let found = driver.device(device)?.pool;
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(pool, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceSetMemPool(device: c_int, pool: Handle) -> Code {
    call(|driver| {
        if driver.pools.get(&pool).is_none_or(|state| state.ordinal as c_int != device) {
            return Err(INVALID_VALUE);
        }
        driver.device(device)?.pool = pool;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, a: c_int, b: c_int) -> Code {
    call(|driver| {
        driver.device(a)?;
        driver.device(b)?;
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(can, 0) }
    })
}
