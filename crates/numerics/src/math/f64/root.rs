//! Roots.

#[cfg(not(feature = "std"))]
use crate::Ieee as _;

use super::super::fma::{fma, select};
use super::{each_plain, nan_if};

/// Returns the square root, correctly rounded as IEEE 754 defines it, with one NaN.
///
/// # Determinism
///
/// Correctly rounded.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::sqrt(9.0), 3.0);
/// ```
#[inline(always)]
pub fn sqrt(x: f64) -> f64 {
    // An integer test: LLVM removes a choice between the root of a negative number and a NaN.
    let bits = x.sqrt().to_bits();
    let nan = bits & 0x7fff_ffff_ffff_ffff > 0x7ff0_0000_0000_0000;
    f64::from_bits(if nan { 0x7ff8_0000_0000_0000 } else { bits })
}

/// Returns 1 / sqrt(x): at both zeros, the infinity of their sign.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.51 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::rsqrt(4.0), 0.5);
/// ```
#[inline(always)]
pub fn rsqrt(x: f64) -> f64 {
    // Keeps clear of subnormal products: x 2^108 has the root 2^54 sqrt(x).
    const UP: f64 = f64::from_bits((1023 + 108) << 52);
    const DOWN: f64 = f64::from_bits((1023 - 108) << 52);
    const ROOT_UP: f64 = f64::from_bits((1023 + 54) << 52);
    const ROOT_DOWN: f64 = f64::from_bits((1023 - 54) << 52);
    let (tiny, huge) = (x < TINY, x > HUGE);
    let y = rsqrt_plain(x * select(tiny, UP, select(huge, DOWN, 1.0)));
    let y = y * select(tiny, ROOT_UP, select(huge, ROOT_DOWN, 1.0));
    let y = select(x == f64::INFINITY, 0.0, y);
    let y = select(x == 0.0, f64::INFINITY.copysign(x), y);
    nan_if(x.is_nan() | (x < 0.0), y)
}

/// Computes [`rsqrt`] of each element. The loops vectorise with the instruction set of the kernel around
/// them.
#[doc(hidden)]
#[inline(always)]
pub fn rsqrt_each(input: &[f64], output: &mut [f64]) {
    each_plain(input, output, |x| (TINY..=HUGE).contains(&x), rsqrt_plain, rsqrt);
}

/// The least and the largest number whose [`rsqrt`] is [`rsqrt_plain`].
const TINY: f64 = 1e-200;
const HUGE: f64 = 1e200;

/// Returns 1 / sqrt(x) of a positive number far from both ends of the range.
#[inline(always)]
fn rsqrt_plain(x: f64) -> f64 {
    let y = 1.0 / x.sqrt();
    // One Newton step, whose residual 1 - x y^2 is computed without cancellation.
    let square = y * y;
    let square_low = fma(y, y, -square);
    let e = fma(-x, square, 1.0) - x * square_low;
    fma(0.5 * y, e, y)
}
