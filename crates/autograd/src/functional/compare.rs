//! Comparisons and logic. Results are of type `Bool` and require no gradient.

use samebits_macros::named;
use samebits_tensor_core::ops::CompareKind;
use samebits_tensor_core::{DType, Error, Result};

use super::elementwise::{abs, affine, compare, relation, sub};
use super::reduce::all;
use super::{to_dtype, where_};
use crate::{Number, Tensor};

/// The other operand beside a tensor: a tensor, or a number that takes the tensor's type. A float
/// type rounds the number; any other type must represent it exactly.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1, 2, 3])?;
/// assert_eq!(x.gt(2)?.to_bools()?, [false, false, true]);
/// assert_eq!(x.gt(&Tensor::new([0, 2, 2])?)?.to_bools()?, [true, false, true]);
/// assert_eq!(x.gt(2.5).unwrap_err().to_string(), "gt: 2.5 cannot be combined with a tensor of type i64");
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
pub trait Operand {
    /// Returns the operand as a tensor beside `like`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`], naming `op`, if the type of `like` cannot represent the number.
    fn operand(self, op: &'static str, like: &Tensor) -> Result<Tensor>;
}

impl Operand for &Tensor {
    fn operand(self, _: &'static str, _: &Tensor) -> Result<Tensor> {
        Ok(self.clone())
    }
}

impl<N: Number> Operand for N {
    fn operand(self, op: &'static str, like: &Tensor) -> Result<Tensor> {
        let (number, to) = (N::tensor(&[self], &[])?, like.dtype());
        let held = to_dtype(&number, to)?;
        if !to.is_float() {
            let text = match number.dtype().is_float() {
                true => Some(to_dtype(&number, DType::F64)?.item::<f64>()?.to_string()),
                false => {
                    let wide = to_dtype(&number, DType::I64)?.item::<i64>()?;
                    let kept = to_dtype(&held, DType::I64)?.item::<i64>()? == wide;
                    (!kept).then(|| wide.to_string())
                }
            };
            if let Some(text) = text {
                return Err(Error::invalid(
                    op,
                    format!("{text} cannot be combined with a tensor of type {to}"),
                ));
            }
        }
        held.to(like.device())
    }
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident, $kind:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// The shapes cannot be broadcast together, the types differ, or the type of `x` cannot
        /// represent the number.
        #[named]
        #[track_caller]
        pub fn $name(x: &Tensor, other: impl Operand) -> Result<Tensor> {
            relation(CompareKind::$kind, x, &other.operand(stringify!($name), x)?)
        }
    )*};
}

comparisons! {
    /// Tests elementwise if `x` equals `other`, with broadcasting. NaN equals nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::Tensor;
    ///
    /// let x = Tensor::new([1.0f32, 2.0, f32::NAN])?;
    /// assert_eq!(x.eq(2.0)?.to_bools()?, [false, true, false]);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    eq, Eq;
    /// Tests elementwise if `x` differs from `other`, with broadcasting. NaN differs from
    /// everything.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::Tensor;
    ///
    /// let x = Tensor::new([1.0f32, 2.0, f32::NAN])?;
    /// assert_eq!(x.ne(2.0)?.to_bools()?, [true, false, true]);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    #[doc(alias = "not_equal")]
    ne, Ne;
    /// Tests elementwise if `x` is less than `other`, with broadcasting.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::Tensor;
    ///
    /// let x = Tensor::new([1.0f32, 2.0, 3.0])?;
    /// assert_eq!(x.lt(2.0)?.to_bools()?, [true, false, false]);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    #[doc(alias = "less")]
    lt, Lt;
    /// Tests elementwise if `x` is less than or equal to `other`, with broadcasting.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::Tensor;
    ///
    /// let x = Tensor::new([1.0f32, 2.0, 3.0])?;
    /// assert_eq!(x.le(2.0)?.to_bools()?, [true, true, false]);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    #[doc(alias = "less_equal")]
    le, Le;
    /// Tests elementwise if `x` is greater than `other`, with broadcasting.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::Tensor;
    ///
    /// let x = Tensor::new([1.0f32, 2.0, 3.0])?;
    /// assert_eq!(x.gt(2.0)?.to_bools()?, [false, false, true]);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    #[doc(alias = "greater")]
    gt, Gt;
    /// Tests elementwise if `x` is greater than or equal to `other`, with broadcasting.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::Tensor;
    ///
    /// let x = Tensor::new([1.0f32, 2.0, 3.0])?;
    /// assert_eq!(x.ge(2.0)?.to_bools()?, [false, true, true]);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    #[doc(alias = "greater_equal")]
    ge, Ge;
}

/// Tests elementwise if `x` is 0 or false. NaN is not 0.
///
/// # Errors
///
/// [`Error::OutOfMemory`] if there is no memory for the result.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, 2.0, 3.0])?;
/// assert_eq!(x.gt(2.0)?.logical_not()?.to_bools()?, [true, true, false]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
#[track_caller]
pub fn logical_not(x: &Tensor) -> Result<Tensor> {
    compare(CompareKind::Eq, x, 0.0)
}

/// Tests elementwise if `a` and `b` are both neither 0 nor false, with broadcasting. The types may
/// differ.
///
/// # Errors
///
/// The shapes cannot be broadcast together.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, 2.0, 3.0])?;
/// let inside = x.gt(1.0)?.logical_and(&x.lt(3.0)?)?;
/// assert_eq!(inside.to_bools()?, [false, true, false]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
#[track_caller]
pub fn logical_and(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let a = truth(a)?;
    where_(&a, &truth(b)?, &a)
}

