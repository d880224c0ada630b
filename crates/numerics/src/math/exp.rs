//! The exponential and functions built on it.
//!
//! All of them reduce the argument to r = x - k ln 2, |r| <= ln(2)/2, with ln 2 split into a 40-bit
//! head, whose product with k is exact, and a tail (Cody and Waite, *Software Manual for the
//! Elementary Functions*, 1980). They then evaluate a minimax polynomial (Remez's exchange
//! algorithm) for exp(r) - 1 in f64. For k = 0 the reduction is exact; this keeps `expm1`, `tanh`
//! and related functions accurate near zero.

use crate::simd::Aligned;

use super::blocks::in_blocks;
use super::fma::{ROUND, add_odd, except, fma, horner, nan_if, scale, select};

const LOG2_E: f64 = core::f64::consts::LOG2_E;
/// The leading 40 bits of ln 2.
const LN_2_HI: f64 = f64::from_bits(0x3fe6_2e42_fefa_2000);
/// ln 2 - LN_2_HI, rounded.
const LN_2_LO: f64 = f64::from_bits(0x3d69_ef35_793c_7673);

/// Returns e^x.
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
/// assert_eq!(math::exp(1.0), core::f32::consts::E);
/// assert_eq!(math::exp(f32::NEG_INFINITY), 0.0);
/// assert_eq!(math::exp(89.0), f32::INFINITY);
/// ```
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    nan_if(x.is_nan(), exp_wide(x as f64) as f32)
}

/// Computes [`exp`] of each element. Each step runs over a block of elements, so that their chains
/// of operations overlap.
#[inline(always)]
pub(super) fn exp_each(input: &[f32], output: &mut [f32]) {
    in_blocks!(exp_block, EXP_BLOCK, input, output);
}

const EXP_BLOCK: usize = 32;

#[inline(always)]
pub(super) fn exp_block<const N: usize>(x: &[f32; N], y: &mut [f32; N]) {
    let [mut powers, mut rests] = [[0.0; N]; 2];
    for i in 0..N {
        (powers[i], rests[i]) = reduce(exp_bounds(x[i] as f64));
    }
    for i in 0..N {
        rests[i] = exp_reduced(rests[i]);
    }
    for i in 0..N {
        let value = scale(rests[i], powers[i]);
        // Processors take long to round what leaves the range of f32, such as the exponential of a
        // masked score.
        let value = select(x[i] < -104.0, 0.0, select(x[i] > 89.0, f64::INFINITY, value));
        y[i] = nan_if(x[i].is_nan(), value as f32);
    }
}

/// Returns e^x before rounding to f32, within 2^-52.6 relatively.
#[inline(always)]
pub(super) fn exp_wide(x: f64) -> f64 {
    let (k, r) = reduce(exp_bounds(x));
    scale(exp_reduced(r), k)
}

/// Clamps `x` to bounds beyond which the exponential rounds to 0 or infinity, as it does at the
/// bounds.
#[inline(always)]
fn exp_bounds(x: f64) -> f64 {
    clamp(x, -110.0, 90.0)
}

/// Returns e^r for |r| <= ln(2)/2. Degree 11; minimax error 2^-57.2 absolute.
#[inline(always)]
fn exp_reduced(r: f64) -> f64 {
    let p = horner!(r;
        0.5,
        0.16666666666666685,
        0.04166666666660277,
        0.008333333333314381,
        0.0013888888927278025,
        0.00019841269903674532,
        2.4801508079521782e-05,
        2.7557227394401727e-06,
        2.7625424800821167e-07,
        2.5114615907973533e-08
    );
    1.0 + fma(r * r, p, r)
}

/// Returns 2^x.
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
/// assert_eq!(math::exp2(-3.0), 0.125);
/// assert_eq!(math::exp2(128.0), f32::INFINITY);
/// ```
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let y = exp2_wide(x as f64) as f32;
    let y = except(x, 0xbcf3_a937, 0x3f7a_c6b1, y);
    let y = except(x, 0x3b42_9d37, 0x3f80_4385, y);
    nan_if(x.is_nan(), y)
}

