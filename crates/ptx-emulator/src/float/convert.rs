//! Conversions between the types of numbers.

use super::*;
use crate::op::Convert;

/// Converts one value; the bits are at the low end of both argument and result.
pub(crate) fn convert(conversion: Convert, bits: u64) -> u64 {
    let Convert { to, from, round, integer, ftz, sat } = conversion;
    if !from.is_float() {
        let value = sign_extended(bits, from);
        return if to.is_float() {
            float_result(integer_to_float(value, to, round), to, sat)
        } else if sat {
            let (low, high) = range(to);
            value.clamp(low, high) as u64
        } else {
            value as u64
        };
    }
    let value = match from {
        Ty::F64 => f64::from_bits(bits),
        Ty::F32 if ftz => f64::from(f32::from_bits(flush(bits as u32))),
        Ty::F32 => f64::from(f32::from_bits(bits as u32)),
        Ty::F16 => f16_value(bits as u16),
        _ => f64::from(f32::from_bits((bits as u32) << 16)),
    };
    if !to.is_float() {
        return float_to_integer(value, from, to, integer.unwrap_or(Round::Zero));
    }
    let value = integer.map_or(value, |round| integral(value, round));
    let result = match to {
        Ty::F64 => bits64(value),
        Ty::F32 => {
            let narrowed = u64::from(narrow32(value, round));
            if ftz { u64::from(flush(narrowed as u32)) } else { narrowed }
        }
        _ => u64::from(narrow16(value, to, round)),
    };
    float_result(result, to, sat)
}

/// Rounds to an integral value.
fn integral(value: f64, round: Round) -> f64 {
    match round {
        Round::Nearest => value.round_ties_even(),
        Round::Zero => value.trunc(),
        Round::Down => value.floor(),
        Round::Up => value.ceil(),
    }
}

fn float_result(bits: u64, to: Ty, sat: bool) -> u64 {
    match to {
        Ty::F32 if sat => u64::from(saturate(bits as u32)),
        Ty::F64 if sat => {
            let value = f64::from_bits(bits);
            if value.is_nan() || value <= 0.0 { 0 } else { value.min(1.0).to_bits() }
        }
        Ty::F16 if sat => {
            let value = f16_value(bits as u16);
            if value.is_nan() || value <= 0.0 {
                0
            } else if value > 1.0 {
                0x3c00
            } else {
                bits
            }
        }
        _ => bits,
    }
}

/// Returns the value of an integer type.
fn sign_extended(bits: u64, ty: Ty) -> i128 {
    let unused = 64 - ty.bits();
    let moved = bits << unused;
    if ty.is_signed() { i128::from(moved as i64 >> unused) } else { i128::from(moved >> unused) }
}

fn range(ty: Ty) -> (i128, i128) {
    let bits = ty.bits();
    if ty.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// Converts to an integer. A NaN becomes zero or, if a 64-bit type is involved, the most
/// significant bit alone.
fn float_to_integer(value: f64, from: Ty, to: Ty, round: Round) -> u64 {
    if value.is_nan() {
        let zero = from != Ty::F64 && to.bits() != 64;
        return if zero { 0 } else { 1 << (to.bits() - 1) };
    }
    let (low, high) = range(to);
    // `as` saturates, and i128 holds the range of every integer type.
    (integral(value, round) as i128).clamp(low, high) as u64
}

fn integer_to_float(value: i128, to: Ty, round: Round) -> u64 {
    let beyond = |rounded: f64| (value - rounded as i128).signum() as i32;
    match to {
        Ty::F64 => {
            let nearest = value as f64;
            bits64(step64(nearest, beyond(nearest), round))
        }
        Ty::F32 => {
            let nearest = value as f32;
            u64::from(bits32(step32(nearest, beyond(f64::from(nearest)), round)))
        }
        // Every integer in the range of half precision is exact in double precision; the others
        // overflow in any case.
        _ => u64::from(narrow16(value as f64, to, round)),
    }
}

fn narrow32(value: f64, round: Round) -> u32 {
    let nearest = value as f32;
    if !value.is_finite() {
        return bits32(nearest);
    }
    let rounded = f64::from(clamp32(nearest));
    let beyond = i32::from(value > rounded) - i32::from(value < rounded);
    bits32(step32(nearest, beyond, round))
}

/// Rounds to half precision or bfloat16.
fn narrow16(value: f64, to: Ty, round: Round) -> u16 {
    // The number of bits of the fraction, the smallest normal exponent and the largest.
    let (fraction, min, max) = if to == Ty::F16 { (10, -14, 15) } else { (7, -126, 127) };
    let sign = u16::from(value.is_sign_negative()) << 15;
    if value.is_nan() {
        return NAN16;
    }
    let infinity = ((2 * max + 1) as u16) << fraction;
    if value.is_infinite() {
        return sign | infinity;
    }
    let (mantissa, shift) = parts(value);
    if mantissa == 0 {
        return sign;
    }
    // value = mantissa * 2^(shift - 1074)
    let exponent = 63 - mantissa.leading_zeros() as i32 + shift as i32 - 1074;
    let unit = exponent.max(min) - fraction;
    let drop = unit + 1074 - shift as i32;
    let (mut kept, rest, half) = match drop {
        ..=0 => (mantissa << -drop, 0, 1),
        1..=63 => (mantissa >> drop, mantissa & ((1 << drop) - 1), 1u64 << (drop - 1)),
        // Far below half a unit.
        _ => (0, 1, 2),
    };
    let up = match round {
        Round::Nearest => rest > half || (rest == half && kept & 1 == 1),
        Round::Zero => false,
        Round::Down => sign != 0 && rest > 0,
        Round::Up => sign == 0 && rest > 0,
    };
    kept += u64::from(up);
    // A carry out of the fraction increments the exponent.
    let bias = if exponent < min { 0 } else { (exponent - min) as u64 };
    let packed = kept + (bias << fraction);
    if packed < u64::from(infinity) {
        return sign | packed as u16;
    }
    let inward = match round {
        Round::Nearest => false,
        Round::Zero => true,
        Round::Down => sign == 0,
        Round::Up => sign != 0,
    };
    sign | if inward { infinity - 1 } else { infinity }
}

fn f16_value(bits: u16) -> f64 {
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f64::from(bits & 0x3ff);
    // Powers of two within the range of doubles are exact.
    let power = |n: i32| f64::from_bits(((n + 1023) as u64) << 52);
    let magnitude = match exponent {
        0 => fraction * power(-24),
        31 if bits & 0x3ff == 0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (fraction + 1024.0) * power(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_round_trips_and_rounds_between_neighbours() {
        let to = |value: f64, round| narrow16(value, Ty::F16, round);
        for bits in 0..0x7c00u16 {
            let value = f16_value(bits);
            assert_eq!(to(value, Round::Nearest), bits);
            assert_eq!(to(-value, Round::Nearest), bits | 0x8000);
            // After the largest number comes 65536, which stands for infinity.
            let next = if bits == 0x7bff { 65536.0 } else { f16_value(bits + 1) };
            let middle = (value + next) / 2.0;
            assert_eq!(to(middle, Round::Nearest), bits + (bits & 1), "{bits:#x}");
            assert_eq!(to(middle.next_up(), Round::Nearest), bits + 1);
            assert_eq!(to(middle.next_down(), Round::Nearest), bits);
            assert_eq!(to(middle, Round::Zero), bits);
            assert_eq!(to(middle, Round::Up), bits + 1);
            assert_eq!(to(-middle, Round::Down), (bits + 1) | 0x8000);
        }
    }
}
