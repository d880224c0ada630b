//! Scaled dot-product attention.

mod definition;
mod fused;
mod masks;

use samebits_macros::named;
use samebits_rng::{Draw, Generator};
use samebits_tensor_core::layout::{broadcast, numel};
use samebits_tensor_core::{Error, Result};

use super::{reshape, unsqueeze};
use crate::Tensor;
use crate::scope::with_generator;
pub(crate) use masks::Masks;

/// Options of [`scaled_dot_product_attention_with`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'a> {
    /// Truth values, where true marks the keys that a query attends to, or numbers that are added
    /// to the scores, where −∞ excludes a key.
    pub attn_mask: Option<&'a Tensor>,
    /// The probability of dropping a weight; dropout is applied in evaluation, too.
    pub dropout_p: f64,
    /// With `Some(offset)`, query `i` attends to keys `0` to `i + offset` only. An offset of 0 is
    /// PyTorch's `is_causal`, aligned at the top left. If the queries follow `n` keys of a cache,
    /// the offset is `n`.
    pub causal_offset: Option<usize>,
    /// The factor of the queries; `None` means `1 / √width`.
    pub scale: Option<f64>,
    /// If true, queries may have a multiple of the heads of keys and values: consecutive query
    /// heads share a key head.
    pub enable_gqa: bool,
}

/// Averages the values with weights `softmax(query · keyᵀ · scale)`. PyTorch's defaults are no
/// mask, a `dropout_p` of 0, not causal, and a scale of `1 / √width`.
///
/// In a boolean mask, true marks the keys that a query attends to. A float mask is added to the
/// scores; −∞ excludes a key. If a query attends to no key, its result and its gradient are zeros.
/// Dropout is applied in evaluation, too. [`scaled_dot_product_attention_with`] has more options.
///
/// # Shapes
///
/// `query` is `[.., queries, width]`, `key` `[.., keys, width]` and `value` `[.., keys, features]`;
/// the result is `[.., queries, features]`. The mask broadcasts to `[.., queries, keys]`.
///
/// # Determinism
///
/// As [`scaled_dot_product_attention_with`].
///
/// # Errors
///
/// As [`scaled_dot_product_attention_with`]; or a mask is given although `is_causal` is true.
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
    if attn_mask.is_some() && is_causal {
        let message = "expected a mask or is_causal, got both; scaled_dot_product_attention_with \
                       takes both";
        return Err(Error::invalid("scaled_dot_product_attention", message));
    }
    let causal_offset = is_causal.then_some(0);
    let options =
        AttentionOptions { attn_mask, dropout_p, causal_offset, scale, enable_gqa: false };
    scaled_dot_product_attention_with(query, key, value, &options)
}

