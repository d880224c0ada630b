//! cudarc, unmodified, on the emulated driver.
//!
//! The loader reads its path when a process starts, so each test runs itself again in a child
//! process, with the library copied as `libcuda.so` to a folder on that path.

#![allow(clippy::print_stdout)]

mod faults;

use cudarc::{
    driver::{
        CudaContext, CudaSlice, CudaStream, DeviceRepr, DriverError, LaunchConfig, PushKernelArg,
        sys,
    },
    nvrtc::Ptx,
};
use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Output},
    sync::Arc,
};

const CHILD: &str = "SAMEBITS_EMULATOR_TEST_CHILD";

/// Returns the library that was built with this test.
fn library() -> PathBuf {
    let test = env::current_exe().expect("a process knows its program");
    let name = "libsamebits_cuda_driver_emulator.so";
    let folders = test.ancestors().skip(1).take(2);
    folders.map(|folder| folder.join(name)).find(|path| path.exists()).expect("built by cargo")
}

/// Runs the test `name` again on the emulated driver.
fn again(name: &str, variables: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(library(), folder.path().join("libcuda.so")).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command.env("LD_LIBRARY_PATH", folder.path()).env(CHILD, "1");
    for (variable, value) in variables {
        command.env(variable, value);
    }
    command.output().unwrap()
}

/// Runs `body` on the emulated driver, with each set of variables.
fn on_driver(name: &str, runs: &[&[(&str, &str)]], body: impl FnOnce() -> Result<(), DriverError>) {
    if env::var_os(CHILD).is_some() {
        body().unwrap();
        return;
    }
    for variables in runs {
        let output = again(name, variables);
        let text = String::from_utf8_lossy(&output.stderr);
        let ran = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && ran.contains("1 passed"),
            "{variables:?}\n{ran}\n{text}"
        );
    }
}

/// Copies to the host and waits: the copy alone may be incomplete when it returns.
fn read<T: DeviceRepr>(
    stream: &Arc<CudaStream>,
    slice: &CudaSlice<T>,
) -> Result<Vec<T>, DriverError> {
    let values = stream.clone_dtoh(slice)?;
    stream.synchronize()?;
    Ok(values)
}

const PLAIN: &[&[(&str, &str)]] = &[&[]];
const BASIC: &str = include_str!("../../../ptx-emulator/tests/ptx/basic.ptx");

#[test]
fn a_vector_is_added_through_cudarc() {
    on_driver("a_vector_is_added_through_cudarc", PLAIN, || {
        let ctx = CudaContext::new(0)?;
        assert!(ctx.name()?.contains("emulated"), "{}", ctx.name()?);
        let stream = ctx.default_stream();
        let module = ctx.load_module(Ptx::from_src(BASIC))?;
        let function = module.load_function("vector_add")?;
        let a: Vec<f32> = (0..1000).map(|i| i as f32 * 0.1).collect();
        let b: Vec<f32> = (0..1000).map(|i| 1.0 / (1.0 + i as f32)).collect();
        let (x, y) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
        let mut z = stream.alloc_zeros::<f32>(1000)?;
        let n = 1000i32;
        let config =
            LaunchConfig { grid_dim: (8, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(&function);
        launch.arg(&x).arg(&y).arg(&mut z).arg(&n);
        // SAFETY: the arguments are those of `vector_add(const float*, const float*, float*, int)`
        // and the arrays have `n` elements.
        unsafe { launch.launch(config) }?;
        let sum = read(&stream, &z)?;
        assert!((0..1000).all(|i| sum[i].to_bits() == (a[i] + b[i]).to_bits()));
        Ok(())
    });
}

#[test]
fn streams_events_and_copies_work() {
    on_driver("streams_events_and_copies_work", PLAIN, || {
        let ctx = CudaContext::new(0)?;
        let (one, two) = (ctx.new_stream()?, ctx.new_stream()?);
        let x = one.clone_htod(&[1u32, 2, 3, 4])?;
        let start = one.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))?;
        two.join(&one)?;
        let mut y = two.alloc_zeros::<u32>(4)?;
        two.memcpy_dtod(&x, &mut y)?;
        let end = two.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))?;
        assert!(start.elapsed_ms(&end)? >= 0.0);
        assert_eq!(read(&two, &y)?, [1, 2, 3, 4]);
        two.memset_zeros(&mut y)?;
        assert_eq!(read(&two, &y)?, [0; 4]);
        let (free, total) = ctx.mem_get_info()?;
        assert!(free < total);
        drop((x, y));
        ctx.synchronize()?;
        assert_eq!(ctx.mem_get_info()?, (total, total));
        ctx.check_err()
    });
}

