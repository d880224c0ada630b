//! Joining and splitting of tensors.

use std::borrow::Borrow;

use samebits_macros::named;
use samebits_tensor_core::layout::{PerDim, broadcast};
use samebits_tensor_core::ops::PadMode;
use samebits_tensor_core::{Error, Result};

use super::{cat, each, expand, narrow, pad, repeat, reshape, select, stack};
use crate::Tensor;
use crate::dims::Dim;
use crate::memory::room;

/// Joins tensors horizontally: along dimension 1, or vectors along dimension 0.
///
/// # Errors
///
/// The list is empty, or the tensors do not match.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let column = Tensor::new([[1.0f32], [2.0]])?;
/// let y = functional::hstack(&[column.clone(), column])?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.hstack`.
#[named]
#[track_caller]
pub fn hstack(tensors: &[impl Borrow<Tensor>]) -> Result<Tensor> {
    let tensors = mapped(tensors, |x| if x.rank() == 0 { reshape(x, [1]) } else { Ok(x.clone()) })?;
    cat(&tensors, usize::from(tensors.first().is_some_and(|x| x.rank() > 1)))
}

/// Joins tensors vertically, along dimension 0; a vector counts as a row.
///
/// # Errors
///
/// The list is empty, or the tensors do not match.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let row = Tensor::new([1.0f32, 2.0])?;
/// assert_eq!(functional::vstack(&[row.clone(), row])?.shape(), [2, 2]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.vstack`.
#[named]
#[track_caller]
#[doc(alias = "row_stack")]
pub fn vstack(tensors: &[impl Borrow<Tensor>]) -> Result<Tensor> {
    let rows = mapped(tensors, |x| if x.rank() < 2 { reshape(x, [1, -1]) } else { Ok(x.clone()) })?;
    cat(&rows, 0)
}

/// Joins tensors in depth, along dimension 2; a vector counts as a row and a matrix as a layer.
///
/// # Errors
///
/// The list is empty, or the tensors do not match.
///
/// # References
///
/// `torch.dstack`.
#[named]
#[track_caller]
pub fn dstack(tensors: &[impl Borrow<Tensor>]) -> Result<Tensor> {
    let layers = mapped(tensors, |x| match *x.shape() {
        [] => reshape(x, [1, 1, 1]),
        [n] => reshape(x, [1, n, 1]),
        [m, n] => reshape(x, [m, n, 1]),
        _ => Ok(x.clone()),
    })?;
    cat(&layers, 2)
}

/// Joins matrices along the diagonal of one matrix, with zeros elsewhere; a vector counts as a row.
///
/// # Errors
///
/// The list is empty, a tensor has more than two dimensions, or the types differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let (a, b) = (Tensor::new([[1.0f32]])?, Tensor::new([[2.0f32, 3.0]])?);
/// let y = functional::block_diag(&[a, b])?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 0.0, 0.0, 0.0, 2.0, 3.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.block_diag`.
#[named]
#[track_caller]
pub fn block_diag(tensors: &[impl Borrow<Tensor>]) -> Result<Tensor> {
    let blocks = mapped(tensors, |x| match x.rank() {
        0 | 1 => reshape(x, [1, -1]),
        2 => Ok(x.clone()),
        _ => {
            let message = format!("expected at most 2 dimensions, got shape {:?}", x.shape());
            Err(Error::invalid("block_diag", message))
        }
    })?;
    let width = blocks.iter().try_fold(0i64, |sum, x| sum.checked_add(x.shape()[1] as i64));
    let width =
        width.ok_or_else(|| Error::invalid("block_diag", "the widths do not fit 64 bits"))?;
    let mut before = 0;
    let mut rows = Vec::new();
    for block in &blocks {
        let own = block.shape()[1] as i64;
        rows.push(pad(block, &[before, width - before - own], PadMode::Constant, 0.0)?);
        before += own;
    }
    cat(&rows, 0)
}

