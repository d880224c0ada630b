//! Powers, roots and their inverses.

use samebits_macros::named;
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{BinaryKind, CompareKind, UnaryKind};

use super::choice::{compare, expect_held, scalar_like, where_};
use super::{affine, binary, div, log, mul, neg, square, times, unary, wanted};
use crate::Tensor;
use crate::functional::broadcast::sum_to;

/// Computes `1 / √x`, rounded once.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn rsqrt(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Rsqrt, x)?, &[x], move |grad| {
        let y = rsqrt(&saved)?;
        let slope = times(&mul(&square(&y)?, &y)?, -0.5)?;
        Ok(vec![Some(mul(grad, &slope)?)])
    }))
}

/// Computes `1 / x`.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn reciprocal(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Reciprocal, x)?, &[x], move |grad| {
        Ok(vec![Some(neg(&mul(grad, &square(&reciprocal(&saved)?)?)?)?)])
    }))
}

/// Computes 2 to the power `x`.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn exp2(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Exp2, x)?, &[x], move |grad| {
        let slope = times(&exp2(&saved)?, std::f64::consts::LN_2)?;
        Ok(vec![Some(mul(grad, &slope)?)])
    }))
}

/// Computes the logarithm to base 2.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn log2(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Log2, x)?, &[x], move |grad| {
        Ok(vec![Some(div(grad, &times(&saved, std::f64::consts::LN_2)?)?)])
    }))
}

/// Computes the logarithm to base 10.
///
/// # Errors
///
/// The type is not a float.
#[named]
#[track_caller]
pub fn log10(x: &Tensor) -> Result<Tensor> {
    let saved = x.clone();
    Ok(Tensor::computed(unary(UnaryKind::Log10, x)?, &[x], move |grad| {
        Ok(vec![Some(div(grad, &times(&saved, std::f64::consts::LN_10)?)?)])
    }))
}

/// Raises each element to its own power, with broadcasting and the special values of C's `pow`.
/// Integers are i64 and wrap around.
///
/// The gradient of the base is 0 if the exponent is 0. The gradient of the exponent is 0 if the
/// base is 0 and the exponent is not negative.
///
/// # Errors
///
/// The shapes cannot be broadcast together, the types differ, or an integer exponent is negative.
#[named]
#[track_caller]
pub fn pow(x: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let (base, power) = (x.clone(), exponent.clone());
    Ok(Tensor::computed(binary(BinaryKind::Pow, x, exponent)?, &[x, exponent], move |grad| {
        let zero = scalar_like(grad, 0.0)?;
        let of_base = || {
            let slope = mul(&power, &pow(&base, &affine(&power, 1.0, -1.0)?)?)?;
            let constant = compare(CompareKind::Eq, &power, 0.0)?;
            sum_to(&mul(grad, &where_(&constant, &zero, &slope)?)?, base.shape())
        };
        let of_power = || {
            let flat = compare(CompareKind::Eq, &base, 0.0)?;
            let defined = compare(CompareKind::Ge, &power, 0.0)?;
            let slope = mul(&pow(&base, &power)?, &log(&base)?)?;
            let inner = where_(&defined, &zero, &slope)?;
            sum_to(&mul(grad, &where_(&flat, &inner, &slope)?)?, power.shape())
        };
        Ok(vec![wanted(&base, of_base)?, wanted(&power, of_power)?])
    }))
}

/// Raises each element to the power `exponent`, which is first rounded to the element type.
///
/// # Errors
///
/// The type is neither f32, f64 nor i64, or the exponent of an integer tensor is negative or has a
/// fraction.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[2.0f32, -3.0], &[2])?.set_requires_grad(true)?;
/// let y = functional::pow_scalar(&x, 3.0)?;
/// assert_eq!(y.to_vec::<f32>()?, [8.0, -27.0]);
/// assert_eq!(y.sum_all()?.backward()?.of(&x).unwrap().to_vec::<f32>()?, [12.0, 27.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[named]
#[track_caller]
pub fn pow_scalar(x: &Tensor, exponent: f64) -> Result<Tensor> {
    expect_held("pow_scalar", x, exponent)?;
    pow(x, &scalar_like(x, exponent)?)
}
