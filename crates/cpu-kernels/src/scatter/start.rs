//! What sums are without an addend, or with one.

use samebits_numerics::simd::{self, Kernel};

use crate::{Float, parallel};

/// The number of elements of a task.
const PIECE: usize = 1 << 17;

/// Returns the sum of no addend but this number, or of two whose rounded sum it is.
#[inline(always)]
pub(super) fn sum_of_one<T: Float>(x: T) -> T {
    // An exact sum of zeros, which those of f32 are, is +0.
    let sum = if T::WIDE { x } else { x + T::ZERO };
    sum.canonical()
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
        for sum in self.out {
            *sum = sum_of_one(*sum);
        }
    }
}
