//! Arithmetic over the lanes of a warp.
//!
//! Every loop runs over all 32 lanes, active or not, so that it has no branches; the write discards
//! results of inactive lanes.

use super::{
    Context,
    bits::{bfe, bfi, bfind, byte, field_mask, fns, lop3, prmt},
    carry::{carry32, carry64},
    warp::Warp,
};
use crate::{
    float::{self, bits32, bits64},
    op::{
        CountOp, FloatMode, FloatOp, IntOp, LANES, Op, R32, R64, S32, S64, ShiftOp, TerOp, V32, V64,
    },
};

pub(crate) fn run(context: &Context<'_>, warp: &mut Warp, op: &Op, mask: u32) {
    match *op {
        Op::Int32(op, d, a, b) => int32(context, warp, mask, op, d, a, b),
        Op::Int64(op, d, a, b) => int64(context, warp, mask, op, d, a, b),
        Op::Int16(op, d, a, b) => {
            map2(context, warp, mask, d, a, b, |x, y| u32::from(int16(op, x as u16, y as u16)));
        }
        Op::Shift32(op, d, a, b) => match op {
            ShiftOp::Left => {
                map2(context, warp, mask, d, a, b, |x, n| if n > 31 { 0 } else { x << n })
            }
            ShiftOp::RightU => {
                map2(context, warp, mask, d, a, b, |x, n| if n > 31 { 0 } else { x >> n })
            }
            ShiftOp::RightS => {
                map2(context, warp, mask, d, a, b, |x, n| (x as i32 >> n.min(31)) as u32);
            }
        },
        Op::Shift16(op, d, a, b) => map2(context, warp, mask, d, a, b, |x, n| match op {
            ShiftOp::Left => (u64::from(x) << n.min(16)) as u32 & 0xffff,
            ShiftOp::RightU => (x & 0xffff) >> n.min(16),
            ShiftOp::RightS => (x as i16 >> n.min(15)) as u32 & 0xffff,
        }),
        Op::Shift64(op, d, a, b) => {
            let (x, n) = (warp.s64(context, a), warp.s32(context, b));
            let out = per64(|i| match op {
                ShiftOp::Left => {
                    if n[i] > 63 {
                        0
                    } else {
                        x[i] << n[i]
                    }
                }
                ShiftOp::RightU => {
                    if n[i] > 63 {
                        0
                    } else {
                        x[i] >> n[i]
                    }
                }
                ShiftOp::RightS => (x[i] as i64 >> n[i].min(63)) as u64,
            });
            warp.w64(d, mask, &out);
        }
        Op::Ter32(op, d, a, b, c) => ter32(context, warp, mask, op, d, a, b, c),
        Op::Mad16 { high, signed, d, a, b, c } => {
            map3(context, warp, mask, d, a, b, c, |x, y, z| {
                let product = mul16(signed, x, y);
                let half = if high { product >> 16 } else { product };
                half.wrapping_add(z) & 0xffff
            });
        }
        Op::MadWide16 { signed, d, a, b, c } => match c {
            Some(c) => {
                map3(context, warp, mask, d, a, b, c, |x, y, z| mul16(signed, x, y).wrapping_add(z))
            }
            None => map2(context, warp, mask, d, a, b, |x, y| mul16(signed, x, y)),
        },
        Op::MadWide32 { signed, d, a, b, c } => {
            let (x, y) = (warp.s32(context, a), warp.s32(context, b));
            let mut out = if signed {
                per64(|i| i64::from(x[i] as i32).wrapping_mul(i64::from(y[i] as i32)) as u64)
            } else {
                per64(|i| u64::from(x[i]) * u64::from(y[i]))
            };
            if let Some(c) = c {
                let z = warp.s64(context, c);
                for i in 0..LANES {
                    out[i] = out[i].wrapping_add(z[i]);
                }
            }
            warp.w64(d, mask, &out);
        }
        Op::Mad64 { high, signed, d, a, b, c } => {
            let (x, y, z) = (warp.s64(context, a), warp.s64(context, b), warp.s64(context, c));
            let out = per64(|i| {
                let product = match high {
                    true => high64(signed, x[i], y[i]),
                    false => x[i].wrapping_mul(y[i]),
                };
                product.wrapping_add(z[i])
            });
            warp.w64(d, mask, &out);
        }
        Op::Sad64 { signed, d, a, b, c } => {
            let (x, y, z) = (warp.s64(context, a), warp.s64(context, b), warp.s64(context, c));
            let out = per64(|i| {
                let distance = match signed {
                    true => (x[i] as i64).abs_diff(y[i] as i64),
                    false => x[i].abs_diff(y[i]),
                };
                distance.wrapping_add(z[i])
            });
            warp.w64(d, mask, &out);
        }
        Op::Carry32(carry, d, a, b, c) => carry32(context, warp, mask, carry, d, a, b, c),
        Op::Carry64(carry, d, a, b, c) => carry64(context, warp, mask, carry, d, a, b, c),
        Op::Bfe64 { signed, d, a, b, c } => {
            let (x, at, len) = (warp.s64(context, a), warp.s32(context, b), warp.s32(context, c));
            let out = per64(|i| bfe(x[i], at[i], len[i], 64, signed));
            warp.w64(d, mask, &out);
        }
        Op::Bfi32 { d, a, b, c, len } => {
            let (x, y) = (warp.s32(context, a), warp.s32(context, b));
            let (at, len) = (warp.s32(context, c), warp.s32(context, len));
            let out = per32(|i| bfi(u64::from(x[i]), u64::from(y[i]), at[i], len[i], 32) as u32);
            warp.w32(d, mask, &out);
        }
        Op::Bfi64 { d, a, b, c, len } => {
            let (x, y) = (warp.s64(context, a), warp.s64(context, b));
            let (at, len) = (warp.s32(context, c), warp.s32(context, len));
            let out = per64(|i| bfi(x[i], y[i], at[i], len[i], 64));
            warp.w64(d, mask, &out);
        }
        Op::Count32(op, d, a) => {
            let x = warp.s32(context, a);
            let out = per32(|i| match op {
                CountOp::Popc => x[i].count_ones(),
                CountOp::Clz => x[i].leading_zeros(),
                CountOp::Bfind { signed, shift } => {
                    bfind(i64::from(x[i] as i32), u64::from(x[i]), 32, signed, shift)
                }
            });
            warp.w32(d, mask, &out);
        }
        Op::Count64(op, d, a) => {
            let x = warp.s64(context, a);
            let out = per32(|i| match op {
                CountOp::Popc => x[i].count_ones(),
                CountOp::Clz => x[i].leading_zeros(),
                CountOp::Bfind { signed, shift } => bfind(x[i] as i64, x[i], 64, signed, shift),
            });
            warp.w32(d, mask, &out);
        }
        Op::F32(op, mode, d, a, b) => float32(context, warp, mask, op, mode, d, a, b),
        Op::F64(op, mode, d, a, b) => float64(context, warp, mask, op, mode, d, a, b),
        Op::Fma32(mode, d, a, b, c) => {
            if mode == FloatMode::IEEE {
                map3(context, warp, mask, d, a, b, c, |x, y, z| {
                    fused32(f32::from_bits(x), f32::from_bits(y), f32::from_bits(z))
                });
            } else {
                map3(context, warp, mask, d, a, b, c, |x, y, z| float::fma32(mode, x, y, z));
            }
        }
        Op::Fma64(mode, d, a, b, c) => {
            let (x, y, z) = (warp.s64(context, a), warp.s64(context, b), warp.s64(context, c));
            let out = if mode == FloatMode::IEEE {
                let [x, y, z] = [x, y, z].map(|x| x.map(f64::from_bits));
                per64(|i| bits64(x[i].mul_add(y[i], z[i])))
            } else {
                per64(|i| float::fma64(mode, x[i], y[i], z[i]))
            };
            warp.w64(d, mask, &out);
        }
        _ => unreachable!("every other instruction is executed before"),
    }
}

