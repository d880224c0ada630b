//! Reductions of rows and columns.
//!
//! # Determinism
//!
//! `Portable`: sums run in f64 over the contract's fixed tree in the logical order of their terms
//! (see [`samebits_numerics::reduce`]); extrema take the first of equal elements.

use rayon::prelude::*;
use samebits_numerics::extrema::{self, Ordered};
use samebits_numerics::fpenv;
use samebits_numerics::math::f64 as math;
use samebits_numerics::reduce::{self, BLOCK};
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::ops::ReduceKind;

use crate::float::Float;
use crate::parallel::{self, CHUNK};

/// `out[i] = Σ x[i · n ..][..n]`, rounded once.
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`.
pub fn sum_rows<T: Float>(x: &[T], n: usize, out: &mut [T]) {
    each_row(x, n, out, |x, sums| sums_of(x, n, |_| |x: T| x.into(), sums));
}

/// The mean of each row: the sum divided by `n` in f64, rounded once.
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`.
pub fn mean_rows<T: Float>(x: &[T], n: usize, out: &mut [T]) {
    each_row(x, n, out, |x, means| means_of(x, n, means));
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
                    fpenv::ieee(|| {
                        simd::dispatch(ColumnBlock { block, inner, first: i * 256, out });
                    });
                });
            },
        );
        simd::dispatch(CombineColumns { partials: &partials, inner, out });
    }
}

/// The product of each row in f64, over the tree of [`samebits_numerics::reduce`] with `*` in the
/// place of `+` and 1 in that of 0, rounded once.
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`.
pub fn product_rows<T: Float>(x: &[T], n: usize, out: &mut [T]) {
    each_row(x, n, out, |x, products| {
        if n <= BLOCK {
            return simd::dispatch(Products { x, n, out: products });
        }
        for (row, out) in x.chunks_exact(n).zip(products) {
            let mut level = vec![0.0; row.len().div_ceil(BLOCK)];
            let blocks = row.par_chunks(BLOCK).zip(&mut level);
            blocks.for_each(|(block, out)| fpenv::ieee(|| *out = product(block)));
            while level.len() > 1 {
                level = level.chunks(BLOCK).map(product).collect();
            }
            *out = level[0];
        }
    });
}

/// The variance and the mean of each row, each rounded once: the sum of the squared differences
/// to the f64 mean, divided by `n − correction` (or 0 if that is negative), all in f64.
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`.
pub fn variance_rows<T: Float>(x: &[T], n: usize, correction: f64, out: &mut [[T; 2]]) {
    let divisor = (n as f64 - correction).max(0.0);
    pieces_of_rows(x, n, out, |x, out| {
        let mut means = vec![0.0; out.len()];
        means_of(x, n, &mut means);
        let mut squares = vec![0.0; out.len()];
        let term = |row: usize| {
            let mean = means[row];
            move |x: T| {
                let deviation = x.into() - mean;
                deviation * deviation
            }
        };
        sums_of(x, n, term, &mut squares);
        for (out, (mean, square)) in out.iter_mut().zip(means.into_iter().zip(squares)) {
            *out = [square / divisor, mean].map(|x| T::from_f64(x).canonical());
        }
    });
}

/// The p-norm of each row in f64, rounded once; see
/// [`Norm`](samebits_tensor_core::ops::Norm).
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`, or `p` is infinite and `n` is 0.
pub fn norm_rows<T: Float>(x: &[T], n: usize, p: f64, out: &mut [T]) {
    let magnitude = |x: T| -> f64 { x.abs().into() };
    if p.is_infinite() {
        let which = if p > 0.0 { Extreme::Max } else { Extreme::Min };
        pieces_of_rows(x, n, out, |x, out| {
            let magnitudes: Vec<T> = x.iter().map(|x| x.abs()).collect();
            extremes_of(which, &magnitudes, n, out);
        });
    } else if p == 0.0 {
        let term = |x: T| if x == T::ZERO { 0.0 } else { 1.0 };
        each_row(x, n, out, |x, norms| sums_of(x, n, |_| term, norms));
    } else if p == 1.0 {
        each_row(x, n, out, |x, norms| sums_of(x, n, |_| magnitude, norms));
    } else if p == 2.0 {
        each_row(x, n, out, |x, norms| {
            sums_of(x, n, |_| |x: T| magnitude(x) * magnitude(x), norms);
            norms.iter_mut().for_each(|sum| *sum = math::sqrt(*sum));
        });
    } else {
        each_row(x, n, out, |x, norms| {
            sums_of(x, n, |_| |x: T| math::pow(magnitude(x), p), norms);
            norms.iter_mut().for_each(|sum| *sum = math::pow(*sum, 1.0 / p));
        });
    }
}

/// The logarithm of the sum of the exponentials of each row, rounded once. In f64: the largest
/// element plus the logarithm of the sum of the exponentials of the differences to it. If the
/// largest is infinite or NaN, it is the result; that of no elements is minus infinity.
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`.
pub fn logsumexp_rows<T: Float>(x: &[T], n: usize, out: &mut [T]) {
    each_row(x, n, out, |x, out| {
        if n == 0 {
            return out.fill(f64::NEG_INFINITY);
        }
        let mut largest = vec![T::ZERO; out.len()];
        extremes_of(Extreme::Max, x, n, &mut largest);
        let term = |row: usize| {
            let largest: f64 = largest[row].into();
            move |x: T| math::exp(x.into() - largest)
        };
        sums_of(x, n, term, out);
        simd::dispatch(Logarithms { largest: &largest, sums: out });
    });
}

