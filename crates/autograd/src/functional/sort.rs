use samebits_macros::named;
use samebits_tensor_core::ops::{CompareKind, Kthvalue, Median, Sort, Topk, Unique, UniqueDim};
use samebits_tensor_core::{Result, Tensor as Value};

use super::broadcast::{expand, sum};
use super::constant;
use super::elementwise::{div, equal, mul, relation};
use super::index::selected;
use super::scalar::{lifted, lowered};
use super::shape::{reshape, squeeze};
use super::support::{mask_like, pair_with_keepdim};
use crate::dims::Dim;
use crate::{Tensor, run};

/// Sorts `x` along `dim`; also returns the original index of each element.
///
/// # Determinism
///
/// Portable: equal elements keep their order, also in descending order; NaN counts as the largest.
///
/// # Errors
///
/// There is no such dimension.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[2.0f32, 1.0, 2.0], &[3])?;
/// let (values, indices) = functional::sort(&x, 0, true)?;
/// assert_eq!(values.to_vec::<f32>()?, [2.0, 2.0, 1.0]);
/// assert_eq!(indices.to_vec::<i64>()?, [0, 2, 1]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.sort` with `stable=True`.
#[named]
#[track_caller]
pub fn sort(x: &Tensor, dim: impl Dim, descending: bool) -> Result<(Tensor, Tensor)> {
    let dim = dim.dim("sort", x.rank())?;
    if let Some(x) = lifted(x, dim)? {
        return lowered(sort(&x, 0, descending)?);
    }
    let (value, indices) = run(&Sort { x: x.value().clone(), dim, descending })?;
    let indices = Tensor::from(indices);
    Ok((selected(x, dim, value, &indices), indices))
}

/// Returns the indices that sort `x` along `dim`.
///
/// # Determinism
///
/// As [`sort`].
///
/// # Errors
///
/// There is no such dimension.
///
/// # References
///
/// `torch.argsort` with `stable=True`.
#[named]
#[track_caller]
pub fn argsort(x: &Tensor, dim: impl Dim, descending: bool) -> Result<Tensor> {
    let dim = dim.dim("argsort", x.rank())?;
    if let Some(x) = lifted(x, dim)? {
        return argsort(&x, 0, descending)?.reshape(());
    }
    Ok(run(&Sort { x: x.value().clone(), dim, descending })?.1.into())
}

/// Returns the `k` largest (or smallest) elements along `dim`, in order, and the index of each.
///
/// # Determinism
///
/// Portable: the first `k` of [`sort`].
///
/// # Errors
///
/// There is no such dimension, or `k` exceeds it.
///
/// # References
///
/// `torch.topk`.
#[named]
#[track_caller]
pub fn topk(x: &Tensor, k: usize, dim: impl Dim, largest: bool) -> Result<(Tensor, Tensor)> {
    let dim = dim.dim("topk", x.rank())?;
    if let Some(x) = lifted(x, dim)?.filter(|_| k == 1) {
        return lowered(topk(&x, 1, 0, largest)?);
    }
    let (value, indices) = run(&Topk { x: x.value().clone(), k, dim, largest })?;
    let indices = Tensor::from(indices);
    Ok((selected(x, dim, value, &indices), indices))
}

/// Returns the `k`-th smallest element along `dim`, counted from 1, and its index.
///
/// # Determinism
///
/// Portable: element `k - 1` of [`sort`].
///
/// # Errors
///
/// There is no such dimension, or `k` is not from 1 to its size.
///
/// # References
///
/// `torch.kthvalue`.
#[named]
#[track_caller]
pub fn kthvalue(x: &Tensor, k: usize, dim: impl Dim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let dim = dim.dim("kthvalue", x.rank())?;
    if let Some(x) = lifted(x, dim)? {
        return lowered(kthvalue(&x, k, 0, true)?);
    }
    let (value, indices) = run(&Kthvalue { x: x.value().clone(), k, dim })?;
    let indices = Tensor::from(indices);
    pair_with_keepdim(selected(x, dim, value, &indices), indices, dim, keepdim)
}

/// Returns the median of all elements: the lower of the two middle elements. NaN if any element is
/// NaN.
///
/// # Determinism
///
/// Portable. The gradient is split evenly among equal elements.
///
/// # Errors
///
/// There are no elements.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[4.0f32, 1.0, 3.0, 2.0], &[2, 2])?;
/// assert_eq!(functional::median(&x)?.item::<f32>()?, 2.0);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.median` without a dimension.
#[named]
#[track_caller]
pub fn median(x: &Tensor) -> Result<Tensor> {
    median_of_all(x, false)
}

/// Returns the median of all elements that are not NaN: the lower of the two middle elements. NaN
/// if all are NaN.
///
/// # Determinism
///
/// As [`median`].
///
/// # Errors
///
/// There are no elements.
///
/// # References
///
/// `torch.nanmedian` without a dimension.
#[named]
#[track_caller]
pub fn nanmedian(x: &Tensor) -> Result<Tensor> {
    median_of_all(x, true)
}

/// Returns the median along `dim` and its index: the lower of the two middle elements, and the
/// first of equal ones. If there is a NaN, the first NaN.
///
/// # Determinism
///
/// Portable.
///
/// # Errors
///
/// There is no such dimension, or it is empty.
///
/// # References
///
/// `torch.median` with a dimension.
#[named]
#[track_caller]
pub fn median_dim(x: &Tensor, dim: impl Dim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let dim = dim.dim("median_dim", x.rank())?;
    median_along(x, dim, keepdim, false)
}

