//! Tensors that spell out positions.

use samebits_macros::named;
use samebits_tensor_core::{DType, Error, Result};

use super::{expand, reshape, scatter_value, unsqueeze, zeros_of};
use crate::Tensor;

/// Returns a 1 at each class of `x` and 0 elsewhere, in a new last dimension of `num_classes`. The
/// result is of type `I64`.
///
/// # Errors
///
/// `x` is not of type `I64`, or a class is not in `0..num_classes`.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let classes = Tensor::new([2, 0])?;
/// assert_eq!(classes.one_hot(3)?.to_vec::<i64>()?, [0, 0, 1, 1, 0, 0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.one_hot`.
#[named]
#[track_caller]
pub fn one_hot(x: &Tensor, num_classes: usize) -> Result<Tensor> {
    let mut shape = x.shape().to_vec();
    shape.push(num_classes);
    let zeros = zeros_of(&shape, DType::I64, x)?;
    scatter_value(&zeros, -1, &unsqueeze(&x.detach(), -1)?, 1.0)
}

/// Spreads each tensor over the shape that all of them span: result `i` varies along dimension `i`
/// alone.
///
/// # Shapes
///
/// Each tensor has at most one dimension. All results have the sizes of the tensors, in order.
///
/// # Errors
///
/// There is no tensor, one has more than one dimension, or the results have too many elements.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let grids = functional::meshgrid(&[Tensor::new([1, 2])?, Tensor::new([3, 4, 5])?])?;
/// assert_eq!(grids[0].to_vec::<i64>()?, [1, 1, 1, 2, 2, 2]);
/// assert_eq!(grids[1].to_vec::<i64>()?, [3, 4, 5, 3, 4, 5]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.meshgrid` with `indexing="ij"`.
#[named]
pub fn meshgrid(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    if tensors.is_empty() {
        return Err(Error::invalid("meshgrid", "expected at least one tensor, got none"));
    }
    if let Some(x) = tensors.iter().find(|x| x.rank() > 1) {
        let message = format!("expected at most one dimension, got shape {:?}", x.shape());
        return Err(Error::invalid("meshgrid", message));
    }
    let sizes: Vec<usize> = tensors.iter().map(Tensor::numel).collect();
    let grid = |(dim, x): (usize, &Tensor)| {
        let mut along = vec![1; sizes.len()];
        along[dim] = sizes[dim];
        expand(&reshape(x, &along)?, &sizes)
    };
    tensors.iter().enumerate().map(grid).collect()
}
