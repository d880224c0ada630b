//! Failures: each is a typed error with what the caller needs to know.

use crate::device::on_device;
use samebits_cuda_kernels::Variant::Deterministic;
use samebits_cuda_kernels::scatter::{self, Rows};
use samebits_cuda_kernels::{CudaError, Device, device_count};
use samebits_tensor_core::ops::{Binary, BinaryKind, Matmul, Unary, UnaryKind};
use samebits_tensor_core::{self as tensor_core, DType, Tensor, dispatch};

#[test]
fn an_index_out_of_range_names_its_first_place() {
    on_device(|device| {
        let mut out = device.zeros::<f32>(4).unwrap();
        let x = device.upload(&[1.0f32; 6]).unwrap();
        let index = device.upload(&[0i64, 3, -1, 1, 9, 2]).unwrap();
        let rows = Rows { outer: 1, size: 4, n: 6, inner: 1 };
        scatter::index_add(device, &mut out, &index, &x, rows, 1.0, Deterministic).unwrap();
        // A later operation's bad index does not replace the first.
        let bad = device.upload(&[100i64]).unwrap();
        let one = Rows { outer: 1, size: 4, n: 1, inner: 1 };
        let _ = scatter::index_select(device, &out, &bad, one).unwrap();
        let expected =
            CudaError::IndexOutOfRange { op: "index_add", position: 2, index: -1, size: 4 };
        assert_eq!(device.synchronize(), Err(expected.clone()));
        assert_eq!(
            expected.to_string(),
            "index_add: index -1 at position 2 is out of range for size 4"
        );
        // The error is reported once, and the device continues to work.
        assert_eq!(device.synchronize(), Ok(()));
        let good = device.upload(&[1i64]).unwrap();
        let got = scatter::index_select(device, &out, &good, one).unwrap();
        assert_eq!(device.download(&got).unwrap().len(), 1);
    });
}

#[test]
fn wrong_lengths_are_refused_before_the_launch() {
    on_device(|device| {
        let mut out = device.zeros::<f32>(4).unwrap();
        let x = device.upload(&[1.0f32; 6]).unwrap();
        let index = device.upload(&[0i64; 5]).unwrap();
        let rows = Rows { outer: 1, size: 4, n: 6, inner: 1 };
        let error = scatter::index_add(device, &mut out, &index, &x, rows, 1.0, Deterministic);
        let expected =
            CudaError::Length { op: "index_add", what: "the index", expected: 6, got: 5 };
        assert_eq!(error, Err(expected));
        let huge = Rows { outer: usize::MAX, size: 2, n: 2, inner: 2 };
        let error = scatter::index_add(device, &mut out, &index, &x, huge, 1.0, Deterministic);
        assert!(matches!(error, Err(CudaError::InvalidArgument { .. })), "{error:?}");
    });
}

#[test]
fn a_missing_device_is_an_error() {
    if let Ok(count) = device_count() {
        let error = Device::new(count).map(|_| ());
        assert_eq!(error, Err(CudaError::NoDevice { ordinal: count, count }));
    } else {
        assert!(!samebits_cuda_kernels::is_available());
        assert!(Device::new(0).is_err());
    }
}

#[test]
fn too_large_a_buffer_is_out_of_memory() {
    on_device(|device| {
        let bytes = 1usize << 46;
        let error = device.zeros::<u8>(bytes).map(|_| ());
        assert_eq!(error, Err(CudaError::OutOfMemory { op: "zeros", bytes }));
    });
}

