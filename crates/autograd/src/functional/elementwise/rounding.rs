//! Rounding to integers. The gradients are 0, as in PyTorch; integer tensors are returned
//! unchanged.

use samebits_macros::named;
use samebits_tensor_core::ops::CompareKind;
use samebits_tensor_core::{DType, Result};

use super::{abs, affine, compare, neg, relation, scalar_like, sub, where_};
use crate::Tensor;

/// Rounds to the nearest integer, ties to even. The gradient is 0.
///
/// # Errors
///
/// The type is not numeric.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([0.5f32, 1.5, -2.6])?;
/// assert_eq!(x.round()?.to_vec::<f32>()?, [0.0, 2.0, -3.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.round`.
#[named]
#[track_caller]
pub fn round(x: &Tensor) -> Result<Tensor> {
    let x = x.detach();
    // From this magnitude on there are no fractions, and the sum below leaves no bit for one.
    let whole = match x.dtype() {
        DType::F64 => 1.0 / f64::EPSILON,
        DType::F32 => f64::from(1.0 / f32::EPSILON),
        _ => return abs(&x).map(|_| x),
    };
    let size = abs(&x)?;
    let nearest = affine(&affine(&size, 1.0, whole)?, 1.0, -whole)?;
    let nearest = where_(&compare(CompareKind::Lt, &x, 0.0)?, &neg(&nearest)?, &nearest)?;
    let nearest = where_(&compare(CompareKind::Lt, &size, whole)?, &nearest, &x)?;
    // Keep the sign of -0.
    where_(&compare(CompareKind::Eq, &x, 0.0)?, &x, &nearest)
}

/// Rounds down to an integer. The gradient is 0.
///
/// # Errors
///
/// The type is not numeric.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// assert_eq!(Tensor::new([1.5f32, -1.5])?.floor()?.to_vec::<f32>()?, [1.0, -2.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.floor`.
#[named]
#[track_caller]
pub fn floor(x: &Tensor) -> Result<Tensor> {
    let nearest = round(x)?;
    if !x.dtype().is_float() {
        return Ok(nearest);
    }
    let above = relation(CompareKind::Gt, &nearest, x)?;
    where_(&above, &affine(&nearest, 1.0, -1.0)?, &nearest)
}

/// Rounds up to an integer. The gradient is 0.
///
/// # Errors
///
/// The type is not numeric.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// assert_eq!(Tensor::new([1.5f32, -1.5])?.ceil()?.to_vec::<f32>()?, [2.0, -1.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.ceil`.
#[named]
#[track_caller]
pub fn ceil(x: &Tensor) -> Result<Tensor> {
    neg(&floor(&neg(&x.detach())?)?)
}

/// Rounds towards 0 to an integer. The gradient is 0.
///
/// # Errors
///
/// The type is not numeric.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// assert_eq!(Tensor::new([1.5f32, -1.5])?.trunc()?.to_vec::<f32>()?, [1.0, -1.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.trunc`.
#[doc(alias = "fix")]
#[named]
#[track_caller]
pub fn trunc(x: &Tensor) -> Result<Tensor> {
    where_(&compare(CompareKind::Lt, x, 0.0)?, &ceil(x)?, &floor(x)?)
}

/// Returns the fractional part `x − trunc(x)`, exactly. The gradient is 1.
///
/// # Errors
///
/// The type is not numeric.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// assert_eq!(Tensor::new([1.5f32, -1.25])?.frac()?.to_vec::<f32>()?, [0.5, -0.25]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.frac`.
#[named]
#[track_caller]
pub fn frac(x: &Tensor) -> Result<Tensor> {
    sub(x, &trunc(x)?)
}

/// Replaces NaN with `nan`, and the infinities with `posinf` and `neginf`; these default to the
/// largest and smallest finite numbers of the type. PyTorch's default for NaN is 0.
///
/// # Errors
///
/// The type is not numeric.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, f32::NAN, f32::INFINITY, f32::NEG_INFINITY])?;
/// let y = x.nan_to_num(0.0, None, Some(-9.0))?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 0.0, f32::MAX, -9.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nan_to_num`.
#[named]
#[track_caller]
pub fn nan_to_num(
    x: &Tensor,
    nan: f64,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<Tensor> {
    let largest = match x.dtype() {
        DType::F64 => f64::MAX,
        DType::F32 => f64::from(f32::MAX),
        _ => return abs(x).map(|_| x.clone()),
    };
    let ends = [
        (f64::INFINITY, posinf.unwrap_or(largest)),
        (f64::NEG_INFINITY, neginf.unwrap_or(-largest)),
    ];
    let mut y = where_(&relation(CompareKind::Eq, x, x)?, x, &scalar_like(x, nan)?)?;
    for (end, number) in ends {
        let infinite = compare(CompareKind::Eq, x, end)?;
        y = where_(&infinite, &scalar_like(x, number)?, &y)?;
    }
    Ok(y)
}
