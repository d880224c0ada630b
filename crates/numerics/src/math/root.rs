//! Roots.

#[cfg(not(feature = "std"))]
use crate::Ieee as _;

use super::fma::{NAN, ROUND, fma, horner, nan_if, scale, select};
use super::log::split;

/// Returns the square root as IEEE 754 defines it, with the canonical NaN.
///
/// # Determinism
///
/// Correctly rounded for every input. sqrt(-0) is -0.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::sqrt(9.0), 3.0);
/// assert_eq!(math::sqrt(-1.0).to_bits(), 0x7fc0_0000);
/// ```
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    // `nan_if` would not work: LLVM knows that the root of a negative number is some NaN, and
    // removes a choice between it and another NaN. It does not see through an integer test.
    let bits = x.sqrt().to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { NAN } else { bits })
}

/// Returns 1 / sqrt(x).
///
/// # Determinism
///
/// Correctly rounded for every input. Infinity with the sign of `x` at both zeros; NaN below.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::rsqrt(4.0), 0.5);
/// assert_eq!(math::rsqrt(0.0), f32::INFINITY);
/// assert_eq!(math::rsqrt(f32::INFINITY), 0.0);
/// ```
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    let y = rsqrt_wide(x) as f32;
    let y = if x == f32::INFINITY { 0.0 } else { y };
    let y = if x == 0.0 { f32::INFINITY.copysign(x) } else { y };
    nan_if(x.is_nan() | (x < 0.0), y)
}

/// Returns 1 / sqrt(x) of a positive finite x, before rounding to f32.
#[inline(always)]
pub(super) fn rsqrt_wide(x: f32) -> f64 {
    // The f32 value is within 2^-23. One step of third order leaves 2^-69 plus the rounding of the
    // last operation. y * y is exact, and so is the fma except for its own rounding.
    let y = (1.0 / x.sqrt()) as f64;
    let e = fma(-(x as f64), y * y, 1.0);
    fma(y * e, fma(e, 0.375, 0.5), y)
}

/// Returns the cube root.
///
/// # Determinism
///
/// Correctly rounded for every input.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::cbrt(-27.0), -3.0);
/// ```
#[inline(always)]
pub fn cbrt(x: f32) -> f32 {
    let y = cbrt_wide(x as f64) as f32;
    // Zeros and infinities are their own roots.
    let y = if (x == 0.0) | (x.abs() == f32::INFINITY) { x } else { y };
    nan_if(x.is_nan(), y)
}

/// Returns the cube root of a finite f32 other than 0, before rounding to f32.
#[inline(always)]
pub(super) fn cbrt_wide(x: f64) -> f64 {
    // |x| = 2^(3q + r) m with r = -1, 0 or 1.
    let (k, m) = split(x.abs());
    let rounded = fma(k, 1.0 / 3.0, ROUND);
    let r = fma(-3.0, rounded - ROUND, k);
    let (power, root) = (
        select(r == 0.0, 1.0, select(r > 0.0, 2.0, 0.5)),
        select(r == 0.0, 1.0, select(r > 0.0, 1.2599210498948732, 0.7937005259840998)),
    );
    let z = m * power;
    // A polynomial within 2^-22, then one step of third order.
    let y = root
        * horner!(m - 1.0;
            0.9999998765986688,
            0.3333356794190809,
            -0.11108612975018313,
            0.06156229389082216,
            -0.041816519125028706,
            0.033460380960167194,
            -0.020381579057971177
        );
    let h = fma(-(y * y), y, z) / z;
    let y = fma(y * h, fma(h, 2.0 / 9.0, 1.0 / 3.0), y);
    scale(y, rounded).copysign(x)
}
