//! A decoder-only transformer.

mod block;
mod cache;
mod generate;
mod sample;
mod weights;

pub use block::{GptAttention, GptBlock, GptFeedforward, GptNorm};
pub use cache::KvCache;
pub use generate::{Finish, GenerateOptions, Generated, NewToken, Prompt};
pub use sample::Sampling;

use samebits_macros::{Module, layer};
use samebits_tensor_core::{DType, Error, Result};

use super::options::{Place, init_with, place_setters, setters};
use super::place::{Numbers, drawn};
use super::{
    Dropout, Embedding, Layer, LayerNorm, Linear, RMSNorm, RotaryEmbedding, RotaryScaling,
    checkpoint,
};
use crate::memory::room;
use crate::{Tensor, functional};

/// The form of a [`Gpt`]'s normalisations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GptNormKind {
    /// Layer normalisation, as in GPT-2.
    #[default]
    Layer,
    /// Normalisation by the root mean square, as in Llama.
    Rms,
}

/// The form of a [`Gpt`]'s positions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum GptPositions {
    /// A learned vector for each position, added to the token's, as in GPT-2.
    #[default]
    Learned,
    /// Rotations of queries and keys, as in Llama, with this base.
    Rotary {
        /// The base of the angles, for example 10,000.
        base: f64,
    },
}

/// The form of a [`Gpt`]'s feedforward parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GptActivation {
    /// Two linear layers with GELU between.
    #[default]
    Gelu,
    /// Two linear layers with the approximation of GELU by tanh between, as in GPT-2.
    GeluTanh,
    /// Three linear layers and a gate, as in Llama.
    SwiGlu,
}

/// A decoder-only transformer with normalisation before each part: a language model.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{Gpt, GptActivation, GptNormKind, GptPositions, KvCache};
///
/// samebits_tensor_core::random::manual_seed(0);
/// let model = Gpt::options(50, 16, 4, 2)
///     .kv_heads(2)
///     .norm(GptNormKind::Rms)
///     .positions(GptPositions::Rotary { base: 10_000.0 })
///     .activation(GptActivation::SwiGlu)
///     .bias(false)
///     .context(8)
///     .init()?;
/// let tokens = Tensor::new([[3i64, 1, 4, 1]])?;
/// let trained = model.forward(&tokens)?;
/// assert_eq!(trained.shape(), [1, 4, 50]);
///
/// // A cache gives the same bits, in any chunks.
/// let mut cache = KvCache::new();
/// let head = model.forward_cached(&tokens.select(0, 0)?.narrow(0, 0, 3)?, &mut cache)?;
/// let last = model.forward_cached(&Tensor::new([1i64])?, &mut cache)?;
/// let both = samebits::functional::cat(&[head, last], 0)?;
/// assert_eq!(both.to_bytes()?, trained.to_bytes()?);
/// # Ok::<(), samebits::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Gpt {
    /// The vectors of the tokens, `[vocabulary, width]`.
    pub tokens: Embedding,
    /// The vectors of the positions, `[context, width]`, if positions are learned.
    pub positions: Option<Embedding>,
    /// The dropout after the embeddings.
    pub dropout: Dropout,
    /// The blocks, first to last.
    pub blocks: Vec<GptBlock>,
    /// The normalisation after the last block.
    pub norm: GptNorm,
    /// The projection to logits; `None` if it is the table of the tokens.
    pub head: Option<Linear>,
    /// If true, the backward pass computes each block again, by
    /// [`checkpoint`](super::checkpoint), which saves memory.
    pub checkpoint: bool,
    context: usize,
}

impl Gpt {
    /// Returns options for a model, starting from nearly GPT-2's: learned positions, layer
    /// normalisation, GELU, biases, tied embeddings and a context of 1024 tokens, without dropout.
    pub fn options(vocabulary: usize, width: usize, heads: usize, layers: usize) -> GptOptions {
        GptOptions {
            vocabulary,
            width,
            heads,
            layers,
            kv_heads: None,
            head_width: None,
            hidden: None,
            context: 1024,
            norm: GptNormKind::default(),
            norm_eps: 1e-5,
            positions: GptPositions::default(),
            rotary_scaling: RotaryScaling::default(),
            activation: GptActivation::default(),
            dropout: 0.0,
            bias: true,
            attention_bias: None,
            feedforward_bias: None,
            tie: true,
            checkpoint: false,
            place: Place::default(),
            empty: false,
        }
    }

