//! Histograms.

use super::{expect_dtype, expect_float, expect_shape};
use crate::layout::numel;
use crate::{DType, Error, Op, Result, Tensor};

/// The length of a histogram of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bins {
    /// One more than the largest value, and at least this many. A device is waited for.
    AtLeast(usize),
    /// This many; no value may reach it.
    Exactly(usize),
}

impl Bins {
    /// Returns the smallest length that the result can have.
    fn least(self) -> usize {
        match self {
            Bins::AtLeast(bins) | Bins::Exactly(bins) => bins,
        }
    }
}

/// The number of occurrences of each value, as i64.
#[derive(Clone, Debug)]
pub struct Bincount {
    /// `[n]`, i64, not negative.
    pub x: Tensor,
    /// The length of the result.
    pub bins: Bins,
}

impl Op for Bincount {
    const NAME: &'static str = "bincount";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![bins];

    fn plan(&self) -> Result<()> {
        check_values(&self.x)?;
        numel(Self::NAME, &[self.bins.least()]).map(|_| ())
    }
}

/// The sum of the weights of each value, exact and rounded once.
#[derive(Clone, Debug)]
pub struct BincountWeighted {
    /// As in [`Bincount`].
    pub x: Tensor,
    /// `[n]`, floats.
    pub weights: Tensor,
    /// The length of the result.
    pub bins: Bins,
}

impl Op for BincountWeighted {
    const NAME: &'static str = "bincount";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![weights, x];
    crate::parameters![bins];

    fn plan(&self) -> Result<()> {
        check_values(&self.x)?;
        numel(Self::NAME, &[self.bins.least()])?;
        expect_float(Self::NAME, "the weights", &self.weights)?;
        expect_shape(Self::NAME, "the weights", &self.weights, self.x.shape())
    }
}

/// The number of elements in each of `bins` bins of equal width from `min` to `max`, both
/// included, as floats. Elements outside and NaN are not counted. If the limits are equal, the
/// smallest and the largest element take their place. No element is in a wrong bin: see
/// [`bin_edges`](crate::geometry::bin_edges).
#[derive(Clone, Debug)]
pub struct Histc {
    /// The elements.
    pub x: Tensor,
    /// The number of bins.
    pub bins: usize,
    /// The lower limit.
    pub min: f64,
    /// The upper limit.
    pub max: f64,
}

impl Op for Histc {
    const NAME: &'static str = "histc";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![bins, min, max];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)?;
        if self.bins == 0 {
            return Err(Error::invalid(Self::NAME, "at least one bin is needed"));
        }
        numel(Self::NAME, &[self.bins]).map(|_| ())
    }
}

fn check_values(x: &Tensor) -> Result<()> {
    expect_dtype(Bincount::NAME, "the input", x, DType::I64)?;
    if x.rank() != 1 {
        return Err(Error::invalid(
            Bincount::NAME,
            format!("expected an input with 1 dimension, got shape {:?}", x.shape()),
        ));
    }
    Ok(())
}