#[inline(always)]
fn per32(f: impl Fn(usize) -> u32) -> V32 {
    let mut out = [0; LANES];
    for lane in 0..LANES {
        out[lane] = f(lane);
    }
    out
}

#[inline(always)]
fn per64(f: impl Fn(usize) -> u64) -> V64 {
    let mut out = [0; LANES];
    for lane in 0..LANES {
        out[lane] = f(lane);
    }
    out
}

#[inline(always)]
fn map2(
    context: &Context<'_>,
    warp: &mut Warp,
    mask: u32,
    d: R32,
    a: S32,
    b: S32,
    f: impl Fn(u32, u32) -> u32,
) {
    let (x, y) = (warp.s32(context, a), warp.s32(context, b));
    let out = per32(|i| f(x[i], y[i]));
    warp.w32(d, mask, &out);
}

#[inline(always)]
fn map3(
    context: &Context<'_>,
    warp: &mut Warp,
    mask: u32,
    d: R32,
    a: S32,
    b: S32,
    c: S32,
    f: impl Fn(u32, u32, u32) -> u32,
) {
    let (x, y, z) = (warp.s32(context, a), warp.s32(context, b), warp.s32(context, c));
    let out = per32(|i| f(x[i], y[i], z[i]));
    warp.w32(d, mask, &out);
}

