//! The parts of a block: normalisation, attention and the feedforward part.

use samebits_macros::Module;
use samebits_tensor_core::Result;

use super::KvCache;
use crate::functional::{AttentionOptions, cat, scaled_dot_product_attention_with};
use crate::nn::{Dropout, Layer, LayerNorm, Linear, RMSNorm, RotaryEmbedding};
use crate::{Tensor, functional};

/// The normalisation of a [`Gpt`](super::Gpt).
#[derive(Clone, Debug, Module)]
pub enum GptNorm {
    /// Layer normalisation.
    Layer(LayerNorm),
    /// Normalisation by the root mean square.
    Rms(RMSNorm),
}

impl Layer for GptNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            GptNorm::Layer(norm) => norm.forward(x),
            GptNorm::Rms(norm) => norm.forward(x),
        }
    }
}

/// The feedforward part of a [`GptBlock`]: `down(gelu(up(x)))`, or `down(silu(gate(x)) · up(x))`
/// with a gate.
#[derive(Clone, Debug, Module)]
pub struct GptFeedforward {
    /// The layer whose activation scales the hidden units, if there is one.
    pub gate: Option<Linear>,
    /// The layer from the model's width to the hidden width.
    pub up: Linear,
    /// The layer back.
    pub down: Linear,
    pub(super) tanh: bool,
}

impl Layer for GptFeedforward {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let up = self.up.forward(x)?;
        let hidden = match &self.gate {
            Some(gate) => functional::mul(&functional::silu(&gate.forward(x)?)?, &up)?,
            None if self.tanh => functional::gelu_tanh(&up)?,
            None => functional::gelu(&up)?,
        };
        self.down.forward(&hidden)
    }
}

/// Causal self-attention with grouped queries.
#[derive(Clone, Debug, Module)]
pub struct GptAttention {
    /// The projection to queries.
    pub query: Linear,
    /// The projection to keys.
    pub key: Linear,
    /// The projection to values.
    pub value: Linear,
    /// The projection of the heads' results.
    pub output: Linear,
    /// The rotation of queries and keys, if positions are rotary.
    pub rotary: Option<RotaryEmbedding>,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
}

impl GptAttention {
    /// Attends within each sequence of `x`, `[n, length, width]`.
    pub(super) fn whole(&self, x: &Tensor) -> Result<Tensor> {
        let [query, key, value] = self.split(self.projected(x)?, 0)?;
        self.output.forward(&self.attend(&query, [key, value], 0)?)
    }

    /// Attends from the rows of `x`, `[total, width]`, to their own sequences, of which `lengths`
    /// has the numbers of rows and `caches` the rows before, in layer `layer`. The caches receive the
    /// new rows.
    pub(super) fn continued(
        &self,
        x: &Tensor,
        layer: usize,
        lengths: &[usize],
        caches: &mut [&mut KvCache],
    ) -> Result<Tensor> {
        let projected = self.projected(x)?;
        let attend = |projected: [Tensor; 3], cache: &mut KvCache| {
            let offset = cache.len();
            let [query, key, value] = self.split(projected, offset)?;
            self.attend(&query, cache.extended(layer, [key, value])?, offset)
        };
        if let [cache] = caches {
            return self.output.forward(&attend(projected, cache)?);
        }
        let (mut outputs, mut start) = (Vec::new(), 0);
        for (&length, cache) in lengths.iter().zip(caches) {
            let [query, key, value] = &projected;
            let rows = |x: &Tensor| functional::narrow(x, 0, start, length);
            outputs.push(attend([rows(query)?, rows(key)?, rows(value)?], cache)?);
            start += length;
        }
        self.output.forward(&cat(&outputs, 0)?)
    }

    fn projected(&self, x: &Tensor) -> Result<[Tensor; 3]> {
        Ok([self.query.forward(x)?, self.key.forward(x)?, self.value.forward(x)?])
    }

    /// Splits queries, keys and values, `[.., length, width]`, into heads, `[.., heads, length, width
    /// of a head]`, and rotates queries and keys, whose first position is `offset`.
    fn split(&self, [query, key, value]: [Tensor; 3], offset: usize) -> Result<[Tensor; 3]> {
        let split = |x: &Tensor, heads: usize| {
            functional::transpose(&functional::unflatten(x, -1, [heads as i64, -1])?, -3, -2)
        };
        let turn = |x: Tensor| match &self.rotary {
            Some(rotary) => rotary.forward(&x, offset),
            None => Ok(x),
        };
        let query = turn(split(&query, self.heads)?)?;
        let key = turn(split(&key, self.kv_heads)?)?;
        Ok([query, key, split(&value, self.kv_heads)?])
    }

    /// Attends to old and new keys; the first query follows `offset` keys. Returns `[.., length,
    /// width]`.
    fn attend(&self, query: &Tensor, pair: [Tensor; 2], offset: usize) -> Result<Tensor> {
        let options = AttentionOptions {
            causal_offset: Some(offset),
            enable_gqa: true,
            ..AttentionOptions::default()
        };
        let [key, value] = &pair;
        let y = scaled_dot_product_attention_with(query, key, value, &options)?;
        functional::flatten(&functional::transpose(&y, -3, -2)?, -2, -1)
    }
}

/// A block of a [`Gpt`](super::Gpt): attention and a feedforward part, each after a normalisation
/// and added to its input.
#[derive(Clone, Debug, Module)]
pub struct GptBlock {
    /// The normalisation before attention.
    pub norm1: GptNorm,
    /// The attention.
    pub attention: GptAttention,
    /// The normalisation before the feedforward part.
    pub norm2: GptNorm,
    /// The feedforward part.
    pub feedforward: GptFeedforward,
    /// The dropout after attention and after the feedforward part.
    pub dropout: Dropout,
}

impl GptBlock {
    /// Computes the block; `attend` computes its attention.
    pub(super) fn forward(
        &self,
        x: &Tensor,
        attend: impl FnOnce(&GptAttention, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let y = attend(&self.attention, &self.norm1.forward(x)?)?;
        let x = functional::add(x, &self.dropout.forward(&y)?)?;
        let y = self.feedforward.forward(&self.norm2.forward(&x)?)?;
        functional::add(&x, &self.dropout.forward(&y)?)
    }
}