/// Returns all slices along `dim`, without that dimension.
///
/// # Errors
///
/// There is no such dimension.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let [a, b] = &Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?.unbind(0)?[..] else { panic!() };
/// assert_eq!((a.to_vec::<f32>()?, b.to_vec::<f32>()?), (vec![1.0, 2.0], vec![3.0, 4.0]));
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.unbind`.
#[named]
#[track_caller]
pub fn unbind(x: &Tensor, dim: impl Dim) -> Result<Vec<Tensor>> {
    let dim = dim.dim("unbind", x.rank())?;
    let count = x.value().size("unbind", dim)?;
    let mut slices = room("unbind", count)?;
    for i in 0..count {
        slices.push(select(x, dim, i as i64)?);
    }
    Ok(slices)
}

/// Splits `x` along `dim` before each index in `ends`; the last part holds the rest.
///
/// # Errors
///
/// There is no such dimension, or the ends do not ascend or exceed it.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let parts = Tensor::arange(5)?.tensor_split(&[1, 3], 0)?;
/// let sizes: Vec<usize> = parts.iter().map(Tensor::numel).collect();
/// assert_eq!(sizes, [1, 2, 2]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.tensor_split` with indices.
#[named]
#[track_caller]
pub fn tensor_split(x: &Tensor, ends: &[usize], dim: impl Dim) -> Result<Vec<Tensor>> {
    let dim = dim.dim("tensor_split", x.rank())?;
    let total = x.value().size("tensor_split", dim)?;
    let bounds: Vec<usize> = [&[0], ends, &[total]].concat();
    if !bounds.is_sorted() {
        let message = format!("expected ascending ends up to {total}, got {ends:?}");
        return Err(Error::invalid("tensor_split", message));
    }
    bounds.windows(2).map(|pair| narrow(x, dim, pair[0], pair[1] - pair[0])).collect()
}

/// Expands tensors to their common broadcast shape.
///
/// # Errors
///
/// The shapes cannot be broadcast together.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let (a, b) = (Tensor::new([[1.0f32], [2.0]])?, Tensor::new([3.0f32, 4.0])?);
/// let both = functional::broadcast_tensors(&[a, b])?;
/// assert_eq!(both[1].to_vec::<f32>()?, [3.0, 4.0, 3.0, 4.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.broadcast_tensors`.
#[named]
#[track_caller]
pub fn broadcast_tensors(tensors: &[impl Borrow<Tensor>]) -> Result<Vec<Tensor>> {
    let shape = each(tensors)
        .iter()
        .try_fold(PerDim::new(), |shape, x| broadcast("broadcast_tensors", &shape, x.shape()))?;
    mapped(tensors, |x| expand(x, &shape))
}

/// Returns all combinations of one element from each vector; the last vector varies fastest.
///
/// # Shapes
///
/// The result is `[product of the lengths, number of vectors]`; a single vector is returned as it
/// is.
///
/// # Errors
///
/// The list is empty, a tensor is not a vector, or the types differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let y = functional::cartesian_prod(&[Tensor::new([1, 2])?, Tensor::new([3, 4])?])?;
/// assert_eq!(y.to_vec::<i64>()?, [1, 3, 1, 4, 2, 3, 2, 4]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.cartesian_prod`.
#[named]
#[track_caller]
pub fn cartesian_prod(vectors: &[impl Borrow<Tensor>]) -> Result<Tensor> {
    let vectors = each(vectors);
    if let Some(x) = vectors.iter().find(|x| x.rank() != 1) {
        let message = format!("expected vectors, got shape {:?}", x.shape());
        return Err(Error::invalid("cartesian_prod", message));
    }
    if let [only] = vectors[..] {
        return Ok(only.clone());
    }
    let grids = super::meshgrid(&vectors)?;
    stack(&mapped(&grids, |x| reshape(x, [-1]))?, 1)
}

/// Repeats `x` as [`repeat`] does; missing leading sizes count as 1.
///
/// # Errors
///
/// The result has too many elements.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{DType, Tensor};
///
/// let x = Tensor::zeros(&[2, 3], DType::F32)?;
/// assert_eq!(x.tile(&[2])?.shape(), [2, 6]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.tile`.
#[named]
#[track_caller]
pub fn tile(x: &Tensor, sizes: &[usize]) -> Result<Tensor> {
    repeat(x, &[&vec![1; x.rank().saturating_sub(sizes.len())], sizes].concat())
}

/// Expands `x` to the shape of `other`.
///
/// # Errors
///
/// A dimension of `x` is neither 1 nor equal to that of `other`.
///
/// # References
///
/// `torch.Tensor.expand_as`.
#[named]
#[track_caller]
pub fn expand_as(x: &Tensor, other: &Tensor) -> Result<Tensor> {
    expand(x, other.shape())
}

/// Applies a function to each tensor.
#[track_caller]
fn mapped(
    tensors: &[impl Borrow<Tensor>],
    f: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    tensors.iter().map(|x| f(x.borrow())).collect()
}
