use samebits_macros::Module;
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::{DType, Error, Result};

use super::Linear;
use crate::functional::{Attention, Masks};
use crate::nn::layer;
use crate::nn::options::{Place, init_with, place_setters, setters};
use crate::nn::{init, is_training};
use crate::{Tensor, functional};

/// Multi-head attention. Each head projects queries, keys and values and averages the values with
/// weights `softmax(q · kᵀ / √width)`; a last projection combines the heads.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{Attend, MultiheadAttention};
/// use samebits_tensor_core::DType;
///
/// samebits_tensor_core::random::manual_seed(0);
/// let attention = MultiheadAttention::options(16, 4).batch_first(true).init()?;
/// let x = Tensor::ones(&[2, 5, 16], DType::F32)?;
/// let causal = Attend { is_causal: true, ..Attend::default() };
/// let (y, weights) = attention.forward(&x, &x, &x, causal)?;
/// assert_eq!(y.shape(), [2, 5, 16]);
/// let weights = weights.expect("they are wanted by default");
/// assert_eq!(weights.to_vec::<f32>()?[..5], [1.0, 0.0, 0.0, 0.0, 0.0]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.MultiheadAttention`; A. Vaswani et al., *Attention Is All You Need*, 2017.
#[derive(Clone, Debug, Module)]
pub struct MultiheadAttention {
    /// The weights of queries, keys and values, `[3 · embed, embed]`; `None` if their widths
    /// differ.
    pub in_proj_weight: Option<Tensor>,
    /// The weight of the queries, `[embed, embed]`, if the widths differ.
    pub q_proj_weight: Option<Tensor>,
    /// The weight of the keys, `[embed, kdim]`, if the widths differ.
    pub k_proj_weight: Option<Tensor>,
    /// The weight of the values, `[embed, vdim]`, if the widths differ.
    pub v_proj_weight: Option<Tensor>,
    /// The biases of queries, keys and values, `[3 · embed]`.
    pub in_proj_bias: Option<Tensor>,
    /// The projection that combines the heads.
    pub out_proj: Linear,
    embed_dim: usize,
    num_heads: usize,
    dropout: f64,
    batch_first: bool,
}

/// Arguments of [`MultiheadAttention::forward`] beside its inputs, with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct Attend<'a> {
    /// Mask of keys, `[n, keys]`: true excludes a key; floats are added to the scores.
    pub key_padding_mask: Option<&'a Tensor>,
    /// Mask of pairs, `[queries, keys]` or `[n · heads, queries, keys]`: true excludes a pair;
    /// floats are added to the scores.
    pub attn_mask: Option<&'a Tensor>,
    /// If true, no query attends to a later key (default false).
    pub is_causal: bool,
    /// If true, the attention weights are returned (default true).
    pub need_weights: bool,
    /// If true, the returned weights are averaged over the heads (default true).
    pub average_attn_weights: bool,
}

impl Default for Attend<'_> {
    fn default() -> Self {
        Attend {
            key_padding_mask: None,
            attn_mask: None,
            is_causal: false,
            need_weights: true,
            average_attn_weights: true,
        }
    }
}

