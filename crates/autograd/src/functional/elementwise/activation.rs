//! Activation functions, composed of elementary functions as documented.

use samebits_macros::named;
use samebits_rng::Generator;
use samebits_tensor_core::ops::{
    BinaryKind, CompareKind, Ramp, RampGrad, RampKind, Silu, SiluGrad, UnaryKind,
};
use samebits_tensor_core::{DType, Error, Result, Tensor as Value};

use super::bounds::{clamp, inside, nan_sloped};
use super::choice::{compare, where_};
use super::formula::{Steps, Symbol, curve, formula};
use super::{add, affine, binary, fused, mul, neg, sigmoid, sub, tanh, times, unary, wanted};
use crate::dims::Dim;
use crate::functional::broadcast::sum_to;
use crate::functional::{full_like, narrow, rand_like_with, reshape, zeros_of};
use crate::scope::with_generator_if;
use crate::{Tensor, is_recording, run, untracked};

/// Returns `x` if it is positive, else `weight · x`.
///
/// # Shapes
///
/// `weight` has one element, or is `[channels]` for `x` of shape `[n, channels, ..]`.
///
/// # Errors
///
/// The type is not a float, or the number of weights does not match.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[-2.0f32, 4.0], [6.0, -8.0]])?;
/// let y = x.prelu(&Tensor::new([0.5f32, 0.25])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [-1.0, 4.0, 6.0, -2.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.prelu`.
#[named]
#[track_caller]
pub fn prelu(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let channels = x.shape().get(1).copied().unwrap_or(1);
    if weight.numel() != 1 && (weight.rank() != 1 || weight.numel() != channels) {
        let (weight, x) = (weight.shape(), x.shape());
        let message =
            format!("a weight of shape {weight:?} does not match an input of shape {x:?}");
        return Err(Error::invalid("prelu", message));
    }
    let mut along = vec![1; x.rank()];
    if weight.numel() != 1 {
        along[1] = channels;
    }
    bent(x, &reshape(weight, along)?)
}

/// Returns `x` if it is positive, else `slope · x`, with a slope drawn uniformly from `lower` to
/// `upper` for each element. It draws in evaluation, too; the layer [`RReLU`](crate::nn::RReLU)
/// draws only in training. PyTorch's defaults are 1/8 and 1/3.
///
/// # Determinism
///
/// One number u in [0, 1) is drawn for every element, needed or not; the slope is
/// `u · (upper − lower) + lower`, both operations rounded. If `lower` equals `upper`, the function
/// draws nothing and needs no seed.
///
/// # Errors
///
/// The type is not a float, `lower` exceeds `upper`, or this thread was not seeded (see
/// [`with_default`](samebits_tensor_core::random::with_default)).
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::functional::rrelu;
///
/// samebits_tensor_core::random::manual_seed(7);
/// let y = rrelu(&Tensor::new([-8.0f32, 2.0])?, 0.125, 0.5)?.to_vec::<f32>()?;
/// assert!((-4.0..=-1.0).contains(&y[0]) && y[1] == 2.0);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.rrelu` with `training=True`.
#[named]
#[track_caller]
pub fn rrelu(x: &Tensor, lower: f64, upper: f64) -> Result<Tensor> {
    let draws = lower != upper && x.numel() != 0;
    with_generator_if(draws, "rrelu", x.device(), |generator| {
        rrelu_with(x, lower, upper, generator)
    })
}

/// Computes [`rrelu`] with numbers from `generator`, which advances as in
/// [`rand_like_with`](crate::functional::rand_like_with).
///
/// # Errors
///
/// As [`rrelu`].
#[named]
#[track_caller]
pub fn rrelu_with(x: &Tensor, lower: f64, upper: f64, generator: &mut Generator) -> Result<Tensor> {
    // This form rejects NaN, too.
    if lower.partial_cmp(&upper).is_none_or(std::cmp::Ordering::is_gt) {
        let message = format!("expected lower <= upper, got {lower} and {upper}");
        return Err(Error::invalid("rrelu_with", message));
    }
    expect_float("rrelu_with", x)?;
    let u = match lower == upper {
        true => zeros_of(x.shape(), x.dtype(), x)?,
        false => rand_like_with(x, generator)?,
    };
    bent(x, &affine(&u, upper - lower, lower)?)
}

