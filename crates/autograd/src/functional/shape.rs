use std::borrow::Borrow;

use samebits_macros::named;
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::ops::Cat;
use samebits_tensor_core::{Error, Result};

use super::each;
use crate::dims::{Dim, Dims, Sizes};
use crate::{Tensor, run};

/// Returns the same elements in another shape. One size may be `-1`: it is inferred from the
/// others.
///
/// # Errors
///
/// The number of elements differs.
#[named]
#[doc(alias = "view")]
pub fn reshape(x: &Tensor, shape: impl Sizes) -> Result<Tensor> {
    let shape = shape.sizes("reshape", x.numel())?;
    let old = x.shape().to_vec();
    Ok(Tensor::computed(x.value().reshape(&shape)?, &[x], move |grad| {
        Ok(vec![Some(reshape(grad, &old)?)])
    }))
}

/// Flattens dimensions `start_dim` to `end_dim`, inclusive, into one. A tensor without dimensions
/// gets one.
///
/// # Errors
///
/// There is no such dimension, or the end comes before the start.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{DType, Tensor};
///
/// let x = Tensor::zeros(&[2, 3, 4, 5], DType::F32)?;
/// assert_eq!(x.flatten(1, -1)?.shape(), [2, 60]);
/// assert_eq!(x.flatten(0, 1)?.shape(), [6, 4, 5]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.flatten`.
#[named]
pub fn flatten(x: &Tensor, start_dim: impl Dim, end_dim: impl Dim) -> Result<Tensor> {
    let (op, shape) = ("flatten", x.shape());
    let (start, end) = (start_dim.dim(op, x.rank())?, end_dim.dim(op, x.rank())?);
    if start > end || end >= x.rank().max(1) {
        let message = format!("cannot flatten dimensions {start} to {end} of shape {shape:?}");
        return Err(Error::invalid(op, message));
    }
    if shape.is_empty() {
        return reshape(x, [1]);
    }
    let flat = numel(op, &shape[start..=end])?;
    reshape(x, [&shape[..start], &[flat], &shape[end + 1..]].concat())
}

/// Splits dimension `dim` into dimensions of `sizes`. One size may be `-1`: it is inferred from the
/// others.
///
/// # Errors
///
/// There is no such dimension, or the product of the sizes differs from its size.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{DType, Tensor};
///
/// let x = Tensor::zeros(&[2, 12], DType::F32)?;
/// assert_eq!(x.unflatten(-1, [3, -1])?.shape(), [2, 3, 4]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.unflatten`.
#[named]
pub fn unflatten(x: &Tensor, dim: impl Dim, sizes: impl Sizes) -> Result<Tensor> {
    let op = "unflatten";
    let dim = dim.dim(op, x.rank())?;
    let size = x.value().size(op, dim)?;
    let sizes = sizes.sizes(op, size)?;
    if numel(op, &sizes)? != size {
        return Err(Error::invalid(
            op,
            format!("sizes {sizes:?} do not multiply to a dimension of {size}"),
        ));
    }
    reshape(x, [&x.shape()[..dim], &sizes, &x.shape()[dim + 1..]].concat())
}

/// Reorders the dimensions.
///
/// # Errors
///
/// `order` is not a permutation of the dimensions.
#[named]
pub fn permute(x: &Tensor, order: impl Dims) -> Result<Tensor> {
    let order = order.dims("permute", x.rank())?;
    let value = x.value().permute(&order)?;
    let mut inverse = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        inverse[from] = to;
    }
    Ok(Tensor::computed(value, &[x], move |grad| Ok(vec![Some(permute(grad, &inverse)?)])))
}

/// Swaps two dimensions.
///
/// # Errors
///
/// There is no such dimension.
#[named]
#[doc(alias = "swapaxes")]
#[doc(alias = "swapdims")]
pub fn transpose(x: &Tensor, a: impl Dim, b: impl Dim) -> Result<Tensor> {
    let (a, b) = (a.dim("transpose", x.rank())?, b.dim("transpose", x.rank())?);
    let value = x.value().transpose(a, b)?;
    Ok(Tensor::computed(value, &[x], move |grad| Ok(vec![Some(transpose(grad, a, b)?)])))
}

