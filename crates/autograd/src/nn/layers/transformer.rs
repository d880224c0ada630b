mod decoder;

pub use decoder::{TransformerDecoder, TransformerDecoderLayer};

use std::marker::PhantomData;

use samebits_macros::{Module, layer};
use samebits_tensor_core::Result;

use super::{Attend, Dropout, GELU, LayerNorm, Linear, MultiheadAttention, ReLU};
use crate::memory::room;
use crate::nn::Layer;
use crate::nn::options::{Place, init_with, place_setters, setters};
use crate::{Tensor, functional};

/// The nonlinearity of a [`TransformerEncoderLayer`] or [`TransformerDecoderLayer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Module)]
pub enum TransformerActivation {
    /// [`ReLU`].
    #[default]
    Relu,
    /// [`GELU`] with the error function.
    Gelu,
}

impl TransformerActivation {
    fn forward(self, x: &Tensor) -> Result<Tensor> {
        match self {
            TransformerActivation::Relu => ReLU.forward(x),
            TransformerActivation::Gelu => GELU::Exact.forward(x),
        }
    }
}

/// A Transformer encoder layer: self-attention and two linear layers, each with a residual
/// connection and layer normalisation.
///
/// # Shapes
///
/// Input and result are `[length, n, width]`, with `batch_first` `[n, length, width]`.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{Layer, TransformerEncoderLayer};
/// use samebits_tensor_core::DType;
///
/// samebits_tensor_core::random::manual_seed(0);
/// let options = TransformerEncoderLayer::options(16, 4).dim_feedforward(32).batch_first(true);
/// let layers = [options.init()?, options.init()?];
/// let x = Tensor::ones(&[2, 5, 16], DType::F32)?;
/// let y = layers.iter().try_fold(x, |x, layer| layer.forward(&x))?;
/// assert_eq!(y.shape(), [2, 5, 16]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.TransformerEncoderLayer`.
#[derive(Clone, Debug, Module)]
pub struct TransformerEncoderLayer {
    /// The self-attention.
    pub self_attn: MultiheadAttention,
    /// The first linear layer: from the width of the model to that of the feedforward part.
    pub linear1: Linear,
    /// The dropout between the two linear layers.
    pub dropout: Dropout,
    /// The second linear layer: back to the width of the model.
    pub linear2: Linear,
    /// The normalisation of the attention.
    pub norm1: LayerNorm,
    /// The normalisation of the feedforward part.
    pub norm2: LayerNorm,
    /// The dropout after the attention.
    pub dropout1: Dropout,
    /// The dropout after the feedforward part.
    pub dropout2: Dropout,
    activation: TransformerActivation,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// Creates a layer with PyTorch's defaults: 2048 units in the feedforward part, a dropout of
    /// 0.1, [`ReLU`].
    ///
    /// # Errors
    ///
    /// `nhead` does not divide `d_model`, memory runs out, or there is no generator to draw from.
    pub fn new(d_model: usize, nhead: usize) -> Result<TransformerEncoderLayer> {
        TransformerEncoderLayer::options(d_model, nhead).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(d_model: usize, nhead: usize) -> TransformerEncoderLayerOptions {
        TransformerLayerOptions::new(d_model, nhead)
    }

    /// Computes `forward` with masks. `need_weights` has no effect.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward_with(&self, x: &Tensor, attend: Attend<'_>) -> Result<Tensor> {
        let attend = Attend { need_weights: false, ..attend };
        let attention =
            |x: &Tensor| self.dropout1.forward(&self.self_attn.forward(x, x, x, attend)?.0);
        let feedforward = |x: &Tensor| {
            let x = self.activation.forward(&self.linear1.forward(x)?)?;
            self.dropout2.forward(&self.linear2.forward(&self.dropout.forward(&x)?)?)
        };
        if self.norm_first {
            let x = functional::add(x, &attention(&self.norm1.forward(x)?)?)?;
            return functional::add(&x, &feedforward(&self.norm2.forward(&x)?)?);
        }
        let x = self.norm1.forward(&functional::add(x, &attention(x)?)?)?;
        self.norm2.forward(&functional::add(&x, &feedforward(&x)?)?)
    }
}

impl Layer for TransformerEncoderLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, Attend::default())
    }
}