impl MultiheadAttention {
    /// Creates a layer with PyTorch's defaults: the input projections are Xavier-uniform, the
    /// output projection is drawn as in [`Linear`], biases are 0.
    ///
    /// # Errors
    ///
    /// `num_heads` does not divide `embed_dim`, the dropout is not in `[0, 1]`, memory runs out, or there is
    /// no generator to draw from.
    pub fn new(embed_dim: usize, num_heads: usize) -> Result<MultiheadAttention> {
        MultiheadAttention::options(embed_dim, num_heads).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(embed_dim: usize, num_heads: usize) -> MultiheadAttentionOptions {
        MultiheadAttentionOptions {
            embed_dim,
            num_heads,
            dropout: 0.0,
            bias: true,
            kdim: None,
            vdim: None,
            batch_first: false,
            place: Place::default(),
        }
    }

    /// Returns the result for each query, and the weights if `need_weights` is set. If the masks
    /// exclude every key of a query, its weights are 0, and its result is 0 before the last
    /// projection.
    ///
    /// # Shapes
    ///
    /// `query` is `[queries, n, embed]`, `key` `[keys, n, kdim]`, `value` `[keys, n, vdim]`. With
    /// `batch_first`, the number of samples `n` comes first; all may omit it. The result has the
    /// shape of `query`. The weights are `[n, queries, keys]` if averaged, else `[n, heads,
    /// queries, keys]`, without `n` if the inputs have none.
    ///
    /// # Determinism
    ///
    /// Composed of [`linear`](functional::linear) and
    /// [`scaled_dot_product_attention_with`](functional::scaled_dot_product_attention_with), with
    /// a scale of `√(1 / width of a head)`: see *Attention* in `docs/book/numerics.md`. Two masks of
    /// numbers are added to each other first. Dropout draws one number for each weight.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        attend: Attend<'_>,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let op = "MultiheadAttention";
        let batched = query.rank() == 3;
        let [query, key, value] = [query, key, value].map(|x| self.samples_first(op, x));
        let (query, key, value) = (query?, key?, value?);
        let (n, queries, keys) = (query.shape()[0], query.shape()[1], key.shape()[1]);
        if [key.shape()[0], value.shape()[0]] != [n; 2] || value.shape()[1] != keys {
            return Err(Error::invalid(
                op,
                format!(
                    "expected equal numbers of samples and of keys, got shapes {:?}, {:?} and {:?}",
                    query.shape(),
                    key.shape(),
                    value.shape()
                ),
            ));
        }
        let width = self.embed_dim / self.num_heads;
        let heads = |i: usize, x: &Tensor, length: usize| -> Result<Tensor> {
            let x = self.projected(i, x)?;
            let x = functional::reshape(&x, [n, length, self.num_heads, width])?;
            let x = functional::permute(&x, [0, 2, 1, 3])?;
            functional::reshape(&x, [n * self.num_heads, length, width])
        };
        let (q, k, v) =
            (heads(0, &query, queries)?, heads(1, &key, keys)?, heads(2, &value, keys)?);
        let mut masks = Masks::new(op, q.dtype());
        if attend.is_causal {
            masks.causal(0);
        }
        let mut given = |mask: &Tensor| match mask.dtype() {
            DType::Bool => masks.exclude(mask),
            _ => masks.add(mask),
        };
        if let Some(mask) = attend.attn_mask {
            given(mask)?;
        }
        if let Some(mask) = attend.key_padding_mask {
            if mask.numel() != numel(op, &[n, keys])? {
                return Err(Error::ShapeMismatch {
                    op,
                    what: "the key padding mask",
                    expected: vec![n, keys],
                    got: mask.shape().to_vec(),
                });
            }
            let each = functional::reshape(mask, [n, 1, 1, keys])?;
            let each = functional::expand(&each, &[n, self.num_heads, 1, keys])?;
            given(&functional::reshape(&each, [n * self.num_heads, 1, keys])?)?;
        }
        let scale = (1.0 / width as f64).sqrt();
        let mut attention = Attention::new(op, &q, &k, &v, masks, scale)?;
        if is_training() {
            attention = attention.dropped(self.dropout)?;
        }
        let weights = attend.need_weights.then(|| attention.clone().weights()).transpose()?;
        let found = attention.output()?;
        let found = functional::reshape(&found, [n, self.num_heads, queries, width])?;
        let found = functional::permute(&found, [0, 2, 1, 3])?;
        let found = functional::reshape(&found, [n, queries, self.embed_dim])?;
        let bias = self.out_proj.bias.as_ref();
        let mut y = functional::linear(&found, &self.out_proj.weight, bias)?;
        let alone = |x: Tensor| match batched {
            true => Ok(x),
            false => functional::reshape(&x, &x.shape()[1..]),
        };
        if batched && !self.batch_first {
            y = functional::transpose(&y, 0, 1)?;
        }
        let Some(weights) = weights else { return Ok((alone(y)?, None)) };
        let mut weights = functional::reshape(&weights, [n, self.num_heads, queries, keys])?;
        if attend.average_attn_weights {
            let mean = functional::mean(&weights, [1], true)?;
            weights = functional::reshape(&mean, [n, queries, keys])?;
        }
        Ok((alone(y)?, Some(alone(weights)?)))
    }

