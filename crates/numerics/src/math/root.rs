//! Roots.

use super::fma::NAN;

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
