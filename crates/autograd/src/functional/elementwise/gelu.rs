//! The Gaussian error linear unit: one operation each way, with the bits of its composition.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use samebits_macros::named;
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{Gelu, GeluForm, GeluGrad};

use super::{add, affine, bell, erf, mul, square, tanh, times};
use crate::{Tensor, is_recording, run, untracked};

/// Computes `x · (0.5 · erf(x / √2) + 0.5)`, each operation rounded.
///
/// # Determinism
///
/// The gradient is summed in the order that [`GeluGrad`] states.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn gelu(x: &Tensor) -> Result<Tensor> {
    of(GeluForm::Erf, x)
}

/// Computes PyTorch's `gelu(approximate="tanh")`:
/// `x · (0.5 · tanh(√(2/π) · (x + 0.044715 · x³)) + 0.5)`, each operation rounded.
///
/// # Determinism
///
/// The gradient is summed in the order that [`GeluGrad`] states.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    of(GeluForm::Tanh, x)
}

#[track_caller]
fn of(form: GeluForm, x: &Tensor) -> Result<Tensor> {
    let value = run(&Gelu { form, x: x.value().clone() })?;
    let saved = x.clone();
    Ok(Tensor::computed_onto(value, x, move |grad, found| {
        if is_recording() {
            let shares = composed(form, grad, &saved)?;
            let mut shares = found.into_iter().chain(shares);
            let first = shares.next().expect("a gradient has shares");
            return shares.try_fold(first, |sum, share| add(&sum, &share));
        }
        untracked(&GeluGrad {
            form,
            grad: grad.value().clone(),
            x: saved.value().clone(),
            found: found.map(|found| found.value().clone()),
        })
    }))
}

/// Returns the terms of the gradient in the order of [`GeluGrad`], built from operations that can
/// be differentiated again.
fn composed(form: GeluForm, grad: &Tensor, x: &Tensor) -> Result<Vec<Tensor>> {
    let half_around = |odd: &Tensor| affine(odd, 0.5, 0.5);
    let inner = times(&mul(grad, x)?, 0.5)?;
    match form {
        GeluForm::Erf => {
            let z = times(x, FRAC_1_SQRT_2)?;
            let slope = times(&mul(&inner, &bell(&z)?)?, FRAC_1_SQRT_2)?;
            Ok(vec![mul(grad, &half_around(&erf(&z)?)?)?, slope])
        }
        GeluForm::Tanh => {
            const CUBIC: f64 = 0.044715;
            const SCALE: f64 = FRAC_1_SQRT_2 * FRAC_2_SQRT_PI;
            let square_x = mul(x, x)?;
            let cube = mul(&square_x, x)?;
            let t = tanh(&times(&add(x, &times(&cube, CUBIC)?)?, SCALE)?)?;
            let h = times(&mul(&inner, &affine(&square(&t)?, -1.0, 1.0)?)?, SCALE)?;
            let k = times(&h, CUBIC)?;
            let last = mul(&mul(&k, x)?, x)?;
            Ok(vec![mul(grad, &half_around(&t)?)?, h, mul(&k, &square_x)?, last.clone(), last])
        }
    }
}
