//! Softmax along a dimension that others follow: its columns side by side, where they lie.

use std::hint::select_unpredictable;

use samebits_numerics::extrema::replaces_max;
use samebits_numerics::fpenv;
use samebits_numerics::reduce::{BLOCK, Lanes, TILE, combine_columns};
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::geometry::Split;

use super::runs::{NARROW, runs};
use super::strips;
use super::{
    SOFTMAX, TOGETHER, cost, exponentiate, forward, log_softmax_backward, logs_of, softmax_backward,
};
use crate::elementwise::Elementary;
use crate::error::{Result, expect_len, expect_size};
use crate::memory;
use crate::parallel::{self, CHUNK, chunks_mut};
use crate::quotient::{DivideByEach, reciprocals};
use crate::reduce::columns::{by_columns, sums_of, tiles};

/// Computes [`log_softmax`](super::log_softmax) along the dimension of a split.
///
/// # Errors
///
/// As [`log_softmax`](super::log_softmax).
pub fn log_softmax_along<T: Elementary>(x: &[T], split: Split, out: &mut [T]) -> Result<()> {
    along(x, split, false, out)
}

/// Computes [`softmax`](super::softmax) along the dimension of a split.
///
/// # Errors
///
/// As [`log_softmax`](super::log_softmax).
pub fn softmax_along<T: Elementary>(x: &[T], split: Split, out: &mut [T]) -> Result<()> {
    along(x, split, true, out)
}

/// Computes [`softmax_along`] if `exp`, and otherwise its logarithms.
fn along<T: Elementary>(x: &[T], split: Split, exp: bool, out: &mut [T]) -> Result<()> {
    let Split { outer, size, inner } = split;
    expect_size(SOFTMAX, "out", out.len(), &[outer, size, inner])?;
    if inner == 1 || out.is_empty() {
        return forward(x, size, exp, out);
    }
    expect_len(SOFTMAX, "x", x.len(), out.len())?;
    if size == 1 {
        // The logarithm of 1, or NaN: each element is the largest of its row.
        parallel::pieces(out, |start, out| {
            for (out, (&x, &largest)) in out.iter_mut().zip(x[start..].iter().zip(&x[start..])) {
                *out = (x - largest).canonical();
            }
            if exp {
                exponentiate(out);
            }
        });
        return Ok(());
    }
    if strips::are_columns::<T>(split) {
        return strips::columns(x, split, exp, out);
    }
    let slab = size * inner;
    let slabs = |x: &[T], inner: usize, out: &mut [T]| {
        let slab = size * inner;
        let some = (TOGETHER / slab).max(1);
        let spare = &mut memory::filled(SOFTMAX, (some * slab).min(out.len()), T::ZERO)?;
        let columns = some * inner;
        let maxima = &mut memory::filled(SOFTMAX, columns, T::ZERO)?;
        let inverses = &mut memory::filled(SOFTMAX, if exp { 2 * columns } else { 0 }, T::ZERO)?;
        let sums = &mut memory::zeroed(SOFTMAX, columns)?;
        simd::dispatch(Forward { exp, x, size, inner, out, spare, maxima, sums, inverses });
        Ok(())
    };
    if slab <= CHUNK {
        return parallel::try_costly_rows(cost::<T>(), slab, out, |start, out| {
            slabs(&x[start..][..out.len()], inner, out)
        });
    }
    fpenv::ieee(|| large(x, split, exp, out))
}

/// The largest number of rows of a slab whose columns are computed in tiles: of more rows, a tile has
/// so few columns that memory is read in short pieces.
const TILED: usize = 64;

