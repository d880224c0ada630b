//! Sizes of the passes that gather.

use samebits_numerics::memory::{OutOfMemory, product, zeroed};
use samebits_numerics::simd;
use samebits_tensor_core::geometry::ConvSizes;

use crate::conv::volume;
use crate::parallel;

/// A pass that forms each target element from the source elements under the kernel: source
/// coordinate = (target coordinate · step + tap · reach + shift) / divisor, where that is whole.
#[derive(Clone, Debug)]
pub(super) struct Gather {
    pub(super) batch: usize,
    pub(super) groups: usize,
    /// Target and source channels of a group.
    pub(super) rows: usize,
    pub(super) channels: usize,
    pub(super) source: [usize; 3],
    pub(super) target: [usize; 3],
    pub(super) kernel: [usize; 3],
    pub(super) step: [isize; 3],
    pub(super) reach: [isize; 3],
    pub(super) shift: [isize; 3],
    pub(super) divisor: [isize; 3],
    /// Distances in the weights of target channels, of source channels and of groups.
    pub(super) weight_row: usize,
    pub(super) weight_channel: usize,
    pub(super) weight_group: usize,
}

impl Gather {
    pub(super) fn forward(s: &ConvSizes) -> Gather {
        let taps = volume(s.kernel);
        Gather {
            batch: s.batch,
            groups: s.groups,
            rows: s.outputs,
            channels: s.inputs,
            source: s.input,
            target: s.output,
            kernel: s.kernel,
            step: s.stride.map(|s| s as isize),
            reach: s.dilation.map(|d| d as isize),
            shift: s.padding.map(|p| -(p as isize)),
            divisor: [1; 3],
            weight_row: s.inputs * taps,
            weight_channel: taps,
            weight_group: s.outputs * s.inputs * taps,
        }
    }

    pub(super) fn input_grad(s: &ConvSizes) -> Gather {
        let taps = volume(s.kernel);
        Gather {
            batch: s.batch,
            groups: s.groups,
            rows: s.inputs,
            channels: s.outputs,
            source: s.output,
            target: s.input,
            kernel: s.kernel,
            step: [1; 3],
            reach: s.dilation.map(|d| -(d as isize)),
            shift: s.padding.map(|p| p as isize),
            divisor: s.stride.map(|s| s as isize),
            weight_row: taps,
            weight_channel: s.inputs * taps,
            weight_group: s.outputs * s.inputs * taps,
        }
    }

    pub(super) fn taps(&self) -> usize {
        volume(self.kernel)
    }

    /// Returns the place of a tap in the three dimensions.
    pub(super) fn tap(&self, index: usize) -> [usize; 3] {
        let [_, y, x] = self.kernel;
        [index / (y * x), index / x % y, index % x]
    }

    /// Returns the source coordinate of dimension `d`, or nothing in the padding and between
    /// strides.
    pub(super) fn at(&self, d: usize, target: usize, tap: usize) -> Option<usize> {
        let at = target as isize * self.step[d] + tap as isize * self.reach[d] + self.shift[d];
        let inside =
            at >= 0 && at % self.divisor[d] == 0 && at / self.divisor[d] < self.source[d] as isize;
        inside.then(|| (at / self.divisor[d]) as usize)
    }

    /// Returns true if some tap of some target is skipped.
    pub(super) fn skips(&self) -> bool {
        (0..3).any(|d| {
            let ends = [0, self.target[d].saturating_sub(1)];
            self.divisor[d] > 1
                || ends.iter().any(|&t| (0..self.kernel[d]).any(|k| self.at(d, t, k).is_none()))
        })
    }
}

/// Returns as many zeros as the product of `sizes`.
pub(super) fn buffer(sizes: &[usize]) -> Result<Vec<f32>, OutOfMemory> {
    zeroed(product(sizes).ok_or(OutOfMemory { bytes: usize::MAX })?)
}

/// Returns the product of `sizes`, or `usize::MAX` if it is larger.
pub(super) fn count(sizes: &[usize]) -> usize {
    product(sizes).unwrap_or(usize::MAX)
}

/// Adds each channel's bias with one rounding; a NaN becomes the canonical one.
pub(super) fn add_bias(output: &mut [f32], bias: &[f32], positions: usize) {
    struct Add<'a>(&'a mut [f32], f32);
    impl simd::Kernel for Add<'_> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            for value in self.0 {
                let sum = *value + self.1;
                *value = samebits_numerics::nan::canonical(sum);
            }
        }
    }
    parallel::chunks_mut(output, positions.max(1))
        .enumerate()
        .for_each(|(plane, out)| simd::dispatch(Add(out, bias[plane % bias.len()])));
}
