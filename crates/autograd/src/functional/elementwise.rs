mod activation;
mod bounds;
mod choice;
mod formula;
mod gelu;
mod integer;
mod mixed;
mod power;
mod rounding;

pub use activation::{
    celu, elu, glu, hardshrink, hardsigmoid, hardswish, hardtanh, leaky_relu, log_sigmoid, mish,
    prelu, relu, relu6, rrelu, rrelu_with, selu, silu, softplus, softshrink, softsign, tanhshrink,
    threshold,
};
pub use bounds::{clamp, clamp_max, clamp_min};
pub use choice::{abs, maximum, minimum, sign, where_};
pub(super) use choice::{compare, equal, relation, scalar_like, scaled, weigh};
pub(super) use formula::formula;
pub(crate) use formula::{Steps, Symbol, formula_of_values};
pub use gelu::{gelu, gelu_tanh};
pub use integer::{floor_divide, remainder};
pub use mixed::{addcdiv, addcmul, lerp, logaddexp, logit};
pub use power::{exp2, log2, log10, pow, pow_scalar, reciprocal, rsqrt};
pub use rounding::{ceil, floor, frac, nan_to_num, round, trunc};

use samebits_macros::named;
use samebits_tensor_core::layout::PerDim;
use samebits_tensor_core::ops::{Affine, Binary, BinaryKind, Unary, UnaryKind};
use samebits_tensor_core::{DType, Result, Tensor as Value};

use super::broadcast::sum_to;
use super::cast::to_dtype;
use crate::{Tensor, run, untracked};

/// Computes `a + b`, with broadcasting. Integers are i64 and wrap around.
///
/// # Errors
///
/// The shapes cannot be broadcast together, or the types differ.
#[named]
#[track_caller]
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (shape_a, shape_b) = (PerDim::from(a.shape()), PerDim::from(b.shape()));
    Ok(Tensor::computed(binary(BinaryKind::Add, a, b)?, &[a, b], move |grad| {
        Ok(vec![Some(sum_to(grad, &shape_a)?), Some(sum_to(grad, &shape_b)?)])
    }))
}

/// Computes `a − b`, with broadcasting. Integers are i64 and wrap around.
///
/// # Errors
///
/// As [`add`].
#[doc(alias = "subtract")]
#[named]
#[track_caller]
pub fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (shape_a, shape_b) = (PerDim::from(a.shape()), PerDim::from(b.shape()));
    Ok(Tensor::computed(binary(BinaryKind::Sub, a, b)?, &[a, b], move |grad| {
        Ok(vec![Some(sum_to(grad, &shape_a)?), Some(neg(&sum_to(grad, &shape_b)?)?)])
    }))
}

/// Computes `a · b`, with broadcasting. Integers are i64 and wrap around.
///
/// # Errors
///
/// As [`add`].
#[doc(alias = "multiply")]
#[named]
#[track_caller]
pub fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (x, y) = (a.clone(), b.clone());
    Ok(Tensor::computed(binary(BinaryKind::Mul, a, b)?, &[a, b], move |grad| {
        Ok(vec![
            wanted(&x, || sum_to(&mul(grad, &y)?, x.shape()))?,
            wanted(&y, || sum_to(&mul(grad, &x)?, y.shape()))?,
        ])
    }))
}

/// Computes `a / b`, with broadcasting. Integers and booleans are divided as f32; for division that
/// rounds down, use [`floor_divide`].
///
/// # Errors
///
/// As [`add`].
#[doc(alias = "true_divide")]
#[named]
#[track_caller]
pub fn div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.dtype() == b.dtype() && !a.dtype().is_float() {
        return div(&to_dtype(a, DType::F32)?, &to_dtype(b, DType::F32)?);
    }
    let (x, y) = (a.clone(), b.clone());
    Ok(Tensor::computed(binary(BinaryKind::Div, a, b)?, &[a, b], move |grad| {
        let quotient = div(grad, &y)?;
        Ok(vec![
            wanted(&x, || sum_to(&quotient, x.shape()))?,
            wanted(&y, || neg(&sum_to(&div(&mul(&quotient, &x)?, &y)?, y.shape())?))?,
        ])
    }))
}

/// Computes `x · scale + shift`, with two roundings.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn affine(x: &Tensor, scale: f64, shift: f64) -> Result<Tensor> {
    let value = run(&Affine { x: x.value().clone(), scale, shift })?;
    Ok(Tensor::computed(value, &[x], move |grad| Ok(vec![Some(times(grad, scale)?)])))
}

/// Computes `x · factor`, rounded once. Adding -0 changes no number; adding +0 would change -0.
#[track_caller]
pub(super) fn times(x: &Tensor, factor: f64) -> Result<Tensor> {
    affine(x, factor, -0.0)
}

