//! Stand-ins for the approximate instructions.
//!
//! The hardware's tables are not public, so these are *not* its bits: they are accurate
//! double-precision results rounded to single precision. Only kernels whose results are declared
//! not guaranteed may use them.

use crate::{
    float::{bits32, bits64, flush},
    op::ApproxOp,
};
use std::f64::consts::{FRAC_PI_2, LN_2, SQRT_2};

/// Computes an approximate single-precision function.
pub(crate) fn approx32(op: ApproxOp, ftz: bool, a: u32, b: u32) -> u32 {
    let read = |bits: u32| f64::from(f32::from_bits(if ftz { flush(bits) } else { bits }));
    let (x, y) = (read(a), read(b));
    let value = match op {
        ApproxOp::Div => x / y,
        ApproxOp::Rcp => 1.0 / x,
        ApproxOp::Sqrt => x.sqrt(),
        ApproxOp::Rsqrt => 1.0 / x.sqrt(),
        ApproxOp::Sin => sin_cos(x).0,
        ApproxOp::Cos => sin_cos(x).1,
        ApproxOp::Lg2 => lg2(x),
        ApproxOp::Ex2 => ex2(x),
        ApproxOp::Tanh => {
            let e = ex2(2.0 * x.abs() / LN_2);
            (1.0 - 2.0 / (e + 1.0)).copysign(x)
        }
    };
    let bits = bits32(value as f32);
    if ftz { flush(bits) } else { bits }
}

/// Computes `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`, which use the upper half of their
/// operand and set the lower half of the result to zero.
pub(crate) fn approx64(op: ApproxOp, a: u64) -> u64 {
    let high = a & !0xffff_ffff;
    let subnormal = high & 0x7ff0_0000_0000_0000 == 0;
    let x = f64::from_bits(if subnormal { high & 1 << 63 } else { high });
    let value = if op == ApproxOp::Rsqrt { 1.0 / x.sqrt() } else { 1.0 / x };
    if value.is_subnormal() { 0f64.copysign(value).to_bits() } else { bits64(value) & !0xffff_ffff }
}

/// Returns 2^x.
fn ex2(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let x = x.clamp(-1100.0, 1100.0);
    let whole = x.round_ties_even();
    let t = (x - whole) * LN_2;
    let mut sum = 1.0;
    for n in (1..=14).rev() {
        sum = 1.0 + sum * t / f64::from(n);
    }
    // In two steps, so that the scale stays a normal number.
    let half = (whole / 2.0).trunc();
    sum * power_of_two(half) * power_of_two(whole - half)
}

fn power_of_two(n: f64) -> f64 {
    f64::from_bits(((n as i64 + 1023) as u64) << 52)
}

fn lg2(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    // A single-precision number is never subnormal in double precision.
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | 1023 << 52);
    if m > SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let mut sum = 0.0;
    for n in (0..20).rev() {
        sum = sum * s * s + 1.0 / f64::from(2 * n + 1);
    }
    exponent as f64 + 2.0 * s * sum / LN_2
}

fn sin_cos(x: f64) -> (f64, f64) {
    if !x.is_finite() {
        return (f64::NAN, f64::NAN);
    }
    let turns = (x / FRAC_PI_2).round_ties_even();
    let t = turns.mul_add(-FRAC_PI_2, x);
    let (mut sin, mut cos) = (0.0, 0.0);
    for n in (0..12).rev() {
        let n = f64::from(2 * n);
        cos = 1.0 - cos * t * t / ((n + 1.0) * (n + 2.0));
        sin = 1.0 - sin * t * t / ((n + 2.0) * (n + 3.0));
    }
    let sin = sin * t;
    match (turns as i64).rem_euclid(4) {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}
