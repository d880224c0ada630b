//! Scaled dot-product attention.

use samebits_macros::named;
use samebits_tensor_core::ops::CompareKind;
use samebits_tensor_core::{DType, Error, Result};

use super::compare::{logical_not, logical_or};
use super::elementwise::{add, compare, relation, times};
use super::linear::matmul;
use super::reduce::all;
use super::support::masked_fill;
use super::{dropout, softmax, transpose};
use crate::Tensor;

/// Averages the values with weights `softmax(query · keyᵀ · scale)`. PyTorch's defaults are no
/// mask, a `dropout_p` of 0, not causal, and a scale of `1 / √width`.
///
/// In a boolean mask, true marks the keys that a query attends to. A float mask is added to the
/// scores; −∞ excludes a key. If a query attends to no key, its result and its gradient are zeros.
/// Dropout is applied in evaluation, too.
///
/// # Shapes
///
/// `query` is `[.., queries, width]`, `key` `[.., keys, width]` and `value` `[.., keys, features]`;
/// the result is `[.., queries, features]`. The mask broadcasts to `[.., queries, keys]`.
///
/// # Determinism
///
/// The queries are first multiplied by the scale. Composed of [`matmul`], [`softmax`] and
/// [`masked_fill`]: see *Attention* in `docs/numerics.md`.
///
/// # Errors
///
/// The shapes do not match, the types differ, or a mask is given although `is_causal` is true; or
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
    let mut masks = Masks::new(op);
    match attn_mask {
        Some(_) if is_causal => {
            return Err(Error::invalid(op, "a mask and is_causal: add the two masks yourself"));
        }
        Some(mask) if mask.dtype() == DType::Bool => masks.exclude(&logical_not(mask)?)?,
        Some(mask) => masks.add(mask)?,
        None if is_causal => {
            let rows = Tensor::arange(queries)?.unsqueeze(1)?;
            let later = relation(CompareKind::Gt, &Tensor::arange(keys)?, &rows)?;
            masks.exclude(&later.to(query.device())?)?;
        }
        None => {}
    }
    let scale = scale.unwrap_or(1.0 / (width as f64).sqrt());
    let scores = matmul(&times(query, scale)?, &transpose(key, -2, -1)?)?;
    let mut weights = masks.softmax(&scores)?;
    if dropout_p != 0.0 {
        weights = dropout(&weights, dropout_p)?;
    }
    matmul(&weights, value)
}

/// The masks of an attention: excluded keys, and numbers to add to the scores. All attention
/// functions use it.
pub(crate) struct Masks {
    op: &'static str,
    /// Masks to add to the scores, in order.
    added: Vec<Tensor>,
    /// True for the keys that a query does not attend to.
    hidden: Option<Tensor>,
}

impl Masks {
    /// Creates masks that exclude no key.
    pub(crate) fn new(op: &'static str) -> Masks {
        Masks { op, added: Vec::new(), hidden: None }
    }

    /// Excludes the keys for which `mask` is true.
    #[track_caller]
    pub(crate) fn exclude(&mut self, mask: &Tensor) -> Result<()> {
        self.hidden = Some(match &self.hidden {
            Some(hidden) => logical_or(hidden, mask)?,
            None => mask.clone(),
        });
        Ok(())
    }

    /// Adds numbers to the scores; −∞ excludes a key.
    #[track_caller]
    pub(crate) fn add(&mut self, mask: &Tensor) -> Result<()> {
        self.exclude(&compare(CompareKind::Eq, mask, f64::NEG_INFINITY)?)?;
        self.added.push(mask.clone());
        Ok(())
    }

    /// Returns the weights of the keys, the last dimension of the scores: a [`softmax`] over the
    /// keys that are not excluded, or 0 if all are. An excluded key has no influence, whatever its
    /// score, and gets gradient 0. A score that is itself −∞ or NaN enters the softmax.
    #[track_caller]
    pub(crate) fn softmax(&self, scores: &Tensor) -> Result<Tensor> {
        let mut seen = scores.clone();
        for mask in &self.added {
            if mask.dtype() != scores.dtype() {
                let (mask, scores) = (mask.dtype(), scores.dtype());
                let message = format!("expected a mask of type bool or {scores}, got {mask}");
                return Err(Error::invalid(self.op, message));
            }
            seen = add(&seen, mask)?;
        }
        let Some(hidden) = &self.hidden else { return softmax(&seen, -1) };
        let weights = softmax(&masked_fill(&seen, hidden, f64::NEG_INFINITY)?, -1)?;
        masked_fill(&weights, &all(hidden, -1, true)?, 0.0)
    }
}
