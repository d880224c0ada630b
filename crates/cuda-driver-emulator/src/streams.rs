//! Streams and events.

use crate::{
    queue::{Mark, Work},
    state::{Driver, EventState, Handle, Outcome, call, call_in_context, put},
    status::{Code, INVALID_HANDLE, INVALID_VALUE, NOT_READY, report},
};
use std::ffi::{c_int, c_uint, c_void};

/// The flag `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: c_uint = 2;

/// # Safety
///
/// `stream` is null or valid for a write.
unsafe fn create(stream: *mut Handle, flags: c_uint, priority: c_int) -> Code {
    call_in_context(|driver, context| {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        let handle = driver.create_stream(context, flags == 0, priority.clamp(-5, 0));
        // SAFETY: the caller guarantees it.
        unsafe { put(stream, handle) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, flags: c_uint) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    unsafe { create(stream, flags, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreateWithPriority(
    stream: *mut Handle,
    flags: c_uint,
    priority: c_int,
) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    unsafe { create(stream, flags, priority) }
}

/// Destroys the handle; the stream is removed when its queue is empty.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Code {
    call(|driver| {
        let state = driver.streams.get_mut(&stream).filter(|state| !state.destroyed);
        let state = state.ok_or(INVALID_HANDLE)?;
        state.destroyed = true;
        if state.queue.is_empty() {
            driver.streams.remove(&stream);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamSynchronize(stream: Handle) -> Code {
    call_in_context(|driver, context| {
        let stream = driver.stream(stream)?;
        driver.reach(driver.tail(stream));
        let own = driver.streams.get(&stream).map_or(context, |state| state.context);
        driver.healthy(own)
    })
}

/// Returns success if a position is reached. Each query does one piece of work, so that polling
/// makes progress.
fn ready(driver: &mut Driver, mark: Mark, context: Handle) -> Outcome {
    if driver.reached(mark) {
        return driver.healthy(context);
    }
    driver.step(mark.stream);
    driver.healthy(context)?;
    Err(NOT_READY)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamQuery(stream: Handle) -> Code {
    call_in_context(|driver, context| {
        let stream = driver.stream(stream)?;
        ready(driver, driver.tail(stream), context)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetCtx(stream: Handle, context: *mut Handle) -> Code {
    call_in_context(|driver, current| {
        let stream = driver.stream(stream)?;
        let found = driver.streams.get(&stream).map_or(current, |state| state.context);
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(context, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetFlags(stream: Handle, flags: *mut c_uint) -> Code {
    call_in_context(|driver, _| {
        let stream = driver.stream(stream)?;
        let found = driver.streams.get(&stream).map_or(0, |state| c_uint::from(!state.blocking));
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(flags, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetPriority(stream: Handle, priority: *mut c_int) -> Code {
    call_in_context(|driver, _| {
        let stream = driver.stream(stream)?;
        let found = driver.streams.get(&stream).map_or(0, |state| state.priority);
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(priority, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) -> Code {
    call_in_context(|driver, _| {
        let stream = driver.stream(stream)?;
        // Waiting for an event that was never recorded does nothing.
        if let Some(mark) = driver.events.get(&event).ok_or(INVALID_HANDLE)?.mark {
            driver.enqueue(stream, Work::Wait(mark));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamIsCapturing(stream: Handle, status: *mut c_uint) -> Code {
    call_in_context(|driver, _| {
        driver.stream(stream)?;
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(status, 0) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchHostFunc(
    stream: Handle,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> Code {
    let Some(function) = function else { return INVALID_VALUE };
    call_in_context(|driver, _| {
        let stream = driver.stream(stream)?;
        driver.enqueue(stream, Work::Call { function, data: data.expose_provenance() });
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut Handle, flags: c_uint) -> Code {
    call_in_context(|driver, context| {
        if flags > 7 {
            return Err(INVALID_VALUE);
        }
        let handle = driver.handle();
        let timed = flags & DISABLE_TIMING == 0;
        driver.events.insert(handle, EventState { context, timed, mark: None, recorded: None });
        // SAFETY: the interface requires a pointer that is null or valid for a write.
        unsafe { put(event, handle) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(event: Handle) -> Code {
    call(|driver| driver.events.remove(&event).map(|_| ()).ok_or(INVALID_HANDLE))
}

fn record(event: Handle, stream: Handle) -> Code {
    call_in_context(|driver, _| {
        let stream = driver.stream(stream)?;
        let own = driver.events.get(&event).ok_or(INVALID_HANDLE)?.context;
        if driver.streams.get(&stream).is_none_or(|state| state.context != own) {
            report(INVALID_HANDLE, "the event and the stream are of different contexts");
            return Err(INVALID_HANDLE);
        }
        driver.enqueue(stream, Work::Record { event });
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

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventQuery(event: Handle) -> Code {
    call(|driver| {
        let state = driver.events.get(&event).ok_or(INVALID_HANDLE)?;
        let (mark, context) = (state.mark, state.context);
        driver.healthy(context)?;
        mark.map_or(Ok(()), |mark| ready(driver, mark, context))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventSynchronize(event: Handle) -> Code {
    call(|driver| {
        let state = driver.events.get(&event).ok_or(INVALID_HANDLE)?;
        let (mark, context) = (state.mark, state.context);
        if let Some(mark) = mark {
            driver.reach(mark);
        }
        driver.healthy(context)
    })
}

/// # Safety
///
/// `milliseconds` is null or valid for a write.
unsafe fn elapsed(milliseconds: *mut f32, start: Handle, end: Handle) -> Code {
    call_in_context(|driver, _| {
        let state = |event: Handle| driver.events.get(&event).ok_or(INVALID_HANDLE);
        let (start, end) = (state(start)?, state(end)?);
        if start.context != end.context {
            return Err(INVALID_HANDLE);
        }
        let at = |event: &EventState| match event {
            EventState { timed: true, mark: Some(_), recorded, .. } => recorded.ok_or(NOT_READY),
            _ => Err(INVALID_HANDLE),
        };
        let (start, end) = (at(start)?, at(end)?);
        let time = end.saturating_duration_since(start).as_secs_f64() * 1e3;
        // SAFETY: the caller guarantees it.
        unsafe { put(milliseconds, time as f32) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(
    milliseconds: *mut f32,
    start: Handle,
    end: Handle,
) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    unsafe { elapsed(milliseconds, start, end) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime_v2(
    milliseconds: *mut f32,
    start: Handle,
    end: Handle,
) -> Code {
    // SAFETY: the interface requires a pointer that is null or valid for a write.
    unsafe { elapsed(milliseconds, start, end) }
}
