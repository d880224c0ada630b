//! Pooling of blocks of planes side by side.

use super::{AdaptiveAxis, PoolAxis};
use crate::error::Result;
use crate::lanes::{Lanes, Part, SIDE, each_output};
use crate::{Float, memory};
use samebits_numerics::extrema::replaces_max;
use std::ops::Range;

/// The least number of planes that are worth a block.
const FEW: usize = 6;

/// The largest number of positions that every element type represents.
pub(super) const EXACT: usize = 1 << 24;

/// Returns true if blocks are faster than rows.
pub(super) fn pay(planes: usize) -> bool {
    planes >= FEW
}

/// The positions that each output of a dimension reads: the first one and their number.
pub(super) struct Axis {
    windows: Vec<(usize, usize)>,
    step: usize,
    input: usize,
}

impl Axis {
    /// The windows of a dimension.
    pub(super) fn of_pool(op: &'static str, axis: &PoolAxis) -> Result<Axis> {
        let window = |o| {
            let taps = axis.taps(o);
            let start = if taps.is_empty() { 0 } else { axis.position(o, taps.start) };
            (start, taps.len())
        };
        let windows = memory::collected(op, (0..axis.output).map(window))?;
        Ok(Axis { windows, step: axis.dilation, input: axis.input })
    }

    /// The ranges that `range` returns for each of `outputs` outputs.
    pub(super) fn of_ranges(
        op: &'static str,
        input: usize,
        outputs: usize,
        range: impl Fn(usize) -> Range<usize>,
    ) -> Result<Axis> {
        let windows = (0..outputs).map(|o| {
            let range = range(o);
            (range.start, range.len())
        });
        Ok(Axis { windows: memory::collected(op, windows)?, step: 1, input })
    }

    /// The windows of an adaptive dimension.
    pub(super) fn of_adaptive(op: &'static str, axis: &AdaptiveAxis) -> Result<Axis> {
        Axis::of_ranges(op, axis.input, axis.output, |o| axis.window(o))
    }

    /// The outputs whose windows cover each input of an adaptive dimension.
    pub(super) fn covering(op: &'static str, axis: &AdaptiveAxis) -> Result<Axis> {
        let mut windows = memory::filled(op, axis.input, (0, 0))?;
        for o in (0..axis.output).rev() {
            for window in &mut windows[axis.window(o)] {
                *window = (o, window.1 + 1);
            }
        }
        Ok(Axis { windows, step: 1, input: axis.output })
    }

    fn reach(&self, output: usize) -> Range<usize> {
        let (start, count) = self.windows[output];
        start..if count == 0 { start } else { start + (count - 1) * self.step + 1 }
    }
}

/// Calls `axis` for each dimension.
pub(super) fn windows<A>(axes: &[A; 3], axis: impl Fn(&A) -> Result<Axis>) -> Result<Windows> {
    let [depth, height, width] = axes;
    Ok(Windows([axis(depth)?, axis(height)?, axis(width)?]))
}

/// The positions that outputs read, by dimension.
pub(super) struct Windows([Axis; 3]);

impl Windows {
    fn sizes(&self) -> [[usize; 3]; 2] {
        [self.0.each_ref().map(|axis| axis.input), self.0.each_ref().map(|axis| axis.windows.len())]
    }
}

/// Runs a block of statements for each position of the window of an output, in row-major order, counted
/// from `first`.
macro_rules! each_place {
    ($windows:expr, [$d:ident, $h:ident, $w:ident], $first:expr, $place:ident, $body:block) => {
        let [depth, height, width] = &$windows.0;
        let ((d, ds), (h, hs)) = (depth.windows[$d], height.windows[$h]);
        let (w, ws) = width.windows[$w];
        for kd in 0..ds {
            let d = d + kd * depth.step;
            for kh in 0..hs {
                let h = h + kh * height.step;
                let line = ((d * height.input + h) * width.input + w).wrapping_sub($first);
                for kw in 0..ws {
                    let $place = line.wrapping_add(kw * width.step);
                    $body
                }
            }
        }
    };
}

/// Averages; `divisors` has one number for each output of a plane.
pub(super) struct Averages {
    pub(super) windows: Windows,
    pub(super) divisors: Vec<f64>,
}

impl<T: Float> Lanes<T> for Averages {
    fn sizes(&self) -> [[usize; 3]; 2] {
        self.windows.sizes()
    }

    fn reach(&self, dim: usize, output: usize) -> Range<usize> {
        self.windows.0[dim].reach(output)
    }

    #[inline(always)]
    fn compute(&self, part: Part, from: &[[T; SIDE]], to: &mut [[T; SIDE]], _: &mut [[T; SIDE]]) {
        let divisors = &self.divisors[part.first_output..];
        each_output!(part, number, [d, h, w], {
            let mut sums = [0.0f64; SIDE];
            each_place!(self.windows, [d, h, w], part.first, place, {
                for (sum, &x) in sums.iter_mut().zip(&from[place]) {
                    *sum += x.into();
                }
            });
            let divisor = divisors[number];
            for (to, sum) in to[number].iter_mut().zip(sums) {
                *to = T::from_f64(sum / divisor).canonical();
            }
        });
    }
}

/// Gradients of averages; `weights` has one number for each output of the forward pass.
pub(super) struct Spread<T> {
    pub(super) windows: Windows,
    pub(super) weights: Vec<T>,
}

impl<T: Float> Lanes<T> for Spread<T> {
    fn sizes(&self) -> [[usize; 3]; 2] {
        self.windows.sizes()
    }

    fn reach(&self, dim: usize, output: usize) -> Range<usize> {
        self.windows.0[dim].reach(output)
    }

    #[inline(always)]
    fn compute(&self, part: Part, from: &[[T; SIDE]], to: &mut [[T; SIDE]], _: &mut [[T; SIDE]]) {
        let weights = &self.weights[part.first..];
        each_output!(part, number, [d, h, w], {
            let mut sums = [T::ZERO; SIDE];
            each_place!(self.windows, [d, h, w], part.first, place, {
                let weight = weights[place];
                for (sum, &grad) in sums.iter_mut().zip(&from[place]) {
                    *sum = grad.mul_add(weight, *sum);
                }
            });
            for (to, sum) in to[number].iter_mut().zip(sums) {
                *to = sum.canonical();
            }
        });
    }
}

/// The largest elements and their positions, which are numbers of the element type.
pub(super) struct Largest(pub(super) Windows);

impl<T: Float> Lanes<T> for Largest {
    fn sizes(&self) -> [[usize; 3]; 2] {
        self.0.sizes()
    }

    fn reach(&self, dim: usize, output: usize) -> Range<usize> {
        self.0.0[dim].reach(output)
    }

    #[inline(always)]
    fn compute(&self, part: Part, from: &[[T; SIDE]], to: &mut [[T; SIDE]], at: &mut [[T; SIDE]]) {
        let none = -T::ONE;
        each_output!(part, number, [d, h, w], {
            let (mut best, mut places) = ([T::LOWEST; SIDE], [none; SIDE]);
            each_place!(self.0, [d, h, w], part.first, place, {
                let position = T::from_usize(part.first.wrapping_add(place));
                for (lane, &x) in from[place].iter().enumerate() {
                    let wins = replaces_max(best[lane], x) | (places[lane] < T::ZERO);
                    best[lane] = if wins { x } else { best[lane] };
                    places[lane] = if wins { position } else { places[lane] };
                }
            });
            to[number] = best.map(T::canonical);
            at[number] = places;
        });
    }
}