/// Returns `x` if it is positive, else `slope · x`.
#[track_caller]
fn bent(x: &Tensor, slope: &Tensor) -> Result<Tensor> {
    fn chosen(f: &mut Steps, x: Symbol, slope: Symbol) -> Symbol {
        let (positive, one) = (f.compare_to(CompareKind::Gt, x, 0.0), f.number(1.0));
        f.choose(positive, one, slope)
    }
    let value = formula([&x.detach(), &slope.detach()], |f, [x, slope]| {
        let weight = chosen(f, x, slope);
        f.weigh(x, weight)
    })?;
    let (a, b) = (x.clone(), slope.clone());
    Ok(Tensor::computed(value.into(), &[x, slope], move |grad| {
        let of_x = || {
            formula([grad, &a, &b], |f, [grad, x, slope]| {
                let weight = chosen(f, x, slope);
                let part = f.mul(grad, weight);
                f.nan_where(x, part)
            })
        };
        let of_slope = || {
            let all = formula([grad, &a], |f, [grad, x]| {
                let (positive, zero) = (f.compare_to(CompareKind::Gt, x, 0.0), f.number(0.0));
                let part = f.mul(grad, x);
                f.choose(positive, zero, part)
            });
            sum_to(&all?, b.shape())
        };
        Ok(vec![wanted(&a, of_x)?, wanted(&b, of_slope)?])
    }))
}

/// Computes `max(x, 0)`.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn relu(x: &Tensor) -> Result<Tensor> {
    let value = unary(UnaryKind::Relu, x)?;
    let saved = value.clone();
    Ok(Tensor::computed(value, &[x], move |grad| Ok(vec![Some(relu_grad(grad, &saved)?)])))
}

/// Computes `min(max(x, 0), 6)`.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn relu6(x: &Tensor) -> Result<Tensor> {
    hardtanh(x, 0.0, 6.0)
}

/// Computes `x · sigmoid(x)`, the product rounded; −0 at −∞.
///
/// # Errors
///
/// The type is not a float.
#[doc(alias = "swish")]
#[named]
#[track_caller]
pub fn silu(x: &Tensor) -> Result<Tensor> {
    let value = run(&Silu { x: x.value().clone() })?;
    let saved = x.clone();
    Ok(Tensor::computed_onto(value, x, move |grad, found| {
        if is_recording() {
            let gate = sigmoid(&saved)?;
            let of_gate = of_steady_gate(grad, &saved)?;
            let mut sum = mul(grad, &gate)?;
            if let Some(found) = found {
                sum = add(&found, &sum)?;
            }
            let again = sigmoid(&saved)?;
            return add(&sum, &mul(&of_gate, &mul(&affine(&again, -1.0, 1.0)?, &again)?)?);
        }
        untracked(&SiluGrad {
            grad: grad.value().clone(),
            x: saved.value().clone(),
            found: found.map(|found| found.value().clone()),
        })
    }))
}

/// Computes `log(1 + exp(beta · x)) / beta`, or `x` if `beta · x` exceeds the threshold. PyTorch's
/// defaults are 1 and 20.
///
/// # Determinism
///
/// See [`Ramp`]; the reciprocal of `beta` is rounded first.
///
/// # Errors
///
/// The type is not a float, or `beta` is 0 or not finite.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[-1000.0f32, 0.0, 1000.0], &[3])?;
/// let y = functional::softplus(&x, 1.0, 20.0)?;
/// assert_eq!(y.to_vec::<f32>()?, [0.0, std::f32::consts::LN_2, 1000.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[named]
#[track_caller]
pub fn softplus(x: &Tensor, beta: f64, threshold: f64) -> Result<Tensor> {
    if beta == 0.0 || !beta.is_finite() {
        return Err(Error::invalid(
            "softplus",
            format!("beta must be finite and not 0, got {beta}"),
        ));
    }
    ramp(RampKind::Softplus { beta, threshold }, x)
}

