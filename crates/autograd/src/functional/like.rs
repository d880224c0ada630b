//! Tensors with the shape, type and device of another. They require no gradient.

use samebits_macros::named;
use samebits_tensor_core::Result;

use super::elementwise::scalar_like;
use crate::Tensor;

/// Returns zeros with the shape, type and device of `x`.
///
/// # Errors
///
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if there is no memory for the result.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[1, 2], [3, 4]])?;
/// assert_eq!(x.zeros_like()?.to_vec::<i64>()?, [0, 0, 0, 0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
pub fn zeros_like(x: &Tensor) -> Result<Tensor> {
    full_like(x, 0.0)
}

/// Returns ones with the shape, type and device of `x`.
///
/// # Errors
///
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if there is no memory for the result.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[1, 2], [3, 4]])?;
/// assert_eq!(x.ones_like()?.to_vec::<i64>()?, [1, 1, 1, 1]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
pub fn ones_like(x: &Tensor) -> Result<Tensor> {
    full_like(x, 1.0)
}

/// Returns a tensor with the shape, type and device of `x`, filled with `value`, which is converted
/// as in [`Tensor::full`].
///
/// # Errors
///
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if there is no memory for the result.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, 2.0])?;
/// assert_eq!(x.full_like(0.5)?.to_vec::<f32>()?, [0.5, 0.5]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
pub fn full_like(x: &Tensor, value: f64) -> Result<Tensor> {
    scalar_like(x, value)?.expand(x.shape())
}
