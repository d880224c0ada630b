//! Operators, dimensions and shapes as users write them, against written figures.

use samebits_autograd::{Error, Result, Tensor, functional as f};
use samebits_tensor_core::DType;

fn matrix() -> Tensor {
    Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap()
}

#[track_caller]
fn assert_values(x: Result<Tensor>, expected: &[f32]) {
    assert_eq!(x.unwrap().to_vec::<f32>().unwrap(), expected);
}

#[test]
fn operators_take_tensors_numbers_and_results() {
    let (x, y) = (matrix(), Tensor::from_slice(&[10.0f32, 20.0], &[2]).unwrap());
    assert_values(&x + &y, &[11.0, 22.0, 13.0, 24.0]);
    assert_values(x.clone() - y.clone(), &[-9.0, -18.0, -7.0, -16.0]);
    assert_values(&x * y.clone(), &[10.0, 40.0, 30.0, 80.0]);
    assert_values(y.clone() / &x, &[10.0, 10.0, 10.0 / 3.0, 5.0]);
    assert_values(-&x, &[-1.0, -2.0, -3.0, -4.0]);
    assert_values(&x * 2.0, &[2.0, 4.0, 6.0, 8.0]);
    assert_values(1.0 - &x, &[0.0, -1.0, -2.0, -3.0]);
    assert_values(6 / x.clone(), &[6.0, 3.0, 2.0, 1.5]);
    // A single question mark serves a whole expression.
    assert_values(&x * 2.0 + &y, &[12.0, 24.0, 16.0, 28.0]);
    assert_values(&y - &x * 2.0, &[8.0, 16.0, 4.0, 12.0]);
    assert_values(&x * &x * &x, &[1.0, 8.0, 27.0, 64.0]);
}

#[test]
fn operators_are_differentiable() {
    let x = Tensor::from_slice(&[1.0f64, 2.0], &[2]).unwrap().set_requires_grad(true).unwrap();
    let y = (&x * 3.0 * &x - &x).unwrap().sum(()).unwrap();
    let gradients = y.backward().unwrap();
    assert_eq!(gradients.of(&x).unwrap().to_vec::<f64>().unwrap(), [5.0, 11.0]);
}

#[test]
fn an_operator_that_cannot_be_computed_is_an_error() {
    let (x, y) = (matrix(), Tensor::zeros(&[3], DType::F32).unwrap());
    let error = (&x + &y).unwrap_err();
    assert!(matches!(error, Error::Broadcast { .. }), "{error}");
    // The first error of a chain is reported.
    assert_eq!((&x + &y - &x).unwrap_err(), error);
    assert_eq!((&x - (&x + &y)).unwrap_err(), error);
    let whole = Tensor::arange(3).unwrap();
    let error = (&whole * 0.5).unwrap_err().to_string();
    assert_eq!(error, "mul: 0.5 cannot be combined with a tensor of type i64");
    let error = (1.0 / &whole).unwrap_err().to_string();
    assert_eq!(error, "div: 1 cannot be combined with a tensor of type i64");
    let bytes = whole.to_dtype(DType::U8).unwrap();
    for error in [-&bytes, &bytes + &bytes, &bytes * 2, whole.sqrt()] {
        let error = error.unwrap_err();
        assert!(matches!(error, Error::DTypeMismatch { .. }), "{error}");
    }
}

