//! Values and gradients at infinities, at NaN and at the bounds of functions: inputs of public bug
//! reports, with their figures.

use samebits_autograd::functional::{self as f, BatchReduction, ClassLoss, CtcOptions, Reduction};
use samebits_autograd::{DType, Result, Tensor};

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

/// Returns the value of `function` and the gradient of `x` for an incoming gradient of ones.
fn run(function: impl Fn(&Tensor) -> Result<Tensor>, x: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let x = Tensor::from_slice(x, &[x.len()]).unwrap().set_requires_grad(true).unwrap();
    let y = function(&x).unwrap();
    let gradients = y.sum(()).unwrap().backward().unwrap();
    (y.to_vec().unwrap(), gradients.of(&x).unwrap().to_vec().unwrap())
}

#[track_caller]
fn same(found: &[f32], expected: &[f32]) {
    let same = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(same),
        "{found:?} for {expected:?}"
    );
}

#[track_caller]
fn gradient(function: impl Fn(&Tensor) -> Result<Tensor>, x: &[f32], expected: &[f32]) {
    same(&run(function, x).1, expected);
}

/// The input of pytorch#31829.
#[test]
fn logsumexp_of_infinities_has_gradients() {
    let of_all = |x: &Tensor| f::logsumexp(x, 0, false);
    gradient(of_all, &[-INF, -INF], &[0.0, 0.0]);
    gradient(of_all, &[1.0, INF], &[0.0, 1.0]);
    gradient(of_all, &[INF, 1.0, INF, -INF], &[0.5, 0.0, 0.5, 0.0]);
    gradient(of_all, &[-INF, 2.0], &[0.0, 1.0]);
    gradient(of_all, &[NAN, INF], &[NAN, NAN]);
    // The logarithm of 2 is lost beside such numbers.
    gradient(of_all, &[1e30, 1e30, 1.0], &[0.5, 0.5, 0.0]);
    gradient(of_all, &[-1e30, -1e30, -INF], &[0.5, 0.5, 0.0]);
    gradient(|x| f::logaddexp(x, x), &[-INF, INF], &[1.0, 1.0]);
}

/// The gradients are those of [`f::logaddexp`], applied element by element.
#[test]
fn logcumsumexp_of_infinities_has_gradients() {
    let running = |x: &Tensor| f::logcumsumexp(x, 0);
    gradient(running, &[-INF, -INF, 1.0], &[1.5, 0.5, 1.0]);
    gradient(running, &[1.0, INF, INF], &[1.0, 1.5, 0.5]);
    gradient(running, &[-INF, 1.0, INF, -INF], &[1.0, 1.0, 2.0, 0.0]);
    gradient(running, &[1.0, NAN, 2.0], &[NAN, NAN, NAN]);
    gradient(running, &[INF, NAN], &[NAN, NAN]);
    gradient(running, &[1e30, 1e30, 1.0, 2e30, INF, 2e30], &[2.0, 1.0, 0.0, 1.0, 2.0, 0.0]);
    gradient(running, &[-1e30, -1e30, 1.0], &[1.5, 0.5, 1.0]);
    let pairwise = |x: &Tensor| {
        let [a, b, c] = [0, 1, 2].map(|i| f::narrow(x, 0, i, 1).unwrap());
        let second = f::logaddexp(&a, &b)?;
        f::cat(&[a, second.clone(), f::logaddexp(&second, &c)?], 0)
    };
    for x in [[-INF, -INF, 1.0], [1.0, INF, 2.0], [-INF, 3.0, INF]] {
        same(&run(running, &x).1, &run(pairwise, &x).1);
    }
}

/// A row without infinities keeps its second derivatives beside a row with infinities.
#[test]
fn logsumexp_has_second_derivatives_beside_infinities() {
    let x = [0.0, 1.0, INF, 0.0];
    let x = Tensor::from_slice(&x, &[2, 2]).unwrap().set_requires_grad(true).unwrap();
    let y = f::logsumexp(&x, 1, false).unwrap();
    let first = y.backward_from(Tensor::ones(&[2], DType::F32).unwrap(), true).unwrap();
    let first = first.of(&x).unwrap().clone();
    let along = Tensor::from_slice(&[1.0f32, 0.0, 1.0, 0.0], &[2, 2]).unwrap();
    let second = first.mul(&along).unwrap().sum(()).unwrap().backward().unwrap();
    let second = second.of(&x).unwrap().to_vec::<f32>().unwrap();
    assert!((second[0] - 0.19661193).abs() < 1e-6 && (second[1] + 0.19661193).abs() < 1e-6);
    assert_eq!(second[2..], [0.0, 0.0]);
}

