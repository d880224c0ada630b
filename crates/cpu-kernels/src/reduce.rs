//! Reductions of rows and columns.
//!
//! # Determinism
//!
//! `Portable`: sums run in f64 over the contract's fixed tree in the logical order of their terms
//! (see [`samebits_numerics::reduce`]); extrema take the first of equal elements.

pub(crate) mod columns;
mod integers;
mod kernels;
mod norms;
mod rows;
mod slabs;
pub(crate) mod tiles;

use samebits_numerics::fpenv;
use samebits_numerics::math::f64 as math;
use samebits_numerics::reduce::{
    Accumulator, BLOCK, LANES, MEAN_SCALE, combine, combine_columns, normal_scale, unscaled_mean,
};
use samebits_numerics::simd;

use crate::error::{Error, Result, expect_size};
use crate::float::Float;
use crate::memory;
use crate::parallel::{self, CHUNK, chunks, chunks_mut};

pub(crate) use integers::integer;
pub use integers::integer_rows;
pub use kernels::Extreme;
use kernels::{Added, ColumnBlock, Columns, Extremes, Lane, Logarithms, Places, Products, Sums};
pub(crate) use kernels::{maxima_of_rows, sums_of_rows};
pub(crate) use norms::norm;
pub use norms::norm_rows;
pub(crate) use rows::{Rows, SHORTEST_RUN, Walk};
pub(crate) use slabs::{Part, Slabs};

/// Computes `out[i] = Σ x[i · n ..][..n]`, rounded once.
///
/// # Errors
///
/// [`Error::Length`] if `x` does not hold `out.len()` rows of `n`; [`Error::OutOfMemory`].
pub fn sum_rows<T: Float>(x: &[T], n: usize, out: &mut [T]) -> Result<()> {
    sum("sum_rows", Rows::dense("sum_rows", x, out.len(), n)?, out)
}

pub(crate) fn sum<T: Float>(op: &'static str, x: Rows<'_, T>, out: &mut [T]) -> Result<()> {
    each_row(op, x, out, |x, sums| totals_of(op, x, sums))
}

/// Computes the mean of each row: the sum divided by `n` in f64, rounded once. If the sum leaves the range
/// of f64, it is computed again from the elements times 2^-64, and the mean is divided by that power.
///
/// # Errors
///
/// As [`sum_rows`].
pub fn mean_rows<T: Float>(x: &[T], n: usize, out: &mut [T]) -> Result<()> {
    mean("mean_rows", Rows::dense("mean_rows", x, out.len(), n)?, out)
}

pub(crate) fn mean<T: Float>(op: &'static str, x: Rows<'_, T>, out: &mut [T]) -> Result<()> {
    each_row(op, x, out, |x, means| means_of(op, x, means))
}

/// Computes `out[o · inner + i] = Σ_k x[(o · n + k) · inner + i]` in f64.
///
/// # Errors
///
/// [`Error::Length`] if `out` does not have `outer · inner` elements for some `outer`, or `x` does
/// not have `outer · n · inner`; [`Error::OutOfMemory`].
pub fn sum_columns<T: Float>(x: &[T], n: usize, inner: usize, out: &mut [f64]) -> Result<()> {
    const OP: &str = "sum_columns";
    let outer = out.len().checked_div(inner).unwrap_or(0);
    expect_size(OP, "out", out.len(), &[outer, inner])?;
    expect_size(OP, "x", x.len(), &[outer, n, inner])?;
    if x.is_empty() {
        out.fill(0.0);
        return Ok(());
    }
    fpenv::ieee(|| {
        for (slab, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(inner)) {
            if slab.len() <= CHUNK {
                simd::dispatch(Columns { slab, inner, out });
                continue;
            }
            if n < LANED_ROWS || inner < LANED_COLUMNS {
                column_totals(OP, slab, BLOCK, inner, out)?;
                continue;
            }
            // Reads long stretches of the rows of one lane, and adds them to sums that stay in a
            // cache.
            let mut lanes = memory::zeroed(OP, n.div_ceil(BLOCK) * LANES * inner)?;
            chunks_mut(&mut lanes, LANES * inner).zip(chunks(slab, BLOCK * inner)).for_each(
                |(lanes, block)| {
                    chunks_mut(lanes, inner).enumerate().for_each(|(lane, out)| {
                        simd::dispatch(Lane { block, inner, lane, out });
                    });
                },
            );
            column_totals(OP, &lanes, LANES, inner, out)?;
        }
        Ok(())
    })
}

