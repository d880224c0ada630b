//! Tensors without dimensions. As PyTorch has it, they can be reduced, sorted, scanned and indexed
//! along dimension 0, as if they had that dimension, with size 1.

use samebits_tensor_core::{Error, Result, Tensor};

use super::reshape;
use crate::Var;

/// `x` with one dimension, if it has none and `dim` is 0.
pub(super) fn lifted(x: &Var, dim: usize) -> Result<Option<Var>> {
    if dim > 0 || !x.shape().is_empty() {
        return Ok(None);
    }
    reshape(x, &[1]).map(Some)
}

/// [`lifted`] without a gradient.
pub(super) fn lifted_tensor(x: &Tensor, dim: usize) -> Result<Option<Tensor>> {
    Ok(lifted(&Var::constant(x.clone()), dim)?.map(|x| x.value().clone()))
}

/// [`lifted`] for reductions.
pub(super) fn lifted_over(x: &Var, dims: &[usize]) -> Result<Option<Var>> {
    if dims == [0] { lifted(x, 0) } else { Ok(None) }
}

/// Input, index and source with one dimension each, if one of them has none and `dim` is 0.
pub(super) fn lifted_all(
    input: &Var,
    dim: usize,
    index: &Tensor,
    source: &Var,
) -> Result<Option<(Var, Tensor, Var)>> {
    let [x, s] = [lifted(input, dim)?, lifted(source, dim)?];
    let i = lifted_tensor(index, dim)?;
    if x.is_none() && i.is_none() && s.is_none() {
        return Ok(None);
    }
    Ok(Some((
        x.unwrap_or_else(|| input.clone()),
        i.unwrap_or_else(|| index.clone()),
        s.unwrap_or_else(|| source.clone()),
    )))
}

/// Values and indices of a tensor that was given a dimension, without it.
pub(super) fn lowered((value, indices): (Var, Tensor)) -> Result<(Var, Tensor)> {
    Ok((reshape(&value, &[])?, indices.reshape(&[])?))
}

/// An index into a tensor without dimensions: one number.
pub(super) fn only(op: &'static str, index: &Tensor) -> Result<Tensor> {
    if index.numel() == 1 {
        return Ok(index.clone());
    }
    Err(Error::invalid(op, format!("{} indices into a tensor without dimensions", index.numel())))
}
