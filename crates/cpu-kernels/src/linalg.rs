//! Decompositions of matrices.
//!
//! # Determinism
//!
//! `Portable`. Elements are converted to f64, everything is computed there by basic operations
//! in the order that each function states, and results are rounded once. Dot products and sums
//! of squares run over the contract's fixed tree; `a -= f · v` is one fma per element. Matrices
//! of a batch are on their own.

mod qr;
mod svd;

pub use qr::{qr, qr_backward};
pub use svd::svd;

use samebits_numerics::reduce;
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

    fn identity(op: &'static str, rows: usize, count: usize) -> Result<Columns> {
        let mut new = Columns::zeros(op, rows, count)?;
        for i in 0..rows.min(count) {
            new.column_mut(i)[i] = 1.0;
        }
        Ok(new)
    }

    /// From rows of `count` elements.
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

    /// Two different columns.
    fn pair_mut(&mut self, p: usize, q: usize) -> (&mut [f64], &mut [f64]) {
        debug_assert!(p < q, "columns in ascending order");
        let (left, right) = self.data.split_at_mut(q * self.rows);
        (&mut left[p * self.rows..][..self.rows], &mut right[..self.rows])
    }

    /// Writes rows of `count` elements.
    fn write<T: Float>(&self, out: &mut [T]) {
        for (i, row) in out.chunks_exact_mut(self.count.max(1)).enumerate() {
            for (j, out) in row.iter_mut().enumerate() {
                *out = T::from_f64(self.data[j * self.rows + i]).canonical();
            }
        }
    }
}

/// The power of two at or below the largest magnitude, or 1 if that is zero or not finite:
/// dividing by it is exact and keeps squares within range.
fn scale_of(x: &[f64]) -> f64 {
    let largest = x.iter().fold(0.0f64, |max, x| if x.abs() > max { x.abs() } else { max });
    if largest == 0.0 || !largest.is_finite() {
        return 1.0;
    }
    let exponent = largest.to_bits() & 0x7ff0_0000_0000_0000;
    f64::from_bits(exponent).clamp(f64::MIN_POSITIVE, f64::from_bits(0x7fd0_0000_0000_0000))
}

/// `x · y` over the tree.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    simd::dispatch(Dot(x, y))
}

struct Dot<'a>(&'a [f64], &'a [f64]);

impl Kernel for Dot<'_> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        reduce::dot_of(self.0, self.1, |x, y| x * y)
    }
}

/// `y = fma(factor, x, y)`
fn add_scaled(factor: f64, x: &[f64], y: &mut [f64]) {
    simd::dispatch(AddScaled(factor, x, y));
}

struct AddScaled<'a>(f64, &'a [f64], &'a mut [f64]);

impl Kernel for AddScaled<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (y, &x) in self.2.iter_mut().zip(self.1) {
            *y = self.0.mul_add(x, *y);
        }
    }
}
