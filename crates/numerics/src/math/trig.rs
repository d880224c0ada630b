//! Trigonometric functions.
//!
//! All of them come down to sin(pi r) for |r| <= 1/2, by one odd minimax polynomial (Remez's
//! exchange algorithm) whose leading coefficient, pi, is kept in two f64. A single polynomial
//! over the whole half turn is cheaper in a vector loop than two over a quarter turn with a
//! choice between them.

use super::fma::{ROUND, flip_if_odd, fma, horner, nan_if, select};

const PI: f64 = std::f64::consts::PI;
/// pi - PI, rounded.
const PI_LO: f64 = f64::from_bits(0x3ca1_a626_3314_5c07);

/// sin(pi x).
///
/// # Determinism
///
/// Correctly rounded for every input. At an integer, the zero has the sign of `x`; NaN at both
/// infinities.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::sinpi(0.5), 1.0);
/// assert_eq!(math::sinpi(-3.0).to_bits(), (-0.0f32).to_bits());
/// ```
#[inline(always)]
pub fn sinpi(x: f32) -> f32 {
    let (y, zero) = sinpi_wide(x as f64);
    let y = if zero { 0.0f32.copysign(x) } else { y as f32 };
    nan_if(!x.is_finite(), y)
}

/// sin(pi x) before the rounding to f32, and whether it is an exact zero.
#[inline(always)]
pub(super) fn sinpi_wide(x: f64) -> (f64, bool) {
    let (n, r) = half_turns(even_if_huge(x));
    (flip_if_odd(sin_pi_r(r), n), r == 0.0)
}

/// cos(pi x).
///
/// # Determinism
///
/// Correctly rounded for every input. +0 at half an odd integer; NaN at both infinities.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::cospi(1.0), -1.0);
/// assert_eq!(math::cospi(-0.5).to_bits(), 0.0f32.to_bits());
/// ```
#[inline(always)]
pub fn cospi(x: f32) -> f32 {
    let (y, zero) = cospi_wide(x as f64);
    let y = if zero { 0.0 } else { y as f32 };
    nan_if(!x.is_finite(), y)
}

/// cos(pi x) before the rounding to f32, and whether it is an exact zero.
#[inline(always)]
pub(super) fn cospi_wide(x: f64) -> (f64, bool) {
    // cos(pi x) = sin(pi (x + 1/2)). The sum is exact but for |x| < 2^-28, where the cosine is
    // 1 whatever becomes of the lost bits.
    let (n, r) = half_turns(even_if_huge(x) + 0.5);
    (flip_if_odd(sin_pi_r(r), n), r == 0.0)
}

/// `x`, or 0 if it is an f32 so large that it must be an even integer.
#[inline(always)]
fn even_if_huge(x: f64) -> f64 {
    select(x.abs() < 16777216.0, x, 0.0)
}

/// (n, x - n), with the integer n nearest to x in the low bits of its f64 (see [`ROUND`]).
#[inline(always)]
fn half_turns(x: f64) -> (f64, f64) {
    let n = x + ROUND;
    (n, x - (n - ROUND))
}

/// sin(pi r) for |r| <= 1/2. Minimax error 2^-60.5 of pi r.
#[inline(always)]
fn sin_pi_r(r: f64) -> f64 {
    let u = r * r;
    let q = horner!(u;
        PI_LO,
        -5.167712780049969,
        2.550164039877268,
        -0.5992645293176785,
        0.08214588655079139,
        -0.0073704302995635605,
        0.0004662987787461239,
        -2.1900813737160557e-05,
        7.669866412801172e-07
    );
    fma(r, PI, r * q)
}
