//! Logarithms.
//!
//! x = 2^k m with m between sqrt(1/2) and sqrt(2), s = (m - 1) / (m + 1), and log m = 2 atanh s
//! by a minimax polynomial in s^2 (Cody and Waite, *Software Manual for the Elementary
//! Functions*, 1980, chapter 5). m - 1 and m + 1 are exact, so s carries one rounding and the
//! result stays accurate where it is near zero.

use super::fma::{add_odd, fma, horner, nan_if};

/// The leading 40 bits of ln 2.
const LN_2_HI: f64 = f64::from_bits(0x3fe6_2e42_fefa_2000);
/// ln 2 - LN_2_HI, rounded.
const LN_2_LO: f64 = f64::from_bits(0x3d69_ef35_793c_7673);

/// The natural logarithm.
///
/// # Determinism
///
/// Correctly rounded for every input. Minus infinity at both zeros, NaN below.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::log(1.0), 0.0);
/// assert_eq!(math::log(0.0), f32::NEG_INFINITY);
/// assert!(math::log(-1.0).is_nan());
/// ```
#[inline(always)]
pub fn log(x: f32) -> f32 {
    finish(x, log_wide(x as f64))
}

/// The natural logarithm of a positive normal f64 that is a finite f32.
#[inline(always)]
pub(super) fn log_wide(x: f64) -> f64 {
    let (k, m) = split(x);
    let (s2, rest) = log_m(m);
    add_odd(k * LN_2_HI, s2 + fma(k, LN_2_LO, rest))
}

/// Gives zero, infinity, NaN and negative inputs their IEEE results.
#[inline(always)]
fn finish(x: f32, y: f64) -> f32 {
    let y = if x == f32::INFINITY { f32::INFINITY } else { y as f32 };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    nan_if(x.is_nan() | (x < 0.0), y)
}

/// (k, m) with x = 2^k m and sqrt(1/2) <= m < sqrt(2).
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    /// The bits of sqrt(1/2), and of 1.
    const HALF_SQRT: u64 = 0x3fe6_a09e_667f_3bcd;
    const ONE: u64 = 0x3ff0_0000_0000_0000;
    // The exponent field of `biased` is k + 1023.
    let biased = x.to_bits().wrapping_add(ONE - HALF_SQRT) >> 52;
    let m = f64::from_bits(x.to_bits().wrapping_sub(biased << 52).wrapping_add(ONE));
    // 2^52 + biased, less 2^52 + 1023: an exact conversion without an integer instruction.
    let k = f64::from_bits(0x4330_0000_0000_0000 | biased) - 4503599627371519.0;
    (k, m)
}

/// (2s, log m - 2s) with s = (m - 1) / (m + 1).
#[inline(always)]
fn log_m(m: f64) -> (f64, f64) {
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    // Minimax error 2^-58.4 of 2 s.
    let p = horner!(z;
        0.6666666666666734,
        0.3999999999941653,
        0.2857142874206991,
        0.22222198599483725,
        0.18183563195905386,
        0.15314074804554312,
        0.14795744705550054
    );
    (2.0 * s, s * z * p)
}