/// A stack of encoder layers, with an optional normalisation at the end.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::nn::{Layer, LayerNorm, TransformerEncoder, TransformerEncoderLayer};
/// use samebits::{DType, Tensor};
///
/// samebits_tensor_core::random::manual_seed(0);
/// let layer = TransformerEncoderLayer::options(16, 4).dim_feedforward(32).batch_first(true);
/// let mut encoder = TransformerEncoder::new(&layer, 2)?;
/// encoder.norm = Some(LayerNorm::new(16)?);
/// let x = Tensor::ones(&[2, 5, 16], DType::F32)?;
/// assert_eq!(encoder.forward(&x)?.shape(), [2, 5, 16]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.TransformerEncoder`, whose layers are copies and start with equal weights.
#[derive(Clone, Debug, Module)]
pub struct TransformerEncoder {
    /// The layers, first to last.
    pub layers: Vec<TransformerEncoderLayer>,
    /// The normalisation at the end, if any.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// Creates `num_layers` layers, each drawn separately, without a normalisation at the end.
    ///
    /// # Errors
    ///
    /// As [`TransformerEncoderLayer::new`].
    pub fn new(
        layer: &TransformerEncoderLayerOptions,
        num_layers: usize,
    ) -> Result<TransformerEncoder> {
        let layers = stacked("TransformerEncoder", num_layers, || layer.init())?;
        Ok(TransformerEncoder { layers, norm: None })
    }

    /// Computes `forward` with masks, which every layer applies.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward_with(&self, x: &Tensor, attend: Attend<'_>) -> Result<Tensor> {
        let mut y = x.clone();
        for layer in &self.layers {
            y = layer.forward_with(&y, attend)?;
        }
        match &self.norm {
            Some(norm) => norm.forward(&y),
            None => Ok(y),
        }
    }
}

/// Draws `count` layers; if memory cannot hold them, fails before drawing the first.
fn stacked<L>(op: &'static str, count: usize, draw: impl Fn() -> Result<L>) -> Result<Vec<L>> {
    let mut layers = room(op, count)?;
    for _ in 0..count {
        layers.push(draw()?);
    }
    Ok(layers)
}

impl Layer for TransformerEncoder {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, Attend::default())
    }
}

/// Options of a [`TransformerEncoderLayer`].
pub type TransformerEncoderLayerOptions = TransformerLayerOptions<TransformerEncoderLayer>;

/// Options of a layer `L` of a transformer.
#[derive(Clone, Debug)]
pub struct TransformerLayerOptions<L> {
    d_model: usize,
    nhead: usize,
    dim_feedforward: usize,
    dropout: f64,
    activation: TransformerActivation,
    layer_norm_eps: f64,
    batch_first: bool,
    norm_first: bool,
    bias: bool,
    place: Place,
    layer: PhantomData<fn() -> L>,
}

impl<L> TransformerLayerOptions<L> {
    fn new(d_model: usize, nhead: usize) -> TransformerLayerOptions<L> {
        TransformerLayerOptions {
            d_model,
            nhead,
            dim_feedforward: 2048,
            dropout: 0.1,
            activation: TransformerActivation::Relu,
            layer_norm_eps: 1e-5,
            batch_first: false,
            norm_first: false,
            bias: true,
            place: Place::default(),
            layer: PhantomData,
        }
    }

    setters! {
        /// Sets the number of units of the feedforward part (default 2048).
        dim_feedforward: usize;
        /// Sets the probability of dropping while training (default 0.1).
        dropout: f64;
        /// Sets the nonlinearity of the feedforward part (default [`ReLU`]).
        activation: TransformerActivation;
        /// Sets the number that the normalisations add to the variance (default 1e-5).
        layer_norm_eps: f64;
        /// Sets whether the input is `[n, length, ..]` (true) or `[length, n, ..]` (false, the
        /// default).
        batch_first: bool;
        /// Sets whether normalisation comes before attention and feedforward part (true) or after
        /// (false, the default).
        norm_first: bool;
        /// Sets whether linear layers and normalisations have biases (default true).
        bias: bool;
    }
    place_setters!();

    fn attention(&self) -> Result<MultiheadAttention> {
        let Place { dtype, device } = self.place;
        MultiheadAttention::options(self.d_model, self.nhead)
            .dropout(self.dropout)
            .bias(self.bias)
            .batch_first(self.batch_first)
            .dtype(dtype)
            .device(device)
            .init()
    }

    fn norm(&self) -> Result<LayerNorm> {
        let Place { dtype, device } = self.place;
        let options = LayerNorm::options(self.d_model).eps(self.layer_norm_eps).bias(self.bias);
        options.dtype(dtype).device(device).init()
    }

    fn linear(&self, from: usize, to: usize) -> Result<Linear> {
        let Place { dtype, device } = self.place;
        Linear::options(from, to).bias(self.bias).dtype(dtype).device(device).init()
    }
}

impl TransformerEncoderLayerOptions {
    init_with!(TransformerEncoderLayer);

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// As [`TransformerEncoderLayer::new`].
    pub fn init(&self) -> Result<TransformerEncoderLayer> {
        Ok(TransformerEncoderLayer {
            self_attn: self.attention()?,
            linear1: self.linear(self.d_model, self.dim_feedforward)?,
            dropout: Dropout::new(self.dropout),
            linear2: self.linear(self.dim_feedforward, self.d_model)?,
            norm1: self.norm()?,
            norm2: self.norm()?,
            dropout1: Dropout::new(self.dropout),
            dropout2: Dropout::new(self.dropout),
            activation: self.activation,
            norm_first: self.norm_first,
        })
    }
}
