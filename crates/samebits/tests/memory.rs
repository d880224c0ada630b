//! Draws of more numbers than memory holds, and of more matrices than there is time for.

use samebits::functional::{qr, svd};
use samebits::ops::QrMode;
use samebits::{DType, Device, Error, Tensor, manual_seed, rand, randn, randperm};

#[test]
fn draws_that_do_not_fit_are_errors_and_draw_nothing() {
    manual_seed(1);
    let expected = rand(&[3]).unwrap().to_vec::<f32>().unwrap();
    manual_seed(1);
    let n = 1 << 50;
    let missing = |op, bytes| Error::OutOfMemory { op, device: Device::Cpu, bytes };
    assert_eq!(rand(&[n]).unwrap_err(), missing("rand", 4 * n));
    assert_eq!(randn(&[n / 4, 4]).unwrap_err(), missing("randn", 4 * n));
    assert_eq!(randperm(n).unwrap_err(), missing("randperm", 8 * n));
    for (op, drawn) in [
        ("rand", rand(&[1 << 40, 1 << 40])),
        ("randn", randn(&[usize::MAX, 2])),
        ("randperm", randperm(usize::MAX)),
    ] {
        let text = drawn.unwrap_err().to_string();
        assert!(text.starts_with(&format!("{op}: ")) && text.ends_with("too many elements"));
    }
    assert_eq!(rand(&[3]).unwrap().to_vec::<f32>().unwrap(), expected);
}

#[test]
fn empty_matrices_are_no_work_however_many() {
    for shape in [[1 << 40, 0, 3], [1 << 40, 3, 0], [0, 1 << 40, 3]] {
        let x = Tensor::zeros(&shape, DType::F32).unwrap();
        let (u, s, v) = svd(&x).unwrap();
        let (q, r) = qr(&x, QrMode::Reduced).unwrap();
        assert!([u, s, v, q, r].iter().all(|part| part.numel() == 0), "{shape:?}");
    }
    let x = Tensor::zeros(&[1 << 40, 3, 0], DType::F32).unwrap();
    let error = qr(&x, QrMode::Complete).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { op: "qr", .. }), "{error}");
}
