//! The power function.

#[cfg(not(feature = "std"))]
use crate::Ieee as _;

use super::super::dd::{Dd, ODD_RECIPROCALS};
use super::super::fma::{ROUND, fma, scale, select};
use super::nan_if;
use crate::simd::Aligned;

/// Returns x^y, computed in double-double arithmetic. Special values are those of C's `pow` (Annex
/// F).
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.75 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::pow(2.0, 10.0), 1024.0);
/// ```
#[inline(always)]
pub fn pow(x: f64, y: f64) -> f64 {
    let (value, decided) = fast(x, y);
    if decided { value } else { decide(x, y) }
}

/// Computes `out[i] = pow(x(i), y(i))`.
///
/// Each step runs over a block of elements, so that their chains of operations overlap. The loops vectorise
/// with the instruction set of the kernel around them.
#[doc(hidden)]
#[inline(always)]
pub fn pow_each(x: impl Fn(usize) -> f64, y: impl Fn(usize) -> f64, out: &mut [f64]) {
    let [mut bases, mut exponents] = [Aligned([1.0; BLOCK]); 2];
    for (block, out) in out.chunks_mut(BLOCK).enumerate() {
        let inputs = bases.iter_mut().zip(&mut *exponents);
        for (i, (base, exponent)) in (block * BLOCK..).zip(inputs.take(out.len())) {
            (*base, *exponent) = (x(i), y(i));
        }
        if !fast_block(&bases, &exponents, out) {
            for (out, (&x, &y)) in out.iter_mut().zip(bases.iter().zip(&*exponents)) {
                *out = pow(x, y);
            }
        }
    }
}

/// The number of elements that go through each step together.
const BLOCK: usize = 64;

/// Computes [`fast`] of each element. Returns true if all are decided.
#[inline(always)]
fn fast_block(x: &[f64; BLOCK], y: &[f64; BLOCK], out: &mut [f64]) -> bool {
    // Whole vectors, since what remains of a loop is computed element by element.
    let n = out.len().next_multiple_of(8).min(BLOCK);
    let (mut scales, mut quotients) = (Aligned([0.0; BLOCK]), Block::new());
    let [mut squares, mut p] = [Block::new(), Block::new()];
    for i in 0..n {
        let (k, s) = log_start(x[i]);
        scales[i] = k;
        quotients.set(i, s);
        squares.set(i, times(s, s));
    }
    for i in 0..n {
        p.set(i, log_rest(squares.get(i)));
    }
    for &reciprocal in LOG_TERMS.iter().rev() {
        for i in 0..n {
            p.set(i, times(plus(reciprocal, p.get(i)), squares.get(i)));
        }
    }
    let mut powers = quotients;
    for i in 0..n {
        powers.set(i, power_of(log_finish(scales[i], powers.get(i), p.get(i)), y[i]));
    }
    let mut rests = squares;
    for i in 0..n {
        let (r, rounded) = exp_start(within(powers.get(i)));
        rests.set(i, r);
        scales[i] = rounded;
    }
    for i in 0..n {
        p.set(i, exp_rest(rests.get(i)));
    }
    for &inverse in EXP_TERMS.iter().rev() {
        for i in 0..n {
            p.set(i, times(plus(inverse, p.get(i)), rests.get(i)));
        }
    }
    let mut results = Aligned([0.0; BLOCK]);
    let mut undecided = 0;
    for i in 0..n {
        let (value, decided) =
            finish(x[i], y[i], powers.get(i), (plus(Dd::new(1.0), p.get(i)), scales[i]));
        results[i] = value;
        undecided |= u64::from(!decided);
    }
    out.copy_from_slice(&results[..out.len()]);
    undecided == 0
}

/// Several double-double numbers.
#[derive(Clone, Copy)]
struct Block {
    high: Aligned<[f64; BLOCK]>,
    low: Aligned<[f64; BLOCK]>,
}

