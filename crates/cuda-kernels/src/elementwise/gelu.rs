//! The Gaussian error linear unit and its gradient, from the kernels of single functions.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use samebits_tensor_core::ops::GeluForm;

use super::{BinaryKind, Pairing, UnaryKind, View, affine, binary, fill, unary};
use crate::device::{Device, Float};
use crate::error::Result;
use crate::launch::Buffer;

const CUBIC: f64 = 0.044715;
/// The constant √(2/π).
const SCALE: f64 = FRAC_1_SQRT_2 * FRAC_2_SQRT_PI;

/// The bound beyond which the share is 0 or 1 and its slope 0.
const STEADY: f64 = 64.0;

/// Computes `x · share`; see [`Gelu`](samebits_tensor_core::ops::Gelu).
///
/// # Errors
///
/// [`CudaError`](crate::CudaError) if the device fails.
pub fn forward<T: Float>(device: &Device, form: GeluForm, x: &Buffer<T>) -> Result<Buffer<T>> {
    let share = half_around(device, &odd(device, form, x)?)?;
    both(device, BinaryKind::Weigh, x, &share)
}

/// Computes `found + …`: the terms of the gradient in the order that
/// [`GeluGrad`](samebits_tensor_core::ops::GeluGrad) defines.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length) if the buffers differ in length.
pub fn backward<T: Float>(
    device: &Device,
    form: GeluForm,
    grad: &Buffer<T>,
    x: &Buffer<T>,
    found: Option<&Buffer<T>>,
) -> Result<Buffer<T>> {
    let x = &within(device, x, STEADY)?;
    let mul = |a: &Buffer<T>, b: &Buffer<T>| both(device, BinaryKind::Mul, a, b);
    let add = |a: &Buffer<T>, b: &Buffer<T>| both(device, BinaryKind::Add, a, b);
    let times = |x: &Buffer<T>, factor: f64| times(device, x, factor);
    let odd = odd(device, form, x)?;
    let inner = times(&mul(grad, x)?, 0.5)?;
    let mut sum = mul(grad, &half_around(device, &odd)?)?;
    if let Some(found) = found {
        sum = add(found, &sum)?;
    }
    match form {
        GeluForm::Erf => {
            let z = times(x, FRAC_1_SQRT_2)?;
            let square = unary(device, UnaryKind::Neg, &unary(device, UnaryKind::Square, &z)?)?;
            let bell = times(&unary(device, UnaryKind::Exp, &square)?, FRAC_2_SQRT_PI)?;
            add(&sum, &times(&mul(&inner, &bell)?, FRAC_1_SQRT_2)?)
        }
        GeluForm::Tanh => {
            let h = times(&both(device, BinaryKind::TanhGrad, &inner, &odd)?, SCALE)?;
            let k = times(&h, CUBIC)?;
            let last = mul(&mul(&k, x)?, x)?;
            let square = unary(device, UnaryKind::Square, x)?;
            sum = add(&add(&sum, &h)?, &mul(&k, &square)?)?;
            add(&add(&sum, &last)?, &last)
        }
    }
}

/// Computes the function between −1 and 1 that determines the share.
fn odd<T: Float>(device: &Device, form: GeluForm, x: &Buffer<T>) -> Result<Buffer<T>> {
    match form {
        GeluForm::Erf => unary(device, UnaryKind::Erf, &times(device, x, FRAC_1_SQRT_2)?),
        GeluForm::Tanh => {
            let cube = both(device, BinaryKind::Mul, &unary(device, UnaryKind::Square, x)?, x)?;
            let inner = both(device, BinaryKind::Add, x, &times(device, &cube, CUBIC)?)?;
            unary(device, UnaryKind::Tanh, &times(device, &inner, SCALE)?)
        }
    }
}

fn half_around<T: Float>(device: &Device, odd: &Buffer<T>) -> Result<Buffer<T>> {
    affine(device, odd, T::from_f64(0.5), T::from_f64(0.5))
}

/// Limits `x` to `±bound`; NaN stays NaN.
pub(super) fn within<T: Float>(device: &Device, x: &Buffer<T>, bound: f64) -> Result<Buffer<T>> {
    let [low, high] = [-bound, bound].map(|bound| fill(device, 1, T::from_f64(bound)));
    let splat = Pairing::Strided {
        shape: &[x.len()],
        a: View { strides: &[1], offset: 0 },
        b: View { strides: &[0], offset: 0 },
    };
    let above = binary(device, BinaryKind::Maximum, x, &low?, splat)?;
    binary(device, BinaryKind::Minimum, &above, &high?, splat)
}

/// Multiplies with `factor`; the added -0 changes no number.
pub(super) fn times<T: Float>(device: &Device, x: &Buffer<T>, factor: f64) -> Result<Buffer<T>> {
    affine(device, x, T::from_f64(factor), T::from_f64(-0.0))
}

pub(super) fn both<T: Float>(
    device: &Device,
    kind: BinaryKind,
    a: &Buffer<T>,
    b: &Buffer<T>,
) -> Result<Buffer<T>> {
    binary(device, kind, a, b, Pairing::Dense(a.len()))
}
