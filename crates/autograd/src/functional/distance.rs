//! Norms and cosines of vectors along a dimension.

use samebits_macros::named;
use samebits_tensor_core::layout::broadcast;
use samebits_tensor_core::ops::{CompareKind, Norm};
use samebits_tensor_core::{DType, Error, Result};

use super::broadcast::{expand, sum, with_keepdim};
use super::compare::logical_or;
use super::elementwise::{
    abs, affine, clamp, compare, div, equal, exp2, floor, log2, maximum, mul, pow_scalar,
    reciprocal, scalar_like, sign, sub, where_,
};
use super::reduce::shared;
use super::scalar::lifted_over;
use super::support::masked_fill;
use crate::dims::{Dim, Dims, over};
use crate::{Tensor, run};

/// Computes the p-norm over `dims`: `(Σ |x|^p)^(1/p)`. A `p` of 0 counts the nonzero elements; ∞
/// gives the largest magnitude and −∞ the smallest.
///
/// # Determinism
///
/// Portable: in f64 over the tree of the sum, rounded once. The gradient of an infinite norm is
/// split evenly among equal magnitudes; if the norm is 0, the gradient is 0.
///
/// # Errors
///
/// As [`sum`]; `p` is NaN; `p` is negative or infinite and there are no elements.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[3.0f32, -4.0], &[2])?;
/// assert_eq!(functional::norm(&x, 2.0, &[0], false)?.item::<f32>()?, 5.0);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.linalg.vector_norm`, `torch.norm`.
#[doc(alias = "vector_norm")]
#[named]
#[track_caller]
pub fn norm(x: &Tensor, p: f64, dims: impl Dims, keepdim: bool) -> Result<Tensor> {
    let dims = &over("norm", x, dims)?;
    if let Some(x) = lifted_over(x, dims)? {
        return norm(&x, p, dims, false);
    }
    let value = run(&Norm { x: x.value().clone(), dims: dims.to_vec(), p })?;
    let (saved, list) = (x.clone(), dims.to_vec());
    let value = Tensor::computed(value, &[x], move |grad| {
        Ok(vec![Some(norm_grad(grad, &saved, p, &list)?)])
    });
    with_keepdim(value, dims, keepdim)
}

/// Divides `x` by its `p`-norm along a dimension, or by `eps` if the norm is smaller. PyTorch's
/// defaults are 2, 1 and 1e-12.
///
/// # Errors
///
/// The type is not a float, or there is no such dimension.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::functional::normalize;
///
/// let x = Tensor::new([[3.0f32, 4.0], [0.0, 0.0]])?;
/// assert_eq!(normalize(&x, 2.0, 1, 1e-12)?.to_vec::<f32>()?, [0.6, 0.8, 0.0, 0.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.normalize`.
#[named]
#[track_caller]
pub fn normalize(x: &Tensor, p: f64, dim: impl Dim, eps: f64) -> Result<Tensor> {
    expect_eps("normalize", eps)?;
    let dim = dim.dim("normalize", x.rank())?;
    let norm = norm(x, p, dim, true)?;
    div(x, &maximum(&norm, &scalar_like(&norm, eps)?)?)
}

/// Returns the `p`-norm of `a − b + eps` along the last dimension. PyTorch's defaults are 2, 1e-6
/// and no `keepdim`.
///
/// # Errors
///
/// The shapes cannot be broadcast together, or the types differ or are not floats.
///
/// # References
///
/// `torch.nn.functional.pairwise_distance`.
#[named]
#[track_caller]
pub fn pairwise_distance(
    a: &Tensor,
    b: &Tensor,
    p: f64,
    eps: f64,
    keepdim: bool,
) -> Result<Tensor> {
    norm(&affine(&sub(a, b)?, 1.0, eps)?, p, -1, keepdim)
}

/// Returns the cosine of the angle between vectors along a dimension:
/// `Σ a·b / (max(‖a‖, eps) · max(‖b‖, eps))`. PyTorch's defaults are dimension 1 and 1e-8.
///
/// # Shapes
///
/// `a` and `b` broadcast; `dim` is a dimension of the broadcast shape.
///
/// # Determinism
///
/// Divides both inputs by their [`norm`]s first, then multiplies and sums.
///
/// # Errors
///
/// The shapes cannot be broadcast together, or there is no such dimension.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::functional::cosine_similarity;
///
/// let (a, b) = (Tensor::new([[3.0f32, 4.0], [0.0, 0.0]])?, Tensor::new([[1.0f32, 0.0]])?);
/// assert_eq!(cosine_similarity(&a, &b, 1, 1e-8)?.to_vec::<f32>()?, [0.6, 0.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.cosine_similarity`.
#[named]
#[track_caller]
pub fn cosine_similarity(a: &Tensor, b: &Tensor, dim: impl Dim, eps: f64) -> Result<Tensor> {
    let op = "cosine_similarity";
    expect_eps(op, eps)?;
    let shape = broadcast(op, a.shape(), b.shape())?;
    let dim = dim.dim(op, shape.len())?;
    let unit = |x: &Tensor| {
        // Before the division, broadcast only along the vectors' dimension.
        let mut whole = vec![1; shape.len() - x.rank()];
        whole.extend(x.shape());
        if let Some(size) = whole.get_mut(dim) {
            *size = shape[dim];
        }
        normalize(&expand(x, &whole)?, 2.0, dim, eps)
    };
    sum(&mul(&unit(a)?, &unit(b)?)?, dim, false)
}

