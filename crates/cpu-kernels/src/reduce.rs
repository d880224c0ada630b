//! Reductions of rows and columns.
//!
//! # Determinism
//!
//! `Portable`: sums run in f64 over the contract's fixed tree in the logical order of their terms
//! (see [`samebits_numerics::reduce`]); extrema take the first of equal elements.

use rayon::prelude::*;
use samebits_numerics::extrema;
use samebits_numerics::reduce::{self, BLOCK};
use samebits_numerics::simd::{self, Kernel};

use crate::float::Float;
use crate::parallel::{self, CHUNK};

/// `out[i] = Σ x[i · n ..][..n]` in f64.
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`.
pub fn sum_rows<T: Float>(x: &[T], n: usize, out: &mut [f64]) {
    assert_eq!(x.len(), out.len() * n, "sum_rows: wrong number of elements");
    if n == 0 {
        return out.fill(0.0);
    }
    // Few long rows: threads share the blocks of each. Many short ones: they share the rows.
    if out.len() < 16 && n > CHUNK {
        for (row, out) in x.chunks_exact(n).zip(out) {
            let partials: Vec<f64> = row
                .par_chunks(4 * BLOCK)
                .flat_map_iter(|run| run.chunks(BLOCK).map(|block| simd::dispatch(Block(block))))
                .collect();
            *out = simd::dispatch(Combine(&partials));
        }
        return;
    }
    let rows_each = CHUNK.div_ceil(n);
    parallel::pieces_of(rows_each, out, |start, piece| {
        for (i, out) in piece.iter_mut().enumerate() {
            *out = simd::dispatch(Row(&x[(start + i) * n..][..n]));
        }
    });
}

/// `out[o · inner + i] = Σ_k x[(o · n + k) · inner + i]` in f64.
///
/// # Panics
///
/// If `x` does not hold `outer · n · inner` elements, or `out` not `outer · inner`.
pub fn sum_columns<T: Float>(x: &[T], n: usize, inner: usize, out: &mut [f64]) {
    let outer = out.len() / inner.max(1);
    assert_eq!(x.len(), outer * n * inner, "sum_columns: wrong number of elements");
    if n == 0 || inner == 0 {
        return out.fill(0.0);
    }
    for (slab, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(inner)) {
        if slab.len() <= CHUNK {
            simd::dispatch(Columns { slab, inner, out });
            continue;
        }
        let mut partials = vec![0.0; n.div_ceil(BLOCK) * inner];
        partials.par_chunks_mut(inner).zip(slab.par_chunks(BLOCK * inner)).for_each(
            |(partial, block)| {
                partial.par_chunks_mut(256).enumerate().for_each(|(i, out)| {
                    simd::dispatch(ColumnBlock { block, inner, first: i * 256, out });
                });
            },
        );
        simd::dispatch(CombineColumns { partials: &partials, inner, out });
    }
}

/// Which element an extremum takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    /// The largest; NaN counts as larger than all.
    Max,
    /// The smallest; NaN counts as smaller than all.
    Min,
}

/// The index and value of each row's extremum.
///
/// # Panics
///
/// If `n` is 0.
pub fn extreme_rows<T: Float>(which: Extreme, x: &[T], n: usize) -> Vec<(usize, T)> {
    assert!(n > 0, "extreme_rows: no elements to choose from");
    parallel::each(x.len() / n, x.len(), |row| {
        simd::dispatch(ExtremeRow { which, x: &x[row * n..][..n] })
    })
}

struct Block<'a, T>(&'a [T]);

impl<T: Float> Kernel for Block<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        reduce::block_partial(self.0, |x| x.into())
    }
}

struct Combine<'a>(&'a [f64]);

impl Kernel for Combine<'_> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        reduce::combine(self.0)
    }
}

struct Row<'a, T>(&'a [T]);

impl<T: Float> Kernel for Row<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        reduce::sum_of(self.0, |x| x.into())
    }
}

struct Columns<'a, T> {
    slab: &'a [T],
    inner: usize,
    out: &'a mut [f64],
}

impl<T: Float> Kernel for Columns<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        reduce::columns(self.slab, self.inner, |x| x.into(), self.out);
    }
}

struct ColumnBlock<'a, T> {
    block: &'a [T],
    inner: usize,
    first: usize,
    out: &'a mut [f64],
}

impl<T: Float> Kernel for ColumnBlock<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        reduce::column_partials(self.block, self.inner, self.first, |x| x.into(), self.out);
    }
}

struct CombineColumns<'a> {
    partials: &'a [f64],
    inner: usize,
    out: &'a mut [f64],
}

impl Kernel for CombineColumns<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        reduce::combine_columns(self.partials, self.inner, self.out);
    }
}

struct ExtremeRow<'a, T> {
    which: Extreme,
    x: &'a [T],
}

impl<T: Float> Kernel for ExtremeRow<'_, T> {
    type Output = (usize, T);
    #[inline(always)]
    fn run(self) -> (usize, T) {
        let found = match self.which {
            Extreme::Max => extrema::argmax(self.x),
            Extreme::Min => extrema::argmin(self.x),
        };
        let (index, value) = found.expect("a row has elements");
        (index, value.canonical())
    }
}