#[test]
fn a_logit_outside_of_its_domain_has_no_gradient() {
    let x = [2.0, -1.0, 0.0, 1.0, NAN, 0.5, INF];
    let (y, grad) = run(|x| f::logit(x, None), &x);
    same(&y, &[NAN, NAN, -INF, INF, NAN, 0.0, NAN]);
    same(&grad, &[NAN, NAN, INF, INF, NAN, 4.0, NAN]);
    // With bounds there is a gradient, also at the bounds, as in PyTorch.
    gradient(|x| f::logit(x, Some(0.5)), &[0.5, 2.0, -INF, NAN], &[4.0, 0.0, 0.0, NAN]);
}

#[test]
fn the_gradient_of_an_activation_is_nan_where_its_value_is() {
    type Activation = fn(&Tensor) -> Result<Tensor>;
    let activations: [(&str, Activation); 24] = [
        ("relu", f::relu),
        ("relu6", f::relu6),
        ("hardtanh", |x| f::hardtanh(x, -1.0, 1.0)),
        ("clamp", |x| f::clamp(x, Some(0.0), Some(6.0))),
        ("clamp_min", |x| f::clamp_min(x, 0.0)),
        ("clamp_max", |x| f::clamp_max(x, 0.0)),
        ("leaky_relu", |x| f::leaky_relu(x, 0.1)),
        ("prelu", |x| f::prelu(x, &Tensor::scalar(0.1f32))),
        ("elu", |x| f::elu(x, 1.0)),
        ("celu", |x| f::celu(x, 1.0)),
        ("selu", f::selu),
        ("softplus", |x| f::softplus(x, 1.0, 20.0)),
        ("softshrink", |x| f::softshrink(x, 0.5)),
        ("hardshrink", |x| f::hardshrink(x, 0.5)),
        ("tanhshrink", f::tanhshrink),
        ("softsign", f::softsign),
        ("threshold", |x| f::threshold(x, 0.1, 20.0)),
        ("hardsigmoid", f::hardsigmoid),
        ("hardswish", f::hardswish),
        ("gelu", f::gelu),
        ("silu", f::silu),
        ("mish", f::mish),
        ("log_sigmoid", f::log_sigmoid),
        ("logit", |x| f::logit(x, Some(0.1))),
    ];
    for (name, activation) in activations {
        let (y, grad) = run(activation, &[NAN, 0.3]);
        assert!(y[0].is_nan() && grad[0].is_nan(), "{name}: {y:?}, {grad:?}");
        assert!(!y[1].is_nan() && !grad[1].is_nan(), "{name}: {y:?}, {grad:?}");
    }
}

/// As in PyTorch since 2.15.
#[test]
fn a_bound_has_no_gradient() {
    gradient(|x| f::clamp(x, Some(0.0), Some(6.0)), &[0.0, 6.0, 3.0, -1.0], &[0.0, 0.0, 1.0, 0.0]);
    gradient(|x| f::clamp_min(x, 0.0), &[0.0, -0.0, 1.0], &[0.0, 0.0, 1.0]);
    gradient(|x| f::clamp_max(x, 0.0), &[0.0, -0.0, -1.0], &[0.0, 0.0, 1.0]);
    gradient(f::relu6, &[0.0, 6.0, 3.0], &[0.0, 0.0, 1.0]);
    gradient(|x| f::hardtanh(x, -1.0, 1.0), &[-1.0, 1.0, 0.0], &[0.0, 0.0, 1.0]);
    // If the bounds are swapped, the upper one applies.
    gradient(|x| f::clamp(x, Some(2.0), Some(1.0)), &[0.0, 1.0, 1.5, 2.0], &[0.0; 4]);
    gradient(f::selu, &[0.0], &[1.758_099_3]);
    gradient(|x| f::celu(x, 1.0), &[0.0], &[1.0]);
}

