mod several;

pub use several::{IndexTensor, index, index_put, put, take};

use samebits_macros::named;
use samebits_tensor_core::layout::broadcast;
use samebits_tensor_core::ops::{
    CompareKind, Gather, IndexAdd, IndexCopy, IndexSelect, Nonzero, Scatter, ScatterAdd,
};
use samebits_tensor_core::{DType, Error, Result, Tensor as Value};

use super::broadcast::expand;
use super::elementwise::{add, compare, equal, scalar_like, scaled, wanted, where_};
use super::scalar::{expect_one_index, lifted, lifted_all};
use super::shape::reshape;
use super::support::masked;
use super::{zeros_for, zeros_of};
use crate::dims::Dim;
use crate::{Tensor, run, untracked};

/// Returns the slices of `x` along `dim` named by `index`.
///
/// # Errors
///
/// An index is out of range.
#[named]
#[track_caller]
pub fn index_select(x: &Tensor, dim: impl Dim, index: &Tensor) -> Result<Tensor> {
    let dim = dim.dim("index_select", x.rank())?;
    if let Some(index) = lifted(index, 0)? {
        return index_select(x, dim, &index);
    }
    if let Some(x) = lifted(x, dim)? {
        return reshape(&index_select(&x, 0, &expect_one_index("index_select", index)?)?, ());
    }
    let value = run(&IndexSelect { x: x.value().clone(), dim, index: index.value().clone() })?;
    let (zeros, index) = (zeros_for(x), index.clone());
    Ok(Tensor::computed(value, &[x], move |grad| {
        Ok(vec![Some(index_add(&zeros()?, dim, &index, grad, 1.0)?)])
    }))
}

/// Adds `alpha · source` to `input`: slice `i` of the source to slice `index[i]`. PyTorch's default
/// `alpha` is 1.
///
/// # Errors
///
/// The shapes do not match, or an index is out of range.
#[named]
#[track_caller]
pub fn index_add(
    input: &Tensor,
    dim: impl Dim,
    index: &Tensor,
    source: &Tensor,
    alpha: f64,
) -> Result<Tensor> {
    let dim = dim.dim("index_add", input.rank())?;
    if let Some(index) = lifted(index, 0)? {
        return index_add(input, dim, &index, source, alpha);
    }
    if let Some(x) = lifted(input, dim)? {
        let source = lifted(source, 0)?.unwrap_or_else(|| source.clone());
        return reshape(&index_add(&x, 0, index, &source, alpha)?, ());
    }
    let value = run(&IndexAdd {
        input: input.value().clone(),
        dim,
        index: index.value().clone(),
        source: source.value().clone(),
        alpha,
    })?;
    let (index, x, s) = (index.clone(), input.clone(), source.clone());
    Ok(Tensor::computed(value, &[input, source], move |grad| {
        Ok(vec![
            wanted(&x, || Ok(grad.clone()))?,
            wanted(&s, || scaled(&index_select(grad, dim, &index)?, alpha))?,
        ])
    }))
}

/// Replaces slices of `input`: slice `index[i]` becomes slice `i` of the source.
///
/// # Determinism
///
/// Portable. If several sources name one slice, the last one is kept and receives the gradient.
///
/// # Errors
///
/// The shapes do not match, or an index is out of range.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?;
/// let source = Tensor::from_slice(&[7.0f32, 8.0], &[2])?;
/// let index = Tensor::from_slice(&[2i64, 0], &[2])?;
/// let y = functional::index_copy(&x, 0, &index, &source)?;
/// assert_eq!(y.to_vec::<f32>()?, [8.0, 2.0, 7.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.index_copy`.
#[named]
#[track_caller]
pub fn index_copy(
    input: &Tensor,
    dim: impl Dim,
    index: &Tensor,
    source: &Tensor,
) -> Result<Tensor> {
    let dim = dim.dim("index_copy", input.rank())?;
    if let Some(index) = lifted(index, 0)? {
        return index_copy(input, dim, &index, source);
    }
    if let Some(x) = lifted(input, dim)? {
        let source = lifted(source, 0)?.unwrap_or_else(|| source.clone());
        return reshape(&index_copy(&x, 0, index, &source)?, ());
    }
    let value = run(&IndexCopy {
        input: input.value().clone(),
        dim,
        index: index.value().clone(),
        source: source.value().clone(),
    })?;
    let (index, x, s) = (index.clone(), input.clone(), source.clone());
    Ok(Tensor::computed(value, &[input, source], move |grad| {
        Ok(vec![
            wanted(&x, || index_fill(grad, dim, &index, 0.0))?,
            wanted(&s, || {
                let mut shape = vec![1; grad.shape().len()];
                shape[dim] = index.numel();
                let size = grad.shape()[dim];
                let won =
                    several::winners(&[size], std::slice::from_ref(&index))?.reshape(&shape)?;
                masked(&won, &index_select(grad, dim, &index)?)
            })?,
        ])
    }))
}

