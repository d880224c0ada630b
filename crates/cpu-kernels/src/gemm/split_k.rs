//! Products of few outputs and many steps, split along `k`: the blocks of steps are the lanes of
//! vectors and the work of threads.
//!
//! The chains of the blocks do not depend on each other. So all are computed first, and each
//! output then adds the results of its blocks in ascending order.

use super::pack::{Factors, Lanes};
use super::{K_BLOCK, Real, Source, driver};
use crate::parallel;
use samebits_numerics::fpenv;
use samebits_numerics::memory::{self, OutOfMemory, product};
use samebits_numerics::simd::{self, Kernel};

/// The number of blocks from which it pays to compute them apart.
const BLOCKS: usize = 16;

/// The largest number of outputs whose blocks are lanes.
const OUTPUTS: usize = 16;

/// The largest number of outputs of a product that is cut along its steps: larger ones are work for
/// all threads as they are.
const MOST_OUTPUTS: usize = 1 << 12;

/// The number of blocks that go through their steps together.
const LANES: usize = crate::arch::transpose::CHAINS;

/// The number of results of blocks that are kept at a time, if that is enough work for all threads.
const RESULTS: usize = 1 << 14;

/// The most steps that are packed at a time, all together, of the rows and columns.
const PANEL: usize = 16 * (OUTPUTS + 1);

/// Returns true for a product that has many more steps than outputs.
fn is_deep(count: usize, (rows, columns, k): (usize, usize, usize)) -> bool {
    let outputs = rows * columns;
    let blocks = k / K_BLOCK;
    blocks >= BLOCKS
        && (outputs <= OUTPUTS || (count == 1 && outputs <= MOST_OUTPUTS && blocks >= outputs / 4))
}

/// Computes products as [`driver::products`], those of few outputs and many steps split along `k`.
pub(crate) fn products<'a, T: Real, S: Source<T>>(
    count: usize,
    shape: (usize, usize, usize),
    factors: impl Fn(usize) -> Factors<'a, S> + Sync,
    out: &mut [T],
) -> Result<(), OutOfMemory> {
    if is_deep(count, shape) && !out.is_empty() {
        return fpenv::ieee(|| split(count, shape, factors, out));
    }
    driver::products(count, shape, factors, out)
}

fn split<'a, T: Real, S: Source<T>>(
    count: usize,
    (rows, columns, k): (usize, usize, usize),
    factors: impl Fn(usize) -> Factors<'a, S> + Sync,
    out: &mut [T],
) -> Result<(), OutOfMemory> {
    let (outputs, whole) = (rows * columns, k / K_BLOCK);
    let strip = (RESULTS / outputs).next_multiple_of(LANES).max(2 * LANES).min(whole);
    let unaddressable = OutOfMemory { bytes: usize::MAX };
    let mut results: Vec<T> = memory::zeroed(product(&[strip, outputs]).ok_or(unaddressable)?)?;
    for (index, out) in out.chunks_exact_mut(outputs).take(count).enumerate() {
        let at = |block: usize| {
            let Factors { a, b } = factors(index);
            Factors { a: from_step(a, block * K_BLOCK), b: from_step(b, block * K_BLOCK) }
        };
        for first in (0..whole).step_by(strip) {
            let blocks = strip.min(whole - first);
            let results = &mut results[..blocks * outputs];
            if outputs <= OUTPUTS {
                parallel::pieces_of(LANES * outputs, results, |start, out| {
                    let Factors { a, b } = at(first + start / outputs);
                    simd::dispatch(Blocks { rows, columns, a, b, out });
                });
            } else {
                let shape = (rows, columns, K_BLOCK);
                driver::products(blocks, shape, |block| at(first + block), results)?;
            }
            let (start, others) = results.split_at(if first == 0 { outputs } else { 0 });
            out[..start.len()].copy_from_slice(start);
            others.chunks_exact(outputs).for_each(|block| add(out, block));
        }
        if k > whole * K_BLOCK {
            let last = &mut results[..outputs];
            driver::products(1, (rows, columns, k % K_BLOCK), |_| at(whole), last)?;
            add(out, last);
        }
        out.iter_mut().for_each(|out| *out = out.canonical());
    }
    Ok(())
}

/// Adds the results of a block.
fn add<T: Real>(out: &mut [T], block: &[T]) {
    out.iter_mut().zip(block).for_each(|(out, &sum)| *out = out.plus(sum));
}

/// Returns the lanes from a step on.
fn from_step<S>(lanes: Lanes<'_, S>, step: usize) -> Lanes<'_, S> {
    Lanes { data: &lanes.data[step * lanes.step_stride..], ..lanes }
}

/// Computes the results of up to [`LANES`] whole blocks of one product, `[block][row][column]`.
struct Blocks<'a, T, S> {
    rows: usize,
    columns: usize,
    a: Lanes<'a, S>,
    b: Lanes<'a, S>,
    out: &'a mut [T],
}

impl<T: Real, S: Source<T>> Kernel for Blocks<'_, T, S> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Blocks { rows, columns, a, b, out } = self;
        let outputs = rows * columns;
        let blocks = out.len() / outputs;
        // Longer stretches of each block suit the memory better.
        let steps = match rows + columns {
            ..=4 => 64,
            5..=8 => 32,
            _ => 16,
        };
        let mut panel = [[T::default(); LANES]; PANEL];
        let mut sums = [[T::default(); LANES]; OUTPUTS];
        for first in (0..K_BLOCK).step_by(steps) {
            let (of_a, of_b) = panel.split_at_mut(rows * steps);
            let (a_lane, a_step) = pack(from_step(a, first), (rows, steps, blocks), of_a);
            let (b_lane, b_step) = pack(from_step(b, first), (columns, steps, blocks), of_b);
            for (at, sums) in sums[..outputs].iter_mut().enumerate() {
                let of_a = &of_a[at / columns * a_lane..];
                let of_b = &of_b[at % columns * b_lane..];
                let mut sum = *sums;
                for step in 0..steps {
                    let (x, y) = (&of_a[step * a_step], &of_b[step * b_step]);
                    for lane in 0..LANES {
                        sum[lane] = x[lane].fma(y[lane], sum[lane]);
                    }
                }
                *sums = sum;
            }
        }
        for (block, out) in out.chunks_exact_mut(outputs).enumerate() {
            for (out, sums) in out.iter_mut().zip(&sums) {
                *out = sums[block];
            }
        }
    }
}

/// Writes some steps of `count` rows or columns of each block, with the blocks side by side. Returns
/// the distances between rows or columns and between steps.
#[inline(always)]
fn pack<T: Real, S: Source<T>>(
    source: Lanes<'_, S>,
    (count, steps, blocks): (usize, usize, usize),
    panel: &mut [[T; LANES]],
) -> (usize, usize) {
    let Lanes { data, lane_stride, step_stride } = source;
    let between = K_BLOCK * step_stride;
    if step_stride == count && (lane_stride == 1 || count == 1) {
        let panel = panel.as_flattened_mut();
        S::pack_transposed(data, between, (blocks, count * steps), panel, LANES);
        return (1, count);
    }
    for (lane, panel) in panel.chunks_exact_mut(steps).take(count).enumerate() {
        let data = &data[lane * lane_stride..];
        if step_stride == 1 {
            let panel = panel.as_flattened_mut();
            S::pack_transposed(data, between, (blocks, steps), panel, LANES);
            continue;
        }
        for (step, values) in panel.iter_mut().enumerate() {
            for (block, value) in values[..blocks].iter_mut().enumerate() {
                *value = data[block * between + step * step_stride].widen();
            }
        }
    }
    (steps, 1)
}