/// Returns the median along `dim` of the elements that are not NaN, and its index; see
/// [`median_dim`].
///
/// # Errors
///
/// As [`median_dim`].
///
/// # References
///
/// `torch.nanmedian` with a dimension.
#[named]
#[track_caller]
pub fn nanmedian_dim(x: &Tensor, dim: impl Dim, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let dim = dim.dim("nanmedian_dim", x.rank())?;
    median_along(x, dim, keepdim, true)
}

/// Returns the distinct elements of `x` in ascending order; for each element of `x`, its index
/// among them; and how often each occurs.
///
/// # Determinism
///
/// Portable: of equal elements the first is kept; −0 equals +0, and every NaN is distinct.
///
/// # Errors
///
/// The type has no order.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[3i64, 1, 3], &[3])?;
/// let (values, inverse, counts) = functional::unique(&x)?;
/// assert_eq!(values.to_vec::<i64>()?, [1, 3]);
/// assert_eq!(inverse.to_vec::<i64>()?, [1, 0, 1]);
/// assert_eq!(counts.to_vec::<i64>()?, [1, 2]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.unique` with `return_inverse` and `return_counts`.
#[named]
#[track_caller]
pub fn unique(x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    distinct("unique", x, run(&Unique { x: x.value().clone(), consecutive: false })?)
}

/// Returns the elements of `x` that differ from the one before; for each element of `x`, its index
/// among them; and the length of each run.
///
/// # Determinism
///
/// As [`unique`].
///
/// # Errors
///
/// The type has no order.
///
/// # References
///
/// `torch.unique_consecutive` with `return_inverse` and `return_counts`.
#[named]
#[track_caller]
pub fn unique_consecutive(x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    distinct("unique_consecutive", x, run(&Unique { x: x.value().clone(), consecutive: true })?)
}

/// Returns the distinct slices of `x` along `dim` in ascending order; for each slice of `x`, its
/// index among them; and how often each occurs. Slices are ordered by their first differing
/// elements in row-major order.
///
/// # Shapes
///
/// The distinct slices have the shape of `x`, except for their number along `dim`.
///
/// # Determinism
///
/// Portable: of equal slices the first is kept; −0 equals +0, and a slice with a NaN is distinct.
///
/// # Errors
///
/// There is no such dimension, another dimension is empty, or the type has no order.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[3i64, 1, 2, 9, 3, 1], &[3, 2])?;
/// let (rows, inverse, counts) = functional::unique_dim(&x, 0)?;
/// assert_eq!(rows.to_vec::<i64>()?, [2, 9, 3, 1]);
/// assert_eq!(inverse.to_vec::<i64>()?, [1, 0, 1]);
/// assert_eq!(counts.to_vec::<i64>()?, [1, 2]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.unique` with `dim`, `return_inverse` and `return_counts`.
#[named]
#[track_caller]
pub fn unique_dim(x: &Tensor, dim: impl Dim) -> Result<(Tensor, Tensor, Tensor)> {
    let dim = dim.dim("unique_dim", x.rank())?;
    distinct("unique_dim", x, run(&UniqueDim { x: x.value().clone(), dim, consecutive: false })?)
}

/// Returns the slices of `x` along `dim` that differ from the one before; for each slice of `x`,
/// its index among them; and the length of each run.
///
/// # Shapes
///
/// As [`unique_dim`].
///
/// # Determinism
///
/// As [`unique_dim`].
///
/// # Errors
///
/// As [`unique_dim`].
///
/// # References
///
/// `torch.unique_consecutive` with `dim`, `return_inverse` and `return_counts`.
#[named]
#[track_caller]
pub fn unique_consecutive_dim(x: &Tensor, dim: impl Dim) -> Result<(Tensor, Tensor, Tensor)> {
    let dim = dim.dim("unique_consecutive_dim", x.rank())?;
    let found = run(&UniqueDim { x: x.value().clone(), dim, consecutive: true })?;
    distinct("unique_consecutive_dim", x, found)
}

/// Returns the distinct elements of `x`, which have no gradient, with their indices and counts.
fn distinct(
    op: &'static str,
    x: &Tensor,
    (values, places, counts): (Value, Value, Value),
) -> Result<(Tensor, Tensor, Tensor)> {
    Ok((constant(op, values, &[x]), places.into(), counts.into()))
}

#[track_caller]
fn median_along(
    x: &Tensor,
    dim: usize,
    keepdim: bool,
    ignore_nan: bool,
) -> Result<(Tensor, Tensor)> {
    if let Some(x) = lifted(x, dim)? {
        return lowered(median_along(&x, 0, true, ignore_nan)?);
    }
    let (value, indices) = run(&Median { x: x.value().clone(), dim, ignore_nan })?;
    let indices = Tensor::from(indices);
    pair_with_keepdim(selected(x, dim, value, &indices), indices, dim, keepdim)
}

#[track_caller]
fn median_of_all(x: &Tensor, ignore_nan: bool) -> Result<Tensor> {
    let flat = reshape(x, [x.numel()])?;
    let (value, _) = run(&Median { x: flat.value().clone(), dim: 0, ignore_nan })?;
    let (saved, result) = (flat.detach(), Tensor::from(&value));
    let value = Tensor::computed(value, &[&flat], move |grad| {
        // Nothing equals NaN: if the median is NaN, the NaNs share the gradient.
        let nan = |x: &Tensor| relation(CompareKind::Ne, x, x);
        let same = mask_like(&equal(&saved, &result)?, grad)?;
        let nans = mask_like(&nan(&saved)?, grad)?;
        let mask = super::where_(&nan(&result)?, &nans, &same)?;
        let share = div(grad, &sum(&mask, [0], true)?)?;
        Ok(vec![Some(mul(&expand(&share, saved.shape())?, &mask)?)])
    });
    squeeze(&value, [0])
}
