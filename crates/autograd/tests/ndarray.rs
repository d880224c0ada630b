//! Tensors and arrays of `ndarray` hold the same elements.

use std::fmt::Debug;

use ndarray::{
    Array, Array1, Array2, Array3, ArrayD, ArrayView2, Axis, IxDyn, ShapeBuilder, arr0, array, s,
};
use samebits_autograd::ndarray::ArrayElement;
use samebits_autograd::{DType, Error, Tensor, bf16, f16};

/// Converts to a tensor and back, for an element type and several layouts.
fn round_trip<A: ArrayElement + PartialEq + Debug>(dtype: DType, of: impl Fn(u8) -> A) {
    let whole = Array::from_shape_fn((4, 3, 2), |(i, j, k)| of((i * 6 + j * 2 + k) as u8 % 7));
    let views = [
        whole.view().into_dyn(),
        whole.t().into_dyn(),
        whole.slice(s![..;-2, 1.., ..]).into_dyn(),
        whole.index_axis(Axis(1), 2).into_dyn(),
        whole.slice(s![2..2, .., ..]).into_dyn(),
        whole.slice(s![3, 2, 1]).into_dyn(),
    ];
    for view in views {
        let x = Tensor::try_from(&view).unwrap();
        assert_eq!((x.dtype(), x.shape()), (dtype, view.shape()));
        assert_eq!(ArrayD::<A>::try_from(&x).unwrap(), view);
    }
    let fixed = Array3::<A>::try_from(Tensor::try_from(whole.clone()).unwrap()).unwrap();
    assert_eq!(fixed, whole);
}

#[test]
fn every_element_type_goes_there_and_back() {
    round_trip(DType::F32, |x| f32::from(x) - 2.5);
    round_trip(DType::F64, |x| f64::from(x) / 3.0);
    round_trip(DType::F16, |x| f16::from_f32(f32::from(x) - 2.5));
    round_trip(DType::BF16, |x| bf16::from_f32(f32::from(x) - 2.5));
    round_trip(DType::I64, |x| i64::from(x) - (1 << 40));
    round_trip(DType::I32, |x| i32::from(x) - 3);
    round_trip(DType::U32, |x| u32::MAX - u32::from(x));
    round_trip(DType::U8, |x| 255 - x);
    round_trip(DType::Bool, |x| x % 2 == 0);
}

#[test]
fn elements_are_in_the_order_of_their_indices() {
    let columns_first = Array2::from_shape_vec((2, 3).f(), vec![1i64, 4, 2, 5, 3, 6]).unwrap();
    let x = Tensor::try_from(columns_first).unwrap();
    assert_eq!(x.to_vec::<i64>().unwrap(), [1, 2, 3, 4, 5, 6]);
    // From a strided tensor, too.
    let turned = Array2::<i64>::try_from(&x.transpose(0, 1).unwrap()).unwrap();
    assert_eq!(turned, array![[1, 4], [2, 5], [3, 6]]);
    let repeated = ArrayView2::from(&[[7.0f32, 8.0]]).broadcast((3, 2)).unwrap().to_owned();
    let row = Tensor::new([7.0f32, 8.0]).unwrap().expand(&[3, 2]).unwrap();
    assert_eq!(Array2::<f32>::try_from(row).unwrap(), repeated);
    assert_eq!(Tensor::try_from(arr0(2.5f64)).unwrap().rank(), 0);
    assert_eq!(ArrayD::<f64>::try_from(Tensor::scalar(2.5f64)).unwrap().ndim(), 0);
}

#[test]
fn bits_are_kept() {
    let bits = [0x7fc0_1234u32, 0x8000_0000, 1, 0xff80_0000];
    let x = Tensor::try_from(Array1::from_iter(bits.map(f32::from_bits))).unwrap();
    let back = Array1::<f32>::try_from(&x).unwrap();
    assert_eq!(back.mapv(f32::to_bits).to_vec(), bits);
}

#[test]
fn what_does_not_fit_is_refused() {
    let x = Tensor::zeros(&[2, 3], DType::F32).unwrap();
    let error = Array1::<f32>::try_from(&x).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }));
    assert_eq!(error.to_string(), "ndarray: expected 1 dimensions, got a tensor of shape [2, 3]");
    for error in [
        Array2::<f64>::try_from(&x).unwrap_err(),
        ArrayD::<bool>::try_from(&x).unwrap_err(),
        // A byte is not a boolean, although it is stored as one.
        ArrayD::<u8>::try_from(Tensor::from_bools(&[true], &[1]).unwrap()).unwrap_err(),
    ] {
        assert!(matches!(error, Error::DTypeMismatch { op: "ndarray", .. }), "{error}");
    }
    // Memory cannot hold the copy: one element, broadcast.
    let huge = Array::<f32, _>::zeros(IxDyn(&[1]));
    let error = Tensor::try_from(huge.broadcast(IxDyn(&[1 << 30, 1 << 30])).unwrap()).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { op: "ndarray", .. }), "{error}");
}
