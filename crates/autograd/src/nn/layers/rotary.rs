use std::f64::consts::TAU;

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
    /// The cosines and the sines of the angles, `[positions, half]`, of type `F64`.
    #[module(skip)]
    tables: [Tensor; 2],
    /// The same of type `F32`.
    #[module(skip)]
    single: [Tensor; 2],
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
        let scaling = RotaryScaling::default();
        RotaryEmbeddingOptions { features, positions, base: 10_000.0, scaling, interleaved: false }
    }

    /// Returns the number of positions.
    pub fn positions(&self) -> usize {
        self.tables[0].shape()[0]
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
    /// base^(i / half)`, or as [`RotaryScaling`] says, computed in f64 by [`math::f64`](samebits_numerics::math::f64); cosine and
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
        let (positions, half) = (self.positions(), self.tables[0].shape()[1]);
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
        let [cos, sin] = if x.dtype() == DType::F32 { &self.single } else { &self.tables };
        let rows =
            |table: &Tensor| table.narrow(0, offset, length)?.to_dtype(x.dtype())?.to(x.device());
        functional::rotary_embedding(x, &rows(cos)?, &rows(sin)?, self.interleaved)
            .map_err(|error| error.called(op))
    }
}

/// A change of the angles of a [`RotaryEmbedding`] for sequences longer than those of the first
/// training.
///
/// Pair `i` turns by `position / divisor`, where the divisor is `d = base^(i / half)` without scaling.
/// All is computed in f64, in the written order.
///
/// # References
///
/// `rope_type` of the Python library `transformers`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RotaryScaling {
    /// No change.
    #[default]
    None,
    /// Divisors `d · factor`.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// As in Llama 3.1: pairs that turn often stay, those that turn rarely are scaled, with a
    /// transition. With the wavelength `w = 2π · d`, the divisor is `d · factor` if `w >
    /// original_positions / low_frequency_factor`; `d` if `w < original_positions /
    /// high_frequency_factor`; else `d / ((1 − s) / factor + s)` with `s = (original_positions / w −
    /// low_frequency_factor) / (high_frequency_factor − low_frequency_factor)`.
    Llama3 {
        /// The factor of pairs that turn rarely.
        factor: f64,
        /// The number of turns in the original positions below which a pair is scaled.
        low_frequency_factor: f64,
        /// The number of turns in the original positions above which a pair stays.
        high_frequency_factor: f64,
        /// The number of positions of the first training.
        original_positions: usize,
    },
}

impl RotaryScaling {
    fn check(self) -> Result<()> {
        let refuse = |message: String| Err(Error::invalid("RotaryEmbedding", message));
        let positive = |x: f64| x > 0.0 && x.is_finite();
        match self {
            RotaryScaling::Linear { factor } | RotaryScaling::Llama3 { factor, .. }
                if !positive(factor) =>
            {
                refuse(format!("expected a positive finite factor of scaling, got {factor}"))
            }
            RotaryScaling::Llama3 {
                low_frequency_factor: low,
                high_frequency_factor: high,
                ..
            } if !(positive(low) && positive(high) && low < high) => refuse(format!(
                "expected 0 < low_frequency_factor < high_frequency_factor, got {low} and {high}"
            )),
            RotaryScaling::Llama3 { original_positions: 0, .. } => {
                refuse("expected original_positions of at least 1, got 0".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns the divisor of positions for a pair whose divisor is `d` without scaling.
    fn divisor(self, d: f64) -> f64 {
        match self {
            RotaryScaling::None => d,
            RotaryScaling::Linear { factor } => d * factor,
            RotaryScaling::Llama3 {
                factor,
                low_frequency_factor: low,
                high_frequency_factor: high,
                original_positions,
            } => {
                let (original, wavelength) = (original_positions as f64, TAU * d);
                if wavelength > original / low {
                    d * factor
                } else if wavelength < original / high {
                    d
                } else {
                    let s = (original / wavelength - low) / (high - low);
                    d / ((1.0 - s) / factor + s)
                }
            }
        }
    }
}

/// Options of a [`RotaryEmbedding`].
#[derive(Clone, Debug)]
pub struct RotaryEmbeddingOptions {
    features: usize,
    positions: usize,
    base: f64,
    scaling: RotaryScaling,
    interleaved: bool,
}

impl RotaryEmbeddingOptions {
    setters! {
        /// Sets the base of the angles (default 10,000): pair `i` of `half` turns by `position /
        /// base^(i / half)`.
        base: f64;
        /// Sets the scaling of the angles for long sequences (default: none).
        scaling: RotaryScaling;
        /// Sets whether pairs are neighbours, as in GPT-J (true), or half the features apart, as in
        /// Llama and GPT-NeoX (false, the default).
        interleaved: bool;
    }

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// The number of features is 0 or odd, `base` or a factor of the scaling is not a positive finite
    /// number, the scaling has no transition, or memory runs out.
    pub fn init(&self) -> Result<RotaryEmbedding> {
        let op = "RotaryEmbedding";
        let &RotaryEmbeddingOptions { features, positions, base, scaling, interleaved } = self;
        if features == 0 || !features.is_multiple_of(2) {
            let message = format!("expected a positive even number of features, got {features}");
            return Err(Error::invalid(op, message));
        }
        if !(base > 0.0 && base.is_finite()) {
            let message = format!("expected a positive finite base, got {base}");
            return Err(Error::invalid(op, message));
        }
        scaling.check()?;
        let half = features / 2;
        numel(op, &[positions, half])?;
        let scratch =
            |shape: &[usize]| Value::scratch(shape, DType::F64).map_err(|error| error.called(op));
        let mut divisors = scratch(&[half])?;
        let divisors = divisors.as_mut_slice::<f64>()?;
        for (i, divisor) in divisors.iter_mut().enumerate() {
            *divisor = scaling.divisor(pow(base, i as f64 / half as f64));
        }
        let table = |function: fn(f64) -> f64| -> Result<Tensor> {
            let mut table = scratch(&[positions, half])?;
            for (position, row) in table.as_mut_slice::<f64>()?.chunks_mut(half).enumerate() {
                for (y, divisor) in row.iter_mut().zip(&*divisors) {
                    *y = function(position as f64 / divisor);
                }
            }
            Ok(table.into())
        };
        let tables = [table(cos)?, table(sin)?];
        let single = |table: &Tensor| table.to_dtype(DType::F32);
        Ok(RotaryEmbedding {
            single: [single(&tables[0])?, single(&tables[1])?],
            tables,
            interleaved,
        })
    }
}
