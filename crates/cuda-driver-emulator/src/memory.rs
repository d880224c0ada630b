//! Allocation, copies and fills.

use crate::{
    queue::{HostAddress, Work},
    state::{Allocation, Driver, Handle, Outcome, call, call_in_context, call_on_stream, put},
    status::{Code, INVALID_HANDLE, INVALID_VALUE, NOT_FOUND, OUT_OF_MEMORY, from_error, report},
};
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ffi::{c_uchar, c_uint, c_ushort, c_void},
    slice,
};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, size: usize) -> Code {
    call_in_context(|driver, context| {
        if size == 0 || address.is_null() {
            return Err(INVALID_VALUE);
        }
        let size = size as u64;
        let found = driver.reserve(context, None, size)?;
        driver.device_of(context)?.place(found, size).map_err(|error| from_error(&error))?;
        driver.context(context)?.placed.insert(found);
        driver.allocations.insert(found, Allocation { size, context });
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(address, found) }
    })
}

/// Allocates in the order of a stream: the address is known at once, and the memory exists when the
/// stream reaches the allocation.
///
/// # Safety
///
/// `address` is null or valid for a write.
pub(crate) unsafe fn allocate(
    driver: &mut Driver,
    context: Handle,
    stream: Handle,
    address: *mut u64,
    size: usize,
) -> Outcome {
    if size == 0 || address.is_null() {
        return Err(INVALID_VALUE);
    }
    let size = size as u64;
    let found = driver.reserve(context, Some(stream), size)?;
    driver.allocations.insert(found, Allocation { size, context });
    driver.state_of(context)?.promised += size;
    driver.enqueue(stream, Work::Place { address: found, size });
    // SAFETY: the caller guarantees it.
    unsafe { put(address, found) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, size: usize, stream: Handle) -> Code {
    call_on_stream(stream, |driver, stream, context| {
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { allocate(driver, context, stream, address, size) }
    })
}

/// Removes an allocation from those that the program owns.
fn disown(driver: &mut Driver, address: u64) -> Outcome<Allocation> {
    driver.allocations.remove(&address).ok_or_else(|| {
        report(INVALID_VALUE, &format!("no allocation starts at {address:#x}, or it is freed"));
        INVALID_VALUE
    })
}

/// Frees at once: queued work that still uses the memory finds it gone.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFree_v2(address: u64) -> Code {
    call_in_context(|driver, _| {
        if address == 0 {
            return Ok(());
        }
        let Allocation { context, .. } = disown(driver, address)?;
        if !driver.context(context)?.placed.contains(&address) {
            // For an allocation in a stream that has not reached it.
            driver.drain(|other| other == context);
            driver.healthy(context)?;
        }
        let ticket = driver.handle();
        let state = driver.state_of(context)?;
        state.device.free(address).map_err(|error| from_error(&error))?;
        let room = state.room(address);
        state.spare.put(room, address, ticket);
        driver.context(context)?.placed.remove(&address);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeAsync(address: u64, stream: Handle) -> Code {
    call_on_stream(stream, |driver, stream, context| {
        if address == 0 {
            return Ok(());
        }
        let found = driver.allocations.get(&address);
        if found.is_some_and(|found| found.context != context) {
            report(INVALID_VALUE, "memory is freed in a stream of another context");
            return Err(INVALID_VALUE);
        }
        disown(driver, address)?;
        let (room, ticket) = (driver.state_of(context)?.room(address), driver.handle());
        driver.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?.spare.put(room, address, ticket);
        driver.enqueue(stream, Work::Free { address, ticket });
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(available: *mut usize, total: *mut usize) -> Code {
    call_in_context(|driver, context| {
        let state = driver.state_of(context)?;
        let (used, capacity) = state.device.memory_info();
        let used = (used + state.promised).min(capacity);
        // SAFETY: the interface requires pointers that are null or valid for a write.
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
        let (start, len) = driver.allocation(address).ok_or(NOT_FOUND)?;
        // Either result may be omitted.
        for (to, value) in [(base, start), (size.cast::<u64>(), len)] {
            if !to.is_null() {
                // SAFETY: the interface requires pointers that are null or valid for a write, and a
                // size has 64 bits on every supported platform.
                unsafe { put(to, value)? };
            }
        }
        Ok(())
    })
}

/// Allocates page-locked host memory, which here is ordinary memory.
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
        driver.host.insert(found.expose_provenance(), layout);
        // SAFETY: not null, so the caller guarantees that it is valid.
        unsafe { put(memory, found.cast()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(memory: *mut *mut c_void, size: usize, _flags: c_uint) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    unsafe { host_allocate(memory, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocHost_v2(memory: *mut *mut c_void, size: usize) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    unsafe { host_allocate(memory, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(memory: *mut c_void) -> Code {
    call(|driver| {
        let layout = driver.host.remove(&memory.addr()).ok_or(INVALID_VALUE)?;
        // Copies from and to it complete first, as in the driver.
        driver.drain(|_| true);
        // SAFETY: the table holds exactly the addresses that `alloc_zeroed` returned with this
        // layout and that have not been freed.
        unsafe { dealloc(memory.cast(), layout) };
        Ok(())
    })
}

impl Driver {
    /// Returns true if a range of host memory is page-locked.
    fn pinned(&self, address: HostAddress, size: usize) -> bool {
        let found = self.host.range(..=address).next_back();
        found.is_some_and(|(&base, layout)| address - base + size <= layout.size())
    }
}

/// Copies to the device. Ordinary memory is staged: it may change as soon as the call returns.
/// Page-locked memory is read when the stream reaches the copy.
///
/// # Safety
///
/// `from` is valid for reads of `size` bytes, unless `size` is zero; page-locked memory until the
/// copy is done.
unsafe fn upload(
    driver: &mut Driver,
    stream: Handle,
    to: u64,
    from: *const c_void,
    size: usize,
) -> Outcome {
    if size == 0 {
        return Ok(());
    }
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    driver.accessible(to, size as u64)?;
    let address = from.expose_provenance();
    let work = if driver.pinned(address, size) {
        Work::UploadPinned { to, from: address, size }
    } else {
        // SAFETY: the caller guarantees it; bytes have no alignment and no invalid values.
        let bytes = unsafe { slice::from_raw_parts(from.cast::<u8>(), size) };
        Work::Upload { to, bytes: bytes.to_vec() }
    };
    driver.enqueue(stream, work);
    Ok(())
}

/// Copies to the host when the stream reaches the copy. Until then the destination holds a pattern,
/// so that a program which reads too early does not get plausible old data.
///
/// # Safety
///
/// `to` is valid for writes of `size` bytes until the copy is done, unless `size` is zero.
unsafe fn download(
    driver: &mut Driver,
    stream: Handle,
    to: *mut c_void,
    from: u64,
    size: usize,
) -> Outcome {
    if size == 0 {
        return Ok(());
    }
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    driver.accessible(from, size as u64)?;
    // SAFETY: the caller guarantees it.
    unsafe { to.cast::<u8>().write_bytes(NOT_YET, size) };
    driver.enqueue(stream, Work::Download { to: to.expose_provenance(), from, size });
    Ok(())
}

/// The pattern in the destination of a copy until the copy is done.
const NOT_YET: u8 = 0xee;

fn copy(driver: &mut Driver, stream: Handle, to: u64, from: u64, size: usize) -> Outcome {
    if size == 0 {
        return Ok(());
    }
    driver.accessible(to, size as u64)?;
    driver.accessible(from, size as u64)?;
    driver.enqueue(stream, Work::Copy { to, from, size });
    Ok(())
}

fn fill(driver: &mut Driver, stream: Handle, to: u64, pattern: &[u8], count: usize) -> Outcome {
    let size = (count as u64).checked_mul(pattern.len() as u64).ok_or(INVALID_VALUE)?;
    if size == 0 {
        return Ok(());
    }
    if !to.is_multiple_of(pattern.len() as u64) {
        return Err(INVALID_VALUE);
    }
    driver.accessible(to, size)?;
    driver.enqueue(stream, Work::Fill { to, size, pattern: pattern.to_vec() });
    Ok(())
}

/// Runs a call that works in the legacy stream of the current context.
fn in_legacy(body: impl FnOnce(&mut Driver, Handle) -> Outcome) -> Code {
    call_in_context(|driver, context| {
        let stream = driver.context(context)?.legacy;
        body(driver, stream)
    })
}

/// Runs a call that works in the legacy stream, and waits for it.
fn blocking(body: impl FnOnce(&mut Driver, Handle) -> Outcome) -> Code {
    call_in_context(|driver, context| {
        let stream = driver.context(context)?.legacy;
        body(driver, stream)?;
        driver.reach(driver.tail(stream));
        driver.healthy(context)
    })
}

/// Runs a call that works in a stream, which may belong to another context than the current one:
/// addresses determine the memory.
fn in_stream(stream: Handle, body: impl FnOnce(&mut Driver, Handle) -> Outcome) -> Code {
    call_in_context(|driver, _| {
        let stream = driver.stream(stream)?;
        let context = driver.streams.get(&stream).ok_or(INVALID_HANDLE)?.context;
        driver.healthy(context)?;
        body(driver, stream)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, size: usize) -> Code {
    // SAFETY: the interface requires `size` readable bytes at `from`.
    blocking(|driver, stream| unsafe { upload(driver, stream, to, from, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    size: usize,
    stream: Handle,
) -> Code {
    // SAFETY: the interface requires `size` readable bytes at `from`, until the copy is done if
    // they are page-locked.
    in_stream(stream, |driver, stream| unsafe { upload(driver, stream, to, from, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, size: usize) -> Code {
    // SAFETY: the interface requires `size` writable bytes at `to`.
    blocking(|driver, stream| unsafe { download(driver, stream, to, from, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    size: usize,
    stream: Handle,
) -> Code {
    // SAFETY: the interface requires `size` writable bytes at `to` until the copy is done.
    in_stream(stream, |driver, stream| unsafe { download(driver, stream, to, from, size) })
}

/// Queues a copy between two places of a device, without waiting.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, size: usize) -> Code {
    in_legacy(|driver, stream| copy(driver, stream, to, from, size))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: usize, stream: Handle) -> Code {
    in_stream(stream, |driver, stream| copy(driver, stream, to, from, size))
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
    in_stream(stream, |driver, stream| {
        for (address, context) in [(to, to_context), (from, from_context)] {
            if size > 0 && !driver.device_of(context)?.owns(address) {
                report(INVALID_VALUE, &format!("{address:#x} is not of the context named for it"));
                return Err(INVALID_VALUE);
            }
        }
        copy(driver, stream, to, from, size)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8_v2(to: u64, value: c_uchar, count: usize) -> Code {
    in_legacy(|driver, stream| fill(driver, stream, to, &[value], count))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8Async(
    to: u64,
    value: c_uchar,
    count: usize,
    stream: Handle,
) -> Code {
    in_stream(stream, |driver, stream| fill(driver, stream, to, &[value], count))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD16_v2(to: u64, value: c_ushort, count: usize) -> Code {
    in_legacy(|driver, stream| fill(driver, stream, to, &value.to_le_bytes(), count))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD16Async(
    to: u64,
    value: c_ushort,
    count: usize,
    stream: Handle,
) -> Code {
    in_stream(stream, |driver, stream| fill(driver, stream, to, &value.to_le_bytes(), count))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD32_v2(to: u64, value: c_uint, count: usize) -> Code {
    in_legacy(|driver, stream| fill(driver, stream, to, &value.to_le_bytes(), count))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD32Async(
    to: u64,
    value: c_uint,
    count: usize,
    stream: Handle,
) -> Code {
    in_stream(stream, |driver, stream| fill(driver, stream, to, &value.to_le_bytes(), count))
}
