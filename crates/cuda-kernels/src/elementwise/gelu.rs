//! The Gaussian error linear unit and its gradient.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use samebits_tensor_core::ops::GeluForm;

use super::formula::Steps;
use super::{BinaryKind, UnaryKind};
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
    let mut steps = Steps::of(1);
    let odd = odd(&mut steps, form, 0);
    let share = steps.affine(odd, 0.5, 0.5);
    steps.both(BinaryKind::Weigh, 0, share);
    steps.run(device, &[x])
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
    let inputs: Vec<_> = [grad, x].into_iter().chain(found).collect();
    let mut steps = Steps::of(inputs.len());
    let (s, grad) = (&mut steps, 0);
    let x = s.within(1, STEADY);
    let odd = odd(s, form, x);
    let weighed = s.both(BinaryKind::Mul, grad, x);
    let inner = s.times(weighed, 0.5);
    let share = s.affine(odd, 0.5, 0.5);
    let mut sum = s.both(BinaryKind::Mul, grad, share);
    if found.is_some() {
        sum = s.both(BinaryKind::Add, 2, sum);
    }
    match form {
        GeluForm::Erf => {
            let z = s.times(x, FRAC_1_SQRT_2);
            let square = s.unary(UnaryKind::Square, z);
            let fall = s.unary(UnaryKind::Neg, square);
            let exp = s.unary(UnaryKind::Exp, fall);
            let bell = s.times(exp, FRAC_2_SQRT_PI);
            let product = s.both(BinaryKind::Mul, inner, bell);
            let slope = s.times(product, FRAC_1_SQRT_2);
            s.both(BinaryKind::Add, sum, slope);
        }
        GeluForm::Tanh => {
            let slope = s.both(BinaryKind::TanhGrad, inner, odd);
            let h = s.times(slope, SCALE);
            let k = s.times(h, CUBIC);
            let once = s.both(BinaryKind::Mul, k, x);
            let last = s.both(BinaryKind::Mul, once, x);
            let square = s.unary(UnaryKind::Square, x);
            let with_h = s.both(BinaryKind::Add, sum, h);
            let term = s.both(BinaryKind::Mul, k, square);
            let with_term = s.both(BinaryKind::Add, with_h, term);
            let with_last = s.both(BinaryKind::Add, with_term, last);
            s.both(BinaryKind::Add, with_last, last);
        }
    }
    steps.run(device, &inputs)
}

/// Computes the function between −1 and 1 that determines the share.
fn odd(s: &mut Steps, form: GeluForm, x: usize) -> usize {
    match form {
        GeluForm::Erf => {
            let z = s.times(x, FRAC_1_SQRT_2);
            s.unary(UnaryKind::Erf, z)
        }
        GeluForm::Tanh => {
            let square = s.unary(UnaryKind::Square, x);
            let cube = s.both(BinaryKind::Mul, square, x);
            let term = s.times(cube, CUBIC);
            let sum = s.both(BinaryKind::Add, x, term);
            let inner = s.times(sum, SCALE);
            s.unary(UnaryKind::Tanh, inner)
        }
    }
}