#[inline(always)]
fn map64(
    context: &Context<'_>,
    warp: &mut Warp,
    mask: u32,
    d: R64,
    a: S64,
    b: S64,
    f: impl Fn(u64, u64) -> u64,
) {
    let (x, y) = (warp.s64(context, a), warp.s64(context, b));
    let out = per64(|i| f(x[i], y[i]));
    warp.w64(d, mask, &out);
}

fn int32(context: &Context<'_>, warp: &mut Warp, mask: u32, op: IntOp, d: R32, a: S32, b: S32) {
    macro_rules! go {
        ($f:expr) => {
            map2(context, warp, mask, d, a, b, $f)
        };
    }
    match op {
        IntOp::Add => go!(|x, y| x.wrapping_add(y)),
        IntOp::AddSatS => go!(|x, y| (x as i32).saturating_add(y as i32) as u32),
        IntOp::Sub => go!(|x, y| x.wrapping_sub(y)),
        IntOp::SubSatS => go!(|x, y| (x as i32).saturating_sub(y as i32) as u32),
        IntOp::MulLo => go!(|x, y| x.wrapping_mul(y)),
        IntOp::MulHiS => go!(mulhi_s),
        IntOp::MulHiU => go!(mulhi_u),
        // The result of a division by zero is unspecified; these are the hardware's results.
        IntOp::DivS => go!(|x, y| match y {
            0 => !0,
            _ => (x as i32).wrapping_div(y as i32) as u32,
        }),
        IntOp::DivU => go!(|x, y| x.checked_div(y).unwrap_or(!0)),
        IntOp::RemS => go!(|x, y| match y {
            0 => x,
            _ => (x as i32).wrapping_rem(y as i32) as u32,
        }),
        IntOp::RemU => go!(|x, y| x.checked_rem(y).unwrap_or(x)),
        IntOp::MinS => go!(|x, y| (x as i32).min(y as i32) as u32),
        IntOp::MinU => go!(|x, y| x.min(y)),
        IntOp::MaxS => go!(|x, y| (x as i32).max(y as i32) as u32),
        IntOp::MaxU => go!(|x, y| x.max(y)),
        IntOp::And => go!(|x, y| x & y),
        IntOp::Or => go!(|x, y| x | y),
        IntOp::Xor => go!(|x, y| x ^ y),
        IntOp::Neg => go!(|x, _| x.wrapping_neg()),
        IntOp::Not => go!(|x, _| !x),
        IntOp::Cnot => go!(|x, _| u32::from(x == 0)),
        IntOp::Abs => go!(|x, _| (x as i32).unsigned_abs()),
        IntOp::Brev => go!(|x, _| x.reverse_bits()),
    }
}