#[test]
fn activations_have_limits_at_infinities() {
    for gate in [f::gelu as fn(&Tensor) -> _, f::gelu_tanh, f::silu, f::mish, f::hardswish] {
        // 2^100, which hardswish multiplies by 6 and divides by 6 without rounding.
        let far = f32::from_bits((127 + 100) << 23);
        let (y, grad) = run(gate, &[-INF, -far, far, INF]);
        same(&y, &[0.0, 0.0, far, INF]);
        same(&grad, &[0.0, 0.0, 1.0, 1.0]);
        assert!(y[0].is_sign_negative());
    }
    let (y, grad) = run(f::softsign, &[-INF, INF, 1e30]);
    same(&y, &[-1.0, 1.0, 1.0]);
    same(&grad, &[0.0; 3]);
    let zeros = |x: &Tensor| f::zeros_like(&x.detach());
    gradient(
        |x| f::smooth_l1_loss(x, &zeros(x)?, 1.0, Reduction::None),
        &[INF, -INF],
        &[1.0, -1.0],
    );
    gradient(|x| f::huber_loss(x, &zeros(x)?, 1.0, Reduction::None), &[INF, -INF], &[1.0, -1.0]);
}

#[test]
fn losses_have_limits_at_infinite_logits() {
    let target = [0.0f32, 1.0, 0.25];
    for (x, values, grads) in
        [(-INF, [0.0, INF, INF], [0.0, -1.0, -0.25]), (INF, [INF, 0.0, INF], [1.0, 0.0, 0.75])]
    {
        let t = Tensor::from_slice(&target, &[3]).unwrap();
        let loss =
            |x: &Tensor| f::binary_cross_entropy_with_logits(x, &t, None, None, Reduction::None);
        let (y, grad) = run(loss, &[x; 3]);
        same(&y, &values);
        same(&grad, &grads);
    }
    let t = Tensor::from_slice(&[0.0f32, 1.0], &[2]).unwrap();
    let (y, grad) =
        run(|x| f::multilabel_soft_margin_loss(x, &t, None, Reduction::None), &[-INF, INF]);
    same(&y, &[0.0]);
    same(&grad, &[0.0, 0.0]);

    // A target of 0 adds nothing, however unlikely it is.
    let t = Tensor::from_slice(&[0.0f32, 1.0], &[2]).unwrap();
    let of = BatchReduction::Of(Reduction::None);
    let (y, grad) = run(|x| f::kl_div(x, &t, of, false), &[-INF, -INF]);
    same(&y, &[0.0, INF]);
    same(&grad, &[0.0, -1.0]);
    let logs = Tensor::from_slice(&[-INF, 0.0], &[2]).unwrap();
    let (y, grad) = run(|x| f::kl_div(x, &logs, of, true), &[-INF, -1.0]);
    same(&y, &[0.0, 1.0]);
    same(&grad, &[0.0, -1.0]);
    let loss = |x: &Tensor| f::cross_entropy_probabilities(x, &t, &ClassLoss::default());
    let (y, grad) = run(loss, &[-INF, 1.0]);
    same(&y, &[0.0]);
    same(&grad, &[0.0, 0.0]);
    let class = Tensor::from_slice(&[0i64], &[]).unwrap();
    let (y, grad) = run(|x| f::cross_entropy(x, &class), &[-INF, 1.0]);
    same(&y, &[INF]);
    same(&grad, &[-1.0, 1.0]);
}

#[test]
fn ctc_takes_classes_that_cannot_be() {
    let steps = [[0.0, -INF, 1.0], [0.0, 1.0, -INF], [1.0, 0.0, 0.0]].concat();
    let labels = Tensor::from_slice(&[1i64], &[1, 1]).unwrap();
    let loss = |x: &Tensor| {
        let log_probs = f::log_softmax(&x.reshape([3, 1, 3])?, 2)?;
        let options = CtcOptions { reduction: Reduction::Sum, ..CtcOptions::default() };
        f::ctc_loss(&log_probs, &labels, &[3], &[1], options)
    };
    let (y, grad) = run(loss, &steps);
    assert!((y[0] - 1.7704).abs() < 1e-4, "{y:?}");
    let expected = [-0.7311, 0.0, 0.7311, 0.1789, -0.1789, 0.0, -0.0891, -0.1228, 0.2119];
    let close = |(a, b): (&f32, f32)| (a - b).abs() < 1e-4;
    assert!(grad.iter().zip(expected).all(close), "{grad:?}");
}