/// Calls `f(inputs, columns, out)` for tiles of the slabs: some columns of one slab, copied into and
/// out of a cache.
fn by_tiles<T: Elementary, const N: usize>(
    inputs: [&[T]; N],
    split: Split,
    out: &mut [T],
    f: impl Fn([&[T]; N], usize, &mut [T]) -> Result<()> + Sync + Send,
) -> Result<()> {
    let Split { outer, size, inner } = split;
    let columns = (CHUNK / 2 / size).max(TILE / 2).min(inner);
    let per_slab = inner.div_ceil(columns);
    let mut tiles = memory::with_capacity(SOFTMAX, outer * per_slab)?;
    for _ in 0..outer * per_slab {
        tiles.push(memory::with_capacity(SOFTMAX, size)?);
    }
    for (row, out) in out.chunks_exact_mut(inner).enumerate() {
        for (tile, out) in out.chunks_mut(columns).enumerate() {
            tiles[row / size * per_slab + tile].push(out);
        }
    }
    let scratch = || memory::filled(SOFTMAX, (N + 1) * size * columns, T::ZERO);
    parallel::chunks_mut(&mut tiles, 1).enumerate().try_for_each_with(
        scratch,
        |scratch, (number, tile)| {
            let tile = &mut tile[0];
            let start = number / per_slab * size * inner + number % per_slab * columns;
            let columns = tile[0].len();
            let mut parts = scratch.chunks_exact_mut(size * columns);
            let copied = inputs.map(|input| {
                let part = parts.next().unwrap_or_default();
                for (row, to) in part.chunks_exact_mut(columns).enumerate() {
                    to.copy_from_slice(&input[start + row * inner..][..columns]);
                }
                &*part
            });
            let made = parts.next().unwrap_or_default();
            f(copied, columns, made)?;
            for (to, from) in tile.iter_mut().zip(made.chunks_exact(columns)) {
                to.copy_from_slice(from);
            }
            Ok(())
        },
    )
}

/// Computes [`along`] of slabs that threads share: statistics of all columns, then all elements.
fn large<T: Elementary>(x: &[T], split: Split, exp: bool, out: &mut [T]) -> Result<()> {
    let Split { outer, size, inner } = split;
    let mut maxima = memory::filled(SOFTMAX, outer * inner, T::ZERO)?;
    let mut of_sums = memory::filled(SOFTMAX, outer * inner, T::ZERO)?;
    let mut sums = memory::zeroed(SOFTMAX, inner)?;
    let each = maxima.chunks_exact_mut(inner).zip(of_sums.chunks_exact_mut(inner));
    for (x, (maxima, of_sums)) in x.chunks_exact(size * inner).zip(each) {
        by_columns(size, maxima, |column, blocks, best| {
            if blocks == 1 {
                simd::dispatch(Maxima { x, inner, column, block: 0, best });
                return Ok(());
            }
            let columns = best.len();
            let mut found =
                memory::filled(SOFTMAX, memory::volume(SOFTMAX, &[blocks, columns])?, T::ZERO)?;
            chunks_mut(&mut found, columns).enumerate().for_each(|(block, best)| {
                simd::dispatch(Maxima { x, inner, column, block, best });
            });
            best.copy_from_slice(&found[..columns]);
            // Ascending, so that of equal elements the first is kept.
            for later in found[columns..].chunks_exact(columns) {
                for (best, &new) in best.iter_mut().zip(later) {
                    *best = if replaces_max(*best, new) { new } else { *best };
                }
            }
            Ok(())
        })?;
        let maxima = &*maxima;
        sums_of(SOFTMAX, size, &mut sums, |column, block, out| {
            simd::dispatch(Exponentials { x, inner, column, block, maxima, out });
        })?;
        parallel::pieces(of_sums, |start, out| {
            simd::dispatch(OfSums { exp, sums: &sums[start..][..out.len()], out })
        });
    }
    let count = if exp { of_sums.len() } else { 0 };
    let mut inverses = memory::filled(SOFTMAX, 2 * count, T::ZERO)?;
    let (all, lost) = inverses.split_at_mut(count);
    reciprocals(&of_sums, [all, lost]);
    let inverses = [&*all, &*lost];
    in_rows(inner, out, |first, out| {
        let x = &x[first..][..out.len()];
        let (maxima, of_sums) = (&maxima[..], &of_sums[..]);
        simd::dispatch(Finish { exp, x, first, size, inner, maxima, of_sums, inverses, out });
    });
    Ok(())
}

