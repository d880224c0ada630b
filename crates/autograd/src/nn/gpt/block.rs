//! The parts of a block: normalisation, attention and the feedforward part.

use samebits_macros::Module;
use samebits_tensor_core::Result;

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
        let [query, key, value] = self.projected(x)?;
        self.output.forward(&self.attend(&query, &key, &value, None)?.0)
    }

    /// Attends from the rows of `x`, `[total, width]`, to their own sequences. `pasts` has the
    /// number of new rows and the old keys and values of each sequence. Returns the new keys and
    /// values, too.
    pub(super) fn continued(
        &self,
        x: &Tensor,
        pasts: &[(usize, Option<&[Tensor; 2]>)],
    ) -> Result<(Tensor, Vec<[Tensor; 2]>)> {
        let projected = self.projected(x)?;
        let (mut outputs, mut seen, mut start) = (Vec::new(), Vec::new(), 0);
        for &(length, past) in pasts {
            let rows = |x: &Tensor| functional::narrow(x, 0, start, length);
            let [query, key, value] = &projected;
            let (y, pair) = self.attend(&rows(query)?, &rows(key)?, &rows(value)?, past)?;
            outputs.push(y);
            seen.push(pair);
            start += length;
        }
        Ok((self.output.forward(&cat(&outputs, 0)?)?, seen))
    }

    fn projected(&self, x: &Tensor) -> Result<[Tensor; 3]> {
        Ok([self.query.forward(x)?, self.key.forward(x)?, self.value.forward(x)?])
    }

    /// Attends to old and new keys. All arguments but `past` are `[.., length, width]`.
    fn attend(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        past: Option<&[Tensor; 2]>,
    ) -> Result<(Tensor, [Tensor; 2])> {
        let offset = past.map_or(0, |[key, _]| key.shape()[key.rank() - 2]);
        let split = |x: &Tensor, heads: usize| {
            functional::transpose(&functional::unflatten(x, -1, [heads as i64, -1])?, -3, -2)
        };
        let turn = |x: Tensor| match &self.rotary {
            Some(rotary) => rotary.forward(&x, offset),
            None => Ok(x),
        };
        let query = turn(split(query, self.heads)?)?;
        let mut pair = [turn(split(key, self.kv_heads)?)?, split(value, self.kv_heads)?];
        if let Some(past) = past {
            for (old, new) in past.iter().zip(&mut pair) {
                *new = cat(&[old, new], -2)?;
            }
        }
        let options = AttentionOptions {
            causal_offset: Some(offset),
            enable_gqa: true,
            ..AttentionOptions::default()
        };
        let y = scaled_dot_product_attention_with(&query, &pair[0], &pair[1], &options)?;
        Ok((functional::flatten(&functional::transpose(&y, -3, -2)?, -2, -1)?, pair))
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
