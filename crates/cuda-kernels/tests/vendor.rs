//! The vendor's libraries: a clear error where they are missing, and the same bits twice where
//! they and a GPU are there.

#![cfg(feature = "cublas")]
#![allow(clippy::print_stderr, reason = "tests talk to their reader")]

use samebits_cuda_kernels::matmul::Matrix;
use samebits_cuda_kernels::{CudaError, Device, cublas, matmul, vendor};

#[test]
fn a_missing_library_is_named() {
    match cublas::find() {
        Ok(()) => eprintln!("returning early: cuBLAS is here"),
        Err(error) => {
            assert_eq!(error, CudaError::LibraryMissing { library: "cuBLAS" });
            let text = error.to_string();
            assert!(text.starts_with("cuda: cuBLAS was not found"), "{text}");
            assert!(vendor::libraries().contains(&("cuBLAS", text)));
            if let Ok(device) = Device::new(0) {
                let x = device.upload(&[1.0f32]).unwrap();
                let one = Matrix { data: &x, row: 1, column: 1, offsets: &[0] };
                let found = cublas::matmul(&device, one, one, [1, 1, 1]).unwrap_err();
                assert_eq!(found, error);
            }
        }
    }
}

#[test]
fn products_repeat_their_bits() {
    let (Ok(()), Ok(device)) = (cublas::find(), Device::new(0)) else {
        eprintln!("returning early: no cuBLAS or no device");
        return;
    };
    let [m, n, k] = [130, 70, 3000];
    let values: Vec<f32> = (0..m * k).map(|i| ((i * 7919) % 1000) as f32 / 500.0 - 1.0).collect();
    let (x, y) = (device.upload(&values).unwrap(), device.upload(&values[..k * n]).unwrap());
    let a = Matrix { data: &x, row: k, column: 1, offsets: &[0] };
    let b = Matrix { data: &y, row: n, column: 1, offsets: &[0] };
    let run = || device.download(&cublas::matmul(&device, a, b, [m, n, k]).unwrap()).unwrap();
    let first = run();
    let exact = device.download(&matmul::matmul(&device, a, b, [m, n, k]).unwrap()).unwrap();
    for (got, expected) in first.iter().zip(&exact) {
        assert!((got - expected).abs() <= 1e-2, "{got}, expected {expected}");
    }
    for _ in 0..5 {
        let same = run().iter().zip(&first).all(|(x, y)| x.to_bits() == y.to_bits());
        assert!(same, "cuBLAS gave other bits");
    }
}
