//! Numbers at the ends: values and gradients at zeros, subnormals, huge numbers, infinities and NaN
//! against oracles in f64 that are written branch by branch, and the same bits on a CUDA device.

#![allow(clippy::disallowed_methods, reason = "oracles that are compared with a tolerance")]

use std::sync::OnceLock;

use proptest::prelude::*;
use samebits::functional::{self as f, BatchReduction, ClassLoss, Reduction};
use samebits::numerics::math::f64::erf;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Device, Result, Tensor, cuda};

use super::cases;

const INF: f64 = f64::INFINITY;
const NEG_INF: f64 = f64::NEG_INFINITY;

/// A number at an end, at a border of a function, or of ordinary size.
fn number() -> impl Strategy<Value = f64> {
    let ends = [0.0, -0.0, 1e-40, -1e-40, 1e-30, -1e-30, 1e30, -1e30, INF, NEG_INF, f64::NAN];
    let borders = [0.1, 0.2, 0.5, -0.5, 0.8, 1.0, -1.0, 2.0, 3.0, -3.0, 6.0, 20.0, -100.0, 100.0];
    prop_oneof![
        3 => proptest::sample::select(ends.to_vec()),
        1 => proptest::sample::select(borders.to_vec()),
        2 => -8.0..8.0f64,
    ]
}

fn numbers(most: usize) -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(number(), 1..=most)
}

/// The CPU, and a CUDA device if the driver offers one.
fn devices() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(|| match cuda::install() {
        Ok(count) if count > 0 => vec![Device::Cpu, Device::Cuda(0)],
        _ => vec![Device::Cpu],
    })
}

fn tensor(x: &[f64], shape: &[usize], dtype: DType, device: Device) -> Tensor {
    let wide = Tensor::from(Value::from_slice(x, shape).unwrap());
    f::to_dtype(&wide, dtype).unwrap().to(device).unwrap()
}

/// What `x` is once it is of the type.
fn held(x: f64, dtype: DType) -> f64 {
    if dtype == DType::F32 { f64::from(x as f32) } else { x }
}

fn wide(x: &Tensor) -> Vec<f64> {
    f::to_dtype(&x.to(Device::Cpu).unwrap(), DType::F64).unwrap().to_vec().unwrap()
}

/// The value of a function and the gradients of its inputs, given that of the value, on every device
/// with the same bits.
fn everywhere(
    function: impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[(&[f64], &[usize])],
    grad: &[f64],
    dtype: DType,
) -> std::result::Result<Vec<Vec<f64>>, TestCaseError> {
    let run = |device: Device| -> Result<Vec<Tensor>> {
        let inputs: Vec<Tensor> = inputs
            .iter()
            .map(|(x, shape)| tensor(x, shape, dtype, device).set_requires_grad(true).unwrap())
            .collect();
        let y = function(&inputs)?;
        let grad = tensor(grad, y.shape(), dtype, device);
        let gradients = y.backward_from(grad, false)?;
        Ok([y].into_iter().chain(inputs.iter().map(|x| gradients.of(x).unwrap().clone())).collect())
    };
    let bits = |x: &[Tensor]| -> Vec<Vec<u8>> {
        x.iter().map(|x| x.to(Device::Cpu).unwrap().to_bytes().unwrap()).collect()
    };
    let here = run(Device::Cpu).unwrap();
    for &device in &devices()[1..] {
        prop_assert_eq!(bits(&run(device).unwrap()), bits(&here), "{:?}", device);
    }
    Ok(here.iter().map(wide).collect())
}

fn expect(
    what: &str,
    found: f64,
    expected: f64,
    dtype: DType,
) -> std::result::Result<(), TestCaseError> {
    let expected = held(expected, dtype);
    let relative = if dtype == DType::F32 { 1e-5 } else { 1e-9 };
    let close = found == expected
        || (found.is_nan() && expected.is_nan())
        || (found - expected).abs() <= relative * expected.abs() + relative * 0.1;
    prop_assert!(close, "{what}, {dtype}: {found:e} for {expected:e}");
    Ok(())
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}

/// `x · gate(x)` and its slope, for a gate that goes from 0 to 1 with the slope `slope`.
fn gated(x: f64, gate: f64, slope: f64) -> (f64, f64) {
    match x {
        NEG_INF => (0.0, 0.0),
        INF => (INF, 1.0),
        _ => (x * gate, gate + x * slope),
    }
}

