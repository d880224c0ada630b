//! Integer division.

use samebits_macros::named;
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::BinaryKind;

use super::binary;
use crate::Tensor;
use crate::functional::{Operand, constant};

/// Divides i64 integers and rounds down, with broadcasting: Python's `//`. The smallest integer
/// divided by −1 wraps around.
///
/// # Errors
///
/// The shapes cannot be broadcast together, a type is not i64, or a divisor is 0.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([7, -7])?;
/// assert_eq!(x.floor_divide(2)?.to_vec::<i64>()?, [3, -4]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.floor_divide`.
#[named]
#[track_caller]
pub fn floor_divide(x: &Tensor, other: impl Operand) -> Result<Tensor> {
    let other = &other.operand("floor_divide", x)?;
    Ok(constant("floor_divide", binary(BinaryKind::FloorDivide, x, other)?, &[x, other]))
}

/// Returns the remainder of [`floor_divide`]; it has the divisor's sign, as Python's `%`. Rust's
/// `%` has the sign of the dividend.
///
/// # Errors
///
/// As [`floor_divide`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([7, -7])?;
/// assert_eq!(x.remainder(3)?.to_vec::<i64>()?, [1, 2]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.remainder`.
#[named]
#[track_caller]
pub fn remainder(x: &Tensor, other: impl Operand) -> Result<Tensor> {
    let other = &other.operand("remainder", x)?;
    Ok(constant("remainder", binary(BinaryKind::Remainder, x, other)?, &[x, other]))
}
