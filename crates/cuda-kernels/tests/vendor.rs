//! The vendor's libraries: a clear error if they are missing, and the same bits twice if they and a
//! GPU are present.

#![cfg(all(feature = "cublas", feature = "cudnn"))]
#![allow(clippy::print_stderr, reason = "tests talk to their reader")]

use samebits_cuda_kernels::conv::{ConvParams, Convolution};
use samebits_cuda_kernels::matmul::Matrix;
use samebits_cuda_kernels::{CudaError, Device, conv, cublas, cudnn, matmul, vendor};
use samebits_tensor_core::ops::{Conv, Matmul};
use samebits_tensor_core::registry::{dispatch_at, dispatch_variant};
use samebits_tensor_core::{Determinism, Device as Place, Tensor};

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
fn another_missing_library_is_named() {
    match cudnn::find() {
        Ok(()) => eprintln!("returning early: cuDNN is here"),
        Err(error) => {
            assert_eq!(error, CudaError::LibraryMissing { library: "cuDNN" });
            assert!(vendor::libraries().contains(&("cuDNN", error.to_string())));
            if let Ok(device) = Device::new(0) {
                let x = device.upload(&[1.0f32]).unwrap();
                let one = cudnn::Convolution::new(&line([1, 1, 1], [1, 1, 1], 0)).unwrap();
                assert_eq!(one.forward(&device, &x, &x).unwrap_err(), error);
            }
        }
    }
}

#[test]
fn tensors_do_without_missing_libraries() {
    let (Err(_), Err(_)) = (cublas::find(), cudnn::find()) else {
        eprintln!("returning early: a library is here");
        return;
    };
    let Ok(1..) = samebits_cuda_kernels::install() else {
        eprintln!("returning early: no device");
        return;
    };
    let tensor = |shape: &[usize]| {
        let values: Vec<f32> = (0..shape.iter().product()).map(|i: usize| i as f32 / 7.0).collect();
        Tensor::from_slice(&values, shape).unwrap().to(Place::Cuda(0)).unwrap()
    };
    let product = Matmul { a: tensor(&[3, 5]), b: tensor(&[5, 4]) };
    let (input, weight) = (tensor(&[2, 3, 9]), tensor(&[4, 3, 3]));
    let params = ConvParams::padded(1, 1);
    let convolution = Conv { input, weight, bias: None, params };
    let at = |level| {
        let product = dispatch_at(&product, level).unwrap().to_bytes().unwrap();
        [product, dispatch_at(&convolution, level).unwrap().to_bytes().unwrap()]
    };
    let portable = at(Determinism::Portable);
    assert_eq!(at(Determinism::RunToRun), portable);
    assert_eq!(at(Determinism::NotGuaranteed), portable);
    let refused = dispatch_variant(&product, "cublas").unwrap_err().to_string();
    assert_eq!(refused, "matmul (forward): no kernel on cuda:0 for f32");
    let refused = dispatch_variant(&convolution, "cudnn").unwrap_err().to_string();
    assert_eq!(refused, "conv (forward): no kernel on cuda:0 for f32");
}

fn line(input: [usize; 3], weight: [usize; 3], padding: usize) -> Convolution {
    Convolution::new("conv", &input, &weight, &ConvParams::padded(1, padding)).unwrap()
}

#[test]
fn convolutions_repeat_their_bits() {
    let (Ok(()), Ok(device)) = (cudnn::find(), Device::new(0)) else {
        eprintln!("returning early: no cuDNN or no device");
        return;
    };
    let (input, weight) = ([8, 16, 100], [24, 16, 5]);
    let values: Vec<f32> = (0..8 * 24 * 100).map(|i| ((i * 7919) % 1000) as f32 / 500.0).collect();
    let x = device.upload(&values[..8 * 16 * 100]).unwrap();
    let w = device.upload(&values[..24 * 16 * 5]).unwrap();
    let g = device.upload(&values).unwrap();
    let ours = line(input, weight, 2);
    let theirs = cudnn::Convolution::new(&ours).unwrap();
    let deterministic = samebits_cuda_kernels::Variant::Deterministic;
    for pass in 0..3 {
        let run = || {
            let out = match pass {
                0 => theirs.forward(&device, &x, &w),
                1 => theirs.input_grad(&device, &g, &w),
                _ => theirs.weight_grad(&device, &g, &x),
            };
            device.download(&out.unwrap()).unwrap()
        };
        let expected = match pass {
            0 => conv::forward(&device, &ours, &x, &w, None),
            1 => conv::input_grad(&device, &ours, &g, &w, None),
            _ => conv::weight_grad(&device, &ours, &g, &x, deterministic),
        };
        let first = run();
        for (got, expected) in first.iter().zip(device.download(&expected.unwrap()).unwrap()) {
            assert!((got - expected).abs() <= 1e-4 * expected.abs(), "{got}, expected {expected}");
        }
        let same = run().iter().zip(&first).all(|(x, y)| x.to_bits() == y.to_bits());
        assert!(same, "cuDNN gave other bits in pass {pass}");
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
