//! The exponential and functions built on it.

use super::super::exp::clamp;
use super::super::fma::{ROUND, fma, horner, scale, select};
use super::{each_plain, nan_if, ordered_sum, scale_wide, sum};

/// The leading 40 bits of ln 2.
const LN_2_HI: f64 = f64::from_bits(0x3fe6_2e42_fefa_2000);
/// ln 2 - LN_2_HI, rounded.
const LN_2_LO: f64 = f64::from_bits(0x3d69_ef35_793c_7673);

/// Returns e^x.
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
/// assert_eq!(math::f64::exp(0.0), 1.0);
/// ```
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let (k, high, low) = parts(clamp(x, -800.0, 800.0));
    let (one, lost) = ordered_sum(1.0, high);
    nan_if(x.is_nan(), scale_wide(one + (lost + low), k))
}

/// Returns 2^x.
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
/// assert_eq!(math::f64::exp2(-3.0), 0.125);
/// ```
#[inline(always)]
pub fn exp2(x: f64) -> f64 {
    let t = clamp(x, -1200.0, 1200.0);
    let k = (t + ROUND) - ROUND;
    // (x - k) ln 2 as a sum of two.
    let r = t - k;
    let high = r * core::f64::consts::LN_2;
    let low = fma(r, core::f64::consts::LN_2, -high) + r * 2.3190468138462996e-17;
    let (high, low) = expm1_near(high, low);
    let (one, lost) = ordered_sum(1.0, high);
    nan_if(x.is_nan(), scale_wide(one + (lost + low), k))
}

/// Returns e^x - 1, accurate even if x is near zero.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.82 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::expm1(1e-20), 1e-20);
/// ```
#[inline(always)]
pub fn expm1(x: f64) -> f64 {
    let (high, low) = expm1_parts(clamp(x, -60.0, 600.0));
    // From 600 on, the 1 is far below the last place.
    let y = select(x > 600.0, exp(x), high + low);
    nan_if(x.is_nan(), select(x == 0.0, x, y))
}

/// Returns 1 / (1 + e^-x), the logistic function.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.58 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::sigmoid(0.0), 0.5);
/// ```
#[inline(always)]
pub fn sigmoid(x: f64) -> f64 {
    let y = select(is_plain(x), sigmoid_plain(x), exp(x));
    nan_if(x.is_nan(), y)
}

/// Computes [`sigmoid`] of each element. The loops vectorise with the instruction set of the kernel around
/// them.
#[doc(hidden)]
#[inline(always)]
pub fn sigmoid_each(input: &[f64], output: &mut [f64]) {
    each_plain(input, output, is_plain, sigmoid_plain, sigmoid);
}

/// Returns false below -40, where the 1 in the denominator is far below the last place, and for NaN.
#[inline(always)]
fn is_plain(x: f64) -> bool {
    x >= -40.0
}

/// Returns [`sigmoid`] of a number that [`is_plain`].
#[inline(always)]
fn sigmoid_plain(x: f64) -> f64 {
    let a = x.abs();
    let (k, high, low) = parts(-select(a > 60.0, 60.0, a));
    let (one, lost) = ordered_sum(1.0, high);
    let s = scale(1.0, k + ROUND);
    // e^-|x| as a sum of two, and 1 + e^-|x|.
    let (e, e_low) = (s * one, s * (lost + low));
    let (d, d_lost) = ordered_sum(1.0, e);
    let (n, n_low) = (select(x < 0.0, e, 1.0), select(x < 0.0, e_low, 0.0));
    quotient(n, n_low, d, d_lost + e_low)
}

/// Returns the hyperbolic tangent.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.73 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::tanh(20.0), 1.0);
/// ```
#[inline(always)]
pub fn tanh(x: f64) -> f64 {
    // tanh(20) rounds to 1.
    let a = x.abs();
    let (t, t_low) = expm1_parts(2.0 * select(a > 20.0, 20.0, a));
    let (d, lost) = sum(2.0, t);
    nan_if(x.is_nan(), quotient(t, t_low, d, lost + t_low).copysign(x))
}

/// Returns (n + n_low) / (d + d_low).
#[inline(always)]
fn quotient(n: f64, n_low: f64, d: f64, d_low: f64) -> f64 {
    let q = n / d;
    let rest = fma(-q, d, n) + (n_low - q * d_low);
    q + rest / d
}

/// Returns e^x - 1 as a sum of two, for -60 <= x <= 600.
#[inline(always)]
fn expm1_parts(x: f64) -> (f64, f64) {
    let (k, high, low) = parts(x);
    let s = scale(1.0, k + ROUND);
    let (a, b) = (s - 1.0, s * high);
    let a_lost = (s - a) - 1.0;
    let (total, lost) = sum(a, b);
    (total, fma(s, low, lost + a_lost))
}

/// Returns (k, high, low) with e^x = 2^k (1 + high + low), for |x| <= 800.
#[inline(always)]
pub(super) fn parts(x: f64) -> (f64, f64, f64) {
    parts_of_sum(x, 0.0)
}

/// Returns [`parts`] of `x + x_low`.
#[inline(always)]
fn parts_of_sum(x: f64, x_low: f64) -> (f64, f64, f64) {
    let k = fma(x, core::f64::consts::LOG2_E, ROUND) - ROUND;
    // The first difference is exact; the rounding error of the second is kept.
    let t = fma(-k, LN_2_HI, x);
    let r = fma(-k, LN_2_LO, t);
    let r_low = fma(-k, LN_2_LO, t - r) + x_low;
    let (high, low) = expm1_near(r, r_low);
    (k, high, low)
}

/// Returns e^(r + r_low) - 1 as a sum of two, for |r| <= ln(2)/2.
#[inline(always)]
fn expm1_near(r: f64, r_low: f64) -> (f64, f64) {
    // Degree 12; minimax error 2^-61.1 relative.
    let p = horner!(r;
        0.5,
        0.16666666666666677,
        0.04166666666666667,
        0.008333333333321386,
        0.0013888888888886042,
        0.0001984126988681587,
        2.480158731785479e-05,
        2.7557243452369166e-06,
        2.755728314290839e-07,
        2.5109320565672487e-08,
        2.0910808661192885e-09
    );
    // r^2 / 2 with its error, since it may be as large as a sixth of r.
    let tail = fma(r * r, p, fma(r, r_low, r_low));
    ordered_sum(r, tail)
}
