//! Tensors of positions and class indicators.

use std::borrow::Borrow;

use samebits_macros::named;
use samebits_numerics::memory;
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::{DType, Error, Result};

use super::{each, expand, reshape, scatter_value, unsqueeze, zeros_of};
use crate::Tensor;

/// Returns the one-hot encoding of the classes in `x`, in a new last dimension of `num_classes`.
/// The result is of type `I64`.
///
/// # Errors
///
/// `x` is not of type `I64`, or a class is not in `0..num_classes`.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let classes = Tensor::new([2, 0])?;
/// assert_eq!(classes.one_hot(3)?.to_vec::<i64>()?, [0, 0, 1, 1, 0, 0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.one_hot`.
#[named]
#[track_caller]
pub fn one_hot(x: &Tensor, num_classes: usize) -> Result<Tensor> {
    let mut shape = x.shape().to_vec();
    shape.push(num_classes);
    let zeros = zeros_of(&shape, DType::I64, x)?;
    scatter_value(&zeros, -1, &unsqueeze(&x.detach(), -1)?, 1.0)
}

/// Expands vectors to a common grid: result `i` varies along dimension `i` only.
///
/// # Shapes
///
/// Each tensor has at most one dimension. The shape of all results lists the tensors' sizes in
/// order.
///
/// # Errors
///
/// There is no tensor, one has more than one dimension, or the results have too many elements.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let grids = functional::meshgrid(&[Tensor::new([1, 2])?, Tensor::new([3, 4, 5])?])?;
/// assert_eq!(grids[0].to_vec::<i64>()?, [1, 1, 1, 2, 2, 2]);
/// assert_eq!(grids[1].to_vec::<i64>()?, [3, 4, 5, 3, 4, 5]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.meshgrid` with `indexing="ij"`.
#[named]
pub fn meshgrid(tensors: &[impl Borrow<Tensor>]) -> Result<Vec<Tensor>> {
    let tensors = each(tensors);
    if tensors.is_empty() {
        return Err(Error::invalid("meshgrid", "expected at least one tensor, got none"));
    }
    if let Some(x) = tensors.iter().find(|x| x.rank() > 1) {
        let message = format!("expected at most one dimension, got shape {:?}", x.shape());
        return Err(Error::invalid("meshgrid", message));
    }
    let sizes: Vec<usize> = tensors.iter().map(|x| x.numel()).collect();
    let grid = |(dim, x): (usize, &Tensor)| {
        let mut along = vec![1; sizes.len()];
        along[dim] = sizes[dim];
        expand(&reshape(x, &along)?, &sizes)
    };
    tensors.into_iter().enumerate().map(grid).collect()
}

/// Returns the positions in the lower triangle of a matrix, up to and including diagonal `offset`,
/// in row-major order: first the rows, then the columns. Diagonal 0 is the main one, 1 the one
/// above it.
///
/// # Shapes
///
/// The result is `[2, count]` of type `I64`.
///
/// # Errors
///
/// The matrix or the result has too many elements.
///
/// # Examples
///
/// The pairs of features of a DLRM:
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let places = functional::tril_indices(3, 3, -1)?;
/// assert_eq!(places.to_vec::<i64>()?, [1, 2, 2, 0, 0, 1]);
/// let z = Tensor::arange(9)?.reshape([1, 3, 3])?;
/// let (i, j) = (places.i(0)?, places.i(1)?);
/// assert_eq!(z.index(&[None, Some(&i), Some(&j)])?.to_vec::<i64>()?, [3, 6, 7]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.tril_indices`.
#[named]
pub fn tril_indices(rows: usize, columns: usize, offset: i64) -> Result<Tensor> {
    let (op, end) = ("tril_indices", i128::from(offset) + 1);
    let size = [rows as i128, columns as i128];
    let count = below(size, offset.into());
    let first = (-i128::from(offset)).clamp(0, size[0]);
    triangle(op, size, count, first, |row| (0, (row + end).min(size[1])))
}

/// Returns the positions in the upper triangle of a matrix, from diagonal `offset` on, in row-major
/// order: first the rows, then the columns. Diagonal 0 is the main one, 1 the one above it.
///
/// # Shapes
///
/// The result is `[2, count]` of type `I64`.
///
/// # Errors
///
/// The matrix or the result has too many elements.
///
/// # Examples
///
/// ```
/// use samebits_autograd::functional;
///
/// assert_eq!(functional::triu_indices(2, 3, 1)?.to_vec::<i64>()?, [0, 0, 1, 1, 2, 2]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.triu_indices`.
#[named]
pub fn triu_indices(rows: usize, columns: usize, offset: i64) -> Result<Tensor> {
    let (op, start) = ("triu_indices", i128::from(offset));
    let size = [rows as i128, columns as i128];
    let count = size[0].saturating_mul(size[1]) - below(size, start - 1);
    triangle(op, size, count, 0, |row| ((row + start).max(0), size[1]))
}

/// Counts the positions of a matrix on or below diagonal `offset`.
fn below([rows, columns]: [i128; 2], offset: i128) -> i128 {
    if columns == 0 {
        return 0;
    }
    // Rows before `first` have no position and rows from `full` on have all their columns. In
    // between, each row has one more than the row before.
    let first = (-offset).clamp(0, rows);
    let full = (columns - 1 - offset).clamp(first, rows);
    let partial = full - first;
    let ends = 2 * (first + offset + 1) + partial - 1;
    partial.saturating_mul(ends) / 2 + (rows - full).saturating_mul(columns)
}

/// Returns `count` positions from row `first` on; `bounds` gives the column range of a row.
fn triangle(
    op: &'static str,
    size: [i128; 2],
    count: i128,
    first: i128,
    bounds: impl Fn(i128) -> (i128, i128),
) -> Result<Tensor> {
    let in_range = size.iter().all(|&size| i64::try_from(size).is_ok());
    let count = usize::try_from(count).ok().filter(|_| in_range).ok_or_else(|| {
        Error::invalid(op, format!("a matrix of shape {size:?} has too many elements"))
    })?;
    let all = numel(op, &[2, count])?;
    let mut places = memory::zeroed::<i64>(all).map_err(Error::out_of_host_memory(op))?;
    let (rows, columns) = places.split_at_mut(count);
    let (mut row, mut rest) = (first, rows.iter_mut().zip(columns));
    while rest.len() > 0 {
        let (start, end) = bounds(row);
        for (column, (row_of, column_of)) in (start..end).zip(&mut rest) {
            (*row_of, *column_of) = (row as i64, column as i64);
        }
        row += 1;
    }
    Tensor::from_slice(&places, &[2, count])
}