fn int64(context: &Context<'_>, warp: &mut Warp, mask: u32, op: IntOp, d: R64, a: S64, b: S64) {
    macro_rules! go {
        ($f:expr) => {
            map64(context, warp, mask, d, a, b, $f)
        };
    }
    match op {
        IntOp::Add => go!(|x, y| x.wrapping_add(y)),
        IntOp::AddSatS => go!(|x, y| (x as i64).saturating_add(y as i64) as u64),
        IntOp::Sub => go!(|x, y| x.wrapping_sub(y)),
        IntOp::SubSatS => go!(|x, y| (x as i64).saturating_sub(y as i64) as u64),
        IntOp::MulLo => go!(|x, y| x.wrapping_mul(y)),
        IntOp::MulHiS => go!(|x, y| high64(true, x, y)),
        IntOp::MulHiU => go!(|x, y| high64(false, x, y)),
        IntOp::DivS => go!(|x, y| match y {
            0 => !0,
            _ => (x as i64).wrapping_div(y as i64) as u64,
        }),
        IntOp::DivU => go!(|x, y| x.checked_div(y).unwrap_or(!0)),
        IntOp::RemS => go!(|x, y| match y {
            0 => x,
            _ => (x as i64).wrapping_rem(y as i64) as u64,
        }),
        IntOp::RemU => go!(|x, y| x.checked_rem(y).unwrap_or(x)),
        IntOp::MinS => go!(|x, y| (x as i64).min(y as i64) as u64),
        IntOp::MinU => go!(|x, y| x.min(y)),
        IntOp::MaxS => go!(|x, y| (x as i64).max(y as i64) as u64),
        IntOp::MaxU => go!(|x, y| x.max(y)),
        IntOp::And => go!(|x, y| x & y),
        IntOp::Or => go!(|x, y| x | y),
        IntOp::Xor => go!(|x, y| x ^ y),
        IntOp::Neg => go!(|x, _| x.wrapping_neg()),
        IntOp::Not => go!(|x, _| !x),
        IntOp::Cnot => go!(|x, _| u64::from(x == 0)),
        IntOp::Abs => go!(|x, _| (x as i64).unsigned_abs()),
        IntOp::Brev => go!(|x, _| x.reverse_bits()),
    }
}

fn int16(op: IntOp, x: u16, y: u16) -> u16 {
    let (sx, sy) = (x as i16, y as i16);
    match op {
        IntOp::Add => x.wrapping_add(y),
        IntOp::AddSatS => sx.saturating_add(sy) as u16,
        IntOp::Sub => x.wrapping_sub(y),
        IntOp::SubSatS => sx.saturating_sub(sy) as u16,
        IntOp::MulLo => x.wrapping_mul(y),
        IntOp::MulHiS => ((i32::from(sx) * i32::from(sy)) >> 16) as u16,
        IntOp::MulHiU => ((u32::from(x) * u32::from(y)) >> 16) as u16,
        IntOp::DivS => {
            if y == 0 {
                !0
            } else {
                sx.wrapping_div(sy) as u16
            }
        }
        IntOp::DivU => x.checked_div(y).unwrap_or(!0),
        IntOp::RemS => {
            if y == 0 {
                x
            } else {
                sx.wrapping_rem(sy) as u16
            }
        }
        IntOp::RemU => x.checked_rem(y).unwrap_or(x),
        IntOp::MinS => sx.min(sy) as u16,
        IntOp::MinU => x.min(y),
        IntOp::MaxS => sx.max(sy) as u16,
        IntOp::MaxU => x.max(y),
        IntOp::And => x & y,
        IntOp::Or => x | y,
        IntOp::Xor => x ^ y,
        IntOp::Neg => x.wrapping_neg(),
        IntOp::Not => !x,
        IntOp::Cnot => u16::from(x == 0),
        IntOp::Abs => sx.unsigned_abs(),
        IntOp::Brev => x.reverse_bits(),
    }
}

#[inline(always)]
pub(super) fn mulhi_s(x: u32, y: u32) -> u32 {
    ((i64::from(x as i32) * i64::from(y as i32)) >> 32) as u32
}

#[inline(always)]
pub(super) fn mulhi_u(x: u32, y: u32) -> u32 {
    ((u64::from(x) * u64::from(y)) >> 32) as u32
}

