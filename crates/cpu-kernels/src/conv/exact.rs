//! One border position, computed exactly as the contract states: taps in the padding are skipped.

use super::weights::PackedWeights;
use crate::gemm::Real;
use samebits_numerics::simd;
use std::ops::Range;

/// Arguments of a kernel: the rows of some panels at one target position.
pub(crate) struct Column<'a, T: Real, P: FnMut(usize, T)> {
    pub(crate) weights: &'a PackedWeights<T>,
    pub(crate) panels: &'a [Range<usize>],
    pub(crate) group: usize,
    /// The padded copy, from the first element that this position reads.
    pub(crate) source: &'a [T],
    pub(crate) places: &'a [usize],
    /// True for each tap that is not in the padding.
    pub(crate) valid: &'a [bool],
    pub(crate) put: P,
}

impl<T: Real, P: FnMut(usize, T)> simd::Kernel for Column<'_, T, P> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        /// The number of rows of the largest panel.
        const MOST: usize = 16;
        for panel in self.panels {
            let rows = panel.len();
            let mut total = [T::default(); MOST];
            for (block, steps) in self.weights.blocks.iter().enumerate() {
                let values = self.weights.panel(self.group, block, panel);
                let mut partial = [T::default(); MOST];
                for (w, step) in values.chunks_exact(rows).zip(steps.clone()) {
                    if self.valid[self.weights.steps[step].1] {
                        let x = self.source[self.places[step]];
                        for (sum, &w) in partial[..rows].iter_mut().zip(w) {
                            *sum = w.fma(x, *sum);
                        }
                    }
                }
                for (sum, &partial) in total.iter_mut().zip(&partial) {
                    *sum = if block == 0 { partial } else { sum.plus(partial) };
                }
            }
            for (row, &value) in panel.clone().zip(&total) {
                (self.put)(row, value.canonical());
            }
        }
    }
}

/// Arguments of a kernel that finds the lanes with a zero in any row; the result is empty if there
/// are none.
pub(crate) struct FindZeros<'a, T> {
    pub(crate) sums: &'a [T],
    pub(crate) stride: usize,
    pub(crate) lanes: usize,
}

impl<T: Real> simd::Kernel for FindZeros<'_, T> {
    type Output = Vec<bool>;

    #[inline(always)]
    fn run(self) -> Vec<bool> {
        let mut zeros = Vec::new();
        for row in self.sums.chunks_exact(self.stride) {
            let row = &row[..self.lanes];
            if row.iter().fold(false, |found, &value| found | (value == T::default())) {
                zeros.resize(self.lanes, false);
                for (zero, &value) in zeros.iter_mut().zip(row) {
                    *zero |= value == T::default();
                }
            }
        }
        zeros
    }
}
