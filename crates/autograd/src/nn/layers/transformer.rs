use samebits_macros::Module;
use samebits_tensor_core::Result;

use super::{Attend, Dropout, GELU, LayerNorm, Linear, MultiheadAttention, ReLU};
use crate::nn::Layer;
use crate::nn::options::{Place, init_with, place_setters, setters};
use crate::{Tensor, functional};

/// The nonlinearity of a [`TransformerEncoderLayer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Module)]
pub enum TransformerActivation {
    /// [`ReLU`].
    #[default]
    Relu,
    /// [`GELU`] with the error function.
    Gelu,
}

/// Self-attention and two linear layers, each with a residual connection and layer normalisation.
///
/// # Shapes
///
/// The input and the result are `[length, n, width]`, with `batch_first` `[n, length, width]`.
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
    /// Attention of the input to itself.
    pub self_attn: MultiheadAttention,
    /// From the width of the model to that of the feedforward part.
    pub linear1: Linear,
    /// Between the two linear layers.
    pub dropout: Dropout,
    /// Back to the width of the model.
    pub linear2: Linear,
    /// Of the attention.
    pub norm1: LayerNorm,
    /// Of the feedforward part.
    pub norm2: LayerNorm,
    /// Of what attention finds.
    pub dropout1: Dropout,
    /// Of what the feedforward part finds.
    pub dropout2: Dropout,
    activation: TransformerActivation,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// 2048 units in the feedforward part, a dropout of 0.1, [`ReLU`]: PyTorch's defaults.
    ///
    /// # Errors
    ///
    /// The width does not divide into the heads, there is no memory, or no generator to draw from.
    pub fn new(d_model: usize, nhead: usize) -> Result<TransformerEncoderLayer> {
        TransformerEncoderLayer::options(d_model, nhead).init()
    }

    /// A layer with other options than PyTorch's defaults.
    pub fn options(d_model: usize, nhead: usize) -> TransformerEncoderLayerOptions {
        TransformerEncoderLayerOptions {
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
        }
    }

    /// `forward` with masks; whether weights are wanted is not looked at.
    ///
    /// # Errors
    ///
    /// The shapes do not go together.
    pub fn forward_with(&self, x: &Tensor, attend: Attend<'_>) -> Result<Tensor> {
        let attend = Attend { need_weights: false, ..attend };
        let attention =
            |x: &Tensor| self.dropout1.forward(&self.self_attn.forward(x, x, x, attend)?.0);
        let feedforward = |x: &Tensor| {
            let x = self.linear1.forward(x)?;
            let x = match self.activation {
                TransformerActivation::Relu => ReLU.forward(&x)?,
                TransformerActivation::Gelu => GELU::Exact.forward(&x)?,
            };
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

/// Options of a [`TransformerEncoderLayer`].
#[derive(Clone, Debug)]
pub struct TransformerEncoderLayerOptions {
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
}

impl TransformerEncoderLayerOptions {
    setters! {
        /// The number of units of the feedforward part: 2048 if not set.
        dim_feedforward: usize;
        /// The probability of dropping while training: 0.1 if not set.
        dropout: f64;
        /// What the feedforward part applies: [`ReLU`] if not set.
        activation: TransformerActivation;
        /// Added to the variance by the normalisations: 1e-5 if not set.
        layer_norm_eps: f64;
        /// Whether the input is `[n, length, ..]` and not `[length, n, ..]`: by default it is not.
        batch_first: bool;
        /// Whether normalisation comes before attention and feedforward part, and not after: by
        /// default it comes after.
        norm_first: bool;
        /// Whether linear layers and normalisations have biases: by default they have.
        bias: bool;
    }
    place_setters!();
    init_with!(TransformerEncoderLayer);

    /// The layer.
    ///
    /// # Errors
    ///
    /// As [`TransformerEncoderLayer::new`].
    pub fn init(&self) -> Result<TransformerEncoderLayer> {
        let &TransformerEncoderLayerOptions { d_model, dim_feedforward, bias, .. } = self;
        let Place { dtype, device } = self.place;
        let attention = MultiheadAttention::options(d_model, self.nhead)
            .dropout(self.dropout)
            .bias(bias)
            .batch_first(self.batch_first)
            .dtype(dtype)
            .device(device);
        let norm = || {
            LayerNorm::options(d_model)
                .eps(self.layer_norm_eps)
                .bias(bias)
                .dtype(dtype)
                .device(device)
                .init()
        };
        let linear =
            |from, to| Linear::options(from, to).bias(bias).dtype(dtype).device(device).init();
        Ok(TransformerEncoderLayer {
            self_attn: attention.init()?,
            linear1: linear(d_model, dim_feedforward)?,
            dropout: Dropout::new(self.dropout),
            linear2: linear(dim_feedforward, d_model)?,
            norm1: norm()?,
            norm2: norm()?,
            dropout1: Dropout::new(self.dropout),
            dropout2: Dropout::new(self.dropout),
            activation: self.activation,
            norm_first: self.norm_first,
        })
    }
}
