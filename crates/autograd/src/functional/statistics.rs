//! Standard deviations, counts, quantiles and differences.

use samebits_macros::named;
use samebits_tensor_core::ops::{CompareKind, Unary, UnaryKind};
use samebits_tensor_core::{Error, Result};

use super::broadcast::{sum, with_keepdim};
use super::cast::to_dtype;
use super::compare::{isnan, logical_not};
use super::distance::scaled;
use super::elementwise::{compare, div, lerp, mul, scalar_like, sqrt, sub, times, where_};
use super::reduce::var;
use super::scalar::{lifted, lifted_over};
use super::shape::{narrow, reshape, squeeze};
use super::sort::sort;
use super::support::masked_fill;
use crate::dims::{Dim, DimOrAll, Dims, over};
use crate::{Tensor, run};

/// Computes the standard deviation over `dims`: the square root of [`var`].
///
/// # Determinism
///
/// Portable: the variance is rounded, then its square root, both for elements divided by a power of
/// two near the largest magnitude. The power changes bits only if a square would leave the range of
/// the type. The gradient at 0 is 0.
///
/// # Errors
///
/// As [`sum`].
///
/// # References
///
/// `torch.std`.
#[named]
#[track_caller]
pub fn std(x: &Tensor, dims: impl Dims, correction: f64, keepdim: bool) -> Result<Tensor> {
    let dims = &over("std", x, dims)?;
    if let Some(x) = lifted_over(x, dims)? {
        return std(&x, dims, correction, false);
    }
    let (x, scale) = scaled(x, dims, 0.0)?;
    let variance = var(&x, dims, correction, true)?;
    let op = Unary { kind: UnaryKind::Sqrt, x: variance.value().clone() };
    let saved = variance.clone();
    let value = Tensor::computed(run(&op)?, &[&variance], move |grad| {
        let zero = compare(CompareKind::Eq, &saved, 0.0)?;
        let root = sqrt(&masked_fill(&saved, &zero, 1.0)?)?;
        let grad = where_(&zero, &scalar_like(grad, 0.0)?, grad)?;
        Ok(vec![Some(div(&grad, &times(&root, 2.0)?)?)])
    });
    let value = mul(&value, &scale)?;
    with_keepdim(value, dims, keepdim)
}

/// Counts the elements over `dims` that are neither 0 nor false, as i64.
///
/// # Errors
///
/// There is no such dimension, or a dimension is listed twice.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[1.0f32, 0.0], [2.0, 3.0]])?;
/// assert_eq!(x.count_nonzero(0)?.to_vec::<i64>()?, [2, 1]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.count_nonzero`.
#[named]
#[track_caller]
pub fn count_nonzero(x: &Tensor, dims: impl Dims) -> Result<Tensor> {
    sum(&compare(CompareKind::Ne, x, 0.0)?, dims, false)
}

/// Returns the [`sum`](super::sum) over `dims` of the elements that are not NaN.
///
/// # Errors
///
/// As [`sum`](super::sum).
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, f32::NAN, 2.0])?;
/// assert_eq!(x.nansum(())?.item::<f32>()?, 3.0);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nansum`.
#[named]
#[track_caller]
pub fn nansum(x: &Tensor, dims: impl Dims, keepdim: bool) -> Result<Tensor> {
    sum(&masked_fill(x, &isnan(x)?, 0.0)?, dims, keepdim)
}

/// Returns the mean over `dims` of the elements that are not NaN: their sum divided by their
/// number.
///
/// # Errors
///
/// As [`mean`](super::mean).
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, f32::NAN, 2.0])?;
/// assert_eq!(x.nanmean(())?.item::<f32>()?, 1.5);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nanmean`.
#[named]
#[track_caller]
pub fn nanmean(x: &Tensor, dims: impl Dims, keepdim: bool) -> Result<Tensor> {
    let dims = dims.dims("nanmean", x.rank())?;
    let count = sum(&logical_not(&isnan(x)?)?, &dims, keepdim)?;
    div(&nansum(x, &dims, keepdim)?, &to_dtype(&count, x.dtype())?)
}

/// Returns the `q`-th quantile along `dim` or of all elements, with linear interpolation between
/// neighbours. NaN if an element is NaN. PyTorch's defaults are all elements and no `keepdim`.
///
/// # Determinism
///
/// [`lerp`] of the elements next to position `q · (n − 1)` in f64, with its fraction as the weight,
/// rounded to the type; infinite elements behave as in [`lerp`].
///
/// # Errors
///
/// The type is not a float, `q` is not in `[0, 1]`, there is no such dimension, or there are no
/// elements.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([4.0f32, 1.0, 2.0, 3.0])?;
/// assert_eq!(x.quantile(0.5, ())?.item::<f32>()?, 2.5);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.quantile` with `interpolation="linear"`.
#[named]
#[track_caller]
pub fn quantile(x: &Tensor, q: f64, dim: impl DimOrAll, keepdim: bool) -> Result<Tensor> {
    let op = "quantile";
    if !(0.0..=1.0).contains(&q) {
        return Err(Error::invalid(op, format!("q must be in [0, 1], got {q}")));
    }
    let Some(dim) = dim.dim_or_all(op, x.rank())? else {
        let y = quantile(&reshape(x, [x.numel()])?, q, 0, false)?;
        return if keepdim { reshape(&y, vec![1; x.rank()]) } else { Ok(y) };
    };
    if let Some(x) = lifted(x, dim)? {
        return reshape(&quantile(&x, q, 0, false)?, ());
    }
    let n = x.value().size(op, dim)?;
    if n == 0 {
        return Err(Error::invalid(
            op,
            format!("dimension {dim} of shape {:?} is empty", x.shape()),
        ));
    }
    let (sorted, _) = sort(x, dim, false)?;
    let place = q * (n - 1) as f64;
    let low = place as usize;
    let at = |i: usize| narrow(&sorted, dim, i.min(n - 1), 1);
    let (start, end) = (at(low)?, at(low + 1)?);
    let weight = place - low as f64;
    let mut y = if weight > 0.0 { lerp(&start, &end, weight)? } else { start };
    // NaN is sorted to the end.
    let last = at(n - 1)?;
    y = where_(&isnan(&last)?, &last, &y)?;
    if keepdim { Ok(y) } else { squeeze(&y, dim) }
}

/// Returns the difference of each element along `dim` and the one before, taken `n` times.
/// PyTorch's defaults are once and −1.
///
/// # Errors
///
/// The type is not numeric, or there is no such dimension.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, 3.0, 6.0])?;
/// assert_eq!(x.diff(1, -1)?.to_vec::<f32>()?, [2.0, 3.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.diff`.
#[named]
#[track_caller]
pub fn diff(x: &Tensor, n: usize, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.dim("diff", x.rank())?;
    let mut y = x.clone();
    for _ in 0..n.min(x.value().size("diff", dim)?) {
        let rest = y.shape()[dim] - 1;
        y = sub(&narrow(&y, dim, 1, rest)?, &narrow(&y, dim, 0, rest)?)?;
    }
    Ok(y)
}
