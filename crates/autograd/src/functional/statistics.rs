//! Standard deviations, counts, quantiles and differences.

use samebits_macros::named;
use samebits_tensor_core::ops::{CompareKind, Unary, UnaryKind};
use samebits_tensor_core::{DType, Device, Error, Result};

use super::arrange::diagonal;
use super::broadcast::{sum, with_keepdim};
use super::cast::to_dtype;
use super::compare::{isnan, logical_not};
use super::distance::scaled;
use super::elementwise::{
    clamp, clamp_min, compare, div, lerp, mul, scalar_like, sqrt, sub, times, where_,
};
use super::linear::matmul;
use super::reduce::{mean, var};
use super::scalar::{lifted, lifted_over};
use super::shape::{narrow, reshape, squeeze, transpose, unsqueeze};
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
    let plain =
        if x.device() == Device::Cpu { Some(var(x, dims, correction, true)?) } else { None };
    let (variance, scale) = match plain {
        Some(variance) if is_moderate(&variance)? => (variance, None),
        _ => {
            let (x, scale) = scaled(x, dims, 0.0)?;
            (var(&x, dims, correction, true)?, Some(scale))
        }
    };
    let op = Unary { kind: UnaryKind::Sqrt, x: variance.value().clone() };
    let saved = variance.clone();
    let value = Tensor::computed(run(&op)?, &[&variance], move |grad| {
        let zero = compare(CompareKind::Eq, &saved, 0.0)?;
        let root = sqrt(&masked_fill(&saved, &zero, 1.0)?)?;
        let grad = where_(&zero, &scalar_like(grad, 0.0)?, grad)?;
        Ok(vec![Some(div(&grad, &times(&root, 2.0)?)?)])
    });
    let value = match scale {
        Some(scale) => mul(&value, &scale)?,
        None => value,
    };
    with_keepdim(value, dims, keepdim)
}

/// Tells if all variances, which are on the CPU, are so far from the ends of their type's range that a
/// power of two as a factor of their elements would change no bit.
fn is_moderate(variance: &Tensor) -> Result<bool> {
    let value = variance.value().contiguous()?;
    match variance.dtype() {
        // No sum of f32 overflows in f64, so that a NaN stays one with any factor.
        DType::F32 => {
            let is_moderate = |&v: &f32| v.is_nan() || (1e-24..=1e24).contains(&v);
            Ok(value.as_slice::<f32>()?.iter().all(is_moderate))
        }
        DType::F64 => Ok(value.as_slice::<f64>()?.iter().all(|v| (1e-200..=1e200).contains(v))),
        _ => Ok(false),
    }
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

/// Computes the covariance matrix of variables, one in each row, from observations, one in each
/// column; a vector is one variable, and its result a scalar. `correction` is subtracted from the
/// number of observations. `fweights` counts how often each observation was made, and `aweights`
/// says how much it weighs. PyTorch's defaults are a correction of 1 and no weights.
///
/// # Determinism
///
/// With the weights `w = fweights · aweights` and their sum `W`, or the number of observations: the
/// mean `m = Σ x · w / W`, then `((x − m) · ((x − m) · w)ᵀ) / d` by [`matmul`](super::matmul), with
/// `d = max(W − correction, 0)`, or `d = max(W − correction · (Σ w · aweights) / W, 0)` with
/// `aweights` and a correction.
///
/// # Errors
///
/// `x` is not a matrix or a vector of floats, the weights are not a vector with an element for each
/// observation, `fweights` are not integers, or a weight is below 0.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[0.0f32, 1.0, 2.0], [2.0, 1.0, 0.0]])?;
/// assert_eq!(x.cov(1, None, None)?.to_vec::<f32>()?, [1.0, -1.0, -1.0, 1.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.cov`.
#[named]
#[track_caller]
pub fn cov(
    x: &Tensor,
    correction: usize,
    fweights: Option<&Tensor>,
    aweights: Option<&Tensor>,
) -> Result<Tensor> {
    const OP: &str = "cov";
    let rows = match x.rank() {
        0 | 1 => reshape(x, [1, x.numel()])?,
        2 => x.clone(),
        _ => {
            let message = format!("expected a matrix or a vector, got shape {:?}", x.shape());
            return Err(Error::invalid(OP, message));
        }
    };
    let n = rows.shape()[1];
    let mut weights = None;
    for (what, given) in [("fweights", fweights), ("aweights", aweights)] {
        let Some(given) = given else { continue };
        if given.shape() != [n] {
            let message = format!("{what}: expected shape [{n}], got {:?}", given.shape());
            return Err(Error::invalid(OP, message));
        }
        if what == "fweights" && given.dtype() != DType::I64 {
            return Err(Error::invalid(OP, format!("{what}: expected i64, got {}", given.dtype())));
        }
        if sum(&compare(CompareKind::Lt, given, 0.0)?, (), false)?.item::<i64>()? > 0 {
            return Err(Error::invalid(OP, format!("{what}: a weight is below 0")));
        }
        let given = to_dtype(given, x.dtype())?;
        weights = Some(match weights {
            None => given,
            Some(weights) => mul(&weights, &given)?,
        });
    }
    let (centred, weighted, total) = match &weights {
        None => {
            let centred = sub(&rows, &mean(&rows, [1], true)?)?;
            (centred.clone(), centred, scalar_like(x, n as f64)?)
        }
        Some(weights) => {
            let total = sum(weights, (), false)?;
            let mean = div(&sum(&mul(&rows, weights)?, [1], true)?, &total)?;
            let centred = sub(&rows, &mean)?;
            (centred.clone(), mul(&centred, weights)?, total)
        }
    };
    let lost = match (&weights, aweights) {
        (Some(weights), Some(aweights)) if correction > 0 => {
            let squares = sum(&mul(weights, &to_dtype(aweights, x.dtype())?)?, (), false)?;
            div(&times(&squares, correction as f64)?, &total)?
        }
        _ => scalar_like(x, correction as f64)?,
    };
    let divisor = clamp_min(&sub(&total, &lost)?, 0.0)?;
    let products = div(&matmul(&centred, &transpose(&weighted, 0, 1)?)?, &divisor)?;
    if x.rank() < 2 { reshape(&products, [0usize; 0]) } else { Ok(products) }
}

/// Computes the matrix of Pearson correlation coefficients of variables, one in each row: the
/// [`cov`] with a correction of 1, divided by the standard deviation of either variable, and
/// clamped to [-1, 1]. The result of a vector is a scalar.
///
/// # Errors
///
/// `x` is not a matrix or a vector of floats.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[0.0f32, 1.0, 2.0], [4.0, 2.0, 0.0]])?;
/// assert_eq!(x.corrcoef()?.to_vec::<f32>()?, [1.0, -1.0, -1.0, 1.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.corrcoef`.
#[named]
#[track_caller]
pub fn corrcoef(x: &Tensor) -> Result<Tensor> {
    let covariances = cov(x, 1, None, None).map_err(|error| error.called("corrcoef"))?;
    if x.rank() < 2 {
        return div(&covariances, &covariances);
    }
    let deviations = sqrt(&diagonal(&covariances, 0, 0, 1)?)?;
    let by_row = div(&covariances, &unsqueeze(&deviations, 1)?)?;
    clamp(&div(&by_row, &deviations)?, Some(-1.0), Some(1.0))
}
