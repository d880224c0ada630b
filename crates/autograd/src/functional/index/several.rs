//! Indexing by several tensors.

use samebits_macros::named;
use samebits_tensor_core::ops::{Index, IndexPut, IndexPutAdd, indexed_shape};
use samebits_tensor_core::{DType, Error, Result, Tensor as Value};

use super::{masked, positions};
use crate::functional::broadcast::sum_to;
use crate::functional::elementwise::{equal, scalar_like, wanted};
use crate::functional::{expand, permute, reshape, zeros_for};
use crate::half::{in_f32, widen};
use crate::{Tensor, run, untracked};

/// An index of [`index`] and [`index_put`] for one dimension: a tensor of indices, or `None` for
/// the whole dimension.
pub trait IndexTensor {
    /// Returns the indices, or `None` for the whole dimension.
    fn tensor(&self) -> Option<&Tensor>;
}

impl IndexTensor for Tensor {
    fn tensor(&self) -> Option<&Tensor> {
        Some(self)
    }
}

impl<I: IndexTensor + ?Sized> IndexTensor for &I {
    fn tensor(&self) -> Option<&Tensor> {
        (**self).tensor()
    }
}

impl<I: IndexTensor> IndexTensor for Option<I> {
    fn tensor(&self) -> Option<&Tensor> {
        self.as_ref()?.tensor()
    }
}

/// Returns the slices of `x` at several index tensors: `x[i0, i1, ..]`. `None` takes a whole
/// dimension, as in `x[:, i, j]`.
///
/// # Shapes
///
/// The indices broadcast together. Their shape replaces the dimensions that they index if these are
/// adjacent, else it comes first; the other dimensions of `x` keep their order. Negative indices
/// count from the end.
///
/// # Errors
///
/// There is no index or more indices than dimensions, they cannot be broadcast together, or one is
/// out of range.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// let rows = Tensor::from_slice(&[0i64, 1, -1], &[3])?;
/// let columns = Tensor::from_slice(&[1i64], &[1])?;
/// let y = functional::index(&x, &[rows, columns])?;
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0, 4.0]);
///
/// // `z[:, i, j]`
/// let z = Tensor::new([[[1.0f32, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])?;
/// let (i, j) = (Tensor::new([1, 0])?, Tensor::new([0, 1])?);
/// let y = functional::index(&z, &[None, Some(&i), Some(&j)])?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 2.0, 7.0, 6.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// Indexing of a `torch.Tensor` by tensors.
#[doc(alias = "getitem")]
#[named]
#[track_caller]
pub fn index(x: &Tensor, indices: &[impl IndexTensor]) -> Result<Tensor> {
    let Places { indices, order, at } = Places::new("index", x, indices)?;
    let Some(order) = order else { return index_first(x, &indices) };
    let y = index_first(&permute(x, &order)?, &indices)?;
    let spread = y.rank() + indices.len() - x.rank();
    permute(&y, placed(spread, at, y.rank()))
}

/// Computes [`index`] for the first dimensions.
#[track_caller]
fn index_first(x: &Tensor, indices: &[Tensor]) -> Result<Tensor> {
    let value = run(&Index { x: x.value().clone(), indices: values(indices) })?;
    let (zeros, indices) = (zeros_for(x), indices.to_vec());
    Ok(Tensor::computed(value, &[x], move |grad| {
        let of = |grad: &Tensor| put_first(&widen(&zeros()?)?, &indices, grad, true);
        Ok(vec![Some(in_f32(grad, of)?)])
    }))
}

/// Assigns `source` to the slices at several index tensors, or adds them with `accumulate`; see
/// [`index`].
///
/// # Shapes
///
/// `source` broadcasts to the shape that [`index`] returns.
///
/// # Determinism
///
/// Portable. Sums are exact and rounded once. If several values are assigned to one slice, the last
/// one is kept and receives the gradient.
///
/// # Errors
///
/// As [`index`], or the values cannot be broadcast.
///
/// # References
///
/// `torch.index_put`.
#[named]
#[track_caller]
pub fn index_put(
    input: &Tensor,
    indices: &[impl IndexTensor],
    source: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    let Places { indices, order, at } = Places::new("index_put", input, indices)?;
    let Some(order) = order else { return put_first(input, &indices, source, accumulate) };
    let x = permute(input, &order)?;
    let shape = indexed_shape("index_put", x.value(), &values(&indices))?;
    let placed = placed(shape.len() + indices.len() - x.rank(), at, shape.len());
    let outer: Vec<usize> = placed.iter().map(|&dim| shape[dim]).collect();
    let source = permute(&expand(source, &outer)?, inverse(&placed))?;
    permute(&put_first(&x, &indices, &source, accumulate)?, inverse(&order))
}