/// Averages the values with weights `softmax(query · keyᵀ · scale)` over the keys that no mask
/// excludes.
///
/// If a query attends to no key, its result and its gradient are zeros. An excluded key has no
/// influence, whatever its score, and its score has gradient 0; but its weight of 0 is multiplied by
/// its value, so an infinite or NaN value gives NaN.
///
/// # Shapes
///
/// `query` is `[.., queries, width]`, `key` `[.., keys, width]` and `value` `[.., keys, features]`;
/// the result is `[.., queries, features]`. The mask broadcasts to `[.., queries, keys]`. With
/// `enable_gqa`, the third dimension from the end are the heads: `query` has a multiple of those of
/// `key` and `value`.
///
/// # Determinism
///
/// A composition of public operators, defined under *Attention* in `docs/book/numerics.md`. Kernels
/// with its bits need memory that grows with the length of the sequence, where the composition needs
/// queries times keys; only the gradient of a mask of numbers, and second derivatives, need that. A query's result does not
/// depend on the other queries, nor on keys that its causal mask excludes at the end, if their
/// values are finite. Dropout draws one number for each weight, in row-major order of `[..,
/// queries, keys]`.
///
/// # Errors
///
/// The shapes do not match, the types differ, the heads of queries are not a multiple of those of
/// keys and values; or as [`dropout`](super::dropout).
///
/// # Examples
///
/// ```
/// use samebits_autograd::functional::{AttentionOptions, scaled_dot_product_attention_with};
/// use samebits_autograd::{DType, Tensor};
///
/// // Two new tokens after a cache of three; four heads share two of keys and values.
/// let query = Tensor::ones(&[4, 2, 8], DType::F32)?;
/// let cached = Tensor::ones(&[2, 5, 8], DType::F32)?;
/// let options =
///     AttentionOptions { causal_offset: Some(3), enable_gqa: true, ..AttentionOptions::default() };
/// let y = scaled_dot_product_attention_with(&query, &cached, &cached, &options)?;
/// assert_eq!(y.shape(), [4, 2, 8]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.scaled_dot_product_attention`.
#[named]
#[track_caller]
pub fn scaled_dot_product_attention_with(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: &AttentionOptions<'_>,
) -> Result<Tensor> {
    let op = "scaled_dot_product_attention_with";
    let width = query.shape().last().copied().unwrap_or(0);
    let scale = options.scale.unwrap_or(1.0 / (width as f64).sqrt());
    let mut masks = Masks::new(op, query.dtype());
    if let Some(offset) = options.causal_offset {
        masks.causal(offset);
    }
    let grouped = options.enable_gqa.then(|| Groups::new(op, query, key, value)).transpose()?;
    let grouped = grouped.filter(|groups| groups.each > 1);
    if let Some(mask) = options.attn_mask {
        let mask = match &grouped {
            Some(groups) => groups.mask(op, mask)?,
            None => mask.clone(),
        };
        masks.shown(&mask)?;
    }
    let Some(groups) = grouped else {
        let attention = Attention::new(op, query, key, value, masks, scale)?;
        return attention.dropped(options.dropout_p)?.output();
    };
    let (key, value) = (unsqueeze(key, -3)?, unsqueeze(value, -3)?);
    let attention = Attention::new(op, &groups.split(query)?, &key, &value, masks, scale)?;
    let y = attention.dropped(options.dropout_p)?.output()?;
    let mut shape = y.shape().to_vec();
    let heads = shape.len() - 4;
    shape.splice(heads..heads + 2, [groups.heads * groups.each]);
    reshape(&y, &shape)
}

/// Heads of queries that share heads of keys and values.
struct Groups {
    /// The number of heads of keys.
    heads: usize,
    /// The number of consecutive query heads for each.
    each: usize,
}

impl Groups {
    fn new(op: &'static str, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Groups> {
        let shapes = [query.shape(), key.shape(), value.shape()];
        let heads = shapes.map(|shape| shape.len().checked_sub(3).map(|dim| shape[dim]));
        match heads {
            [Some(of_queries), Some(heads), Some(of_values)]
                if heads == of_values && heads > 0 && of_queries.is_multiple_of(heads) =>
            {
                Ok(Groups { heads, each: of_queries / heads })
            }
            _ => {
                let [query, key, value] = shapes;
                let message = format!(
                    "expected [.., heads, length, width] with a multiple of the heads of keys and \
                     values in the query, got {query:?}, {key:?} and {value:?}"
                );
                Err(Error::invalid(op, message))
            }
        }
    }

    /// Splits the dimension of query heads into groups and heads within a group.
    fn split(&self, x: &Tensor) -> Result<Tensor> {
        let mut shape = x.shape().to_vec();
        let dim = shape.len() - 3;
        shape.splice(dim..=dim, [self.heads, self.each]);
        reshape(x, &shape)
    }

    fn mask(&self, op: &'static str, mask: &Tensor) -> Result<Tensor> {
        let shape = mask.shape();
        match shape.len().checked_sub(3).map(|dim| shape[dim]) {
            None => Ok(mask.clone()),
            Some(1) => unsqueeze(mask, -3),
            Some(heads) if heads == self.heads * self.each => self.split(mask),
            Some(_) => {
                let heads = self.heads * self.each;
                let message = format!("expected a mask for 1 or {heads} heads, got {shape:?}");
                Err(Error::invalid(op, message))
            }
        }
    }
}