impl Block {
    #[inline(always)]
    fn new() -> Block {
        Block { high: Aligned([0.0; BLOCK]), low: Aligned([0.0; BLOCK]) }
    }

    #[inline(always)]
    fn get(&self, i: usize) -> Dd {
        Dd { high: self.high[i], low: self.low[i] }
    }

    #[inline(always)]
    fn set(&mut self, i: usize, value: Dd) {
        (self.high[i], self.low[i]) = (value.high, value.low);
    }
}

/// Returns x^y, and true if it is certain to be what [`decide`] returns: `decide` is within 2^-89
/// of the power, relatively, so the two round to the same f64 if all values within [`ERROR`] do.
#[inline(always)]
fn fast(x: f64, y: f64) -> (f64, bool) {
    let t = power_of(log(x), y);
    finish(x, y, t, exp(within(t)))
}

/// Returns `a + b` for |a| >= |b|, or for `a` 0, within 2^-100 relatively; the low part may be an ulp of the
/// high one.
///
/// This and [`times`] take a third of the operations of [`Dd::add`] and [`Dd::mul`]. Results that are
/// decided do not depend on them.
#[inline(always)]
fn plus(a: Dd, b: Dd) -> Dd {
    let high = a.high + b.high;
    Dd { high, low: (b.high - (high - a.high)) + (a.low + b.low) }
}

/// Returns `a · b`, as [`plus`].
#[inline(always)]
fn times(a: Dd, b: Dd) -> Dd {
    let high = a.high * b.high;
    let low = fma(a.low, b.high, fma(a.high, b.low, fma(a.high, b.high, -high)));
    Dd { high, low }
}

/// Returns `log · y`, as [`plus`].
#[inline(always)]
fn power_of(log: Dd, y: f64) -> Dd {
    let high = log.high * y;
    Dd { high, low: fma(log.low, y, fma(log.high, y, -high)) }
}

/// The largest relative error of a power. The logarithm is within 2^-80, so its product with `y` is
/// within 2^-70.5; the terms of the exponential that are added in f64 are below 2^-18.7, so their
/// rounding errors are below 2^-69.5.
const ERROR: f64 = 1.0 / (1u128 << 67) as f64;

/// Returns true if the exponential of `t` is neither huge nor tiny.
#[inline(always)]
fn in_range(t: Dd) -> bool {
    t.high.abs() < 700.0
}

/// Returns `t`, or 0 if it is out of range.
#[inline(always)]
fn within(t: Dd) -> Dd {
    let kept = in_range(t);
    Dd { high: select(kept, t.high, 0.0), low: select(kept, t.low, 0.0) }
}

/// Returns the result of [`fast`] from the product `t` of `y` and the logarithm, and its exponential.
#[inline(always)]
fn finish(x: f64, y: f64, t: Dd, (p, n): (Dd, f64)) -> (f64, bool) {
    let a = x.abs();
    let zero = (a == 0.0) & (y != 0.0);
    let error = p.high * ERROR;
    let (below, above) = (p.high + (p.low - error), p.high + (p.low + error));
    let (integer, odd) = parity(y);
    let magnitude = select(zero, select(y > 0.0, 0.0, f64::INFINITY), scale(above, n));
    let value = select(odd & x.is_sign_negative(), -magnitude, magnitude);
    let same = below.to_bits() == above.to_bits();
    let decided = is_normal(a) & in_range(t) & same & ((x > 0.0) | integer);
    (value, decided | (zero & !y.is_nan()))
}

/// Returns true if the magnitude `a` is neither zero, subnormal, infinite nor NaN.
#[inline(always)]
fn is_normal(a: f64) -> bool {
    (f64::MIN_POSITIVE..f64::INFINITY).contains(&a)
}

/// Returns two truth values: `y` is an integer, and `y` is an odd integer. Infinities count as
/// even.
#[inline(always)]
fn parity(y: f64) -> (bool, bool) {
    let half = 0.5 * y;
    let integer = y.trunc() == y;
    (integer, integer & (y.abs() < 9007199254740992.0) & (half.trunc() != half))
}

