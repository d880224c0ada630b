use samebits_macros::named;
use samebits_tensor_core::ops::{
    ArgReduce, ArgReduceKind, Cast, CompareKind, Logsumexp, Norm, Reduce, ReduceKind, Variance,
};
use samebits_tensor_core::{DType, Result};

use super::broadcast::{expand, integers, sum, with_keepdim};
use super::elementwise::{abs, compare, div, equal, exp, mul, scalar_like, sub, times, where_};
use super::index::{gather, index_select, selected};
use super::scalar::{lifted, lifted_over, lowered};
use super::scan::cumprod;
use super::shape::{cat, narrow, permute, reshape};
use super::support::{mask_like, masked, masked_fill, pair_with_keepdim};
use crate::dims::{Dim, DimOrAll, Dims, over};
use crate::{Tensor, is_recording, run, untracked};

/// Computes the mean over `dims`, which stay with size 1 if `keepdim`.
///
/// # Errors
///
/// As [`sum`].
#[named]
#[track_caller]
pub fn mean(x: &Tensor, dims: impl Dims, keepdim: bool) -> Result<Tensor> {
    let dims = &over("mean", x, dims)?;
    if let Some(x) = lifted_over(x, dims)? {
        return mean(&x, dims, false);
    }
    let op = Reduce { kind: ReduceKind::Mean, x: x.value().clone(), dims: dims.to_vec() };
    let shape = x.shape().to_vec();
    let value = run(&op)?;
    let n: usize = dims.iter().map(|&dim| shape[dim]).product();
    let value = Tensor::computed(value, &[x], move |grad| {
        Ok(vec![Some(expand(&times(grad, 1.0 / n as f64)?, &shape)?)])
    });
    with_keepdim(value, dims, keepdim)
}

/// Computes the product over `dims`. Integers and booleans are multiplied as i64, which wraps
/// around.
///
/// # Determinism
///
/// Portable: in f64 over the tree of the sum, rounded once.
///
/// # Errors
///
/// As [`sum`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[2.0f32, 3.0, 4.0, 5.0], &[2, 2])?;
/// let y = functional::prod(&x, &[1], false)?;
/// assert_eq!(y.to_vec::<f32>()?, [6.0, 20.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.prod`.
#[named]
#[track_caller]
pub fn prod(x: &Tensor, dims: impl Dims, keepdim: bool) -> Result<Tensor> {
    let dims = &over("prod", x, dims)?;
    if let Some(x) = lifted_over(x, dims)? {
        return prod(&x, dims, false);
    }
    if let Some(x) = integers(x)? {
        return prod(&x, dims, keepdim);
    }
    let op = Reduce { kind: ReduceKind::Prod, x: x.value().clone(), dims: dims.to_vec() };
    let (saved, list) = (x.clone(), dims.to_vec());
    let value = Tensor::computed(run(&op)?, &[x], move |grad| {
        let zero = compare(CompareKind::Eq, &saved, 0.0)?;
        let zeros = sum(&mask_like(&zero, grad)?, &list, true)?;
        if is_recording() {
            let others = match has_any(&zero)? {
                true => products_of_others(&saved, &list)?,
                false => div(&prod(&saved, &list, true)?, &saved)?,
            };
            return Ok(vec![Some(mul(grad, &others)?)]);
        }
        // The only zero of a product gets the product of the other elements. All other elements of
        // a product with a zero get 0.
        let x = masked_fill(&saved, &zero, 1.0)?;
        let all = prod(&x, &list, true)?;
        let alone = masked(&compare(CompareKind::Eq, &zeros, 1.0)?, &all)?;
        let rest = masked(&compare(CompareKind::Eq, &zeros, 0.0)?, &div(&all, &x)?)?;
        let others = where_(&zero, &expand(&alone, x.shape())?, &rest)?;
        Ok(vec![Some(mul(grad, &others)?)])
    });
    with_keepdim(value, dims, keepdim)
}

