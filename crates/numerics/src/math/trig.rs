//! Trigonometric functions.
//!
//! All of them reduce to sin(pi r) for |r| <= 1/2, by one odd minimax polynomial (Remez's exchange
//! algorithm) whose leading coefficient, pi, is in two f64. In a vector loop, a single polynomial
//! over the half turn is cheaper than two polynomials over a quarter turn with a choice between
//! them.

use super::fma::{ROUND, except, flip_if_odd, fma, horner, nan_if, select};
use super::inv_pi::INV_PI;

const PI: f64 = core::f64::consts::PI;
/// pi - PI, rounded.
const PI_LO: f64 = f64::from_bits(0x3ca1_a626_3314_5c07);

/// Returns sin(pi x).
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

/// Returns sin(pi x) before rounding to f32, and true if it is an exact zero.
#[inline(always)]
pub(super) fn sinpi_wide(x: f64) -> (f64, bool) {
    let (n, r) = half_turns(even_if_huge(x));
    (flip_if_odd(sin_pi_r(r), n), r == 0.0)
}

/// Returns cos(pi x).
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

/// Returns cos(pi x) before rounding to f32, and true if it is an exact zero.
#[inline(always)]
pub(super) fn cospi_wide(x: f64) -> (f64, bool) {
    // cos(pi x) = sin(pi (x + 1/2)). The sum is exact except for |x| < 2^-28, for which the cosine
    // rounds to 1 whatever the lost bits are.
    let (n, r) = half_turns(even_if_huge(x) + 0.5);
    (flip_if_odd(sin_pi_r(r), n), r == 0.0)
}

/// Returns the sine of an angle in radians.
///
/// # Determinism
///
/// Correctly rounded for every input, however large. NaN at both infinities.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::sin(1e-10), 1e-10);
/// assert_eq!(math::sin(1e10), -0.48750604);
/// ```
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    let y = correct_sin(x, sin_wide(x as f64, 0.0) as f32);
    nan_if(!x.is_finite(), y)
}

/// Returns the cosine of an angle in radians.
///
/// # Determinism
///
/// Correctly rounded for every input, however large. NaN at both infinities.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::cos(0.0), 1.0);
/// assert_eq!(math::cos(1e10), 0.87311965);
/// ```
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    let y = sin_wide(x as f64, 0.5) as f32;
    let a = x.abs();
    let y = except(a, 0x5f18_b878, 0x3f7f_14bb, y);
    let y = except(a, 0x6115_cb11, 0x3f78_142f, y);
    let y = except(a, 0x7908_cd73, 0x3f79_8bb5, y);
    nan_if(!x.is_finite(), y)
}

/// Returns the tangent of an angle in radians.
///
/// # Determinism
///
/// Correctly rounded for every input, however large. NaN at both infinities.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::tan(1e-10), 1e-10);
/// assert_eq!(math::tan(1.0), 1.5574077);
/// ```
#[inline(always)]
pub fn tan(x: f32) -> f32 {
    nan_if(!x.is_finite(), correct_tan(x, tan_wide(x as f64) as f32))
}

/// Returns [`tan`] of an angle that [`is_near`].
#[inline(always)]
pub(super) fn tan_near(x: f32) -> f32 {
    let (n, r) = reduce_near::<2>(x as f64, 0.0);
    correct_tan(x, tan_r(n, r) as f32)
}

/// Returns the tangent of a finite f32, before rounding to f32.
#[inline(always)]
pub(super) fn tan_wide(x: f64) -> f64 {
    let near = x.abs() < NEAR;
    let (n, r) = reduce_near::<2>(x, 0.0);
    let (far_n, far_r) = reduce_far::<2>(x, 0.0);
    tan_r(select(near, n, far_n), select(near, r, far_r))
}

/// Keeps the sign of a zero.
#[inline(always)]
fn correct_tan(x: f32, y: f32) -> f32 {
    if x == 0.0 { x } else { y }
}

/// Returns [`sin`] of an angle that [`is_near`].
#[inline(always)]
pub(super) fn sin_near(x: f32) -> f32 {
    correct_sin(x, sin_wide_near(x as f64, 0.0) as f32)
}

/// Returns [`cos`] of an angle that [`is_near`].
#[inline(always)]
pub(super) fn cos_near(x: f32) -> f32 {
    sin_wide_near(x as f64, 0.5) as f32
}

/// Keeps the sign of a zero, and corrects one input and its opposite.
#[inline(always)]
fn correct_sin(x: f32, y: f32) -> f32 {
    let y = except(x, 0x4619_9998, 0xbeb1_fa5d, y);
    let y = except(x, 0xc619_9998, 0x3eb1_fa5d, y);
    if x == 0.0 { x } else { y }
}

/// Returns true if [`reduce_near`] is precise enough for `x`; false for NaN.
#[inline(always)]
pub(super) fn is_near(x: f32) -> bool {
    x.abs() < NEAR as f32
}