/// `x` within the bounds and its slope, which is 0 at the bounds.
fn bounded(x: f64, low: f64, high: f64) -> (f64, f64) {
    let above = low == NEG_INF || x > low;
    (x.clamp(low, high), if above && (high == INF || x < high) { 1.0 } else { 0.0 })
}

/// Bends at 0: above it is `x`.
fn bent(x: f64, below: (f64, f64)) -> (f64, f64) {
    if x > 0.0 { (x, 1.0) } else { below }
}

fn shrunk(x: f64, value: f64) -> (f64, f64) {
    if x.abs() > 0.5 { (value, 1.0) } else { (0.0, 0.0) }
}

fn odds(x: f64) -> (f64, f64) {
    match x {
        0.0 => (NEG_INF, INF),
        1.0 => (INF, INF),
        _ if x > 0.0 && x < 1.0 => ((x / (1.0 - x)).ln(), 1.0 / (x * (1.0 - x))),
        _ => (f64::NAN, f64::NAN),
    }
}

/// `log(1 + exp(x)) − target · x`.
fn cross_entropy_of_logit(x: f64, target: f64) -> (f64, f64) {
    let value = match x {
        INF => (1.0 - target) * 2.0,
        NEG_INF => target * 2.0,
        _ => x.max(0.0) - x * target + (-x.abs()).exp().ln_1p(),
    };
    let value = if x.is_infinite() && value != 0.0 { INF } else { value };
    (value, sigmoid(x) - target)
}

type Function = fn(&Tensor) -> Result<Tensor>;
/// The value and the slope at a number.
type Oracle = fn(f64) -> (f64, f64);

fn against(x: &Tensor, value: f64) -> Result<Tensor> {
    f::full_like(&x.detach(), value)
}

fn logits(x: &Tensor, target: f64) -> Result<Tensor> {
    let target = against(x, target)?;
    f::binary_cross_entropy_with_logits(x, &target, None, None, Reduction::None)
}

const SCALE: f64 = 1.0507009873554805;
const ALPHA: f64 = 1.6732632423543772;

