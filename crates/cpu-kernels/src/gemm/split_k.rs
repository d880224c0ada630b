//! Products of few outputs and many steps, split along `k`: the blocks of steps are the lanes of
//! vectors and the work of threads.
//!
//! The chains of the blocks do not depend on each other. So all are computed first, and each
//! output then adds the results of its blocks in ascending order.

use super::pack::{Factors, Lanes};
use super::{K_BLOCK, Real, Row, Source, driver};
use crate::arch::blocks::Outputs;
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

/// The most lanes of a vector whose lanes are blocks.
const MOST_LANES: usize = 8;

/// The number of multiplications of a thread that takes some of many products.
const TASK_WORK: usize = 1 << 16;

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
        return fpenv::ieee(|| split(shape, factors, out));
    }
    driver::products(count, shape, factors, out)
}

fn split<'a, T: Real, S: Source<T>>(
    (rows, columns, k): (usize, usize, usize),
    factors: impl Fn(usize) -> Factors<'a, S> + Sync,
    out: &mut [T],
) -> Result<(), OutOfMemory> {
    let (outputs, whole) = (rows * columns, k / K_BLOCK);
    let strip = (RESULTS / outputs).next_multiple_of(LANES).max(2 * LANES).min(whole);
    let unaddressable = OutOfMemory { bytes: usize::MAX };
    let results = product(&[strip, outputs]).ok_or(unaddressable)?;
    let several = TASK_WORK / outputs.saturating_mul(k);
    let products = parallel::chunks_mut(out, outputs).enumerate().at_least(several);
    let results = || memory::zeroed::<T>(results);
    products.try_for_each_with(results, |results, (index, out)| {
        let at = |block: usize| {
            let Factors { a, b } = factors(index);
            Factors { a: a.steps_from(block * K_BLOCK), b: b.steps_from(block * K_BLOCK) }
        };
        for first in (0..whole).step_by(strip) {
            let blocks = strip.min(whole - first);
            let results = &mut results[..blocks * outputs];
            if outputs <= OUTPUTS || is_apart((rows, columns), at(first)) {
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
        Ok(())
    })
}

/// Adds the results of a block.
fn add<T: Real>(out: &mut [T], block: &[T]) {
    out.iter_mut().zip(block).for_each(|(out, &sum)| *out = out.plus(sum));
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
        let done = chains((rows, columns), Factors { a, b }, out);
        let (a, b) = (a.steps_from(done * K_BLOCK), b.steps_from(done * K_BLOCK));
        let out = &mut out[done * outputs..];
        if out.is_empty() {
            return;
        }
        if outputs > OUTPUTS {
            let (x, y) = if columns == 1 { (b, a) } else { (a, b) };
            for (block, out) in out.chunks_exact_mut(outputs).enumerate() {
                let (a, b) = (x.steps_from(block * K_BLOCK), y.steps_from(block * K_BLOCK));
                Row { a, b, k: K_BLOCK, out }.run();
            }
            return;
        }
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
            let (a_lane, a_step) = pack(a.steps_from(first), (rows, steps, blocks), of_a);
            let (b_lane, b_step) = pack(b.steps_from(first), (columns, steps, blocks), of_b);
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

/// Returns true for the products of one row and many columns, or of many rows and one column, all of
/// whose steps are neighbours.
fn is_apart<S>((rows, columns): (usize, usize), Factors { a, b }: Factors<'_, S>) -> bool {
    (rows == 1 || columns == 1) && a.step_stride == 1 && b.step_stride == 1
}

/// The number of outputs of [`chains`] at a time.
const CHAINS: usize = 32;

/// Computes the results of blocks, vector by vector, if the product has one row or one column; returns
/// how many.
#[inline(always)]
fn chains<T: Real, S: Source<T>>(
    (rows, columns): (usize, usize),
    Factors { a, b }: Factors<'_, S>,
    out: &mut [T],
) -> usize {
    let (shared, factors, count) = match (rows, columns) {
        (_, 1) => (b, a, rows),
        (1, _) => (a, b, columns),
        _ => return 0,
    };
    let (Some(x), Some(y)) = (S::in_place(shared.data), S::in_place(factors.data)) else {
        return 0;
    };
    let layout = match (factors.lane_stride, factors.step_stride) {
        _ if shared.step_stride != 1 => return 0,
        (stride, 1) => Outputs::Apart(stride),
        (1, step) if step == count => Outputs::Beside,
        _ => return 0,
    };
    let at_once = match layout {
        Outputs::Apart(_) => CHAINS,
        Outputs::Beside => count,
    };
    let mut sums = [T::default(); CHAINS * MOST_LANES];
    let (mut done, mut lanes, blocks) = (0, 0, out.len() / count);
    while done < blocks {
        // The last vector overlaps the one before: the same results are written again.
        done = done.min(blocks - lanes);
        let (x, y) = (&x[done * K_BLOCK..], &y[done * K_BLOCK * factors.step_stride..]);
        for first in (0..count).step_by(at_once) {
            let some = at_once.min(count - first);
            let y = &y[first * factors.lane_stride..];
            lanes = T::block_chains(x, y, layout, some, &mut sums);
            if lanes == 0 || lanes > blocks - done {
                return done;
            }
            for (lane, out) in out[done * count..].chunks_exact_mut(count).take(lanes).enumerate() {
                for (output, out) in out[first..first + some].iter_mut().enumerate() {
                    *out = sums[output * lanes + lane];
                }
            }
        }
        done += lanes;
    }
    done
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