/// Fills the slices of `input` named by `index` with `value`. Negative indices count from the end.
///
/// # Errors
///
/// An index is out of range.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, 2.0, 3.0])?;
/// assert_eq!(x.index_fill(0, &Tensor::new([-1])?, 9.0)?.to_vec::<f32>()?, [1.0, 2.0, 9.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.Tensor.index_fill`.
#[named]
#[track_caller]
pub fn index_fill(input: &Tensor, dim: impl Dim, index: &Tensor, value: f64) -> Result<Tensor> {
    let dim = dim.dim("index_fill", input.rank())?;
    if let Some(x) = lifted(input, dim)? {
        return reshape(&index_fill(&x, 0, index, value)?, ());
    }
    let mut shape = input.shape().to_vec();
    let index = from_start(index, input.value().size("index_fill", dim)?)?;
    shape[dim] = index.numel();
    index_copy(input, dim, &index, &scalar_like(input, value)?.expand(&shape)?)
}

/// Converts negative indices, which count from the end of `size`, to positions from the start.
/// Indices out of range stay, so that the error names them.
pub(super) fn from_start(index: &Tensor, size: usize) -> Result<Tensor> {
    if index.dtype() != DType::I64 {
        return Ok(index.clone());
    }
    let size =
        i64::try_from(size).map_err(|_| Error::invalid("index", format!("a size of {size}")))?;
    let zero = scalar_like(index, 0.0)?;
    let negative = compare(CompareKind::Lt, index, 0.0)?;
    let moved = add(&where_(&negative, index, &zero)?, &Tensor::scalar(size).to(index.device())?)?;
    let counted = compare(CompareKind::Ge, &moved, 0.0)?;
    where_(&negative, &where_(&counted, &moved, index)?, index)
}

