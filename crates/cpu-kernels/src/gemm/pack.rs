//! Panels: the values that a register tile reads, in the order in which it reads them.

use super::Float;
use samebits_numerics::simd;

/// A matrix by strides: element (lane, step) is `data[lane * lane_stride + step * step_stride]`.
///
/// A lane is an output row or column, a step is one `k`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) lane_stride: usize,
    pub(crate) step_stride: usize,
}

/// Writes lanes `lanes` of steps `steps` to `panel` as `[step][width]`; missing lanes become +0.
#[inline(always)]
pub(crate) fn pack_panel<T: Float>(
    source: Lanes<'_, T>,
    lanes: std::ops::Range<usize>,
    steps: std::ops::Range<usize>,
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
        for (row, step) in panel.chunks_exact_mut(width).zip(steps) {
            let from = first + step * source.step_stride;
            row[..count].copy_from_slice(&source.data[from..from + count]);
        }
    } else {
        // Blocks of steps keep the lines that are read in the cache until they are used up.
        const BLOCK: usize = 16;
        let mut step = steps.start;
        while step < steps.end {
            let block = BLOCK.min(steps.end - step);
            let rows = &mut panel[(step - steps.start) * width..][..block * width];
            for lane in 0..count {
                let from = first + lane * source.lane_stride + step * source.step_stride;
                if source.step_stride == 1 && block == BLOCK {
                    let values = &source.data[from..from + BLOCK];
                    for s in 0..BLOCK {
                        rows[s * width + lane] = values[s];
                    }
                } else {
                    for s in 0..block {
                        rows[s * width + lane] = source.data[from + s * source.step_stride];
                    }
                }
            }
            step += block;
        }
    }
}

/// [`pack_panel`] compiled for the level in force.
pub(crate) struct PackPanels<'a, T> {
    pub(crate) source: Lanes<'a, T>,
    /// One range of lanes for each panel.
    pub(crate) panels: &'a [std::ops::Range<usize>],
    pub(crate) steps: std::ops::Range<usize>,
    /// Width of every panel; 0 means as wide as its lanes.
    pub(crate) width: usize,
    pub(crate) out: &'a mut [T],
}

impl<T: Float> simd::Kernel for PackPanels<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut rest = self.out;
        for lanes in self.panels {
            let width = if self.width == 0 { lanes.len() } else { self.width };
            let (panel, after) = rest.split_at_mut(width * self.steps.len());
            pack_panel(self.source, lanes.clone(), self.steps.clone(), width, panel);
            rest = after;
        }
    }
}