/// The number of rows from which the lanes of [`sum_columns`] are small compared with its input.
const LANED_ROWS: usize = 512;

/// The number of columns from which reading single rows is efficient.
const LANED_COLUMNS: usize = 256;

/// Computes the sum of each column of `x`. Rows have `width` elements; each block of the tree has
/// `per_block` rows, which are all rows of the block or the sums of its lanes.
pub(crate) fn column_totals<T: Float>(
    op: &'static str,
    x: &[T],
    per_block: usize,
    width: usize,
    out: &mut [f64],
) -> Result<()> {
    let mut partials = memory::zeroed(op, x.len().div_ceil(per_block * width) * width)?;
    // Wide pieces read longer stretches of memory; narrow ones leave work for all threads.
    let columns = if partials.len() < 16 * 256 { 64 } else { 256 };
    let blocks = chunks_mut(&mut partials, width).zip(chunks(x, per_block * width));
    blocks.for_each(|(partial, block)| {
        chunks_mut(partial, columns).enumerate().for_each(|(i, out)| {
            simd::dispatch(ColumnBlock { block, inner: width, first: i * columns, out });
        });
    });
    combine_columns(&partials, width, out);
    Ok(())
}

/// Computes the product of each row in f64, over the tree of [`samebits_numerics::reduce`] with `*`
/// instead of `+` and 1 instead of 0, rounded once.
///
/// # Errors
///
/// As [`sum_rows`].
pub fn product_rows<T: Float>(x: &[T], n: usize, out: &mut [T]) -> Result<()> {
    product("product_rows", Rows::dense("product_rows", x, out.len(), n)?, out)
}

pub(crate) fn product<T: Float>(op: &'static str, x: Rows<'_, T>, out: &mut [T]) -> Result<()> {
    each_row(op, x, out, |x, products| {
        let n = x.width();
        match x {
            Rows::Dense { x, n } if n <= BLOCK => simd::dispatch(Products { x, n, out: products }),
            Rows::Dense { x, .. } => {
                for (row, out) in x.chunks_exact(n).zip(products) {
                    let mut level = memory::zeroed(op, n.div_ceil(BLOCK))?;
                    let blocks = chunks_mut(&mut level, 1).zip(chunks(row, BLOCK));
                    blocks.for_each(|(out, block)| out[0] = product_of(block));
                    *out = product_of_level(op, level)?;
                }
            }
            Rows::Walked { walk, first } => {
                let mut buffer = walk.buffer(op)?;
                for (i, out) in products.iter_mut().enumerate() {
                    let mut level = memory::with_capacity(op, n.div_ceil(BLOCK))?;
                    walk.pieces(first + i, &mut buffer, |piece| {
                        level.extend(piece.chunks(BLOCK).map(product_of));
                    });
                    *out = product_of_level(op, level)?;
                }
            }
            Rows::Slabs(part) => part.products(products),
        }
        Ok(())
    })
}

/// Computes the variance and the mean of each row, each rounded once. The variance is the sum of
/// the squared differences to the f64 mean, divided by `n − correction` (or 0 if that is negative),
/// all in f64. If the sum of squares leaves the range of f64, it is computed again from elements and mean
/// times 2^-600.
///
/// # Errors
///
/// As [`sum_rows`].
pub fn variance_rows<T: Float>(
    x: &[T],
    n: usize,
    correction: f64,
    out: &mut [[T; 2]],
) -> Result<()> {
    variance("variance_rows", Rows::dense("variance_rows", x, out.len(), n)?, correction, out)
}