/// Computes the variance over `dims`: the sum of squared deviations divided by the number of
/// elements less `correction`, which is 1 for a sample and 0 for a population. PyTorch's default is
/// 1.
///
/// # Determinism
///
/// Portable: in f64 over the tree of the sum, with deviations from the f64 mean, rounded once.
///
/// # Errors
///
/// As [`sum`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?;
/// assert_eq!(functional::var(&x, &[0], 1.0, false)?.item::<f32>()?, 1.0);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.var`.
#[named]
#[track_caller]
pub fn var(x: &Tensor, dims: impl Dims, correction: f64, keepdim: bool) -> Result<Tensor> {
    let dims = &over("var", x, dims)?;
    Ok(var_mean(x, dims, correction, keepdim)?.0)
}

/// Computes the variance and the mean over `dims`; see [`var`].
///
/// # Determinism
///
/// As [`var`]; the mean has the bits of [`mean`].
///
/// # Errors
///
/// As [`sum`].
///
/// # References
///
/// `torch.var_mean`.
#[named]
#[track_caller]
pub fn var_mean(
    x: &Tensor,
    dims: impl Dims,
    correction: f64,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    let dims = &over("var_mean", x, dims)?;
    if let Some(x) = lifted_over(x, dims)? {
        return var_mean(&x, dims, correction, false);
    }
    let op = Variance { x: x.value().clone(), dims: dims.to_vec(), correction };
    let (variance, average) = run(&op)?;
    let (saved, list) = (x.clone(), dims.to_vec());
    let n = count(x.shape(), dims) as f64;
    let variance = Tensor::computed(variance, &[x], move |grad| {
        let scale = 2.0 / (n - correction).max(0.0);
        let deviation = sub(&saved, &mean(&saved, &list, true)?)?;
        Ok(vec![Some(mul(&times(grad, scale)?, &deviation)?)])
    });
    let shape = x.shape().to_vec();
    let average = Tensor::computed(average, &[x], move |grad| {
        Ok(vec![Some(expand(&times(grad, 1.0 / n)?, &shape)?)])
    });
    Ok((with_keepdim(variance, dims, keepdim)?, with_keepdim(average, dims, keepdim)?))
}

/// Computes the logarithm of the sum of the exponentials over `dims`.
///
/// The gradient of an element is its share of the sum. If the result is +∞, the infinite elements
/// share it evenly; if it is −∞, all gradients are 0.
///
/// # Determinism
///
/// Portable: in f64 over the tree of the sum, rounded once. A share is the exponential of the
/// difference from the result. If the result has a magnitude of at least 2^10 (2^39 at f64), the
/// shares are divided by their sum.
///
/// # Errors
///
/// As [`sum`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1000.0f32, 1000.0], &[2])?;
/// assert_eq!(functional::logsumexp(&x, &[0], false)?.item::<f32>()?, 1000.6932);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.logsumexp`.
#[named]
#[track_caller]
pub fn logsumexp(x: &Tensor, dims: impl Dims, keepdim: bool) -> Result<Tensor> {
    let dims = &over("logsumexp", x, dims)?;
    if let Some(x) = lifted_over(x, dims)? {
        return logsumexp(&x, dims, false);
    }
    let value = run(&Logsumexp { x: x.value().clone(), dims: dims.to_vec() })?;
    let (saved, list, result) = (x.clone(), dims.to_vec(), Tensor::from(value.clone()));
    let value = Tensor::computed(value, &[x], move |grad| {
        let result = if is_recording() { logsumexp(&saved, &list, true)? } else { result.clone() };
        Ok(vec![Some(shares(grad, &saved, &result, &list)?)])
    });
    with_keepdim(value, dims, keepdim)
}

