//! Convolutions of one channel at a time.

mod lanes;

use samebits_tensor_core::geometry::ConvSizes;
use std::ops::Range;

use samebits_numerics::memory::{self, OutOfMemory};
use samebits_numerics::simd;

use super::shape::Gather;
use crate::conv::{WEIGHT_BLOCK, volume};
use crate::matmul::K_BLOCK;
use crate::parallel;
use lanes::{LANES, multiply_add, spread};
use samebits_numerics::nan::canonical;

/// Taps of a kernel row that the weight gradient forms together: they share what they read.
const TAPS: usize = 3;

/// Positions of a row below which they are not formed from the source itself.
const NARROW: usize = 16;

/// Forms every element of `target`, if the pass [`applies`]: from rows of the source itself where all taps of
/// nearly all positions meet some, else with channels in the lanes.
pub(super) fn run(
    gather: &Gather,
    source: &[f32],
    weights: &[f32],
    target: &mut [f32],
) -> Result<(), OutOfMemory> {
    if target.is_empty() {
        return Ok(());
    }
    if let Some(inside) = straight(gather) {
        return parallel::chunks_mut(target, volume(gather.target))
            .zip(parallel::chunks(source, volume(gather.source)))
            .enumerate()
            .try_for_each(|(plane, (target, source))| {
                let weights = &weights[plane % gather.groups * gather.weight_group..];
                let inside = inside.clone();
                simd::dispatch(Straight { gather, inside, source, weights, target })
            });
    }
    lanes::run(gather, source, weights, target)
}

/// Returns true if the pass is formed with channels in the lanes, which any pass can be.
pub(super) fn by_lanes(gather: &Gather) -> bool {
    lanes::applies(gather) && straight(gather).is_none()
}

/// Returns true if the pass can be formed: with channels in the lanes only if these fit the cache.
pub(super) fn applies(gather: &Gather) -> bool {
    lanes::applies(gather) || straight(gather).is_some()
}

/// Positions of a target row that all taps of a kernel row meet, if these read neighbours for
/// neighbours and the sum is a single block of the contract.
pub(super) fn straight(gather: &Gather) -> Option<Range<usize>> {
    let neighbours = gather.step[2] == 1 && gather.divisor[2] == 1;
    if !neighbours || gather.taps() > K_BLOCK {
        return None;
    }
    let meets = |&t: &usize| (0..gather.kernel[2]).all(|tap| gather.at(2, t, tap).is_some());
    let first = (0..gather.target[2]).find(meets)?;
    let last = (0..gather.target[2]).rfind(meets)?;
    let (inside, width) = (last - first + 1, gather.target[2]);
    // The other positions of a row are formed one by one.
    let alone = (width - inside) * gather.taps() * 10 > width;
    (inside >= NARROW && !(alone && lanes::applies(gather))).then_some(first..last + 1)
}

/// A channel of one image.
struct Straight<'a> {
    gather: &'a Gather,
    /// Positions of a row that all taps of a kernel row meet.
    inside: Range<usize>,
    source: &'a [f32],
    weights: &'a [f32],
    target: &'a mut [f32],
}

/// A row of the source under a row of the kernel.
struct Line<'a> {
    weights: &'a [f32],
    source: &'a [f32],
}

impl simd::Kernel for Straight<'_> {
    type Output = Result<(), OutOfMemory>;

    #[inline(always)]
    fn run(self) -> Result<(), OutOfMemory> {
        let Straight { gather, inside, source, weights, target } = self;
        let [_, height, width] = gather.target;
        let [kernel_z, kernel_y, kernel_x] = gather.kernel;
        let mut lines = memory::with_capacity(kernel_z * kernel_y)?;
        for (row, out) in target.chunks_exact_mut(width).enumerate() {
            lines.clear();
            for tap in 0..kernel_z * kernel_y {
                let from_z = gather.at(0, row / height, tap / kernel_y);
                let from_y = gather.at(1, row % height, tap % kernel_y);
                let (Some(z), Some(y)) = (from_z, from_y) else { continue };
                let from = (z * gather.source[1] + y) * gather.source[2];
                lines.push(Line {
                    weights: &weights[tap * kernel_x..][..kernel_x],
                    source: &source[from..][..gather.source[2]],
                });
            }
            for t in (0..inside.start).chain(inside.end..width) {
                let mut sum = 0.0f32;
                for line in &lines {
                    for (tap, weight) in line.weights.iter().enumerate() {
                        if let Some(at) = gather.at(2, t, tap) {
                            sum = weight.mul_add(line.source[at], sum);
                        }
                    }
                }
                out[t] = canonical(sum);
            }
            let out = &mut out[inside.clone()];
            match out.len() {
                64.. => neighbours::<64>(gather, &lines, inside.start, out),
                32.. => neighbours::<32>(gather, &lines, inside.start, out),
                _ => neighbours::<NARROW>(gather, &lines, inside.start, out),
            }
        }
        Ok(())
    }
}

