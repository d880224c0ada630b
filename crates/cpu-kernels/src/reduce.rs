//! Reductions of rows and columns.
//!
//! # Determinism
//!
//! `Portable`: sums run in f64 over the contract's fixed tree in the logical order of their terms
//! (see [`samebits_numerics::reduce`]); extrema take the first of equal elements.

use rayon::prelude::*;
use samebits_numerics::extrema;
use samebits_numerics::fpenv;
use samebits_numerics::math::f64 as math;
use samebits_numerics::reduce::{self, BLOCK, LANES};
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::ops::ReduceKind;

use crate::float::Float;
use crate::parallel::{self, CHUNK};

/// `out[i] = Σ x[i · n ..][..n]` in f64.
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`.
pub fn sum_rows<T: Float>(x: &[T], n: usize, out: &mut [f64]) {
    sum_rows_of(x, n, |_| |x: T| x.into(), out);
}

/// `out[i] = Σ term(i)(x[i · n ..][..n])` in f64.
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`.
pub fn sum_rows_of<T: Float, F: Fn(T) -> f64 + Copy + Sync>(
    x: &[T],
    n: usize,
    term: impl Fn(usize) -> F + Sync,
    out: &mut [f64],
) {
    assert_eq!(x.len(), out.len() * n, "sum_rows: wrong number of elements");
    if n == 0 {
        return out.fill(0.0);
    }
    // Few long rows: threads share the blocks of each. Many short ones: they share the rows.
    if out.len() < 16 && n > CHUNK {
        for (i, (row, out)) in x.chunks_exact(n).zip(out).enumerate() {
            let term = term(i);
            let partials: Vec<f64> = row
                .par_chunks(4 * BLOCK)
                .flat_map_iter(|run| {
                    run.chunks(BLOCK)
                        .map(|block| fpenv::ieee(|| simd::dispatch(Block(block, term))))
                })
                .collect();
            *out = simd::dispatch(Combine(&partials));
        }
        return;
    }
    let rows_each = CHUNK.div_ceil(n);
    parallel::pieces_of(rows_each, out, |start, piece| {
        for (i, out) in piece.iter_mut().enumerate() {
            *out = simd::dispatch(Row(&x[(start + i) * n..][..n], term(start + i)));
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
/// place of `+` and 1 in that of 0.
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`.
pub fn product_rows<T: Float>(x: &[T], n: usize, out: &mut [f64]) {
    assert_eq!(x.len(), out.len() * n, "product_rows: wrong number of elements");
    let products = parallel::each(out.len(), x.len(), |row| {
        let row = &x[row * n..][..n];
        if row.len() <= BLOCK {
            return simd::dispatch(Product(row));
        }
        let mut level: Vec<f64> = row
            .par_chunks(BLOCK)
            .map(|block| fpenv::ieee(|| simd::dispatch(Product(block))))
            .collect();
        while level.len() > 1 {
            level = level.chunks(BLOCK).map(|block| simd::dispatch(Product(block))).collect();
        }
        level[0]
    });
    out.copy_from_slice(&products);
}

/// The mean and the variance of each row: the sum of the squared differences to the f64 mean,
/// divided by `n − correction` (or 0 if that is negative), all in f64.
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`.
pub fn variance_rows<T: Float>(x: &[T], n: usize, correction: f64, out: &mut [[f64; 2]]) {
    let mut means = vec![0.0; out.len()];
    sum_rows(x, n, &mut means);
    means.iter_mut().for_each(|mean| *mean /= n as f64);
    let mut squares = vec![0.0; out.len()];
    let term = |row: usize| {
        let mean = means[row];
        move |x: T| {
            let deviation = x.into() - mean;
            deviation * deviation
        }
    };
    sum_rows_of(x, n, term, &mut squares);
    let divisor = (n as f64 - correction).max(0.0);
    for (out, (mean, square)) in out.iter_mut().zip(means.into_iter().zip(squares)) {
        *out = [mean, square / divisor];
    }
}

/// The p-norm of each row in f64; see [`Norm`](samebits_tensor_core::ops::Norm).
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`, or `p` is infinite and `n` is 0.
pub fn norm_rows<T: Float>(x: &[T], n: usize, p: f64, out: &mut [f64]) {
    let magnitude = |x: T| -> f64 { x.abs().into() };
    if p.is_infinite() {
        let extremes = parallel::each(out.len(), x.len(), |row| {
            let mut magnitudes = x[row * n..][..n].iter().map(|&x| magnitude(x));
            let first = magnitudes.next().expect("a row has elements");
            magnitudes.fold(first, if p > 0.0 { extrema::max2 } else { extrema::min2 })
        });
        out.copy_from_slice(&extremes);
    } else if p == 0.0 {
        sum_rows_of(x, n, |_| |x: T| if x == T::ZERO { 0.0 } else { 1.0 }, out);
    } else if p == 1.0 {
        sum_rows_of(x, n, |_| magnitude, out);
    } else if p == 2.0 {
        let square = |x: T| magnitude(x) * magnitude(x);
        sum_rows_of(x, n, |_| square, out);
        out.iter_mut().for_each(|sum| *sum = math::sqrt(*sum));
    } else {
        sum_rows_of(x, n, |_| |x: T| math::pow(magnitude(x), p), out);
        out.iter_mut().for_each(|sum| *sum = math::pow(*sum, 1.0 / p));
    }
}

/// The logarithm of the sum of the exponentials of each row in f64: the largest element plus the
/// logarithm of the sum of the exponentials of the differences to it. If the largest is infinite
/// or NaN, it is the result; that of no elements is minus infinity.
///
/// # Panics
///
/// If `x` does not hold `out.len()` rows of `n`.
pub fn logsumexp_rows<T: Float>(x: &[T], n: usize, out: &mut [f64]) {
    if n == 0 {
        return out.fill(f64::NEG_INFINITY);
    }
    let largest: Vec<f64> =
        extreme_rows(Extreme::Max, x, n).into_iter().map(|(_, x)| x.into()).collect();
    let term = |row: usize| {
        let largest = largest[row];
        move |x: T| math::exp(x.into() - largest)
    };
    sum_rows_of(x, n, term, out);
    for (out, &largest) in out.iter_mut().zip(&largest) {
        *out = if largest.is_finite() { largest + math::log(*out) } else { largest };
    }
}

/// The sum or the product of each row of integers, which wrap around, or its largest or smallest
/// element.
///
/// # Panics
///
/// If `x` does not hold `rows` rows of `n`, an extremum is wanted of no elements, or a mean.
pub fn integer_rows(kind: ReduceKind, x: &[i64], n: usize, rows: usize) -> Vec<i64> {
    assert_eq!(x.len(), rows * n, "integer_rows: wrong number of elements");
    let (first, join): (Option<i64>, fn(i64, i64) -> i64) = match kind {
        ReduceKind::Sum => (Some(0), i64::wrapping_add),
        ReduceKind::Prod => (Some(1), i64::wrapping_mul),
        ReduceKind::Amax => (None, i64::max),
        ReduceKind::Amin => (None, i64::min),
        kind => panic!("integer_rows: {kind:?} of integers"),
    };
    // Each of these is the same in any order.
    parallel::each(rows, x.len(), |row| {
        let row = x[row * n..][..n].par_iter().with_min_len(CHUNK).copied().reduce_with(join);
        row.or(first).expect("a row has elements")
    })
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

struct Row<'a, T, F>(&'a [T], F);

impl<T: Float, F: Fn(T) -> f64> Kernel for Row<'_, T, F> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        reduce::sum_of(self.0, self.1)
    }
}

struct Product<'a, T>(&'a [T]);

impl<T: Copy + Into<f64>> Kernel for Product<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        let mut lanes = [1.0; LANES];
        for group in self.0.chunks(LANES) {
            for (lane, &x) in lanes.iter_mut().zip(group) {
                *lane *= x.into();
            }
        }
        for half in [16, 8, 4, 2, 1] {
            let (low, high) = lanes.split_at_mut(half);
            low.iter_mut().zip(high).for_each(|(low, high)| *low *= *high);
        }
        lanes[0]
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