/// Splits `grad` by the shares of the elements of `x` in the `result` of [`logsumexp`].
fn shares(grad: &Tensor, x: &Tensor, result: &Tensor, dims: &[usize]) -> Result<Tensor> {
    let nothing = compare(CompareKind::Eq, result, f64::NEG_INFINITY)?;
    let distance = sub(x, &masked_fill(result, &nothing, 0.0)?)?;
    // NaN equals no element.
    let infinite = compare(CompareKind::Eq, result, f64::INFINITY)?;
    let top = where_(&infinite, &result.detach(), &scalar_like(result, f64::NAN)?)?;
    let shares = exp(&masked_fill(&distance, &equal(x, &top)?, 0.0)?)?;
    // A large result lacks the digits that make the shares add up to 1.
    let large = if x.dtype() == DType::F64 { 39 } else { 10 };
    let large = compare(CompareKind::Ge, &abs(result)?, (1u64 << large) as f64)?;
    let total = sum(&shares, dims, true)?;
    let divisor = where_(&large, &masked_fill(&total, &nothing, 1.0)?, &scalar_like(&total, 1.0)?)?;
    mul(&div(grad, &divisor)?, &shares)
}

/// Returns the largest element over `dims`; NaN if any element is NaN.
///
/// # Determinism
///
/// Portable. The gradient is split evenly among equal elements.
///
/// # Errors
///
/// As [`sum`], or there are no elements.
///
/// # References
///
/// `torch.amax`.
#[named]
#[track_caller]
pub fn amax(x: &Tensor, dims: impl Dims, keepdim: bool) -> Result<Tensor> {
    let dims = &over("amax", x, dims)?;
    extreme(ReduceKind::Amax, x, dims, keepdim)
}

/// Returns the smallest element over `dims`; NaN if any element is NaN.
///
/// # Determinism
///
/// As [`amax`].
///
/// # Errors
///
/// As [`amax`].
///
/// # References
///
/// `torch.amin`.
#[named]
#[track_caller]
pub fn amin(x: &Tensor, dims: impl Dims, keepdim: bool) -> Result<Tensor> {
    let dims = &over("amin", x, dims)?;
    extreme(ReduceKind::Amin, x, dims, keepdim)
}

/// Returns the largest element along `dim` and its index. Ties go to the lowest index, which alone
/// receives the gradient. NaN counts as the largest.
///
/// # Errors
///
/// There is no such dimension, or it is empty.
///
/// # References
///
/// `torch.max` with a dimension.
#[named]
#[track_caller]
pub fn max(x: &Tensor, dim: impl Dim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let dim = dim.dim("max", x.rank())?;
    extreme_along(ArgReduceKind::Argmax, x, dim, keepdim)
}

/// Returns the smallest element along `dim` and its index. Ties go to the lowest index, which alone
/// receives the gradient. NaN takes precedence.
///
/// # Errors
///
/// There is no such dimension, or it is empty.
///
/// # References
///
/// `torch.min` with a dimension.
#[named]
#[track_caller]
pub fn min(x: &Tensor, dim: impl Dim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let dim = dim.dim("min", x.rank())?;
    extreme_along(ArgReduceKind::Argmin, x, dim, keepdim)
}

/// Returns the index of the largest element along `dim`, or of all elements in row-major order.
/// Ties go to the lowest index. NaN counts as the largest.
///
/// # Errors
///
/// There is no such dimension, or it is empty.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1.0f32, 5.0, 5.0, 2.0], &[2, 2])?;
/// assert_eq!(functional::argmax(&x, None, false)?.item::<i64>()?, 1);
/// assert_eq!(functional::argmax(&x, Some(0), false)?.to_vec::<i64>()?, [1, 0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.argmax`.
#[named]
#[track_caller]
pub fn argmax(x: &Tensor, dim: impl DimOrAll, keepdim: bool) -> Result<Tensor> {
    let dim = dim.dim_or_all("argmax", x.rank())?;
    arg_extreme(ArgReduceKind::Argmax, x, dim, keepdim)
}

