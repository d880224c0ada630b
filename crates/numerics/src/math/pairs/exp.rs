//! The exponential, the logistic function and the hyperbolic tangent.
//!
//! The argument is reduced to x = k ln(2)/n + r, |r| <= ln(2)/2n, and 2^(k/n) comes from a table of
//! n, as many as a vector has elements.

use core::arch::x86_64::{__m256, __m512};

use super::{Bounded, Vector, from_bits, rounded};
use crate::math::exp;

/// The exponential.
pub(in super::super) struct Exp;

/// The logistic function.
pub(in super::super) struct Sigmoid;

/// The hyperbolic tangent.
pub(in super::super) struct Tanh;

/// The constant 1.5 * 2^23: adding it rounds an f32 to an integer, which it leaves in the low bits.
pub(super) const ROUND: f32 = 12_582_912.0;
/// From -LIMIT to LIMIT the exponential is a normal f32.
const LIMIT: f32 = 87.0;
/// From -SIGMOID_LIMIT to SIGMOID_LIMIT the tail of the logistic function is a normal f32.
const SIGMOID_LIMIT: f32 = 64.0;
/// Up to here the hyperbolic tangent is computed from its series.
const TANH_NEAR: f32 = 0.0625;
/// From here on the hyperbolic tangent rounds to 1.
const TANH_LIMIT: f32 = 20.0;
/// Below, the exponential rounds to 0.
const VANISHED: f32 = -104.0;

/// The constants of the reduction for n elements.
trait Reduction: Vector {
    /// n / ln 2.
    const SCALE: f32;
    /// ln(2) / n, rounded.
    const STEP: f32;
    /// ln(2) / n - STEP, rounded.
    const STEP_TAIL: f32;
    /// The powers 2^(i/n), rounded.
    const POWERS: &[f32];
    /// What the roundings of POWERS lost.
    const TAILS: &[f32];
    /// The polynomial (e^r - 1 - r) / r^2, highest coefficient first.
    const POLYNOMIAL: &[f32];
    /// More than the error of e^r, as the coefficients of r^2 and 1: what the f32 of the parts beyond r
    /// can be off, confirmed by trying all inputs.
    const BOUND: [f32; 2];
}

impl Reduction for __m256 {
    const SCALE: f32 = f32::from_bits(0x4138_aa3b);
    const STEP: f32 = f32::from_bits(0x3db1_7218);
    const STEP_TAIL: f32 = f32::from_bits(0xaf82_e308);
    const POWERS: &[f32] = &from_bits([
        0x3f80_0000,
        0x3f8b_95c2,
        0x3f98_37f0,
        0x3fa5_fed7,
        0x3fb5_04f3,
        0x3fc5_672a,
        0x3fd7_44fd,
        0x3fea_c0c7,
    ]);
    const TAILS: &[f32] = &from_bits([
        0x0000_0000,
        0xb260_aba1,
        0x3323_1b71,
        0xb32c_9d5e,
        0x32cf_e77a,
        0x320a_a837,
        0xb2d4_a58a,
        0xb241_16de,
    ]);
    // Taylor's series, whose next term is below 2^-36.
    const POLYNOMIAL: &[f32] = &[1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5];
    const BOUND: [f32; 2] = [2.4e-7, 5e-11];
}

impl Reduction for __m512 {
    const SCALE: f32 = f32::from_bits(0x41b8_aa3b);
    const STEP: f32 = f32::from_bits(0x3d31_7218);
    const STEP_TAIL: f32 = f32::from_bits(0xaf02_e308);
    const POWERS: &[f32] = &from_bits([
        0x3f80_0000,
        0x3f85_aac3,
        0x3f8b_95c2,
        0x3f91_c3d3,
        0x3f98_37f0,
        0x3f9e_f532,
        0x3fa5_fed7,
        0x3fad_583f,
        0x3fb5_04f3,
        0x3fbd_08a4,
        0x3fc5_672a,
        0x3fce_248c,
        0x3fd7_44fd,
        0x3fe0_ccdf,
        0x3fea_c0c7,
        0x3ff5_257d,
    ]);
    const TAILS: &[f32] = &from_bits([
        0x0000_0000,
        0x334f_9891,
        0xb260_aba1,
        0x3367_5624,
        0x3323_1b71,
        0x3341_2342,
        0xb32c_9d5e,
        0xb22d_eaf6,
        0x32cf_e77a,
        0xb341_4fe8,
        0x320a_a837,
        0x3228_fc24,
        0xb2d4_a58a,
        0xb21e_ab59,
        0xb241_16de,
        0x3229_2436,
    ]);
    // Minimax, within 2^-36 of e^r.
    const POLYNOMIAL: &[f32] = &[0.04166755, 0.1666696, 0.5];
    const BOUND: [f32; 2] = [3e-7, 3e-12];
}

