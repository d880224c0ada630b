//! Buffers on many threads, in several streams, on several devices.

use std::sync::mpsc;
use std::thread;

use crate::device::{on_device, on_devices};
use samebits_cuda_kernels::elementwise::{View, copy};
use samebits_cuda_kernels::{Buffer, CudaError, Device};

/// Copies with a kernel.
fn copied(device: &Device, x: &Buffer<u32>) -> Result<Buffer<u32>, CudaError> {
    copy(device, x, &[x.len()], View { strides: &[1], offset: 0 })
}

#[test]
fn buffers_are_made_used_and_dropped_on_any_thread() {
    on_devices(2, |devices| {
        const THREADS: usize = 8;
        const ROUNDS: usize = 12;
        // Each thread makes buffers on both devices; the next one uses and drops them. Some threads
        // use only the other thread's device.
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..THREADS).map(|_| mpsc::channel::<(usize, u32, Buffer<u32>)>()).unzip();
        thread::scope(|scope| {
            for (thread, receiver) in receivers.into_iter().enumerate() {
                let next = senders[(thread + 1) % THREADS].clone();
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let ordinal = (thread + round) % 2;
                        let (device, value) = (&devices[ordinal], (100 * thread + round) as u32);
                        let made = device.upload(&[value; 300]).unwrap();
                        let sent = copied(device, &made).unwrap();
                        next.send((ordinal, value, sent)).unwrap();
                        drop(made);
                        let (ordinal, value, got) = receiver.recv().unwrap();
                        let again = copied(&devices[ordinal], &got).unwrap();
                        drop(got);
                        assert_eq!(devices[ordinal].download(&again).unwrap(), [value; 300]);
                    }
                });
            }
        });
        for device in devices {
            device.synchronize().unwrap();
        }
        // A thread that never had a context drops the last buffer.
        let last = devices[1].zeros::<u64>(10).unwrap();
        thread::spawn(move || drop(last)).join().unwrap();
        devices[1].synchronize().unwrap();
    });
}

#[test]
fn a_buffer_of_another_device_is_refused() {
    on_devices(2, |devices| {
        let x = devices[0].upload(&[1u32, 2, 3]).unwrap();
        let message = "a buffer is on device 0, and the call on device 1";
        for refused in [
            copied(&devices[1], &x).map(|_| ()),
            devices[1].download(&x).map(|_| ()),
            devices[1].duplicate(&x).map(|_| ()),
        ] {
            assert!(
                matches!(&refused, Err(CudaError::InvalidArgument { message: m, .. }) if m == message),
                "{refused:?}"
            );
        }
        assert_eq!(devices[0].download(&x).unwrap(), [1, 2, 3]);
    });
}

#[test]
fn streams_that_meet_wait_for_each_other() {
    on_device(|device| {
        let other = device.with_new_stream().unwrap();
        for round in 0..4u32 {
            let x = device.upload(&[round; 1000]).unwrap();
            // Read in another stream, before the buffer's own stream has written it.
            let y = copied(&other, &x).unwrap();
            // Freed by its own stream, and the address reused, before the other stream is done.
            drop(x);
            let z = device.upload(&[77u32; 1000]).unwrap();
            assert_eq!(device.download(&y).unwrap(), [round; 1000]);
            assert_eq!(other.download(&z).unwrap(), [77; 1000]);
            assert_eq!(device.download(&device.duplicate(&y).unwrap()).unwrap(), [round; 1000]);
        }
    });
}

#[test]
fn blocks_larger_than_registers_allow_are_refused() {
    on_device(|_| {
        for block in [0, 33, 544, 1024] {
            let refused = Device::new(0).unwrap().with_block_size(block).unwrap_err().to_string();
            let expected = format!("expected a multiple of 32 up to 512, got {block}");
            assert_eq!(refused, format!("with_block_size: {expected}"));
        }
        assert!(Device::new(0).unwrap().with_block_size(512).is_ok());
    });
}

/// Longer than the page-locked memory, in pieces of every size of element.
#[test]
fn long_downloads_have_every_byte() {
    on_device(|device| {
        let other = device.with_new_stream().unwrap();
        for n in [1, 8191, 8192, 1 << 20, (1 << 20) + 1, (2 << 20) + 3, (3 << 20) - 1] {
            let words: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(2654435761)).collect();
            let expected = copied(device, &device.upload(&words).unwrap()).unwrap();
            assert!(device.download(&expected).unwrap() == words, "{n} words");
            // Of another stream, whose work is awaited.
            let there = copied(&other, &other.upload(&words).unwrap()).unwrap();
            assert!(device.download(&there).unwrap() == words, "{n} words of another stream");
        }
        let long: Vec<f64> = (0..700_001).map(|i| f64::from(i) * 0.1).collect();
        assert!(device.download(&device.upload(&long).unwrap()).unwrap() == long);
        let bytes: Vec<u8> = (0..9_000_001u32).map(|i| (i % 251) as u8).collect();
        assert!(device.download(&device.upload(&bytes).unwrap()).unwrap() == bytes);
        // Two threads share the memory.
        thread::scope(|scope| {
            for k in 0..2u32 {
                let words: Vec<u32> = (0..2_500_000).map(|i| i ^ k).collect();
                scope.spawn(move || {
                    let there = device.upload(&words).unwrap();
                    assert!(device.download(&there).unwrap() == words);
                });
            }
        });
    });
}

#[test]
fn a_long_buffer_of_another_device_is_refused() {
    on_devices(2, |devices| {
        let x = devices[0].upload(&vec![1u32; 100_000]).unwrap();
        let error = devices[1].download(&x).unwrap_err().to_string();
        assert_eq!(error, "download: a buffer is on device 0, and the call on device 1");
    });
}