/// Tests elementwise if `a` or `b` is neither 0 nor false, with broadcasting. The types may differ.
///
/// # Errors
///
/// The shapes cannot be broadcast together.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, 2.0, 3.0])?;
/// let outside = x.lt(2.0)?.logical_or(&x.gt(2.0)?)?;
/// assert_eq!(outside.to_bools()?, [true, false, true]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
#[track_caller]
pub fn logical_or(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let a = truth(a)?;
    where_(&a, &a, &truth(b)?)
}

/// Tests elementwise if exactly one of `a` and `b` is neither 0 nor false, with broadcasting. The
/// types may differ.
///
/// # Errors
///
/// The shapes cannot be broadcast together.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let (a, b) = (Tensor::new([true, true, false])?, Tensor::new([0, 1, 2])?);
/// assert_eq!(a.logical_xor(&b)?.to_bools()?, [true, false, true]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.logical_xor`.
#[named]
#[track_caller]
pub fn logical_xor(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    relation(CompareKind::Ne, &truth(a)?, &truth(b)?)
}

/// Tests elementwise if `x` is NaN; integers never are.
///
/// # Errors
///
/// [`Error::OutOfMemory`] if there is no memory for the result.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, f32::NAN, f32::INFINITY])?;
/// assert_eq!(x.isnan()?.to_bools()?, [false, true, false]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.isnan`.
#[named]
#[track_caller]
pub fn isnan(x: &Tensor) -> Result<Tensor> {
    relation(CompareKind::Ne, x, x)
}

/// Tests elementwise if `x` is +∞ or −∞; integers never are.
///
/// # Errors
///
/// [`Error::OutOfMemory`] if there is no memory for the result.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, f32::NAN, f32::NEG_INFINITY])?;
/// assert_eq!(x.isinf()?.to_bools()?, [false, false, true]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.isinf`.
#[named]
#[track_caller]
pub fn isinf(x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_float() {
        return isnan(x);
    }
    let [above, below] =
        [f64::INFINITY, f64::NEG_INFINITY].map(|end| compare(CompareKind::Eq, x, end));
    logical_or(&above?, &below?)
}

/// Tests elementwise if `x` is neither infinite nor NaN; integers always pass.
///
/// # Errors
///
/// [`Error::OutOfMemory`] if there is no memory for the result.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, f32::NAN, f32::INFINITY])?;
/// assert_eq!(x.isfinite()?.to_bools()?, [true, false, false]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.isfinite`.
#[named]
#[track_caller]
pub fn isfinite(x: &Tensor) -> Result<Tensor> {
    logical_not(&logical_or(&isnan(x)?, &isinf(x)?)?)
}

/// Tests elementwise if `a` and `b` are equal or `|a − b| ≤ atol + rtol · |b|`, with broadcasting.
/// NaN is close to nothing, except to NaN with `equal_nan`. PyTorch's defaults are 1e-5, 1e-8 and
/// false.
///
/// # Determinism
///
/// Each operation is rounded to the type.
///
/// # Errors
///
/// The shapes cannot be broadcast together, the types differ or are not floats, or a tolerance is
/// negative or NaN.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let (a, b) = (Tensor::new([1.0f32, 2.0])?, Tensor::new([1.000001f32, 2.1])?);
/// let close = functional::isclose(&a, &b, 1e-5, 1e-8, false)?;
/// assert_eq!(close.to_bools()?, [true, false]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.isclose`.
#[named]
#[track_caller]
pub fn isclose(a: &Tensor, b: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<Tensor> {
    for tolerance in [rtol, atol] {
        if tolerance.is_nan() || tolerance < 0.0 {
            let message = format!("tolerances must be at least 0, got rtol {rtol} and atol {atol}");
            return Err(Error::invalid("isclose", message));
        }
    }
    let (a, b) = (a.detach(), b.detach());
    let allowed = affine(&abs(&b)?, rtol, atol)?;
    // An infinity is close only to itself.
    let near = relation(CompareKind::Le, &abs(&sub(&a, &b)?)?, &allowed)?;
    let near = logical_and(&near, &isfinite(&b)?)?;
    let mut close = logical_or(&near, &relation(CompareKind::Eq, &a, &b)?)?;
    if equal_nan {
        close = logical_or(&close, &logical_and(&isnan(&a)?, &isnan(&b)?)?)?;
    }
    Ok(close)
}

/// Returns whether all elements are close by the test of [`isclose`].
///
/// # Errors
///
/// As [`isclose`].
///
/// # References
///
/// `torch.allclose`.
#[named]
#[track_caller]
pub fn allclose(a: &Tensor, b: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
    let close = isclose(a, b, rtol, atol, equal_nan)?;
    Ok(all(&close, (), false)?.to_bools()? == [true])
}

/// Returns whether the tensors have the same shape and equal elements. NaN equals nothing.
///
/// # Errors
///
/// The types differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let (a, b) = (Tensor::new([1, 2])?, Tensor::new([[1, 2]])?);
/// assert!(functional::equal(&a, &a)? && !functional::equal(&a, &b)?);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.equal`.
#[named]
#[track_caller]
pub fn equal(a: &Tensor, b: &Tensor) -> Result<bool> {
    if a.dtype() == b.dtype() && a.shape() != b.shape() {
        return Ok(false);
    }
    let same = relation(CompareKind::Eq, a, b)?;
    Ok(all(&same, (), false)?.to_bools()? == [true])
}

/// Tests elementwise if `x` is neither 0 nor false.
#[track_caller]
fn truth(x: &Tensor) -> Result<Tensor> {
    compare(CompareKind::Ne, x, 0.0)
}