/// Computes [`log_softmax_backward`] along the dimension of a split.
///
/// # Errors
///
/// As [`log_softmax`](super::log_softmax).
pub fn log_softmax_along_backward<T: Elementary>(
    grad: &[T],
    y: &[T],
    split: Split,
    out: &mut [T],
) -> Result<()> {
    let Split { outer, size, inner } = split;
    expect_size(SOFTMAX, "out", out.len(), &[outer, size, inner])?;
    if inner == 1 || out.is_empty() {
        return log_softmax_backward(grad, y, size, out);
    }
    expect_len(SOFTMAX, "grad", grad.len(), out.len())?;
    expect_len(SOFTMAX, "y", y.len(), out.len())?;
    let slab = size * inner;
    let slabs = |[grad, y]: [&[T]; 2], inner: usize, out: &mut [T]| {
        let sums = &mut memory::zeroed(SOFTMAX, out.len() / size)?;
        simd::dispatch(SlabSums { x: grad, size, inner, sums });
        let sums = &rounded(sums)?[..];
        simd::dispatch(Backward { grad, y, first: 0, size, inner, sums, out });
        Ok(())
    };
    if slab <= CHUNK {
        return parallel::try_costly_rows(cost::<T>(), slab, out, |start, out| {
            let range = start..start + out.len();
            slabs([&grad[range.clone()], &y[range]], inner, out)
        });
    }
    if size <= TILED {
        return by_tiles([grad, y], split, out, slabs);
    }
    let mut sums = memory::zeroed(SOFTMAX, outer * inner)?;
    for (x, sums) in grad.chunks_exact(slab).zip(sums.chunks_exact_mut(inner)) {
        sums_of(SOFTMAX, size, sums, |column, block, out| {
            simd::dispatch(Plain { x, inner, column, block, out });
        })?;
    }
    let sums = &rounded(&sums)?[..];
    in_rows(inner, out, |first, out| {
        let range = first..first + out.len();
        let (grad, y) = (&grad[range.clone()], &y[range]);
        simd::dispatch(Backward { grad, y, first, size, inner, sums, out });
    });
    Ok(())
}

/// Computes [`softmax_backward`] along the dimension of a split.
///
/// # Errors
///
/// As [`log_softmax`](super::log_softmax).
pub fn softmax_along_backward<T: Elementary>(
    grad: &[T],
    y: &[T],
    split: Split,
    out: &mut [T],
) -> Result<()> {
    let Split { outer, size, inner } = split;
    expect_size(SOFTMAX, "out", out.len(), &[outer, size, inner])?;
    if inner == 1 || out.is_empty() {
        return softmax_backward(grad, y, size, out);
    }
    expect_len(SOFTMAX, "grad", grad.len(), out.len())?;
    expect_len(SOFTMAX, "y", y.len(), out.len())?;
    let slab = size * inner;
    let slabs = |[grad, y]: [&[T]; 2], inner: usize, out: &mut [T]| {
        let sums = &mut memory::zeroed(SOFTMAX, out.len() / size)?;
        simd::dispatch(Products { grad, y, out });
        simd::dispatch(SlabSums { x: out, size, inner, sums });
        let sums = &rounded(sums)?[..];
        simd::dispatch(OfSoftmax { y, first: 0, size, inner, sums, out });
        Ok(())
    };
    if slab <= CHUNK {
        return parallel::try_costly_rows(cost::<T>(), slab, out, |start, out| {
            let range = start..start + out.len();
            slabs([&grad[range.clone()], &y[range]], inner, out)
        });
    }
    if size <= TILED {
        return by_tiles([grad, y], split, out, slabs);
    }
    parallel::pieces(out, |start, out| {
        let range = start..start + out.len();
        simd::dispatch(Products { grad: &grad[range.clone()], y: &y[range], out });
    });
    let mut sums = memory::zeroed(SOFTMAX, outer * inner)?;
    for (x, sums) in out.chunks_exact(slab).zip(sums.chunks_exact_mut(inner)) {
        sums_of(SOFTMAX, size, sums, |column, block, out| {
            simd::dispatch(Plain { x, inner, column, block, out });
        })?;
    }
    let sums = &rounded(&sums)?[..];
    in_rows(inner, out, |first, out| {
        let y = &y[first..][..out.len()];
        simd::dispatch(OfSoftmax { y, first, size, inner, sums, out });
    });
    Ok(())
}

/// Returns the negative sums in the element type.
fn rounded<T: Elementary>(sums: &[f64]) -> Result<Vec<T>> {
    fpenv::ieee(|| memory::collected(SOFTMAX, sums.iter().map(|&sum| -T::from_f64(sum))))
}

