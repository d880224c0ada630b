//! Convolutions of one channel at a time.

use samebits_numerics::memory::{self, OutOfMemory};
use samebits_numerics::simd;

use super::direct::{Layout, Task};
use super::shape::{Gather, buffer};
use crate::conv::{Geometry, WEIGHT_BLOCK, volume};
use crate::parallel;
use samebits_numerics::nan::canonical;

/// Channels that the weight gradient forms together.
const LANES: usize = 64;

/// Forms every element of `target`: as [`direct`](super::direct) does, but with a copy of one
/// channel only, which stays in the cache.
pub(super) fn run(
    gather: &Gather,
    source: &[f32],
    weights: &[f32],
    target: &mut [f32],
) -> Result<(), OutOfMemory> {
    if target.is_empty() {
        return Ok(());
    }
    let layout = Layout::new(gather);
    parallel::chunks_mut(target, volume(gather.target))
        .zip(parallel::chunks(source, volume(gather.source)))
        .enumerate()
        .try_for_each_with(
            || buffer(&layout.sizes(gather)),
            |copy, (plane, (target, source))| {
                layout.fill(gather, source, copy);
                let group = plane % gather.groups;
                let task = Task { gather, layout: &layout, source: copy, weights, group, row: 0 };
                task.run(1, target)
            },
        )
}

/// The weight gradient in the order of the contract, with channels in the lanes.
pub(super) fn weight_gradient(
    s: &Geometry,
    input: &[f32],
    gradient: &[f32],
    out: &mut [f32],
) -> Result<(), OutOfMemory> {
    let (taps, inputs, positions) = (volume(s.kernel), volume(s.input), volume(s.output));
    parallel::chunks_mut(out, LANES * taps).enumerate().try_for_each_with(
        || {
            Ok(Spread {
                x: memory::filled(inputs, [0.0; LANES])?,
                g: memory::filled(positions, [0.0; LANES])?,
                sums: memory::filled(taps, [0.0; LANES])?,
                totals: memory::filled(taps, [0.0; LANES])?,
            })
        },
        |spread, (part, out)| {
            simd::dispatch(Weights { s, input, gradient, first: part * LANES, spread, out });
            Ok(())
        },
    )
}

/// Input, gradient and sums of [`LANES`] channels, side by side.
struct Spread {
    x: Vec<[f32; LANES]>,
    g: Vec<[f32; LANES]>,
    sums: Vec<[f32; LANES]>,
    totals: Vec<[f32; LANES]>,
}

/// The weights of up to [`LANES`] channels.
struct Weights<'a> {
    s: &'a Geometry,
    input: &'a [f32],
    gradient: &'a [f32],
    first: usize,
    spread: &'a mut Spread,
    out: &'a mut [f32],
}

impl simd::Kernel for Weights<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Weights { s, input, gradient, first, spread: scratch, out } = self;
        let Spread { x, g, sums, totals } = scratch;
        sums.fill([0.0; LANES]);
        totals.fill([0.0; LANES]);
        let gather = Gather::forward(s);
        let taps = gather.taps();
        let channels = out.len() / taps;
        let (inputs, positions) = (volume(s.input), volume(s.output));
        let [_, height, width] = s.output;
        // Which positions of a row meet a tap of a kernel row, and the first one's source.
        let span = |tap: usize| {
            let inside = |&t: &usize| gather.at(2, t, tap).is_some();
            match ((0..width).find(inside), (0..width).rfind(inside)) {
                (Some(a), Some(b)) => (a, b + 1, gather.at(2, a, tap).unwrap_or(0)),
                _ => (0, 0, 0),
            }
        };
        let spans: Vec<(usize, usize, usize)> = (0..s.kernel[2]).map(span).collect();
        for image in 0..s.batch {
            let plane = image * s.groups + first;
            spread(&input[plane * inputs..][..channels * inputs], x);
            spread(&gradient[plane * positions..][..channels * positions], g);
            let mut at = 0;
            while at < positions {
                let k = image * positions + at;
                if k % WEIGHT_BLOCK == 0 {
                    flush(k / WEIGHT_BLOCK, sums, totals);
                }
                // To the end of the row or of the block.
                let (row, from) = (at / width, at % width);
                let to = width.min(from + WEIGHT_BLOCK - k % WEIGHT_BLOCK);
                for (tap, sums) in sums.iter_mut().enumerate() {
                    let [tap_z, tap_y, tap_x] = gather.tap(tap);
                    let z = gather.at(0, row / height, tap_z);
                    let y = gather.at(1, row % height, tap_y);
                    let (Some(z), Some(y)) = (z, y) else { continue };
                    let (begin, end, source) = spans[tap_x];
                    let (a, b) = (from.max(begin), to.min(end));
                    if a >= b {
                        continue;
                    }
                    let source =
                        (z * s.input[1] + y) * s.input[2] + source + (a - begin) * s.stride[2];
                    let x = x[source..].iter().step_by(s.stride[2]);
                    let mut sum = *sums;
                    for (x, g) in x.zip(&g[row * width + a..row * width + b]) {
                        for l in 0..LANES {
                            sum[l] = x[l].mul_add(g[l], sum[l]);
                        }
                    }
                    *sums = sum;
                }
                at += to - from;
            }
        }
        let blocks = (s.batch * positions).div_ceil(WEIGHT_BLOCK);
        flush(blocks, sums, totals);
        for (channel, out) in out.chunks_exact_mut(taps).enumerate() {
            for (out, total) in out.iter_mut().zip(&*totals) {
                let value = total[channel];
                *out = canonical(value);
            }
        }
    }
}

/// Adds the sums of the block before `block` to the totals, and begins anew.
#[inline(always)]
fn flush(block: usize, sums: &mut [[f32; LANES]], totals: &mut [[f32; LANES]]) {
    for (sum, total) in sums.iter_mut().zip(totals) {
        for l in 0..LANES {
            total[l] = if block <= 1 { sum[l] } else { total[l] + sum[l] };
            sum[l] = 0.0;
        }
    }
}

/// Planes of channels to positions of lanes.
#[inline(always)]
fn spread(planes: &[f32], to: &mut [[f32; LANES]]) {
    let count = to.len();
    // A few positions at a time, so that what is written stays in the cache.
    for from in (0..count).step_by(16) {
        let until = (from + 16).min(count);
        for (lane, plane) in planes.chunks_exact(count.max(1)).enumerate() {
            for (to, &value) in to[from..until].iter_mut().zip(&plane[from..until]) {
                to[lane] = value;
            }
        }
    }
}