#[inline(always)]
pub(super) fn high64(signed: bool, x: u64, y: u64) -> u64 {
    if signed {
        ((i128::from(x as i64) * i128::from(y as i64)) >> 64) as u64
    } else {
        ((u128::from(x) * u128::from(y)) >> 64) as u64
    }
}

#[inline(always)]
fn mul16(signed: bool, x: u32, y: u32) -> u32 {
    if signed {
        (i32::from(x as i16) * i32::from(y as i16)) as u32
    } else {
        (x & 0xffff) * (y & 0xffff)
    }
}

fn ter32(
    context: &Context<'_>,
    warp: &mut Warp,
    mask: u32,
    op: TerOp,
    d: R32,
    a: S32,
    b: S32,
    c: S32,
) {
    macro_rules! go {
        ($f:expr) => {
            map3(context, warp, mask, d, a, b, c, $f)
        };
    }
    match op {
        TerOp::MadLo => go!(|x, y, z| x.wrapping_mul(y).wrapping_add(z)),
        TerOp::MadHiS => go!(|x, y, z| mulhi_s(x, y).wrapping_add(z)),
        TerOp::MadHiU => go!(|x, y, z| mulhi_u(x, y).wrapping_add(z)),
        TerOp::SadS => go!(|x, y, z| (x as i32).abs_diff(y as i32).wrapping_add(z)),
        TerOp::SadU => go!(|x, y, z| x.abs_diff(y).wrapping_add(z)),
        TerOp::BfeS => go!(|x, y, z| bfe(i64::from(x as i32) as u64, y, z, 32, true) as u32),
        TerOp::BfeU => go!(|x, y, z| bfe(u64::from(x), y, z, 32, false) as u32),
        TerOp::Lop3(table) => go!(|x, y, z| lop3(table, x, y, z)),
        TerOp::Prmt(mode) => go!(|x, y, z| prmt(mode, x, y, z)),
        TerOp::Shf { left, wrap } => go!(|x, y, z| {
            let n = if wrap { z & 31 } else { z.min(32) };
            let both = u64::from(y) << 32 | u64::from(x);
            if left { ((both << n) >> 32) as u32 } else { (both >> n) as u32 }
        }),
        TerOp::Dp4a { a_signed, b_signed } => go!(|x, y, z| {
            (0..4).fold(z, |sum, i| {
                let (p, q) = (byte(x, i, a_signed), byte(y, i, b_signed));
                sum.wrapping_add((p * q) as u32)
            })
        }),
        TerOp::Dp2a { a_signed, b_signed, high } => go!(|x, y, z| {
            (0..2).fold(z, |sum, i| {
                let half = (x >> (16 * i)) & 0xffff;
                let p = if a_signed { i32::from(half as u16 as i16) } else { half as i32 };
                let q = byte(y, i + if high { 2 } else { 0 }, b_signed);
                sum.wrapping_add(p.wrapping_mul(q) as u32)
            })
        }),
        TerOp::Fns => go!(fns),
        TerOp::BmskClamp => {
            go!(|x, y, _| { if x > 31 { 0 } else { field_mask(y.min(32)).wrapping_shl(x) } })
        }
        TerOp::BmskWrap => go!(|x, y, _| field_mask(y & 31) << (x & 31)),
    }
}

/// Returns `x * y + z` with one rounding, without a library call.
///
/// The product of two single-precision numbers is exact in double precision. The sum is rounded to
/// odd there: its last bit records if anything was lost. Rounding this to single precision equals
/// one rounding of the exact value, because the double has more than two extra bits (Boldo and
/// Melquiond, "Emulation of FMA and correctly rounded sums").
#[inline(always)]
pub(crate) fn fused32(x: f32, y: f32, z: f32) -> u32 {
    let (product, z) = (f64::from(x) * f64::from(y), f64::from(z));
    let sum = product + z;
    // Knuth's exact error of the sum.
    let back = sum - product;
    let error = (product - (sum - back)) + (z - back);
    let bits = sum.to_bits();
    // An infinite or NaN sum has a NaN error, which compares unequal to zero; such sums stay
    // unchanged.
    let lost = error != 0.0 && error.is_finite() && bits & 1 == 0;
    // Steps towards the error: up in magnitude if it has the sum's sign, else down.
    let away = (error.to_bits() ^ bits) >> 63 == 0;
    let odd = if away { bits | 1 } else { bits.wrapping_sub(1) };
    bits32(f64::from_bits(if lost { odd } else { bits }) as f32)
}