/// Computes `log(sigmoid(x))`, accurate for all arguments: `min(x, 0) − log1p(exp(−|x|))`.
///
/// # Errors
///
/// The type is not a float.
#[doc(alias = "logsigmoid")]
#[named]
#[track_caller]
pub fn log_sigmoid(x: &Tensor) -> Result<Tensor> {
    ramp(RampKind::LogSigmoid, x)
}

#[track_caller]
fn ramp(kind: RampKind, x: &Tensor) -> Result<Tensor> {
    let value = run(&Ramp { kind, x: x.value().clone() })?;
    let saved = x.clone();
    Ok(Tensor::computed(value, &[x], move |grad| {
        if !is_recording() {
            let (grad, x) = (grad.value().clone(), saved.value().clone());
            return Ok(vec![Some(untracked(&RampGrad { kind, grad, x })?)]);
        }
        let slope = match kind {
            RampKind::LogSigmoid => sigmoid(&neg(&saved)?)?,
            RampKind::Softplus { beta, threshold } => {
                let scaled = times(&saved, beta)?;
                let slope = sigmoid(&scaled)?;
                let straight = compare(CompareKind::Gt, &scaled, threshold)?;
                where_(&straight, &full_like(&slope, 1.0)?, &slope)?
            }
        };
        Ok(vec![Some(mul(grad, &slope)?)])
    }))
}

/// Returns `x` if it is positive, else `negative_slope · x`. PyTorch's default slope is 0.01.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn leaky_relu(x: &Tensor, negative_slope: f64) -> Result<Tensor> {
    // The gradient uses the same selection. A sum of two gradients, one of them +0, would lose the
    // sign of -0.
    let leak = move |f: &mut Steps, x: Symbol, leaked: Symbol| {
        let (positive, part) =
            (f.compare_to(CompareKind::Gt, x, 0.0), f.times(leaked, negative_slope));
        f.choose(positive, leaked, part)
    };
    curve(
        x,
        |f, x| leak(f, x, x),
        move |f, grad, x| {
            let part = leak(f, x, grad);
            [f.nan_where(x, part)]
        },
    )
}

/// Returns `x` if it is positive, else `alpha · (exp(x) − 1)`. PyTorch's default `alpha` is 1.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn elu(x: &Tensor, alpha: f64) -> Result<Tensor> {
    curve(
        x,
        |f, x| {
            let positive = f.compare_to(CompareKind::Gt, x, 0.0);
            let below = f.expm1(x);
            let below = f.times(below, alpha);
            f.choose(positive, x, below)
        },
        // Large arguments would overflow, and with them the second derivative.
        move |f, grad, x| {
            let (positive, zero) = (f.compare_to(CompareKind::Gt, x, 0.0), f.number(0.0));
            let below = f.choose(positive, zero, x);
            let (scaled, slope) = (f.times(grad, alpha), f.exp(below));
            let slope = f.mul(scaled, slope);
            [f.choose(positive, grad, slope)]
        },
    )
}

/// Clamps `x` to `[min, max]`, as [`clamp`](super::clamp) with two bounds. PyTorch's defaults are
/// −1 and 1.
///
/// # Errors
///
/// The type is not a float, or `min` is not below `max`.
#[named]
#[track_caller]
pub fn hardtanh(x: &Tensor, min: f64, max: f64) -> Result<Tensor> {
    // This form rejects NaN, too.
    if min.partial_cmp(&max) != Some(std::cmp::Ordering::Less) {
        return Err(Error::invalid("hardtanh", format!("expected min < max, got {min} and {max}")));
    }
    expect_float("hardtanh", x)?;
    clamp(x, Some(min), Some(max))
}

