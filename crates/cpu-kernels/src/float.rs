//! The two element types of the floating-point kernels.

use samebits_numerics::extrema::Ordered;
use samebits_numerics::transpose::{transpose_f32, transpose_f64};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// An element type of floating-point kernels: f32 or f64.
pub trait Float:
    Ordered
    + bytemuck::Pod
    + Into<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Send
    + Sync
    + std::fmt::Debug
    + sealed::Sealed
    + 'static
{
    /// True for f64.
    #[doc(hidden)]
    const WIDE: bool;
    /// The number `+0`.
    const ZERO: Self;
    /// The number `1`.
    const ONE: Self;
    /// The bound of the exponents: magnitudes other than 0 are between 2 to the power of minus this
    /// and 2 to the power of this.
    #[doc(hidden)]
    const EXPONENT: u32;
    /// The magnitude from which a logarithm of a sum of exponentials equals the largest exponent.
    #[doc(hidden)]
    const LARGE_LOG: f64;

    /// Returns `self * a + b`, rounded once.
    #[must_use]
    fn mul_add(self, a: Self, b: Self) -> Self;

    /// Returns `x`, rounded to nearest.
    #[must_use]
    fn from_f64(x: f64) -> Self;

    /// Returns the square root, rounded to nearest.
    #[must_use]
    fn sqrt(self) -> Self;

    /// Returns the largest integer not above `self`.
    #[must_use]
    fn floor(self) -> Self;

    /// Returns the magnitude.
    #[must_use]
    fn abs(self) -> Self;

    /// Returns `n`, rounded to nearest.
    #[inline(always)]
    #[must_use]
    fn from_usize(n: usize) -> Self {
        // f64 is exact up to 2^53, beyond any size in memory.
        Self::from_f64(n as f64)
    }

    /// Sets `to[column * width + row] = from[row * stride + column]` for `rows` rows of `columns`.
    #[doc(hidden)]
    fn transpose(
        from: &[Self],
        stride: usize,
        rows_and_columns: (usize, usize),
        to: &mut [Self],
        width: usize,
    );
}

impl Float for f32 {
    const WIDE: bool = false;
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const EXPONENT: u32 = 149;
    const LARGE_LOG: f64 = (1u64 << 30) as f64;

    #[inline(always)]
    fn mul_add(self, a: f32, b: f32) -> f32 {
        f32::mul_add(self, a, b)
    }

    #[inline(always)]
    fn from_f64(x: f64) -> f32 {
        x as f32
    }

    #[inline(always)]
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }

    #[inline(always)]
    fn floor(self) -> f32 {
        f32::floor(self)
    }

    #[inline(always)]
    fn abs(self) -> f32 {
        f32::abs(self)
    }

    fn transpose(
        from: &[f32],
        stride: usize,
        rows_and_columns: (usize, usize),
        to: &mut [f32],
        width: usize,
    ) {
        transpose_f32(from, stride, rows_and_columns, to, width, false);
    }
}

impl Float for f64 {
    const WIDE: bool = true;
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const EXPONENT: u32 = 1074;
    const LARGE_LOG: f64 = (1u64 << 59) as f64;

    #[inline(always)]
    fn mul_add(self, a: f64, b: f64) -> f64 {
        f64::mul_add(self, a, b)
    }

    #[inline(always)]
    fn from_f64(x: f64) -> f64 {
        x
    }

    #[inline(always)]
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }

    #[inline(always)]
    fn floor(self) -> f64 {
        f64::floor(self)
    }

    #[inline(always)]
    fn abs(self) -> f64 {
        f64::abs(self)
    }

    fn transpose(
        from: &[f64],
        stride: usize,
        rows_and_columns: (usize, usize),
        to: &mut [f64],
        width: usize,
    ) {
        transpose_f64(from, stride, rows_and_columns, to, width, false);
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}
