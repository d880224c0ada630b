//! Random tensors. Each operation holds its generator at the start of the draw, so that a re-run
//! gives the same bits; the caller reserves the blocks.

use samebits_rng::Generator;

use super::expect_float;
use crate::layout::numel;
use crate::{DType, Device, Error, Op, Result, Tensor};

/// Uniform numbers in `[low, high)`.
#[derive(Clone, Debug)]
pub struct Uniform {
    /// The shape of the result.
    pub shape: Vec<usize>,
    /// Its element type: `F32` or `F64`.
    pub dtype: DType,
    /// The device of the result.
    pub device: Device,
    /// The smallest value.
    pub low: f64,
    /// The upper bound, excluded.
    pub high: f64,
    /// The generator, at the start of the draw.
    pub generator: Generator,
}

impl Op for Uniform {
    const NAME: &'static str = "uniform";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![];
    crate::parameters![low, high];

    fn generator(&self) -> Option<&Generator> {
        Some(&self.generator)
    }

    fn device(&self) -> Device {
        self.device
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn plan(&self) -> Result<()> {
        numel(Self::NAME, &self.shape)?;
        // Written so that NaN is rejected too.
        if !(self.low <= self.high && (self.high - self.low).is_finite()) {
            return Err(Error::invalid(
                Self::NAME,
                format!("expected low <= high, got {} and {}", self.low, self.high),
            ));
        }
        numel(Self::NAME, &self.shape).map(|_| ())
    }
}

/// Normal numbers.
#[derive(Clone, Debug)]
pub struct Normal {
    /// The shape of the result.
    pub shape: Vec<usize>,
    /// Its element type: `F32` or `F64`.
    pub dtype: DType,
    /// The device of the result.
    pub device: Device,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub std: f64,
    /// The generator, at the start of the draw.
    pub generator: Generator,
}

impl Op for Normal {
    const NAME: &'static str = "normal";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![];
    crate::parameters![mean, std];

    fn generator(&self) -> Option<&Generator> {
        Some(&self.generator)
    }

    fn device(&self) -> Device {
        self.device
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn plan(&self) -> Result<()> {
        numel(Self::NAME, &self.shape)?;
        if !(self.std >= 0.0 && self.std.is_finite() && self.mean.is_finite()) {
            return Err(Error::invalid(
                Self::NAME,
                format!("expected a finite mean and std >= 0, got {} and {}", self.mean, self.std),
            ));
        }
        numel(Self::NAME, &self.shape).map(|_| ())
    }
}

/// Sets each element to zero with probability `p` and scales the others by `1 / (1 − p)`. Returns
/// the result and the mask of kept elements.
#[derive(Clone, Debug)]
pub struct Dropout {
    /// The input.
    pub x: Tensor,
    /// The probability of dropping an element.
    pub p: f64,
    /// The generator, at the start of the draw: element i is kept if uniform number i of the draw
    /// is at least `p`.
    pub generator: Generator,
}

impl Op for Dropout {
    const NAME: &'static str = "dropout";
    type Plan = ();
    type Output = (Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![p];

    fn generator(&self) -> Option<&Generator> {
        Some(&self.generator)
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)?;
        if !(0.0..=1.0).contains(&self.p) {
            return Err(Error::invalid(
                Self::NAME,
                format!("expected 0 <= p <= 1, got {}", self.p),
            ));
        }
        Ok(())
    }
}
