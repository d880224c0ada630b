//! Activation functions and gradients that have several steps, from the kernels of single functions.

use samebits_tensor_core::ops::{CompareKind, RampKind};

use super::gelu::{both, times, within};
use super::{
    BinaryKind, Comparable, Pairing, UnaryKind, View, binary, compare, fill, select, unary,
};
use crate::device::{Device, Float};
use crate::error::Result;
use crate::launch::Buffer;

/// The bound beyond which the slope of a gate is 0.
const STEADY: f64 = 1024.0;

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
    gate: &Buffer<T>,
    found: Option<&Buffer<T>>,
) -> Result<Buffer<T>> {
    let mut sum = both(device, BinaryKind::Mul, grad, gate)?;
    if let Some(found) = found {
        sum = both(device, BinaryKind::Add, found, &sum)?;
    }
    let of_gate = both(device, BinaryKind::Mul, grad, &within(device, x, STEADY)?)?;
    let slope = both(device, BinaryKind::SigmoidGrad, &of_gate, gate)?;
    both(device, BinaryKind::Add, &sum, &slope)
}

/// Computes a smooth form of a ramp; see [`Ramp`](samebits_tensor_core::ops::Ramp).
///
/// # Errors
///
/// [`CudaError`](crate::CudaError) if the device fails.
pub fn ramp<T: Float + Comparable>(
    device: &Device,
    kind: RampKind,
    x: &Buffer<T>,
) -> Result<Buffer<T>> {
    let curve = |x: &Buffer<T>| unary(device, UnaryKind::Log1p, &unary(device, UnaryKind::Exp, x)?);
    match kind {
        RampKind::LogSigmoid => {
            let falling = unary(device, UnaryKind::Neg, &unary(device, UnaryKind::Abs, x)?)?;
            let zero = fill(device, 1, T::from_f64(0.0))?;
            let low = binary(device, BinaryKind::Minimum, x, &zero, beside_one(&[x.len()]))?;
            both(device, BinaryKind::Sub, &low, &curve(&falling)?)
        }
        RampKind::Softplus { beta, threshold } => {
            let scaled = times(device, x, beta)?;
            let curve = times(device, &curve(&scaled)?, 1.0 / beta)?;
            select(device, &exceeds(device, &scaled, threshold)?, x, &curve)
        }
    }
}

/// Computes the gradient of [`ramp`]; see [`RampGrad`](samebits_tensor_core::ops::RampGrad).
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length) if the buffers differ in length.
pub fn ramp_backward<T: Float + Comparable>(
    device: &Device,
    kind: RampKind,
    grad: &Buffer<T>,
    x: &Buffer<T>,
) -> Result<Buffer<T>> {
    let slope = match kind {
        RampKind::LogSigmoid => {
            unary(device, UnaryKind::Sigmoid, &unary(device, UnaryKind::Neg, x)?)?
        }
        RampKind::Softplus { beta, threshold } => {
            let scaled = times(device, x, beta)?;
            let one = fill(device, x.len(), T::from_f64(1.0))?;
            let slope = unary(device, UnaryKind::Sigmoid, &scaled)?;
            select(device, &exceeds(device, &scaled, threshold)?, &one, &slope)?
        }
    };
    both(device, BinaryKind::Mul, grad, &slope)
}

/// Compares each element with a bound.
fn exceeds<T: Float + Comparable>(
    device: &Device,
    x: &Buffer<T>,
    bound: f64,
) -> Result<Buffer<u8>> {
    let bound = fill(device, 1, T::from_f64(bound))?;
    compare(device, CompareKind::Gt, x, &bound, beside_one(&[x.len()]))
}

/// Pairs each element with the one element of the second operand.
pub(super) fn beside_one(shape: &[usize]) -> Pairing<'_> {
    Pairing::Strided {
        shape,
        a: View { strides: &[1], offset: 0 },
        b: View { strides: &[0], offset: 0 },
    }
}