    /// Returns the largest number of tokens in a sequence.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Computes the logits of the token after each token.
    ///
    /// # Shapes
    ///
    /// `tokens` is `[n, length]`, of type `I64`; the result is `[n, length, vocabulary]`.
    ///
    /// # Determinism
    ///
    /// Portable. The logits at a position depend on the tokens of its sequence up to there, not on
    /// other sequences, nor on padding at the end: the bits are those of
    /// [`forward_cached`](Gpt::forward_cached). In training, dropout depends on the whole batch.
    ///
    /// # Errors
    ///
    /// The shape or type differs, a sequence exceeds the context, or a token exceeds the
    /// vocabulary.
    #[layer]
    pub fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        let &[_, length] = tokens.shape() else {
            let message = format!("expected tokens [n, length], got shape {:?}", tokens.shape());
            return Err(Error::invalid("Gpt", message));
        };
        self.check(tokens, 0, length)?;
        let mut x = self.embedded(tokens, || Tensor::arange(length))?;
        for block in &self.blocks {
            x = if self.checkpoint {
                let block = block.clone();
                checkpoint(&[&x], move |x| block.forward(&x[0], GptAttention::whole))?
            } else {
                block.forward(&x, GptAttention::whole)?
            };
        }
        self.logits(&x)
    }

    /// Computes the logits of the tokens that follow those in `cache`, and adds them to it. There
    /// is no graph, and dropout does nothing. On error the cache is unchanged.
    ///
    /// # Shapes
    ///
    /// `tokens` is `[length]`, of type `I64`; the result is `[length, vocabulary]`.
    ///
    /// # Determinism
    ///
    /// As [`forward`](Gpt::forward), with the same bits for any split of a sequence into calls.
    ///
    /// # Errors
    ///
    /// As [`forward`](Gpt::forward); or the cache belongs to another model.
    pub fn forward_cached(&self, tokens: &Tensor, cache: &mut KvCache) -> Result<Tensor> {
        self.forward_cached_batch(&[tokens], &mut [cache])
    }

    /// Computes [`forward_cached`](Gpt::forward_cached) for several sequences at once, each with
    /// tokens of any number and a cache of its own.
    ///
    /// # Shapes
    ///
    /// `tokens[i]` is `[length of i]`; the result has the rows of all sequences in order, `[sum of
    /// lengths, vocabulary]`. Nothing is padded.
    ///
    /// # Determinism
    ///
    /// As [`forward_cached`](Gpt::forward_cached): the rows of a sequence do not depend on others.
    ///
    /// # Errors
    ///
    /// As [`forward_cached`](Gpt::forward_cached); there are no sequences, or not one cache for
    /// each. All caches are unchanged then.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate samebits_autograd as samebits;
    /// use samebits::Tensor;
    /// use samebits::nn::{Gpt, KvCache};
    ///
    /// samebits_tensor_core::random::manual_seed(0);
    /// let model = Gpt::options(50, 16, 2, 2).context(8).init()?;
    /// let (mut a, mut b) = (KvCache::new(), KvCache::new());
    /// let tokens = [&Tensor::new([3i64, 1, 4])?, &Tensor::new([2i64])?];
    /// let logits = model.forward_cached_batch(&tokens, &mut [&mut a, &mut b])?;
    /// assert_eq!(logits.shape(), [4, 50]);
    /// assert_eq!((a.len(), b.len()), (3, 1));
    /// # Ok::<(), samebits::Error>(())
    /// ```
    pub fn forward_cached_batch(
        &self,
        tokens: &[&Tensor],
        caches: &mut [&mut KvCache],
    ) -> Result<Tensor> {
        if tokens.is_empty() || tokens.len() != caches.len() {
            let (a, b) = (tokens.len(), caches.len());
            let message = format!("expected sequences and a cache for each, got {a} and {b}");
            return Err(Error::invalid("Gpt", message));
        }
        let mut positions = Vec::new();
        for (tokens, cache) in tokens.iter().zip(&*caches) {
            let &[length] = tokens.shape() else {
                let message = format!("expected tokens [length], got shape {:?}", tokens.shape());
                return Err(Error::invalid("Gpt", message));
            };
            self.check(tokens, cache.len(), length)?;
            if !cache.fits(self.blocks.len()) {
                let layers = self.blocks.len();
                let message = format!("expected a cache of {layers} layers, got another model's");
                return Err(Error::invalid("Gpt", message));
            }
            positions.extend((cache.len()..cache.len() + length).map(|position| position as i64));
        }
        let logits = crate::no_grad(|| {
            super::eval(|| match tokens {
                [rows] => self.continued(rows, &positions, tokens, caches),
                _ => self.continued(&functional::cat(tokens, 0)?, &positions, tokens, caches),
            })
        })?;
        for (tokens, cache) in tokens.iter().zip(caches) {
            cache.grow(tokens.numel());
        }
        Ok(logits)
    }

    /// Computes logits of the rows of all sequences, and writes their keys and values to the caches.
    fn continued(
        &self,
        rows: &Tensor,
        positions: &[i64],
        tokens: &[&Tensor],
        caches: &mut [&mut KvCache],
    ) -> Result<Tensor> {
        let mut x = self.embedded(rows, || Tensor::from_slice(positions, &[positions.len()]))?;
        let lengths: Vec<usize> = tokens.iter().map(|tokens| tokens.numel()).collect();
        for (number, block) in self.blocks.iter().enumerate() {
            x = block
                .forward(&x, |attention, x| attention.continued(x, number, &lengths, caches))?;
        }
        self.logits(&x)
    }

    fn check(&self, tokens: &Tensor, past: usize, length: usize) -> Result<()> {
        if tokens.dtype() != DType::I64 {
            let (what, expected, got) = ("the tokens", DType::I64, tokens.dtype());
            return Err(Error::DTypeMismatch { op: "Gpt", what, expected, got });
        }
        if past.checked_add(length).is_none_or(|end| end > self.context) {
            let message = format!(
                "expected at most {} tokens, got {length} tokens after {past}",
                self.context
            );
            return Err(Error::invalid("Gpt", message));
        }
        Ok(())
    }

    fn embedded(
        &self,
        tokens: &Tensor,
        positions: impl FnOnce() -> Result<Tensor>,
    ) -> Result<Tensor> {
        let mut x = self.tokens.forward(tokens).map_err(|error| error.called("Gpt"))?;
        if let Some(table) = &self.positions {
            x = functional::add(&x, &table.forward(&positions()?.to(tokens.device())?)?)?;
        }
        self.dropout.forward(&x)
    }

    fn logits(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.norm.forward(x)?;
        match &self.head {
            Some(head) => head.forward(&x),
            None => functional::linear(&x, &self.tokens.weight.get(), None),
        }
    }
}

