use samebits_macros::named;
use samebits_tensor_core::ops::{RmsNorm, RmsNormGrad};
use samebits_tensor_core::{DType, Error, Result};

use super::super::broadcast::sum_to;
use super::super::distance::scaled;
use super::super::elementwise::{add, div, mul, reciprocal, rsqrt, scalar_like, square, times};
use super::super::reduce::mean;
use super::super::shape::reshape;
use crate::{Tensor, is_recording, run};

/// Divides by the root of the mean square over the last dimensions, then multiplies by `weight`, if
/// given. Without `eps`, it is the machine epsilon of the type, PyTorch's default.
///
/// # Shapes
///
/// `input` is `[.., normalized_shape]`, and the weight is `normalized_shape`.
///
/// # Determinism
///
/// Portable: `x · (1 / √(mean(x²) + eps)) · weight`, with the reciprocal root as one operation; each
/// operation is rounded. `x` and `√eps` are first divided by a power of two near the larger of
/// `√eps` and the largest magnitude. The power changes bits only if a square would leave the range
/// of the type. [`RmsNorm`] and [`RmsNormGrad`] have every step.
///
/// # Errors
///
/// The shapes do not match, the type is not a float, or `eps` is below 0.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::new([[3.0f32, -3.0]])?;
/// assert_eq!(functional::rms_norm(&x, &[2], None, Some(0.0))?.to_vec::<f32>()?, [1.0, -1.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.rms_norm`.
#[named]
#[track_caller]
pub fn rms_norm(
    input: &Tensor,
    normalized_shape: &[usize],
    weight: Option<&Tensor>,
    eps: Option<f64>,
) -> Result<Tensor> {
    if !input.shape().ends_with(normalized_shape) {
        let message = format!("expected [.., {normalized_shape:?}], got shape {:?}", input.shape());
        return Err(Error::invalid("rms_norm", message));
    }
    let eps = eps.unwrap_or(match input.dtype() {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    });
    if eps.is_nan() || eps < 0.0 {
        return Err(Error::invalid("rms_norm", format!("eps should be at least 0, got {eps}")));
    }
    if input.numel() == 0 {
        return weighted(times(input, 1.0)?, weight);
    }
    if normalized_shape.is_empty() {
        // Rows of one element.
        let x = reshape(input, [input.shape(), &[1]].concat())?;
        return weighted(reshape(&rows(&x, &[1], None, eps)?, input.shape())?, weight);
    }
    let ours =
        |weight: &&Tensor| weight.shape() == normalized_shape && weight.dtype() == input.dtype();
    if let Some(other) = weight.filter(|weight| !ours(weight)) {
        return weighted(rows(input, normalized_shape, None, eps)?, Some(other));
    }
    rows(input, normalized_shape, weight, eps)
}

fn weighted(y: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    match weight {
        Some(weight) => mul(&y, weight),
        None => Ok(y),
    }
}

/// Computes [`rms_norm`] with a weight of the normalised shape.
#[track_caller]
fn rows(
    input: &Tensor,
    normalized_shape: &[usize],
    weight: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    let op = RmsNorm {
        input: input.value().clone(),
        weight: weight.map(|weight| weight.value().clone()),
        normalized_shape: normalized_shape.to_vec(),
        eps,
    };
    let (value, factor, rstd) = run(&op)?;
    let (x, w, normalized_shape) = (input.clone(), weight.cloned(), op.normalized_shape);
    let inputs: Vec<&Tensor> = [input].into_iter().chain(weight).collect();
    Ok(Tensor::computed(value, &inputs, move |grad| {
        let (grad_x, grad_weight) = if is_recording() {
            composed(grad, &x, w.as_ref(), normalized_shape.len(), eps)?
        } else {
            let (grad_x, grad_weight) = run(&RmsNormGrad {
                grad: grad.value().clone(),
                input: x.value().clone(),
                weight: w.as_ref().map(|w| w.value().clone()),
                normalized_shape: normalized_shape.clone(),
                factor: factor.clone(),
                rstd: rstd.clone(),
            })?;
            (grad_x.into(), grad_weight.map(Tensor::from))
        };
        Ok([Some(grad_x)].into_iter().chain(w.is_some().then_some(grad_weight)).collect())
    }))
}

/// Returns the gradients of [`rows`], built from operations that can be differentiated again, with the same
/// bits.
fn composed(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    dims: usize,
    eps: f64,
) -> Result<(Tensor, Option<Tensor>)> {
    let over: Vec<usize> = (x.rank() - dims..x.rank()).collect();
    let n: usize = over.iter().map(|&dim| x.shape()[dim]).product();
    let (s, scale) = scaled(x, &over, eps.sqrt())?;
    let eps = div(&div(&scalar_like(&scale, eps)?, &scale)?, &scale)?;
    let rstd = rsqrt(&add(&mean(&square(&s)?, &over, true)?, &eps)?)?;
    let weighted = weight.map_or_else(|| Ok(grad.clone()), |weight| mul(grad, weight))?;
    let dot = sum_to(&mul(&weighted, &s)?, rstd.shape())?;
    let slope = times(&mul(&square(&rstd)?, &rstd)?, -0.5)?;
    let share = times(&mul(&dot, &slope)?, 1.0 / n as f64)?;
    let grad_s = add(&mul(&weighted, &rstd)?, &mul(&share, &times(&s, 2.0)?)?)?;
    let grad_weight = weight.map(|weight| sum_to(&mul(grad, &mul(&s, &rstd)?)?, weight.shape()));
    Ok((mul(&grad_s, &reciprocal(&scale)?)?, grad_weight.transpose()?))
}
