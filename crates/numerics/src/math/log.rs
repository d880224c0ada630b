//! Logarithms.
//!
//! x = 2^k m with m between sqrt(1/2) and sqrt(2), s = (m - 1) / (m + 1), and log m = 2 atanh s by
//! a minimax polynomial in s^2 (Cody and Waite, *Software Manual for the Elementary Functions*,
//! 1980, chapter 5). m - 1 and m + 1 are exact, so s has only one rounding, and the result is
//! accurate even near zero.

use super::blocks::in_blocks;
use super::fma::{add_odd, except, fma, horner, nan_if, select};

const LOG2_E: f64 = core::f64::consts::LOG2_E;
const LOG10_E: f64 = core::f64::consts::LOG10_E;
/// The leading 40 bits of ln 2.
const LN_2_HI: f64 = f64::from_bits(0x3fe6_2e42_fefa_2000);
/// ln 2 - LN_2_HI, rounded.
const LN_2_LO: f64 = f64::from_bits(0x3d69_ef35_793c_7673);

/// Returns the natural logarithm.
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
    Natural::value(x)
}

/// A logarithm in steps, each of which runs over a block of elements.
trait Logarithm {
    /// Reduces the argument: everything up to the division. Returns [k, s, 0] with x = 2^k m and
    /// s = (m - 1) / (m + 1), but for [`OnePlus`].
    #[inline(always)]
    fn reduce(x: f64) -> [f64; 3] {
        let (k, m) = split(x);
        [k, (m - 1.0) / (m + 1.0), 0.0]
    }

    /// Returns the logarithm of a positive finite f32 (above -1 for [`OnePlus`]) as the sum of a
    /// large part and a small one, from the reduced argument.
    fn parts(reduced: [f64; 3]) -> (f64, f64);

    /// Rounds the logarithm of `x`, and replaces that of zero, infinity, NaN and negative numbers by
    /// the one of IEEE 754.
    #[inline(always)]
    fn finish(x: f32, y: f64) -> f32 {
        let y = if x == f32::INFINITY { f32::INFINITY } else { y as f32 };
        let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
        nan_if(x.is_nan() | (x < 0.0), y)
    }

    /// Computes [`finish`](Logarithm::finish) of an element of a block that is
    /// [`plain`](Logarithm::is_plain), whose sum is not midway between two f32.
    #[inline(always)]
    fn finish_plain(x: f32, y: f64) -> f32 {
        Self::finish(x, y)
    }

    /// Tells if a block has none of the elements that [`finish_plain`](Logarithm::finish_plain)
    /// leaves out.
    #[inline(always)]
    fn is_plain(_: &[f32; BLOCK]) -> bool {
        true
    }

    #[inline(always)]
    fn value(x: f32) -> f32 {
        let (high, low) = Self::parts(Self::reduce(x as f64));
        Self::finish(x, add_odd(high, low))
    }

    #[inline(always)]
    fn block(x: &[f32; BLOCK], y: &mut [f32; BLOCK]) {
        let [mut a, mut b, mut c] = [[0.0; BLOCK]; 3];
        for i in 0..BLOCK {
            [a[i], b[i], c[i]] = Self::reduce(x[i] as f64);
        }
        // The least distance of the bits of a sum below those of an f32 from midway between two.
        let mut least = u64::MAX;
        for i in 0..BLOCK {
            let (high, low) = Self::parts([a[i], b[i], c[i]]);
            let sum = high + low;
            least = least.min((sum.to_bits() << 35) ^ (1 << 63));
            y[i] = Self::finish_plain(x[i], sum);
        }
        // A sum that is not midway lies on the same side as the exact one. Few blocks have another.
        if least == 0 || !Self::is_plain(x) {
            for i in 0..BLOCK {
                y[i] = Self::value(x[i]);
            }
        }
    }
}

const BLOCK: usize = 64;

/// Computes [`log()`] of each element.
#[inline(always)]
pub(super) fn log_each(input: &[f32], output: &mut [f32]) {
    in_blocks!(Natural::block, BLOCK, input, output);
}

/// Computes [`log2()`] of each element.
#[inline(always)]
pub(super) fn log2_each(input: &[f32], output: &mut [f32]) {
    in_blocks!(Binary::block, BLOCK, input, output);
}

/// Computes [`log10()`] of each element.
#[inline(always)]
pub(super) fn log10_each(input: &[f32], output: &mut [f32]) {
    in_blocks!(Decimal::block, BLOCK, input, output);
}

/// Computes [`log1p()`] of each element.
#[inline(always)]
pub(super) fn log1p_each(input: &[f32], output: &mut [f32]) {
    in_blocks!(OnePlus::block, BLOCK, input, output);
}

/// [`log()`].
struct Natural;

impl Logarithm for Natural {
    #[inline(always)]
    fn parts([k, s, _]: [f64; 3]) -> (f64, f64) {
        (k * LN_2_HI, 2.0 * s + fma(k, LN_2_LO, atanh_rest(s)))
    }
}

/// Returns the logarithm to base 2.
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
/// assert_eq!(math::log2(0.125), -3.0);
/// ```
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    Binary::value(x)
}

/// [`log2()`].
struct Binary;

impl Logarithm for Binary {
    #[inline(always)]
    fn parts([k, s, _]: [f64; 3]) -> (f64, f64) {
        (k, log2_m(s))
    }
}