/// Inserts a dimension of size 1 before dimension `dim`.
///
/// # Errors
///
/// `dim` exceeds the rank.
#[named]
pub fn unsqueeze(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.dim("unsqueeze", x.rank() + 1)?;
    let shape = x.value().unsqueeze(dim)?.shape().to_vec();
    reshape(x, &shape)
}

/// Removes those of `dims` that have size 1.
///
/// # Errors
///
/// There is no such dimension.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{DType, Tensor};
///
/// let x = Tensor::zeros(&[1, 3, 1], DType::F32)?;
/// assert_eq!(x.squeeze(())?.shape(), [3]);
/// assert_eq!(x.squeeze(-1)?.shape(), [1, 3]);
/// assert_eq!(x.squeeze(1)?.shape(), [1, 3, 1]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
pub fn squeeze(x: &Tensor, dims: impl Dims) -> Result<Tensor> {
    let mut shape: Vec<Option<usize>> = x.shape().iter().copied().map(Some).collect();
    for dim in dims.dims("squeeze", x.rank())? {
        if x.value().size("squeeze", dim)? == 1 {
            shape[dim] = None;
        }
    }
    reshape(x, shape.into_iter().flatten().collect::<Vec<usize>>())
}

/// Concatenates tensors along `dim`. The list owns or borrows them.
///
/// # Shapes
///
/// The tensors have the same shape except for the size of `dim`.
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
/// let (a, b) = (Tensor::new([1.0f32])?, Tensor::new([2.0f32, 3.0])?);
/// assert_eq!(functional::cat(&[&a, &b, &a], 0)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 1.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.cat`.
#[named]
#[track_caller]
#[doc(alias = "concat")]
#[doc(alias = "concatenate")]
pub fn cat(inputs: &[impl Borrow<Tensor>], dim: impl Dim) -> Result<Tensor> {
    let inputs = each(inputs);
    let dim = dim.dim("cat", inputs.first().map_or(0, |x| x.rank()))?;
    let op = Cat { inputs: inputs.iter().map(|x| x.value().clone()).collect(), dim };
    let value = run(&op)?;
    let sizes: Vec<usize> = inputs.iter().map(|x| x.shape()[dim]).collect();
    let wanted: Vec<bool> = inputs.iter().map(|x| x.requires_grad()).collect();
    Ok(Tensor::computed(value, &inputs, move |grad| {
        let mut start = 0;
        let mut grads = Vec::new();
        for (&size, &wanted) in sizes.iter().zip(&wanted) {
            grads.push(wanted.then(|| narrow(grad, dim, start, size)).transpose()?);
            start += size;
        }
        Ok(grads)
    }))
}

/// Stacks tensors of one shape along a new dimension. The list owns or borrows them.
///
/// # Errors
///
/// The list is empty, the tensors do not match, or `dim` exceeds their rank.
#[named]
#[track_caller]
pub fn stack(inputs: &[impl Borrow<Tensor>], dim: impl Dim) -> Result<Tensor> {
    let inputs = each(inputs);
    let dim = dim.dim("stack", inputs.first().map_or(0, |x| x.rank()) + 1)?;
    let unsqueezed = inputs.iter().map(|x| unsqueeze(x, dim)).collect::<Result<Vec<Tensor>>>()?;
    cat(&unsqueezed, dim)
}

/// Returns the slices `start .. start + length` along `dim`.
///
/// # Errors
///
/// There is no such dimension, or it is too short.
#[named]
#[track_caller]
pub fn narrow(x: &Tensor, dim: impl Dim, start: usize, length: usize) -> Result<Tensor> {
    let dim = dim.dim("narrow", x.rank())?;
    Ok(Tensor::part_of(x.value().narrow(dim, start, length)?, x, dim, start))
}

/// Splits `x` along `dim` into parts of the given sizes.
///
/// # Errors
///
/// The sizes do not add up to the size of the dimension.
#[named]
#[track_caller]
pub fn split(x: &Tensor, sizes: &[usize], dim: impl Dim) -> Result<Vec<Tensor>> {
    let dim = dim.dim("split", x.rank())?;
    let total = x.value().size("split", dim)?;
    if sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size)) != Some(total) {
        return Err(Error::invalid(
            "split",
            format!("sizes {sizes:?} do not add up to a dimension of {total}"),
        ));
    }
    let mut start = 0;
    let part = |&size: &usize| {
        let part = narrow(x, dim, start, size);
        start += size;
        part
    };
    sizes.iter().map(part).collect()
}
