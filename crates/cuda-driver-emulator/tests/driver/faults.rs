//! Mistakes that usually go unnoticed, and that the driver must always catch.

use super::{BASIC, PLAIN, again, on_driver, read};
use cudarc::{
    driver::{
        CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig,
        PushKernelArg, result, sys,
    },
    nvrtc::Ptx,
};
use std::{env, ffi::c_void, sync::Arc, thread};
use sys::CUresult as R;

const TWO: &[&[(&str, &str)]] = &[&[("SAMEBITS_EMULATOR_DEVICES", "2")]];
const FRESH: &[&[(&str, &str)]] = &[&[("SAMEBITS_EMULATOR_ADDRESSES", "fresh")]];
/// The number of elements of every buffer.
const N: usize = 64;
/// The value that a host reads if it does not wait for its copy.
const NOT_YET: f32 = f32::from_bits(0xeeee_eeee);

/// Loads `vector_add` in a context without cudarc's own events: the program orders its streams.
fn adder(ctx: &Arc<CudaContext>) -> Result<CudaFunction, DriverError> {
    // SAFETY: nothing has been allocated, and what tests do wrong the driver catches.
    unsafe { ctx.disable_event_tracking() };
    ctx.bind_to_thread()?;
    ctx.load_module(Ptx::from_src(BASIC))?.load_function("vector_add")
}

