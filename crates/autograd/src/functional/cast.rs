use samebits_macros::named;
use samebits_tensor_core::ops::Cast;
use samebits_tensor_core::{DType, Result};

use super::constant;
use crate::{Tensor, run};

/// Converts `x` to another element type. Conversion to floats rounds once, to nearest even. From
/// floats to integers it truncates towards zero and saturates; NaN becomes 0. Between integers it
/// keeps the low bits. For `Bool`, everything but 0 becomes true.
///
/// The gradient passes between floats. For integers and booleans there is none: asking for it is an
/// error.
///
/// # Errors
///
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if there is no memory for the result.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{DType, Tensor};
///
/// let x = Tensor::new([-1.5f32, 0.0, 2.5])?;
/// assert_eq!(x.to_dtype(DType::I64)?.to_vec::<i64>()?, [-1, 0, 2]);
/// assert_eq!(Tensor::new([300i64, -1])?.to_dtype(DType::U8)?.to_vec::<u8>()?, [44, 255]);
/// assert_eq!(x.to_dtype(DType::Bool)?.to_bools()?, [true, false, true]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.Tensor.to` with a `dtype`.
#[named]
#[track_caller]
#[doc(alias = "float")]
#[doc(alias = "double")]
#[doc(alias = "half")]
#[doc(alias = "bfloat16")]
#[doc(alias = "type")]
pub fn to_dtype(x: &Tensor, dtype: DType) -> Result<Tensor> {
    let from = x.dtype();
    if from == dtype {
        return Ok(x.clone());
    }
    let value = run(&Cast { x: x.value().clone(), to: dtype })?;
    if !dtype.is_float() {
        return Ok(constant("to_dtype", value, &[x]));
    }
    Ok(Tensor::computed(value, &[x], move |grad| Ok(vec![Some(to_dtype(grad, from)?)])))
}
