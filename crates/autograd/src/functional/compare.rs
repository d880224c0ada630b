//! Comparisons and logic. Their results are of type `Bool` and require no gradient.

use samebits_macros::named;
use samebits_tensor_core::ops::CompareKind;
use samebits_tensor_core::{DType, Error, Result};

use super::elementwise::{compare, relation};
use super::{to_dtype, where_};
use crate::{Number, Tensor};

/// What stands beside a tensor: another tensor, or a number, which takes the tensor's type. A number
/// is rounded to a float type; any other type has to hold it exactly.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1, 2, 3])?;
/// assert_eq!(x.gt(2)?.to_bools()?, [false, false, true]);
/// assert_eq!(x.gt(&Tensor::new([0, 2, 2])?)?.to_bools()?, [true, false, true]);
/// assert_eq!(x.gt(2.5).unwrap_err().to_string(), "gt: 2.5 beside a tensor of type i64");
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
pub trait Operand {
    /// The tensor that stands beside `like`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`], in the name of `op`, for a number that the type of `like` does
    /// not hold.
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
                return Err(Error::invalid(op, format!("{text} beside a tensor of type {to}")));
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
        /// The shapes cannot be broadcast together, the types differ, or the type of `x` does not
        /// hold the number.
        #[named]
        #[track_caller]
        pub fn $name(x: &Tensor, other: impl Operand) -> Result<Tensor> {
            relation(CompareKind::$kind, x, &other.operand(stringify!($name), x)?)
        }
    )*};
}

comparisons! {
    /// Returns where `x` equals `other`, with broadcasting. NaN equals nothing.
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
    /// Returns where `x` differs from `other`, with broadcasting. NaN differs from everything.
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
    ne, Ne;
    /// Returns where `x` is less than `other`, with broadcasting.
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
    lt, Lt;
    /// Returns where `x` is less than or equal to `other`, with broadcasting.
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
    le, Le;
    /// Returns where `x` is greater than `other`, with broadcasting.
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
    gt, Gt;
    /// Returns where `x` is greater than or equal to `other`, with broadcasting.
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
    ge, Ge;
}

/// Returns where `x` is 0 or false. NaN is not 0.
///
/// # Errors
///
/// There is no memory for the result.
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

/// Returns where neither `a` nor `b` is 0 or false, with broadcasting. The types may differ.
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

/// Returns where `a` or `b` is neither 0 nor false, with broadcasting. The types may differ.
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

/// Where `x` is neither 0 nor false.
#[track_caller]
fn truth(x: &Tensor) -> Result<Tensor> {
    compare(CompareKind::Ne, x, 0.0)
}