/// Returns the index of the smallest element along `dim`, or of all elements in row-major order.
/// Ties go to the lowest index. NaN takes precedence.
///
/// # Errors
///
/// As [`argmax`].
///
/// # References
///
/// `torch.argmin`.
#[named]
#[track_caller]
pub fn argmin(x: &Tensor, dim: impl DimOrAll, keepdim: bool) -> Result<Tensor> {
    let dim = dim.dim_or_all("argmin", x.rank())?;
    arg_extreme(ArgReduceKind::Argmin, x, dim, keepdim)
}

/// Tests if any element over `dims` is nonzero; NaN is nonzero.
///
/// # Errors
///
/// A dimension does not exist or is listed twice.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[0.0f32, 1.0, 0.0, 0.0], &[2, 2])?;
/// assert_eq!(functional::any(&x, &[1], false)?.to_bools()?, [true, false]);
/// assert_eq!(functional::all(&x, &[0, 1], false)?.to_bools()?, [false]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.any`.
#[named]
#[track_caller]
pub fn any(x: &Tensor, dims: impl Dims, keepdim: bool) -> Result<Tensor> {
    let dims = &over("any", x, dims)?;
    if let Some(x) = lifted_over(x, dims)? {
        return any(&x, dims, false);
    }
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        return count_of(CompareKind::Ne, x, dims, CompareKind::Gt, keepdim);
    }
    compare(CompareKind::Gt, &with_keepdim(nonzero(x, dims)?, dims, keepdim)?, 0.0)
}

/// Tests if all elements over `dims` are nonzero.
///
/// # Errors
///
/// As [`any`].
///
/// # References
///
/// `torch.all`.
#[named]
#[track_caller]
pub fn all(x: &Tensor, dims: impl Dims, keepdim: bool) -> Result<Tensor> {
    let dims = &over("all", x, dims)?;
    if let Some(x) = lifted_over(x, dims)? {
        return all(&x, dims, false);
    }
    // Up to 2^24, f32 holds every count.
    if !matches!(x.dtype(), DType::F32 | DType::F64) || x.numel() > 1 << 24 {
        return count_of(CompareKind::Eq, x, dims, CompareKind::Eq, keepdim);
    }
    let found = with_keepdim(nonzero(x, dims)?, dims, keepdim)?;
    compare(CompareKind::Eq, &found, count(x.shape(), dims) as f64)
}

impl Tensor {
    /// Sums all elements, to a tensor without dimensions.
    ///
    /// # Errors
    ///
    /// As [`sum`](crate::functional::sum).
    #[track_caller]
    pub fn sum_all(&self) -> Result<Tensor> {
        sum(self, (), false)
    }

    /// Computes the mean of all elements, as a tensor without dimensions.
    ///
    /// # Errors
    ///
    /// The type is not a float.
    #[track_caller]
    pub fn mean_all(&self) -> Result<Tensor> {
        mean(self, (), false)
    }
}

fn count(shape: &[usize], dims: &[usize]) -> usize {
    dims.iter().map(|&dim| shape[dim]).product()
}

/// Returns whether any element of a mask is true.
pub(super) fn has_any(x: &Tensor) -> Result<bool> {
    let dims: Vec<usize> = (0..x.rank()).collect();
    Ok(any(x, &dims, false)?.to_bools()? == [true])
}

/// Counts the nonzero elements of a tensor of floats over `dims`, which stay. The number is rounded to
/// its type.
#[track_caller]
fn nonzero(x: &Tensor, dims: &[usize]) -> Result<Tensor> {
    untracked(&Norm { x: x.value().clone(), dims: dims.to_vec(), p: 0.0 })
}