/// Requires a number of at least 0.
fn expect_eps(op: &'static str, eps: f64) -> Result<()> {
    if eps >= 0.0 {
        return Ok(());
    }
    Err(Error::invalid(op, format!("eps should be at least 0, got {eps}")))
}

/// Returns the gradient of [`norm`], built from differentiable operations. `grad` keeps the reduced
/// dimensions with size 1.
pub(super) fn norm_grad(grad: &Tensor, x: &Tensor, p: f64, dims: &[usize]) -> Result<Tensor> {
    let zero = scalar_like(grad, 0.0)?;
    if p == 0.0 {
        return expand(&mul(grad, &zero)?, x.shape());
    }
    let sign = sign(x)?;
    if p == 1.0 {
        return mul(grad, &sign);
    }
    let size = norm(x, p, dims, true)?;
    if p.is_infinite() {
        let magnitude = abs(&x.detach())?;
        return shared(&mul(grad, &sign)?, &equal(&magnitude, &size)?, dims);
    }
    let one = scalar_like(grad, 1.0)?;
    let nothing = compare(CompareKind::Eq, &size, 0.0)?;
    let size = where_(&nothing, &one, &size)?;
    let grad = where_(&nothing, &zero, grad)?;
    if p == 2.0 {
        // (grad / size) · x; or grad · (x / size) if the first quotient leaves the range.
        let out = outside(&div(&grad, &size)?)?;
        let factor = where_(&out, &grad, &div(&grad, &where_(&out, &one, &size)?)?)?;
        return mul(&factor, &div(x, &where_(&out, &size, &one)?)?);
    }
    // (|x| / size)^(p - 1), but 0 if x or the norm is 0.
    let magnitude = abs(x)?;
    let absent = logical_or(&compare(CompareKind::Eq, x, 0.0)?, &nothing)?;
    let ratio = masked_fill(&div(&magnitude, &size)?, &absent, 1.0)?;
    let power = |x: &Tensor| pow_scalar(x, p - 1.0);
    let slope = if 0.0 < p && p < 2.0 {
        // If the quotient underflows, its power may not: use the quotient of the powers.
        let below = compare(CompareKind::Lt, &ratio, smallest(x.dtype()))?;
        let far = |x: &Tensor| power(&where_(&below, x, &one)?);
        let quotient = div(&far(&magnitude)?, &far(&size)?)?;
        where_(&below, &quotient, &power(&masked_fill(&ratio, &below, 1.0)?)?)?
    } else {
        power(&ratio)?
    };
    mul(&mul(&grad, &sign)?, &slope)
}

/// Returns `x` divided by a power of two near the largest magnitude over `dims` (or near `least` if
/// that is larger), and the power. Squares of the quotients stay within the range of the type.
/// Quotients and products with the power are exact, so a formula homogeneous in `x` keeps its bits.
///
/// The power is not differentiated: results do not depend on it.
pub(super) fn scaled(x: &Tensor, dims: &[usize], least: f64) -> Result<(Tensor, Tensor)> {
    if x.numel() == 0 {
        // A later operation rejects invalid dimensions.
        let mut shape = x.shape().to_vec();
        for &dim in dims {
            if let Some(size) = shape.get_mut(dim) {
                *size = 1;
            }
        }
        return Ok((x.clone(), expand(&scalar_like(x, 1.0)?, &shape)?));
    }
    let size = norm(&x.detach(), f64::INFINITY, dims, true)?;
    let size = maximum(&size, &scalar_like(&size, least)?)?;
    // The reciprocal of the power must also be a normal number, with room for its products.
    let reach = if x.dtype() == DType::F64 { 800.0 } else { 100.0 };
    let scale = exp2(&clamp(&floor(&log2(&size)?)?, Some(-reach), Some(reach))?)?;
    Ok((mul(x, &reciprocal(&scale)?)?, scale))
}

/// Tests elementwise if a number is zero, subnormal or infinite.
pub(super) fn outside(x: &Tensor) -> Result<Tensor> {
    let size = abs(&x.detach())?;
    let below = compare(CompareKind::Lt, &size, smallest(x.dtype()))?;
    logical_or(&below, &compare(CompareKind::Eq, &size, f64::INFINITY)?)
}

/// Returns the smallest positive normal number.
fn smallest(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::MIN_POSITIVE } else { f32::MIN_POSITIVE.into() }
}
