//! Activation functions: stated compositions of the elementary ones.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use samebits_macros::named;
use samebits_tensor_core::ops::{BinaryKind, CompareKind, UnaryKind};
use samebits_tensor_core::{Error, Result, Tensor as Value};

use super::choice::{compare, hard_clamp, minimum, scalar_like, where_};
use super::{
    abs, add, affine, erf, exp, expm1, fused, log1p, mul, neg, sigmoid, sub, tanh, times, unary,
};
use crate::Tensor;
use crate::functional::{full_like, reshape};

/// `x` where it is positive, else `weight · x`.
///
/// # Shapes
///
/// `weight` has one element, or is `[channels]` for `x` of shape `[n, channels, ..]`.
///
/// # Errors
///
/// The type is not a float, or the number of weights is another.
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
        let message = format!("a weight of shape {weight:?} for an input of shape {x:?}");
        return Err(Error::invalid("prelu", message));
    }
    let mut along = vec![1; x.rank()];
    if weight.numel() != 1 {
        along[1] = channels;
    }
    let positive = compare(CompareKind::Gt, x, 0.0)?;
    mul(x, &where_(&positive, &scalar_like(x, 1.0)?, &reshape(weight, along)?)?)
}

/// `max(x, 0)`.
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

/// `min(max(x, 0), 6)`.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn relu6(x: &Tensor) -> Result<Tensor> {
    hardtanh(x, 0.0, 6.0)
}

/// `x · (0.5 · erf(x / √2) + 0.5)`, each operation rounded.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn gelu(x: &Tensor) -> Result<Tensor> {
    let share = erf(&times(x, FRAC_1_SQRT_2)?)?;
    mul(x, &affine(&share, 0.5, 0.5)?)
}

/// PyTorch's `gelu(approximate="tanh")`: `x · (0.5 · tanh(√(2/π) · (x + 0.044715 · x³)) + 0.5)`,
/// each operation rounded.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    let cube = mul(&mul(x, x)?, x)?;
    let inner = add(x, &times(&cube, 0.044715)?)?;
    let share = tanh(&times(&inner, FRAC_1_SQRT_2 * FRAC_2_SQRT_PI)?)?;
    mul(x, &affine(&share, 0.5, 0.5)?)
}

/// `x · sigmoid(x)`, the product rounded.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn silu(x: &Tensor) -> Result<Tensor> {
    mul(x, &sigmoid(x)?)
}

/// `log(1 + exp(beta · x)) / beta`, and `x` itself where `beta · x` exceeds the threshold.
/// PyTorch's defaults are 1 and 20.
///
/// # Determinism
///
/// `log1p(exp(x · beta)) · (1 / beta)`, each operation rounded, the reciprocal first.
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
    let scaled = times(x, beta)?;
    let straight = compare(CompareKind::Gt, &scaled, threshold)?;
    let curve = times(&log1p(&exp(&scaled.detach())?)?, 1.0 / beta)?;
    let value = where_(&straight, &x.detach(), &curve)?.value().clone();
    let saved = x.clone();
    Ok(Tensor::computed(value, &[x], move |grad| {
        let slope = sigmoid(&times(&saved, beta)?)?;
        let one = full_like(&slope, 1.0)?;
        Ok(vec![Some(mul(grad, &where_(&straight, &one, &slope)?)?)])
    }))
}

/// `log(sigmoid(x))`, accurate for all arguments: `min(x, 0) − log1p(exp(−|x|))`.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn log_sigmoid(x: &Tensor) -> Result<Tensor> {
    let flat = x.detach();
    let tail = log1p(&exp(&neg(&abs(&flat)?)?)?)?;
    let value = sub(&minimum(&flat, &full_like(&flat, 0.0)?)?, &tail)?.value().clone();
    let saved = x.clone();
    Ok(Tensor::computed(value, &[x], move |grad| {
        Ok(vec![Some(mul(grad, &sigmoid(&neg(&saved)?)?)?)])
    }))
}

/// `x` where it is positive, else `negative_slope · x`.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn leaky_relu(x: &Tensor, negative_slope: f64) -> Result<Tensor> {
    let positive = compare(CompareKind::Gt, x, 0.0)?;
    // The gradient too: as the sum of two, of which one is +0, it would lose the sign of -0.
    let leak = move |x: &Tensor| where_(&positive, x, &times(x, negative_slope)?);
    let value = leak(&x.detach())?.value().clone();
    Ok(Tensor::computed(value, &[x], move |grad| Ok(vec![Some(leak(grad)?)])))
}

/// `x` where it is positive, else `alpha · (exp(x) − 1)`.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn elu(x: &Tensor, alpha: f64) -> Result<Tensor> {
    let positive = compare(CompareKind::Gt, x, 0.0)?;
    let curve = times(&expm1(&x.detach())?, alpha)?;
    let value = where_(&positive, &x.detach(), &curve)?.value().clone();
    let saved = x.clone();
    Ok(Tensor::computed(value, &[x], move |grad| {
        // Large arguments would overflow, and the gradient of this gradient with them.
        let below = where_(&positive, &scalar_like(&saved, 0.0)?, &saved)?;
        let slope = mul(&times(grad, alpha)?, &exp(&below)?)?;
        Ok(vec![Some(where_(&positive, grad, &slope)?)])
    }))
}

/// `x` kept within `[min, max]`; the gradient is zero at the ends too.
///
/// # Errors
///
/// The type is not a float, or `min` is not below `max`.
#[named]
#[track_caller]
pub fn hardtanh(x: &Tensor, min: f64, max: f64) -> Result<Tensor> {
    // Written so that NaN is refused too.
    if min.partial_cmp(&max) != Some(std::cmp::Ordering::Less) {
        return Err(Error::invalid("hardtanh", format!("expected min < max, got {min} and {max}")));
    }
    let inside = [compare(CompareKind::Gt, x, min)?, compare(CompareKind::Lt, x, max)?];
    hard_clamp(x, Some(min), Some(max), inside.into())
}

/// `grad` where the result of relu is positive. Linear in `grad`, so it is its own derivative.
fn relu_grad(grad: &Tensor, result: &Value) -> Result<Tensor> {
    let value = fused(BinaryKind::ReluGrad, grad, result)?.value().clone();
    let result = result.clone();
    Ok(Tensor::computed(value, &[grad], move |outer| Ok(vec![Some(relu_grad(outer, &result)?)])))
}