/// The terms of the logarithm that are added in full: those below z^5.
const LOG_TERMS: [Dd; 4] =
    [ODD_RECIPROCALS[1], ODD_RECIPROCALS[2], ODD_RECIPROCALS[3], ODD_RECIPROCALS[4]];

/// Returns the natural logarithm of |x|, within 2^-80 relatively; of 1 unless `x` is normal.
#[inline(always)]
fn log(x: f64) -> Dd {
    let (k, s) = log_start(x);
    let z = times(s, s);
    let mut p = log_rest(z);
    for &reciprocal in LOG_TERMS.iter().rev() {
        p = times(plus(reciprocal, p), z);
    }
    log_finish(k, s, p)
}

/// Returns k and (m - 1) / (m + 1) for |x| = 2^k m.
#[inline(always)]
fn log_start(x: f64) -> (f64, Dd) {
    let a = x.abs();
    let (k, m) = super::super::log::split(select(is_normal(a), a, 1.0));
    // m is in [√½, √2]: m - 1 is exact, and 1 has the exponent of m or a larger one.
    let above = m - 1.0;
    let below = 1.0 + m;
    let low = m - (below - 1.0);
    let reciprocal = 1.0 / below;
    let high = above * reciprocal;
    let rest = fma(-high, low, fma(-high, below, above));
    (k, Dd { high, low: rest * reciprocal })
}

/// Returns the terms from z^5 on, divided by z^4. They are below 2^-29 of the whole, so f64 is enough; those
/// from z^16 on are below 2^-86.
#[inline(always)]
fn log_rest(z: Dd) -> Dd {
    let mut rest = ODD_RECIPROCALS[15].high;
    for reciprocal in ODD_RECIPROCALS[5..15].iter().rev() {
        rest = fma(rest, z.high, reciprocal.high);
    }
    times(Dd::new(rest), z)
}

/// Returns the logarithm from the results of [`log_start`] and the sum of the terms from z on.
#[inline(always)]
fn log_finish(k: f64, s: Dd, p: Dd) -> Dd {
    let log_m = times(s.scaled(2.0), plus(Dd::new(1.0), p));
    plus(Dd::multiple_of_ln_2(k), log_m)
}

/// The values 1/k!, of which the terms of [`exp`] need the first six in full.
const INVERSE_FACTORIALS: [Dd; 19] = [
    Dd { high: 1.0, low: 0.0 },
    Dd { high: 1.0, low: 0.0 },
    Dd { high: 0.5, low: 0.0 },
    Dd { high: f64::from_bits(0x3fc5_5555_5555_5555), low: f64::from_bits(0x3c65_5555_5555_5555) },
    Dd { high: f64::from_bits(0x3fa5_5555_5555_5555), low: f64::from_bits(0x3c45_5555_5555_5555) },
    Dd { high: f64::from_bits(0x3f81_1111_1111_1111), low: f64::from_bits(0x3c01_1111_1111_1111) },
    Dd { high: f64::from_bits(0x3f56_c16c_16c1_6c17), low: 0.0 },
    Dd { high: f64::from_bits(0x3f2a_01a0_1a01_a01a), low: 0.0 },
    Dd { high: f64::from_bits(0x3efa_01a0_1a01_a01a), low: 0.0 },
    Dd { high: f64::from_bits(0x3ec7_1de3_a556_c734), low: 0.0 },
    Dd { high: f64::from_bits(0x3e92_7e4f_b778_9f5c), low: 0.0 },
    Dd { high: f64::from_bits(0x3e5a_e645_67f5_44e4), low: 0.0 },
    Dd { high: f64::from_bits(0x3e21_eed8_eff8_d898), low: 0.0 },
    Dd { high: f64::from_bits(0x3de6_1246_13a8_6d09), low: 0.0 },
    Dd { high: f64::from_bits(0x3da9_3974_a8c0_7c9d), low: 0.0 },
    Dd { high: f64::from_bits(0x3d6a_e7f3_e733_b81f), low: 0.0 },
    Dd { high: f64::from_bits(0x3d2a_e7f3_e733_b81f), low: 0.0 },
    Dd { high: f64::from_bits(0x3ce9_52c7_7030_ad4a), low: 0.0 },
    Dd { high: f64::from_bits(0x3ca6_8278_63b9_7d97), low: 0.0 },
];

