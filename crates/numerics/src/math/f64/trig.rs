//! Trigonometric functions.
//!
//! The angle is reduced to a sum of two f64 within pi / 4 of zero: below 2^18 by Cody and Waite's
//! subtraction, from there on by Payne and Hanek's method with integers. The sine and cosine of the
//! remainder use the polynomials of the f32 tangent, evaluated as in fdlibm.

#[cfg(not(feature = "std"))]
use crate::Ieee as _;

use super::super::fma::{ROUND, fma, horner, select};
use super::{each_plain, nan_if, ordered_sum, product, sum};

/// Returns the sine of an angle in radians.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.68 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::sin(0.0), 0.0);
/// ```
#[inline(always)]
pub fn sin(x: f64) -> f64 {
    let (n, r, low) = reduce(x);
    let y = turn(n, sine(r, low), cosine(r, low));
    nan_if(!x.is_finite(), select(x == 0.0, x, y))
}

/// Returns the cosine of an angle in radians.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.69 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::cos(0.0), 1.0);
/// ```
#[inline(always)]
pub fn cos(x: f64) -> f64 {
    let (n, r, low) = reduce(x);
    nan_if(!x.is_finite(), turn(n.wrapping_add(1), sine(r, low), cosine(r, low)))
}

/// Computes [`sin`] of each element. The loops vectorise with the instruction set of the kernel around them.
#[doc(hidden)]
#[inline(always)]
pub fn sin_each(input: &[f64], output: &mut [f64]) {
    each_plain(input, output, is_near, sin_near, sin);
}

/// Computes [`cos`] of each element, as [`sin_each`].
#[doc(hidden)]
#[inline(always)]
pub fn cos_each(input: &[f64], output: &mut [f64]) {
    each_plain(input, output, is_near, cos_near, cos);
}

/// Returns [`sin`] of an angle that [`is_near`].
#[inline(always)]
fn sin_near(x: f64) -> f64 {
    let (n, r, low) = reduce_near(x);
    select(x == 0.0, x, turn(n, sine(r, low), cosine(r, low)))
}

/// Returns [`cos`] of an angle that [`is_near`].
#[inline(always)]
fn cos_near(x: f64) -> f64 {
    let (n, r, low) = reduce_near(x);
    turn(n.wrapping_add(1), sine(r, low), cosine(r, low))
}

/// Returns sin(pi x). At an integer, the zero has the sign of `x`.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.69 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::sinpi(0.5), 1.0);
/// ```
#[inline(always)]
pub fn sinpi(x: f64) -> f64 {
    let (n, r, low) = reduce_pi(x);
    let y = turn(n, sine(r, low), cosine(r, low));
    nan_if(!x.is_finite(), select((n & 1 == 0) & (r == 0.0), 0.0f64.copysign(x), y))
}

/// Returns cos(pi x); +0 at half an odd integer.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.70 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::cospi(1.0), -1.0);
/// ```
#[inline(always)]
pub fn cospi(x: f64) -> f64 {
    let (n, r, low) = reduce_pi(x);
    let y = turn(n.wrapping_add(1), sine(r, low), cosine(r, low));
    nan_if(!x.is_finite(), select((n & 1 == 1) & (r == 0.0), 0.0, y))
}

/// Returns sin(r + n pi / 2) from the sine and the cosine of r.
#[inline(always)]
fn turn(n: u64, sine: f64, cosine: f64) -> f64 {
    let y = select(n & 1 == 0, sine, cosine);
    f64::from_bits(y.to_bits() ^ ((n & 2) << 62))
}

/// Returns (n, high, low) with pi x = n pi / 2 + high + low; n is correct modulo 4.
#[inline(always)]
fn reduce_pi(x: f64) -> (u64, f64, f64) {
    // From 2^53 on, all f64 are even.
    let x = select(x.abs() < 9007199254740992.0, x, 0.0);
    // n = 2x rounded, modulo 2^51: whole turns are subtracted first, exactly.
    let x = x - 2.0 * (0.5 * x).trunc();
    let n = fma(2.0, x, ROUND);
    let r = fma(-0.5, n - ROUND, x);
    let (high, lost) = product(r, PI);
    (n.to_bits(), high, fma(r, PI_LO, lost))
}

/// Returns (n, high, low) with x = n pi / 2 + high + low; n is correct modulo 4.
#[inline(always)]
fn reduce(x: f64) -> (u64, f64, f64) {
    if is_near(x) { reduce_near(x) } else { reduce_far(x) }
}