/// Gathers elements along `dim`: `out[.., i, ..] = x[.., index[.., i, ..], ..]`.
///
/// # Shapes
///
/// `index` has the rank of `x` and does not exceed its size in any dimension but `dim`. The result
/// has the shape of `index`.
///
/// # Errors
///
/// The shapes do not match, or an index is out of range.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// let index = Tensor::from_slice(&[1i64, 0], &[2, 1])?;
/// let y = functional::gather(&x, 1, &index)?;
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 3.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.gather`.
#[named]
#[track_caller]
pub fn gather(x: &Tensor, dim: impl Dim, index: &Tensor) -> Result<Tensor> {
    let dim = dim.dim("gather", x.rank())?;
    if let Some(x) = lifted(x, dim)? {
        return gather(&x, 0, index);
    }
    if let Some(index) = lifted(index, dim)? {
        return reshape(&gather(x, 0, &index)?, ());
    }
    let value = run(&Gather { x: x.value().clone(), dim, index: index.value().clone() })?;
    let (zeros, index) = (zeros_for(x), index.clone());
    Ok(Tensor::computed(value, &[x], move |grad| {
        Ok(vec![Some(scatter_add(&zeros()?, dim, &index, grad)?)])
    }))
}

/// Replaces elements of `input` along `dim`: element `[.., index[.., i, ..], ..]` becomes
/// `source[.., i, ..]`.
///
/// # Shapes
///
/// `index` has the rank of `input`. It does not exceed the size of `input` in any dimension but
/// `dim`, nor that of `source` in any.
///
/// # Determinism
///
/// Portable. If several sources name one element, the last in row-major order is kept and receives
/// the gradient.
///
/// # Errors
///
/// The shapes do not match, or an index is out of range.
///
/// # References
///
/// `torch.scatter`.
#[named]
#[track_caller]
pub fn scatter(input: &Tensor, dim: impl Dim, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    let dim = dim.dim("scatter", input.rank())?;
    if let Some((x, index, source)) = lifted_all(input, dim, index, source)? {
        return reshape(&scatter(&x, 0, &index, &source)?, input.shape());
    }
    let op = Scatter {
        input: input.value().clone(),
        dim,
        index: index.value().clone(),
        source: source.value().clone(),
    };
    let value = run(&op)?;
    // The source beyond the index is not read, so its gradient is that of a selection.
    let source = &shrink(source, index.shape())?;
    let (index, x, s) = (index.clone(), input.clone(), source.clone());
    Ok(Tensor::computed(value, &[input, source], move |grad| {
        Ok(vec![
            wanted(&x, || scatter_value(grad, dim, &index, 0.0))?,
            wanted(&s, || {
                let kept = last_writers(grad.shape(), dim, &index)?;
                masked(&kept, &gather(grad, dim, &index)?)
            })?,
        ])
    }))
}

/// Adds to elements of `input` along `dim`: `source[.., i, ..]` to element
/// `[.., index[.., i, ..], ..]`.
///
/// # Shapes
///
/// As [`scatter`](super::scatter).
///
/// # Determinism
///
/// Portable: the sum is exact and rounded once.
///
/// # Errors
///
/// The shapes do not match, or an index is out of range.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0], &[2])?;
/// let source = Tensor::from_slice(&[1e30f32, 5.0, -1e30], &[3])?;
/// let index = Tensor::from_slice(&[0i64, 1, 0], &[3])?;
/// let y = functional::scatter_add(&x, 0, &index, &source)?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 7.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.scatter_add`.
#[named]
#[track_caller]
pub fn scatter_add(
    input: &Tensor,
    dim: impl Dim,
    index: &Tensor,
    source: &Tensor,
) -> Result<Tensor> {
    let dim = dim.dim("scatter_add", input.rank())?;
    if let Some((x, index, source)) = lifted_all(input, dim, index, source)? {
        return reshape(&scatter_add(&x, 0, &index, &source)?, input.shape());
    }
    let op = ScatterAdd {
        input: input.value().clone(),
        dim,
        index: index.value().clone(),
        source: source.value().clone(),
    };
    let value = run(&op)?;
    let source = &shrink(source, index.shape())?;
    let (index, x, s) = (index.clone(), input.clone(), source.clone());
    Ok(Tensor::computed(value, &[input, source], move |grad| {
        Ok(vec![wanted(&x, || Ok(grad.clone()))?, wanted(&s, || gather(grad, dim, &index))?])
    }))
}

/// Replaces every element of `input` named by `index` with `value`; see [`scatter`].
///
/// # Errors
///
/// As [`scatter`].
///
/// # References
///
/// `torch.scatter` with a number as the source.
#[named]
#[track_caller]
pub fn scatter_value(input: &Tensor, dim: impl Dim, index: &Tensor, value: f64) -> Result<Tensor> {
    let dim = dim.dim("scatter_value", input.rank())?;
    scatter(input, dim, index, &scalar_like(input, value)?.expand(index.shape())?)
}

/// Returns the elements of `x` for which the mask is true, in row-major order.
///
/// # Shapes
///
/// `x` and `mask` broadcast; the result has one dimension.
///
/// # Errors
///
/// The mask is not of type `Bool`, or the shapes cannot be broadcast together.
///
/// # References
///
/// `torch.masked_select`.
#[named]
#[track_caller]
pub fn masked_select(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let (x, places) = masked_places("masked_select", x, mask)?;
    index_select(&reshape(&x, [x.numel()])?, 0, &places)
}

