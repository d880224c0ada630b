//! Launches and occupancy.

use crate::{
    devices::{BLOCKS_PER_SM, MAX_THREADS, MULTIPROCESSORS, SHARED_PER_SM, THREADS_PER_SM},
    queue::Work,
    state::{Driver, Handle, Outcome, call_in_context, put},
    status::{
        COOPERATIVE_LAUNCH_TOO_LARGE, Code, INVALID_HANDLE, INVALID_VALUE, LAUNCH_OUT_OF_RESOURCES,
        from_error, report,
    },
};
use samebits_ptx_emulator::{Device, EntryInfo, Launch};
use std::{
    ffi::{c_int, c_uint, c_void},
    slice,
};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: Handle,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Code {
    let launch = Launch {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        dynamic_shared: shared,
    };
    call_in_context(|driver, context| {
        // SAFETY: the interface requires one valid pointer per parameter in `params`, or a list of
        // options in `extra`.
        let bytes = unsafe { parameters(driver, function, params, extra)? };
        run(driver, context, function, launch, stream, bytes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchCooperativeKernel(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: Handle,
    params: *mut *mut c_void,
) -> Code {
    let launch = Launch {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        dynamic_shared: shared,
    };
    call_in_context(|driver, context| {
        // Blocks run one after another, so they cannot wait for each other.
        if launch.grid != [1, 1, 1] {
            report(COOPERATIVE_LAUNCH_TOO_LARGE, "the emulator's blocks do not run concurrently");
            return Err(COOPERATIVE_LAUNCH_TOO_LARGE);
        }
        // SAFETY: the interface requires one valid pointer per parameter in `params`.
        let bytes = unsafe { parameters(driver, function, params, std::ptr::null_mut())? };
        run(driver, context, function, launch, stream, bytes)
    })
}

/// Collects the parameter buffer.
///
/// # Safety
///
/// `params` is null or has a pointer to each parameter of the function; otherwise `extra` is null
/// or a list of options as the interface defines it.
unsafe fn parameters(
    driver: &Driver,
    function: Handle,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Outcome<Vec<u8>> {
    let state = driver.functions.get(&function).ok_or(INVALID_HANDLE)?;
    let module = driver.modules.get(&state.module).ok_or(INVALID_HANDLE)?;
    let info = module.loaded.entry(&state.name).ok_or(INVALID_HANDLE)?;
    let size = info.params.last().map_or(0, |last| last.offset + last.size) as usize;
    let mut bytes = vec![0; size];
    if size == 0 {
        return Ok(bytes);
    }
    if !params.is_null() {
        for (index, param) in info.params.iter().enumerate() {
            // SAFETY: the caller guarantees one pointer per parameter.
            let from = unsafe { params.add(index).read() };
            if from.is_null() {
                return Err(INVALID_VALUE);
            }
            let (at, len) = (param.offset as usize, param.size as usize);
            // SAFETY: the same guarantee makes the pointer valid for the parameter's size.
            let value = unsafe { slice::from_raw_parts(from.cast::<u8>(), len) };
            bytes[at..at + len].copy_from_slice(value);
        }
        return Ok(bytes);
    }
    // CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END.
    let (mut buffer, mut len) = (std::ptr::null::<u8>(), 0);
    let mut at = 0;
    while !extra.is_null() && at < 8 {
        // SAFETY: the caller guarantees a list that ends in CU_LAUNCH_PARAM_END.
        match unsafe { extra.add(at).read() } as usize {
            0 => break,
            1 => {
                // SAFETY: the value follows its key.
                buffer = unsafe { extra.add(at + 1).read() }.cast::<u8>();
            }
            2 => {
                // SAFETY: the value follows its key; here it is a pointer to a size.
                len = unsafe { extra.add(at + 1).read().cast::<usize>().read() };
            }
            _ => return Err(INVALID_VALUE),
        }
        at += 2;
    }
    if buffer.is_null() || len != size {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the options guarantee `len` readable bytes at `buffer`.
    bytes.copy_from_slice(unsafe { slice::from_raw_parts(buffer, len) });
    Ok(bytes)
}

/// Checks a launch and queues it in its stream.
fn run(
    driver: &mut Driver,
    context: Handle,
    function: Handle,
    launch: Launch,
    stream: Handle,
    params: Vec<u8>,
) -> Outcome {
    let stream = driver.stream(stream)?;
    let state = driver.functions.get(&function).ok_or(INVALID_HANDLE)?;
    let module = driver.modules.get(&state.module).ok_or(INVALID_HANDLE)?;
    let of_stream = driver.streams.get(&stream).map(|stream| stream.context);
    if module.context != context || of_stream != Some(context) {
        let message = format!(
            "{}: the function, the stream and the current context are not of one context",
            state.name
        );
        report(INVALID_HANDLE, &message);
        return Err(INVALID_HANDLE);
    }
    if launch.dynamic_shared > state.max_dynamic {
        let (asked, allowed) = (launch.dynamic_shared, state.max_dynamic);
        let message = format!(
            "{}: {asked} bytes of dynamic shared memory, where the function's attribute \
             allows {allowed}",
            state.name
        );
        report(INVALID_VALUE, &message);
        return Err(INVALID_VALUE);
    }
    let (loaded, name) = (module.loaded.clone(), state.name.clone());
    Device::check(&loaded, &name, launch, &params).map_err(|error| from_error(&error))?;
    let threads: u32 = launch.block.iter().product();
    if let Some(most) = driver.config.most_threads(&name).filter(|&most| threads > most) {
        let message = format!("{name}: {threads} threads, but its registers allow only {most}");
        report(LAUNCH_OUT_OF_RESOURCES, &message);
        return Err(LAUNCH_OUT_OF_RESOURCES);
    }
    driver.enqueue(stream, Work::Launch { loaded, name, launch, params });
    // In blocking mode the launch is done, so its error is known.
    if driver.config.blocking { driver.healthy(context) } else { Ok(()) }
}

impl Driver {
    /// Returns the largest block size with which a kernel can be launched.
    pub(crate) fn max_threads(&self, name: &str, info: &EntryInfo) -> u32 {
        let declared = info.max_threads.unwrap_or(MAX_THREADS);
        declared.min(MAX_THREADS).min(self.config.most_threads(name).unwrap_or(MAX_THREADS))
    }
}

/// Returns the number of blocks that fit on one multiprocessor.
fn resident(driver: &Driver, function: Handle, threads: c_int, dynamic: usize) -> Outcome<u32> {
    let state = driver.functions.get(&function).ok_or(INVALID_HANDLE)?;
    let module = driver.modules.get(&state.module).ok_or(INVALID_HANDLE)?;
    let info = module.loaded.entry(&state.name).ok_or(INVALID_HANDLE)?;
    let threads = u32::try_from(threads).ok().filter(|&n| n > 0).ok_or(INVALID_VALUE)?;
    if threads > driver.max_threads(&state.name, &info) {
        return Ok(0);
    }
    let shared = u64::from(info.shared_bytes) + dynamic as u64;
    let by_shared = u64::from(SHARED_PER_SM) / shared.max(1);
    let by_threads = THREADS_PER_SM / threads.next_multiple_of(32);
    Ok(by_threads.min(BLOCKS_PER_SM).min(u32::try_from(by_shared).unwrap_or(u32::MAX)))
}

/// # Safety
///
/// `blocks` is null or valid for a write.
unsafe fn active(blocks: *mut c_int, function: Handle, threads: c_int, dynamic: usize) -> Code {
    call_in_context(|driver, _| {
        let found = resident(driver, function, threads, dynamic)?;
        // SAFETY: the caller guarantees it.
        unsafe { put(blocks, found as c_int) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    function: Handle,
    threads: c_int,
    dynamic: usize,
) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    unsafe { active(blocks, function, threads, dynamic) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: *mut c_int,
    function: Handle,
    threads: c_int,
    dynamic: usize,
    _flags: c_uint,
) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    unsafe { active(blocks, function, threads, dynamic) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuOccupancyAvailableDynamicSMemPerBlock(
    dynamic: *mut usize,
    function: Handle,
    blocks: c_int,
    _threads: c_int,
) -> Code {
    call_in_context(|driver, _| {
        let state = driver.functions.get(&function).ok_or(INVALID_HANDLE)?;
        let module = driver.modules.get(&state.module).ok_or(INVALID_HANDLE)?;
        let info = module.loaded.entry(&state.name).ok_or(INVALID_HANDLE)?;
        let blocks = u32::try_from(blocks).ok().filter(|&n| n > 0).ok_or(INVALID_VALUE)?;
        let found = (SHARED_PER_SM / blocks).saturating_sub(info.shared_bytes);
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(dynamic, found as usize) }
    })
}

type SharedOf = Option<unsafe extern "C" fn(c_int) -> usize>;

/// # Safety
///
/// The pointers are null or valid for a write, and the function may be called with any size.
unsafe fn potential(
    grid: *mut c_int,
    block: *mut c_int,
    function: Handle,
    shared_of: SharedOf,
    dynamic: usize,
    limit: c_int,
) -> Code {
    // The callback runs while the driver is unlocked.
    let most = if limit > 0 { (limit as u32).min(MAX_THREADS) } else { MAX_THREADS };
    let sizes = (1..=most / 32).rev().map(|warps| (warps * 32) as c_int);
    let candidates: Vec<(c_int, usize)> = sizes
        .map(|size| match shared_of {
            // SAFETY: the caller guarantees it.
            Some(shared_of) => (size, unsafe { shared_of(size) }),
            None => (size, dynamic),
        })
        .collect();
    call_in_context(|driver, _| {
        let (mut best, mut threads, mut count) = (0, 0, 0);
        for &(size, dynamic) in &candidates {
            let blocks = resident(driver, function, size, dynamic)?;
            if blocks * size as u32 > best {
                (best, threads, count) = (blocks * size as u32, size, blocks);
            }
        }
        // SAFETY: the caller guarantees it.
        unsafe {
            put(grid, (count * MULTIPROCESSORS) as c_int)?;
            put(block, threads)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuOccupancyMaxPotentialBlockSize(
    grid: *mut c_int,
    block: *mut c_int,
    function: Handle,
    shared_of: SharedOf,
    dynamic: usize,
    limit: c_int,
) -> Code {
    // SAFETY: the interface requires exactly this of its caller.
    unsafe { potential(grid, block, function, shared_of, dynamic, limit) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    grid: *mut c_int,
    block: *mut c_int,
    function: Handle,
    shared_of: SharedOf,
    dynamic: usize,
    limit: c_int,
    _flags: c_uint,
) -> Code {
    // SAFETY: the interface requires exactly this of its caller.
    unsafe { potential(grid, block, function, shared_of, dynamic, limit) }
}
