//! Broadcasting and its gradient, the sum.

use samebits_macros::named;
use samebits_tensor_core::ops::{Cast, Reduce, ReduceKind};
use samebits_tensor_core::{DType, Result};

use super::scalar::lifted_over;
use super::shape::{reshape, squeeze};
use crate::dims::{Dims, over};
use crate::{Tensor, run, untracked};

/// Repeats dimensions of size 1 (and new leading ones) up to `shape`.
///
/// # Errors
///
/// A dimension is neither 1 nor already right.
#[named]
pub fn expand(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let old = x.shape().to_vec();
    Ok(Tensor::computed(x.value().expand(shape)?, &[x], move |grad| {
        Ok(vec![Some(sum_to(grad, &old)?)])
    }))
}

/// Sums what broadcasting repeated, so that the shape becomes `shape` again.
pub(super) fn sum_to(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if x.shape() == shape {
        return Ok(x.clone());
    }
    let new = x.shape().len() - shape.len();
    let dims: Vec<usize> = (0..x.shape().len())
        .filter(|&dim| dim < new || (shape[dim - new] == 1 && x.shape()[dim] != 1))
        .collect();
    reshape(&sum(x, &dims, true)?, shape)
}

/// The sum over `dims`, which stay as size 1 if `keepdim`. Integers and truth values are added as
/// i64, which wraps around.
///
/// # Errors
///
/// `dims` does not ascend, or names a dimension that does not exist.
#[named]
#[track_caller]
pub fn sum(x: &Tensor, dims: impl Dims, keepdim: bool) -> Result<Tensor> {
    let dims = &over("sum", x, dims)?;
    if let Some(x) = lifted_over(x, dims)? {
        return sum(&x, dims, false);
    }
    if let Some(x) = integers(x)? {
        return sum(&x, dims, keepdim);
    }
    let op = Reduce { kind: ReduceKind::Sum, x: x.value().clone(), dims: dims.to_vec() };
    let shape = x.shape().to_vec();
    let value =
        Tensor::computed(run(&op)?, &[x], move |grad| Ok(vec![Some(expand(grad, &shape)?)]));
    keep(value, dims, keepdim)
}

/// Small integers and truth values as the type that PyTorch adds and multiplies them in.
pub(super) fn integers(x: &Tensor) -> Result<Option<Tensor>> {
    if x.dtype() == DType::I64 || x.dtype().is_float() {
        return Ok(None);
    }
    untracked(&Cast { x: x.value().clone(), to: DType::I64 }).map(Some)
}

pub(super) fn keep(x: Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    if keepdim { Ok(x) } else { squeeze(&x, dims) }
}
