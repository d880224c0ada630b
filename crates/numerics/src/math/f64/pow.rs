//! The power function.

#[cfg(not(feature = "std"))]
use crate::Ieee as _;

use super::super::dd::Dd;
use super::nan_if;

/// Returns x^y, computed in double-double arithmetic. Special values are those of C's `pow` (Annex
/// F).
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.75 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::pow(2.0, 10.0), 1024.0);
/// ```
#[inline(always)]
pub fn pow(x: f64, y: f64) -> f64 {
    let integer = y.trunc() == y;
    let odd = integer && y.abs() < 9007199254740992.0 && (0.5 * y).trunc() != 0.5 * y;
    if x == 1.0 || y == 0.0 {
        return 1.0;
    }
    let negative = x < 0.0;
    if x.is_nan() || y.is_nan() || (negative && x.is_finite() && !integer) {
        return nan_if(true, 0.0);
    }
    let a = x.abs();
    let magnitude = if a == 1.0 {
        1.0
    } else if a == 0.0 || a == f64::INFINITY || y.is_infinite() {
        if (a > 1.0) == (y > 0.0) { f64::INFINITY } else { 0.0 }
    } else {
        power(a, y)
    };
    if odd && x.is_sign_negative() { -magnitude } else { magnitude }
}

/// Returns a^y for finite a > 0 other than 1 and finite y other than 0.
#[inline(always)]
fn power(a: f64, y: f64) -> f64 {
    let tiny = a < f64::MIN_POSITIVE;
    let log = if tiny {
        // A subnormal number: 2^-54 times a normal number.
        Dd::log(a * 18014398509481984.0).add(Dd::multiple_of_ln_2(-54.0))
    } else {
        Dd::log(a)
    };
    // If the product's error term is out of range, the sign of the exponent decides.
    let rough = log.high * y;
    if rough > 720.0 {
        return f64::INFINITY;
    }
    if rough < -760.0 {
        return 0.0;
    }
    log.mul(Dd::new(y)).exp_f64()
}

/// Returns `base` to the power `exponent` by repeated squaring: the same products on every machine.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math::f64::powi;
///
/// assert_eq!(powi(0.9, 0), 1.0);
/// assert_eq!(powi(0.9, 1), 0.9);
/// assert_eq!(powi(2.0, 10), 1024.0);
/// assert_eq!(powi(0.5, 1100), 0.0);
/// ```
#[must_use]
pub fn powi(base: f64, mut exponent: u64) -> f64 {
    let (mut result, mut square) = (1.0, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    result
}