/// The exponential as (head + tail) 2^(exponent / 2^23), with the sum in about 1 to 2.
struct Pair<V: Vector> {
    head: V,
    /// At most 2^-9 in magnitude.
    tail: V,
    /// More than the error of the sum.
    bound: V,
    exponent: V::Bits,
}

/// Returns e^x, for x from -[`LIMIT`] to [`LIMIT`].
///
/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn exp_pair<V: Reduction>(x: V) -> Pair<V> {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let shifted = x.fma(V::splat(V::SCALE), V::splat(ROUND));
        let k = shifted.sub(V::splat(ROUND));
        // x - k STEP is a multiple of the last place of x, or k = 0, so it is exact.
        let r_head = k.fma_negated(V::splat(V::STEP), x);
        let r_tail = k.mul(V::splat(-V::STEP_TAIL));
        let r = r_head.add(r_tail);

        // e^r - 1 - r.
        let square = r.mul(r);
        let mut p = V::splat(V::POLYNOMIAL[0]);
        for &coefficient in &V::POLYNOMIAL[1..] {
            p = p.fma(r, V::splat(coefficient));
        }
        let beyond = square.fma(p, r_tail);

        // The low bits of k are the place in the table.
        let bits = shifted.bits();
        let power = V::lookup(bits, V::POWERS);
        let power_tail = V::lookup(bits, V::TAILS);

        // (power + power_tail) (1 + r_head + beyond), without power_tail * beyond. What the rounding
        // of head lost is exact.
        let head = power.fma(r_head, power);
        let lost = power.fma(r_head, power.sub(head));
        let tail = power_tail.fma(r, power_tail);
        let tail = power.fma(beyond, lost.add(tail));

        // The other bits of k are the exponent; those of ROUND leave at the top.
        let exponent = V::to_exponent(bits);
        let bound = square.fma(V::splat(V::BOUND[0]), V::splat(V::BOUND[1]));
        Pair { head, tail, bound, exponent }
    }
}

/// Returns where the magnitude of `x` is at most `limit` and `is_certain` holds.
///
/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn certain_up_to<V: Vector>(limit: f32, x: V, is_certain: V::Mask) -> V::Mask {
    // SAFETY: the caller guarantees the instructions.
    unsafe { V::both(is_certain, x.abs().is_at_most(V::splat(limit))) }
}

/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn exp_nearest<V: Reduction>(x: V) -> (V, V::Mask) {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let Pair { head, tail, bound, exponent } = exp_pair(x);
        let (y, is_certain) = rounded(head, tail, bound);
        (y.add_bits(exponent), certain_up_to(LIMIT, x, is_certain))
    }
}

// SAFETY: all is inlined, and the caller guarantees the instructions.
unsafe impl<V: Reduction> Bounded<V, 2> for Exp {
    #[inline(always)]
    unsafe fn nearest(x: [V; 2]) -> [(V, V::Mask); 2] {
        // SAFETY: as above.
        unsafe { [exp_nearest(x[0]), exp_nearest(x[1])] }
    }

    #[inline(always)]
    unsafe fn completed(x: V, (y, is_certain): (V, V::Mask)) -> (V, V::Mask) {
        // SAFETY: as above.
        unsafe {
            // Masks of attention are minus infinity.
            let has_vanished = x.is_at_most(V::splat(VANISHED));
            let y = V::select(has_vanished, V::splat(0.0), y);
            (y, V::either(is_certain, has_vanished))
        }
    }

    #[inline(always)]
    unsafe fn again(x: &[f32], y: &mut [f32]) {
        for (x, y) in x.as_chunks::<8>().0.iter().zip(y.as_chunks_mut().0) {
            exp::exp_block(x, y);
        }
    }
}

/// The exponential of -|x|: head, tail and more than their relative error.
struct Falling<V> {
    e: V,
    e_tail: V,
    bound: V,
}

/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn falling_exp<V: Reduction>(x: V) -> Falling<V> {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let Pair { head, tail, bound, exponent } = exp_pair(x.negative());
        let power = V::splat(1.0).add_bits(exponent);
        let sum = head.add(tail);
        let lost = tail.sub(sum.sub(head));
        // The sum is above 16/17.
        let bound = bound.mul(V::splat(1.0625));
        Falling { e: sum.mul(power), e_tail: lost.mul(power), bound }
    }
}

/// Returns the quotient of two pairs, the inverse of the divisor, and what both lack in the quotient.
///
/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn quotient<V: Vector>(dividend: [V; 2], divisor: [V; 2]) -> (V, V, V) {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let inverse = V::splat(1.0).div(divisor[0]);
        let quotient = dividend[0].mul(inverse);
        // What is left of the dividend.
        let left = quotient.fma_negated(divisor[0], dividend[0]);
        let left = quotient.fma_negated(divisor[1], left.add(dividend[1]));
        (quotient, inverse, left.mul(inverse))
    }
}

