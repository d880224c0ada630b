//! Conversions between element types against the definition of rounding.

use std::cmp::Ordering;

use samebits_tensor_core::scalar::{Exact, Scalar};
use samebits_tensor_core::{bf16, f16};

/// A half-precision type as a list of its numbers, so that rounding is a search.
trait Half: Scalar {
    const INFINITY: u16;
    const NAN: u16;
    fn of_bits(bits: u16) -> Self;
    fn bits(self) -> u16;
}

impl Half for f16 {
    const INFINITY: u16 = 0x7c00;
    const NAN: u16 = 0x7e00;
    fn of_bits(bits: u16) -> f16 {
        f16::from_bits(bits)
    }
    fn bits(self) -> u16 {
        self.to_bits()
    }
}

impl Half for bf16 {
    const INFINITY: u16 = 0x7f80;
    const NAN: u16 = 0x7fc0;
    fn of_bits(bits: u16) -> bf16 {
        bf16::from_bits(bits)
    }
    fn bits(self) -> u16 {
        self.to_bits()
    }
}

/// Returns the value of the bits by the formula of IEEE 754; infinity counts as the next number.
fn value<H: Half>(bits: u16) -> f64 {
    let mantissa_bits = H::INFINITY.trailing_zeros();
    let bias = (H::INFINITY >> mantissa_bits) as i32 / 2;
    let (field, mantissa) = ((bits >> mantissa_bits) as i32, bits & ((1 << mantissa_bits) - 1));
    let (hidden, exponent) = if field == 0 { (0, 1) } else { (1 << mantissa_bits, field) };
    // A power of two, whose exponent lies within f64.
    let unit = 1023 + exponent - bias - mantissa_bits as i32;
    f64::from(mantissa + hidden) * f64::from_bits((unit as u64) << 52)
}

/// Returns the nearest number by a search for both neighbours. `compare` compares the wanted number
/// with a number of the type, or with the midpoint of two.
fn nearest<H: Half>(compare: impl Fn(f64) -> Ordering) -> u16 {
    let (mut low, mut high) = (0, H::INFINITY);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match compare(value::<H>(middle)) {
            Ordering::Less => high = middle,
            _ => low = middle,
        }
    }
    // Midpoints have one bit more than the numbers, so they are exact.
    match compare((value::<H>(low) + value::<H>(high)) / 2.0) {
        Ordering::Less => low,
        Ordering::Greater => high,
        Ordering::Equal => low + low % 2,
    }
}

/// Rounds a positive float, as the oracle.
fn of_float<H: Half>(x: f64) -> u16 {
    nearest::<H>(|y| x.partial_cmp(&y).expect("no NaN"))
}

/// Rounds a positive integer, as the oracle.
fn of_integer<H: Half>(x: u64) -> u16 {
    if x < 1 << 53 {
        return of_float::<H>(x as f64);
    }
    // Numbers and midpoints that large are integers.
    nearest::<H>(|y| i128::from(x).cmp(&(y as i128)))
}

/// Returns the generator SplitMix64.
fn words(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9e3779b97f4a7c15);
        let x = (state ^ state >> 30).wrapping_mul(0xbf58476d1ce4e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d049bb133111eb);
        x ^ x >> 31
    }
}

fn check_float<H: Half>(x: f64) {
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    let expected = if x.is_nan() { H::NAN } else { of_float::<H>(x.abs()) | sign };
    assert_eq!(H::of(Exact::Float(x)).bits(), expected, "{x:e} {:#x}", x.to_bits());
}