/// Computes [`index_put`] for the first dimensions.
#[track_caller]
fn put_first(
    input: &Tensor,
    indices: &[Tensor],
    source: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    let (x, v, list) = (input.value().clone(), source.value().clone(), values(indices));
    let value = if accumulate {
        run(&IndexPutAdd { input: x, indices: list, values: v })?
    } else {
        run(&IndexPut { input: x, indices: list, values: v })?
    };
    let (x, v, indices) = (input.clone(), source.clone(), indices.to_vec());
    Ok(Tensor::computed(value, &[input, source], move |grad| {
        Ok(vec![
            wanted(&x, || {
                if accumulate {
                    return Ok(grad.clone());
                }
                put_first(grad, &indices, &scalar_like(grad, 0.0)?, false)
            })?,
            wanted(&v, || {
                let mut read = index_first(grad, &indices)?;
                if !accumulate {
                    let won = winners(&grad.shape()[..indices.len()], &indices)?;
                    let rest = grad.shape().len() - indices.len();
                    let shape = [won.shape(), &vec![1; rest]].concat();
                    read = masked(&won.reshape(&shape)?, &read)?;
                }
                sum_to(&read, v.shape())
            })?,
        ])
    }))
}

/// Returns the elements of `x` at `index`, counted in row-major order.
///
/// # Shapes
///
/// The result has the shape of `index`. Negative indices count from the end.
///
/// # Errors
///
/// An index is out of range.
///
/// # References
///
/// `torch.take`.
#[named]
#[track_caller]
pub fn take(x: &Tensor, index: &Tensor) -> Result<Tensor> {
    index_first(&reshape(x, [x.numel()])?, std::slice::from_ref(index))
}

/// Assigns `source` to the elements at `index`, or adds it with `accumulate`; indices count in
/// row-major order.
///
/// # Shapes
///
/// `index` and `source` have the same number of elements. Negative indices count from the end.
///
/// # Determinism
///
/// As [`index_put`].
///
/// # Errors
///
/// The sizes differ, or an index is out of range.
///
/// # References
///
/// `torch.put`.
#[named]
#[track_caller]
pub fn put(input: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    let flat = reshape(input, [input.numel()])?;
    let source = reshape(source, index.shape())?;
    reshape(&put_first(&flat, std::slice::from_ref(index), &source, accumulate)?, input.shape())
}

/// The dimensions that several indices apply to.
struct Places {
    indices: Vec<Tensor>,
    /// All dimensions, indexed ones first; `None` if that is their order already.
    order: Option<Vec<usize>>,
    /// The position of the indices' dimensions in the result.
    at: usize,
}

impl Places {
    fn new(op: &'static str, x: &Tensor, given: &[impl IndexTensor]) -> Result<Places> {
        let (mut indices, mut order, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        if given.len() > x.rank() {
            let message = format!("expected at most {} indices, got {}", x.rank(), given.len());
            return Err(Error::invalid(op, message));
        }
        for dim in 0..x.rank() {
            match given.get(dim).and_then(IndexTensor::tensor) {
                Some(index) => {
                    indices.push(index.clone());
                    order.push(dim);
                }
                None => whole.push(dim),
            }
        }
        let side_by_side = order.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let at = if side_by_side { order.first().copied().unwrap_or(0) } else { 0 };
        let first = order.iter().copied().eq(0..order.len());
        order.append(&mut whole);
        Ok(Places { indices, order: (!first).then_some(order), at })
    }
}

/// Returns the order of `rank` dimensions that moves the first `spread` behind `at` others.
fn placed(spread: usize, at: usize, rank: usize) -> Vec<usize> {
    (spread..spread + at).chain(0..spread).chain(spread + at..rank).collect()
}

/// Returns the order that undoes `order`.
fn inverse(order: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        inverse[from] = to;
    }
    inverse
}

/// Returns the values of tensors.
fn values(tensors: &[Tensor]) -> Vec<Value> {
    tensors.iter().map(|x| x.value().clone()).collect()
}

/// Tests elementwise if each position of the indices is the last one for its slice.
pub(super) fn winners(sizes: &[usize], indices: &[Tensor]) -> Result<Tensor> {
    let first = &indices[0];
    // One element: what no index names is never read.
    let input = Tensor::zeros(&[], DType::I64)?.to(first.device())?.expand(sizes)?;
    let list = values(indices);
    let shape = indexed_shape("index_put", input.value(), &list)?;
    let positions = positions(first, &shape)?;
    let put =
        IndexPut { input: input.into(), indices: list.clone(), values: positions.value().clone() };
    equal(&untracked(&Index { x: run(&put)?, indices: list })?, &positions)
}