/// The sum or the product of each row of integers, which wrap around, or its largest or smallest
/// element.
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`, an extremum is wanted of no elements, or a mean.
pub fn integer_rows(kind: ReduceKind, x: &[i64], n: usize, out: &mut [i64]) {
    // Each of these is the same in any order.
    match kind {
        ReduceKind::Sum => integers(x, n, out, 0, i64::wrapping_add),
        ReduceKind::Prod => integers(x, n, out, 1, i64::wrapping_mul),
        _ if n == 0 && !out.is_empty() => panic!("integer_rows: no elements to choose from"),
        ReduceKind::Amax => integers(x, n, out, i64::MIN, i64::max),
        ReduceKind::Amin => integers(x, n, out, i64::MAX, i64::min),
        kind => panic!("integer_rows: {kind:?} of integers"),
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

/// The value of each row's extremum.
///
/// # Panics
///
/// If `n` is 0 or `x` does not hold `out.len()` rows of `n`.
pub fn extreme_rows<T: Float>(which: Extreme, x: &[T], n: usize, out: &mut [T]) {
    pieces_of_rows(x, n, out, |x, out| {
        extremes_of(which, x, n, out);
    });
}

/// The index of each row's extremum.
///
/// # Panics
///
/// As [`extreme_rows`].
pub fn arg_extreme_rows<T: Float>(which: Extreme, x: &[T], n: usize, out: &mut [i64]) {
    pieces_of_rows(x, n, out, |x, out| {
        places_of(which, x, n, out);
    });
}

/// Calls `f(x, out)` for pieces of rows, and rounds what it puts into `out`.
fn each_row<T: Float>(x: &[T], n: usize, out: &mut [T], f: impl Fn(&[T], &mut [f64]) + Sync) {
    pieces_of_rows(x, n, out, |x, out| {
        let mut wide = vec![0.0; out.len()];
        f(x, &mut wide);
        for (out, wide) in out.iter_mut().zip(wide) {
            *out = T::from_f64(wide).canonical();
        }
    });
}

/// Calls `f(x, out)` for pieces of whole rows, so few that several passes over them read memory
/// once. Few long rows are one piece: threads share the blocks of each.
fn pieces_of_rows<T: Sync, R: Send>(
    x: &[T],
    n: usize,
    out: &mut [R],
    f: impl Fn(&[T], &mut [R]) + Sync,
) {
    assert_eq!(x.len(), out.len() * n, "rows: wrong number of elements");
    let size = if few_and_long(n, out.len()) { out.len() } else { CHUNK.div_ceil(n.max(1)) };
    parallel::pieces_of(size, out, |start, piece| f(&x[start * n..][..piece.len() * n], piece));
}

fn few_and_long(n: usize, rows: usize) -> bool {
    rows < 16 && n > CHUNK
}

/// `out[i] = Σ term(i)(x[i · n ..][..n])` in f64, of one piece of rows.
fn sums_of<T: Float, F: Fn(T) -> f64 + Copy + Sync>(
    x: &[T],
    n: usize,
    term: impl Fn(usize) -> F + Sync,
    out: &mut [f64],
) {
    if !few_and_long(n, out.len()) {
        return simd::dispatch(Sums { x, n, term, out });
    }
    for (i, (row, out)) in x.chunks_exact(n).zip(out).enumerate() {
        let term = term(i);
        let partials: Vec<f64> = row
            .par_chunks(4 * BLOCK)
            .flat_map_iter(|run| {
                run.chunks(BLOCK).map(|block| fpenv::ieee(|| simd::dispatch(Block(block, term))))
            })
            .collect();
        *out = simd::dispatch(Combine(&partials));
    }
}

/// The mean of each of a piece of rows.
fn means_of<T: Float>(x: &[T], n: usize, out: &mut [f64]) {
    sums_of(x, n, |_| |x: T| x.into(), out);
    out.iter_mut().for_each(|sum| *sum /= n as f64);
}

/// The extremum of each of a piece of rows.
fn extremes_of<T: Float>(which: Extreme, x: &[T], n: usize, out: &mut [T]) {
    if !few_and_long(n, out.len()) {
        return simd::dispatch(Extremes { which, x, n, out });
    }
    for (row, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(1)) {
        let of_pieces = extremes_of_pieces(which, row);
        simd::dispatch(Extremes { which, x: &of_pieces, n: of_pieces.len(), out });
    }
}

/// The index of the extremum of each of a piece of rows.
fn places_of<T: Float>(which: Extreme, x: &[T], n: usize, out: &mut [i64]) {
    if !few_and_long(n, out.len()) {
        return simd::dispatch(Places { which, x, n, out });
    }
    for (row, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(1)) {
        let of_pieces = extremes_of_pieces(which, row);
        simd::dispatch(Places { which, x: &of_pieces, n: of_pieces.len(), out });
        let start = out[0] as usize * CHUNK;
        let piece = &row[start..row.len().min(start + CHUNK)];
        simd::dispatch(Places { which, x: piece, n: piece.len(), out });
        out[0] += start as i64;
    }
}

/// The extremum of each [`CHUNK`] of a row.
fn extremes_of_pieces<T: Float>(which: Extreme, row: &[T]) -> Vec<T> {
    let mut extremes = vec![T::ZERO; row.len().div_ceil(CHUNK)];
    row.par_chunks(CHUNK).zip(extremes.par_chunks_mut(1)).for_each(|(x, out)| {
        fpenv::ieee(|| simd::dispatch(Extremes { which, x, n: x.len(), out }));
    });
    extremes
}

fn product(factors: &[impl Float]) -> f64 {
    let mut product = [0.0];
    simd::dispatch(Products { x: factors, n: factors.len(), out: &mut product });
    product[0]
}

fn integers(
    x: &[i64],
    n: usize,
    out: &mut [i64],
    first: i64,
    join: impl Fn(i64, i64) -> i64 + Copy + Send + Sync,
) {
    pieces_of_rows(x, n, out, |x, out| {
        if !few_and_long(n, out.len()) {
            return simd::dispatch(Integers { x, n, first, join, out });
        }
        for (row, out) in x.chunks_exact(n).zip(out) {
            *out = row
                .par_chunks(CHUNK)
                .map(|x| {
                    let mut joined = [first];
                    simd::dispatch(Integers { x, n: x.len(), first, join, out: &mut joined });
                    joined[0]
                })
                .reduce(|| first, join);
        }
    });
}

struct Block<'a, T, F>(&'a [T], F);

impl<T: Float, F: Fn(T) -> f64> Kernel for Block<'_, T, F> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        reduce::block_partial(self.0, self.1)
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

struct Sums<'a, T, F> {
    x: &'a [T],
    n: usize,
    term: F,
    out: &'a mut [f64],
}

impl<T: Float, F: Fn(usize) -> G, G: Fn(T) -> f64> Kernel for Sums<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        reduce::rows(self.x, self.n, self.term, self.out);
    }
}

struct Products<'a, T> {
    x: &'a [T],
    n: usize,
    out: &'a mut [f64],
}

impl<T: Copy + Into<f64>> Kernel for Products<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        reduce::product_rows(self.x, self.n, self.out);
    }
}

struct Integers<'a, F> {
    x: &'a [i64],
    n: usize,
    first: i64,
    join: F,
    out: &'a mut [i64],
}

impl<F: Fn(i64, i64) -> i64> Kernel for Integers<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        if self.n == 0 {
            return self.out.fill(self.first);
        }
        for (row, out) in self.x.chunks_exact(self.n).zip(self.out) {
            *out = row.iter().fold(self.first, |joined, &x| (self.join)(joined, x));
        }
    }
}

/// The last step of [`logsumexp_rows`].
struct Logarithms<'a, T> {
    largest: &'a [T],
    sums: &'a mut [f64],
}

impl<T: Float> Kernel for Logarithms<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (sum, &largest) in self.sums.iter_mut().zip(self.largest) {
            let largest = largest.into();
            let result = largest + math::log(*sum);
            *sum = if largest.is_finite() { result } else { largest };
        }
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

struct Extremes<'a, T> {
    which: Extreme,
    x: &'a [T],
    n: usize,
    out: &'a mut [T],
}

impl<T: Ordered> Kernel for Extremes<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        match self.which {
            Extreme::Max => extrema::max_rows(self.x, self.n, self.out),
            Extreme::Min => extrema::min_rows(self.x, self.n, self.out),
        }
    }
}

struct Places<'a, T> {
    which: Extreme,
    x: &'a [T],
    n: usize,
    out: &'a mut [i64],
}

impl<T: Ordered> Kernel for Places<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        match self.which {
            Extreme::Max => extrema::argmax_rows(self.x, self.n, self.out),
            Extreme::Min => extrema::argmin_rows(self.x, self.n, self.out),
        }
    }
}