/// Computes `−x`. Integers are i64 and wrap around.
///
/// # Errors
///
/// The type is neither f32, f64 nor i64.
#[doc(alias = "negative")]
#[named]
#[track_caller]
pub fn neg(x: &Tensor) -> Result<Tensor> {
    Ok(Tensor::computed(unary(UnaryKind::Neg, x)?, &[x], |grad| Ok(vec![Some(neg(grad)?)])))
}

/// Computes `x · x`. Integers are i64 and wrap around.
///
/// # Errors
///
/// The type is neither f32, f64 nor i64.
#[named]
#[track_caller]
pub fn square(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Square, x)?, &[x], move |grad| {
        Ok(vec![Some(mul(grad, &times(&saved, 2.0)?)?)])
    }))
}

/// Computes e to the power `x`.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn exp(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    let value = unary(UnaryKind::Exp, x)?;
    let result = value.clone();
    Ok(Tensor::computed(value, &[x], move |grad| {
        let y = if crate::is_recording() { exp(&saved)? } else { Tensor::from(&result) };
        Ok(vec![Some(mul(grad, &y)?)])
    }))
}

/// Computes the natural logarithm.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn log(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Log, x)?, &[x], move |grad| {
        Ok(vec![Some(div(grad, &saved)?)])
    }))
}

/// Computes the square root.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn sqrt(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Sqrt, x)?, &[x], move |grad| {
        Ok(vec![Some(div(grad, &times(&sqrt(&saved)?, 2.0)?)?)])
    }))
}

/// Computes the hyperbolic tangent.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn tanh(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    let value = unary(UnaryKind::Tanh, x)?;
    let result = value.clone();
    Ok(Tensor::computed(value, &[x], move |grad| {
        if !crate::is_recording() {
            return Ok(vec![Some(fused(BinaryKind::TanhGrad, grad, &result)?)]);
        }
        let y = tanh(&saved)?;
        Ok(vec![Some(mul(grad, &affine(&square(&y)?, -1.0, 1.0)?)?)])
    }))
}

/// Computes `1 / (1 + exp(−x))`.
///
/// # Errors
///
/// The type is not a float.
#[doc(alias = "expit")]
#[named]
#[track_caller]
pub fn sigmoid(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    let value = unary(UnaryKind::Sigmoid, x)?;
    let result = value.clone();
    Ok(Tensor::computed(value, &[x], move |grad| {
        if !crate::is_recording() {
            return Ok(vec![Some(fused(BinaryKind::SigmoidGrad, grad, &result)?)]);
        }
        let y = sigmoid(&saved)?;
        Ok(vec![Some(mul(grad, &mul(&affine(&y, -1.0, 1.0)?, &y)?)?)])
    }))
}

/// Computes `exp(x) − 1`.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn expm1(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Expm1, x)?, &[x], move |grad| {
        Ok(vec![Some(mul(grad, &exp(&saved)?)?)])
    }))
}

/// Computes `log(1 + x)`.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn log1p(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Log1p, x)?, &[x], move |grad| {
        Ok(vec![Some(div(grad, &affine(&saved, 1.0, 1.0)?)?)])
    }))
}

/// Computes the sine.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn sin(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Sin, x)?, &[x], move |grad| {
        Ok(vec![Some(mul(grad, &cos(&saved)?)?)])
    }))
}

/// Computes the cosine.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn cos(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Cos, x)?, &[x], move |grad| {
        Ok(vec![Some(neg(&mul(grad, &sin(&saved)?)?)?)])
    }))
}

/// Computes the error function.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn erf(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Erf, x)?, &[x], move |grad| {
        Ok(vec![Some(mul(grad, &bell(&saved)?)?)])
    }))
}

/// Computes the slope of [`erf`]: `exp(−x·x) · (2/√π)`.
fn bell(x: &Tensor) -> Result<Tensor> {
    times(&exp(&neg(&square(x)?)?)?, std::f64::consts::FRAC_2_SQRT_PI)
}

/// Computes a gradient only if it will be used.
pub(super) fn wanted(x: &Tensor, grad: impl FnOnce() -> Result<Tensor>) -> Result<Option<Tensor>> {
    x.requires_grad().then(grad).transpose()
}

pub(super) fn fused(kind: BinaryKind, grad: &Tensor, result: &Value) -> Result<Tensor> {
    untracked(&Binary { kind, a: grad.value().clone(), b: result.clone() })
}

#[track_caller]
fn unary(kind: UnaryKind, x: &Tensor) -> Result<Value> {
    run(&Unary { kind, x: x.value().clone() })
}

#[track_caller]
fn binary(kind: BinaryKind, a: &Tensor, b: &Tensor) -> Result<Value> {
    run(&Binary { kind, a: a.value().clone(), b: b.value().clone() })
}