/// Calls `f(first, piece)` for pieces of whole rows, or of one row if rows are long.
fn in_rows<T: Send>(inner: usize, out: &mut [T], f: impl Fn(usize, &mut [T]) + Sync + Send) {
    if inner <= CHUNK {
        return parallel::rows(inner, out, f);
    }
    parallel::pieces_of(inner, out, |row, out| {
        parallel::pieces(out, |start, out| f(row + start, out));
    });
}

/// Finds the maximum of each column of consecutive or distant rows: of equal elements the first.
#[inline(always)]
fn maxima<T: Elementary>(x: &[T], stride: usize, rows: usize, best: &mut [T]) {
    let width = best.len();
    let row = |r: usize| &x[r * stride..][..width];
    if width != stride || width > NARROW / 2 {
        best.copy_from_slice(row(0));
        // Two rows at a time: one alone would be stored under a mask, for which later loads wait.
        for r in (1..rows).step_by(2) {
            let both = row(r).iter().zip(row((r + 1).min(rows - 1)));
            for (best, (&x, &y)) in best.iter_mut().zip(both) {
                let first = select_unpredictable(replaces_max(*best, x), x, *best);
                *best = select_unpredictable(replaces_max(first, y), y, first);
            }
        }
        return;
    }
    // Several rows fill a vector. Only a zero shows which of equal elements is taken.
    let together = (NARROW / width).min(rows);
    let mut side_by_side = [T::ZERO; NARROW];
    let side_by_side = &mut side_by_side[..together * width];
    let mut groups = x[..rows * width].chunks(together * width);
    side_by_side.copy_from_slice(groups.next().unwrap_or_default());
    for group in groups {
        for (best, &x) in side_by_side.iter_mut().zip(group) {
            *best = if replaces_max(*best, x) { x } else { *best };
        }
    }
    best.copy_from_slice(&side_by_side[..width]);
    for later in side_by_side[width..].chunks_exact(width) {
        for (best, &x) in best.iter_mut().zip(later) {
            *best = if replaces_max(*best, x) { x } else { *best };
        }
    }
    for (c, best) in best.iter_mut().enumerate().filter(|(_, best)| **best == T::ZERO) {
        let zero = x[c..].iter().step_by(width).find(|&&x| x == T::ZERO);
        *best = *zero.unwrap_or(best);
    }
}

/// Sums the columns of dense slabs.
struct SlabSums<'a, T> {
    x: &'a [T],
    size: usize,
    inner: usize,
    sums: &'a mut [f64],
}

impl<T: Elementary> Kernel for SlabSums<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let SlabSums { x, size, inner, sums } = self;
        let mut lanes = Lanes::new();
        for (x, sums) in x.chunks_exact(size * inner).zip(sums.chunks_exact_mut(inner)) {
            if size <= BLOCK {
                slab_sums(&mut lanes, x, inner, sums);
                continue;
            }
            let mut partials = vec![0.0; size.div_ceil(BLOCK) * inner];
            for (x, sums) in x.chunks(BLOCK * inner).zip(partials.chunks_exact_mut(inner)) {
                slab_sums(&mut lanes, x, inner, sums);
            }
            combine_columns(&partials, inner, sums);
        }
    }
}

/// Sums the columns of one block of a dense slab.
#[inline(always)]
fn slab_sums<T: Elementary>(lanes: &mut Lanes, x: &[T], inner: usize, sums: &mut [f64]) {
    if inner < TILE {
        return lanes.dense_sums([x].into_iter(), |x| x.into(), sums);
    }
    for (column, count) in tiles(inner) {
        let rows = x.chunks_exact(inner).map(|row| &row[column..]);
        lanes.sums(rows, |_| |x: T| x.into(), &mut sums[column..column + count]);
    }
}

/// Computes [`along`] of dense slabs, some at a time.
struct Forward<'a, T> {
    /// Computes softmax, and not its logarithms.
    exp: bool,
    x: &'a [T],
    size: usize,
    inner: usize,
    out: &'a mut [T],
    /// Scratch memory for the slabs that go through each step together.
    spare: &'a mut [T],
    maxima: &'a mut [T],
    sums: &'a mut [f64],
    inverses: &'a mut [T],
}