/// Returns 2^x, before rounding to f32.
#[inline(always)]
pub(super) fn exp2_wide(x: f64) -> f64 {
    // Beyond these bounds the result rounds to 0 or infinity, as it does at the bounds.
    let x = clamp(x, -160.0, 130.0);
    let k = x + ROUND;
    let r = x - (k - ROUND);
    // 2^r = 1 + r ln 2 + ..., with ln 2 in two f64. Minimax error 2^-57.3 absolute.
    let p = horner!(r;
        2.3190468138462996e-17,
        0.24022650695910133,
        0.05550410866482169,
        0.009618129107593566,
        0.0013333558146387465,
        0.00015403530457843548,
        1.5252733861614901e-05,
        1.3215434915317494e-06,
        1.0178048446254541e-07,
        7.073845666736494e-09,
        4.457131502751815e-10
    );
    scale(1.0 + fma(r, core::f64::consts::LN_2, r * p), k)
}

/// Returns e^x - 1, accurate even if x is near zero.
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
/// assert_eq!(math::expm1(1e-10), 1e-10);
/// assert_eq!(math::expm1(f32::NEG_INFINITY), -1.0);
/// ```
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    let y = if x == 0.0 { x } else { expm1_wide(x as f64) as f32 };
    nan_if(x.is_nan(), y)
}

/// Returns e^x - 1, before rounding to f32.
#[inline(always)]
pub(super) fn expm1_wide(x: f64) -> f64 {
    // Beyond these bounds the result rounds to -1 or infinity, as it does at the bounds.
    let (k, r) = reduce(clamp(x, -30.0, 90.0));
    let s = scale(1.0, k);
    fma(s, expm1_reduced(r), s - 1.0)
}

/// Returns 1 / (1 + e^-x), the logistic function.
///
/// # Determinism
///
/// Correctly rounded for every input, as one function.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::sigmoid(0.0), 0.5);
/// assert_eq!(math::sigmoid(f32::NEG_INFINITY), 0.0);
/// ```
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let (k, r) = sigmoid_reduce(x);
    let y = sigmoid_far(k, exp_reduced(r)) as f32;
    let y = if x.abs() < SIGMOID_NEAR { sigmoid_near(x as f64) as f32 } else { y };
    nan_if(x.is_nan(), y)
}

/// Computes [`sigmoid`] of each element, in steps as [`exp_each`]. Blocks without an element near
/// zero, which are most, skip the formula for those.
#[inline(always)]
pub(super) fn sigmoid_each(input: &[f32], output: &mut [f32]) {
    const BLOCK: usize = 64;
    let (mut powers, mut rests) = (Aligned([0.0; BLOCK]), Aligned([0.0; BLOCK]));
    for (y, x) in output.chunks_mut(BLOCK).zip(input.chunks(BLOCK)) {
        let mut any_near = false;
        for ((k, r), &x) in powers.iter_mut().zip(&mut *rests).zip(x) {
            any_near |= x.abs() < SIGMOID_NEAR;
            (*k, *r) = sigmoid_reduce(x);
        }
        for r in &mut *rests {
            *r = exp_reduced(*r);
        }
        for ((y, &x), (&k, &r)) in y.iter_mut().zip(x).zip(powers.iter().zip(&*rests)) {
            *y = nan_if(x.is_nan(), sigmoid_far(k, r) as f32);
        }
        if any_near {
            for (y, &x) in y.iter_mut().zip(x) {
                let near = sigmoid_near(x as f64) as f32;
                *y = if x.abs() < SIGMOID_NEAR { near } else { *y };
            }
        }
    }
}

/// The bound below which the logistic function is computed from its distance from 1/2: there the
/// function of an f32 can be nearer to a rounding boundary than an f64 can tell.
const SIGMOID_NEAR: f32 = 1.0 / 512.0;

/// Returns [`reduce`] of −x.
#[inline(always)]
fn sigmoid_reduce(x: f32) -> (f64, f64) {
    // Beyond these bounds the result rounds to 0 or 1, as it does at the bounds.
    let x = if x > 110.0 { 110.0 } else { x };
    let x = if x < -110.0 { -110.0 } else { x };
    reduce(-(x as f64))
}