/// Computes `x · tanh(softplus(x))`, the product rounded; −0 at −∞.
///
/// # Errors
///
/// The type is not a float.
///
/// # References
///
/// `torch.nn.functional.mish`.
#[named]
#[track_caller]
pub fn mish(x: &Tensor) -> Result<Tensor> {
    gated(x, &tanh(&softplus(x, 1.0, 20.0)?)?)
}

/// Computes `relu6(x + 3) / 6`, each operation rounded.
///
/// # Errors
///
/// The type is not a float.
///
/// # References
///
/// `torch.nn.functional.hardsigmoid`.
#[named]
#[track_caller]
pub fn hardsigmoid(x: &Tensor) -> Result<Tensor> {
    curve(
        x,
        |f, x| {
            let gate = shifted_relu6(f, x);
            let six = f.number(6.0);
            f.div(gate, six)
        },
        |f, grad, x| {
            let six = f.number(6.0);
            let grad = f.div(grad, six);
            [shifted_relu6_grad(f, grad, x)]
        },
    )
}

/// Computes `x · relu6(x + 3) / 6`, each operation rounded; −0 at −∞.
///
/// # Errors
///
/// The type is not a float.
///
/// # References
///
/// `torch.nn.functional.hardswish`.
#[named]
#[track_caller]
pub fn hardswish(x: &Tensor) -> Result<Tensor> {
    curve(
        x,
        |f, x| {
            let gate = shifted_relu6(f, x);
            let (gated, six) = (f.weigh(x, gate), f.number(6.0));
            f.div(gated, six)
        },
        |f, grad, x| {
            let (six, gate, steady) = (f.number(6.0), shifted_relu6(f, x), steady(f, x));
            let grad = f.div(grad, six);
            let of_gate = f.mul(grad, steady);
            [f.mul(grad, gate), shifted_relu6_grad(f, of_gate, x)]
        },
    )
}

/// Computes `scale · x`, or `scale · alpha · (exp(x) − 1)` if `x` is not positive, with the `scale`
/// and `alpha` that preserve a mean of 0 and a variance of 1.
///
/// # Errors
///
/// The type is not a float.
///
/// # References
///
/// `torch.nn.functional.selu`. G. Klambauer et al., *Self-Normalizing Neural Networks*, 2017.
#[named]
#[track_caller]
pub fn selu(x: &Tensor) -> Result<Tensor> {
    const ALPHA: f64 = 1.6732632423543772848170429916717;
    const SCALE: f64 = 1.0507009873554804934193349852946;
    formula([x], |f, [x]| {
        let (positive, zero) = (f.compare_to(CompareKind::Gt, x, 0.0), f.number(0.0));
        let below = f.choose(positive, zero, x);
        let below = f.expm1(below);
        let (below, above) = (f.times(below, ALPHA * SCALE), f.times(x, SCALE));
        f.choose(positive, above, below)
    })
}

/// Returns `x`, or `alpha · (exp(x / alpha) − 1)` if `x` is not positive. PyTorch's default `alpha`
/// is 1.
///
/// # Determinism
///
/// `expm1(x · (1 / alpha)) · alpha`, each operation rounded, the reciprocal first.
///
/// # Errors
///
/// The type is not a float, or `alpha` is 0 or not finite.
///
/// # References
///
/// `torch.nn.functional.celu`.
#[named]
#[track_caller]
pub fn celu(x: &Tensor, alpha: f64) -> Result<Tensor> {
    if alpha == 0.0 || !alpha.is_finite() {
        let message = format!("alpha must be finite and not 0, got {alpha}");
        return Err(Error::invalid("celu", message));
    }
    formula([x], |f, [x]| {
        let (positive, zero) = (f.compare_to(CompareKind::Gt, x, 0.0), f.number(0.0));
        let below = f.choose(positive, zero, x);
        let below = f.times(below, 1.0 / alpha);
        let below = f.expm1(below);
        let below = f.times(below, alpha);
        f.choose(positive, x, below)
    })
}