#[test]
fn an_operation_short_of_memory_is_named_and_the_next_one_works() {
    on_device(|_| {
        samebits_cuda_kernels::install().unwrap();
        let gpu = tensor_core::Device::Cuda(0);
        let x = Tensor::from_slice(&[1.0f32, -2.0], &[2, 1]).unwrap().to(gpu).unwrap();
        let wide = x.expand(&[2, 1 << 44]).unwrap();
        let missing = |op| tensor_core::Error::OutOfMemory { op, device: gpu, bytes: 1 << 47 };
        let negated = |x: &Tensor| dispatch(&Unary { kind: UnaryKind::Neg, x: x.clone() });
        let sum = |a: &Tensor, b: &Tensor| {
            dispatch(&Binary { kind: BinaryKind::Add, a: a.clone(), b: b.clone() })
        };
        assert_eq!(negated(&wide).unwrap_err(), missing("unary"));
        assert_eq!(sum(&x, &wide).unwrap_err(), missing("binary"));
        assert_eq!(wide.contiguous().unwrap_err(), missing("contiguous"));
        let halves = Tensor::zeros(&[], DType::F16).unwrap().to(gpu).unwrap();
        let halves = halves.expand(&[1 << 46]).unwrap();
        assert_eq!(halves.contiguous().unwrap_err(), missing("contiguous"));
        // The lists on the host.
        let on_host = |op, bytes| tensor_core::Error::OutOfMemory {
            op,
            device: tensor_core::Device::Cpu,
            bytes,
        };
        let batch = x.reshape(&[1, 2, 1]).unwrap().expand(&[1 << 50, 2, 1]).unwrap();
        let square = Matmul { b: batch.transpose(1, 2).unwrap(), a: batch };
        assert_eq!(dispatch(&square).unwrap_err(), on_host("matmul", 1 << 53));
        assert_eq!(negated(&x).unwrap().to_vec::<f32>().unwrap(), [-1.0, 2.0]);
        assert_eq!(sum(&x, &x).unwrap().to_vec::<f32>().unwrap(), [2.0, -4.0]);
    });
}

#[test]
fn the_stream_changes_no_bit() {
    on_device(|device| {
        let other = device.with_new_stream().unwrap();
        let values = [0.1f32, 0.2, 0.3, 1e20, -1e20];
        let run = |device: &Device| {
            let mut out = device.zeros::<f32>(1).unwrap();
            let x = device.upload(&values).unwrap();
            let index = device.upload(&[0i64; 5]).unwrap();
            let rows = Rows { outer: 1, size: 1, n: 5, inner: 1 };
            scatter::index_add(device, &mut out, &index, &x, rows, 1.0, Deterministic).unwrap();
            device.download(&out).unwrap()[0].to_bits()
        };
        assert_eq!(run(device), run(&other));
    });
}

/// Operations keep their indices until the next synchronisation, or until there are too many.
#[test]
fn the_first_of_many_operations_names_its_index() {
    on_device(|device| {
        let x = device.upload(&[1.0f32; 4]).unwrap();
        let one = |n| Rows { outer: 1, size: 4, n, inner: 1 };
        let select = |values: &[i64]| {
            // The index is dropped before the report is read.
            let index = device.upload(values).unwrap();
            scatter::index_select(device, &x, &index, one(values.len())).unwrap();
        };
        let bad = |position, index| {
            Err(CudaError::IndexOutOfRange { op: "index_select", position, index, size: 4 })
        };
        for count in [1, 2, 255, 256, 257, 600] {
            for first in [0, count / 2, count - 1] {
                for operation in 0..count {
                    let index = if operation < first { 3 } else { 4 + operation as i64 };
                    select(&[0, 1, index]);
                }
                assert_eq!(device.synchronize(), bad(2, 4 + first as i64), "{first} of {count}");
                assert_eq!(device.synchronize(), Ok(()));
            }
        }
        // Long indices are not kept.
        let mut long = vec![1i64; (16 << 20) / 8 + 1];
        select(&long);
        select(&[2, -7]);
        assert_eq!(device.synchronize(), bad(1, -7));
        long[1_000_000] = 9;
        select(&long);
        select(&[2, -7]);
        assert_eq!(device.synchronize(), bad(1_000_000, 9));
        assert_eq!(device.synchronize(), Ok(()));
        // Those of another stream are awaited.
        let other = device.with_new_stream().unwrap();
        let index = other.duplicate(&other.upload(&[0i64, -5]).unwrap()).unwrap();
        scatter::index_select(device, &x, &index, one(2)).unwrap();
        drop(index);
        assert_eq!(device.synchronize(), bad(1, -5));
    });
}