#[test]
fn a_fault_is_sticky_and_explained() {
    on_driver("a_fault_is_sticky_and_explained", PLAIN, || {
        let ctx = CudaContext::new(0)?;
        let stream = ctx.default_stream();
        let module = ctx.load_module(Ptx::from_src(BASIC))?;
        let function = module.load_function("vector_add")?;
        let x = stream.alloc_zeros::<f32>(100)?;
        let mut z = stream.alloc_zeros::<f32>(100)?;
        // One element too many.
        let n = 101i32;
        let mut launch = stream.launch_builder(&function);
        launch.arg(&x).arg(&x).arg(&mut z).arg(&n);
        let config =
            LaunchConfig { grid_dim: (1, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the kernel runs past the arrays, which the emulator catches.
        unsafe { launch.launch(config) }?;
        let error = stream.synchronize().unwrap_err();
        assert_eq!(error.0, sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        let text = format!("{error:?}");
        for part in ["vector_add", "line", "thread (100, 0, 0)", "out of bounds"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(stream.clone_dtoh(&x).unwrap_err().0, error.0);
        assert_eq!(ctx.mem_get_info().unwrap_err().0, error.0);
        Ok(())
    });
}

#[test]
fn bad_launches_are_refused_at_once() {
    on_driver("bad_launches_are_refused_at_once", PLAIN, || {
        let ctx = CudaContext::new(0)?;
        let stream = ctx.default_stream();
        let module = ctx.load_module(Ptx::from_src(BASIC))?;
        let missing = module.load_function("no_such_kernel").unwrap_err();
        assert_eq!(missing.0, sys::CUresult::CUDA_ERROR_NOT_FOUND);
        let function = module.load_function("vector_add")?;
        let mut z = stream.alloc_zeros::<f32>(4)?;
        let n = 0i32;
        for (block, shared) in [(2048, 0), (0, 0), (32, 64 << 10)] {
            let config = LaunchConfig {
                grid_dim: (1, 1, 1),
                block_dim: (block, 1, 1),
                shared_mem_bytes: shared,
            };
            let x = stream.alloc_zeros::<f32>(4)?;
            let mut launch = stream.launch_builder(&function);
            launch.arg(&x).arg(&x).arg(&mut z).arg(&n);
            // SAFETY: the launch is refused before anything runs.
            let refused = unsafe { launch.launch(config) }.unwrap_err();
            assert_eq!(refused.0, sys::CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let broken = ctx.load_module(Ptx::from_src(BASIC.replace("add.rn.f32", "add.up.f32")));
        assert_eq!(broken.unwrap_err().0, sys::CUresult::CUDA_ERROR_INVALID_PTX);
        // None of this harms the context.
        stream.synchronize()
    });
}

#[test]
fn several_devices_have_memories_of_their_own() {
    let two: &[&[(&str, &str)]] = &[&[("SAMEBITS_EMULATOR_DEVICES", "2")]];
    on_driver("several_devices_have_memories_of_their_own", two, || {
        assert_eq!(CudaContext::device_count()?, 2);
        let (a, b) = (CudaContext::new(0)?, CudaContext::new(1)?);
        assert_eq!(CudaContext::new(2).unwrap_err().0, sys::CUresult::CUDA_ERROR_INVALID_DEVICE);
        // Separate streams: cudarc's copy between devices binds the source's context, which would
        // change the default stream of the next call.
        let (from, to) = (a.new_stream()?, b.new_stream()?);
        let x = from.clone_htod(&[1.5f64, 2.5])?;
        let y = to.clone_dtod(&x)?;
        assert_eq!(read(&to, &y)?, [1.5, 2.5]);
        assert_eq!(a.compute_capability()?, (8, 0));
        Ok(())
    });
}

#[test]
fn memory_runs_out_as_an_error() {
    let small: &[&[(&str, &str)]] = &[&[("SAMEBITS_EMULATOR_MEMORY", "4096")]];
    on_driver("memory_runs_out_as_an_error", small, || {
        let stream = CudaContext::new(0)?.default_stream();
        let kept = stream.alloc_zeros::<u8>(4000)?;
        let refused = stream.alloc_zeros::<u8>(100).unwrap_err();
        assert_eq!(refused.0, sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        drop(kept);
        stream.alloc_zeros::<u8>(4096).map(|_| ())
    });
}

/// Sums the same numbers atomically and prints the bits.
#[test]
fn schedules_order_float_atomics() {
    if env::var_os(CHILD).is_none() {
        let sums: Vec<String> = ["in-order", "reversed", "seed:1", "seed:2"]
            .iter()
            .map(|schedule| {
                let variables = [("SAMEBITS_EMULATOR_SCHEDULE", *schedule)];
                let output = again("schedules_order_float_atomics", &variables);
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(
                    output.status.success(),
                    "{text}{}",
                    String::from_utf8_lossy(&output.stderr)
                );
                text.lines().find_map(|line| line.split("sum ").nth(1)).unwrap().to_owned()
            })
            .collect();
        assert!(sums.iter().any(|sum| *sum != sums[0]), "no schedule changed the sum: {sums:?}");
        return;
    }
    let run = || -> Result<u32, DriverError> {
        let ctx = CudaContext::new(0)?;
        let stream = ctx.default_stream();
        let function = ctx.load_module(Ptx::from_src(BASIC))?.load_function("warp_sum")?;
        let values: Vec<f32> = (0..1024u32).map(|i| 1.0 / (i * i % 97 + 1) as f32).collect();
        let x = stream.clone_htod(&values)?;
        let mut sum = stream.alloc_zeros::<f32>(1)?;
        let mut launch = stream.launch_builder(&function);
        launch.arg(&x).arg(&mut sum);
        let config =
            LaunchConfig { grid_dim: (4, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the arguments are those of `warp_sum(const float*, float*)`, one element per
        // thread.
        unsafe { launch.launch(config) }?;
        Ok(read(&stream, &sum)?[0].to_bits())
    };
    println!("sum {:08x}", run().unwrap());
}

#[test]
fn nonsense_in_the_environment_is_refused() {
    if env::var_os(CHILD).is_some() {
        let error = CudaContext::new(0).unwrap_err();
        assert_eq!(error.0, sys::CUresult::CUDA_ERROR_INVALID_VALUE);
        return;
    }
    let variables = [("SAMEBITS_EMULATOR_SCHEDULE", "shuffled")];
    let output = again("nonsense_in_the_environment_is_refused", &variables);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("SAMEBITS_EMULATOR_SCHEDULE"), "{text}");
}

#[test]
fn misuse_returns_the_codes_of_the_driver() {
    use sys::CUresult as R;
    on_driver("misuse_returns_the_codes_of_the_driver", PLAIN, || {
        let nowhere = std::ptr::without_provenance_mut::<u8>(0x1230);
        let (mut address, mut size) = (0, 0);
        // SAFETY: pointers to results are valid, and handles are checked by the driver.
        unsafe {
            assert_eq!(sys::cuCtxSynchronize(), R::CUDA_ERROR_NOT_INITIALIZED);
            assert_eq!(sys::cuInit(1), R::CUDA_ERROR_INVALID_VALUE);
            assert_eq!(sys::cuInit(0), R::CUDA_SUCCESS);
            assert_eq!(sys::cuCtxSynchronize(), R::CUDA_ERROR_INVALID_CONTEXT);
            assert_eq!(sys::cuMemAlloc_v2(&mut address, 4), R::CUDA_ERROR_INVALID_CONTEXT);
        }
        let ctx = CudaContext::new(0)?;
        // SAFETY: as before; the buffers have the sizes that are named.
        unsafe {
            assert_eq!(sys::cuMemAlloc_v2(&mut address, 0), R::CUDA_ERROR_INVALID_VALUE);
            assert_eq!(sys::cuMemAlloc_v2(std::ptr::null_mut(), 4), R::CUDA_ERROR_INVALID_VALUE);
            assert_eq!(sys::cuMemAlloc_v2(&mut address, 4), R::CUDA_SUCCESS);
            let mut bytes = [0u8; 8];
            let to = bytes.as_mut_ptr().cast();
            assert_eq!(sys::cuMemcpyDtoH_v2(to, address, 8), R::CUDA_ERROR_INVALID_VALUE);
            assert_eq!(sys::cuMemcpyDtoH_v2(to, 64, 8), R::CUDA_ERROR_INVALID_VALUE);
            assert_eq!(sys::cuMemsetD32_v2(address, 7, 1), R::CUDA_SUCCESS);
            assert_eq!(sys::cuMemcpyDtoH_v2(to, address, 4), R::CUDA_SUCCESS);
            assert_eq!(bytes, [7, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(sys::cuMemFree_v2(address), R::CUDA_SUCCESS);
            assert_eq!(sys::cuMemFree_v2(address), R::CUDA_ERROR_INVALID_VALUE);
            let stream: sys::CUstream = nowhere.cast();
            assert_eq!(sys::cuStreamSynchronize(stream), R::CUDA_ERROR_INVALID_HANDLE);
            let event: sys::CUevent = nowhere.cast();
            assert_eq!(sys::cuEventQuery(event), R::CUDA_ERROR_INVALID_HANDLE);
            let managed = sys::cuMemAllocManaged(&mut address, 4, 1);
            assert_eq!(managed, R::CUDA_ERROR_NOT_SUPPORTED);
            assert_eq!(sys::cuCtxGetLimit(&mut size, sys::CUlimit::CU_LIMIT_MAX), {
                R::CUDA_ERROR_UNSUPPORTED_LIMIT
            });
        }
        // Events made without timing cannot be timed.
        let stream = ctx.default_stream();
        let (a, b) = (stream.record_event(None)?, stream.record_event(None)?);
        assert_eq!(a.elapsed_ms(&b).unwrap_err().0, R::CUDA_ERROR_INVALID_HANDLE);
        let text = CudaContext::new(5).unwrap_err().error_name()?.to_string_lossy().into_owned();
        assert_eq!(text, "CUDA_ERROR_INVALID_DEVICE");
        let binary = ctx.load_module(Ptx::from_binary(b"\x7fELF\x02\x01\x01\0".to_vec()));
        assert_eq!(binary.unwrap_err().0, R::CUDA_ERROR_INVALID_IMAGE);
        for (old, new, code) in [
            (".target sm_70", ".target sm_90", R::CUDA_ERROR_NO_BINARY_FOR_GPU),
            (".version 8.5", ".version 8.7", R::CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
        ] {
            let refused = ctx.load_module(Ptx::from_src(BASIC.replace(old, new)));
            assert_eq!(refused.unwrap_err().0, code);
        }
        Ok(())
    });
}

#[test]
fn large_shared_memory_needs_its_attribute() {
    use sys::{CUfunction_attribute as A, CUresult as R};
    on_driver("large_shared_memory_needs_its_attribute", PLAIN, || {
        let ctx = CudaContext::new(0)?;
        let stream = ctx.default_stream();
        let function = ctx.load_module(Ptx::from_src(BASIC))?.load_function("dyn_sum")?;
        let most = A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let x = stream.clone_htod(&[1.5f64; 64])?;
        let mut out = stream.alloc_zeros::<f64>(1)?;
        let n = 64i32;
        let config = LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (64, 1, 1),
            shared_mem_bytes: 100 << 10,
        };
        let mut launch = |config| {
            let mut launch = stream.launch_builder(&function);
            launch.arg(&x).arg(&mut out).arg(&n);
            // SAFETY: the arguments are those of `dyn_sum(const double*, double*, int)`, with 64
            // elements for 64 threads.
            unsafe { launch.launch(config) }.map(|_| ())
        };
        assert_eq!(launch(config).unwrap_err().0, R::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(
            function.set_attribute(most, 200 << 10).unwrap_err().0,
            R::CUDA_ERROR_INVALID_VALUE
        );
        function.set_attribute(most, 100 << 10)?;
        assert_eq!(function.get_attribute(most)?, 100 << 10);
        launch(config)?;
        assert_eq!(
            function.occupancy_max_active_blocks_per_multiprocessor(64, 100 << 10, None)?,
            1
        );
        stream.synchronize()
    });
}

#[test]
fn a_driver_may_have_no_device() {
    if env::var_os(CHILD).is_some() {
        let error = CudaContext::new(0).unwrap_err();
        assert_eq!(error.0, sys::CUresult::CUDA_ERROR_NO_DEVICE);
        return;
    }
    let output = again("a_driver_may_have_no_device", &[("SAMEBITS_EMULATOR_DEVICES", "0")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