/// Computes `x / (1 + |x|)`; ±1 at ±∞.
///
/// # Errors
///
/// The type is not a float.
///
/// # References
///
/// `torch.nn.functional.softsign`.
#[named]
#[track_caller]
pub fn softsign(x: &Tensor) -> Result<Tensor> {
    // From this magnitude on the quotient is ±1; ∞ / ∞ would be NaN.
    const STEADY: f64 = (1u128 << 120) as f64;
    fn size(f: &mut Steps, x: Symbol) -> Symbol {
        let size = f.abs(x);
        f.affine(size, 1.0, 1.0)
    }
    curve(
        x,
        |f, x| {
            let size = size(f, x);
            let [a, b] = [x, size].map(|x| held(f, x, [-STEADY, STEADY]));
            f.div(a, b)
        },
        |f, grad, x| {
            let size = size(f, x);
            let [a, b] = [x, size].map(|x| held(f, x, [-STEADY, STEADY]));
            let quotient = f.div(grad, b);
            let of_size = f.mul(quotient, a);
            let of_size = f.div(of_size, b);
            let of_size = f.neg(of_size);
            let sign = f.sign(x);
            [quotient, f.mul(of_size, sign)]
        },
    )
}

/// Computes `x − tanh(x)`.
///
/// # Errors
///
/// The type is not a float.
///
/// # References
///
/// `torch.nn.functional.tanhshrink`.
#[named]
#[track_caller]
pub fn tanhshrink(x: &Tensor) -> Result<Tensor> {
    sub(x, &tanh(x)?)
}

/// Moves `x` towards 0 by `lambda`; returns 0 if `|x|` is at most `lambda`. PyTorch's default
/// `lambda` is 0.5.
///
/// # Errors
///
/// The type is not a float, or `lambda` is negative or NaN.
///
/// # References
///
/// `torch.nn.functional.softshrink`.
#[named]
#[track_caller]
pub fn softshrink(x: &Tensor, lambda: f64) -> Result<Tensor> {
    if lambda.is_nan() || lambda < 0.0 {
        let message = format!("lambda must be at least 0, got {lambda}");
        return Err(Error::invalid("softshrink", message));
    }
    formula([&nan_sloped(x)], |f, [x]| {
        let positive = f.compare_to(CompareKind::Gt, x, 0.0);
        let (nearer, higher) = (f.affine(x, 1.0, -lambda), f.affine(x, 1.0, lambda));
        let moved = f.choose(positive, nearer, higher);
        near_is_zero(f, x, lambda, moved)
    })
}

/// Returns `x`, or 0 if `|x|` is at most `lambda`. PyTorch's default `lambda` is 0.5.
///
/// # Errors
///
/// The type is not a float.
///
/// # References
///
/// `torch.nn.functional.hardshrink`.
#[named]
#[track_caller]
pub fn hardshrink(x: &Tensor, lambda: f64) -> Result<Tensor> {
    expect_float("hardshrink", x)?;
    formula([&nan_sloped(x)], |f, [x]| near_is_zero(f, x, lambda, x))
}

/// Returns `x` if it exceeds the threshold, else `value`. NaN stays.
///
/// # Errors
///
/// The type is not a float.
///
/// # References
///
/// `torch.nn.functional.threshold`.
#[named]
#[track_caller]
pub fn threshold(x: &Tensor, threshold: f64, value: f64) -> Result<Tensor> {
    expect_float("threshold", x)?;
    formula([&nan_sloped(x)], |f, [x]| {
        let (below, value) = (f.compare_to(CompareKind::Le, x, threshold), f.number(value));
        f.choose(below, value, x)
    })
}

