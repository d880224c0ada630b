//! Floating-point arithmetic as the PTX ISA defines it.
//!
//! Rounding to nearest is that of the host. The other rounding directions start from that result
//! and move one step if the exact result, compared in an integer wide enough to hold it, lies on
//! the other side. A NaN result is always the canonical one.

mod convert;

pub(crate) use convert::convert;

use crate::op::{FloatMode, FloatOp, Round, Test, Ty};

/// The NaN that single-precision instructions return.
pub(crate) const NAN32: u32 = 0x7fff_ffff;
/// The NaN that double-precision instructions return.
pub(crate) const NAN64: u64 = 0x7fff_ffff_ffff_ffff;
const NAN16: u16 = 0x7fff;

/// Returns the bits of a result, with any NaN replaced by the canonical one.
#[inline(always)]
pub(crate) fn bits32(value: f32) -> u32 {
    if value.is_nan() { NAN32 } else { value.to_bits() }
}

/// Returns the bits of a result, with any NaN replaced by the canonical one.
#[inline(always)]
pub(crate) fn bits64(value: f64) -> u64 {
    if value.is_nan() { NAN64 } else { value.to_bits() }
}

/// Replaces a subnormal number by a zero of its sign.
#[inline]
pub(crate) fn flush(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// Clamps to [0, 1]; NaN becomes +0.
#[inline]
fn saturate(bits: u32) -> u32 {
    let value = f32::from_bits(bits);
    if value.is_nan() || value <= 0.0 {
        0
    } else if value > 1.0 {
        1f32.to_bits()
    } else {
        bits
    }
}

/// Applies `op` with all modifiers of `mode`.
pub(crate) fn op32(op: FloatOp, mode: FloatMode, a: u32, b: u32) -> u32 {
    let (a, b) = if mode.ftz { (flush(a), flush(b)) } else { (a, b) };
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    let (wide_x, wide_y) = (f64::from(x), f64::from(y));
    let result = match op {
        FloatOp::Add => directed32(x + y, mode.round, &[(wide_x, 1.0), (wide_y, 1.0)]),
        FloatOp::Sub => directed32(x - y, mode.round, &[(wide_x, 1.0), (wide_y, -1.0)]),
        FloatOp::Mul => directed32(x * y, mode.round, &[(wide_x, wide_y)]),
        FloatOp::Div => quotient32(x, y, mode.round),
        FloatOp::Rcp => quotient32(1.0, x, mode.round),
        FloatOp::Sqrt => root32(x, mode.round),
        FloatOp::Min => minimum32(a, b, false),
        FloatOp::Max => maximum32(a, b, false),
        FloatOp::MinNan => minimum32(a, b, true),
        FloatOp::MaxNan => maximum32(a, b, true),
        FloatOp::Abs => a & 0x7fff_ffff,
        FloatOp::Neg => a ^ 0x8000_0000,
        FloatOp::CopySign => (b & 0x7fff_ffff) | (a & 0x8000_0000),
    };
    finish32(result, mode)
}

/// Returns `a * b + c`, rounded once.
pub(crate) fn fma32(mode: FloatMode, a: u32, b: u32, c: u32) -> u32 {
    let (a, b, c) = if mode.ftz { (flush(a), flush(b), flush(c)) } else { (a, b, c) };
    let (x, y, z) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
    let terms = [(f64::from(x), f64::from(y)), (f64::from(z), 1.0)];
    finish32(directed32(x.mul_add(y, z), mode.round, &terms), mode)
}

fn finish32(bits: u32, mode: FloatMode) -> u32 {
    let bits = if mode.ftz { flush(bits) } else { bits };
    if mode.sat { saturate(bits) } else { bits }
}

/// Applies `op` with all modifiers of `mode`.
pub(crate) fn op64(op: FloatOp, mode: FloatMode, a: u64, b: u64) -> u64 {
    let (x, y) = (f64::from_bits(a), f64::from_bits(b));
    match op {
        FloatOp::Add => directed64(x + y, mode.round, &[(x, 1.0), (y, 1.0)]),
        FloatOp::Sub => directed64(x - y, mode.round, &[(x, 1.0), (y, -1.0)]),
        FloatOp::Mul => directed64(x * y, mode.round, &[(x, y)]),
        FloatOp::Div => quotient64(x, y, mode.round),
        FloatOp::Rcp => quotient64(1.0, x, mode.round),
        FloatOp::Sqrt => root64(x, mode.round),
        FloatOp::Min => minimum64(a, b, false),
        FloatOp::Max => maximum64(a, b, false),
        FloatOp::MinNan => minimum64(a, b, true),
        FloatOp::MaxNan => maximum64(a, b, true),
        FloatOp::Abs => a & !(1 << 63),
        FloatOp::Neg => a ^ 1 << 63,
        FloatOp::CopySign => (b & !(1 << 63)) | (a & 1 << 63),
    }
}

/// Returns `a * b + c`, rounded once.
pub(crate) fn fma64(mode: FloatMode, a: u64, b: u64, c: u64) -> u64 {
    let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
    directed64(x.mul_add(y, z), mode.round, &[(x, y), (z, 1.0)])
}

#[inline(always)]
pub(crate) fn minimum32(a: u32, b: u32, nan: bool) -> u32 {
    pick32(a, b, nan, |x, y| x <= y)
}

#[inline(always)]
pub(crate) fn maximum32(a: u32, b: u32, nan: bool) -> u32 {
    pick32(a, b, nan, |x, y| x >= y)
}

/// Selects by an order in which -0 is below +0; a NaN loses, or wins if `nan` is set.
#[inline(always)]
fn pick32(a: u32, b: u32, nan: bool, first: impl Fn(i32, i32) -> bool) -> u32 {
    let is_nan = |bits: u32| bits & 0x7fff_ffff > 0x7f80_0000;
    let order = |bits: u32| (bits as i32) ^ ((bits as i32 >> 31) & i32::MAX);
    match (is_nan(a), is_nan(b)) {
        (true, true) => NAN32,
        (true, false) => {
            if nan {
                NAN32
            } else {
                b
            }
        }
        (false, true) => {
            if nan {
                NAN32
            } else {
                a
            }
        }
        (false, false) => {
            if first(order(a), order(b)) {
                a
            } else {
                b
            }
        }
    }
}

#[inline(always)]
pub(crate) fn minimum64(a: u64, b: u64, nan: bool) -> u64 {
    pick64(a, b, nan, |x, y| x <= y)
}

#[inline(always)]
pub(crate) fn maximum64(a: u64, b: u64, nan: bool) -> u64 {
    pick64(a, b, nan, |x, y| x >= y)
}

#[inline(always)]
fn pick64(a: u64, b: u64, nan: bool, first: impl Fn(i64, i64) -> bool) -> u64 {
    let is_nan = |bits: u64| f64::from_bits(bits).is_nan();
    let order = |bits: u64| (bits as i64) ^ ((bits as i64 >> 63) & i64::MAX);
    match (is_nan(a), is_nan(b)) {
        (true, true) => NAN64,
        (true, false) => {
            if nan {
                NAN64
            } else {
                b
            }
        }
        (false, true) => {
            if nan {
                NAN64
            } else {
                a
            }
        }
        (false, false) => {
            if first(order(a), order(b)) {
                a
            } else {
                b
            }
        }
    }
}

fn directed32(nearest: f32, round: Round, terms: &[(f64, f64)]) -> u32 {
    if round == Round::Nearest || terms.iter().any(|&(a, b)| !a.is_finite() || !b.is_finite()) {
        return bits32(nearest);
    }
    if nearest == 0.0 && is_exact_cancellation(terms) {
        return bits32(zero_of_cancellation(terms, round) as f32);
    }
    let beyond = Exact::of(terms).minus(f64::from(clamp32(nearest))).sign();
    bits32(step32(nearest, beyond, round))
}

fn directed64(nearest: f64, round: Round, terms: &[(f64, f64)]) -> u64 {
    if round == Round::Nearest || terms.iter().any(|&(a, b)| !a.is_finite() || !b.is_finite()) {
        return bits64(nearest);
    }
    if nearest == 0.0 && is_exact_cancellation(terms) {
        return bits64(zero_of_cancellation(terms, round));
    }
    let beyond = Exact::of(terms).minus(clamp64(nearest)).sign();
    bits64(step64(nearest, beyond, round))
}

fn is_exact_cancellation(terms: &[(f64, f64)]) -> bool {
    Exact::of(terms).sign() == 0
}

/// Returns the sign of an exact zero: that of the terms if they agree, else negative only for
/// rounding down.
fn zero_of_cancellation(terms: &[(f64, f64)], round: Round) -> f64 {
    let negative = |&(a, b): &(f64, f64)| a.is_sign_negative() != b.is_sign_negative();
    let first = negative(&terms[0]);
    let agree = terms.iter().all(|term| negative(term) == first);
    let minus = if agree { first } else { round == Round::Down };
    if minus { -0.0 } else { 0.0 }
}

/// Replaces an overflowed result by the largest finite number, for comparisons.
fn clamp32(value: f32) -> f32 {
    value.clamp(f32::MIN, f32::MAX)
}

fn clamp64(value: f64) -> f64 {
    value.clamp(f64::MIN, f64::MAX)
}

/// Moves a result rounded to nearest to the neighbour required by `round`. `beyond` is the sign of
/// the exact result minus the rounded one.
fn step32(nearest: f32, beyond: i32, round: Round) -> f32 {
    if nearest.is_infinite() {
        // The exact result is finite, so it overflowed.
        let inward = match round {
            Round::Nearest => false,
            Round::Zero => true,
            Round::Down => nearest > 0.0,
            Round::Up => nearest < 0.0,
        };
        return if inward { clamp32(nearest) } else { nearest };
    }
    let negative = nearest.is_sign_negative();
    match (round, beyond) {
        (Round::Down, -1) => nearest.next_down(),
        (Round::Up, 1) => nearest.next_up(),
        (Round::Zero, -1) if !negative => nearest.next_down(),
        (Round::Zero, 1) if negative => nearest.next_up(),
        _ => nearest,
    }
}

fn step64(nearest: f64, beyond: i32, round: Round) -> f64 {
    if nearest.is_infinite() {
        let inward = match round {
            Round::Nearest => false,
            Round::Zero => true,
            Round::Down => nearest > 0.0,
            Round::Up => nearest < 0.0,
        };
        return if inward { clamp64(nearest) } else { nearest };
    }
    let negative = nearest.is_sign_negative();
    match (round, beyond) {
        (Round::Down, -1) => nearest.next_down(),
        (Round::Up, 1) => nearest.next_up(),
        (Round::Zero, -1) if !negative => nearest.next_down(),
        (Round::Zero, 1) if negative => nearest.next_up(),
        _ => nearest,
    }
}

fn quotient32(x: f32, y: f32, round: Round) -> u32 {
    let nearest = x / y;
    if round == Round::Nearest || !x.is_finite() || !y.is_finite() || y == 0.0 || x == 0.0 {
        return bits32(nearest);
    }
    let product = (f64::from(clamp32(nearest)), -f64::from(y));
    let rest = Exact::of(&[(f64::from(x), 1.0), product]).sign();
    bits32(step32(nearest, if y < 0.0 { -rest } else { rest }, round))
}

fn quotient64(x: f64, y: f64, round: Round) -> u64 {
    let nearest = x / y;
    if round == Round::Nearest || !x.is_finite() || !y.is_finite() || y == 0.0 || x == 0.0 {
        return bits64(nearest);
    }
    let rest = Exact::of(&[(x, 1.0), (clamp64(nearest), -y)]).sign();
    bits64(step64(nearest, if y < 0.0 { -rest } else { rest }, round))
}

fn root32(x: f32, round: Round) -> u32 {
    let nearest = x.sqrt();
    if round == Round::Nearest || !nearest.is_finite() || nearest == 0.0 {
        return bits32(nearest);
    }
    let wide = f64::from(nearest);
    let rest = Exact::of(&[(f64::from(x), 1.0), (wide, -wide)]).sign();
    bits32(step32(nearest, rest, round))
}

fn root64(x: f64, round: Round) -> u64 {
    let nearest = x.sqrt();
    if round == Round::Nearest || !nearest.is_finite() || nearest == 0.0 {
        return bits64(nearest);
    }
    let rest = Exact::of(&[(x, 1.0), (nearest, -nearest)]).sign();
    bits64(step64(nearest, rest, round))
}

/// The number of 64-bit limbs of [`Exact`].
const LIMBS: usize = 68;

/// An exact sum of products of finite doubles: a two's complement integer in units of 2^-2148, the
/// smallest product of two subnormal numbers. The largest product is below 2^2048.
struct Exact {
    limbs: [u64; LIMBS],
}

impl Exact {
    fn of(terms: &[(f64, f64)]) -> Exact {
        let mut sum = Exact { limbs: [0; LIMBS] };
        for &(a, b) in terms {
            sum.add(a, b);
        }
        sum
    }

    fn minus(mut self, value: f64) -> Exact {
        self.add(value, -1.0);
        self
    }

    fn add(&mut self, a: f64, b: f64) {
        let (ma, ea) = parts(a);
        let (mb, eb) = parts(b);
        let product = u128::from(ma) * u128::from(mb);
        let shift = (ea + eb) as usize;
        let (limb, bit) = (shift / 64, shift % 64);
        let low = (product as u64 as u128) << bit;
        let high = (product >> 64) << bit;
        let middle = (low >> 64) + (high & u128::from(u64::MAX));
        let words = [low as u64, middle as u64, ((high >> 64) + (middle >> 64)) as u64];
        let negative = a.is_sign_negative() != b.is_sign_negative();
        let mut carry = false;
        for (i, slot) in self.limbs[limb..].iter_mut().enumerate() {
            let word = words.get(i).copied().unwrap_or(0);
            if i >= words.len() && !carry {
                break;
            }
            let (once, first) =
                if negative { slot.overflowing_sub(word) } else { slot.overflowing_add(word) };
            let (twice, second) = if negative {
                once.overflowing_sub(u64::from(carry))
            } else {
                once.overflowing_add(u64::from(carry))
            };
            *slot = twice;
            carry = first || second;
        }
    }

    fn sign(&self) -> i32 {
        if self.limbs[LIMBS - 1] >> 63 == 1 {
            -1
        } else {
            i32::from(self.limbs.iter().any(|&limb| limb != 0))
        }
    }
}

/// Returns the magnitude of a finite double as an integer times a power of two, in units of
/// 2^-1074.
fn parts(value: f64) -> (u64, u32) {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as u32;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) }
}

