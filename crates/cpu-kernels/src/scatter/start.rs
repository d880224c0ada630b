//! What sums are without an addend, or with one.

use samebits_numerics::fpenv;
use samebits_numerics::simd::{self, Kernel};

use super::ascending::Order;
use super::{Addends, Destinations};
use crate::{Float, Result, parallel};

/// The number of elements of a task.
const PIECE: usize = 1 << 17;

/// Returns the sum of no addend but this number, or of two whose rounded sum it is.
#[inline(always)]
pub(super) fn sum_of_one<T: Float>(x: T) -> T {
    // An exact sum of zeros, which those of f32 are, is +0.
    let sum = if T::WIDE { x } else { x + T::ZERO };
    sum.canonical()
}

/// Returns true only for a number that is [`sum_of_one`] of itself.
#[inline(always)]
fn is_sum<T: Float>(x: T) -> bool {
    let size = x.abs();
    (size > T::ZERO) | (T::WIDE & (size == T::ZERO))
}

/// Makes sums of no addends of the elements of an output, whose content is ignored if it is `fresh`.
pub(super) fn start<T: Float>(out: &mut [T], fresh: bool) {
    parallel::pieces_of(PIECE, out, |_, out| simd::dispatch(Start { out, fresh }));
}

/// Arguments of [`start`], for a piece.
pub(super) struct Start<'a, T> {
    pub(super) out: &'a mut [T],
    pub(super) fresh: bool,
}

impl<T: Float> Kernel for Start<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        if self.fresh {
            return self.out.fill(T::ZERO);
        }
        // Few numbers differ from their sums, and most memory need not be written.
        for some in self.out.chunks_mut(256) {
            let mut are_sums = true;
            for &x in &*some {
                are_sums &= is_sum(x);
            }
            if !are_sums {
                for sum in some {
                    *sum = sum_of_one(*sum);
                }
            }
        }
    }
}

/// The number of sources that one thread adds at once.
const ALONE: usize = 1 << 18;

/// Returns true if [`add_singles`] adds rows of this width, and is faster than to group them.
pub(super) fn are_distinct(width: usize, destinations: &dyn Destinations) -> bool {
    width == 1 && destinations.distinct() && destinations.count() <= ALONE
}

/// Adds each source, of one element, to its row; no two may have the same one.
///
/// # Errors
///
/// As [`Destinations::fill`], and then the output is unchanged.
pub(super) fn add_singles<T: Float>(
    out: &mut [T],
    fresh: bool,
    destinations: &dyn Destinations,
    addends: &impl Addends<T>,
) -> Result<()> {
    let sources = 0..destinations.count();
    destinations.check(sources.clone())?;
    start(out, fresh);
    fpenv::ieee(|| {
        Order::batches(destinations, sources, |first, rows| {
            addends.for_singles(first, rows.iter(), |&row, addend| {
                out[row] = sum_of_one(out[row] + addend);
            });
            Ok(())
        })
    })
}
