//! The binary cross entropy of logits and its gradient.

use samebits_tensor_core::ops::{CompareKind, RampKind};

use super::activation::{ramp_grad_steps, ramp_steps};
use super::formula::Steps;
use super::{BinaryKind, UnaryKind};
use crate::device::{Device, Float};
use crate::error::Result;
use crate::launch::Buffer;

/// Computes the losses; see [`LogitLoss`](samebits_tensor_core::ops::LogitLoss).
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length) if the buffers differ in length.
pub fn logit_loss<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    target: &Buffer<T>,
) -> Result<Buffer<T>> {
    let mut steps = Steps::of(2);
    let s = &mut steps;
    let missed = missed(s, 1);
    let weighed = s.both(BinaryKind::Weigh, 0, missed);
    let share = ramp_steps(s, RampKind::LogSigmoid, 0);
    let losses = s.both(BinaryKind::Sub, weighed, share);
    let highest = s.number(f64::INFINITY);
    let limit = s.both(BinaryKind::Weigh, highest, 1);
    let lowest = s.number(f64::NEG_INFINITY);
    s.choose([0, lowest], CompareKind::Eq, limit, losses);
    steps.run(device, &[x, target])
}

/// Computes the gradient; see [`LogitLossGrad`](samebits_tensor_core::ops::LogitLossGrad).
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length) if the buffers differ in length.
pub fn logit_loss_backward<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    x: &Buffer<T>,
    target: &Buffer<T>,
    found: Option<&Buffer<T>>,
) -> Result<Buffer<T>> {
    let inputs: Vec<_> = [grad, x, target].into_iter().chain(found).collect();
    let mut steps = Steps::of(inputs.len());
    let s = &mut steps;
    let missed = missed(s, 2);
    let mut sum = s.both(BinaryKind::Mul, 0, missed);
    if found.is_some() {
        sum = s.both(BinaryKind::Add, 3, sum);
    }
    let falling = s.unary(UnaryKind::Neg, 0);
    let share = ramp_grad_steps(s, RampKind::LogSigmoid, falling, 1);
    s.both(BinaryKind::Add, sum, share);
    steps.run(device, &inputs)
}

/// Computes `1 − target`.
fn missed(s: &mut Steps, target: usize) -> usize {
    s.affine(target, -1.0, 1.0)
}