/// One call of attention, after all checks.
#[derive(Clone)]
pub(crate) struct Attention {
    op: &'static str,
    /// `[.., queries, width]`.
    query: Tensor,
    /// `[.., keys, width]`.
    key: Tensor,
    /// `[.., keys, features]`.
    value: Tensor,
    masks: Masks,
    scale: f64,
    /// The shape of the scores.
    scores: Vec<usize>,
    /// The probability of dropping a weight, and the generator at the start of the draw.
    dropout: Option<(f64, Generator)>,
}

impl Attention {
    pub(crate) fn new(
        op: &'static str,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        masks: Masks,
        scale: f64,
    ) -> Result<Attention> {
        let shapes = [query.shape(), key.shape(), value.shape()];
        let [[q @ .., queries, width], [k @ .., keys, key_width], [v @ .., values, _]] = shapes
        else {
            return Err(mismatch(op, shapes));
        };
        if width != key_width || keys != values {
            return Err(mismatch(op, shapes));
        }
        for x in [key, value] {
            if x.dtype() != query.dtype() {
                let (a, b) = (query.dtype(), x.dtype());
                let message =
                    format!("expected queries, keys and values of one type, got {a} and {b}");
                return Err(Error::invalid(op, message));
            }
        }
        let mut batch = broadcast(op, &broadcast(op, q, k)?, v)?;
        for mask in masks.tensors() {
            let shape = mask.shape();
            let (outer, inner) = shape.split_at(shape.len().saturating_sub(2));
            let fits = broadcast(op, inner, &[*queries, *keys]);
            if !fits.is_ok_and(|both| both[..] == [*queries, *keys]) {
                let message = format!(
                    "expected a mask that broadcasts to [.., {queries}, {keys}], got {shape:?}"
                );
                return Err(Error::invalid(op, message));
            }
            batch = broadcast(op, &batch, outer)?;
        }
        let scores = [&batch[..], &[*queries, *keys]].concat();
        let [query, key, value] = [query, key, value].map(Tensor::clone);
        Ok(Attention { op, query, key, value, masks, scale, scores, dropout: None })
    }

    /// Drops weights with probability `p`, with numbers from the generator in force.
    pub(crate) fn dropped(self, p: f64) -> Result<Attention> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::invalid(self.op, format!("expected 0 <= p <= 1, got {p}")));
        }
        let count = numel(self.op, &self.scores)?;
        if p == 0.0 || count == 0 {
            return Ok(self);
        }
        with_generator(self.op, self.query.device(), |generator| {
            let start = generator.clone();
            generator.advance(Draw::blocks_u32(count));
            Ok(Attention { dropout: Some((p, start)), ..self })
        })
    }

    /// Returns the averages of the values, `[.., queries, features]`.
    #[track_caller]
    pub(crate) fn output(self) -> Result<Tensor> {
        self.fused()
    }

    /// Returns the weights of the keys, `[.., queries, keys]`.
    #[track_caller]
    pub(crate) fn weights(self) -> Result<Tensor> {
        let value = crate::no_grad(|| self.composed_weights())?.value().clone();
        let inputs = self.clone();
        Ok(Tensor::computed(value, &inputs.inputs(), move |grad| self.gradients_of_weights(grad)))
    }

    /// Returns the numbers of queries and keys.
    fn lengths(&self) -> (usize, usize) {
        let rank = self.scores.len();
        (self.scores[rank - 2], self.scores[rank - 1])
    }

    /// Returns the tensors that have gradients.
    fn inputs(&self) -> Vec<&Tensor> {
        let three = [&self.query, &self.key, &self.value];
        three.into_iter().chain(self.masks.added()).collect()
    }
}

fn mismatch(op: &'static str, [query, key, value]: [&[usize]; 3]) -> Error {
    let message = format!(
        "expected [.., queries, width], [.., keys, width] and [.., keys, features], got {query:?}, \
         {key:?} and {value:?}"
    );
    Error::invalid(op, message)
}
