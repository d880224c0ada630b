use proptest::prelude::*;
use samebits::functional as f;
use samebits::ops::ConvParams;
use samebits::{DType, Tensor};
use workspace_tests::normal_of;

use super::{cases, positions, row_major};

#[derive(Clone, Debug)]
struct Call {
    batch: usize,
    /// The input and output channels of a group.
    channels: [usize; 2],
    size: Vec<usize>,
    kernel: Vec<usize>,
    params: ConvParams,
    more: Vec<usize>,
}

impl Call {
    fn good_params(&self) -> bool {
        let p = &self.params;
        p.groups > 0
            && !p.stride.contains(&0)
            && !p.dilation.contains(&0)
            && !self.kernel.contains(&0)
    }
}

prop_compose! {
    fn calls()(dims in 1usize..=3)(
        batch in 0usize..3,
        channels in [1usize..4, 1usize..4],
        size in proptest::collection::vec(1usize..6, dims),
        kernel in proptest::collection::vec(prop_oneof![1 => Just(0usize), 15 => 1usize..4], dims),
        stride in proptest::collection::vec(prop_oneof![1 => Just(0usize), 15 => 1usize..4], dims),
        padding in proptest::collection::vec(0usize..3, dims),
        dilation in proptest::collection::vec(prop_oneof![1 => Just(0usize), 15 => 1usize..4], dims),
        groups in prop_oneof![1 => Just(0usize), 9 => 1usize..4],
        more in proptest::collection::vec(0usize..3, dims),
    ) -> Call {
        Call { batch, channels, size, kernel, params: ConvParams { stride, padding, dilation, groups }, more }
    }
}

/// Returns the sum of products.
fn dot(a: &Tensor, b: &Tensor) -> f64 {
    let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

proptest! {
    #![proptest_config(cases(3))]

    #[test]
    fn conv_is_right_or_an_error(call in calls()) {
        let Call { batch, channels: [each, outputs], size, kernel, params, .. } = &call;
        let groups = params.groups.max(1);
        let input = [&[*batch, each * groups], &size[..]].concat();
        let weight = [&[outputs * groups, *each], &kernel[..]].concat();
        let (x, w) = (normal_of(&input, DType::F64, 1), normal_of(&weight, DType::F64, 2));
        let result = f::conv(&Tensor::from(x.clone()), &Tensor::from(w.clone()), None, params);
        let fits = |d: usize| {
            (kernel[d] - 1) * params.dilation[d] < size[d] + 2 * params.padding[d]
        };
        let good = call.good_params() && (0..size.len()).all(fits);
        prop_assert_eq!(result.is_ok(), good, "{:?}", result);
        let Ok(y) = result else { return Ok(()) };
        let target: Vec<usize> = (0..size.len())
            .map(|d| {
                let slack = size[d] + 2 * params.padding[d] - (kernel[d] - 1) * params.dilation[d] - 1;
                slack / params.stride[d] + 1
            })
            .collect();
        let shape = [&[*batch, outputs * groups], &target[..]].concat();
        prop_assert_eq!(y.shape(), &shape[..]);
        let (x, w) = (x.to_vec::<f64>().unwrap(), w.to_vec::<f64>().unwrap());
        for (y, at) in y.to_vec::<f64>().unwrap().iter().zip(positions(&shape)) {
            let mut sum = 0.0;
            for tap in positions(&weight[1..]) {
                let place: Option<Vec<usize>> = (0..size.len())
                    .map(|d| {
                        let padded = at[2 + d] * params.stride[d] + tap[1 + d] * params.dilation[d];
                        padded.checked_sub(params.padding[d]).filter(|&i| i < size[d])
                    })
                    .collect();
                let Some(place) = place else { continue };
                let from = [&[at[0], at[1] / outputs * each + tap[0]], &place[..]].concat();
                let weight = w[row_major(&[&[at[1]], &tap[..]].concat(), &weight)];
                sum += x[row_major(&from, &input)] * weight;
            }
            prop_assert!((y - sum).abs() < 1e-12 * (1.0 + sum.abs()));
        }
    }

    /// A transposed convolution is the transpose of a convolution, seen as matrices.
    #[test]
    fn conv_transpose_is_the_transpose_or_an_error(call in calls()) {
        let Call { batch, channels: [inputs, each], size, kernel, params, more } = &call;
        let groups = params.groups.max(1);
        let input = [&[*batch, inputs * groups], &size[..]].concat();
        let weight = [&[inputs * groups, *each], &kernel[..]].concat();
        let x = Tensor::from(normal_of(&input, DType::F64, 1));
        let w = Tensor::from(normal_of(&weight, DType::F64, 2));
        let result = f::conv_transpose(&x, &w, None, params, more);
        let full = |d: usize| {
            (size[d] - 1) * params.stride[d] + (kernel[d] - 1) * params.dilation[d] + more[d] + 1
        };
        let fits = |d: usize| {
            more[d] < params.stride[d].max(params.dilation[d]) && full(d) > 2 * params.padding[d]
        };
        let good = call.good_params() && (0..size.len()).all(fits);
        prop_assert_eq!(result.is_ok(), good, "{:?}", result);
        let Ok(y) = result else { return Ok(()) };
        let target: Vec<usize> =
            (0..size.len()).map(|d| full(d) - 2 * params.padding[d]).collect();
        prop_assert_eq!(y.shape(), [&[*batch, each * groups], &target[..]].concat());
        if (0..size.len()).all(|d| more[d] < params.stride[d]) {
            let other = Tensor::from(normal_of(y.shape(), DType::F64, 3));
            let back = f::conv(&other, &w, None, params).unwrap();
            let (left, right) = (dot(&y, &other), dot(&x, &back));
            prop_assert!((left - right).abs() < 1e-10 * (1.0 + left.abs()), "{} {}", left, right);
        }
    }

    #[test]
    fn conv_same_keeps_the_size(
        size in proptest::collection::vec(1usize..6, 1..=3),
        kernel in 1usize..5,
        dilation in 1usize..4,
    ) {
        let dims = size.len();
        let x = Tensor::from(normal_of(&[&[1, 2], &size[..]].concat(), DType::F64, 1));
        let w = Tensor::from(normal_of(&[vec![3, 2], vec![kernel; dims]].concat(), DType::F64, 2));
        let y = f::conv_same(&x, &w, None, &vec![dilation; dims], 1).unwrap();
        prop_assert_eq!(&y.shape()[2..], &size[..]);
        // Explicit padding gives the same sums.
        let total = ((kernel - 1) * dilation) as i64;
        let pads = [total / 2, total - total / 2].repeat(dims);
        let padded = f::pad(&x, &pads, samebits::ops::PadMode::Constant, 0.0).unwrap();
        let params = ConvParams { dilation: vec![dilation; dims], ..ConvParams::padded(dims, 0) };
        let expected = f::conv(&padded, &w, None, &params).unwrap().to_vec::<f64>().unwrap();
        for (y, expected) in y.to_vec::<f64>().unwrap().iter().zip(&expected) {
            prop_assert!((y - expected).abs() < 1e-12);
        }
    }
}

/// The padding crops everything that the input reaches.
#[test]
fn a_target_between_the_strides_is_zero() {
    let one = Tensor::from(normal_of(&[1, 1, 1], DType::F64, 1));
    let params = ConvParams { stride: vec![3], ..ConvParams::padded(1, 1) };
    let y = f::conv_transpose(&one, &one, None, &params, &[2]).unwrap();
    assert_eq!(y.to_vec::<f64>().unwrap(), [0.0]);
}
