//! Streams and events. Every operation is complete when its call returns.

use crate::{
    state::{EventState, Handle, StreamState, call, call_in_context, put},
    status::{Code, INVALID_HANDLE, INVALID_VALUE, SUCCESS},
};
use std::{
    ffi::{c_int, c_uint, c_void},
    time::Instant,
};

/// `CU_EVENT_DISABLE_TIMING`
const DISABLE_TIMING: c_uint = 2;

/// # Safety
///
/// `stream` is null or valid for a write.
unsafe fn create(stream: *mut Handle, flags: c_uint, priority: c_int) -> Code {
    call_in_context(|driver, context| {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        let handle = driver.handle();
        let priority = priority.clamp(-5, 0);
        driver.streams.insert(handle, StreamState { context, flags, priority });
        // SAFETY: the caller's promise.
        unsafe { put(stream, handle) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, flags: c_uint) -> Code {
    // SAFETY: the interface demands a pointer that is null or valid for a write.
    unsafe { create(stream, flags, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreateWithPriority(
    stream: *mut Handle,
    flags: c_uint,
    priority: c_int,
) -> Code {
    // SAFETY: the interface demands a pointer that is null or valid for a write.
    unsafe { create(stream, flags, priority) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Code {
    call(|driver| driver.streams.remove(&stream).map(|_| ()).ok_or(INVALID_HANDLE))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamSynchronize(stream: Handle) -> Code {
    call_in_context(|driver, _| driver.stream(stream))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamQuery(stream: Handle) -> Code {
    call_in_context(|driver, _| driver.stream(stream))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetCtx(stream: Handle, context: *mut Handle) -> Code {
    call_in_context(|driver, current| {
        driver.stream(stream)?;
        let found = driver.streams.get(&stream).map_or(current, |state| state.context);
        // SAFETY: the interface demands a pointer that is null or valid for a write.
        unsafe { put(context, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetFlags(stream: Handle, flags: *mut c_uint) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        let found = driver.streams.get(&stream).map_or(0, |state| state.flags);
        // SAFETY: the interface demands a pointer that is null or valid for a write.
        unsafe { put(flags, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetPriority(stream: Handle, priority: *mut c_int) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        let found = driver.streams.get(&stream).map_or(0, |state| state.priority);
        // SAFETY: the interface demands a pointer that is null or valid for a write.
        unsafe { put(priority, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        if driver.events.contains_key(&event) { Ok(()) } else { Err(INVALID_HANDLE) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamIsCapturing(stream: Handle, status: *mut c_uint) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        // SAFETY: the interface demands a pointer that is null or valid for a write.
        unsafe { put(status, 0) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchHostFunc(
    stream: Handle,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> Code {
    let checked = call_in_context(|driver, _| driver.stream(stream));
    let Some(function) = function else { return INVALID_VALUE };
    if checked == SUCCESS {
        // SAFETY: the interface demands a function that may be called with `data` at any time
        // after this call begins. The driver is not locked here.
        unsafe { function(data) };
    }
    checked
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut Handle, flags: c_uint) -> Code {
    call_in_context(|driver, _| {
        if flags > 7 {
            return Err(INVALID_VALUE);
        }
        let handle = driver.handle();
        let timed = flags & DISABLE_TIMING == 0;
        driver.events.insert(handle, EventState { timed, recorded: None });
        // SAFETY: the interface demands a pointer that is null or valid for a write.
        unsafe { put(event, handle) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(event: Handle) -> Code {
    call(|driver| driver.events.remove(&event).map(|_| ()).ok_or(INVALID_HANDLE))
}

fn record(event: Handle, stream: Handle) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        driver.events.get_mut(&event).ok_or(INVALID_HANDLE)?.recorded = Some(Instant::now());
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Code {
    record(event, stream)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: c_uint) -> Code {
    record(event, stream)
}

fn exists(event: Handle) -> Code {
    call_in_context(|driver, _| match driver.events.contains_key(&event) {
        true => Ok(()),
        false => Err(INVALID_HANDLE),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventQuery(event: Handle) -> Code {
    exists(event)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventSynchronize(event: Handle) -> Code {
    exists(event)
}

/// # Safety
///
/// `milliseconds` is null or valid for a write.
unsafe fn elapsed(milliseconds: *mut f32, start: Handle, end: Handle) -> Code {
    call_in_context(|driver, _| {
        let at = |event: Handle| {
            let state = driver.events.get(&event).ok_or(INVALID_HANDLE)?;
            if state.timed { state.recorded.ok_or(INVALID_HANDLE) } else { Err(INVALID_HANDLE) }
        };
        let (start, end) = (at(start)?, at(end)?);
        let time = end.saturating_duration_since(start).as_secs_f64() * 1e3;
        // SAFETY: the caller's promise.
        unsafe { put(milliseconds, time as f32) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(
    milliseconds: *mut f32,
    start: Handle,
    end: Handle,
) -> Code {
    // SAFETY: the interface demands a pointer that is null or valid for a write.
    unsafe { elapsed(milliseconds, start, end) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime_v2(
    milliseconds: *mut f32,
    start: Handle,
    end: Handle,
) -> Code {
    // SAFETY: the interface demands a pointer that is null or valid for a write.
    unsafe { elapsed(milliseconds, start, end) }
}