/// Computes `out = a + b` with `threads` threads.
fn add_by(
    stream: &Arc<CudaStream>,
    function: &CudaFunction,
    [a, b]: [&CudaSlice<f32>; 2],
    out: &mut CudaSlice<f32>,
    threads: u32,
) -> Result<(), DriverError> {
    let n = N as i32;
    let mut launch = stream.launch_builder(function);
    launch.arg(a).arg(b).arg(out).arg(&n);
    let config =
        LaunchConfig { grid_dim: (1, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the arguments are those of `vector_add(const float*, const float*, float*, int)`.
    unsafe { launch.launch(config) }.map(|_| ())
}

fn add(
    stream: &Arc<CudaStream>,
    function: &CudaFunction,
    inputs: [&CudaSlice<f32>; 2],
    out: &mut CudaSlice<f32>,
) -> Result<(), DriverError> {
    add_by(stream, function, inputs, out, N as u32)
}

#[test]
fn a_read_without_waiting_gets_nothing() {
    on_driver("faults::a_read_without_waiting_gets_nothing", PLAIN, || {
        let ctx = CudaContext::new(0)?;
        let function = adder(&ctx)?;
        for stream in [ctx.default_stream(), ctx.new_stream()?] {
            let x = stream.clone_htod(&[1.5f32; N])?;
            let mut y = stream.alloc_zeros::<f32>(N)?;
            add(&stream, &function, [&x, &x], &mut y)?;
            let values = stream.clone_dtoh(&y)?;
            assert!(values.iter().all(|v| v.to_bits() == NOT_YET.to_bits()), "{values:?}");
            stream.synchronize()?;
            assert_eq!(values, [3.0; N]);
        }
        Ok(())
    });
}

#[test]
fn a_blocking_copy_does_not_wait_for_streams_that_do_not_block() {
    let name = "faults::a_blocking_copy_does_not_wait_for_streams_that_do_not_block";
    on_driver(name, PLAIN, || {
        let ctx = CudaContext::new(0)?;
        adder(&ctx)?;
        let blocking = {
            let stream = result::stream::create(result::stream::StreamKind::Default)?;
            // SAFETY: the stream lives as long as the process.
            unsafe { ctx.wrap_borrowed_stream(stream) }
        };
        for (stream, waits) in [(blocking, true), (ctx.new_stream()?, false)] {
            let mut x = stream.clone_htod(&[1.5f32; N])?;
            stream.synchronize()?;
            stream.memset_zeros(&mut x)?;
            let mut values = [9.0f32; N];
            let (address, _sync) = x.device_ptr(&stream);
            // SAFETY: the buffer has as many elements as the array.
            unsafe { result::memcpy_dtoh_sync(&mut values, address)? };
            assert_eq!(values, [if waits { 0.0 } else { 1.5 }; N]);
        }
        Ok(())
    });
}

#[test]
fn streams_without_an_event_are_in_no_order() {
    on_driver("faults::streams_without_an_event_are_in_no_order", PLAIN, || {
        let ctx = CudaContext::new(0)?;
        let function = adder(&ctx)?;
        let (writer, reader) = (ctx.new_stream()?, ctx.new_stream()?);
        let mut x = writer.clone_htod(&[1.0f32; N])?;
        let mut y = reader.alloc_zeros::<f32>(N)?;
        ctx.synchronize()?;
        let ones = writer.clone_htod(&[1.0f32; N])?;
        for ordered in [false, true] {
            let old = read(&writer, &x)?[0];
            let other = writer.clone_dtod(&x)?;
            add(&writer, &function, [&other, &ones], &mut x)?;
            if ordered {
                reader.join(&writer)?;
            }
            reader.memcpy_dtod(&x, &mut y)?;
            let seen = read(&reader, &y)?[0];
            assert_eq!(seen, if ordered { old + 1.0 } else { old });
        }
        Ok(())
    });
}

#[test]
fn memory_is_not_there_before_its_stream_allocates_it() {
    on_driver("faults::memory_is_not_there_before_its_stream_allocates_it", FRESH, || {
        let ctx = CudaContext::new(0)?;
        let function = adder(&ctx)?;
        let (owner, other) = (ctx.new_stream()?, ctx.new_stream()?);
        let x = owner.clone_htod(&[1.0f32; N])?;
        let mut y = other.alloc_zeros::<f32>(N)?;
        add(&other, &function, [&x, &x], &mut y)?;
        assert_eq!(other.synchronize().unwrap_err().0, R::CUDA_ERROR_ILLEGAL_ADDRESS);
        Ok(())
    });
}

#[test]
fn an_event_orders_streams_of_two_devices() {
    on_driver("faults::an_event_orders_streams_of_two_devices", TWO, || {
        let (one, two) = (CudaContext::new(0)?, CudaContext::new(1)?);
        let function = adder(&one)?;
        let (from, to) = (one.new_stream()?, two.new_stream()?);
        let x = from.clone_htod(&[1.0f32; N])?;
        let mut y = from.alloc_zeros::<f32>(N)?;
        let copy = to.alloc_zeros::<f32>(N)?;
        from.synchronize()?;
        to.synchronize()?;
        for (ordered, expected) in [(false, 0.0), (true, 2.0)] {
            add(&from, &function, [&x, &x], &mut y)?;
            if ordered {
                to.wait(&from.record_event(None)?)?;
            }
            let (source, _source) = y.device_ptr(&from);
            let (target, _target) = copy.device_ptr(&to);
            two.bind_to_thread()?;
            // SAFETY: both buffers have this size.
            unsafe {
                let (a, b) = (one.cu_ctx(), two.cu_ctx());
                result::memcpy_peer_async(b, target, a, source, 4 * N, to.cu_stream())?;
            }
            assert_eq!(read(&to, &copy)?, [expected; N]);
        }
        Ok(())
    });
}

#[test]
fn memory_is_gone_when_its_stream_frees_it() {
    on_driver("faults::memory_is_gone_when_its_stream_frees_it", FRESH, || {
        let ctx = CudaContext::new(0)?;
        let function = adder(&ctx)?;
        let (stream, other) = (ctx.new_stream()?, ctx.new_stream()?);
        let x = stream.clone_htod(&[1.0f32; N])?;
        let mut y = other.alloc_zeros::<f32>(N)?;
        ctx.synchronize()?;
        // Freed after its last use in the stream, which is correct.
        let mut z = stream.alloc_zeros::<f32>(N)?;
        add(&stream, &function, [&x, &x], &mut z)?;
        drop(z);
        ctx.synchronize()?;
        // Another stream uses it, and nothing orders that before the release.
        let (address, _sync) = x.device_ptr(&stream);
        // SAFETY: the second owner is never dropped.
        let stale = unsafe { stream.upgrade_device_ptr::<f32>(address, N) };
        drop(_sync);
        drop(x);
        stream.synchronize()?;
        add(&other, &function, [&stale, &stale], &mut y)?;
        let error = other.synchronize().unwrap_err();
        assert_eq!(error.0, R::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert!(format!("{error:?}").contains("freed"), "{error:?}");
        stale.leak();
        Ok(())
    });
}

#[test]
fn freed_addresses_are_used_again_at_once() {
    on_driver("faults::freed_addresses_are_used_again_at_once", PLAIN, || {
        let ctx = CudaContext::new(0)?;
        let function = adder(&ctx)?;
        let (stream, other) = (ctx.new_stream()?, ctx.new_stream()?);
        let x = stream.clone_htod(&[1.0f32; N])?;
        let (address, sync) = x.device_ptr(&stream);
        drop(sync);
        // SAFETY: the second owner is never dropped.
        let stale = unsafe { stream.upgrade_device_ptr::<f32>(address, N) };
        drop(x);
        // Not by a stream that is ordered before the release.
        let elsewhere = other.alloc_zeros::<f32>(N)?;
        assert_ne!(elsewhere.device_ptr(&other).0, address);
        let again = stream.clone_htod(&[7.0f32; N])?;
        assert_eq!(again.device_ptr(&stream).0, address);
        assert_eq!(read(&stream, &stale)?, [7.0; N]);
        drop(again);
        ctx.synchronize()?;
        // SAFETY: nothing reads the memory before the kernel that is to fail.
        let fresh = unsafe { other.alloc::<f32>(N) }?;
        assert_eq!(fresh.device_ptr(&other).0, address);
        let mut y = other.alloc_zeros::<f32>(N)?;
        add(&other, &function, [&stale, &stale], &mut y)?;
        let error = other.synchronize().unwrap_err();
        assert!(format!("{error:?}").contains("uninitialised"), "{error:?}");
        stale.leak();
        Ok(())
    });
}

#[test]
fn memory_freed_at_once_is_gone_for_work_that_waits() {
    on_driver("faults::memory_freed_at_once_is_gone_for_work_that_waits", FRESH, || {
        let ctx = CudaContext::new(0)?;
        let function = adder(&ctx)?;
        let stream = ctx.new_stream()?;
        let mut y = stream.alloc_zeros::<f32>(N)?;
        // SAFETY: the allocation has this size, and the owner made of it is never dropped.
        let x = unsafe { stream.upgrade_device_ptr(result::malloc_sync(4 * N)?, N) };
        add(&stream, &function, [&x, &x], &mut y)?;
        // SAFETY: allocated above.
        unsafe { result::free_sync(x.leak())? };
        assert_eq!(stream.synchronize().unwrap_err().0, R::CUDA_ERROR_ILLEGAL_ADDRESS);
        Ok(())
    });
}

#[test]
fn a_free_without_a_context_is_refused() {
    on_driver("faults::a_free_without_a_context_is_refused", TWO, || {
        let (ctx, other) = (CudaContext::new(0)?, CudaContext::new(1)?);
        // The default stream is that of the current context: a thread without a context has none,
        // and a thread of another device would free there.
        for (bound, code) in
            [(None, R::CUDA_ERROR_INVALID_CONTEXT), (Some(other), R::CUDA_ERROR_INVALID_VALUE)]
        {
            let x = ctx.default_stream().clone_htod(&[1.0f32; N])?;
            thread::scope(|scope| {
                scope.spawn(|| {
                    bound.as_ref().map(|ctx| ctx.bind_to_thread()).transpose().unwrap();
                    drop(x);
                });
            });
            assert_eq!(ctx.check_err().unwrap_err().0, code);
        }
        // A created stream knows its context.
        let x = ctx.new_stream()?.clone_htod(&[1.0f32; N])?;
        thread::scope(|scope| {
            scope.spawn(|| drop(x));
        });
        ctx.check_err()
    });
}

#[test]
fn work_in_a_stream_of_another_context_is_refused() {
    on_driver("faults::work_in_a_stream_of_another_context_is_refused", TWO, || {
        let (one, two) = (CudaContext::new(0)?, CudaContext::new(1)?);
        let function = adder(&one)?;
        let (here, there) = (one.new_stream()?, two.new_stream()?);
        let x = here.clone_htod(&[1.0f32; N])?;
        let mut y = here.alloc_zeros::<f32>(N)?;
        let refused = add(&there, &function, [&x, &x], &mut y).unwrap_err();
        assert_eq!(refused.0, R::CUDA_ERROR_INVALID_HANDLE);
        let event = one.new_event(None)?;
        one.bind_to_thread()?;
        // SAFETY: handles are valid; the driver checks whose they are.
        unsafe {
            let recorded = result::event::record(event.cu_event(), there.cu_stream());
            assert_eq!(recorded.unwrap_err().0, R::CUDA_ERROR_INVALID_HANDLE);
            let (address, _sync) = x.device_ptr(&here);
            let freed = result::free_async(address, there.cu_stream());
            assert_eq!(freed.unwrap_err().0, R::CUDA_ERROR_INVALID_VALUE);
        }
        // cudarc binds no context when it looks up a function: the other device's is still current,
        // and a new thread has none.
        let module = one.load_module(Ptx::from_src(BASIC))?;
        two.bind_to_thread()?;
        let refused = module.load_function("vector_add").unwrap_err();
        assert_eq!(refused.0, R::CUDA_ERROR_INVALID_CONTEXT);
        let spawned = thread::spawn({
            let module = module.clone();
            move || module.load_function("vector_add").unwrap_err().0
        });
        assert_eq!(spawned.join().unwrap(), R::CUDA_ERROR_INVALID_CONTEXT);
        here.synchronize()
    });
}

#[test]
fn an_address_that_a_stream_uses_again_is_for_no_other() {
    on_driver("faults::an_address_that_a_stream_uses_again_is_for_no_other", PLAIN, || {
        let ctx = CudaContext::new(0)?;
        let (here, there) = (ctx.new_stream()?, ctx.new_stream()?);
        // SAFETY: the streams are valid, and nothing uses the memory.
        unsafe {
            let first = result::malloc_async(here.cu_stream(), 2080)?;
            result::free_async(first, here.cu_stream())?;
            let freed = here.record_event(None)?;
            let again = result::malloc_async(here.cu_stream(), 2080)?;
            assert_eq!(again, first);
            result::free_async(again, here.cu_stream())?;
            // The first time it is freed is past, the second is still to come.
            freed.synchronize()?;
            let other = result::malloc_async(there.cu_stream(), 2080)?;
            assert_ne!(other, first);
            there.synchronize()?;
            here.synchronize()?;
            result::free_async(other, there.cu_stream())?;
        }
        there.synchronize()
    });
}

#[test]
fn uploads_are_staged_from_ordinary_memory_alone() {
    on_driver("faults::uploads_are_staged_from_ordinary_memory_alone", PLAIN, || {
        let ctx = CudaContext::new(0)?;
        let stream = ctx.new_stream()?;
        let mut ordinary = vec![1.0f32; N];
        let x = stream.clone_htod(&ordinary)?;
        ordinary.fill(2.0);
        assert_eq!(read(&stream, &x)?, [1.0; N]);
        // SAFETY: the device may read what is not written yet: bytes of zero.
        let mut locked = unsafe { ctx.alloc_pinned::<f32>(N) }?;
        locked.as_mut_slice()?.fill(1.0);
        let (address, _sync) = x.device_ptr(&stream);
        let memory = locked.as_mut_ptr()?;
        // SAFETY: both sides have this size; the host writes before the copy is done, which is the
        // mistake, on this thread, which also does the copy.
        unsafe {
            let from = memory.cast_const().cast::<c_void>();
            sys::cuMemcpyHtoDAsync_v2(address, from, 4 * N, stream.cu_stream()).result()?;
            memory.write(2.0);
        }
        assert_eq!(read(&stream, &x)?[..2], [2.0, 1.0]);
        Ok(())
    });
}

#[test]
fn questions_are_answered_truthfully() {
    on_driver("faults::questions_are_answered_truthfully", PLAIN, || {
        let ctx = CudaContext::new(0)?;
        adder(&ctx)?;
        let stream = ctx.new_stream()?;
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let (start, _x) = (stream.record_event(flags)?, stream.clone_htod(&[1.0f32; N])?);
        let end = stream.record_event(flags)?;
        // SAFETY: both events exist.
        let early = unsafe { result::event::elapsed(start.cu_event(), end.cu_event()) };
        assert_eq!(early.unwrap_err().0, R::CUDA_ERROR_NOT_READY);
        let mut asked = 0;
        while !end.try_is_complete()? {
            asked += 1;
        }
        // Two events, an allocation and a copy.
        assert_eq!(asked, 4);
        assert!(start.elapsed_ms(&end)? >= 0.0);
        Ok(())
    });
}

#[test]
fn registers_limit_the_block() {
    let name = "faults::registers_limit_the_block";
    if env::var_os(super::CHILD).is_none() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("registers");
        std::fs::write(&table, "vector_add 200\n").unwrap();
        let output = again(name, &[("SAMEBITS_EMULATOR_REGISTERS", table.to_str().unwrap())]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let run = || -> Result<(), DriverError> {
        let ctx = CudaContext::new(0)?;
        let function = adder(&ctx)?;
        assert_eq!((function.num_regs()?, function.max_threads_per_block()?), (200, 320));
        let stream = ctx.new_stream()?;
        let x = stream.clone_htod(&[1.0f32; N])?;
        let mut y = stream.alloc_zeros::<f32>(N)?;
        add_by(&stream, &function, [&x, &x], &mut y, 320)?;
        let refused = add_by(&stream, &function, [&x, &x], &mut y, 352).unwrap_err();
        assert_eq!(refused.0, R::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
        stream.synchronize()
    };
    run().unwrap();
}