/// Computes e^x / (1 + e^x) for negative x and 1 / (1 + e^-x) for others, as a quotient of pairs.
///
/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn sigmoid_nearest<V: Vector>(x: V, falling: Falling<V>) -> (V, V::Mask) {
    let Falling { e, e_tail, bound } = falling;
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        // 1 + e, and what its rounding lost, which is exact.
        let divisor = one.add(e);
        let divisor_tail = e.sub(divisor.sub(one)).add(e_tail);
        let is_negative = x.is_negative();
        let dividend = V::select(is_negative, e, one);
        let dividend_tail = V::select(is_negative, e_tail, zero);
        let (quotient, _, tail) = quotient([dividend, dividend_tail], [divisor, divisor_tail]);
        // An error of e changes the result by s (1 - s) times its relative size.
        let slope = quotient.fma_negated(quotient, quotient);
        let bound = slope.fma(bound, quotient.mul(V::splat(4e-14)));
        let (y, is_certain) = rounded(quotient, tail, bound);
        (y, certain_up_to(SIGMOID_LIMIT, x, is_certain))
    }
}

// SAFETY: all is inlined, and the caller guarantees the instructions.
unsafe impl<V: Reduction> Bounded<V, 4> for Sigmoid {
    /// Each half of the chain of operations runs over all vectors: the whole is too long for the
    /// processor to reach the next vector.
    #[inline(always)]
    unsafe fn nearest(x: [V; 4]) -> [(V, V::Mask); 4] {
        // SAFETY: as above.
        unsafe {
            let falling =
                [falling_exp(x[0]), falling_exp(x[1]), falling_exp(x[2]), falling_exp(x[3])];
            let [a, b, c, d] = falling;
            [
                sigmoid_nearest(x[0], a),
                sigmoid_nearest(x[1], b),
                sigmoid_nearest(x[2], c),
                sigmoid_nearest(x[3], d),
            ]
        }
    }

    #[inline(always)]
    unsafe fn again(x: &[f32], y: &mut [f32]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = exp::sigmoid(x);
        }
    }
}

/// Returns min(|x|, [`TANH_LIMIT`]), or NaN.
///
/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn tanh_within<V: Vector>(x: V) -> V {
    // SAFETY: the caller guarantees the instructions.
    unsafe { V::splat(TANH_LIMIT).min(x.abs()) }
}

/// Computes (1 - e) / (1 + e) as a quotient of pairs, given e = exp(-2|x|), or near zero the series.
///
/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn tanh_nearest<V: Vector>(x: V, falling: Falling<V>) -> (V, V::Mask) {
    let Falling { e, e_tail, bound } = falling;
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let one = V::splat(1.0);
        // What the roundings of these sums lost is exact.
        let (divisor, dividend) = (one.add(e), one.sub(e));
        let divisor_tail = e.sub(divisor.sub(one)).add(e_tail);
        let dividend_tail = one.sub(dividend).sub(e).sub(e_tail);
        let (quotient, inverse, tail) =
            quotient([dividend, dividend_tail], [divisor, divisor_tail]);
        // An error of e changes the result by 2 e / (1 + e)^2 times its relative size.
        let slope = e.mul(inverse).mul(inverse);
        let bound = slope.fma(bound.add(bound), quotient.mul(V::splat(2e-13)));

        let a = tanh_within(x);
        let square = a.mul(a);
        let cube = a.mul(square);
        // The next term is below 2^-37 of the result.
        let p = square.fma(V::splat(-17.0 / 315.0), V::splat(2.0 / 15.0));
        let p = square.fma(p, V::splat(-1.0 / 3.0));
        let is_near = a.is_at_most(V::splat(TANH_NEAR));
        let head = V::select(is_near, a, quotient);
        let tail = V::select(is_near, cube.mul(p), tail);
        let bound = V::select(is_near, cube.mul(V::splat(1e-7)), bound);
        let (y, is_certain) = rounded(head, tail, bound);
        (y.with_sign(x), is_certain)
    }
}

// SAFETY: all is inlined, and the caller guarantees the instructions.
unsafe impl<V: Reduction> Bounded<V, 2> for Tanh {
    #[inline(always)]
    unsafe fn nearest(x: [V; 2]) -> [(V, V::Mask); 2] {
        // SAFETY: as above.
        unsafe {
            let [a, b] = [tanh_within(x[0]), tanh_within(x[1])];
            let [a, b] = [falling_exp(a.add(a)), falling_exp(b.add(b))];
            [tanh_nearest(x[0], a), tanh_nearest(x[1], b)]
        }
    }

    #[inline(always)]
    unsafe fn again(x: &[f32], y: &mut [f32]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = exp::tanh(x);
        }
    }
}