/// The terms of the exponential that are added in full.
const EXP_TERMS: [Dd; 5] = [
    INVERSE_FACTORIALS[1],
    INVERSE_FACTORIALS[2],
    INVERSE_FACTORIALS[3],
    INVERSE_FACTORIALS[4],
    INVERSE_FACTORIALS[5],
];

/// Returns (p, [`ROUND`] + n) with e^x = 2^n p, for |x| < 700.
#[inline(always)]
fn exp(x: Dd) -> (Dd, f64) {
    let (r, rounded) = exp_start(x);
    let mut p = exp_rest(r);
    for &inverse in EXP_TERMS.iter().rev() {
        p = times(plus(inverse, p), r);
    }
    (plus(Dd::new(1.0), p), rounded)
}

/// Returns (r, [`ROUND`] + n) with x = n ln 2 + r.
#[inline(always)]
fn exp_start(x: Dd) -> (Dd, f64) {
    let rounded = x.high * core::f64::consts::LOG2_E + ROUND;
    (x.add(Dd::multiple_of_ln_2(ROUND - rounded)), rounded)
}

/// Returns the terms from r^6 on, divided by r^5. |r| <= 0.35, so those from r^19 on are below 2^-85, and
/// those in f64 below 2^-18.7.
#[inline(always)]
fn exp_rest(r: Dd) -> Dd {
    let mut rest = INVERSE_FACTORIALS[18].high;
    for inverse in INVERSE_FACTORIALS[6..18].iter().rev() {
        rest = fma(rest, r.high, inverse.high);
    }
    times(Dd::new(rest), r)
}

/// Returns x^y for inputs that [`fast`] could not decide.
#[cold]
#[inline(never)]
fn decide(x: f64, y: f64) -> f64 {
    let (integer, odd) = parity(y);
    if x == 1.0 || y == 0.0 {
        return 1.0;
    }
    let negative = x < 0.0;
    if x.is_nan() || y.is_nan() || (negative && x.is_finite() && !integer) {
        return nan_if(true, 0.0);
    }
    let a = x.abs();
    let magnitude = if a == 1.0 {
        1.0
    } else if a == 0.0 || a == f64::INFINITY || y.is_infinite() {
        if (a > 1.0) == (y > 0.0) { f64::INFINITY } else { 0.0 }
    } else {
        power(a, y)
    };
    if odd && x.is_sign_negative() { -magnitude } else { magnitude }
}

/// Returns a^y for finite a > 0 other than 1 and finite y other than 0.
#[inline(always)]
fn power(a: f64, y: f64) -> f64 {
    let tiny = a < f64::MIN_POSITIVE;
    let log = if tiny {
        // A subnormal number: 2^-54 times a normal number.
        Dd::log(a * 18014398509481984.0).add(Dd::multiple_of_ln_2(-54.0))
    } else {
        Dd::log(a)
    };
    // If the product's error term is out of range, the sign of the exponent decides.
    let rough = log.high * y;
    if rough > 720.0 {
        return f64::INFINITY;
    }
    if rough < -760.0 {
        return 0.0;
    }
    log.mul(Dd::new(y)).exp_f64()
}

