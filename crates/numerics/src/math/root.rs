//! Roots.

use super::fma::{NAN, fma, nan_if};

/// The square root, as IEEE 754 defines it, with one NaN.
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
    // `nan_if` would not do: LLVM knows that the root of a negative number is some NaN, and
    // drops a choice between it and another NaN. It does not see through an integer test.
    let bits = x.sqrt().to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { NAN } else { bits })
}

/// 1 / sqrt(x).
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

/// 1 / sqrt(x) of a positive finite x, before the rounding to f32.
#[inline(always)]
pub(super) fn rsqrt_wide(x: f32) -> f64 {
    // The f32 value is within 2^-23; one step of third order leaves 2^-69 and the rounding of
    // the last operation. y * y is exact, and so is the fma but for its own rounding.
    let y = (1.0 / x.sqrt()) as f64;
    let e = fma(-(x as f64), y * y, 1.0);
    fma(y * e, fma(e, 0.375, 0.5), y)
}