/// Classifies a number by its bits.
pub(crate) fn test(test: Test, bits: u64, ty: Ty) -> bool {
    let class = match ty {
        Ty::F32 => f32::from_bits(bits as u32).classify(),
        _ => f64::from_bits(bits).classify(),
    };
    use std::num::FpCategory as C;
    match test {
        Test::Finite => matches!(class, C::Zero | C::Subnormal | C::Normal),
        Test::Infinite => class == C::Infinite,
        Test::Number => class != C::Nan,
        Test::NotANumber => class == C::Nan,
        Test::Normal => class == C::Normal,
        Test::Subnormal => class == C::Subnormal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a stream of operands with many extreme values.
    fn operands(count: usize) -> impl Iterator<Item = u32> {
        let mut state = 1u64;
        (0..count).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bits = (state >> 32) as u32;
            match state >> 28 & 7 {
                0 => bits & 0x807f_ffff,
                1 => bits | 0x7f00_0000,
                2 => bits & 0xff80_0000,
                3 => (bits & 0x83ff_ffff) | 0x3c00_0000,
                _ => bits,
            }
        })
    }

    #[test]
    fn directed_products_bracket_the_exact_one() {
        let x: Vec<u32> = operands(20_000).collect();
        for pair in x.windows(2) {
            let (a, b) = (f32::from_bits(pair[0]), f32::from_bits(pair[1]));
            // The product of two single-precision numbers is exact in double precision.
            let exact = f64::from(a) * f64::from(b);
            if exact.is_nan() || a.is_infinite() || b.is_infinite() {
                continue;
            }
            let at = |round| {
                let mode = FloatMode { round, ..FloatMode::IEEE };
                f32::from_bits(op32(FloatOp::Mul, mode, pair[0], pair[1]))
            };
            let (down, up, zero) = (at(Round::Down), at(Round::Up), at(Round::Zero));
            assert!(f64::from(down) <= exact && exact <= f64::from(up), "{a:e} {b:e}");
            assert!(down == up || down.next_up() == up, "{a:e} {b:e}: {down:e} {up:e}");
            assert_eq!(zero.to_bits(), if exact.is_sign_negative() { up } else { down }.to_bits());
        }
    }

    #[test]
    fn directed_fused_products_agree_with_exact_arithmetic() {
        let x: Vec<u32> = operands(3_000).collect();
        for t in x.windows(3) {
            let [a, b, c] = [t[0], t[1], t[2]].map(|bits| f64::from(f32::from_bits(bits)));
            if ![a, b, c].iter().all(|v| v.is_finite()) {
                continue;
            }
            let sum = Exact::of(&[(a, b), (c, 1.0)]);
            let at = |round| fma32(FloatMode { round, ..FloatMode::IEEE }, t[0], t[1], t[2]);
            let below = f64::from(f32::from_bits(at(Round::Down)));
            let above = f64::from(f32::from_bits(at(Round::Up)));
            if below.is_finite() {
                assert!(Exact { limbs: sum.limbs }.minus(below).sign() >= 0);
            }
            if above.is_finite() {
                assert!(Exact { limbs: sum.limbs }.minus(above).sign() <= 0);
            }
        }
    }
}
