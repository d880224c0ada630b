//! Conversions between tensors and arrays, and the text form, which is PyTorch's.

use samebits_autograd::{Error, Result, Tensor, functional};
use samebits_tensor_core::{DType, Device, bf16, f16};

#[test]
fn arrays_become_tensors_and_come_back() -> Result<()> {
    let x = Tensor::new([[[1.0f32], [2.0]], [[3.0], [4.0]]])?;
    assert_eq!((x.shape(), x.dtype()), (&[2, 2, 1][..], DType::F32));
    assert_eq!(Vec::<f32>::try_from(&x)?, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(Tensor::new(2.5)?.dtype(), DType::F64);
    assert_eq!(Tensor::new([1, 2])?.to_vec::<i64>()?, [1, 2]);
    assert_eq!(Tensor::new([[true], [false]])?.to_bools()?, [true, false]);
    let none: [[f32; 3]; 0] = [];
    assert_eq!(Tensor::try_from(none)?.shape(), [0, 3]);
    assert_eq!(f64::try_from(&Tensor::from(0.5))?, 0.5);
    assert_eq!(i32::try_from(&Tensor::from_slice(&[-7i32], &[1])?)?, -7);
    assert_eq!(i64::try_from(&Tensor::from(3i64))?, 3);
    assert!(f32::try_from(&x).is_err() && f64::try_from(&Tensor::from(1i64)).is_err());
    assert_eq!(<[[[f32; 1]; 2]; 2]>::try_from(&x)?, [[[1.0], [2.0]], [[3.0], [4.0]]]);
    assert_eq!(<[[f32; 2]; 2]>::try_from(&x.squeeze(-1)?.t()?)?, [[1.0, 3.0], [2.0, 4.0]]);
    assert_eq!(<[[f32; 3]; 0]>::try_from(&Tensor::try_from(none)?)?, none);
    assert_eq!(<[bool; 2]>::try_from(&Tensor::new([true, false])?)?, [true, false]);
    assert_eq!(Vec::<bool>::try_from(&x.gt(2.5)?)?, [false, false, true, true]);
    assert_eq!(i64::try_from(&Tensor::from(3))?, 3);
    assert!(bool::try_from(&Tensor::try_from(true)?)? && bool::try_from(&Tensor::new([[true]])?)?);
    for (wrong, message) in [
        (
            <[f32; 4]>::try_from(&x).map(drop),
            "try_from: expected the tensor of shape [4], got [2, 2, 1]",
        ),
        (
            <[[[i64; 1]; 2]; 2]>::try_from(&x).map(drop),
            "to_vec: expected a tensor of type i64, got f32",
        ),
        (
            bool::try_from(&x.gt(0.0)?).map(drop),
            "try_from: expected the tensor of shape [1, 1, 1], got [2, 2, 1]",
        ),
    ] {
        assert_eq!(wrong.unwrap_err().to_string(), message);
    }
    Ok(())
}

#[test]
fn numbers_are_written_as_pytorch_writes_them() -> Result<()> {
    for (x, expected) in [
        (Tensor::new([1.0f32, 2.0])?, "tensor([1., 2.])"),
        (Tensor::new([1.5f32, -2.0])?, "tensor([ 1.5000, -2.0000])"),
        (Tensor::new([1e-5f32, 1.0])?, "tensor([1.0000e-05, 1.0000e+00])"),
        (Tensor::new([1.0f32, 10000.0])?, "tensor([1.0000e+00, 1.0000e+04])"),
        (Tensor::new([f32::NAN, 1.0, f32::INFINITY])?, "tensor([nan, 1., inf])"),
        (Tensor::new([0.1])?, "tensor([0.1000], dtype=f64)"),
        (Tensor::new([[1, -20], [300, 4]])?, "tensor([[  1, -20],\n        [300,   4]])"),
        (Tensor::new([true, false])?, "tensor([ True, False])"),
        (Tensor::from_slice(&[-1i32, 20], &[2])?, "tensor([-1, 20], dtype=i32)"),
        (Tensor::new([7u32])?, "tensor([7], dtype=u32)"),
        (Tensor::new([f16::from_f32(1.5), f16::NAN])?, "tensor([1.5000,    nan], dtype=f16)"),
        (Tensor::new([bf16::from_f32(2.0)])?, "tensor([2.], dtype=bf16)"),
        (Tensor::new(3.0f32)?, "tensor(3.)"),
        (Tensor::zeros(&[0], DType::F32)?, "tensor([])"),
        (Tensor::zeros(&[0, 3], DType::F32)?, "tensor([], size=[0, 3])"),
        (Tensor::new([1.0f32])?.set_requires_grad(true).unwrap(), "tensor([1.], requires_grad)"),
    ] {
        assert_eq!(x.to_string(), expected);
    }
    Ok(())
}

#[test]
fn debug_output_is_short() -> Result<()> {
    let x = Tensor::zeros(&[2, 3], DType::F32)?;
    assert_eq!(format!("{x:?}"), "Tensor(f32, [2, 3], cpu)");
    let x = x.set_requires_grad(true)?;
    assert_eq!(format!("{x:?}"), "Tensor(f32, [2, 3], cpu, requires_grad)");
    Ok(())
}

#[test]
fn long_tensors_are_shortened_and_long_rows_wrapped() -> Result<()> {
    let long = Tensor::arange(2000)?;
    assert_eq!(long.to_string(), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])");
    let square = Tensor::zeros(&[40, 40], DType::F32)?.to_string();
    let row = "[0., 0., 0.,  ..., 0., 0., 0.]";
    let rows = [row, row, row, "...", row, row, row].join(",\n        ");
    assert_eq!(square, format!("tensor([{rows}])"));
    let wrapped = Tensor::arange(30)?.to_string();
    let lines: Vec<&str> = wrapped.lines().collect();
    assert_eq!(
        lines[0],
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,"
    );
    assert_eq!(lines[1], "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])");
    Ok(())
}

/// Mistakes of new users: the message names both sides, or states what to do.
#[test]
fn common_mistakes_are_explained() {
    let x = Tensor::zeros(&[2, 3], DType::F32).unwrap().set_requires_grad(true).unwrap();
    let labels = Tensor::zeros(&[2], DType::F32).unwrap();
    let unseeded = || std::thread::spawn(|| functional::rand(&[3]).unwrap_err()).join().unwrap();
    let apart = Error::DeviceMismatch { op: "add", left: Device::Cpu, right: Device::Cuda(0) };
    for (error, text) in [
        (x.matmul(&x).unwrap_err(), "matmul: cannot multiply matrices of shapes [2, 3] and [2, 3]"),
        (
            functional::cross_entropy(&x, &labels).unwrap_err(),
            "cross_entropy: expected a target of classes of type i64, or of probabilities of shape \
             [2, 3]; got f32 of shape [2]",
        ),
        (
            unseeded(),
            "rand: the default generator of this thread was never seeded, so the run could not be \
             repeated; call `manual_seed(seed)` first, or pass a generator",
        ),
        (apart, "add: tensors on cpu and cuda:0; move one with `to`"),
        (
            x.backward().unwrap_err(),
            "backward: expected a scalar, got shape [2, 3]; reduce it, as by `mean(())`, or give the \
             gradient of each element to `backward_from`",
        ),
        (
            labels.sum(()).unwrap().backward().unwrap_err(),
            "backward: the tensor does not require a gradient: no tensor that it was computed from \
             does (see `set_requires_grad`), or it was computed inside `no_grad`",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