#[test]
fn dimensions_count_from_both_ends() {
    let x =
        Tensor::from_slice(&(1..=24).map(|i| i as f32).collect::<Vec<_>>(), &[2, 3, 4]).unwrap();
    let bits = |x: Result<Tensor>| x.unwrap().to_vec::<f32>().unwrap();
    let rows = bits(x.sum(2));
    assert_eq!(rows, [10.0, 26.0, 42.0, 58.0, 74.0, 90.0]);
    assert_eq!(bits(x.sum(-1)), rows);
    assert_eq!(bits(x.sum(-1i64)), rows);
    assert_eq!(bits(x.sum([-1isize])), rows);
    assert_eq!(bits(x.sum(2..)), rows);
    assert_eq!(bits(x.sum(vec![2usize])), rows);
    assert_eq!(x.sum_keepdim(-1).unwrap().shape(), [2, 3, 1]);
    assert_eq!(x.sum_keepdim(()).unwrap().shape(), [1, 1, 1]);
    for all in [x.sum(()), x.sum(..), x.sum([2, 0, 1]), x.sum(0..=2), x.sum(..3), x.sum(-3..)] {
        let all = all.unwrap();
        assert_eq!((all.shape(), all.item::<f32>().unwrap()), (&[][..], 300.0));
    }
    assert_eq!(bits(x.mean([0, -1])), [8.5, 12.5, 16.5]);
    assert_eq!(x.argmax(()).unwrap().item::<i64>().unwrap(), 23);
    assert_eq!(x.argmax(-1).unwrap().to_vec::<i64>().unwrap(), [3; 6]);
    assert_eq!(f::argmax(&x, None, false).unwrap().item::<i64>().unwrap(), 23);
    assert_eq!(x.permute([2, 0, -2]).unwrap().shape(), [4, 2, 3]);
    assert_eq!(x.transpose(0, -1).unwrap().shape(), [4, 3, 2]);
    assert_eq!(x.unsqueeze(-1).unwrap().shape(), [2, 3, 4, 1]);
    assert_eq!(f::stack(&[x.clone(), x.clone()], -1).unwrap().shape(), [2, 3, 4, 2]);
    assert_eq!(f::cat(&[x.clone(), x.clone()], -2).unwrap().shape(), [2, 6, 4]);
    // A tensor without dimensions has dimension 0, which is also the last.
    assert_eq!(Tensor::scalar(2.0f32).sum(-1).unwrap().item::<f32>().unwrap(), 2.0);
}

#[test]
fn joined_views_are_their_elements_in_order() {
    // Sizes, and the dimension that an input repeats one element over.
    let views = |shape: [usize; 3]| -> Vec<Tensor> {
        let [a, b, c] = shape;
        let start = Tensor::arange(2 * a * b * c + 2).unwrap();
        let all = start.narrow(0, 1, a * b * c).unwrap();
        let repeated = |sizes: [usize; 3]| {
            let part = start.narrow(0, 1, sizes.iter().product()).unwrap();
            part.reshape(sizes).unwrap().expand(&shape).unwrap()
        };
        let turned = all.reshape([c, b, a]).unwrap().permute([2, 1, 0]).unwrap();
        let apart = start.reshape([a * b * c + 1, 2]).unwrap().select(1, 1).unwrap();
        let apart = apart.narrow(0, 1, a * b * c).unwrap().reshape(shape).unwrap();
        let wide = Tensor::arange(a * b * (c + 3)).unwrap().reshape([a, b, c + 3]).unwrap();
        let inside = wide.narrow(2, 2, c).unwrap();
        let mut all = vec![all.reshape(shape).unwrap(), turned, apart, inside, repeated([1, 1, 1])];
        if a * b * c > 0 {
            all.extend([repeated([1, b, c]), repeated([a, 1, c]), repeated([a, b, 1])]);
        }
        all
    };
    // The parts of a row are short, and longer than one copy.
    for [a, b, c] in [
        [2, 3, 4],
        [1, 1, 1],
        [3, 1, 2],
        [2, 40, 5],
        [3, 2, 70],
        [2, 301, 36],
        [0, 3, 4],
        [2, 3, 0],
    ] {
        for dim in 0..3 {
            let mut other = [a, b, c];
            other[dim] = 2;
            let mut empty = [a, b, c];
            empty[dim] = 0;
            let inputs = [views([a, b, c]), views(empty), views(other)].concat();
            let got = f::cat(&inputs, dim).unwrap();
            let mut shape = [a, b, c];
            shape[dim] = inputs.iter().map(|x| x.shape()[dim]).sum();
            assert_eq!(got.shape(), shape);
            let outer: usize = shape[..dim].iter().product();
            let inner: usize = shape[dim + 1..].iter().product();
            let vectors: Vec<Vec<i64>> = inputs.iter().map(|x| x.to_vec().unwrap()).collect();
            let mut want: Vec<i64> = Vec::new();
            for i in 0..outer {
                for (x, values) in inputs.iter().zip(&vectors) {
                    let width: usize = x.shape()[dim] * inner;
                    want.extend(&values[i * width..][..width]);
                }
            }
            assert_eq!(got.to_vec::<i64>().unwrap(), want, "{shape:?}, dimension {dim}");
        }
    }
}