fn check_all<H: Half>() {
    let mut neighbours = Vec::new();
    for bits in 0..=u16::MAX {
        let half = H::of_bits(bits);
        let Exact::Float(wide) = half.exact() else { panic!("a float") };
        let magnitude = bits & 0x7fff;
        if magnitude > H::INFINITY {
            assert!(wide.is_nan());
            assert_eq!(H::of(Exact::Float(wide)).bits(), H::NAN);
            continue;
        }
        let sign = if bits > magnitude { -1.0 } else { 1.0 };
        let expected = if magnitude == H::INFINITY { f64::INFINITY } else { value::<H>(magnitude) };
        assert_eq!(wide.to_bits(), (sign * expected).to_bits(), "{bits:#x}");
        // To another type and back, also via f32, which represents every half.
        assert_eq!(H::of(half.exact()).bits(), bits);
        assert_eq!(H::of(f32::of(half.exact()).exact()).bits(), bits);
        if magnitude < H::INFINITY {
            // The tie with the next number, and the nearest f64 on both sides of it.
            let tie = sign * (value::<H>(magnitude) + value::<H>(magnitude + 1)) / 2.0;
            neighbours.extend([
                tie,
                tie.next_up(),
                tie.next_down(),
                wide.next_up(),
                wide.next_down(),
            ]);
        }
    }
    neighbours.into_iter().for_each(check_float::<H>);
}

#[test]
fn every_half_is_read_exactly_and_every_tie_is_even() {
    check_all::<f16>();
    check_all::<bf16>();
}

#[test]
fn floats_are_rounded_once() {
    let mut word = words(17);
    for _ in 0..200_000 {
        let (a, b) = (word(), word());
        // Exponents near those of the types, with many bits and with few.
        let near = f64::from_bits(a >> 12 | (1023 - 160 + b % 330) << 52);
        let few = f64::from_bits(near.to_bits() & (!0 << ((b >> 32) % 52)));
        for x in [f64::from_bits(a), near, -near, few, f64::from(f32::from_bits(a as u32))] {
            check_float::<f16>(x);
            check_float::<bf16>(x);
        }
    }
    for x in [
        65519.99,
        65520.0,
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
        -0.0,
        5e-324,
    ] {
        check_float::<f16>(x);
        check_float::<bf16>(x);
    }
}

#[test]
fn integers_are_rounded_once() {
    let mut word = words(18);
    let check = |x: i64| {
        let sign = if x < 0 { 0x8000 } else { 0 };
        let size = x.unsigned_abs();
        assert_eq!(f16::of(Exact::Integer(x)).to_bits(), of_integer::<f16>(size) | sign, "{x}");
        assert_eq!(bf16::of(Exact::Integer(x)).to_bits(), of_integer::<bf16>(size) | sign, "{x}");
    };
    // Via f64 this would be a tie.
    check((1 << 62) + (1 << 54) + 1);
    for power in 0..63 {
        for offset in -2..=2 {
            check((1i64 << power).saturating_add(offset));
            check(-(1i64 << power).saturating_add(offset));
            check((1i64 << power).wrapping_add(1 << (power - power.min(8))).wrapping_add(offset));
        }
    }
    for _ in 0..100_000 {
        check(word() as i64 >> (word() % 63));
    }
    [i64::MIN, i64::MAX, 65519, 65520, 65521].into_iter().for_each(check);
}

#[test]
fn integers_wrap_and_floats_are_truncated_and_saturate() {
    let floats = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.9, 2.9, -2.9, 4e9, -4e9, 255.9];
    for x in floats {
        assert_eq!(i32::of(Exact::Float(x)), x as i32);
        assert_eq!(u32::of(Exact::Float(x)), x as u32);
        assert_eq!(u8::of(Exact::Float(x)), x as u8);
        assert_eq!(i64::of(Exact::Float(x)), x as i64);
    }
    for (x, i, u, byte) in [
        (i64::MIN, 0, 0, 0),
        (-1, -1, u32::MAX, 255),
        (300, 300, 300, 44),
        (1 << 31, i32::MIN, 1 << 31, 0),
        ((1 << 32) + 5, 5, 5, 5),
        (i64::MAX, -1, u32::MAX, 255),
    ] {
        assert_eq!(i32::of(Exact::Integer(x)), i);
        assert_eq!(u32::of(Exact::Integer(x)), u);
        assert_eq!(u8::of(Exact::Integer(x)), byte);
    }
}
