use samebits_macros::named;
use samebits_tensor_core::ops::{Pad, PadGrad, PadMode};
use samebits_tensor_core::{Error, Result};

use super::shape::reshape;
use crate::{Tensor, run};

/// Pads the last dimensions of a tensor; negative pads crop it.
///
/// `pads` holds two numbers for each padded dimension, the last dimension first, as in PyTorch:
/// `[left, right, top, bottom]` for an image. `value` is the fill value of [`PadMode::Constant`].
///
/// [`PadMode::Circular`] crops first and then wraps the rest: `[0, 1, 2, 3]` padded by `[-1, 1]` is
/// `[1, 2, 3, 1]`. [`PadMode::Reflect`] and [`PadMode::Replicate`] read the whole input: reflected
/// by `[-3, 3]`, it is `[3, 2, 1, 0]`.
///
/// # Shapes
///
/// `input` may have any shape. The constant mode pads any number of dimensions, the others one to
/// three.
///
/// # Errors
///
/// The pads do not fit the shape or the mode: reflection needs pads below the size, circular
/// padding at most the size that remains after cropping.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
/// use samebits_tensor_core::ops::PadMode;
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[1, 3])?;
/// let y = functional::pad(&x, &[2, 1], PadMode::Reflect, 0.0)?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[doc(alias = "reflection_pad2d")]
#[doc(alias = "replication_pad2d")]
#[doc(alias = "circular_pad2d")]
#[doc(alias = "constant_pad_nd")]
#[named]
#[track_caller]
pub fn pad(input: &Tensor, pads: &[i64], mode: PadMode, value: f64) -> Result<Tensor> {
    let (pairs, rest) = pads.as_chunks::<2>();
    if !rest.is_empty() || pairs.len() > input.shape().len() {
        return Err(Error::invalid(
            "pad",
            format!(
                "expected two pads for each of the last dimensions of shape {:?}, got {pads:?}",
                input.shape()
            ),
        ));
    }
    let pairs: Vec<[i64; 2]> = pairs.iter().rev().copied().collect();
    if pairs.is_empty() {
        return Ok(input.clone());
    }
    if pairs.len() <= 3 || mode != PadMode::Constant {
        return pad_few(input, &pairs, mode, value);
    }
    // The last three, then one by one; finished dimensions count as one.
    let (outer, inner) = pairs.split_at(pairs.len() - 3);
    let mut padded = pad_few(input, inner, mode, value)?;
    for number in (0..outer.len()).rev() {
        let shape = padded.shape().to_vec();
        let dim = shape.len() - inner.len() - (outer.len() - number);
        let flat = [&shape[..=dim], &[shape[dim + 1..].iter().product()]].concat();
        let result = pad_few(&reshape(&padded, &flat)?, &[outer[number], [0, 0]], mode, value)?;
        let shape = [&result.shape()[..=dim], &shape[dim + 1..]].concat();
        padded = reshape(&result, &shape)?;
    }
    Ok(padded)
}

#[track_caller]
fn pad_few(input: &Tensor, pads: &[[i64; 2]], mode: PadMode, value: f64) -> Result<Tensor> {
    let pads = pads.to_vec();
    let padded = run(&Pad { input: input.value().clone(), pads: pads.clone(), mode, value })?;
    let input_shape = input.shape().to_vec();
    Ok(Tensor::computed(padded, &[input], move |grad| {
        let value = run(&PadGrad {
            grad: grad.value().clone(),
            input_shape: input_shape.clone(),
            pads: pads.clone(),
            mode,
        })?;
        // Linear except for the constant: the derivative of the gradient pads with zeros.
        let pads = pads.clone();
        Ok(vec![Some(Tensor::computed(value, &[grad], move |outer| {
            Ok(vec![Some(pad_few(outer, &pads, mode, 0.0)?)])
        }))])
    }))
}