/// Options of a [`Gpt`].
#[derive(Clone, Debug)]
pub struct GptOptions {
    vocabulary: usize,
    width: usize,
    heads: usize,
    layers: usize,
    kv_heads: Option<usize>,
    head_width: Option<usize>,
    hidden: Option<usize>,
    context: usize,
    norm: GptNormKind,
    norm_eps: f64,
    positions: GptPositions,
    rotary_scaling: RotaryScaling,
    activation: GptActivation,
    dropout: f64,
    bias: bool,
    attention_bias: Option<bool>,
    feedforward_bias: Option<bool>,
    tie: bool,
    checkpoint: bool,
    place: Place,
    /// If true, weights are zeros that take no memory.
    empty: bool,
}

impl GptOptions {
    setters! {
        /// Sets the number of heads of keys and values (default: that of the queries). It divides
        /// the number of heads.
        kv_heads: usize => Some(kv_heads);
        /// Sets the width of a head (default: the width divided by the number of heads).
        head_width: usize => Some(head_width);
        /// Sets the number of hidden units of the feedforward parts (default: 4 times the width).
        hidden: usize => Some(hidden);
        /// Sets the largest number of tokens in a sequence (default 1024).
        context: usize;
        /// Sets the form of the normalisations (default: layer normalisation).
        norm: GptNormKind;
        /// Sets the number that the normalisations add to the variance or mean square (default
        /// 1e-5).
        norm_eps: f64;
        /// Sets the form of the positions (default: learned).
        positions: GptPositions;
        /// Sets the scaling of the angles of rotary positions (default: none).
        rotary_scaling: RotaryScaling;
        /// Sets the form of the feedforward parts (default: GELU).
        activation: GptActivation;
        /// Sets the probability of dropping while training (default 0).
        dropout: f64;
        /// Sets whether linear layers and layer normalisations have biases (default true).
        bias: bool;
        /// Sets whether the linear layers of attention have biases (default: as `bias`).
        attention_bias: bool => Some(attention_bias);
        /// Sets whether the linear layers of the feedforward parts have biases (default: as `bias`).
        feedforward_bias: bool => Some(feedforward_bias);
        /// Sets whether the table of the tokens is also the projection to logits (default true).
        tie: bool;
        /// Sets whether the backward pass computes each block again, which saves memory (default
        /// false).
        checkpoint: bool;
    }
    place_setters!();
    init_with!(Gpt);

