use samebits_macros::{Module, layer};
use samebits_numerics::math::f64::{cos, pow, sin};
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::{DType, Error, Result, Tensor as Value};

use crate::nn::options::setters;
use crate::{Tensor, functional};

/// A rotary position embedding: rotates pairs of features of queries and keys by angles that grow
/// with the position.
///
/// The layer has no parameters, and its tables are not part of the state.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::nn::RotaryEmbedding;
/// use samebits::{DType, Tensor};
///
/// let rotary = RotaryEmbedding::new(8, 32)?;
/// let query = Tensor::ones(&[2, 4, 5, 8], DType::F32)?; // batch, heads, length, width
/// let whole = rotary.forward(&query, 0)?;
/// assert_eq!(whole.shape(), [2, 4, 5, 8]);
/// // The last token alone is at position 4.
/// let last = rotary.forward(&query.narrow(2, 4, 1)?, 4)?;
/// assert_eq!(last.to_bytes()?, whole.narrow(2, 4, 1)?.to_bytes()?);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `LlamaRotaryEmbedding` of the Python library `transformers`; Su et al., RoFormer.
#[derive(Clone, Debug, Module)]
pub struct RotaryEmbedding {
    /// The cosines of the angles, `[positions, half]`, of type `F64`.
    #[module(skip)]
    cos: Tensor,
    /// The sines of the angles.
    #[module(skip)]
    sin: Tensor,
    interleaved: bool,
}

impl RotaryEmbedding {
    /// Creates a layer that rotates the first `features` features at positions below `positions`,
    /// with a base of 10,000 and pairs as in Llama.
    ///
    /// # Errors
    ///
    /// As [`RotaryEmbeddingOptions::init`].
    pub fn new(features: usize, positions: usize) -> Result<RotaryEmbedding> {
        RotaryEmbedding::options(features, positions).init()
    }

    /// Returns options for a layer, starting from the defaults of [`new`](RotaryEmbedding::new).
    pub fn options(features: usize, positions: usize) -> RotaryEmbeddingOptions {
        RotaryEmbeddingOptions { features, positions, base: 10_000.0, interleaved: false }
    }

    /// Returns the number of positions.
    pub fn positions(&self) -> usize {
        self.cos.shape()[0]
    }

    /// Rotates `x`, whose first row is at position `offset`.
    ///
    /// # Shapes
    ///
    /// `x` and the result are `[.., length, width]`, with a width of at least the rotated features.
    ///
    /// # Determinism
    ///
    /// Portable, and a row depends on its position alone. Pair `i` of `half` turns by `position /
    /// base^(i / half)`, computed in f64 by [`math::f64`](samebits_numerics::math::f64); cosine and
    /// sine are rounded to the type of `x`, then [`rotary_embedding`](functional::rotary_embedding)
    /// is applied.
    ///
    /// # Errors
    ///
    /// A position is past the table, `x` is narrower than the rotated features, or is not a float.
    #[layer]
    pub fn forward(&self, x: &Tensor, offset: usize) -> Result<Tensor> {
        let op = "RotaryEmbedding";
        let &[.., length, width] = x.shape() else {
            let message = format!("expected [.., length, width], got shape {:?}", x.shape());
            return Err(Error::invalid(op, message));
        };
        let (positions, half) = (self.positions(), self.cos.shape()[1]);
        if offset.checked_add(length).is_none_or(|end| end > positions) {
            let message = format!(
                "expected positions below {positions}, got {length} positions from {offset}"
            );
            return Err(Error::invalid(op, message));
        }
        if width < 2 * half {
            let message = format!("expected at least {} features, got {width}", 2 * half);
            return Err(Error::invalid(op, message));
        }
        if !x.dtype().is_float() {
            let (what, expected, got) = ("the input", DType::F32, x.dtype());
            return Err(Error::DTypeMismatch { op, what, expected, got });
        }
        let rows =
            |table: &Tensor| table.narrow(0, offset, length)?.to_dtype(x.dtype())?.to(x.device());
        functional::rotary_embedding(x, &rows(&self.cos)?, &rows(&self.sin)?, self.interleaved)
            .map_err(|error| error.called(op))
    }
}

/// Options of a [`RotaryEmbedding`].
#[derive(Clone, Debug)]
pub struct RotaryEmbeddingOptions {
    features: usize,
    positions: usize,
    base: f64,
    interleaved: bool,
}

impl RotaryEmbeddingOptions {
    setters! {
        /// Sets the base of the angles (default 10,000): pair `i` of `half` turns by `position /
        /// base^(i / half)`.
        base: f64;
        /// Sets whether pairs are neighbours, as in GPT-J (true), or half the features apart, as in
        /// Llama and GPT-NeoX (false, the default).
        interleaved: bool;
    }

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// The number of features is 0 or odd, `base` is not a positive finite number, or memory runs
    /// out.
    pub fn init(&self) -> Result<RotaryEmbedding> {
        let op = "RotaryEmbedding";
        let &RotaryEmbeddingOptions { features, positions, base, interleaved } = self;
        if features == 0 || !features.is_multiple_of(2) {
            let message = format!("expected a positive even number of features, got {features}");
            return Err(Error::invalid(op, message));
        }
        if !(base > 0.0 && base.is_finite()) {
            let message = format!("expected a positive finite base, got {base}");
            return Err(Error::invalid(op, message));
        }
        let half = features / 2;
        numel(op, &[positions, half])?;
        let scratch =
            |shape: &[usize]| Value::scratch(shape, DType::F64).map_err(|error| error.called(op));
        let mut powers = scratch(&[half])?;
        let powers = powers.as_mut_slice::<f64>()?;
        for (i, power) in powers.iter_mut().enumerate() {
            *power = pow(base, i as f64 / half as f64);
        }
        let table = |function: fn(f64) -> f64| -> Result<Tensor> {
            let mut table = scratch(&[positions, half])?;
            for (position, row) in table.as_mut_slice::<f64>()?.chunks_mut(half).enumerate() {
                for (y, power) in row.iter_mut().zip(&*powers) {
                    *y = function(position as f64 / power);
                }
            }
            Ok(table.into())
        };
        Ok(RotaryEmbedding { cos: table(cos)?, sin: table(sin)?, interleaved })
    }
}