#[test]
fn flipped_views_are_their_elements_in_reverse() {
    let base = Tensor::arange(2 * 3 * 5).unwrap().reshape([2, 3, 5]).unwrap();
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let turned = orders.map(|order| base.permute(order).unwrap());
    let repeated = base.narrow(1, 0, 1).unwrap().expand(&[2, 3, 5]).unwrap();
    for x in turned.into_iter().chain([base.narrow(2, 1, 3).unwrap(), repeated]) {
        let values: Vec<i64> = x.to_vec().unwrap();
        let [a, b, c] = [0, 1, 2].map(|dim| x.shape()[dim]);
        for chosen in 0..8usize {
            let dims: Vec<usize> = (0..3).filter(|dim| chosen >> dim & 1 == 1).collect();
            let place = |dim: usize, size: usize, i: usize| {
                if dims.contains(&dim) { size - 1 - i } else { i }
            };
            let each = (0..a * b * c).map(|i| {
                let (i, j, k) = (i / (b * c), i / c % b, i % c);
                values[(place(0, a, i) * b + place(1, b, j)) * c + place(2, c, k)]
            });
            let got = x.flip(dims.clone()).unwrap();
            assert_eq!(got.shape(), x.shape());
            let want: Vec<i64> = each.collect();
            assert_eq!(got.to_vec::<i64>().unwrap(), want, "{:?} along {dims:?}", x.shape());
        }
    }
}

#[test]
fn dimensions_that_do_not_exist_are_errors() {
    let x = matrix();
    let message = |x: Result<Tensor>| x.unwrap_err().to_string();
    assert_eq!(message(x.sum(-3)), "sum: dimension -3 of a tensor of rank 2");
    assert_eq!(
        message(x.softmax(i64::MIN)),
        format!("softmax: dimension {} of a tensor of rank 2", i64::MIN)
    );
    for wrong in [x.sum(2), x.sum([0, 0]), x.sum([0, -2]), x.sum(0..9), x.sum(0..usize::MAX)] {
        assert!(message(wrong).starts_with("sum: "), "the error names the function");
    }
    assert!(x.mean(usize::MAX).is_err() && x.permute([0, 2]).is_err() && x.unsqueeze(-4).is_err());
    let none: &[Tensor] = &[];
    assert!(f::cat(none, -1).is_err() && f::stack(none, 0).is_err());
}

#[test]
fn one_size_of_a_shape_may_be_left_open() {
    let x = Tensor::arange(12).unwrap();
    assert_eq!(x.reshape([3, -1]).unwrap().shape(), [3, 4]);
    assert_eq!(x.reshape(-1).unwrap().shape(), [12]);
    assert_eq!(x.reshape([2usize, 6]).unwrap().shape(), [2, 6]);
    assert_eq!(Tensor::scalar(1.0f64).reshape(()).unwrap().shape(), [0usize; 0]);
    for wrong in [&[-1, -1][..], &[5, -1], &[-2, 6], &[0, -1], &[i64::MAX, i64::MAX, -1], &[12, 2]]
    {
        let error = x.reshape(wrong).unwrap_err().to_string();
        assert!(error.starts_with("reshape:"), "{error}");
    }
}

#[test]
fn squeezing_leaves_other_sizes() {
    let x = Tensor::zeros(&[1, 3, 1], DType::F32).unwrap();
    assert_eq!(x.squeeze(()).unwrap().shape(), [3]);
    assert_eq!(x.squeeze(1).unwrap().shape(), [1, 3, 1]);
    assert_eq!(x.squeeze([0, 2]).unwrap().shape(), [3]);
    assert!(x.squeeze(3).is_err() && x.squeeze(-4).is_err());
}

#[test]
fn what_has_no_gradient_says_so() {
    let weight = Tensor::ones(&[2], DType::F32).unwrap().set_requires_grad(true).unwrap();
    let options = f::ClassLoss { weight: Some(&weight), ..f::ClassLoss::default() };
    let classes = Tensor::from_slice(&[0i64, 1], &[2]).unwrap();
    let loss = f::cross_entropy_with(&matrix(), &classes, &options).unwrap();
    let error = loss.backward().unwrap_err().to_string();
    assert_eq!(error, "nll_loss: the weight has no gradient");
}