impl<T: Elementary> Kernel for Forward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Forward { exp, x, size, inner, out, spare, maxima: all_maxima, .. } = self;
        let (all_sums, inverses) = (self.sums, self.inverses);
        let some = spare.len();
        for (x, out) in x.chunks(some).zip(out.chunks_mut(some)) {
            let columns = x.len() / size;
            let (spare, best) = (&mut spare[..x.len()], &mut all_maxima[..columns]);
            // The logarithms are made of the differences, softmax of their exponentials.
            let (differences, exps) = if exp { (spare, out) } else { (out, spare) };
            let sums = &mut all_sums[..columns];
            for (x, best) in x.chunks_exact(size * inner).zip(best.chunks_exact_mut(inner)) {
                maxima(x, inner, size, best);
            }
            runs((0, x.len()), (size, inner), [&*best], |at, [best]| {
                let differences = &mut differences[at.clone()];
                for ((difference, &x), &best) in differences.iter_mut().zip(&x[at]).zip(best) {
                    *difference = x - best;
                }
            });
            T::exp_each(differences, exps);
            simd::dispatch_inside(SlabSums { x: exps, size, inner, sums });
            let of_sums = best;
            rounded_or_logs(exp, sums, of_sums);
            if exp {
                let (all, lost) = inverses.split_at_mut(columns);
                let lost = &mut lost[..columns];
                reciprocals(of_sums, [all, lost]);
                runs((0, x.len()), (size, inner), [of_sums, all, lost], |at, [sums, all, lost]| {
                    let elements = &mut exps[at];
                    let (divisors, reciprocals) = (sums, [all, lost]);
                    simd::dispatch_inside(DivideByEach { elements, divisors, reciprocals });
                });
                continue;
            }
            runs((0, x.len()), (size, inner), [&*of_sums], |at, [of_sums]| {
                for (out, &log) in differences[at].iter_mut().zip(of_sums) {
                    *out = (*out - log).canonical();
                }
            });
        }
    }
}

/// Rounds sums; unless `exp`, computes their logarithms.
#[inline(always)]
fn rounded_or_logs<T: Elementary>(exp: bool, sums: &[f64], out: &mut [T]) {
    if !exp {
        return logs_of(sums, out);
    }
    for (out, &sum) in out.iter_mut().zip(sums) {
        *out = T::from_f64(sum);
    }
}

/// Computes [`rounded_or_logs`].
struct OfSums<'a, T> {
    exp: bool,
    sums: &'a [f64],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for OfSums<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        rounded_or_logs(self.exp, self.sums, self.out);
    }
}

/// Finds the maxima of some columns of a block of a slab, from column `column` on.
struct Maxima<'a, T> {
    x: &'a [T],
    inner: usize,
    column: usize,
    block: usize,
    best: &'a mut [T],
}

impl<T: Elementary> Kernel for Maxima<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Maxima { x, inner, column, block, best } = self;
        let x = &x[block * BLOCK * inner..];
        let rows = BLOCK.min(x.len() / inner);
        for (first, count) in tiles(best.len()) {
            maxima(&x[column + first..], inner, rows, &mut best[first..first + count]);
        }
    }
}

/// Sums the exponentials of some columns of a block of a slab, from column `column` on.
struct Exponentials<'a, T> {
    x: &'a [T],
    inner: usize,
    column: usize,
    block: usize,
    maxima: &'a [T],
    out: &'a mut [f64],
}

impl<T: Elementary> Kernel for Exponentials<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Exponentials { x, inner, column, block, maxima, out } = self;
        let x = &x[block * BLOCK * inner..];
        let rows = BLOCK.min(x.len() / inner);
        let mut lanes = Lanes::new();
        let [mut spare, mut exps] = [[T::ZERO; Lanes::MADE]; 2];
        for (first, count) in tiles(out.len()) {
            let out = &mut out[first..first + count];
            let (x, best) = (&x[column + first..], &maxima[column + first..][..count]);
            for (row, several) in Lanes::made(rows, count) {
                let (spare, exps) = (&mut spare[..several * count], &mut exps[..several * count]);
                if count == inner && count <= NARROW {
                    let x = &x[row * inner..][..exps.len()];
                    runs((0, x.len()), (rows, inner), [best], |at, [best]| {
                        for ((to, &x), &best) in spare[at.clone()].iter_mut().zip(&x[at]).zip(best)
                        {
                            *to = x - best;
                        }
                    });
                } else {
                    for (r, to) in spare.chunks_exact_mut(count).enumerate() {
                        let x = &x[(row + r) * inner..][..count];
                        for ((to, &x), &best) in to.iter_mut().zip(x).zip(best) {
                            *to = x - best;
                        }
                    }
                }
                T::exp_each(spare, exps);
                lanes.add_made(row, count, exps);
            }
            lanes.finish_made(rows, out);
        }
    }
}

