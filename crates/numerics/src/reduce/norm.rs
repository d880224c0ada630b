//! Norms whose powers leave the range of f64.

use crate::math::f64::pow;

/// The exponent of the range in which powers need no scale: from 2^-900 to 2^900, so that a sum of
/// up to 2^64 of them is in the range of f64 too.
const REACH: f64 = 900.0;

/// Returns true if `p`-th powers of numbers of a type may lie outside 2^-900 to 2^900. The
/// magnitudes of the type are between 2^-`exponent` and 2^`exponent`: 149 for f32 and 1074 for f64.
///
/// # Examples
///
/// ```
/// use samebits_numerics::reduce::norm_leaves_range;
///
/// assert!(!norm_leaves_range(2.0, 149));
/// assert!(norm_leaves_range(2.0, 1074));
/// ```
#[must_use]
pub fn norm_leaves_range(p: f64, exponent: u32) -> bool {
    p.abs() * f64::from(exponent) > REACH
}

/// Returns true if squares with this sum, of at most 2^64 numbers, have the [`norm_scale`] 1.
///
/// # Examples
///
/// ```
/// use samebits_numerics::reduce::needs_no_scale;
///
/// assert!(needs_no_scale(2.0));
/// assert!(!needs_no_scale(0.0) && !needs_no_scale(f64::INFINITY));
/// ```
#[must_use]
pub fn needs_no_scale(sum_of_squares: f64) -> bool {
    // The largest square is at most the sum, and at least a 2^64th of it; and some for rounding.
    let power = |exponent: f64| f64::from_bits(((1023.0 + exponent) as u64) << 52);
    (power(-REACH + 65.0)..=power(REACH - 1.0)).contains(&sum_of_squares)
}

/// Returns the scale of a norm: magnitudes are divided by it before their `p`-th powers are added,
/// and the root of the sum is multiplied with it. `most` is the dominant magnitude: the largest, or
/// the smallest for a negative `p`.
///
/// The scale is 1 if the power of `most` lies between 2^-900 and 2^900, or if `most` is 0 or not
/// finite. Otherwise it is `most`; for squares it is the power of two below `most`, or 2^-1022 if
/// that is larger, so that quotients are exact.
///
/// # Examples
///
/// ```
/// use samebits_numerics::reduce::norm_scale;
///
/// assert_eq!(norm_scale(3.0, 2.0), 1.0);
/// assert_eq!(norm_scale(3e200, 3.0), 3e200);
/// ```
#[must_use]
pub fn norm_scale(most: f64, p: f64) -> f64 {
    const MANTISSA: u64 = (1 << (f64::MANTISSA_DIGITS - 1)) - 1;
    let power = if p == 2.0 { most * most } else { pow(most, p) };
    let reach = f64::from_bits((1023 + REACH as u64) << (f64::MANTISSA_DIGITS - 1));
    if (1.0 / reach..=reach).contains(&power) || most == 0.0 || !most.is_finite() {
        1.0
    } else if p == 2.0 {
        f64::from_bits(most.to_bits() & !MANTISSA).max(f64::MIN_POSITIVE)
    } else {
        most
    }
}
