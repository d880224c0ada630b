//! Convolutions of one channel at a time, with channels in the lanes: for any stride and the narrowest
//! rows, at the cost of two transpositions.

use samebits_numerics::memory::{self, OutOfMemory};
use samebits_numerics::nan::canonical;
use samebits_numerics::simd;

use crate::conv::volume;
use crate::conv_algorithms::shape::Gather;
use crate::float::Float;
use crate::matmul::K_BLOCK;
use crate::parallel;

/// Channels that are formed together.
pub(super) const LANES: usize = 16;

/// The most positions of source and target together whose lanes should fit the second-level cache.
const POSITIONS: usize = 1 << 13;

/// Returns true if the sum is a single block of the contract and a few channels fit the cache.
pub(super) fn applies(gather: &Gather) -> bool {
    let positions = volume(gather.source).saturating_add(volume(gather.target));
    gather.taps() <= K_BLOCK && positions <= POSITIONS && gather.batch * gather.groups >= LANES / 2
}

/// The taps of the last dimension that meet a source position, for one target position.
struct Taps {
    /// Numbers of tap and source position, for all target positions.
    list: Vec<(usize, usize)>,
    /// One past the end of each target position's part of the list.
    ends: Vec<usize>,
}

impl Taps {
    fn new(gather: &Gather) -> Result<Taps, OutOfMemory> {
        let (width, kernel) = (gather.target[2], gather.kernel[2]);
        let mut taps = Taps {
            list: memory::with_capacity(width * kernel)?,
            ends: memory::with_capacity(width)?,
        };
        for t in 0..width {
            let met = (0..kernel).filter_map(|tap| Some((tap, gather.at(2, t, tap)?)));
            taps.list.extend(met);
            taps.ends.push(taps.list.len());
        }
        Ok(taps)
    }
}

/// Source, weights and target of [`LANES`] channels, side by side.
struct Spread {
    x: Vec<[f32; LANES]>,
    weights: Vec<[f32; LANES]>,
    out: Vec<[f32; LANES]>,
}

/// Forms every element of `target`.
pub(super) fn run(
    gather: &Gather,
    source: &[f32],
    weights: &[f32],
    target: &mut [f32],
) -> Result<(), OutOfMemory> {
    let (sources, targets) = (volume(gather.source), volume(gather.target));
    let taps = Taps::new(gather)?;
    let work = LANES * (targets * gather.taps() + sources);
    parallel::chunks_mut(target, LANES * targets)
        .enumerate()
        .at_least((8 * parallel::CHUNK).div_ceil(work))
        .try_for_each_with(
            || {
                Ok(Spread {
                    x: memory::filled(sources, [0.0; LANES])?,
                    weights: memory::filled(gather.taps(), [0.0; LANES])?,
                    out: memory::filled(targets, [0.0; LANES])?,
                })
            },
            |scratch, (part, target)| {
                let (first, planes) = (part * LANES, target.len() / targets);
                spread(&source[first * sources..][..planes * sources], &mut scratch.x);
                spread_weights(gather, weights, first, &mut scratch.weights);
                let Spread { x, weights, out } = &mut *scratch;
                simd::dispatch(Positions { gather, taps: &taps, x, weights, out });
                let out = scratch.out.as_flattened();
                f32::transpose(out, LANES, (targets, planes), target, targets);
                Ok(())
            },
        )
}

/// Writes the weights of the channels from plane `first` on, side by side.
fn spread_weights(gather: &Gather, weights: &[f32], first: usize, to: &mut [[f32; LANES]]) {
    let taps = to.len();
    let mut lane = 0;
    while lane < LANES {
        let group = (first + lane) % gather.groups;
        let run = (gather.groups - group).min(LANES - lane);
        let from = &weights[group * taps..][..run * taps];
        f32::transpose(from, taps, (run, taps), &mut to.as_flattened_mut()[lane..], LANES);
        lane += run;
    }
}

/// Forms all positions of [`LANES`] channels.
struct Positions<'a> {
    gather: &'a Gather,
    taps: &'a Taps,
    x: &'a [[f32; LANES]],
    weights: &'a [[f32; LANES]],
    out: &'a mut [[f32; LANES]],
}

impl simd::Kernel for Positions<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Positions { gather, taps, x, weights, out } = self;
        let [_, height, width] = gather.target;
        let [kernel_z, kernel_y, kernel_x] = gather.kernel;
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            out.fill([0.0; LANES]);
            for line in 0..kernel_z * kernel_y {
                let from_z = gather.at(0, row / height, line / kernel_y);
                let from_y = gather.at(1, row % height, line % kernel_y);
                let (Some(z), Some(y)) = (from_z, from_y) else { continue };
                let x = &x[(z * gather.source[1] + y) * gather.source[2]..][..gather.source[2]];
                let weights = &weights[line * kernel_x..][..kernel_x];
                let mut start = 0;
                for (out, &end) in out.iter_mut().zip(&taps.ends) {
                    let mut sums = *out;
                    for &(tap, at) in &taps.list[start..end] {
                        multiply_add(&mut sums, &x[at], &weights[tap]);
                    }
                    *out = sums;
                    start = end;
                }
            }
            for out in out {
                for l in 0..LANES {
                    out[l] = canonical(out[l]);
                }
            }
        }
    }
}

#[inline(always)]
pub(super) fn multiply_add(sums: &mut [f32; LANES], x: &[f32; LANES], g: &[f32; LANES]) {
    for l in 0..LANES {
        sums[l] = x[l].mul_add(g[l], sums[l]);
    }
}

/// Planes of channels to positions of lanes.
pub(super) fn spread(planes: &[f32], to: &mut [[f32; LANES]]) {
    let count = to.len();
    let channels = planes.len().checked_div(count).unwrap_or(0);
    f32::transpose(planes, count, (channels, count), to.as_flattened_mut(), LANES);
}
