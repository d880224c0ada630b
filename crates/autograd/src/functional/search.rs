//! Searches in sorted tensors and sets.

use samebits_macros::named;
use samebits_tensor_core::layout::broadcast;
use samebits_tensor_core::ops::CompareKind;
use samebits_tensor_core::{DType, Error, Result};

use super::broadcast::expand;
use super::elementwise::{affine, clamp, compare, relation, where_};
use super::index::from_start;
use super::shape::reshape;
use super::{gather, isnan, logical_and, logical_not, logical_or, sort, to_dtype};
use crate::Tensor;
use crate::dims::Dim;

/// Returns, for each of `values`, its insertion position in a sorted row: the number of elements
/// that are less, or with `right` not greater.
///
/// NaN counts as greater than every number and equal to itself, as in [`sort`]: it belongs at the
/// end of a row, and numbers are inserted before it. (PyTorch's bisection can fail at a NaN.)
///
/// # Shapes
///
/// `sorted` is `[n]`, or has the shape of `values` except for the last dimension. The result is i64
/// with the shape of `values`.
///
/// # Errors
///
/// The shapes do not match, or the types differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let (sorted, values) = (Tensor::new([1.0f32, 3.0, 5.0])?, Tensor::new([3.0f32, 6.0])?);
/// assert_eq!(functional::searchsorted(&sorted, &values, false)?.to_vec::<i64>()?, [1, 3]);
/// assert_eq!(functional::searchsorted(&sorted, &values, true)?.to_vec::<i64>()?, [2, 3]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.searchsorted`.
#[named]
#[track_caller]
pub fn searchsorted(sorted: &Tensor, values: &Tensor, right: bool) -> Result<Tensor> {
    let rows = match (sorted.shape(), values.shape()) {
        ([_], []) => {
            return reshape(&searchsorted(sorted, &reshape(values, [1])?, right)?, ());
        }
        (&[n], [outer @ .., _]) => expand(&sorted.detach(), &[outer, &[n]].concat())?,
        ([rows @ .., _], [outer @ .., _]) if rows == outer => sorted.detach(),
        (sorted, values) => {
            let message = format!(
                "a sorted tensor of shape {sorted:?} does not match values of shape {values:?}"
            );
            return Err(Error::invalid("searchsorted", message));
        }
    };
    let (last, values) = (rows.rank() - 1, values.detach());
    let n = rows.shape()[last];
    // The order of `sort`: numbers, then NaN.
    let nan = isnan(&values)?;
    let before = |found: &Tensor| match right {
        true => logical_or(&nan, &relation(CompareKind::Le, found, &values)?),
        false => {
            let number = logical_not(&isnan(found)?)?;
            logical_or(&relation(CompareKind::Lt, found, &values)?, &logical_and(&nan, &number)?)
        }
    };
    // Bisection. The counts are f64, which every device can add.
    let mut count = Tensor::zeros(values.shape(), DType::F64)?.to(values.device())?;
    let mut step = (n + 1).next_power_of_two() / 2;
    while step > 0 {
        let more = affine(&count, 1.0, step as f64)?;
        let place = clamp(&affine(&more, 1.0, -1.0)?, None, Some((n - 1) as f64))?;
        let found = gather(&rows, last, &to_dtype(&place, DType::I64)?)?;
        let before = logical_and(&before(&found)?, &compare(CompareKind::Le, &more, n as f64)?)?;
        count = where_(&before, &more, &count)?;
        step /= 2;
    }
    to_dtype(&count, DType::I64)
}

/// Returns, for each element, its insertion position among the boundaries: [`searchsorted`] with
/// the arguments exchanged.
///
/// # Errors
///
/// As [`searchsorted`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let boundaries = Tensor::new([1.0f32, 3.0, 5.0])?;
/// let x = Tensor::new([[0.0f32, 3.0, 9.0]])?;
/// assert_eq!(x.bucketize(&boundaries, false)?.to_vec::<i64>()?, [0, 1, 3]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.bucketize`.
#[named]
#[track_caller]
pub fn bucketize(x: &Tensor, boundaries: &Tensor, right: bool) -> Result<Tensor> {
    if boundaries.rank() != 1 {
        let message = format!("expected boundaries [n], got shape {:?}", boundaries.shape());
        return Err(Error::invalid("bucketize", message));
    }
    searchsorted(boundaries, x, right)
}

/// Tests elementwise if `x` is among `elements`. NaN never is.
///
/// # Errors
///
/// The types differ, or are not f32, f64 or i64.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1, 2, 3])?;
/// assert_eq!(x.isin(&Tensor::new([3, 7, 1])?)?.to_bools()?, [true, false, true]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.isin`.
#[named]
#[track_caller]
pub fn isin(x: &Tensor, elements: &Tensor) -> Result<Tensor> {
    let (sorted, _) = sort(&reshape(&elements.detach(), [-1])?, 0, false)?;
    let flat = reshape(&x.detach(), [x.numel()])?;
    if sorted.numel() == 0 {
        return to_dtype(&super::zeros_like(&x.detach())?, DType::Bool);
    }
    let place = to_dtype(&searchsorted(&sorted, &flat, false)?, DType::F64)?;
    let place = clamp(&place, None, Some((sorted.numel() - 1) as f64))?;
    let found = gather(&sorted, 0, &to_dtype(&place, DType::I64)?)?;
    reshape(&relation(CompareKind::Eq, &found, &flat)?, x.shape())
}

/// Gathers elements along `dim` at the positions in `index`: [`gather`] after broadcasting both
/// along the other dimensions. Negative indices count from the end.
///
/// # Errors
///
/// The ranks differ, the other dimensions cannot be broadcast together, or an index is out of range.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[3.0f32, 1.0], [2.0, 4.0]])?;
/// let order = x.argsort(1, false)?;
/// assert_eq!(x.take_along_dim(&order, 1)?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.take_along_dim`.
#[named]
#[track_caller]
pub fn take_along_dim(x: &Tensor, index: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let op = "take_along_dim";
    let dim = dim.dim(op, x.rank())?;
    let size = x.value().size(op, dim)?;
    if x.rank() != index.rank() {
        let (x, index) = (x.shape(), index.shape());
        let message = format!("an index of shape {index:?} does not match a tensor of shape {x:?}");
        return Err(Error::invalid(op, message));
    }
    let along = |shape: &[usize], size: usize| -> Vec<usize> {
        shape.iter().enumerate().map(|(d, &own)| if d == dim { size } else { own }).collect()
    };
    let others = broadcast(op, &along(x.shape(), 1), &along(index.shape(), 1))?;
    let x = expand(x, &along(&others, size))?;
    let index = from_start(index, size)?;
    gather(&x, dim, &expand(&index, &along(&others, index.shape()[dim]))?)
}
