//! The sum of each element type.

use super::{Addends, Destinations, ascending, exact, start};
use samebits_numerics::exact::{ExactSum, tested_sum};
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

    /// Returns the sum of a number and some addends.
    #[doc(hidden)]
    fn sum_of_some(self, addends: impl Iterator<Item = Self> + Clone) -> Self;
}

impl Sums for f32 {
    fn add_rows(
        out: &mut [f32],
        fresh: bool,
        width: usize,
        destinations: &dyn Destinations,
        addends: &impl Addends<f32>,
    ) -> Result<()> {
        if start::are_distinct(width, destinations) {
            return start::add_singles(out, fresh, destinations, addends);
        }
        exact::add_rows(out, fresh, width, destinations, addends)
    }

    #[inline(always)]
    fn sum_of_some(self, addends: impl Iterator<Item = f32> + Clone) -> f32 {
        let (mut sum, mut lost) = (0.0 + f64::from(self), 0);
        for x in addends.clone() {
            let error;
            (sum, error) = tested_sum(sum, x.into());
            lost |= error;
        }
        // The bits need not show an infinity.
        if lost << 1 == 0 && sum.is_finite() {
            return sum as f32;
        }
        let mut exact = ExactSum::new();
        exact.add(self);
        exact.extend(addends);
        exact.to_f32()
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
        if start::are_distinct(width, destinations) {
            return start::add_singles(out, fresh, destinations, addends);
        }
        ascending::add_rows(out, fresh, width, destinations, addends)
    }

    #[inline(always)]
    fn sum_of_some(self, addends: impl Iterator<Item = f64> + Clone) -> f64 {
        canonical(addends.fold(self, |sum, x| sum + x))
    }
}