pub(crate) fn variance<T: Float>(
    op: &'static str,
    x: Rows<'_, T>,
    correction: f64,
    out: &mut [[T; 2]],
) -> Result<()> {
    let n = x.width();
    pieces_of_rows(op, x, out, |x, out| {
        let divisor = (n as f64 - correction).max(0.0);
        let mut means = memory::zeroed(op, out.len())?;
        means_of(op, x, &mut means)?;
        let mut squares = memory::zeroed(op, out.len())?;
        let term = |row: usize| {
            let mean: f64 = means[row];
            move |x: T| {
                let deviation = x.into() - mean;
                deviation * deviation
            }
        };
        sums_of::<T, _, false>(op, x, term, &mut squares)?;
        for (row, out) in out.iter_mut().enumerate() {
            let (mean, mut variance) = (means[row], squares[row] / divisor);
            if T::WIDE && !squares[row].is_finite() {
                let scale = normal_scale(mean, 0.0, true);
                let term = |_, x: T| {
                    let deviation = x.into() * scale - mean * scale;
                    deviation * deviation
                };
                rare_sums_of(op, x.part(row, 1), &term, &mut squares[row..=row])?;
                variance = squares[row] / divisor / scale / scale;
            }
            *out = [variance, mean].map(|x| T::from_f64(x).canonical());
        }
        Ok(())
    })
}

/// Computes the logarithm of the sum of the exponentials of each row, rounded once. In f64: the
/// largest element plus the logarithm of the sum of the exponentials of the differences to it. If
/// the largest element is infinite or NaN, it is the result. An empty row gives minus infinity.
///
/// # Errors
///
/// As [`sum_rows`].
pub fn logsumexp_rows<T: Float>(x: &[T], n: usize, out: &mut [T]) -> Result<()> {
    logsumexp("logsumexp_rows", Rows::dense("logsumexp_rows", x, out.len(), n)?, out)
}

pub(crate) fn logsumexp<T: Float>(op: &'static str, x: Rows<'_, T>, out: &mut [T]) -> Result<()> {
    each_row(op, x, out, |x, out| {
        if x.width() == 0 {
            out.fill(f64::NEG_INFINITY);
            return Ok(());
        }
        let mut largest = memory::filled(op, out.len(), T::ZERO)?;
        extremes_of(op, Extreme::Max, x, &mut largest)?;
        let term = |row: usize| {
            let largest: f64 = largest[row].into();
            move |x: T| math::exp(x.into() - largest)
        };
        sums_of::<T, _, false>(op, x, term, out)?;
        simd::dispatch(Logarithms { largest: &largest, sums: out });
        Ok(())
    })
}

/// Computes the value of each row's extremum.
///
/// # Errors
///
/// As [`sum_rows`]; [`Error::Argument`] if rows are empty.
pub fn extreme_rows<T: Float>(which: Extreme, x: &[T], n: usize, out: &mut [T]) -> Result<()> {
    extreme("extreme_rows", Rows::dense("extreme_rows", x, out.len(), n)?, which, out)
}

pub(crate) fn extreme<T: Float>(
    op: &'static str,
    x: Rows<'_, T>,
    which: Extreme,
    out: &mut [T],
) -> Result<()> {
    expect_elements(op, x.width(), out.len())?;
    pieces_of_rows(op, x, out, |x, out| extremes_of(op, which, x, out))
}

/// Computes the index of each row's extremum.
///
/// # Errors
///
/// As [`extreme_rows`].
pub fn arg_extreme_rows<T: Float>(
    which: Extreme,
    x: &[T],
    n: usize,
    out: &mut [i64],
) -> Result<()> {
    arg_extreme("arg_extreme_rows", Rows::dense("arg_extreme_rows", x, out.len(), n)?, which, out)
}

pub(crate) fn arg_extreme<T: Float>(
    op: &'static str,
    x: Rows<'_, T>,
    which: Extreme,
    out: &mut [i64],
) -> Result<()> {
    expect_elements(op, x.width(), out.len())?;
    pieces_of_rows(op, x, out, |x, out| places_of(op, which, x, out))
}

/// Returns an error if rows are empty.
fn expect_elements(op: &'static str, n: usize, rows: usize) -> Result<()> {
    if n == 0 && rows > 0 {
        return Err(Error::argument(op, "no elements to choose from"));
    }
    Ok(())
}