/// Replaces elements of `x` for which the mask is true with the elements of `source`, in order.
///
/// # Shapes
///
/// `x` and `mask` broadcast; `source` has at least as many elements as the mask has true elements.
///
/// # Errors
///
/// The source is too short, the mask is not of type `Bool`, or the shapes cannot be broadcast
/// together.
///
/// # References
///
/// `torch.masked_scatter`.
#[named]
#[track_caller]
pub fn masked_scatter(x: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    const OP: &str = "masked_scatter";
    let (x, places) = masked_places(OP, x, mask)?;
    let (given, needed) = (source.numel(), places.numel());
    if given < needed {
        return Err(Error::invalid(
            OP,
            format!(
                "the mask has {needed} true elements, but the source has only {given} elements"
            ),
        ));
    }
    let source = shrink(&reshape(source, [given])?, &[needed])?;
    let flat = reshape(&x, [x.numel()])?;
    reshape(&index_copy(&flat, 0, &places, &source)?, x.shape())
}

/// Returns the positions of the nonzero elements, in row-major order.
///
/// # Shapes
///
/// The result is `[count, rank]` of type i64.
///
/// # Errors
///
/// The device has no kernel for it.
///
/// # References
///
/// `torch.nonzero`.
#[named]
#[track_caller]
pub fn nonzero(x: &Tensor) -> Result<Tensor> {
    untracked(&Nonzero { x: x.value().clone() })
}

/// Returns the leading part of every dimension, differentiable.
pub(super) fn shrink(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let mut x = x.clone();
    for (dim, &size) in shape.iter().enumerate() {
        if x.shape()[dim] != size {
            let index = Tensor::arange(size)?.to(x.device())?;
            x = index_select(&x, dim, &index)?;
        }
    }
    Ok(x)
}

/// Tests elementwise if a source of a [`scatter`] into `shape` is the one that is kept: the last in
/// row-major order for its element.
pub(super) fn last_writers(shape: &[usize], dim: usize, index: &Tensor) -> Result<Tensor> {
    let positions = positions(index, index.shape())?;
    let placed = run(&Scatter {
        input: zeros_of(shape, DType::I64, index)?.into(),
        dim,
        index: index.value().clone(),
        source: positions.value().clone(),
    })?;
    let found = untracked(&Gather { x: placed, dim, index: index.value().clone() })?;
    equal(&found, &positions)
}

/// Returns the numbers from 0 on in the given shape, on the device of `like`.
fn positions(like: &Tensor, shape: &[usize]) -> Result<Tensor> {
    Tensor::arange(shape.iter().product())?.reshape(shape)?.to(like.device())
}

/// Returns `x` broadcast with the mask, and the flat positions where the mask is true.
fn masked_places(op: &'static str, x: &Tensor, mask: &Tensor) -> Result<(Tensor, Tensor)> {
    if mask.dtype() != DType::Bool {
        let (expected, got) = (DType::Bool, mask.dtype());
        return Err(Error::DTypeMismatch { op, what: "the mask", expected, got });
    }
    let shape = broadcast(op, x.shape(), mask.shape())?;
    let flat = mask.expand(&shape[..])?.reshape([shape.iter().product::<usize>()])?;
    let places = nonzero(&flat)?;
    Ok((expand(x, &shape)?, places.reshape([places.numel()])?))
}

/// Returns `value`, whose elements were selected along `dim` at `indices`, with its gradient.
pub(super) fn selected(x: &Tensor, dim: usize, value: Value, indices: &Tensor) -> Tensor {
    let (zeros, indices) = (zeros_for(x), indices.clone());
    Tensor::computed(value, &[x], move |grad| {
        Ok(vec![Some(scatter_add(&zeros()?, dim, &indices, grad)?)])
    })
}
