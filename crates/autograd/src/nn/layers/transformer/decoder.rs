use samebits_macros::{Module, layer};
use samebits_tensor_core::Result;

use super::{
    Attend, Dropout, LayerNorm, Linear, MultiheadAttention, TransformerActivation,
    TransformerLayerOptions, stacked,
};
use crate::nn::Layer;
use crate::nn::options::init_with;
use crate::{Tensor, functional};

/// A Transformer decoder layer: self-attention, attention to the encoder's output, and two linear
/// layers, each with a residual connection and layer normalisation.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::nn::{Attend, TransformerDecoderLayer};
/// use samebits::{DType, Tensor};
///
/// samebits_tensor_core::random::manual_seed(0);
/// let layer = TransformerDecoderLayer::options(16, 4).batch_first(true).init()?;
/// let (x, memory) = (Tensor::ones(&[2, 5, 16], DType::F32)?, Tensor::ones(&[2, 7, 16], DType::F32)?);
/// let causal = Attend { is_causal: true, ..Attend::default() };
/// assert_eq!(layer.forward(&x, &memory, causal, Attend::default())?.shape(), [2, 5, 16]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.TransformerDecoderLayer`.
#[derive(Clone, Debug, Module)]
pub struct TransformerDecoderLayer {
    /// The self-attention.
    pub self_attn: MultiheadAttention,
    /// The attention to the encoder's output (`memory`).
    pub multihead_attn: MultiheadAttention,
    /// The first linear layer: from the width of the model to that of the feedforward part.
    pub linear1: Linear,
    /// The dropout between the two linear layers.
    pub dropout: Dropout,
    /// The second linear layer: back to the width of the model.
    pub linear2: Linear,
    /// The normalisation of the self-attention.
    pub norm1: LayerNorm,
    /// The normalisation of the attention to `memory`.
    pub norm2: LayerNorm,
    /// The normalisation of the feedforward part.
    pub norm3: LayerNorm,
    /// The dropout after the self-attention.
    pub dropout1: Dropout,
    /// The dropout after the attention to `memory`.
    pub dropout2: Dropout,
    /// The dropout after the feedforward part.
    pub dropout3: Dropout,
    activation: TransformerActivation,
    norm_first: bool,
}

impl TransformerDecoderLayer {
    /// Creates a layer with PyTorch's defaults: 2048 units in the feedforward part, a dropout of
    /// 0.1, `max(x, 0)`.
    ///
    /// # Errors
    ///
    /// `nhead` does not divide `d_model`, memory runs out, or there is no generator to draw from.
    pub fn new(d_model: usize, nhead: usize) -> Result<TransformerDecoderLayer> {
        TransformerDecoderLayer::options(d_model, nhead).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(
        d_model: usize,
        nhead: usize,
    ) -> TransformerLayerOptions<TransformerDecoderLayer> {
        TransformerLayerOptions::new(d_model, nhead)
    }

    /// Computes the result for target `x`, with the masks of both attentions. `need_weights` has no
    /// effect.
    ///
    /// # Shapes
    ///
    /// `x` is `[length, n, width]` and `memory` `[keys, n, width]`; with `batch_first`, `n` comes
    /// first. The result has the shape of `x`.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward(
        &self,
        x: &Tensor,
        memory: &Tensor,
        own: Attend<'_>,
        cross: Attend<'_>,
    ) -> Result<Tensor> {
        let [own, cross] = [own, cross].map(|attend| Attend { need_weights: false, ..attend });
        /// A normalisation and the part of the layer that it belongs to.
        type Part<'a> = (&'a LayerNorm, &'a dyn Fn(&Tensor) -> Result<Tensor>);
        let parts: [Part<'_>; 3] = [
            (&self.norm1, &|x| self.dropout1.forward(&self.self_attn.forward(x, x, x, own)?.0)),
            (&self.norm2, &|x| {
                self.dropout2.forward(&self.multihead_attn.forward(x, memory, memory, cross)?.0)
            }),
            (&self.norm3, &|x| {
                let x = self.activation.forward(&self.linear1.forward(x)?)?;
                self.dropout3.forward(&self.linear2.forward(&self.dropout.forward(&x)?)?)
            }),
        ];
        parts.into_iter().try_fold(x.clone(), |x, (norm, part)| {
            if self.norm_first {
                return functional::add(&x, &part(&norm.forward(&x)?)?);
            }
            norm.forward(&functional::add(&x, &part(&x)?)?)
        })
    }
}

impl TransformerLayerOptions<TransformerDecoderLayer> {
    init_with!(TransformerDecoderLayer);

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// As [`TransformerDecoderLayer::new`].
    pub fn init(&self) -> Result<TransformerDecoderLayer> {
        let dropout = Dropout::new(self.dropout);
        Ok(TransformerDecoderLayer {
            self_attn: self.attention()?,
            multihead_attn: self.attention()?,
            linear1: self.linear(self.d_model, self.dim_feedforward)?,
            dropout,
            linear2: self.linear(self.dim_feedforward, self.d_model)?,
            norm1: self.norm()?,
            norm2: self.norm()?,
            norm3: self.norm()?,
            dropout1: dropout,
            dropout2: dropout,
            dropout3: dropout,
            activation: self.activation,
            norm_first: self.norm_first,
        })
    }
}

/// A stack of decoder layers, with an optional normalisation at the end.
///
/// # References
///
/// `torch.nn.TransformerDecoder`, whose layers are copies and start with equal weights.
#[derive(Clone, Debug, Module)]
pub struct TransformerDecoder {
    /// The layers, first to last.
    pub layers: Vec<TransformerDecoderLayer>,
    /// The normalisation at the end, if any.
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// Creates `num_layers` layers, each drawn separately, without a normalisation at the end.
    ///
    /// # Errors
    ///
    /// As [`TransformerDecoderLayer::new`].
    pub fn new(
        layer: &TransformerLayerOptions<TransformerDecoderLayer>,
        num_layers: usize,
    ) -> Result<TransformerDecoder> {
        let layers = stacked("TransformerDecoder", num_layers, || layer.init())?;
        Ok(TransformerDecoder { layers, norm: None })
    }

    /// Computes the result for target `x`, as [`TransformerDecoderLayer::forward`] of every layer.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward(
        &self,
        x: &Tensor,
        memory: &Tensor,
        own: Attend<'_>,
        cross: Attend<'_>,
    ) -> Result<Tensor> {
        let mut y = x.clone();
        for layer in &self.layers {
            y = layer.forward(&y, memory, own, cross)?;
        }
        match &self.norm {
            Some(norm) => norm.forward(&y),
            None => Ok(y),
        }
    }
}
