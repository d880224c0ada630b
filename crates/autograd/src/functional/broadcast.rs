//! Broadcasting, and its gradient: the sum.

use samebits_macros::named;
use samebits_tensor_core::ops::{Cast, Reduce, ReduceKind};
use samebits_tensor_core::{DType, Result};

use super::scalar::lifted_over;
use super::shape::{reshape, squeeze};
use crate::dims::{Dims, over};
use crate::{Tensor, run, untracked};

/// Broadcasts `x` to `shape`: repeats dimensions of size 1 and adds leading ones.
///
/// # Errors
///
/// A dimension of `x` is neither 1 nor equal to that of `shape`.
#[named]
#[doc(alias = "broadcast_to")]
pub fn expand(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let old = x.shape().to_vec();
    Ok(Tensor::computed(x.value().expand(shape)?, &[x], move |grad| {
        Ok(vec![Some(sum_to(grad, &old)?)])
    }))
}

/// Sums over broadcast dimensions, so that `x` has the shape `shape` again.
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

/// Sums over `dims`, which stay with size 1 if `keepdim`. Integers and booleans are added as i64,
/// which wraps around.
///
/// # Errors
///
/// A dimension does not exist or is listed twice.
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
    with_keepdim(value, dims, keepdim)
}

/// Converts small integers and booleans to i64, the type in which PyTorch adds and multiplies them;
/// returns `None` for other types.
pub(super) fn integers(x: &Tensor) -> Result<Option<Tensor>> {
    if x.dtype() == DType::I64 || x.dtype().is_float() {
        return Ok(None);
    }
    untracked(&Cast { x: x.value().clone(), to: DType::I64 }).map(Some)
}

/// Returns a result whose dimensions `dims` have size 1, with them kept or removed.
pub(super) fn with_keepdim(x: Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    if keepdim { Ok(x) } else { squeeze(&x, dims) }
}