    /// Builds the model. Weights are normal numbers with a standard deviation of 0.02, in the last
    /// layer of each part divided by √(2 · layers), as in GPT-2; biases are 0.
    ///
    /// # Errors
    ///
    /// `heads` does not divide the width and no `head_width` is given, or `kv_heads` does not divide
    /// the heads; a size is 0; rotary heads have
    /// an odd width or the base is not positive; the dropout is not in `[0, 1]`; memory runs out,
    /// or there is no generator to draw from.
    pub fn init(&self) -> Result<Gpt> {
        let &GptOptions { vocabulary, width, heads, layers, context, dropout, .. } = self;
        let kv_heads = self.kv_heads.unwrap_or(heads);
        let refuse = |message: String| Err(Error::invalid("Gpt", message));
        for (name, size) in [("vocabulary", vocabulary), ("width", width), ("context", context)] {
            if size == 0 {
                return refuse(format!("expected a {name} of at least 1, got 0"));
            }
        }
        if heads == 0 || self.head_width.is_none() && !width.is_multiple_of(heads) {
            return refuse(format!("expected heads that divide the width {width}, got {heads}"));
        }
        let head_width = self.head_width.unwrap_or(width / heads);
        if head_width == 0 || head_width.checked_mul(heads).is_none() {
            return refuse(format!(
                "expected {heads} heads of a width of at least 1, got {head_width}"
            ));
        }
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return refuse(format!("expected kv_heads that divide {heads} heads, got {kv_heads}"));
        }
        if !(0.0..=1.0).contains(&dropout) {
            return refuse(format!("expected a dropout in [0, 1], got {dropout}"));
        }
        let learned = self.positions == GptPositions::Learned;
        let tokens = Embedding::from_weight(self.weight(&[vocabulary, width], 0.02)?);
        let positions = learned
            .then(|| self.weight(&[context, width], 0.02))
            .transpose()?
            .map(Embedding::from_weight);
        let rotary = match self.positions {
            GptPositions::Learned => None,
            GptPositions::Rotary { base } => {
                let rotary = RotaryEmbedding::options(head_width, context).base(base);
                Some(rotary.scaling(self.rotary_scaling).init()?)
            }
        };
        let mut blocks = room("Gpt", layers)?;
        for _ in 0..layers {
            blocks.push(self.block(head_width, kv_heads, rotary.as_ref())?);
        }
        let head = match self.tie {
            true => None,
            false => Some(Linear { weight: self.weight(&[vocabulary, width], 0.02)?, bias: None }),
        };
        let dropout = Dropout::new(dropout);
        let (norm, checkpoint) = (self.normalisation()?, self.checkpoint);
        Ok(Gpt { tokens, positions, dropout, blocks, norm, head, checkpoint, context })
    }

    fn block(
        &self,
        head_width: usize,
        kv_heads: usize,
        rotary: Option<&RotaryEmbedding>,
    ) -> Result<GptBlock> {
        let &GptOptions { width, heads, layers, .. } = self;
        let (all, shared) = (head_width * heads, head_width * kv_heads);
        let bias = self.attention_bias.unwrap_or(self.bias);
        let last = 0.02 / (2.0 * layers as f64).sqrt();
        let attention = GptAttention {
            query: self.linear([width, all], 0.02, bias)?,
            key: self.linear([width, shared], 0.02, bias)?,
            value: self.linear([width, shared], 0.02, bias)?,
            output: self.linear([all, width], last, bias)?,
            rotary: rotary.cloned(),
            heads,
            kv_heads,
        };
        let hidden = self.hidden.unwrap_or(width.saturating_mul(4));
        let gated = self.activation == GptActivation::SwiGlu;
        let bias = self.feedforward_bias.unwrap_or(self.bias);
        let feedforward = GptFeedforward {
            gate: gated.then(|| self.linear([width, hidden], 0.02, bias)).transpose()?,
            up: self.linear([width, hidden], 0.02, bias)?,
            down: self.linear([hidden, width], last, bias)?,
            tanh: self.activation == GptActivation::GeluTanh,
        };
        Ok(GptBlock {
            norm1: self.normalisation()?,
            attention,
            norm2: self.normalisation()?,
            feedforward,
            dropout: Dropout::new(self.dropout),
        })
    }

    fn normalisation(&self) -> Result<GptNorm> {
        let Place { dtype, device } = self.place;
        Ok(match self.norm {
            GptNormKind::Layer => {
                let options = LayerNorm::options(self.width).eps(self.norm_eps).bias(self.bias);
                GptNorm::Layer(options.dtype(dtype).device(device).init()?)
            }
            GptNormKind::Rms => {
                let options = RMSNorm::options(self.width).eps(self.norm_eps);
                GptNorm::Rms(options.dtype(dtype).device(device).init()?)
            }
        })
    }

    fn linear(&self, [from, to]: [usize; 2], std: f64, bias: bool) -> Result<Linear> {
        let bias = bias.then(|| self.place.constant(&[to], 0.0)).transpose()?;
        Ok(Linear { weight: self.weight(&[to, from], std)?, bias })
    }

    fn weight(&self, shape: &[usize], std: f64) -> Result<Tensor> {
        let weight = match self.empty {
            true => self.place.constant(&[], 0.0)?.detach().expand(shape)?,
            false => drawn("Gpt", shape, self.place, Numbers::Normal { mean: 0.0, std })?,
        };
        weight.set_requires_grad(true)
    }
}
