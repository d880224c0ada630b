use samebits_tensor_core::ops::{IndexAdd, IndexSelect};
use samebits_tensor_core::{Result, Tensor};

use super::elementwise::{affine, wanted};
use crate::{Var, run};

/// The slices of `x` along `dim` that `index` names.
///
/// # Errors
///
/// An index is out of range.
#[track_caller]
pub fn index_select(x: &Var, dim: usize, index: &Tensor) -> Result<Var> {
    let value = run(&IndexSelect { x: x.value().clone(), dim, index: index.clone() })?;
    let (shape, index) = (x.shape().to_vec(), index.clone());
    Ok(Var::computed(value, &[x], move |grad| {
        let zeros = Var::constant(Tensor::zeros(&shape, grad.dtype()).to(grad.value().device())?);
        Ok(vec![Some(index_add(&zeros, dim, &index, grad, 1.0)?)])
    }))
}

/// `input` with `alpha · source` added, slice `i` of the source to slice `index[i]`.
///
/// # Errors
///
/// The shapes do not go together, or an index is out of range.
#[track_caller]
pub fn index_add(input: &Var, dim: usize, index: &Tensor, source: &Var, alpha: f64) -> Result<Var> {
    let value = run(&IndexAdd {
        input: input.value().clone(),
        dim,
        index: index.clone(),
        source: source.value().clone(),
        alpha,
    })?;
    let (index, x, s) = (index.clone(), input.clone(), source.clone());
    Ok(Var::computed(value, &[input, source], move |grad| {
        Ok(vec![
            wanted(&x, || Ok(grad.clone()))?,
            wanted(&s, || affine(&index_select(grad, dim, &index)?, alpha, 0.0))?,
        ])
    }))
}

/// The rows of `weight` that `index` names.
///
/// # Shapes
///
/// `weight` is `[rows, width]`, `index` of any shape; the result is `[index.., width]`.
///
/// # Errors
///
/// An index is out of range.
#[track_caller]
pub fn embedding(weight: &Var, index: &Tensor) -> Result<Var> {
    let rows = index_select(weight, 0, &index.reshape(&[index.numel()])?)?;
    let mut shape = index.shape().to_vec();
    shape.extend(&weight.shape()[1..]);
    super::reshape(&rows, &shape)
}