/// Forms positions of a row from `start` on, `L` or more, that all taps meet.
#[inline(always)]
fn neighbours<const L: usize>(gather: &Gather, lines: &[Line<'_>], start: usize, out: &mut [f32]) {
    let begin = start as isize + gather.shift[2];
    for i in 0..out.len().div_ceil(L) {
        // The last ones overlap those before, and are the same again.
        let from = (i * L).min(out.len() - L);
        let mut sums = [0.0f32; L];
        for line in lines {
            let mut at = begin + from as isize;
            for weight in line.weights {
                let x: &[f32; L] =
                    line.source[at as usize..][..L].try_into().expect("of this length");
                for l in 0..L {
                    sums[l] = weight.mul_add(x[l], sums[l]);
                }
                at += gather.reach[2];
            }
        }
        for (out, &sum) in out[from..from + L].iter_mut().zip(&sums) {
            *out = canonical(sum);
        }
    }
}

/// Computes the weight gradient in the order of the contract, with channels in the lanes.
pub(super) fn weight_grad(
    s: &ConvSizes,
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
    s: &'a ConvSizes,
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
        let span = |tap: usize| {
            let inside = |&t: &usize| gather.at(2, t, tap).is_some();
            match ((0..width).find(inside), (0..width).rfind(inside)) {
                (Some(first), Some(last)) => Span {
                    begin: first,
                    end: last + 1,
                    source: gather.at(2, first, tap).unwrap_or(0),
                },
                _ => Span { begin: 0, end: 0, source: 0 },
            }
        };
        let spans: Vec<Span> = (0..s.kernel[2]).map(span).collect();
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
                let g = &g[row * width..][..width];
                for (tap, sums) in sums.chunks_exact_mut(s.kernel[2]).enumerate() {
                    let z = gather.at(0, row / height, tap / s.kernel[1]);
                    let y = gather.at(1, row % height, tap % s.kernel[1]);
                    let (Some(z), Some(y)) = (z, y) else { continue };
                    let x = &x[(z * s.input[1] + y) * s.input[2]..][..s.input[2]];
                    let line = Row { x, g, stride: s.stride[2] };
                    let mut sums = sums.chunks_exact_mut(TAPS);
                    let mut spans = spans.chunks_exact(TAPS);
                    for (sums, spans) in (&mut sums).zip(&mut spans) {
                        let sums = sums.try_into().expect("a chunk is TAPS long");
                        line.add_together(sums, spans, from, to);
                    }
                    for (sum, span) in sums.into_remainder().iter_mut().zip(spans.remainder()) {
                        line.add(sum, span, from, to);
                    }
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

/// Which positions of a row meet a tap of a kernel row, and the first one's source.
struct Span {
    begin: usize,
    end: usize,
    source: usize,
}

/// A row of the input and one of the gradient.
struct Row<'a> {
    x: &'a [[f32; LANES]],
    g: &'a [[f32; LANES]],
    stride: usize,
}

impl Row<'_> {
    /// Adds the products of positions `from..to` to the sums of several taps.
    #[inline(always)]
    fn add_together(
        &self,
        sums: &mut [[f32; LANES]; TAPS],
        spans: &[Span],
        from: usize,
        to: usize,
    ) {
        let begin = spans.iter().fold(from, |begin, span| begin.max(span.begin));
        let end = spans.iter().fold(to, |end, span| end.min(span.end)).max(begin);
        for (sum, span) in sums.iter_mut().zip(spans) {
            self.add(sum, span, from, to.min(begin));
        }
        if begin < end {
            let x = |tap: usize| {
                let span: &Span = &spans[tap];
                let from = span.source + (begin - span.begin) * self.stride;
                self.x[from..].iter().step_by(self.stride)
            };
            let [mut left, mut middle, mut right] = *sums;
            let g = self.g[begin..end].iter();
            for (((g, x), y), z) in g.zip(x(0)).zip(x(1)).zip(x(2)) {
                multiply_add(&mut left, x, g);
                multiply_add(&mut middle, y, g);
                multiply_add(&mut right, z, g);
            }
            *sums = [left, middle, right];
        }
        for (sum, span) in sums.iter_mut().zip(spans) {
            self.add(sum, span, from.max(end), to);
        }
    }

    /// Adds the products of positions `from..to` to the sum of one tap.
    #[inline(always)]
    fn add(&self, sum: &mut [f32; LANES], span: &Span, from: usize, to: usize) {
        let (begin, end) = (from.max(span.begin), to.min(span.end));
        if begin >= end {
            return;
        }
        let x = self.x[span.source + (begin - span.begin) * self.stride..].iter();
        let mut sums = *sum;
        for (x, g) in x.step_by(self.stride).zip(&self.g[begin..end]) {
            multiply_add(&mut sums, x, g);
        }
        *sum = sums;
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
