//! Functions that choose among their arguments.

use samebits_macros::named;
use samebits_tensor_core::ops::{BinaryKind, Compare, CompareKind, UnaryKind, Where};
use samebits_tensor_core::{Error, Result};

use super::{binary, mul, times, unary};
use crate::functional::broadcast::sum_to;
use crate::{Tensor, run, untracked};

/// Returns `a` if the condition is true, else `b`, elementwise with broadcasting. An element that
/// is not chosen has no influence, even if it is NaN, and gets gradient +0.
///
/// # Errors
///
/// The shapes cannot be broadcast together, the types differ, or the condition is not of type
/// `Bool`.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let condition = Tensor::from_bools(&[true, false], &[2])?;
/// let a = Tensor::from_slice(&[1.0f32, 2.0], &[2])?;
/// let b = Tensor::scalar(f32::NAN);
/// let y = functional::where_(&condition, &a, &b)?.to_vec::<f32>()?;
/// assert!(y[0] == 1.0 && y[1].is_nan());
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[doc(alias = "where")]
#[named]
#[track_caller]
pub fn where_(condition: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let value = run(&Where {
        condition: condition.value().clone(),
        a: a.value().clone(),
        b: b.value().clone(),
    })?;
    let (condition, x, y) = (condition.clone(), a.clone(), b.clone());
    Ok(Tensor::computed(value, &[a, b], move |grad| {
        let zero = scalar_like(grad, 0.0)?;
        Ok(vec![
            super::wanted(&x, || sum_to(&where_(&condition, grad, &zero)?, x.shape()))?,
            super::wanted(&y, || sum_to(&where_(&condition, &zero, grad)?, y.shape()))?,
        ])
    }))
}

/// Computes `|x|`; the gradient at 0 is 0.
///
/// # Errors
///
/// The type is neither f32, f64 nor i64.
#[doc(alias = "absolute")]
#[named]
#[track_caller]
pub fn abs(x: &Tensor) -> Result<Tensor> {
    let saved = x.detach();
    Ok(Tensor::computed(unary(UnaryKind::Abs, x)?, &[x], move |grad| {
        Ok(vec![Some(mul(grad, &sign(&saved)?)?)])
    }))
}

/// Returns −1, +0 or 1 by the sign of `x`, and NaN for NaN; its gradient is 0.
///
/// # Errors
///
/// The type is neither f32, f64 nor i64.
#[doc(alias = "sgn")]
#[named]
#[track_caller]
pub fn sign(x: &Tensor) -> Result<Tensor> {
    let (one, zero) = (scalar_like(x, 1.0)?, scalar_like(x, 0.0)?);
    let positive = compare(CompareKind::Gt, x, 0.0)?;
    let negative = compare(CompareKind::Lt, x, 0.0)?;
    let ordered = relation(CompareKind::Eq, x, x)?;
    let rest = where_(&ordered, &zero, &x.detach())?;
    let below = where_(&negative, &scalar_like(x, -1.0)?, &rest)?;
    where_(&positive, &one, &below)
}

/// Returns the larger element of each pair, with broadcasting; NaN counts as the largest. Equal
/// elements each get half of the gradient.
///
/// # Errors
///
/// The shapes cannot be broadcast together, or the types differ.
#[named]
#[track_caller]
pub fn maximum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    extremum(BinaryKind::Maximum, CompareKind::Lt, a, b)
}

/// Returns the smaller element of each pair, with broadcasting; a NaN in either gives NaN. Equal
/// elements each get half of the gradient.
///
/// # Errors
///
/// As [`maximum`].
#[named]
#[track_caller]
pub fn minimum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    extremum(BinaryKind::Minimum, CompareKind::Gt, a, b)
}

/// Computes [`maximum`] or [`minimum`]. `loses` holds if the first operand is not chosen.
#[track_caller]
fn extremum(kind: BinaryKind, loses: CompareKind, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (x, y) = (a.clone(), b.clone());
    Ok(Tensor::computed(binary(kind, a, b)?, &[a, b], move |grad| {
        let zero = scalar_like(grad, 0.0)?;
        let equal = relation(CompareKind::Eq, &x, &y)?;
        let shared = where_(&equal, &times(grad, 0.5)?, grad)?;
        let share = |mine: &Tensor, other: &Tensor| {
            let lost = relation(loses, mine, other)?;
            sum_to(&where_(&lost, &zero, &shared)?, mine.shape())
        };
        Ok(vec![super::wanted(&x, || share(&x, &y))?, super::wanted(&y, || share(&y, &x))?])
    }))
}

/// Returns `x · weight`, or a zero if the weight is 0, even if `x` is infinite.
#[track_caller]
pub(in crate::functional) fn weigh(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let (a, b) = (x.clone(), weight.clone());
    Ok(Tensor::computed(binary(BinaryKind::Weigh, x, weight)?, &[x, weight], move |grad| {
        Ok(vec![
            super::wanted(&a, || sum_to(&mul(grad, &b)?, a.shape()))?,
            super::wanted(&b, || sum_to(&mul(grad, &a)?, b.shape()))?,
        ])
    }))
}

/// Compares each element with a number, which is first rounded to the element type.
#[track_caller]
pub(in crate::functional) fn compare(kind: CompareKind, x: &Tensor, bound: f64) -> Result<Tensor> {
    relation(kind, x, &scalar_like(x, bound)?)
}

/// Tests elementwise if the tensors are equal.
#[track_caller]
pub(in crate::functional) fn equal(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    relation(CompareKind::Eq, a, b)
}

/// Compares `a` with `b` by `kind`, with broadcasting.
#[track_caller]
pub(in crate::functional) fn relation(kind: CompareKind, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    untracked(&Compare { kind, a: a.value().clone(), b: b.value().clone() })
}

/// Rejects a number with a fraction beside an integer tensor.
pub(super) fn expect_held(op: &'static str, x: &Tensor, number: f64) -> Result<()> {
    let dtype = x.dtype();
    if dtype.is_float() || number.fract() == 0.0 {
        return Ok(());
    }
    Err(Error::invalid(op, format!("{number} cannot be combined with a tensor of type {dtype}")))
}

/// Returns a constant without dimensions, with the type and device of `x`.
pub(in crate::functional) fn scalar_like(x: &Tensor, value: f64) -> Result<Tensor> {
    Tensor::full(&[], value, x.dtype())?.to(x.device())
}

/// Multiplies as [`times`] does, for integers, too; returns `x` itself for a factor of 1.
#[track_caller]
pub(in crate::functional) fn scaled(x: &Tensor, factor: f64) -> Result<Tensor> {
    if factor == 1.0 { Ok(x.clone()) } else { super::mul(x, &scalar_like(x, factor)?) }
}
