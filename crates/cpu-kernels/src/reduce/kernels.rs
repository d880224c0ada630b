//! Kernels that are compiled for each instruction set.

use samebits_numerics::extrema::{self, Ordered};
use samebits_numerics::math::f64 as math;
use samebits_numerics::reduce::{self, Accumulator, LANES};
use samebits_numerics::simd::{self, Kernel};

use crate::float::Float;

/// Arguments of a kernel: the sum of the terms of each row, which start with row `first`.
pub(super) struct Sums<'a, T, F> {
    pub(super) x: &'a [T],
    pub(super) n: usize,
    pub(super) first: usize,
    pub(super) term: &'a F,
    pub(super) out: &'a mut [f64],
}

impl<T: Float, F: Fn(usize) -> G, G: Fn(T) -> f64> Kernel for Sums<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        reduce::rows(self.x, self.n, |row| (self.term)(self.first + row), self.out);
    }
}

/// Arguments of a kernel: adds the terms of elements to a sum.
pub(super) struct Added<'a, T, F> {
    pub(super) x: &'a [T],
    pub(super) term: &'a F,
    pub(super) sum: &'a mut Accumulator,
}

impl<T: Float, F: Fn(T) -> f64> Kernel for Added<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        // Not the function itself: what is called through a reference is not always inlined.
        self.sum.push_slice(self.x, |x| (self.term)(x));
    }
}

/// Arguments of a kernel: the sum of the elements of each row.
struct Plain<'a, T> {
    x: &'a [T],
    n: usize,
    out: &'a mut [f64],
}

impl<T: Copy + Into<f64>> Kernel for Plain<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        reduce::rows(self.x, self.n, |_| |x: T| x.into(), self.out);
    }
}

/// Computes the sum of each row of `n` elements, inside [`fpenv::ieee`](samebits_numerics::fpenv::ieee).
///
/// Kernels of some thousand elements call this, instead of being compiled with sums of their own.
pub(crate) fn sums_of_rows<T: Copy + Into<f64>>(x: &[T], n: usize, out: &mut [f64]) {
    simd::dispatch_inside(Plain { x, n, out });
}

/// Finds the largest element of each row of `n` elements, as [`sums_of_rows`].
pub(crate) fn maxima_of_rows<T: Ordered>(x: &[T], n: usize, out: &mut [T]) {
    simd::dispatch_inside(Extremes { which: Extreme::Max, x, n, out });
}

pub(super) struct Products<'a, T> {
    pub(super) x: &'a [T],
    pub(super) n: usize,
    pub(super) out: &'a mut [f64],
}

impl<T: Copy + Into<f64>> Kernel for Products<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        reduce::product_rows(self.x, self.n, self.out);
    }
}

pub(super) struct Integers<'a, F> {
    pub(super) x: &'a [i64],
    pub(super) n: usize,
    pub(super) first: i64,
    pub(super) join: F,
    pub(super) out: &'a mut [i64],
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

/// Arguments of the last step of [`logsumexp_rows`].
pub(super) struct Logarithms<'a, T> {
    pub(super) largest: &'a [T],
    pub(super) sums: &'a mut [f64],
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

/// Arguments of a kernel: one power in f64.
pub(super) struct Power {
    pub(super) x: f64,
    pub(super) y: f64,
}

impl Kernel for Power {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        math::pow(self.x, self.y)
    }
}

/// Arguments of a kernel: the largest or smallest magnitude of a stretch of elements; NaN is
/// ignored.
pub(super) struct Most<'a, T> {
    pub(super) x: &'a [T],
    pub(super) smallest: bool,
}

impl<T: Float> Kernel for Most<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        if self.smallest {
            most_of(self.x, f64::INFINITY, |a, b| if b < a { b } else { a })
        } else {
            most_of(self.x, 0.0, |a, b| if b > a { b } else { a })
        }
    }
}

/// Joins the magnitudes in lanes, which is valid because `join` gives the same result in any order.
#[inline(always)]
fn most_of<T: Float>(x: &[T], first: f64, join: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [first; LANES];
    let (runs, rest) = x.as_chunks::<LANES>();
    for run in runs {
        for (lane, x) in lanes.iter_mut().zip(run) {
            *lane = join(*lane, x.abs().into());
        }
    }
    let rest = rest.iter().fold(first, |most, x| join(most, x.abs().into()));
    lanes.into_iter().fold(rest, join)
}

pub(super) struct Columns<'a, T> {
    pub(super) slab: &'a [T],
    pub(super) inner: usize,
    pub(super) out: &'a mut [f64],
}

impl<T: Float> Kernel for Columns<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        reduce::columns(self.slab, self.inner, |x| x.into(), self.out);
    }
}

pub(super) struct ColumnBlock<'a, T> {
    pub(super) block: &'a [T],
    pub(super) inner: usize,
    pub(super) first: usize,
    pub(super) out: &'a mut [f64],
}

impl<T: Float> Kernel for ColumnBlock<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        reduce::column_partials(self.block, self.inner, self.first, |x| x.into(), self.out);
    }
}

/// Arguments of a kernel: adds the rows of a block that share one lane of the tree to `out`.
pub(super) struct Lane<'a, T> {
    pub(super) block: &'a [T],
    pub(super) inner: usize,
    pub(super) lane: usize,
    pub(super) out: &'a mut [f64],
}

impl<T: Float> Kernel for Lane<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        /// The number of columns whose sums fit the first-level cache together with one row of
        /// them.
        const TILE: usize = 2048;
        for (tile, out) in self.out.chunks_mut(TILE).enumerate() {
            for row in self.block.chunks_exact(self.inner).skip(self.lane).step_by(LANES) {
                for (sum, &x) in out.iter_mut().zip(&row[tile * TILE..]) {
                    *sum += x.into();
                }
            }
        }
    }
}

/// The extremum to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    /// The largest element; NaN counts as larger than all.
    Max,
    /// The smallest element; NaN counts as smaller than all.
    Min,
}

pub(super) struct Extremes<'a, T> {
    pub(super) which: Extreme,
    pub(super) x: &'a [T],
    pub(super) n: usize,
    pub(super) out: &'a mut [T],
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

pub(super) struct Places<'a, T> {
    pub(super) which: Extreme,
    pub(super) x: &'a [T],
    pub(super) n: usize,
    pub(super) out: &'a mut [i64],
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