/// Sums some columns of a block of a slab, from column `column` on.
struct Plain<'a, T> {
    x: &'a [T],
    inner: usize,
    column: usize,
    block: usize,
    out: &'a mut [f64],
}

impl<T: Elementary> Kernel for Plain<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Plain { x, inner, column, block, out } = self;
        let x = &x[block * BLOCK * inner..];
        let x = &x[..x.len().min(BLOCK * inner)];
        let mut lanes = Lanes::new();
        if out.len() == inner {
            return slab_sums(&mut lanes, x, inner, out);
        }
        for (first, count) in tiles(out.len()) {
            let rows = x.chunks_exact(inner).map(|row| &row[column + first..]);
            lanes.sums(rows, |_| |x: T| x.into(), &mut out[first..first + count]);
        }
    }
}

/// Computes `(x − maximum) − logarithm`, or if `exp` the exponential of the difference, divided by the sum,
/// from element `first` of the slabs on.
struct Finish<'a, T> {
    exp: bool,
    x: &'a [T],
    first: usize,
    size: usize,
    inner: usize,
    maxima: &'a [T],
    /// The sums if `exp`, and otherwise their logarithms.
    of_sums: &'a [T],
    /// The [`reciprocals`] of the sums, if `exp`.
    inverses: [&'a [T]; 2],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Finish<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Finish { exp, x, first, size, inner, maxima, of_sums, inverses, out } = self;
        if !exp {
            runs((first, x.len()), (size, inner), [maxima, of_sums], |at, [best, logs]| {
                let out = out[at.clone()].iter_mut().zip(&x[at]);
                for ((out, &x), (&best, &log)) in out.zip(best.iter().zip(logs)) {
                    *out = ((x - best) - log).canonical();
                }
            });
            return;
        }
        runs((first, x.len()), (size, inner), [maxima], |at, [best]| {
            for ((out, &x), &best) in out[at.clone()].iter_mut().zip(&x[at]).zip(best) {
                *out = x - best;
            }
        });
        exponentiate(out);
        let [all, lost] = inverses;
        runs((first, x.len()), (size, inner), [of_sums, all, lost], |at, [sums, all, lost]| {
            let (elements, divisors, reciprocals) = (&mut out[at], sums, [all, lost]);
            simd::dispatch_inside(DivideByEach { elements, divisors, reciprocals });
        });
    }
}

/// Computes the gradient from the negative sums of columns, from element `first` of the slabs on.
struct Backward<'a, T> {
    grad: &'a [T],
    y: &'a [T],
    first: usize,
    size: usize,
    inner: usize,
    sums: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Backward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Backward { grad, y, first, size, inner, sums, out } = self;
        T::exp_each(y, out);
        runs((first, y.len()), (size, inner), [sums], |at, [sums]| {
            let out = out[at.clone()].iter_mut().zip(&grad[at]);
            for ((out, &grad), &sum) in out.zip(sums) {
                *out = out.mul_add(sum, grad).canonical();
            }
        });
    }
}

/// Computes `grad · y`.
struct Products<'a, T> {
    grad: &'a [T],
    y: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Products<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let inputs = self.grad.iter().zip(self.y);
        for (out, (&grad, &y)) in self.out.iter_mut().zip(inputs) {
            *out = grad * y;
        }
    }
}

/// Computes the gradient of softmax in the place of the products, from the negative sums of
/// columns, from element `first` of the slabs on.
struct OfSoftmax<'a, T> {
    y: &'a [T],
    first: usize,
    size: usize,
    inner: usize,
    sums: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for OfSoftmax<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let OfSoftmax { y, first, size, inner, sums, out } = self;
        runs((first, y.len()), (size, inner), [sums], |at, [sums]| {
            for ((out, &y), &sum) in out[at.clone()].iter_mut().zip(&y[at]).zip(sums) {
                *out = y.mul_add(sum, *out).canonical();
            }
        });
    }
}
