//! Dimension 0 of tensors without dimensions, as if it had size 1, as in PyTorch.

use samebits::functional as f;
use samebits::{DType, Tensor};

#[test]
fn searches_of_no_dimensions() {
    let x = Tensor::scalar(3.0f32);
    for found in [
        f::argmax(&x, Some(0), true).unwrap(),
        f::argmin(&x, Some(0), false).unwrap(),
        f::argsort(&x, 0, true).unwrap(),
    ] {
        assert_eq!((found.shape(), found.item::<i64>().unwrap()), (&[][..], 0));
    }
    assert_eq!(f::any(&x, [0], true).unwrap().to_bools().unwrap(), [true]);
    assert_eq!(f::all(&Tensor::scalar(0.0f32), [0], false).unwrap().to_bools().unwrap(), [false]);
    assert_eq!(f::flatten(&x, 0, -1).unwrap().shape(), [1]);
}

#[test]
fn there_is_no_other_dimension() {
    let x = Tensor::scalar(3.0f32);
    let index = Tensor::from_slice(&[0i64, 0], &[2]).unwrap();
    assert!(f::sum(&x, [1], true).is_err());
    assert!(f::cumsum(&x, 1).is_err());
    assert!(f::sort(&x, 1, false).is_err());
    assert!(f::topk(&x, 2, 0, true).is_err());
    assert!(f::topk(&x, 0, 0, true).is_err());
    assert!(f::kthvalue(&x, 2, 0, true).is_err());
    assert!(f::log_softmax(&x, 1).is_err());
    assert!(f::narrow(&x, 0, 0, 1).is_err());
    assert!(f::split(&x, &[1], 0).is_err());
    let error = f::index_select(&x, 0, &index).unwrap_err().to_string();
    assert_eq!(error, "index_select: expected one index into a tensor without dimensions, got 2");
}

#[test]
fn integers_are_added_as_integers() {
    let x = Tensor::from_slice(&[i64::MAX, 2, 3, -4], &[2, 2]).unwrap();
    let var = x.clone();
    let sums = |y: Tensor| y.to_vec::<i64>().unwrap();
    assert_eq!(sums(f::sum(&var, [1], true).unwrap()), [i64::MIN + 1, -1]);
    assert_eq!(sums(f::sum(&var, [0, 1], true).unwrap()), [i64::MIN]);
    assert_eq!(sums(f::prod(&var, [0], false).unwrap()), [i64::MAX.wrapping_mul(3), -8]);
    assert_eq!(sums(f::amax(&var, [0], false).unwrap()), [i64::MAX, 2]);
    assert_eq!(sums(f::amin(&var, [1], false).unwrap()), [2, -4]);
    let none = Tensor::zeros(&[0], DType::I64).unwrap();
    assert_eq!(sums(f::sum(&none, [0], true).unwrap()), [0]);
    assert_eq!(sums(f::prod(&none, [0], false).unwrap()), [1]);
    assert!(f::amax(&none, [0], false).is_err());
    for dtype in [DType::U8, DType::Bool] {
        let ones = Tensor::ones(&[300], dtype).unwrap();
        assert_eq!(sums(f::sum(&ones, [0], true).unwrap()), [300]);
        assert_eq!(sums(f::prod(&ones, [0], false).unwrap()), [1]);
    }
    let error = f::mean(&var, [0], true).unwrap_err().to_string();
    assert!(error.starts_with("mean: "), "{error}");
}
