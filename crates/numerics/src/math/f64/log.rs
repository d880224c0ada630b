//! Logarithms.
//!
//! As in fdlibm: log(1 + f) = f - (f^2/2 - s (f^2/2 + R(s^2))) with s = f / (2 + f), but the
//! rounding errors of the larger addends are kept.

use super::super::dd::Dd;
use super::super::fma::{fma, horner, select};
use super::super::log::split;
use super::{nan_if, ordered_sum, product, sum};

/// The leading 40 bits of ln 2.
const LN_2_HI: f64 = f64::from_bits(0x3fe6_2e42_fefa_2000);
/// ln 2 - LN_2_HI, rounded.
const LN_2_LO: f64 = f64::from_bits(0x3d69_ef35_793c_7673);

/// Returns the natural logarithm.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.59 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::log(1.0), 0.0);
/// ```
#[inline(always)]
pub fn log(x: f64) -> f64 {
    let (k, m) = split_any(x);
    let (high, low) = log_parts(k, m - 1.0, 0.0);
    finish(x, high + low)
}

/// Returns the natural logarithm of a positive normal number. It is correctly rounded unless it
/// lies nearer than 2^-99 (relatively) to the midpoint of two numbers; it takes many times as long
/// as [`log`].
///
/// # Determinism
///
/// The same bits at every level.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::log_rounded(2.0), core::f64::consts::LN_2);
/// ```
#[inline(never)]
pub fn log_rounded(x: f64) -> f64 {
    Dd::log(x).high
}

/// Returns the logarithm to base 2.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.64 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::log2(0.125), -3.0);
/// ```
#[inline(always)]
pub fn log2(x: f64) -> f64 {
    let (k, m) = split_any(x);
    let (f, f_low) = near_one(m - 1.0, 0.0);
    let (a, a_low) = product(f, core::f64::consts::LOG2_E);
    let rest = fma(f, 2.0355273740931033e-17, fma(f_low, core::f64::consts::LOG2_E, a_low));
    let (high, lost) = ordered_sum(k, a);
    finish(x, high + (lost + rest))
}

/// Returns the logarithm to base 10.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.61 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::log10(1000.0), 3.0);
/// ```
#[inline(always)]
pub fn log10(x: f64) -> f64 {
    /// The leading 40 bits of log10(2).
    const LOG10_2_HI: f64 = f64::from_bits(0x3fd3_4413_509f_6000);
    /// log10(2) - LOG10_2_HI, rounded.
    const LOG10_2_LO: f64 = f64::from_bits(0x3d59_fef3_11f1_2b36);
    let (k, m) = split_any(x);
    let (f, f_low) = near_one(m - 1.0, 0.0);
    let (a, a_low) = product(f, core::f64::consts::LOG10_E);
    let rest = fma(f, 1.098319650216765e-17, fma(f_low, core::f64::consts::LOG10_E, a_low));
    let (high, lost) = ordered_sum(k * LOG10_2_HI, a);
    finish(x, high + (lost + fma(k, LOG10_2_LO, rest)))
}

/// Returns log(1 + x), accurate even if x is near zero.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.62 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::log1p(1e-20), 1e-20);
/// ```
#[inline(always)]
pub fn log1p(x: f64) -> f64 {
    let bounded = select(x < f64::INFINITY, x, 1.0);
    let (k, m) = split(1.0 + bounded);
    // 1 + f = 2^-k (1 + x), from x itself, and the rounding error of f. From 2^60 on, the 1 is far
    // below the last place.
    let large = k > 60.0;
    let biased = (1023.0 + 4503599627370496.0) - select(large, 60.0, k);
    let s = f64::from_bits(biased.to_bits() << 52);
    let (f, f_low) = sum(bounded * s, s - 1.0);
    let (f, f_low) = (select(large, m - 1.0, f), select(large, 0.0, f_low));
    let (high, low) = log_parts(k, f, f_low);
    let y = finish(1.0 + bounded, high + low);
    let y = select(x == f64::INFINITY, x, select(x == -1.0, f64::NEG_INFINITY, y));
    nan_if(x.is_nan() | (x < -1.0), select(x == 0.0, x, y))
}

/// Returns k ln 2 + log(1 + f + f_low) as a sum of two.
#[inline(always)]
fn log_parts(k: f64, f: f64, f_low: f64) -> (f64, f64) {
    let (a, a_low) = near_one(f, f_low);
    let (high, lost) = ordered_sum(k * LN_2_HI, a);
    (high, lost + fma(k, LN_2_LO, a_low))
}

/// Returns log(1 + f + f_low) as a sum of two, for sqrt(1/2) - 1 <= f <= sqrt(2) - 1.
#[inline(always)]
fn near_one(f: f64, f_low: f64) -> (f64, f64) {
    let (square, square_low) = product(f, f);
    let (half, half_low) = (0.5 * square, 0.5 * square_low);
    let s = f / (2.0 + f);
    let z = s * s;
    // Minimax error 2^-58.4 of 2 s^3.
    let p = horner!(z;
        0.6666666666666734,
        0.3999999999941653,
        0.2857142874206991,
        0.22222198599483725,
        0.18183563195905386,
        0.15314074804554312,
        0.14795744705550054
    );
    let (high, lost) = ordered_sum(f, -half);
    // s (f^2/2 + R), and f_low / (1 + f).
    let tail = fma(s, fma(z, p, half), fma(f_low, fma(f, f - 1.0, 1.0), -half_low));
    ordered_sum(high, lost + tail)
}

/// Computes [`split`], also for subnormal numbers.
#[inline(always)]
fn split_any(x: f64) -> (f64, f64) {
    let tiny = x < f64::MIN_POSITIVE;
    let (k, m) = split(x * select(tiny, 18014398509481984.0, 1.0));
    (k - select(tiny, 54.0, 0.0), m)
}

/// Replaces the result for zero, infinity, NaN and negative inputs by that of IEEE 754.
#[inline(always)]
fn finish(x: f64, y: f64) -> f64 {
    let y = select(x == f64::INFINITY, x, y);
    nan_if(x.is_nan() | (x < 0.0), select(x == 0.0, f64::NEG_INFINITY, y))
}