/// Returns the logarithm to base 2 of a positive finite f32 as a sum of two, within 2^-51
/// relatively.
#[inline(always)]
pub(super) fn log2_parts(x: f64) -> (f64, f64) {
    let [k, s, _] = Binary::reduce(x);
    let low = log2_m(s);
    let high = k + low;
    (high, low - (high - k))
}

/// Returns log2(m), at most 1/2 in magnitude, from s = (m - 1) / (m + 1).
#[inline(always)]
fn log2_m(s: f64) -> f64 {
    /// log2(e) - LOG2_E, rounded.
    const LOG2_E_LO: f64 = f64::from_bits(0x3c77_77d0_ffda_0d24);
    let (s2, rest) = (2.0 * s, atanh_rest(s));
    fma(s2, LOG2_E, fma(s2, LOG2_E_LO, rest * LOG2_E))
}

/// Returns the logarithm to base 10.
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
/// assert_eq!(math::log10(1000.0), 3.0);
/// ```
#[inline(always)]
pub fn log10(x: f32) -> f32 {
    Decimal::value(x)
}

/// [`log10()`].
struct Decimal;

impl Logarithm for Decimal {
    #[inline(always)]
    fn parts([k, s, _]: [f64; 3]) -> (f64, f64) {
        /// log10(e) - LOG10_E, rounded.
        const LOG10_E_LO: f64 = f64::from_bits(0x3c69_5355_baaa_fad3);
        /// The leading 40 bits of log10(2).
        const LOG10_2_HI: f64 = f64::from_bits(0x3fd3_4413_509f_6000);
        /// log10(2) - LOG10_2_HI, rounded.
        const LOG10_2_LO: f64 = f64::from_bits(0x3d59_fef3_11f1_2b36);
        let s2 = 2.0 * s;
        let tail = fma(s2, LOG10_E_LO, fma(atanh_rest(s), LOG10_E, k * LOG10_2_LO));
        (k * LOG10_2_HI, fma(s2, LOG10_E, tail))
    }
}

/// Returns log(1 + x), accurate even if x is near zero.
///
/// # Determinism
///
/// Correctly rounded for every input. Minus infinity at -1, NaN below.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::log1p(1e-10), 1e-10);
/// assert_eq!(math::log1p(-1.0), f32::NEG_INFINITY);
/// ```
#[inline(always)]
pub fn log1p(x: f32) -> f32 {
    OnePlus::value(x)
}

/// [`log1p()`].
struct OnePlus;

impl Logarithm for OnePlus {
    #[inline(always)]
    fn reduce(x: f64) -> [f64; 3] {
        let (k, _) = split(1.0 + x);
        // f = 2^-k (1 + x) - 1, from x itself; for k = 0 it is x, without error.
        let s = f64::from_bits(((1023.0 + 4503599627370496.0) - k).to_bits() << 52);
        let f = fma(x, s, s - 1.0);
        [k, f, f / (2.0 + f)]
    }

    #[inline(always)]
    fn parts([k, f, s]: [f64; 3]) -> (f64, f64) {
        // log(1 + f) = f - (f^2/2 - s (f^2/2 + R)), as in fdlibm: f has no error, and the
        // subtrahend is smaller.
        let half = 0.5 * f * f;
        let z = s * s;
        let correction = half - s * fma(z, atanh_tail(z), half);
        let near = k == 0.0;
        let high = select(near, f, k * LN_2_HI);
        (high, fma(k, LN_2_LO, select(near, -correction, f - correction)))
    }

    #[inline(always)]
    fn finish(x: f32, y: f64) -> f32 {
        let y = except(x, 0x3efd_81ad, 0x3ecd_eee1, Self::finish_plain(x, y));
        let y = if x == f32::INFINITY { f32::INFINITY } else { y };
        let y = if x == -1.0 { f32::NEG_INFINITY } else { y };
        nan_if(x.is_nan() | (x < -1.0), y)
    }

    #[inline(always)]
    fn finish_plain(x: f32, y: f64) -> f32 {
        // Smaller arguments are their own result, which may be subnormal.
        const SMALL: f32 = f32::from_bits(0x0d80_0000);
        if x.abs() < SMALL { x } else { y as f32 }
    }

    #[inline(always)]
    fn is_plain(x: &[f32; BLOCK]) -> bool {
        // Below infinity in magnitude, and above -1: their bits are smaller.
        let (mut largest, mut lowest) = (0, 0);
        for x in x {
            largest = largest.max(x.abs().to_bits());
            lowest = lowest.max(x.to_bits());
        }
        largest < f32::INFINITY.to_bits() && lowest < (-1.0f32).to_bits()
    }
}

/// Returns (k, m) with x = 2^k m and sqrt(1/2) <= m < sqrt(2).
#[inline(always)]
pub(super) fn split(x: f64) -> (f64, f64) {
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

/// Returns log m - 2s = 2 atanh s - 2s.
#[inline(always)]
fn atanh_rest(s: f64) -> f64 {
    let z = s * s;
    s * z * atanh_tail(z)
}

/// Returns (2 atanh s - 2s) / s^3 for z = s^2, |s| <= 0.1716. Minimax error 2^-58.4 of 2 s^3.
#[inline(always)]
fn atanh_tail(z: f64) -> f64 {
    horner!(z;
        0.6666666666666734,
        0.3999999999941653,
        0.2857142874206991,
        0.22222198599483725,
        0.18183563195905386,
        0.15314074804554312,
        0.14795744705550054
    )
}
