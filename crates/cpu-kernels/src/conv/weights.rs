//! Weights packed for a [`Gather`] pass.

use super::geometry::{Gather, Phase};
use crate::gemm::{K_BLOCK, Real, even_parts};
use crate::parallel;
use samebits_numerics::memory::{self, OutOfMemory};
use samebits_numerics::simd;
use std::ops::Range;

/// The weights of every group for one phase, as `[group][block][panel][step][row of panel]`.
#[derive(Debug)]
pub(crate) struct PackedWeights<T> {
    data: Vec<T>,
    group: usize,
    /// The steps of each block of the contract, as positions in the list of steps that are not
    /// skipped. A block may be empty.
    pub(crate) blocks: Vec<Range<usize>>,
    pub(crate) panels: Vec<Range<usize>>,
    /// The channel and tap (position in the phase's list) of each step.
    pub(crate) steps: Vec<(usize, usize)>,
    rows: usize,
}

/// The properties of the weights that decide if padding zeros could change a result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightRange {
    /// False if any weight is infinite or NaN, so that its product with a padding zero is not zero.
    pub(crate) finite: bool,
    /// The smallest exponent of the last bit of a nonzero weight.
    pub(crate) last_bit: i32,
}

impl WeightRange {
    pub(crate) fn of<T: Real>(weights: &[T]) -> WeightRange {
        let all = WeightRange { finite: true, last_bit: i32::MAX };
        let of_piece = |piece: &[T]| simd::dispatch(RangeOf(piece));
        parallel::chunks(weights, parallel::CHUNK).reduce(all, of_piece, |a, b| WeightRange {
            finite: a.finite && b.finite,
            last_bit: a.last_bit.min(b.last_bit),
        })
    }
}

/// Arguments of a kernel that computes [`WeightRange::of`].
struct RangeOf<'a, T>(&'a [T]);

impl<T: Real> simd::Kernel for RangeOf<'_, T> {
    type Output = WeightRange;

    #[inline(always)]
    fn run(self) -> WeightRange {
        let (mut infinite, mut last_bit) = (0u32, i32::MAX);
        for &w in self.0 {
            infinite |= u32::from(!w.finite());
            last_bit = last_bit.min(w.last_bit_exponent());
        }
        WeightRange { finite: infinite == 0, last_bit }
    }
}

/// Packs the weights at `places` of the rows of a panel, `stride` apart, as `[step][row]`.
fn pack_panel<T: Real>(
    weights: &[T],
    stride: usize,
    rows: usize,
    places: &[usize],
    values: &mut [T],
) {
    // Neighbours are transposed together.
    let mut done = 0;
    for places in places.chunk_by(|a, b| a + 1 == *b) {
        let values = &mut values[done * rows..][..places.len() * rows];
        T::pack_transposed(&weights[places[0]..], stride, (rows, places.len()), values, rows);
        done += places.len();
    }
}

impl<T: Real> PackedWeights<T> {
    pub(crate) fn new(
        pass: &Gather,
        phase: &Phase,
        weights: &[T],
        task_rows: usize,
        max_rows: usize,
    ) -> Result<Self, OutOfMemory> {
        let taps = phase.taps.len();
        let steps = (0..pass.channels * taps).map(|step| (step / taps, step % taps));
        let steps: Vec<_> = memory::collected(steps)?;
        // Blocks are counted over all taps of the kernel, so that a step's block does not depend on
        // the skipped taps.
        let logical =
            |&(channel, tap): &(usize, usize)| channel * pass.volume + phase.taps[tap].index;
        let count = (pass.channels * pass.volume).div_ceil(K_BLOCK);
        let blocks: Vec<_> = memory::collected((0..count).map(|block| {
            let from = steps.partition_point(|step| logical(step) < block * K_BLOCK);
            let to = steps.partition_point(|step| logical(step) < (block + 1) * K_BLOCK);
            from..to
        }))?;
        // No panel extends from the rows of one task to those of another.
        let mut panels: Vec<Range<usize>> = memory::with_capacity(pass.rows)?;
        for first in (0..pass.rows).step_by(task_rows) {
            let parts = even_parts(task_rows.min(pass.rows - first), max_rows);
            panels.extend(parts.map(|part| first + part.start..first + part.end));
        }
        // The list is at most as long as the weights.
        let group = steps.len() * pass.rows;
        let mut data = memory::zeroed(group * pass.groups)?;
        let places: Vec<usize> = memory::collected(
            steps
                .iter()
                .map(|&(channel, tap)| channel * pass.weight_channel + phase.taps[tap].index),
        )?;
        let mut jobs = memory::with_capacity(pass.groups * blocks.len())?;
        let mut rest = &mut data[..];
        for g in 0..pass.groups {
            for block in &blocks {
                let (part, after) = rest.split_at_mut(block.len() * pass.rows);
                rest = after;
                jobs.push(Some((g, block.clone(), part)));
            }
        }
        let fill = |(g, block, part): (usize, Range<usize>, &mut [T])| {
            if block.is_empty() {
                return;
            }
            let mut rest = part;
            for panel in &panels {
                let (values, after) = rest.split_at_mut(block.len() * panel.len());
                rest = after;
                let weights = &weights[g * pass.weight_group + panel.start * pass.weight_row..];
                pack_panel(weights, pass.weight_row, panel.len(), &places[block.clone()], values);
            }
        };
        if jobs.len() > 1 && group * pass.groups > 1 << 15 {
            parallel::tasks(&mut jobs).for_each(fill);
        } else {
            jobs.into_iter().flatten().for_each(fill);
        }
        Ok(PackedWeights { data, group, blocks, panels, steps, rows: pass.rows })
    }

    /// Returns the values of one panel in one block, `[step][row of panel]`.
    pub(crate) fn panel(&self, group: usize, block: usize, panel: &Range<usize>) -> &[T] {
        let steps = &self.blocks[block];
        let from = group * self.group + steps.start * self.rows + panel.start * steps.len();
        &self.data[from..from + steps.len() * panel.len()]
    }
}
