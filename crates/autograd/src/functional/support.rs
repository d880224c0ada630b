//! Masks, and results along a dimension that is kept or removed.

use samebits_macros::named;
use samebits_tensor_core::ops::Cast;
use samebits_tensor_core::{DType, Result};

use super::elementwise::{scalar_like, where_};
use super::shape::squeeze;
use crate::{Tensor, untracked};

/// Replaces elements of `x` with `value` if the mask is true, with broadcasting.
///
/// # Errors
///
/// The mask is not of type `Bool`, or the shapes cannot be broadcast together.
///
/// # References
///
/// `torch.masked_fill`.
#[named]
#[track_caller]
pub fn masked_fill(x: &Tensor, mask: &Tensor, value: f64) -> Result<Tensor> {
    where_(mask, &scalar_like(x, value)?, x)
}

/// Returns `x` if the mask is true, else +0, with broadcasting.
pub(super) fn masked(mask: &Tensor, x: &Tensor) -> Result<Tensor> {
    where_(mask, x, &scalar_like(x, 0.0)?)
}

/// Converts a mask to ones and zeros of the type of `grad`.
pub(super) fn mask_like(mask: &Tensor, grad: &Tensor) -> Result<Tensor> {
    debug_assert_eq!(mask.dtype(), DType::Bool, "a comparison gives truth values");
    untracked(&Cast { x: mask.value().clone(), to: grad.dtype() })
}

/// Returns values and indices with the dimension of size 1 kept or removed.
pub(super) fn pair_with_keepdim(
    value: Tensor,
    indices: Tensor,
    dim: usize,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    if keepdim {
        return Ok((value, indices));
    }
    Ok((squeeze(&value, [dim])?, indices.squeeze(dim)?))
}
