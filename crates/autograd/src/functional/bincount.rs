use samebits_macros::named;
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{Bincount, BincountWeighted, Bins, Histc};

use super::constant;
use crate::{Tensor, run, untracked};

/// Counts how often each value occurs, or sums its weights.
///
/// # Shapes
///
/// `x` is `[n]` of type i64, `weights` `[n]`. The result has `max(largest value + 1, minlength)`
/// elements.
///
/// # Determinism
///
/// Portable: the sums are exact and rounded once.
///
/// # Errors
///
/// A value is negative, or the shapes differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1i64, 3, 1], &[3])?;
/// assert_eq!(functional::bincount(&x, None, 0)?.to_vec::<i64>()?, [0, 2, 0, 1]);
/// let weights = Tensor::from_slice(&[1e30f32, 2.0, -1e30], &[3])?;
/// let sums = functional::bincount(&x, Some(&weights), 0)?;
/// assert_eq!(sums.to_vec::<f32>()?, [0.0, 0.0, 0.0, 2.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.bincount`.
#[named]
#[track_caller]
pub fn bincount(x: &Tensor, weights: Option<&Tensor>, minlength: usize) -> Result<Tensor> {
    counted("bincount", x, weights, Bins::AtLeast(minlength))
}

/// Computes [`bincount`] of values below `bins`, with exactly that many elements. A GPU is not waited
/// for.
///
/// # Errors
///
/// A value is negative or not below `bins` (on a GPU the error comes with the next synchronisation),
/// or the shapes differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::new([1i64, 3, 1])?;
/// assert_eq!(functional::bincount_n(&x, None, 5)?.to_vec::<i64>()?, [0, 2, 0, 1, 0]);
/// assert!(functional::bincount_n(&x, None, 3).is_err());
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `jax.numpy.bincount` with a `length`, which drops larger values.
#[named]
#[track_caller]
pub fn bincount_n(x: &Tensor, weights: Option<&Tensor>, bins: usize) -> Result<Tensor> {
    counted("bincount_n", x, weights, Bins::Exactly(bins))
}

fn counted(op: &'static str, x: &Tensor, weights: Option<&Tensor>, bins: Bins) -> Result<Tensor> {
    let x = x.value().clone();
    let Some(weights) = weights else {
        return untracked(&Bincount { x, bins });
    };
    let sums = run(&BincountWeighted { x, weights: weights.value().clone(), bins })?;
    Ok(constant(op, sums, &[weights]))
}

/// Counts the elements in each of `bins` bins of equal width from `min` to `max`, inclusive. The
/// counts are floats. If the limits are equal, the smallest and the largest element replace them.
///
/// The limits are rounded to the type. Element `x` is in bin
/// `floor((x − min) · bins / (max − min))`, computed exactly; `max` is in the last bin.
///
/// # Determinism
///
/// Portable: integers.
///
/// # Errors
///
/// There are no bins, or the limits are not finite or not in order.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([0.0f32, 1.0, 2.0, 2.5, 3.0])?;
/// assert_eq!(x.histc(3, 0.0, 3.0)?.to_vec::<f32>()?, [1.0, 1.0, 3.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.histc`.
#[named]
#[track_caller]
pub fn histc(x: &Tensor, bins: usize, min: f64, max: f64) -> Result<Tensor> {
    let value = run(&Histc { x: x.value().clone(), bins, min, max })?;
    Ok(constant("histc", value, &[x]))
}
