//! The scope of mixed precision. Its rules are in `half`.

use std::cell::Cell;

use samebits_tensor_core::{DType, Error, Result};
use scopeguard::guard;

thread_local! {
    /// The type of [`autocast`], if this thread is inside.
    static AUTOCAST: Cell<Option<DType>> = const { Cell::new(None) };
}

/// Runs `f` with mixed precision on this thread. Products, convolutions, attention and recurrent
/// networks round arguments of f32 to `dtype`, `F16` or `BF16`, and give results of it. Functions
/// that need the range or the precision (exponentials, sums, softmax, normalisations, losses)
/// compute in f32 and give f32. All others take the type of their arguments, or f32 if these are of
/// both. Tensors of f64 are left alone. With `F32`, mixed precision is off inside `f`.
///
/// Parameters stay in f32, and so do their gradients: train as without. Call
/// [`backward`](crate::Tensor::backward) inside or outside, it makes no difference.
///
/// # Determinism
///
/// As the functions: each is that of f32 between exact conversions and one rounding.
///
/// # Errors
///
/// [`Error::DTypeMismatch`] if `dtype` is none of the three.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{DType, Tensor, autocast};
///
/// let x = Tensor::new([[1.0f32, 2.0]])?;
/// let weight = Tensor::new([[3.0f32], [0.1]])?;
/// let y = autocast(DType::BF16, || x.matmul(&weight))??;
/// assert_eq!(y.dtype(), DType::BF16);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.autocast`.
#[doc(alias = "amp")]
pub fn autocast<R>(dtype: DType, f: impl FnOnce() -> R) -> Result<R> {
    let low = match dtype {
        DType::F32 => None,
        _ if dtype.is_half() => Some(dtype),
        got => {
            let (what, expected) = ("the type of mixed precision", DType::BF16);
            return Err(Error::DTypeMismatch { op: "autocast", what, expected, got });
        }
    };
    Ok(with_autocast(low, f))
}

/// Returns the type of [`autocast`], if this thread is inside.
pub fn autocast_dtype() -> Option<DType> {
    AUTOCAST.get()
}

/// Runs `f` with mixed precision of this type, or without.
pub(crate) fn with_autocast<R>(low: Option<DType>, f: impl FnOnce() -> R) -> R {
    let _restored = guard(AUTOCAST.replace(low), |outer| AUTOCAST.set(outer));
    f()
}
