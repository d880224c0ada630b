//! Attention.

use samebits_macros::named;
use samebits_tensor_core::ops::CompareKind;
use samebits_tensor_core::{DType, Error, Result};

use super::elementwise::{add, relation, scalar_like, times, where_};
use super::linear::matmul;
use super::reduce::any;
use super::{dropout, softmax, transpose};
use crate::Tensor;

/// The values averaged with weights `softmax(query · keyᵀ · scale)`. PyTorch's defaults are no mask, a
/// `dropout_p` of 0, not causal, and a scale of `1 / √width`.
///
/// A mask is of truth values, true for the keys that a query attends to, or of numbers that are added
/// to the scores. A query whose mask of truth values allows no key finds zeros. Dropout draws also in
/// evaluation.
///
/// # Shapes
///
/// `query` is `[.., queries, width]`, `key` `[.., keys, width]`, `value` `[.., keys, features]`, the
/// result `[.., queries, features]`; the mask broadcasts to `[.., queries, keys]`.
///
/// # Determinism
///
/// The queries are multiplied with the scale first. Composed of [`matmul`] and [`softmax`].
///
/// # Errors
///
/// The shapes do not go together, the types differ, there is a mask although `is_causal` is true; or
/// as [`dropout`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::functional::scaled_dot_product_attention;
/// use samebits_autograd::{DType, Tensor};
///
/// let x = Tensor::ones(&[2, 4, 5, 8], DType::F32)?;
/// let y = scaled_dot_product_attention(&x, &x, &x, None, 0.0, true, None)?;
/// assert_eq!(y.shape(), [2, 4, 5, 8]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.scaled_dot_product_attention`.
#[named]
#[track_caller]
pub fn scaled_dot_product_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    dropout_p: f64,
    is_causal: bool,
    scale: Option<f64>,
) -> Result<Tensor> {
    let op = "scaled_dot_product_attention";
    let (&[.., queries, width], &[.., keys, _]) = (query.shape(), key.shape()) else {
        let (query, key) = (query.shape(), key.shape());
        let message = format!(
            "expected [.., queries, width] and [.., keys, width], got {query:?} and {key:?}"
        );
        return Err(Error::invalid(op, message));
    };
    let earlier = match (attn_mask, is_causal) {
        (Some(_), true) => {
            return Err(Error::invalid(op, "a mask and is_causal: add the two masks yourself"));
        }
        (None, true) => {
            let rows = Tensor::arange(queries)?.unsqueeze(1)?;
            let earlier = relation(CompareKind::Le, &Tensor::arange(keys)?, &rows)?;
            Some(earlier.to(query.device())?)
        }
        _ => None,
    };
    let scale = scale.unwrap_or(1.0 / (width as f64).sqrt());
    let scores = matmul(&times(query, scale)?, &transpose(key, -2, -1)?)?;
    let mut weights = match attn_mask.or(earlier.as_ref()) {
        None => softmax(&scores, -1)?,
        Some(mask) if mask.dtype() == DType::Bool => {
            let kept = where_(mask, &scores, &scalar_like(&scores, f64::NEG_INFINITY)?)?;
            let weights = softmax(&kept, -1)?;
            where_(&any(mask, -1, true)?, &weights, &scalar_like(&weights, 0.0)?)?
        }
        Some(mask) => softmax(&add(&scores, mask)?, -1)?,
    };
    if dropout_p != 0.0 {
        weights = dropout(&weights, dropout_p)?;
    }
    matmul(&weights, value)
}
