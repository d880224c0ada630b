//! Inverse trigonometric functions.
//!
//! The classical reductions (Cody and Waite, *Software Manual for the Elementary Functions*,
//! 1980, chapters 10 and 11) to a small interval, and an odd minimax polynomial there.

#[cfg(not(feature = "std"))]
use crate::Ieee as _;

use super::fma::{add_odd, fma, horner, nan_if, select};

const PI: f64 = core::f64::consts::PI;
/// pi - PI, rounded.
const PI_LO: f64 = f64::from_bits(0x3ca1_a626_3314_5c07);

/// Returns the arc tangent.
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
/// assert_eq!(math::atan(f32::INFINITY), core::f32::consts::FRAC_PI_2);
/// ```
#[inline(always)]
pub fn atan(x: f32) -> f32 {
    nan_if(x.is_nan(), atan_wide(x as f64) as f32)
}

/// Returns the arc tangent, before rounding to f32.
#[inline(always)]
pub(super) fn atan_wide(x: f64) -> f64 {
    // atan(2^30) rounds to pi / 2.
    let a = x.abs();
    let a = select(a > 1073741824.0, 1073741824.0, a);
    // tan(pi / 8) and tan(3 pi / 8): atan a = atan t + 0, pi / 4 or pi / 2.
    let (low, high) = (a < 0.41421356237309503, a > 2.414213562373095);
    let turns = select(low, 0.0, select(high, 0.5, 0.25));
    let t =
        select(low, a, select(high, -1.0, a - 1.0)) / select(low, 1.0, select(high, a, a + 1.0));
    let u = t * t;
    // Minimax error 2^-58.6 of t.
    let p = horner!(u;
        -0.333333333333332,
        0.1999999999995404,
        -0.1428571428024425,
        0.1111111078591544,
        -0.09090897829798676,
        0.07692061514587471,
        -0.06663118946340052,
        0.05847998152805416,
        -0.050397957354664465,
        0.03807702585330115,
        -0.01792082960809992
    );
    // Near zero t is the larger addend, and exact; elsewhere the constant is larger.
    let tail = fma(t * u, p, turns * PI_LO);
    let (first, second) = (select(low, t, turns * PI), select(low, tail, t + tail));
    add_odd(first, second).copysign(x)
}

/// Returns the arc sine.
///
/// # Determinism
///
/// Correctly rounded for every input. NaN outside [-1, 1].
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::asin(-1.0), -core::f32::consts::FRAC_PI_2);
/// assert!(math::asin(1.1).is_nan());
/// ```
#[inline(always)]
pub fn asin(x: f32) -> f32 {
    nan_if(x.is_nan() | (x.abs() > 1.0), asin_wide(x as f64) as f32)
}

/// Returns the arc sine for |x| <= 1, before rounding to f32.
#[inline(always)]
pub(super) fn asin_wide(x: f64) -> f64 {
    let (near, t, tail) = asin_parts(x.abs());
    let far_tail = fma(-2.0, tail, 0.5 * PI_LO);
    let first = select(near, t, 0.5 * PI);
    let second = select(near, tail, fma(-2.0, t, far_tail));
    add_odd(first, second).copysign(x)
}

/// Returns the arc cosine.
///
/// # Determinism
///
/// Correctly rounded for every input. NaN outside [-1, 1].
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::acos(-1.0), core::f32::consts::PI);
/// assert_eq!(math::acos(1.0).to_bits(), 0);
/// ```
#[inline(always)]
pub fn acos(x: f32) -> f32 {
    nan_if(x.is_nan() | (x.abs() > 1.0), acos_wide(x as f64) as f32)
}

/// Returns the arc cosine for |x| <= 1, before rounding to f32.
#[inline(always)]
pub(super) fn acos_wide(x: f64) -> f64 {
    let (near, t, tail) = asin_parts(x.abs());
    // pi / 2 - asin x; or 2 asin t, subtracted from pi if x is negative.
    let negative = x < 0.0;
    let half_turns = select(near, 0.5, select(negative, 1.0, 0.0));
    let factor = select(near, select(negative, 1.0, -1.0), select(negative, -2.0, 2.0));
    add_odd(half_turns * PI, fma(factor, t, fma(factor, tail, half_turns * PI_LO)))
}

/// Returns (a <= 1/2, t, asin(t) - t), with t = a if a <= 1/2, else sqrt((1 - a) / 2).
#[inline(always)]
fn asin_parts(a: f64) -> (bool, f64, f64) {
    let near = a <= 0.5;
    // (1 - a) / 2 is exact.
    let u = select(near, a * a, 0.5 - 0.5 * a);
    let t = select(near, a, u.sqrt());
    // Minimax error 2^-58.4 of t.
    let p = horner!(u;
        0.16666666666666763,
        0.07499999999970253,
        0.0446428571751319,
        0.030381942683023525,
        0.022372215678499258,
        0.01735159974163249,
        0.013980965905345035,
        0.011397737584996737,
        0.010786754773194815,
        0.00368215126261189,
        0.02176575624381611,
        -0.021080610100871058,
        0.03267904009355891
    );
    (near, t, t * u * p)
}
