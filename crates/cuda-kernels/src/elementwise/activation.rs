//! Activation functions and gradients that have several steps.

use samebits_tensor_core::ops::{CompareKind, RampKind};

use super::formula::Steps;
use super::{BinaryKind, UnaryKind};
use crate::device::{Device, Float};
use crate::error::Result;
use crate::launch::Buffer;

/// The bound beyond which the slope of a gate is 0.
const STEADY: f64 = 1024.0;

/// Computes `x · sigmoid(x)`; see [`Silu`](samebits_tensor_core::ops::Silu).
///
/// # Errors
///
/// [`CudaError`](crate::CudaError) if the device fails.
pub fn silu<T: Float>(device: &Device, x: &Buffer<T>) -> Result<Buffer<T>> {
    let mut steps = Steps::of(1);
    let gate = steps.unary(UnaryKind::Sigmoid, 0);
    steps.both(BinaryKind::Weigh, 0, gate);
    steps.run(device, &[x])
}

/// Computes `found + …`: the terms of the gradient in the order that
/// [`SiluGrad`](samebits_tensor_core::ops::SiluGrad) defines.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length) if the buffers differ in length.
pub fn silu_backward<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    x: &Buffer<T>,
    found: Option<&Buffer<T>>,
) -> Result<Buffer<T>> {
    let inputs: Vec<_> = [grad, x].into_iter().chain(found).collect();
    let mut s = Steps::of(inputs.len());
    let gate = s.unary(UnaryKind::Sigmoid, 1);
    let mut sum = s.both(BinaryKind::Mul, 0, gate);
    if found.is_some() {
        sum = s.both(BinaryKind::Add, 2, sum);
    }
    let x = s.within(1, STEADY);
    let of_gate = s.both(BinaryKind::Mul, 0, x);
    let slope = s.both(BinaryKind::SigmoidGrad, of_gate, gate);
    s.both(BinaryKind::Add, sum, slope);
    s.run(device, &inputs)
}

/// Computes a smooth form of a ramp; see [`Ramp`](samebits_tensor_core::ops::Ramp).
///
/// # Errors
///
/// [`CudaError`](crate::CudaError) if the device fails.
pub fn ramp<T: Float>(device: &Device, kind: RampKind, x: &Buffer<T>) -> Result<Buffer<T>> {
    let mut steps = Steps::of(1);
    ramp_steps(&mut steps, kind, 0);
    steps.run(device, &[x])
}

/// Computes the gradient of [`ramp`]; see [`RampGrad`](samebits_tensor_core::ops::RampGrad).
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length) if the buffers differ in length.
pub fn ramp_backward<T: Float>(
    device: &Device,
    kind: RampKind,
    grad: &Buffer<T>,
    x: &Buffer<T>,
) -> Result<Buffer<T>> {
    let mut steps = Steps::of(2);
    ramp_grad_steps(&mut steps, kind, 0, 1);
    steps.run(device, &[grad, x])
}

pub(super) fn ramp_steps(s: &mut Steps, kind: RampKind, x: usize) -> usize {
    let curve = |s: &mut Steps, x: usize| {
        let exp = s.unary(UnaryKind::Exp, x);
        s.unary(UnaryKind::Log1p, exp)
    };
    match kind {
        RampKind::LogSigmoid => {
            let size = s.unary(UnaryKind::Abs, x);
            let falling = s.unary(UnaryKind::Neg, size);
            let zero = s.number(0.0);
            let low = s.both(BinaryKind::Minimum, x, zero);
            let curve = curve(s, falling);
            s.both(BinaryKind::Sub, low, curve)
        }
        RampKind::Softplus { beta, threshold } => {
            let scaled = s.times(x, beta);
            let curve = curve(s, scaled);
            let curve = s.times(curve, 1.0 / beta);
            let threshold = s.number(threshold);
            s.choose([scaled, threshold], CompareKind::Gt, x, curve)
        }
    }
}

pub(super) fn ramp_grad_steps(s: &mut Steps, kind: RampKind, grad: usize, x: usize) -> usize {
    let slope = match kind {
        RampKind::LogSigmoid => {
            let falling = s.unary(UnaryKind::Neg, x);
            s.unary(UnaryKind::Sigmoid, falling)
        }
        RampKind::Softplus { beta, threshold } => {
            let scaled = s.times(x, beta);
            let slope = s.unary(UnaryKind::Sigmoid, scaled);
            let (one, threshold) = (s.number(1.0), s.number(threshold));
            s.choose([scaled, threshold], CompareKind::Gt, one, slope)
        }
    };
    s.both(BinaryKind::Mul, grad, slope)
}