/// Returns `base` to the power `exponent` by repeated squaring: the same products on every machine.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math::f64::powi;
///
/// assert_eq!(powi(0.9, 0), 1.0);
/// assert_eq!(powi(0.9, 1), 0.9);
/// assert_eq!(powi(2.0, 10), 1024.0);
/// assert_eq!(powi(0.5, 1100), 0.0);
/// ```
#[must_use]
pub fn powi(base: f64, mut exponent: u64) -> f64 {
    let (mut result, mut square) = (1.0, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of all kinds: ordinary ones, near 1, squares and roots, huge and tiny, special values.
    fn pairs() -> Vec<(f64, f64)> {
        let mut state = 1u64;
        let mut word = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state ^ state >> 29
        };
        let mut pairs = Vec::new();
        for i in 0..30_000 {
            let unit = (word() >> 11) as f64 / 9007199254740992.0;
            let other = (word() >> 11) as f64 / 9007199254740992.0;
            pairs.push((100.0 * unit, 40.0 * other - 20.0));
            pairs.push((1.0 + 1e-3 * (unit - 0.5), 1e6 * (other - 0.5)));
            pairs.push(((200.0 * unit - 100.0) as f32 as f64, [2.0, 3.0, 4.0, -1.0, 5.0][i % 5]));
            pairs.push((1e3 * unit, [0.5, 1.5, 2.5, 1.0 / 3.0, -0.5][i % 5]));
            pairs.push((f64::from_bits(word()), f64::from_bits(word())));
            pairs.push((f64::from_bits(word()), 64.0 * other - 32.0));
        }
        let special = [0.0, 1.0, 2.0, 3.0, 0.5, 1e-310, f64::MIN_POSITIVE, f64::MAX, f64::INFINITY];
        let special = || special.into_iter().flat_map(|x| [x, -x]).chain([f64::NAN]);
        pairs.extend(special().flat_map(|x| special().map(move |y| (x, y))));
        pairs
    }

    #[test]
    fn fast_powers_are_those_of_double_double_arithmetic() {
        let pairs = pairs();
        let mut undecided = 0;
        for &(x, y) in &pairs {
            let (value, decided) = fast(x, y);
            let want = decide(x, y);
            if decided {
                assert_eq!(value.to_bits(), want.to_bits(), "{x:e}^{y:e}: {value:e}, {want:e}");
            } else if x.is_normal() && want.is_normal() && want.abs() < 1e300 && want.abs() > 1e-300
            {
                undecided += 1;
            }
        }
        // One in 2^12 is near a boundary; the squares of the third kind are not ties.
        assert!(undecided < pairs.len() / 500, "{undecided} of {} pairs", pairs.len());

        let mut out = vec![0.0; pairs.len()];
        pow_each(|i| pairs[i].0, |i| pairs[i].1, &mut out);
        for (&(x, y), value) in pairs.iter().zip(out) {
            assert_eq!(value.to_bits(), decide(x, y).to_bits(), "{x:e}^{y:e}");
        }
    }

    #[test]
    fn the_error_of_fast_powers_is_a_quarter_of_the_bound() {
        let mut largest = 0.0f64;
        for (x, y) in pairs() {
            let t = Dd::log(x).mul(Dd::new(y));
            if !(x.is_normal() && x > 0.0 && t.high.abs() < 700.0) {
                continue;
            }
            let want = log(x).mul(Dd::new(y)).add(Dd { high: -t.high, low: -t.low });
            // Both exponentials reduce by the same multiple of ln 2 or by neighbours.
            let ((p, n), (q, m)) = (exp(t), t.exp_parts());
            let q = q.scaled(super::super::scale_wide(1.0, m - (n - ROUND)));
            let error = (((p.high - q.high) + (p.low - q.low)) / q.high).abs() + want.high.abs();
            largest = largest.max(error);
        }
        assert!(largest < 1.0 / (1u128 << 69) as f64, "{largest:e}");
    }

    #[test]
    fn inverse_factorials_are_quotients() {
        let mut factorial = 1.0;
        for (k, it) in INVERSE_FACTORIALS.into_iter().enumerate() {
            factorial *= k.max(1) as f64;
            let quotient = Dd::new(1.0).div(Dd::new(factorial));
            assert_eq!(it.high, quotient.high, "1/{k}!");
            assert!(k >= 6 || (it.low - quotient.low).abs() <= 1e-33, "1/{k}!");
        }
    }
}
