use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{Reduce, ReduceKind};

use super::elementwise::affine;
use super::shape::{expand, reshape};
use crate::{Var, run};

/// The sum over `dims`, which stay as size 1.
///
/// # Errors
///
/// `dims` does not ascend, or names a dimension that does not exist.
#[track_caller]
pub fn sum(x: &Var, dims: &[usize]) -> Result<Var> {
    let op = Reduce { kind: ReduceKind::Sum, x: x.value().clone(), dims: dims.to_vec() };
    let shape = x.shape().to_vec();
    Ok(Var::computed(run(&op)?, &[x], move |grad| Ok(vec![Some(expand(grad, &shape)?)])))
}

/// The mean over `dims`, which stay as size 1.
///
/// # Errors
///
/// As [`sum`].
#[track_caller]
pub fn mean(x: &Var, dims: &[usize]) -> Result<Var> {
    let op = Reduce { kind: ReduceKind::Mean, x: x.value().clone(), dims: dims.to_vec() };
    let shape = x.shape().to_vec();
    let value = run(&op)?;
    let n: usize = dims.iter().map(|&dim| shape[dim]).product();
    Ok(Var::computed(value, &[x], move |grad| {
        Ok(vec![Some(expand(&affine(grad, 1.0 / n as f64, 0.0)?, &shape)?)])
    }))
}

impl Var {
    /// The sum of all elements, as a tensor without dimensions.
    ///
    /// # Errors
    ///
    /// The type is not a float.
    #[track_caller]
    pub fn sum_all(&self) -> Result<Var> {
        let dims: Vec<usize> = (0..self.shape().len()).collect();
        reshape(&sum(self, &dims)?, &[])
    }

    /// The mean of all elements, as a tensor without dimensions.
    ///
    /// # Errors
    ///
    /// The type is not a float.
    #[track_caller]
    pub fn mean_all(&self) -> Result<Var> {
        let dims: Vec<usize> = (0..self.shape().len()).collect();
        reshape(&mean(self, &dims)?, &[])
    }
}

/// Sums what broadcasting repeated, so that the shape becomes `shape` again.
pub(super) fn sum_to(x: &Var, shape: &[usize]) -> Result<Var> {
    if x.shape() == shape {
        return Ok(x.clone());
    }
    let new = x.shape().len() - shape.len();
    let dims: Vec<usize> = (0..x.shape().len())
        .filter(|&dim| dim < new || (shape[dim - new] == 1 && x.shape()[dim] != 1))
        .collect();
    reshape(&sum(x, &dims)?, shape)
}
