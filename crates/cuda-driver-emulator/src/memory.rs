//! Allocation, copies and fills.

use crate::{
    state::{Driver, Handle, Outcome, call, call_in_context, put},
    status::{Code, INVALID_VALUE, OUT_OF_MEMORY, from_error},
};
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ffi::{c_uchar, c_uint, c_ushort, c_void},
    slice,
};

/// # Safety
///
/// `address` is null or valid for a write.
pub(crate) unsafe fn allocate(
    driver: &mut Driver,
    context: Handle,
    address: *mut u64,
    size: usize,
) -> Outcome {
    if size == 0 {
        return Err(INVALID_VALUE);
    }
    let device = driver.device_of(context)?;
    let found = device.alloc(size as u64).map_err(|error| from_error(&error))?;
    driver.context(context)?.allocations.insert(found);
    // SAFETY: the caller's promise.
    unsafe { put(address, found) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, size: usize) -> Code {
    // SAFETY: the interface demands a pointer that is null or valid for a write.
    call_in_context(|driver, context| unsafe { allocate(driver, context, address, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, size: usize, stream: Handle) -> Code {
    call_in_context(|driver, context| {
        driver.stream(stream)?;
        // SAFETY: the interface demands a pointer that is null or valid for a write.
        unsafe { allocate(driver, context, address, size) }
    })
}

fn free(driver: &mut Driver, address: u64) -> Outcome {
    if address == 0 {
        return Ok(());
    }
    driver.owner(address)?.free(address).map_err(|error| from_error(&error))?;
    for context in driver.contexts.values_mut() {
        context.allocations.remove(&address);
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFree_v2(address: u64) -> Code {
    call_in_context(|driver, _| free(driver, address))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeAsync(address: u64, stream: Handle) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        free(driver, address)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(available: *mut usize, total: *mut usize) -> Code {
    call_in_context(|driver, context| {
        let (used, capacity) = driver.device_of(context)?.memory_info();
        // SAFETY: the interface demands pointers that are null or valid for a write.
        unsafe {
            put(available, (capacity - used) as usize)?;
            put(total, capacity as usize)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetAddressRange_v2(
    base: *mut u64,
    size: *mut usize,
    address: u64,
) -> Code {
    call_in_context(|driver, _| {
        let range = driver.owner(address)?.allocation(address);
        let (start, len) = range.ok_or(crate::status::NOT_FOUND)?;
        // Either result may be left out.
        for (to, value) in [(base, start), (size.cast::<u64>(), len)] {
            if !to.is_null() {
                // SAFETY: the interface demands pointers that are null or valid for a write, and
                // a size has 64 bits on every platform that this library serves.
                unsafe { put(to, value)? };
            }
        }
        Ok(())
    })
}

/// Page-locked host memory, which here is ordinary memory.
///
/// # Safety
///
/// `memory` is null or valid for a write.
unsafe fn host_allocate(memory: *mut *mut c_void, size: usize) -> Code {
    call_in_context(|driver, _| {
        let layout = Layout::from_size_align(size, 4096).map_err(|_| INVALID_VALUE)?;
        if size == 0 || memory.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the size is not zero.
        let found = unsafe { alloc_zeroed(layout) };
        if found.is_null() {
            return Err(OUT_OF_MEMORY);
        }
        driver.host.insert(found as usize, layout);
        // SAFETY: not null, and so valid by the caller's promise.
        unsafe { put(memory, found.cast()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(memory: *mut *mut c_void, size: usize, _flags: c_uint) -> Code {
    // SAFETY: the interface demands a pointer that is null or valid for a write.
    unsafe { host_allocate(memory, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocHost_v2(memory: *mut *mut c_void, size: usize) -> Code {
    // SAFETY: the interface demands a pointer that is null or valid for a write.
    unsafe { host_allocate(memory, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(memory: *mut c_void) -> Code {
    call(|driver| {
        let layout = driver.host.remove(&(memory as usize)).ok_or(INVALID_VALUE)?;
        // SAFETY: the table holds exactly what `alloc_zeroed` returned with this layout and has
        // not been given back.
        unsafe { dealloc(memory.cast(), layout) };
        Ok(())
    })
}

/// # Safety
///
/// `from` is valid for reads of `size` bytes, unless `size` is zero.
unsafe fn upload(driver: &mut Driver, to: u64, from: *const c_void, size: usize) -> Outcome {
    if size == 0 {
        return Ok(());
    }
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's promise; bytes have no alignment and no invalid values.
    let bytes = unsafe { slice::from_raw_parts(from.cast::<u8>(), size) };
    driver.owner(to)?.write(to, bytes).map_err(|error| from_error(&error))
}

/// # Safety
///
/// `to` is valid for writes of `size` bytes, unless `size` is zero.
unsafe fn download(driver: &mut Driver, to: *mut c_void, from: u64, size: usize) -> Outcome {
    if size == 0 {
        return Ok(());
    }
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let device = driver.owner(from)?;
    // The destination may be uninitialised memory, so no reference to it is made before it is
    // written.
    let mut bytes = vec![0; size];
    device.read(from, &mut bytes).map_err(|error| from_error(&error))?;
    // SAFETY: the caller's promise, and fresh memory overlaps nothing.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), size) };
    Ok(())
}

fn copy(driver: &mut Driver, to: u64, from: u64, size: usize) -> Outcome {
    if size == 0 {
        return Ok(());
    }
    if driver.owner(to)?.owns(from) {
        let device = driver.owner(to)?;
        return device.copy(to, from, size as u64).map_err(|error| from_error(&error));
    }
    let mut bytes = vec![0; size];
    driver.owner(from)?.read(from, &mut bytes).map_err(|error| from_error(&error))?;
    driver.owner(to)?.write(to, &bytes).map_err(|error| from_error(&error))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, size: usize) -> Code {
    // SAFETY: the interface demands `size` readable bytes at `from`.
    call_in_context(|driver, _| unsafe { upload(driver, to, from, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    size: usize,
    stream: Handle,
) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        // SAFETY: the interface demands `size` readable bytes at `from`.
        unsafe { upload(driver, to, from, size) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, size: usize) -> Code {
    // SAFETY: the interface demands `size` writable bytes at `to`.
    call_in_context(|driver, _| unsafe { download(driver, to, from, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    size: usize,
    stream: Handle,
) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        // SAFETY: the interface demands `size` writable bytes at `to`.
        unsafe { download(driver, to, from, size) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, size: usize) -> Code {
    call_in_context(|driver, _| copy(driver, to, from, size))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: usize, stream: Handle) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        copy(driver, to, from, size)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    to_context: Handle,
    from: u64,
    from_context: Handle,
    size: usize,
    stream: Handle,
) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        driver.context(to_context)?;
        driver.context(from_context)?;
        copy(driver, to, from, size)
    })
}

fn fill(driver: &mut Driver, to: u64, pattern: &[u8], count: usize) -> Outcome {
    let size = (count as u64).checked_mul(pattern.len() as u64).ok_or(INVALID_VALUE)?;
    if size == 0 {
        return Ok(());
    }
    if !to.is_multiple_of(pattern.len() as u64) {
        return Err(INVALID_VALUE);
    }
    driver.owner(to)?.fill(to, size, pattern).map_err(|error| from_error(&error))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8_v2(to: u64, value: c_uchar, count: usize) -> Code {
    call_in_context(|driver, _| fill(driver, to, &[value], count))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8Async(
    to: u64,
    value: c_uchar,
    count: usize,
    stream: Handle,
) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        fill(driver, to, &[value], count)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD16_v2(to: u64, value: c_ushort, count: usize) -> Code {
    call_in_context(|driver, _| fill(driver, to, &value.to_le_bytes(), count))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD16Async(
    to: u64,
    value: c_ushort,
    count: usize,
    stream: Handle,
) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        fill(driver, to, &value.to_le_bytes(), count)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD32_v2(to: u64, value: c_uint, count: usize) -> Code {
    call_in_context(|driver, _| fill(driver, to, &value.to_le_bytes(), count))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD32Async(
    to: u64,
    value: c_uint,
    count: usize,
    stream: Handle,
) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        fill(driver, to, &value.to_le_bytes(), count)
    })
}
