//! Tensors of the shape and type and on the device of another. They require no gradient.

use samebits_macros::named;
use samebits_rng::Generator;
use samebits_tensor_core::ops::{Normal, Uniform};
use samebits_tensor_core::{DType, Error, Result, Tensor as Value, random};

use super::blocks;
use super::elementwise::scalar_like;
use crate::{Tensor, run};

/// Returns zeros of the shape and type and on the device of `x`.
///
/// # Errors
///
/// There is no memory for the result.
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

/// Returns ones of the shape and type and on the device of `x`.
///
/// # Errors
///
/// There is no memory for the result.
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

/// Returns a tensor of the shape and type and on the device of `x`, whose every element is `value`,
/// converted as by [`Tensor::full`].
///
/// # Errors
///
/// There is no memory for the result.
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

/// Returns uniform numbers in [0, 1) of the shape and type and on the device of `x`, drawn from this
/// thread's default generator of that device.
///
/// # Errors
///
/// The type is not a float, nobody seeded this thread (see [`random::with_default`]), or there is no
/// memory for the numbers. The generator then has not moved.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_tensor_core::random;
///
/// random::manual_seed(7);
/// let noise = Tensor::new([1.0f32, 2.0])?.rand_like()?;
/// assert!(noise.to_vec::<f32>()?.iter().all(|number| (0.0..1.0).contains(number)));
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
#[track_caller]
pub fn rand_like(x: &Tensor) -> Result<Tensor> {
    drawn("rand_like", x, |generator| {
        let (shape, dtype, device) = (x.shape().to_vec(), x.dtype(), x.device());
        run(&Uniform { shape, dtype, device, low: 0.0, high: 1.0, generator })
    })
}

/// Returns standard normal numbers of the shape and type and on the device of `x`, drawn from this
/// thread's default generator of that device.
///
/// # Errors
///
/// As [`rand_like`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_tensor_core::random;
///
/// random::manual_seed(7);
/// let x = Tensor::new([1.0f32, 2.0])?;
/// let noisy = (&x + x.randn_like()?)?;
/// assert_eq!(noisy.shape(), [2]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
#[track_caller]
pub fn randn_like(x: &Tensor) -> Result<Tensor> {
    drawn("randn_like", x, |generator| {
        let (shape, dtype, device) = (x.shape().to_vec(), x.dtype(), x.device());
        run(&Normal { shape, dtype, device, mean: 0.0, std: 1.0, generator })
    })
}

/// What `run` makes of the default generator, which moves on by one number for each element.
#[track_caller]
fn drawn(
    op: &'static str,
    x: &Tensor,
    run: impl FnOnce(Generator) -> Result<Value>,
) -> Result<Tensor> {
    if !x.dtype().is_full_float() {
        let (what, expected, got) = ("the input", DType::F32, x.dtype());
        return Err(Error::DTypeMismatch { op, what, expected, got });
    }
    random::with_default(op, x.device(), |generator| {
        let numbers = run(generator.clone()).map_err(|error| error.called(op))?;
        generator.advance(blocks(x.dtype(), x.numel()));
        Ok(numbers.into())
    })?
}