/// Counts elements that satisfy `element` against 0, then compares the count with 0 using `number`.
#[track_caller]
fn count_of(
    element: CompareKind,
    x: &Tensor,
    dims: &[usize],
    number: CompareKind,
    keepdim: bool,
) -> Result<Tensor> {
    let mask = run(&Cast { x: compare(element, x, 0.0)?.into(), to: DType::F32 })?;
    let counts = untracked(&Reduce { kind: ReduceKind::Sum, x: mask, dims: dims.to_vec() })?;
    compare(number, &with_keepdim(counts, dims, keepdim)?, 0.0)
}

#[track_caller]
fn extreme(kind: ReduceKind, x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    if let Some(x) = lifted_over(x, dims)? {
        return extreme(kind, &x, dims, false);
    }
    let value = run(&Reduce { kind, x: x.value().clone(), dims: dims.to_vec() })?;
    let (saved, result, list) = (x.detach(), Tensor::from(&value), dims.to_vec());
    let value = Tensor::computed(value, &[x], move |grad| {
        Ok(vec![Some(shared(grad, &equal(&saved, &result)?, &list)?)])
    });
    with_keepdim(value, dims, keepdim)
}

/// Splits the gradient evenly among the elements for which the mask is true.
pub(super) fn shared(grad: &Tensor, mask: &Tensor, dims: &[usize]) -> Result<Tensor> {
    let mask = mask_like(mask, grad)?;
    mul(&mask, &div(grad, &sum(&mask, dims, true)?)?)
}

#[track_caller]
fn extreme_along(
    kind: ArgReduceKind,
    x: &Tensor,
    dim: usize,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    if let Some(x) = lifted(x, dim)? {
        return lowered(extreme_along(kind, &x, 0, true)?);
    }
    let indices = untracked(&ArgReduce { kind, x: x.value().clone(), dim })?;
    let value = gather(&x.detach(), dim, &indices)?.value().clone();
    pair_with_keepdim(selected(x, dim, value, &indices), indices, dim, keepdim)
}

#[track_caller]
fn arg_extreme(
    kind: ArgReduceKind,
    x: &Tensor,
    dim: Option<usize>,
    keepdim: bool,
) -> Result<Tensor> {
    let Some(dim) = dim else {
        let flat = x.reshape([x.numel()])?;
        let index = untracked(&ArgReduce { kind, x: flat.into(), dim: 0 })?;
        return index.reshape(vec![1; if keepdim { x.rank() } else { 0 }]);
    };
    if let Some(x) = lifted(x, dim)? {
        return arg_extreme(kind, &x, Some(0), false);
    }
    let indices = untracked(&ArgReduce { kind, x: x.value().clone(), dim })?;
    if keepdim { Ok(indices) } else { indices.squeeze(dim) }
}

/// Returns, for each element, the product of the others over `dims`: of those before times those
/// after.
fn products_of_others(x: &Tensor, dims: &[usize]) -> Result<Tensor> {
    let kept = (0..x.shape().len()).filter(|dim| !dims.contains(dim));
    let order: Vec<usize> = kept.chain(dims.iter().copied()).collect();
    let moved = permute(x, &order)?;
    let n: usize = dims.iter().map(|&dim| x.shape()[dim]).product();
    let lines = reshape(&moved, [x.numel() / n.max(1), n])?;
    let one = Tensor::ones(&[], x.dtype())?.to(x.device())?;
    let one = one.expand(&[lines.shape()[0], 1])?;
    let before =
        |x: &Tensor| cumprod(&cat(&[one.clone(), narrow(x, 1, 0, n.saturating_sub(1))?], 1)?, 1);
    let index: Vec<i64> = (0..n as i64).rev().collect();
    let index = Tensor::from_slice(&index, &[n])?.to(x.device())?;
    let backwards = |x: &Tensor| index_select(x, 1, &index);
    let products = mul(&before(&lines)?, &backwards(&before(&backwards(&lines)?)?)?)?;
    let mut inverse = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        inverse[from] = to;
    }
    permute(&reshape(&products, moved.shape())?, &inverse)
}