/// Returns the logistic function from `e^r`, with k and r of [`sigmoid_reduce`].
#[inline(always)]
fn sigmoid_far(k: f64, exp_r: f64) -> f64 {
    1.0 / (1.0 + scale(exp_r, k))
}

/// Returns the logistic function for |x| < [`SIGMOID_NEAR`]: 1/2 and Taylor's series of the
/// distance from it. The omitted terms are below 2^-63 of that distance.
#[inline(always)]
fn sigmoid_near(x: f64) -> f64 {
    let u = x * x;
    let quarter = 0.25 * x;
    let rest = u * fma(u, 1.0 / 120.0, -1.0 / 12.0);
    add_odd(0.5, fma(rest, quarter, quarter))
}

/// Returns the hyperbolic tangent.
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
/// assert_eq!(math::tanh(1e-10), 1e-10);
/// assert_eq!(math::tanh(-20.0), -1.0);
/// ```
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    nan_if(x.is_nan(), tanh_wide(x as f64) as f32)
}

/// Returns the hyperbolic tangent, before rounding to f32.
#[inline(always)]
pub(super) fn tanh_wide(x: f64) -> f64 {
    // tanh(20) rounds to 1 by a wide margin.
    let a = x.abs();
    let (k, r) = reduce(2.0 * select(a > 20.0, 20.0, a));
    let s = scale(1.0, k);
    let t = fma(s, expm1_reduced(r), s - 1.0);
    (t / (t + 2.0)).copysign(x)
}

/// Returns the hyperbolic sine.
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
/// assert_eq!(math::sinh(1e-10), 1e-10);
/// assert_eq!(math::sinh(-100.0), f32::NEG_INFINITY);
/// ```
#[inline(always)]
pub fn sinh(x: f32) -> f32 {
    let y = sinh_wide(x as f64) as f32;
    let y = except(x, 0x3a12_85ff, 0x3a12_85ff, y);
    let y = except(x, 0xba12_85ff, 0xba12_85ff, y);
    nan_if(x.is_nan(), y)
}

/// Returns the hyperbolic sine, before rounding to f32.
#[inline(always)]
pub(super) fn sinh_wide(x: f64) -> f64 {
    // sinh(90) rounds to infinity.
    let a = x.abs();
    let (k, r) = reduce(select(a > 90.0, 90.0, a));
    let s = scale(1.0, k);
    let t = fma(s, expm1_reduced(r), s - 1.0);
    (0.5 * (t + t / (t + 1.0))).copysign(x)
}

/// Returns the hyperbolic cosine.
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
/// assert_eq!(math::cosh(0.0), 1.0);
/// assert_eq!(math::cosh(-100.0), f32::INFINITY);
/// ```
#[inline(always)]
pub fn cosh(x: f32) -> f32 {
    nan_if(x.is_nan(), cosh_wide(x as f64) as f32)
}

/// Returns the hyperbolic cosine, before rounding to f32.
#[inline(always)]
pub(super) fn cosh_wide(x: f64) -> f64 {
    // cosh(90) rounds to infinity.
    let a = x.abs();
    let (k, r) = reduce(select(a > 90.0, 90.0, a));
    let e = scale(1.0 + expm1_reduced(r), k);
    0.5 * e + 0.5 / e
}

/// Returns `x`, limited to `low..=high`; a NaN stays NaN.
#[inline(always)]
pub(super) fn clamp(x: f64, low: f64, high: f64) -> f64 {
    let x = select(x > high, high, x);
    select(x < low, low, x)
}

/// Returns (k, x - k ln 2), with the integer k in the low bits of its f64 (see [`ROUND`]).
#[inline(always)]
pub(super) fn reduce(x: f64) -> (f64, f64) {
    let rounded = fma(x, LOG2_E, ROUND);
    let k = rounded - ROUND;
    (rounded, fma(-k, LN_2_LO, fma(-k, LN_2_HI, x)))
}

/// Returns e^r - 1 for |r| <= ln(2)/2.
///
/// Degree 12; minimax error 2^-61.1 relative.
#[inline(always)]
pub(super) fn expm1_reduced(r: f64) -> f64 {
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
    fma(r * r, p, r)
}