    /// Returns `x` as `[n, length, width]`.
    fn samples_first(&self, op: &'static str, x: &Tensor) -> Result<Tensor> {
        match x.shape() {
            &[length, width] => functional::reshape(x, [1, length, width]),
            [_, _, _] if self.batch_first => Ok(x.clone()),
            [_, _, _] => functional::transpose(x, 0, 1),
            shape => {
                let message = format!("expected inputs of 2 or 3 dimensions, got shape {shape:?}");
                Err(Error::invalid(op, message))
            }
        }
    }

    /// Projects `x` with the weights of the queries (`i` = 0), keys (1) or values (2).
    fn projected(&self, i: usize, x: &Tensor) -> Result<Tensor> {
        let part = |x: &Tensor| functional::narrow(x, 0, i * self.embed_dim, self.embed_dim);
        let weight = match &self.in_proj_weight {
            Some(weight) => part(weight)?,
            None => {
                let own = [&self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight];
                let missing = || Error::invalid("MultiheadAttention", "a projection is missing");
                own[i].clone().ok_or_else(missing)?
            }
        };
        let bias = self.in_proj_bias.as_ref().map(part).transpose()?;
        functional::linear(x, &weight, bias.as_ref())
    }
}

/// Options of a [`MultiheadAttention`].
#[derive(Clone, Debug)]
pub struct MultiheadAttentionOptions {
    embed_dim: usize,
    num_heads: usize,
    dropout: f64,
    bias: bool,
    kdim: Option<usize>,
    vdim: Option<usize>,
    batch_first: bool,
    place: Place,
}

impl MultiheadAttentionOptions {
    setters! {
        /// Sets the probability of dropping a weight while training (default 0).
        dropout: f64;
        /// Sets whether the projections have biases (default true).
        bias: bool;
        /// Sets the width of the keys (default: that of the queries).
        kdim: usize => Some(kdim);
        /// Sets the width of the values (default: that of the queries).
        vdim: usize => Some(vdim);
        /// Sets whether the inputs are `[n, length, ..]` (true) or `[length, n, ..]` (false, the
        /// default).
        batch_first: bool;
    }
    place_setters!();
    init_with!(MultiheadAttention);

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// As [`MultiheadAttention::new`].
    pub fn init(&self) -> Result<MultiheadAttention> {
        let &MultiheadAttentionOptions { embed_dim, num_heads, dropout, bias, place, .. } = self;
        if num_heads == 0 || embed_dim == 0 || !embed_dim.is_multiple_of(num_heads) {
            return Err(Error::invalid(
                "MultiheadAttention",
                format!("a width of {embed_dim} is not divisible by {num_heads} heads"),
            ));
        }
        if !(0.0..=1.0).contains(&dropout) {
            let message = format!("dropout should be in [0, 1], got {dropout}");
            return Err(Error::invalid("MultiheadAttention", message));
        }
        let (kdim, vdim) = (self.kdim.unwrap_or(embed_dim), self.vdim.unwrap_or(embed_dim));
        let out_proj = Linear::options(embed_dim, embed_dim).bias(bias);
        let out_proj = out_proj.dtype(place.dtype).device(place.device).init()?;
        let out_bias = bias.then(|| place.constant(&[embed_dim], 0.0)).transpose()?;
        let drawn = |rows: usize, columns: usize| -> Result<Tensor> {
            let mut weight = place.constant(&[rows, columns], 0.0)?;
            init::xavier_uniform(&mut weight, init::Gain::Linear)?;
            Ok(weight)
        };
        let rows = embed_dim.saturating_mul(3);
        let alike = kdim == embed_dim && vdim == embed_dim;
        let own = |width: usize| (!alike).then(|| drawn(embed_dim, width)).transpose();
        Ok(MultiheadAttention {
            in_proj_weight: alike.then(|| drawn(rows, embed_dim)).transpose()?,
            q_proj_weight: own(embed_dim)?,
            k_proj_weight: own(kdim)?,
            v_proj_weight: own(vdim)?,
            in_proj_bias: bias.then(|| place.constant(&[rows], 0.0)).transpose()?,
            out_proj: Linear { bias: out_bias, ..out_proj },
            embed_dim,
            num_heads,
            dropout,
            batch_first: self.batch_first,
        })
    }
}
