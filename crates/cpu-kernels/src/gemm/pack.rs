//! Panels: the values that a register tile reads, in reading order.

use super::{Real, Source};
use crate::parallel;
use samebits_numerics::simd;
use std::ops::Range;

/// A strided matrix: element (lane, step) is `data[lane * lane_stride + step * step_stride]`.
///
/// A lane is an output row or column, a step is one `k`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) lane_stride: usize,
    pub(crate) step_stride: usize,
}

impl<'a, T> Lanes<'a, T> {
    /// Returns the lanes from number `lane` on.
    #[inline(always)]
    pub(crate) fn lanes_from(self, lane: usize) -> Lanes<'a, T> {
        Lanes { data: &self.data[lane * self.lane_stride..], ..self }
    }

    /// Returns the lanes from a step on.
    #[inline(always)]
    pub(crate) fn steps_from(self, step: usize) -> Lanes<'a, T> {
        Lanes { data: &self.data[step * self.step_stride..], ..self }
    }
}

/// One product: lanes of `a` are output rows, lanes of `b` are output columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors<'a, T> {
    pub(crate) a: Lanes<'a, T>,
    pub(crate) b: Lanes<'a, T>,
}

/// The number of panels that one thread packs together, so that it reads long stretches of memory.
const PACKED_PANELS: usize = 8;

/// Packs steps `steps` of all `lanes` to `out` as `[panel][step][width]`, in parallel.
pub(crate) fn pack_all<T: Real, S: Source<T>>(
    source: Lanes<'_, S>,
    lanes: usize,
    steps: Range<usize>,
    width: usize,
    out: &mut [T],
) {
    let panels = lanes.div_ceil(width);
    // `out` holds all panels; if the chunk length exceeds it, there is one chunk.
    let chunk_len = (PACKED_PANELS * width).saturating_mul(steps.len()).max(1);
    parallel::chunks_mut(out, chunk_len).enumerate().for_each(|(chunk, out)| {
        let first = chunk * PACKED_PANELS;
        let panels: Vec<_> = (first..panels.min(first + PACKED_PANELS))
            .map(|panel| panel * width..lanes.min((panel + 1) * width))
            .collect();
        let (panels, steps) = (&panels[..], steps.clone());
        simd::dispatch(PackPanels { source, panels, steps, width, out });
    });
}

/// Writes steps `steps` of lanes `lanes` to `panel` as `[step][width]`; missing lanes become +0.
#[inline(always)]
pub(crate) fn pack_panel<T: Real, S: Source<T>>(
    source: Lanes<'_, S>,
    lanes: Range<usize>,
    steps: Range<usize>,
    width: usize,
    panel: &mut [T],
) {
    let count = lanes.len();
    if count == 0 || steps.is_empty() {
        return;
    }
    if count < width {
        panel[..steps.len() * width].fill(T::default());
    }
    let first = lanes.start * source.lane_stride;
    if source.lane_stride == 1 {
        // Selects the count once, not at each step. Otherwise LLVM merges all cases into one call
        // of the system's copy.
        macro_rules! known {
            ($($count:literal)*) => {
                match count {
                    $($count => copy_steps::<T, S, $count>(source, first, steps, width, panel),)*
                    _ => for (row, step) in panel.chunks_exact_mut(width).zip(steps) {
                        let from = first + step * source.step_stride;
                        S::copy(&source.data[from..from + count], &mut row[..count]);
                    },
                }
            };
        }
        known!(4 5 6 13 14 16 32);
    } else if source.step_stride == 1 {
        let from = &source.data[first + steps.start..];
        S::pack_transposed(from, source.lane_stride, (count, steps.len()), panel, width);
    } else {
        for lane in 0..count {
            let from = first + lane * source.lane_stride;
            for (s, step) in steps.clone().enumerate() {
                panel[s * width + lane] = source.data[from + step * source.step_stride].widen();
            }
        }
    }
}

/// Copies `COUNT` neighbouring lanes of each step, the first at `first` in step 0.
#[inline(always)]
fn copy_steps<T: Real, S: Source<T>, const COUNT: usize>(
    source: Lanes<'_, S>,
    first: usize,
    steps: Range<usize>,
    width: usize,
    panel: &mut [T],
) {
    for (row, step) in panel.chunks_exact_mut(width).zip(steps) {
        let from = first + step * source.step_stride;
        S::copy(&source.data[from..from + COUNT], &mut row[..COUNT]);
    }
}

/// Copies the lanes of one step. If their number is known at compile time, the lanes of a register
/// tile are a few moves, otherwise a call of the system's copy.
#[inline(always)]
fn copy_lanes<T, S: Source<T>>(from: &[S], to: &mut [T]) {
    macro_rules! known {
        ($($count:literal)*) => {
            match (from.len(), to) {
                $(($count, to) => S::copy(&from[..$count], &mut to[..$count]),)*
                (_, to) => S::copy(from, to),
            }
        };
    }
    known!(4 5 6 13 14 16 32)
}

/// The arguments of [`pack_panel`] as a kernel, compiled per level.
pub(crate) struct PackPanels<'a, T, S = T> {
    pub(crate) source: Lanes<'a, S>,
    /// The range of lanes of each panel.
    pub(crate) panels: &'a [Range<usize>],
    pub(crate) steps: Range<usize>,
    /// The width of every panel; 0 means the number of its lanes.
    pub(crate) width: usize,
    pub(crate) out: &'a mut [T],
}

impl<T: Real, S: Source<T>> simd::Kernel for PackPanels<'_, T, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        if self.source.lane_stride == 1 && self.width > 0 && self.panels.len() > 1 {
            // Goes step by step, because the values of a step are neighbours in memory.
            let len = self.width * self.steps.len();
            for (s, step) in self.steps.clone().enumerate() {
                let row = &self.source.data[step * self.source.step_stride..];
                for (panel, lanes) in self.out.chunks_exact_mut(len).zip(self.panels) {
                    let to = &mut panel[s * self.width..][..self.width];
                    copy_lanes(&row[lanes.clone()], &mut to[..lanes.len()]);
                    to[lanes.len()..].fill(T::default());
                }
            }
            return;
        }
        let mut rest = self.out;
        for lanes in self.panels {
            let width = if self.width == 0 { lanes.len() } else { self.width };
            let (panel, after) = rest.split_at_mut(width * self.steps.len());
            pack_panel(self.source, lanes.clone(), self.steps.clone(), width, panel);
            rest = after;
        }
    }
}