/// Returns sin(x + pi phase) of an f32 `x`, for a phase of 0 or 1/2.
#[inline(always)]
fn sin_wide(x: f64, phase: f64) -> f64 {
    let near = x.abs() < NEAR;
    let (n, r) = reduce_near::<1>(x, phase);
    let (far_n, far_r) = reduce_far::<1>(x, phase);
    flip_if_odd(sin_r(select(near, r, far_r)), select(near, n, far_n))
}

/// Computes [`sin_wide`] below [`NEAR`].
#[inline(always)]
fn sin_wide_near(x: f64, phase: f64) -> f64 {
    let (n, r) = reduce_near::<1>(x, phase);
    flip_if_odd(sin_r(r), n)
}

/// The upper bound of [`reduce_near`].
const NEAR: f64 = 262144.0;

/// Returns (n, x + unit (phase - n)) with unit = pi / PARTS, for PARTS = 1 or 2 and |x| < [`NEAR`].
/// The integer n makes the remainder smallest; it is in the low bits of its f64 (see [`ROUND`]).
///
/// This is Cody and Waite's reduction: the product with the 33-bit head of pi is exact, and so is
/// the first subtraction.
#[inline(always)]
fn reduce_near<const PARTS: u32>(x: f64, phase: f64) -> (f64, f64) {
    /// The leading 33 bits of pi.
    const HEAD: f64 = f64::from_bits(0x4009_21fb_5440_0000);
    /// pi - HEAD, rounded.
    const TAIL: f64 = f64::from_bits(0x3de0_b461_1a62_6331);
    let parts = PARTS as f64;
    let n = fma(x, parts * core::f64::consts::FRAC_1_PI, phase) + ROUND;
    let k = ((n - ROUND) - phase) / parts;
    (n, fma(-k, TAIL, fma(-k, HEAD, x)))
}

/// Computes [`reduce_near`] for any f32 `x` with |x| >= 1.
///
/// This is the method of Payne and Hanek (*Radian reduction for trigonometric functions*, SIGNUM
/// 18, 1983): x is an integer times 2^e, so only the bits of 2^e / pi below 2 matter, and a table
/// holds them. Exact products make the quotient's fraction accurate to 2^-84; any f32 is at least
/// 2^-33 from a multiple of pi / 2.
#[inline(always)]
fn reduce_far<const PARTS: u32>(x: f64, phase: f64) -> (f64, f64) {
    let exponent = (x.to_bits() >> 52).wrapping_sub(1023) as usize & 127;
    let [a, b, c] = INV_PI[exponent];
    // The significand of x in [1, 2), with the sign of x.
    let m = f64::from_bits((x.to_bits() & 0x800f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    let parts = PARTS as f64;
    let first = fma(parts * m, a, phase);
    let second = parts * m * b;
    let n = (first + second) + ROUND;
    let fraction = first - (n - ROUND);
    // |fraction| >= |second|, or the sum is exact.
    let high = fraction + second;
    let low = fma(parts * m, c, second - (high - fraction));
    (n, fma(high, PI, fma(high, PI_LO, low * PI)) / parts)
}

/// Returns sin(r) for |r| <= pi/2. Minimax error 2^-61.5 of r.
#[inline(always)]
fn sin_r(r: f64) -> f64 {
    let u = r * r;
    let p = horner!(u;
        -0.16666666666666666,
        0.008333333333333212,
        -0.00019841269841215235,
        2.755731921212263e-06,
        -2.5052106959273848e-08,
        1.6058943881823908e-10,
        -7.643096112266014e-13,
        2.7222374851752595e-15
    );
    fma(r * u, p, r)
}

/// Returns `x`, or 0 if it is an f32 so large that it must be an even integer.
#[inline(always)]
fn even_if_huge(x: f64) -> f64 {
    select(x.abs() < 16777216.0, x, 0.0)
}

/// Returns (n, x - n), with the integer n nearest to x in the low bits of its f64 (see [`ROUND`]).
#[inline(always)]
fn half_turns(x: f64) -> (f64, f64) {
    let n = x + ROUND;
    (n, x - (n - ROUND))
}

/// Returns sin(pi r) for |r| <= 1/2. Minimax error 2^-60.5 of pi r.
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

/// Returns tan(r + n pi / 2) for |r| <= pi / 4, with the `n` of [`reduce_near`].
#[inline(always)]
fn tan_r(n: f64, r: f64) -> f64 {
    let u = r * r;
    // Minimax error 2^-57.2 of r, and 2^-59.8.
    let sine = horner!(u;
        -0.16666666666666632,
        0.008333333333322413,
        -0.00019841269829807832,
        2.755731369193436e-06,
        -2.505075811870399e-08,
        1.5896795889480606e-10
    );
    let cosine = horner!(u;
        -0.5,
        0.0416666666666666,
        -0.0013888888888874123,
        2.4801587289482025e-05,
        -2.755731435228983e-07,
        2.0875723267586877e-09,
        -1.1359647515616824e-11
    );
    let (sine, cosine) = (fma(r * u, sine, r), fma(u, cosine, 1.0));
    let odd = n.to_bits() & 1 == 1;
    select(odd, -cosine, sine) / select(odd, sine, cosine)
}