fn float32(
    context: &Context<'_>,
    warp: &mut Warp,
    mask: u32,
    op: FloatOp,
    mode: FloatMode,
    d: R32,
    a: S32,
    b: S32,
) {
    macro_rules! go {
        ($f:expr) => {
            map2(context, warp, mask, d, a, b, |x, y| {
                let f: fn(f32, f32) -> f32 = $f;
                bits32(f(f32::from_bits(x), f32::from_bits(y)))
            })
        };
    }
    if mode != FloatMode::IEEE {
        return map2(context, warp, mask, d, a, b, |x, y| float::op32(op, mode, x, y));
    }
    match op {
        FloatOp::Add => go!(|x, y| x + y),
        FloatOp::Sub => go!(|x, y| x - y),
        FloatOp::Mul => go!(|x, y| x * y),
        FloatOp::Div => go!(|x, y| x / y),
        FloatOp::Rcp => go!(|x, _| 1.0 / x),
        FloatOp::Sqrt => go!(|x, _| x.sqrt()),
        FloatOp::Min => {
            map2(context, warp, mask, d, a, b, |x, y| float::minimum32(x, y, false));
        }
        FloatOp::Max => {
            map2(context, warp, mask, d, a, b, |x, y| float::maximum32(x, y, false));
        }
        _ => map2(context, warp, mask, d, a, b, |x, y| float::op32(op, mode, x, y)),
    }
}

fn float64(
    context: &Context<'_>,
    warp: &mut Warp,
    mask: u32,
    op: FloatOp,
    mode: FloatMode,
    d: R64,
    a: S64,
    b: S64,
) {
    macro_rules! go {
        ($f:expr) => {
            map64(context, warp, mask, d, a, b, |x, y| {
                let f: fn(f64, f64) -> f64 = $f;
                bits64(f(f64::from_bits(x), f64::from_bits(y)))
            })
        };
    }
    if mode != FloatMode::IEEE {
        return map64(context, warp, mask, d, a, b, |x, y| float::op64(op, mode, x, y));
    }
    match op {
        FloatOp::Add => go!(|x, y| x + y),
        FloatOp::Sub => go!(|x, y| x - y),
        FloatOp::Mul => go!(|x, y| x * y),
        FloatOp::Div => go!(|x, y| x / y),
        FloatOp::Rcp => go!(|x, _| 1.0 / x),
        FloatOp::Sqrt => go!(|x, _| x.sqrt()),
        _ => map64(context, warp, mask, d, a, b, |x, y| float::op64(op, mode, x, y)),
    }
}

#[cfg(test)]
mod tests {
    use super::fused32;
    use crate::float::bits32;

    #[test]
    fn a_fused_product_without_a_library_is_the_library_s() {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            1e-45,
            -1e-45,
            f32::MIN_POSITIVE,
            f32::MAX,
            f32::MIN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            1.0 + f32::EPSILON,
            0.5,
            3e-39,
            16777216.0,
        ];
        for &x in &special {
            for &y in &special {
                for &z in &special {
                    assert_eq!(fused32(x, y, z), bits32(x.mul_add(y, z)), "{x:e} {y:e} {z:e}");
                }
            }
        }
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 32) as u32
        };
        for i in 0..300_000 {
            let (x, y, mut z) = (draw(), draw(), draw());
            if i % 2 == 0 {
                // Near the product, for cancellation or ties.
                let product = f32::from_bits(x) * f32::from_bits(y);
                z = (product.to_bits() ^ 1 << 31).wrapping_add(z & 3);
            }
            let [x, y, z] = [x, y, z].map(f32::from_bits);
            assert_eq!(fused32(x, y, z), bits32(x.mul_add(y, z)), "{x:e} {y:e} {z:e}");
        }
    }
}
