//! Tensors without dimensions. As in PyTorch, they can be reduced, sorted, scanned and indexed
//! along dimension 0, as if that dimension existed with size 1.

use samebits_tensor_core::{Error, Result};

use super::shape::reshape;
use crate::Tensor;

/// Gives `x` a dimension if it has none and `dim` is 0.
pub(super) fn lifted(x: &Tensor, dim: usize) -> Result<Option<Tensor>> {
    if dim > 0 || !x.shape().is_empty() {
        return Ok(None);
    }
    reshape(x, [1]).map(Some)
}

/// Does what [`lifted`] does, for reductions.
pub(super) fn lifted_over(x: &Tensor, dims: &[usize]) -> Result<Option<Tensor>> {
    if dims == [0] { lifted(x, 0) } else { Ok(None) }
}

/// Gives input, index and source one dimension each, if one of them has none and `dim` is 0.
pub(super) fn lifted_all(
    input: &Tensor,
    dim: usize,
    index: &Tensor,
    source: &Tensor,
) -> Result<Option<(Tensor, Tensor, Tensor)>> {
    let [x, s] = [lifted(input, dim)?, lifted(source, dim)?];
    let i = lifted(index, dim)?;
    if x.is_none() && i.is_none() && s.is_none() {
        return Ok(None);
    }
    Ok(Some((
        x.unwrap_or_else(|| input.clone()),
        i.unwrap_or_else(|| index.clone()),
        s.unwrap_or_else(|| source.clone()),
    )))
}

/// Removes the dimension that values and indices were given.
pub(super) fn lowered((value, indices): (Tensor, Tensor)) -> Result<(Tensor, Tensor)> {
    Ok((reshape(&value, ())?, indices.reshape(())?))
}

/// Checks that an index into a tensor without dimensions is a single number.
pub(super) fn expect_one_index(op: &'static str, index: &Tensor) -> Result<Tensor> {
    if index.numel() == 1 {
        return Ok(index.clone());
    }
    let count = index.numel();
    let message = format!("expected one index into a tensor without dimensions, got {count}");
    Err(Error::invalid(op, message))
}
