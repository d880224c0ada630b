//! The sum of each element type.

use super::{Addends, Destinations, ascending, exact};
use samebits_numerics::nan::canonical;

use crate::{Float, Result};

/// An element type with the sum that the [parent](super) defines.
pub trait Sums: Float {
    /// Adds to each row of `out` the rows of the sources that are sent there. A `fresh` output has no
    /// meaningful content, and its sums start from +0.
    #[doc(hidden)]
    fn add_rows(
        out: &mut [Self],
        fresh: bool,
        width: usize,
        destinations: &dyn Destinations,
        addends: &impl Addends<Self>,
    ) -> Result<()>;

    /// Returns the sum of no addend but this number, or of two whose rounded sum it is.
    #[doc(hidden)]
    fn sum_of_one(self) -> Self;
}

impl Sums for f32 {
    fn add_rows(
        out: &mut [f32],
        fresh: bool,
        width: usize,
        destinations: &dyn Destinations,
        addends: &impl Addends<f32>,
    ) -> Result<()> {
        exact::add_rows(out, fresh, width, destinations, addends)
    }

    #[inline(always)]
    fn sum_of_one(self) -> f32 {
        // An exact sum of zeros is +0.
        canonical(self + 0.0)
    }
}

impl Sums for f64 {
    fn add_rows(
        out: &mut [f64],
        fresh: bool,
        width: usize,
        destinations: &dyn Destinations,
        addends: &impl Addends<f64>,
    ) -> Result<()> {
        ascending::add_rows(out, fresh, width, destinations, addends)
    }

    #[inline(always)]
    fn sum_of_one(self) -> f64 {
        canonical(self)
    }
}
