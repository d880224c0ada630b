//! Sizes of a convolution and of the passes that gather.

use rayon::prelude::*;
use samebits_numerics::simd;

use crate::conv::Params;

/// A convolution in three dimensions; fewer are padded in front.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) batch: usize,
    pub(super) groups: usize,
    /// Channels of a group.
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) input: [usize; 3],
    pub(super) output: [usize; 3],
    pub(super) kernel: [usize; 3],
    pub(super) stride: [usize; 3],
    pub(super) padding: [usize; 3],
    pub(super) dilation: [usize; 3],
}

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

impl Shape {
    /// `Convolution` has checked the sizes.
    pub(super) fn new(
        input: &[usize],
        weight: &[usize],
        output: &[usize],
        params: &Params,
    ) -> Shape {
        let spatial = |values: &[usize], fill: usize| {
            let mut dims = [fill; 3];
            dims[3 - values.len()..].copy_from_slice(values);
            dims
        };
        Shape {
            batch: input[0],
            groups: params.groups,
            inputs: weight[1],
            outputs: weight[0] / params.groups,
            input: spatial(&input[2..], 1),
            output: spatial(&output[2..], 1),
            kernel: spatial(&weight[2..], 1),
            stride: spatial(&params.stride, 1),
            padding: spatial(&params.padding, 0),
            dilation: spatial(&params.dilation, 1),
        }
    }

    pub(super) fn input_len(&self) -> usize {
        self.batch * self.groups * self.inputs * volume(self.input)
    }

    pub(super) fn output_len(&self) -> usize {
        self.batch * self.groups * self.outputs * volume(self.output)
    }

    pub(super) fn weight_len(&self) -> usize {
        self.groups * self.outputs * self.inputs * volume(self.kernel)
    }

    /// Multiply-adds of a pass.
    pub(super) fn work(&self) -> f64 {
        self.output_len() as f64 * (self.inputs * volume(self.kernel)) as f64
    }

    pub(super) fn forward(&self) -> Gather {
        let taps = volume(self.kernel);
        Gather {
            batch: self.batch,
            groups: self.groups,
            rows: self.outputs,
            channels: self.inputs,
            source: self.input,
            target: self.output,
            kernel: self.kernel,
            step: self.stride.map(|s| s as isize),
            reach: self.dilation.map(|d| d as isize),
            shift: self.padding.map(|p| -(p as isize)),
            divisor: [1; 3],
            weight_row: self.inputs * taps,
            weight_channel: taps,
            weight_group: self.outputs * self.inputs * taps,
        }
    }

    pub(super) fn input_gradient(&self) -> Gather {
        let taps = volume(self.kernel);
        Gather {
            batch: self.batch,
            groups: self.groups,
            rows: self.inputs,
            channels: self.outputs,
            source: self.output,
            target: self.input,
            kernel: self.kernel,
            step: [1; 3],
            reach: self.dilation.map(|d| -(d as isize)),
            shift: self.padding.map(|p| p as isize),
            divisor: self.stride.map(|s| s as isize),
            weight_row: taps,
            weight_channel: self.inputs * taps,
            weight_group: self.outputs * self.inputs * taps,
        }
    }
}

impl Gather {
    pub(super) fn taps(&self) -> usize {
        volume(self.kernel)
    }

    /// The place of a tap in the three dimensions.
    pub(super) fn tap(&self, index: usize) -> [usize; 3] {
        let [_, y, x] = self.kernel;
        [index / (y * x), index / x % y, index % x]
    }

    /// The source coordinate of dimension `d`, or nothing in the padding and between strides.
    pub(super) fn at(&self, d: usize, target: usize, tap: usize) -> Option<usize> {
        let at = target as isize * self.step[d] + tap as isize * self.reach[d] + self.shift[d];
        let inside =
            at >= 0 && at % self.divisor[d] == 0 && at / self.divisor[d] < self.source[d] as isize;
        inside.then(|| (at / self.divisor[d]) as usize)
    }

    /// Whether some tap of some target is skipped.
    pub(super) fn skips(&self) -> bool {
        (0..3).any(|d| {
            let ends = [0, self.target[d].saturating_sub(1)];
            self.divisor[d] > 1
                || ends.iter().any(|&t| (0..self.kernel[d]).any(|k| self.at(d, t, k).is_none()))
        })
    }
}

pub(super) fn volume(dims: [usize; 3]) -> usize {
    dims.iter().product()
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
    output
        .par_chunks_mut(positions.max(1))
        .enumerate()
        .for_each(|(plane, out)| simd::dispatch(Add(out, bias[plane % bias.len()])));
}