/// Returns true if [`reduce_near`] is precise enough for `x`; false for NaN.
#[inline(always)]
fn is_near(x: f64) -> bool {
    x.abs() < 262144.0
}

const PI: f64 = core::f64::consts::PI;
/// pi - PI, rounded.
const PI_LO: f64 = f64::from_bits(0x3ca1_a626_3314_5c07);

/// Computes [`reduce`] below 2^18: pi / 2 in 33, 53 and 53 bits, the first difference exact.
#[inline(always)]
fn reduce_near(x: f64) -> (u64, f64, f64) {
    const HEAD: f64 = 0.5 * f64::from_bits(0x4009_21fb_5440_0000);
    const MIDDLE: f64 = 0.5 * f64::from_bits(0x3de0_b461_1a62_6331);
    const TAIL: f64 = 0.5 * 7.0431197303664e-27;
    let n = fma(x, core::f64::consts::FRAC_2_PI, ROUND);
    let k = n - ROUND;
    let t = fma(-k, HEAD, x);
    let (p, p_low) = product(k, MIDDLE);
    let (r, lost) = sum(t, -p);
    let (high, low) = ordered_sum(r, fma(-k, TAIL, lost - p_low));
    (n.to_bits(), high, low)
}

/// Computes [`reduce`] for |x| >= 2^-8, after Payne and Hanek (*Radian reduction for trigonometric
/// functions*, SIGNUM 18, 1983).
#[cold]
#[inline(never)]
fn reduce_far(x: f64) -> (u64, f64, f64) {
    if !x.is_finite() {
        return (0, f64::NAN, f64::NAN);
    }
    // |x| = significand * 2^exponent.
    let significand = (x.to_bits() & 0x000f_ffff_ffff_ffff) | 0x0010_0000_0000_0000;
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1075;
    // 192 bits of 2 / pi, from the bit that weighs 2 in the product. The product modulo 4 has its
    // integer part in the two highest bits.
    let start = (exponent - 2 + 64) as usize;
    let word = |i: usize| {
        let (index, shift) = (start / 64 + i, start % 64);
        let next = TWO_BY_PI[index + 1].checked_shr(64 - shift as u32).unwrap_or(0);
        TWO_BY_PI[index] << shift | next
    };
    let wide = |i: usize| u128::from(significand) * u128::from(word(i));
    let low = wide(2);
    let middle = wide(1) + (low >> 64);
    let high = (wide(0) as u64).wrapping_add((middle >> 64) as u64);
    // The fraction as a signed number of 2^-128 units, with the integer part rounded to nearest.
    let n = high.wrapping_add(1 << 61) >> 62;
    let fraction = (u128::from(high) << 64 | u128::from(middle as u64)) << 2;
    let fraction = (fraction | u128::from(low as u64 >> 62)) as i128;
    let first = fraction as f64;
    let second = (fraction - first as i128) as f64;
    const UNIT: f64 = f64::from_bits((1023 - 128) << 52);
    let (first, second) = (first * UNIT, second * UNIT);
    let (r, lost) = product(first, 0.5 * PI);
    let (r, rest) = ordered_sum(r, lost + fma(first, 0.5 * PI_LO, second * (0.5 * PI)));
    if x < 0.0 { (n.wrapping_neg(), -r, -rest) } else { (n, r, rest) }
}

/// Returns sin(r + low) for |r| <= pi / 4. Minimax error 2^-57.2 of r.
#[inline(always)]
fn sine(r: f64, low: f64) -> f64 {
    let u = r * r;
    let p = horner!(u;
        -0.16666666666666632,
        0.008333333333322413,
        -0.00019841269829807832,
        2.755731369193436e-06,
        -2.505075811870399e-08,
        1.5896795889480606e-10
    );
    r + fma(r * u, p, fma(-0.5 * u, low, low))
}

/// Returns cos(r + low) for |r| <= pi / 4. Minimax error 2^-59.8.
#[inline(always)]
fn cosine(r: f64, low: f64) -> f64 {
    let (u, u_low) = product(r, r);
    let p = horner!(u;
        0.0416666666666666,
        -0.0013888888888874123,
        2.4801587289482025e-05,
        -2.755731435228983e-07,
        2.0875723267586877e-09,
        -1.1359647515616824e-11
    );
    let (one, lost) = ordered_sum(1.0, -0.5 * u);
    one + (lost + fma(u * u, p, fma(-r, low, -0.5 * u_low)))
}

/// The binary digits of 2 / pi after the point, preceded by 64 zeros.
static TWO_BY_PI: [u64; 20] = [
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
];