/// Computes `a · sigmoid(b)`, where `a` and `b` are the two halves of `x` along a dimension.
/// PyTorch's default is the last, −1.
///
/// # Shapes
///
/// The dimension has an even size; the result has half of it.
///
/// # Errors
///
/// The type is not a float, there is no such dimension, or its size is odd.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[3.0f32, -2.0, 0.0, 0.0]])?;
/// assert_eq!(x.glu(-1)?.to_vec::<f32>()?, [1.5, -1.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.glu`.
#[named]
#[track_caller]
pub fn glu(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.dim("glu", x.rank())?;
    let size = x.shape().get(dim).copied().unwrap_or(1);
    if size % 2 != 0 {
        let message = format!("dimension {dim} of shape {:?} has an odd size", x.shape());
        return Err(Error::invalid("glu", message));
    }
    let [a, b] = [0, size / 2].map(|start| narrow(x, dim, start, size / 2));
    mul(&a?, &sigmoid(&b?)?)
}

/// Returns `x · gate`, for a gate that falls to 0 at −∞ and is constant beyond ±1024, where its
/// slope of 0 would multiply an infinite `x`.
#[track_caller]
fn gated(x: &Tensor, gate: &Tensor) -> Result<Tensor> {
    let value = binary(BinaryKind::Weigh, x, gate)?;
    let (a, b) = (x.clone(), gate.clone());
    Ok(Tensor::computed(value, &[x, gate], move |grad| {
        let of_gate = || of_steady_gate(grad, &a);
        Ok(vec![wanted(&a, || mul(grad, &b))?, wanted(&b, of_gate)?])
    }))
}

/// Returns the gradient of the gate of [`gated`].
#[track_caller]
fn of_steady_gate(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    formula([grad, x], |f, [grad, x]| {
        let x = steady(f, x);
        f.mul(grad, x)
    })
}

/// Returns `x` within the bounds beyond which a gate is constant.
fn steady(f: &mut Steps, x: Symbol) -> Symbol {
    held(f, x, [-1024.0, 1024.0])
}

/// Clamps `x`, with a gradient of 0 at the bounds.
fn held(f: &mut Steps, x: Symbol, [min, max]: [f64; 2]) -> Symbol {
    let (below, top) = (f.compare_to(CompareKind::Lt, x, max), f.number(max));
    let upper = f.choose(below, x, top);
    let (above, bottom) = (f.compare_to(CompareKind::Gt, x, min), f.number(min));
    let both = f.choose(above, upper, bottom);
    f.nan_where(x, both)
}

/// Computes `relu6(x + 3)`.
fn shifted_relu6(f: &mut Steps, x: Symbol) -> Symbol {
    let shifted = f.affine(x, 1.0, 3.0);
    held(f, shifted, [0.0, 6.0])
}

/// Computes the gradient of [`shifted_relu6`].
fn shifted_relu6_grad(f: &mut Steps, grad: Symbol, x: Symbol) -> Symbol {
    let shifted = f.affine(x, 1.0, 3.0);
    let bounds = [Some(0.0), Some(6.0)];
    inside(f, grad, shifted, bounds, [CompareKind::Gt, CompareKind::Lt])
}

/// Checks for a float type, for functions that only choose among their arguments.
fn expect_float(op: &'static str, x: &Tensor) -> Result<()> {
    if x.dtype().is_float() {
        return Ok(());
    }
    Err(Error::DTypeMismatch { op, what: "the tensor", expected: DType::F32, got: x.dtype() })
}

/// Returns `value`, or 0 if `|x|` is at most `lambda`.
fn near_is_zero(f: &mut Steps, x: Symbol, lambda: f64, value: Symbol) -> Symbol {
    let (high, zero) = (f.compare_to(CompareKind::Ge, x, -lambda), f.number(0.0));
    let inside = f.choose(high, zero, value);
    let low = f.compare_to(CompareKind::Le, x, lambda);
    f.choose(low, inside, value)
}

/// Returns `grad` if the result of relu is positive, NaN if it is NaN, else 0. Linear in `grad`, so
/// it is its own derivative.
fn relu_grad(grad: &Tensor, result: &Value) -> Result<Tensor> {
    let value = fused(BinaryKind::ReluGrad, grad, result)?.value().clone();
    let result = result.clone();
    Ok(Tensor::computed(value, &[grad], move |outer| Ok(vec![Some(relu_grad(outer, &result)?)])))
}
