//! The binary cross entropy of logits and its gradient, from the kernels of single functions.

use samebits_tensor_core::ops::{CompareKind, RampKind};

use super::activation::{beside_one, ramp, ramp_backward};
use super::gelu::both;
use super::{
    BinaryKind, Comparable, Pairing, UnaryKind, View, affine, binary, compare, fill, select, unary,
};
use crate::device::{Device, Float};
use crate::error::Result;
use crate::launch::Buffer;

/// Computes the losses; see [`LogitLoss`](samebits_tensor_core::ops::LogitLoss).
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length) if the buffers differ in length.
pub fn logit_loss<T: Float + Comparable>(
    device: &Device,
    x: &Buffer<T>,
    target: &Buffer<T>,
) -> Result<Buffer<T>> {
    let shape = [x.len()];
    let beside = Pairing::Strided {
        shape: &shape,
        a: View { strides: &[0], offset: 0 },
        b: View { strides: &[1], offset: 0 },
    };
    let [lowest, highest] =
        [f64::NEG_INFINITY, f64::INFINITY].map(|bound| fill(device, 1, T::from_f64(bound)));
    let weighed = both(device, BinaryKind::Weigh, x, &missed(device, target)?)?;
    let share = ramp(device, RampKind::LogSigmoid, x)?;
    let losses = both(device, BinaryKind::Sub, &weighed, &share)?;
    let limit = binary(device, BinaryKind::Weigh, &highest?, target, beside)?;
    let is_lowest = compare(device, CompareKind::Eq, x, &lowest?, beside_one(&shape))?;
    select(device, &is_lowest, &limit, &losses)
}

/// Computes the gradient; see [`LogitLossGrad`](samebits_tensor_core::ops::LogitLossGrad).
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length) if the buffers differ in length.
pub fn logit_loss_backward<T: Float + Comparable>(
    device: &Device,
    grad: &Buffer<T>,
    x: &Buffer<T>,
    target: &Buffer<T>,
    found: Option<&Buffer<T>>,
) -> Result<Buffer<T>> {
    let mut sum = both(device, BinaryKind::Mul, grad, &missed(device, target)?)?;
    if let Some(found) = found {
        sum = both(device, BinaryKind::Add, found, &sum)?;
    }
    let falling = unary(device, UnaryKind::Neg, grad)?;
    let share = ramp_backward(device, RampKind::LogSigmoid, &falling, x)?;
    both(device, BinaryKind::Add, &sum, &share)
}

/// Computes `1 − target`.
fn missed<T: Float>(device: &Device, target: &Buffer<T>) -> Result<Buffer<T>> {
    affine(device, target, T::from_f64(-1.0), T::from_f64(1.0))
}
