//! Sizes of a convolution, and what one pass of it gathers.

use std::collections::BTreeMap;
use std::ops::Range;

use samebits_tensor_core::geometry::ConvSizes;

/// The most spatial dimensions; fewer are padded in front with dimensions of size 1.
pub(crate) const DIMS: usize = 3;

/// Sizes per dimension.
pub(crate) type Dims = [usize; DIMS];

/// One kernel tap of a pass: source coordinate = target coordinate · step + offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tap {
    /// Position in the kernel, row-major.
    pub(crate) index: usize,
    pub(crate) offset: [isize; DIMS],
}

/// Target positions that use the same taps: all of them, or one residue class of the stride. Each
/// tap reads the source at some position.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    /// First target coordinate and distance of the next.
    pub(crate) start: Dims,
    pub(crate) step: Dims,
    /// Number of target coordinates.
    pub(crate) count: Dims,
    /// In ascending kernel order.
    pub(crate) taps: Vec<Tap>,
    pub(crate) source_step: Dims,
}

/// A pass that forms each target element from the source elements under the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    pub(crate) batch: usize,
    pub(crate) groups: usize,
    /// Target channels of a group.
    pub(crate) rows: usize,
    /// Source channels of a group, over which the sum runs.
    pub(crate) channels: usize,
    pub(crate) source: Dims,
    pub(crate) target: Dims,
    /// Elements of the kernel of one channel pair.
    pub(crate) volume: usize,
    /// Distance in the weights of target channels, of source channels and of groups.
    pub(crate) weight_row: usize,
    pub(crate) weight_channel: usize,
    pub(crate) weight_group: usize,
    /// Disjoint. A target position of none has no tap.
    pub(crate) phases: Vec<Phase>,
}

/// Returns the product of sizes.
pub(crate) fn volume(dims: Dims) -> usize {
    dims.iter().product()
}

/// Returns the row-major coordinates of `index`.
pub(crate) fn coordinates(mut index: usize, dims: Dims) -> Dims {
    let mut at = [0; DIMS];
    for d in (0..DIMS).rev() {
        at[d] = index % dims[d];
        index /= dims[d];
    }
    at
}

/// Returns the input coordinates of dimension `d` from `start` on in steps of the stride.
fn starting_at(s: &ConvSizes, start: usize, d: usize) -> usize {
    (s.input[d] - start).div_ceil(s.stride[d])
}

/// Returns true if `t * step + offset` lies in a source of `size` for some `t` below `count`.
fn meets(offset: isize, step: usize, count: usize, size: usize) -> bool {
    let first = (-offset).max(0) as usize;
    let first = first.div_ceil(step);
    first < count && first as isize * step as isize + offset < size as isize
}

impl Gather {
    /// Returns the geometry of the forward pass: output from input.
    pub(crate) fn forward(s: &ConvSizes) -> Gather {
        let volume = volume(s.kernel);
        let phase = Phase::of_outputs(s);
        Gather {
            batch: s.batch,
            groups: s.groups,
            rows: s.outputs,
            channels: s.inputs,
            source: s.input,
            target: s.output,
            volume,
            weight_row: s.inputs * volume,
            weight_channel: volume,
            weight_group: s.outputs * s.inputs * volume,
            phases: if phase.taps.is_empty() { vec![] } else { vec![phase] },
        }
    }

    /// Returns the geometry of the input gradient, which is also the transposed convolution: input
    /// from output.
    ///
    /// Input coordinate `i` meets output coordinate `(i + padding - tap · dilation) / stride`
    /// if that is whole, so inputs of one residue modulo the stride share their taps. A tap belongs
    /// to one residue, so there are no more residues than taps, whatever the stride.
    pub(crate) fn input_grad(s: &ConvSizes) -> Gather {
        let kernel_volume = volume(s.kernel);
        let mut by_start: BTreeMap<Dims, Vec<Tap>> = BTreeMap::new();
        for index in 0..kernel_volume {
            let at = coordinates(index, s.kernel);
            let (mut start, mut offset) = ([0; DIMS], [0; DIMS]);
            let reads = |d: usize| {
                let stride = s.stride[d] as isize;
                let distance = s.padding[d] as isize - (at[d] * s.dilation[d]) as isize;
                start[d] = (-distance).rem_euclid(stride) as usize;
                offset[d] = (start[d] as isize + distance) / stride;
                start[d] < s.input[d]
                    && meets(offset[d], 1, starting_at(s, start[d], d), s.output[d])
            };
            if (0..DIMS).all(reads) {
                by_start.entry(start).or_default().push(Tap { index, offset });
            }
        }
        let phases = by_start
            .into_iter()
            .map(|(start, taps)| Phase {
                start,
                step: s.stride,
                count: std::array::from_fn(|d| starting_at(s, start[d], d)),
                taps,
                source_step: [1; DIMS],
            })
            .collect();
        Gather {
            batch: s.batch,
            groups: s.groups,
            rows: s.inputs,
            channels: s.outputs,
            source: s.output,
            target: s.input,
            volume: kernel_volume,
            weight_row: kernel_volume,
            weight_channel: s.inputs * kernel_volume,
            weight_group: s.outputs * s.inputs * kernel_volume,
            phases,
        }
    }

    /// Returns true if every target position has a tap.
    pub(crate) fn covers_target(&self) -> bool {
        self.phases.iter().map(|phase| volume(phase.count)).sum::<usize>() == volume(self.target)
    }
}

impl Phase {
    /// Returns all output positions, with the taps that lie inside the input for at least one of
    /// them.
    pub(crate) fn of_outputs(s: &ConvSizes) -> Phase {
        let mut taps = Vec::new();
        for index in 0..volume(s.kernel) {
            let at = coordinates(index, s.kernel);
            let offset: [isize; DIMS] =
                std::array::from_fn(|d| (at[d] * s.dilation[d]) as isize - s.padding[d] as isize);
            let reads = |d: usize| meets(offset[d], s.stride[d], s.output[d], s.input[d]);
            if (0..DIMS).all(reads) {
                taps.push(Tap { index, offset });
            }
        }
        Phase { start: [0; DIMS], step: [1; DIMS], count: s.output, taps, source_step: s.stride }
    }

    /// Returns the target coordinates of dimension `d` for which every tap lies inside a source of
    /// `size`.
    pub(crate) fn interior(&self, d: usize, size: usize) -> Range<usize> {
        let step = self.source_step[d] as isize;
        let least = self.taps.iter().map(|tap| tap.offset[d]).min().unwrap_or(0);
        let most = self.taps.iter().map(|tap| tap.offset[d]).max().unwrap_or(0);
        let from = (-least).max(0).div_euclid(step) + isize::from((-least).max(0) % step != 0);
        // The last coordinate t with t * step + most <= size - 1.
        let to = (size as isize - 1 - most).div_euclid(step) + 1;
        let count = self.count[d] as isize;
        let from = from.min(count);
        from as usize..to.clamp(from, count) as usize
    }
}