/// Functions of one number; where it is NaN, so is the value, and so must be the gradient.
const ACTIVATIONS: [(&str, Function, Oracle); 33] = [
    ("relu", f::relu, |x| bent(x, (0.0, 0.0))),
    ("relu6", f::relu6, |x| bounded(x, 0.0, 6.0)),
    ("hardtanh", |x| f::hardtanh(x, -1.0, 2.0), |x| bounded(x, -1.0, 2.0)),
    ("clamp", |x| f::clamp(x, Some(-0.5), Some(3.0)), |x| bounded(x, -0.5, 3.0)),
    ("clamp_min", |x| f::clamp_min(x, 0.5), |x| bounded(x, 0.5, INF)),
    ("clamp_max", |x| f::clamp_max(x, 0.5), |x| bounded(x, NEG_INF, 0.5)),
    ("leaky_relu", |x| f::leaky_relu(x, 0.1), |x| bent(x, (0.1 * x, 0.1))),
    (
        "prelu",
        |x| f::prelu(x, &tensor(&[0.25], &[1], x.dtype(), x.device())),
        |x| bent(x, (0.25 * x, 0.25)),
    ),
    ("elu", |x| f::elu(x, 1.5), |x| bent(x, (1.5 * x.exp_m1(), 1.5 * x.exp()))),
    ("celu", |x| f::celu(x, 2.0), |x| bent(x, (2.0 * (x / 2.0).exp_m1(), (x / 2.0).exp()))),
    ("selu", f::selu, |x| {
        let (y, slope) = bent(x, (ALPHA * x.exp_m1(), ALPHA * x.exp()));
        (SCALE * y, SCALE * slope)
    }),
    (
        "softplus",
        |x| f::softplus(x, 1.0, 20.0),
        |x| (softplus(x), if x > 20.0 { 1.0 } else { sigmoid(x) }),
    ),
    ("log_sigmoid", f::log_sigmoid, |x| (x.min(0.0) - (-x.abs()).exp().ln_1p(), sigmoid(-x))),
    ("gelu", f::gelu, |x| {
        let bell = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
        gated(x, 0.5 + 0.5 * erf(x * std::f64::consts::FRAC_1_SQRT_2), bell)
    }),
    ("gelu_tanh", f::gelu_tanh, |x| {
        let scale = (2.0 / std::f64::consts::PI).sqrt();
        let t = (scale * (x + 0.044715 * x * x * x)).tanh();
        let slope = if t.abs() == 1.0 {
            0.0
        } else {
            0.5 * (1.0 - t * t) * scale * (1.0 + 3.0 * 0.044715 * x * x)
        };
        gated(x, 0.5 + 0.5 * t, slope)
    }),
    ("silu", f::silu, |x| gated(x, sigmoid(x), sigmoid(x) * sigmoid(-x))),
    ("mish", f::mish, |x| {
        let t = softplus(x).tanh();
        gated(x, t, (1.0 - t * t) * sigmoid(x))
    }),
    ("hardswish", f::hardswish, |x| {
        let (gate, slope) = bounded(x, -3.0, 3.0);
        gated(x, (gate + 3.0) / 6.0, slope / 6.0)
    }),
    ("hardsigmoid", f::hardsigmoid, |x| {
        let (gate, slope) = bounded(x, -3.0, 3.0);
        ((gate + 3.0) / 6.0, slope / 6.0)
    }),
    ("softsign", f::softsign, |x| match x.is_infinite() {
        true => (x.signum(), 0.0),
        false => (x / (1.0 + x.abs()), (1.0 + x.abs()).powi(-2)),
    }),
    ("tanhshrink", f::tanhshrink, |x| (x - x.tanh(), x.tanh().powi(2))),
    ("softshrink", |x| f::softshrink(x, 0.5), |x| shrunk(x, x - 0.5f64.copysign(x))),
    ("hardshrink", |x| f::hardshrink(x, 0.5), |x| shrunk(x, x)),
    (
        "threshold",
        |x| f::threshold(x, 0.5, -0.7),
        |x| {
            if x > 0.5 { (x, 1.0) } else { (-0.7, 0.0) }
        },
    ),
    ("tanh", f::tanh, |x| (x.tanh(), 1.0 - x.tanh().powi(2))),
    ("sigmoid", f::sigmoid, |x| (sigmoid(x), sigmoid(x) * sigmoid(-x))),
    ("logit", |x| f::logit(x, None), odds),
    (
        "logit eps",
        |x| f::logit(x, Some(0.25)),
        |x| {
            let (y, slope) = odds(x.clamp(0.25, 0.75));
            (y, if (0.25..=0.75).contains(&x) { slope } else { 0.0 })
        },
    ),
    (
        "smooth_l1",
        |x| f::smooth_l1_loss(x, &against(x, 0.0)?, 1.0, Reduction::None),
        |x| {
            if x.abs() < 1.0 { (x * x / 2.0, x) } else { (x.abs() - 0.5, x.signum()) }
        },
    ),
    (
        "huber",
        |x| f::huber_loss(x, &against(x, 0.0)?, 2.0, Reduction::None),
        |x| {
            if x.abs() < 2.0 { (x * x / 2.0, x) } else { (2.0 * x.abs() - 2.0, 2.0 * x.signum()) }
        },
    ),
    ("logit of 0", |x| logits(x, 0.0), |x| cross_entropy_of_logit(x, 0.0)),
    ("logit of 1", |x| logits(x, 1.0), |x| cross_entropy_of_logit(x, 1.0)),
    ("logit of 0.3", |x| logits(x, 0.3), |x| cross_entropy_of_logit(x, 0.3)),
];

/// The shares of the elements of `x` in the logarithm of the sum of their exponentials. Elements that are
/// infinite like the result share evenly; `low` says whether those of −∞ do.
fn shares(x: &[f64], low: bool) -> (f64, Vec<f64>) {
    let max = x.iter().copied().fold(NEG_INF, f64::max);
    if x.iter().any(|x| x.is_nan()) {
        return (f64::NAN, vec![f64::NAN; x.len()]);
    }
    if max.is_infinite() {
        let count = x.iter().filter(|&&x| x == max).count() as f64;
        let each = if max > 0.0 || low { 1.0 / count } else { 0.0 };
        return (max, x.iter().map(|&x| if x == max { each } else { 0.0 }).collect());
    }
    let sum: f64 = x.iter().map(|x| (x - max).exp()).sum();
    (max + sum.ln(), x.iter().map(|x| (x - max).exp() / sum).collect())
}

/// The logarithms of the shares, and they, which are NaN if the largest element is infinite.
fn softmax(x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (sum, shares) = shares(x, false);
    if !sum.is_finite() {
        return (vec![f64::NAN; x.len()], vec![f64::NAN; x.len()]);
    }
    let max = x.iter().copied().fold(NEG_INF, f64::max);
    let sum: f64 = x.iter().map(|x| (x - max).exp()).sum();
    (x.iter().map(|x| (x - max) - sum.ln()).collect(), shares)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).filter(|(a, b)| **a != 0.0 && **b != 0.0).map(|(a, b)| a * b).sum()
}