/// Calls `f(x, out)` for pieces of rows, and rounds the results in `out`.
fn each_row<T: Float>(
    op: &'static str,
    x: Rows<'_, T>,
    out: &mut [T],
    f: impl Fn(Rows<'_, T>, &mut [f64]) -> Result<()> + Sync + Send,
) -> Result<()> {
    pieces_of_rows(op, x, out, |x, out| {
        let mut wide = memory::zeroed(op, out.len())?;
        f(x, &mut wide)?;
        for (out, wide) in out.iter_mut().zip(wide) {
            *out = T::from_f64(wide).canonical();
        }
        Ok(())
    })
}

/// Calls `f(x, out)` for pieces of whole rows. The pieces are small enough that several passes over
/// one read memory once. Scattered rows that are not long are copied. Few long rows are one piece: threads then share the blocks of each row.
fn pieces_of_rows<T: bytemuck::Pod + Send + Sync, R: Send>(
    op: &'static str,
    x: Rows<'_, T>,
    out: &mut [R],
    f: impl Fn(Rows<'_, T>, &mut [R]) -> Result<()> + Sync + Send,
) -> Result<()> {
    let n = x.width();
    if let Rows::Slabs(part) = x {
        return part.pieces(out, |part, out| f(Rows::Slabs(part), out));
    }
    if let Rows::Walked { walk, first } = x
        && walk.is_scattered()
        && (1..=CHUNK).contains(&n)
    {
        let size = parallel::several(out.len(), n).min(CHUNK.div_ceil(n));
        return parallel::try_pieces_of(size, out, |start, piece| {
            let mut copy = memory::scratch::<T>(op, piece.len() * n)?;
            walk.copy_rows(first + start, copy.as_mut_slice());
            f(Rows::Dense { x: copy.as_slice(), n }, piece)
        });
    }
    let one = matches!(x, Rows::Dense { .. }) && few_and_long(n, out.len());
    let size = if one { out.len() } else { parallel::several(out.len(), n) };
    parallel::try_pieces_of(size, out, |start, piece| f(x.part(start, piece.len()), piece))
}

fn few_and_long(n: usize, rows: usize) -> bool {
    rows < 16 && n > CHUNK
}

/// The length of a run from which it is reduced in place: a shorter one is sooner gathered with its
/// neighbours.
const LONG_RUN: usize = 512;

/// Computes `out[i] = Σ term(i)(x)` in f64 over the elements of each row of a piece. `SAME`
/// promises that `term` is one function for all rows.
fn sums_of<T: Float, F: Fn(T) -> f64, const SAME: bool>(
    op: &'static str,
    x: Rows<'_, T>,
    term: impl Fn(usize) -> F + Sync,
    out: &mut [f64],
) -> Result<()> {
    let term = &term;
    let block_of = |row: usize, block: &[T]| {
        let mut sum = [0.0];
        simd::dispatch(Sums { x: block, n: block.len(), first: row, term, out: &mut sum });
        sum[0]
    };
    match x {
        Rows::Dense { x, n } if !few_and_long(n, out.len()) => {
            simd::dispatch(Sums { x, n, first: 0, term, out });
        }
        Rows::Dense { x, n } => {
            for (row, (x, out)) in x.chunks_exact(n).zip(out).enumerate() {
                let mut partials = memory::zeroed(op, n.div_ceil(BLOCK))?;
                let runs = chunks_mut(&mut partials, 4).zip(chunks(x, 4 * BLOCK));
                runs.for_each(|(partials, run)| {
                    for (partial, block) in partials.iter_mut().zip(run.chunks(BLOCK)) {
                        *partial = block_of(row, block);
                    }
                });
                *out = combine(&partials);
            }
        }
        // Long runs, in place.
        Rows::Walked { walk, first } if walk.map.is_none() && walk.run() >= LONG_RUN => {
            for (row, out) in out.iter_mut().enumerate() {
                let mut partials = memory::zeroed(op, x.width().div_ceil(BLOCK))?;
                chunks_mut(&mut partials, 4).enumerate().for_each(|(i, partials)| {
                    let term = term(row);
                    for (block, partial) in (4 * i..).zip(partials) {
                        let mut sum = Accumulator::new();
                        walk.stretch(first + row, block * BLOCK, BLOCK, |x| {
                            simd::dispatch(Added { x, term: &term, sum: &mut sum });
                        });
                        *partial = sum.finish();
                    }
                });
                *out = combine(&partials);
            }
        }
        // Long rows in tiles.
        Rows::Walked { walk, first } if walk.is_scattered() && x.width() > CHUNK => {
            for (row, out) in out.iter_mut().enumerate() {
                let add = |x: &[T], sum: &mut Accumulator| {
                    simd::dispatch_inside(Added { x, term: &term(row), sum });
                };
                let layout = walk.layout(first + row);
                *out = combine(&tiles::sums_of_blocks(op, walk.data, &layout, &add)?);
            }
        }
        Rows::Walked { walk, first } if out.len() == 1 && x.width() > CHUNK => {
            let mut partials = memory::zeroed(op, x.width().div_ceil(BLOCK))?;
            chunks_mut(&mut partials, 4).enumerate().try_for_each_with(
                || walk.buffer(op),
                |buffer, (i, partials)| {
                    walk.gather(first, 4 * i * BLOCK, 4 * BLOCK, buffer);
                    for (partial, block) in partials.iter_mut().zip(buffer.chunks(BLOCK)) {
                        *partial = block_of(0, block);
                    }
                    Ok(())
                },
            )?;
            out[0] = combine(&partials);
        }
        // Several rows at a time.
        Rows::Walked { walk, first } if (1..=BLOCK / 2).contains(&x.width()) => {
            walk.several_rows(op, first, out, |row, x, out| {
                simd::dispatch(Sums { x, n: walk.row.numel(), first: row, term, out });
            })?;
        }
        Rows::Walked { walk, first } => {
            let mut buffer = walk.buffer(op)?;
            for (row, out) in out.iter_mut().enumerate() {
                let mut partials = Accumulator::new();
                walk.pieces(first + row, &mut buffer, |piece| {
                    piece.chunks(BLOCK).for_each(|block| partials.push(block_of(row, block)));
                });
                *out = partials.finish();
            }
        }
        Rows::Slabs(part) => part.sums::<F, SAME>(op, term, out)?,
    }
    Ok(())
}

/// Computes [`sums_of`] with a term `(row, x)` that takes long or is rarely needed: it is called for each
/// element, and all such terms share one kernel.
fn rare_sums_of<T: Float>(
    op: &'static str,
    x: Rows<'_, T>,
    term: &(dyn Fn(usize, T) -> f64 + Sync),
    out: &mut [f64],
) -> Result<()> {
    sums_of::<T, _, false>(op, x, |row| move |x| term(row, x), out)
}

/// Computes the sum of each row of a piece.
fn totals_of<T: Float>(op: &'static str, x: Rows<'_, T>, out: &mut [f64]) -> Result<()> {
    sums_of::<T, _, true>(op, x, |_| |x: T| x.into(), out)
}

/// Computes the mean of each row of a piece.
fn means_of<T: Float>(op: &'static str, x: Rows<'_, T>, out: &mut [f64]) -> Result<()> {
    totals_of(op, x, out)?;
    let n = x.width() as f64;
    for (row, mean) in out.iter_mut().enumerate() {
        *mean /= n;
        if T::WIDE && !mean.is_finite() {
            let one = std::slice::from_mut(mean);
            rare_sums_of(op, x.part(row, 1), &|_, x| x.into() * MEAN_SCALE, one)?;
            *mean = unscaled_mean(*mean / n);
        }
    }
    Ok(())
}

/// Computes the extremum of each row of a piece.
fn extremes_of<T: Float>(
    op: &'static str,
    which: Extreme,
    x: Rows<'_, T>,
    out: &mut [T],
) -> Result<()> {
    match x {
        Rows::Dense { x, n } if !few_and_long(n, out.len()) => {
            simd::dispatch(Extremes { which, x, n, out });
        }
        Rows::Dense { x, n } => {
            for (row, out) in x.chunks_exact(n).zip(out) {
                *out = extreme_of(which, &extremes_of_pieces(op, which, row)?);
            }
        }
        // Several rows at a time.
        Rows::Walked { walk, first } if (1..=BLOCK / 2).contains(&x.width()) => {
            walk.several_rows(op, first, out, |_, x, out| {
                simd::dispatch(Extremes { which, x, n: walk.row.numel(), out });
            })?;
        }
        Rows::Walked { walk, first } => {
            let mut buffer = walk.buffer(op)?;
            // Shorter runs are sooner gathered.
            let in_place = walk.map.is_none() && walk.run() >= LONG_RUN;
            let pieces = x.width().div_ceil(if in_place { walk.run() } else { BLOCK });
            let mut extremes = memory::with_capacity(op, pieces)?;
            for (i, out) in out.iter_mut().enumerate() {
                extremes.clear();
                let add = |piece: &[T]| extremes.push(extreme_of(which, piece));
                if in_place {
                    walk.runs(first + i, add);
                } else {
                    walk.pieces(first + i, &mut buffer, add);
                }
                *out = extreme_of(which, &extremes);
            }
        }
        Rows::Slabs(part) => part.extreme_values(op, which, out)?,
    }
    Ok(())
}

/// Computes the index of the extremum of each row of a piece.
fn places_of<T: Float>(
    op: &'static str,
    which: Extreme,
    x: Rows<'_, T>,
    out: &mut [i64],
) -> Result<()> {
    match x {
        Rows::Dense { x, n } if !few_and_long(n, out.len()) => {
            simd::dispatch(Places { which, x, n, out });
        }
        Rows::Dense { x, n } => {
            for (row, out) in x.chunks_exact(n).zip(out) {
                let piece = place_of(which, &extremes_of_pieces(op, which, row)?) as usize;
                let start = piece * CHUNK;
                let place = place_of(which, &row[start..n.min(start + CHUNK)]);
                *out = start as i64 + place;
            }
        }
        Rows::Walked { walk, first } => {
            let mut buffer = walk.buffer(op)?;
            for (i, out) in out.iter_mut().enumerate() {
                *out = walked_extreme(which, walk, first + i, &mut buffer).0;
            }
        }
        Rows::Slabs(part) => {
            let mut values = memory::filled(op, out.len(), T::ZERO)?;
            part.extremes(op, which, &mut values, out)?;
        }
    }
    Ok(())
}

/// Returns the extremum of each [`CHUNK`] of a row.
fn extremes_of_pieces<T: Float>(op: &'static str, which: Extreme, row: &[T]) -> Result<Vec<T>> {
    let mut extremes = memory::filled(op, row.len().div_ceil(CHUNK), T::ZERO)?;
    chunks(row, CHUNK).zip(chunks_mut(&mut extremes, 1)).for_each(|(x, out)| {
        out[0] = extreme_of(which, x);
    });
    Ok(extremes)
}

/// Returns the extremum of one row that is walked in place, and its index.
fn walked_extreme<T: Float>(
    which: Extreme,
    walk: &Walk<'_, T>,
    row: usize,
    buffer: &mut Vec<T>,
) -> (i64, T) {
    let mut best: Option<(i64, T)> = None;
    let mut start = 0;
    walk.pieces(row, buffer, |piece| {
        let new = (start + place_of(which, piece), extreme_of(which, piece));
        best = match best {
            Some(best) if place_of(which, &[best.1, new.1]) == 0 => Some(best),
            _ => Some(new),
        };
        start += piece.len() as i64;
    });
    best.expect("a row has elements")
}

fn extreme_of<T: Float>(which: Extreme, x: &[T]) -> T {
    let mut out = [T::ZERO];
    simd::dispatch(Extremes { which, x, n: x.len(), out: &mut out });
    out[0]
}

fn place_of<T: Float>(which: Extreme, x: &[T]) -> i64 {
    let mut out = [0];
    simd::dispatch(Places { which, x, n: x.len(), out: &mut out });
    out[0]
}

fn product_of(factors: &[impl Float]) -> f64 {
    let mut product = [0.0];
    simd::dispatch(Products { x: factors, n: factors.len(), out: &mut product });
    product[0]
}

/// Returns the product of the products of blocks.
fn product_of_level(op: &'static str, mut level: Vec<f64>) -> Result<f64> {
    while level.len() > 1 {
        level = memory::collected(op, level.chunks(BLOCK).map(product_of))?;
    }
    Ok(level.first().copied().unwrap_or(1.0))
}
