//! Decompositions of matrices.
//!
//! # Determinism
//!
//! `Portable`. Elements are converted to f64, computed with basic operations in the order that each
//! function documents, and rounded once at the end. Dot products and sums of squares run over the
//! contract's fixed tree; `a -= f · v` is one fma per element. The matrices of a batch are
//! independent of each other.

mod qr;
mod svd;

pub use qr::{qr, qr_backward, qr_batched};
pub use svd::svd;

use samebits_numerics::reduce::{self, LANES};
use samebits_numerics::simd::{self, Kernel};

use crate::{Float, Result, memory};

/// A matrix by columns.
#[derive(Clone, Debug)]
struct Columns {
    rows: usize,
    count: usize,
    data: Vec<f64>,
}

impl Columns {
    fn zeros(op: &'static str, rows: usize, count: usize) -> Result<Columns> {
        let len = memory::volume(op, &[rows, count])?;
        Ok(Columns { rows, count, data: memory::zeroed(op, len)? })
    }

    /// Makes a matrix from rows of `count` elements.
    fn from_rows<T: Float>(
        op: &'static str,
        x: &[T],
        rows: usize,
        count: usize,
    ) -> Result<Columns> {
        let mut new = Columns::zeros(op, rows, count)?;
        for (i, row) in x.chunks_exact(count.max(1)).enumerate() {
            for (j, &x) in row.iter().enumerate() {
                new.data[j * rows + i] = x.into();
            }
        }
        Ok(new)
    }

    fn column(&self, j: usize) -> &[f64] {
        &self.data[j * self.rows..][..self.rows]
    }

    fn column_mut(&mut self, j: usize) -> &mut [f64] {
        &mut self.data[j * self.rows..][..self.rows]
    }

    /// Returns the columns before number `j`, and the others.
    fn split_at_mut(&mut self, j: usize) -> (&mut [f64], &mut [f64]) {
        self.data.split_at_mut(j * self.rows)
    }

    /// Writes rows of `count` elements.
    fn write<T: Float>(&self, op: &'static str, out: &mut [T]) -> Result<()> {
        if !self.data.is_empty() {
            let mut rounded = memory::filled(op, self.data.len(), T::ZERO)?;
            simd::dispatch(Round { x: &self.data, out: &mut rounded });
            T::transpose(&rounded, self.rows, (self.count, self.rows), out, self.count);
        }
        Ok(())
    }
}

struct Round<'a, T> {
    x: &'a [f64],
    out: &'a mut [T],
}

impl<T: Float> Kernel for Round<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (out, &x) in self.out.iter_mut().zip(self.x) {
            *out = T::from_f64(x).canonical();
        }
    }
}

/// Returns the power of two at or below the largest magnitude, or 1 if that is zero or not finite.
/// Division by it is exact and keeps squares in range.
#[inline(always)]
fn scale_of(x: &[f64]) -> f64 {
    scale_of_largest(largest(x))
}

/// Returns the power of two at or below a magnitude, or 1 if that is zero or not finite.
#[inline(always)]
fn scale_of_largest(largest: f64) -> f64 {
    if largest == 0.0 || !largest.is_finite() {
        return 1.0;
    }
    let exponent = largest.to_bits() & 0x7ff0_0000_0000_0000;
    f64::from_bits(exponent).clamp(f64::MIN_POSITIVE, f64::from_bits(0x7fd0_0000_0000_0000))
}

/// Returns the largest magnitude that is not NaN, or 0 if there is none.
#[inline(always)]
fn largest<T: Float>(x: &[T]) -> T {
    let (groups, rest) = x.as_chunks::<LANES>();
    let mut lanes = [T::ZERO; LANES];
    for group in groups {
        for l in 0..LANES {
            lanes[l] = if group[l].abs() > lanes[l] { group[l].abs() } else { lanes[l] };
        }
    }
    let mut largest = T::ZERO;
    for x in lanes.iter().chain(rest) {
        largest = if x.abs() > largest { x.abs() } else { largest };
    }
    largest
}

/// The magnitude up to which elements count as zeros: 2⁻⁴⁰⁰ of a matrix whose largest is about 1. Squares
/// of larger ones, and of their quotients, are in range.
const NEGLIGIBLE: f64 = f64::from_bits((1023 - 400) << 52);

/// Returns [`NEGLIGIBLE`] times the power of two at or below the largest magnitude of a matrix.
struct Negligible<'a, T>(&'a [T]);

impl<T: Float> Kernel for Negligible<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        NEGLIGIBLE * scale_of_largest(largest(self.0).into())
    }
}

/// Returns `x · y` over the tree.
#[inline(always)]
fn dot(x: &[f64], y: &[f64]) -> f64 {
    reduce::dot_of(x, y, |x, y| x * y)
}

/// Computes `y = fma(factor, x, y)`.
#[inline(always)]
fn add_scaled(factor: f64, x: &[f64], y: &mut [f64]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = factor.mul_add(x, *y);
    }
}