proptest! {
    #![proptest_config(cases(3))]

    #[test]
    fn activations_have_their_limits(
        x in numbers(12),
        which in 0..ACTIVATIONS.len(),
        g in 0.5..2.0f64,
        f64 in any::<bool>(),
    ) {
        let dtype = if f64 { DType::F64 } else { DType::F32 };
        let (name, function, oracle) = ACTIVATIONS[which];
        let n = x.len();
        let found = everywhere(|x| function(&x[0]), &[(&x, &[n])], &vec![g; n], dtype)?;
        for (i, x) in x.iter().map(|&x| held(x, dtype)).enumerate() {
            let (y, slope) = if x.is_nan() { (x, x) } else { oracle(x) };
            expect(&format!("{name}({x:e})"), found[0][i], y, dtype)?;
            let what = format!("gradient of {name} at {x:e}");
            expect(&what, found[1][i], held(g, dtype) * slope, dtype)?;
        }
    }

    #[test]
    fn exponentials_share_a_sum(
        x in numbers(6),
        others in proptest::collection::vec((number(), 0.0..1.0f64, any::<bool>()), 6),
        f64 in any::<bool>(),
    ) {
        let dtype = if f64 { DType::F64 } else { DType::F32 };
        let n = x.len();
        let x: Vec<f64> = x.into_iter().map(|x| held(x, dtype)).collect();
        let inputs: [(&[f64], &[usize]); 1] = [(&x, &[n])];
        let weights: Vec<f64> = others[..n].iter().map(|(_, w, _)| held(0.5 + w, dtype)).collect();

        let found = everywhere(|x| f::logsumexp(&x[0], 0, false), &inputs, &[1.5], dtype)?;
        let (sum, each) = shares(&x, false);
        expect("logsumexp", found[0][0], sum, dtype)?;
        for (found, share) in found[1].iter().zip(each) {
            expect(&format!("gradient of logsumexp of {x:?}"), *found, 1.5 * share, dtype)?;
        }

        let found = everywhere(|x| f::logcumsumexp(&x[0], 0), &inputs, &weights, dtype)?;
        let mut expected = vec![0.0; n];
        for k in 0..n {
            let (sum, each) = shares(&x[..=k], true);
            expect(&format!("logcumsumexp of {x:?} at {k}"), found[0][k], sum, dtype)?;
            for (expected, share) in expected.iter_mut().zip(each) {
                *expected += weights[k] * share;
            }
        }
        for (found, expected) in found[1].iter().zip(expected) {
            expect(&format!("gradient of logcumsumexp of {x:?}"), *found, expected, dtype)?;
        }

        let (logs, p) = softmax(&x);
        let found = everywhere(|x| f::softmax(&x[0], 0), &inputs, &weights, dtype)?;
        let mean = dot(&p, &weights);
        for i in 0..n {
            expect(&format!("softmax of {x:?}"), found[0][i], p[i], dtype)?;
            let grad = p[i] * (weights[i] - mean);
            expect(&format!("gradient of softmax of {x:?}"), found[1][i], grad, dtype)?;
        }
        let found = everywhere(|x| f::log_softmax(&x[0], 0), &inputs, &weights, dtype)?;
        let total: f64 = weights.iter().sum();
        for i in 0..n {
            expect(&format!("log_softmax of {x:?}"), found[0][i], logs[i], dtype)?;
            let grad = weights[i] - p[i] * total;
            expect(&format!("gradient of log_softmax of {x:?}"), found[1][i], grad, dtype)?;
        }
        // Targets, some of them 0.
        let mut target: Vec<f64> =
            others[..n].iter().map(|(_, w, zero)| if *zero { 0.0 } else { *w }).collect();
        let options = ClassLoss { reduction: Reduction::Sum, ..ClassLoss::default() };
        let loss = |x: &[Tensor], t: &[f64]| {
            let t = tensor(t, &[n], dtype, x[0].device());
            f::cross_entropy_probabilities(&x[0], &t, &options)
        };
        let found = everywhere(|x| loss(x, &target), &inputs, &[1.0], dtype)?;
        target.iter_mut().for_each(|t| *t = held(*t, dtype));
        let value = if logs[0].is_nan() { logs[0] } else { -dot(&target, &logs) };
        expect(&format!("cross_entropy of {x:?}, {target:?}"), found[0][0], value, dtype)?;
        let total: f64 = target.iter().sum();
        for i in 0..n {
            let what = format!("gradient of cross_entropy of {x:?}, {target:?}");
            expect(&what, found[1][i], p[i] * total - target[i], dtype)?;
        }

        let y: Vec<f64> = others[..n].iter().map(|(y, _, _)| held(*y, dtype)).collect();
        let pair: [(&[f64], &[usize]); 2] = [(&x, &[n]), (&y, &[n])];
        let found = everywhere(|x| f::logaddexp(&x[0], &x[1]), &pair, &weights, dtype)?;
        for i in 0..n {
            let (sum, each) = shares(&[x[i], y[i]], true);
            let what = format!("logaddexp({:e}, {:e})", x[i], y[i]);
            expect(&what, found[0][i], sum, dtype)?;
            for (grad, share) in found[1..].iter().zip(each) {
                expect(&format!("gradient of {what}"), grad[i], weights[i] * share, dtype)?;
            }
        }

        let found = everywhere(
            |x| {
                let t = tensor(&target, &[n], dtype, x[0].device());
                f::kl_div(&x[0], &t, BatchReduction::Of(Reduction::None), false)
            },
            &inputs,
            &weights,
            dtype,
        )?;
        for i in 0..n {
            let (x, t) = (x[i], target[i]);
            let value = if t == 0.0 && !x.is_nan() { 0.0 } else { t * (t.ln() - x) };
            let value = if x.is_nan() { x } else { value };
            expect(&format!("kl_div({x:e}, {t:e})"), found[0][i], value, dtype)?;
            expect("gradient of kl_div", found[1][i], -t * weights[i], dtype)?;
        }
    }

    /// With queries of 1 and keys of one number the keys are the scores.
    #[test]
    fn attention_sees_what_the_mask_shows(
        keys in numbers(4),
        seen in proptest::collection::vec(any::<bool>(), 12),
        added in proptest::collection::vec(-1.0..1.0f64, 12),
        as_numbers in any::<bool>(),
        f64 in any::<bool>(),
    ) {
        let dtype = if f64 { DType::F64 } else { DType::F32 };
        let (n, queries) = (keys.len(), 3);
        let keys: Vec<f64> = keys.into_iter().map(|x| held(x, dtype)).collect();
        let values: Vec<f64> = (0..n).map(|i| 1.0 + i as f64).collect();
        let (seen, added) = (&seen[..queries * n], &added[..queries * n]);
        let numbers: Vec<f64> = seen
            .iter()
            .zip(added)
            .map(|(&seen, &x)| if seen { held(x, dtype) } else { NEG_INF })
            .collect();
        let attention = |x: &[Tensor]| {
            let device = x[0].device();
            let mask = if as_numbers {
                tensor(&numbers, &[queries, n], dtype, device)
            } else {
                Tensor::from_bools(seen, &[queries, n])?.to(device)?
            };
            let query = tensor(&vec![1.0; queries], &[queries, 1], dtype, device);
            f::scaled_dot_product_attention(&query, &x[0], &x[1], Some(&mask), 0.0, false, Some(1.0))
        };
        let inputs: [(&[f64], &[usize]); 2] = [(&keys, &[n, 1]), (&values, &[n, 1])];
        let grad = [1.0, 0.5, 2.0];
        let found = everywhere(attention, &inputs, &grad, dtype)?;
        let (mut of_keys, mut of_values) = (vec![0.0; n], vec![0.0; n]);
        for q in 0..queries {
            let places: Vec<usize> = (0..n).filter(|k| seen[q * n + k]).collect();
            let score = |&k: &usize| keys[k] + if as_numbers { numbers[q * n + k] } else { 0.0 };
            let scores: Vec<f64> = places.iter().map(score).collect();
            let (_, weights) = softmax(&scores);
            let y: f64 = places.iter().zip(&weights).map(|(&k, w)| w * values[k]).sum();
            let y = if places.is_empty() { 0.0 } else { y };
            expect(&format!("query {q} of {keys:?}, {seen:?}"), found[0][q], y, dtype)?;
            for (&k, w) in places.iter().zip(weights) {
                of_keys[k] += grad[q] * w * (values[k] - y);
                of_values[k] += grad[q] * w;
            }
        }
        // A row that is NaN reaches every key.
        if found[0].iter().all(|y| y.is_finite()) {
            for k in 0..n {
                let what = format!("gradient of key {k} of {keys:?}, {seen:?}");
                expect(&what, found[1][k], of_keys[k], dtype)?;
                expect(&format!("{what}: the value"), found[2][k], of_values[k], dtype)?;
            }
        }
    }
}
