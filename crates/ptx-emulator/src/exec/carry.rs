//! Carry chains.

use super::{
    Context,
    numeric::{high64, mulhi_s, mulhi_u},
    warp::Warp,
};
use crate::op::{Carry, CarryOp, R32, R64, S32, S64};

pub(super) fn carry32(
    context: &Context<'_>,
    warp: &mut Warp,
    mask: u32,
    carry: Carry,
    d: R32,
    a: S32,
    b: S32,
    c: S32,
) {
    let (x, y, z) = (warp.s32(context, a), warp.s32(context, b), warp.s32(context, c));
    let mut flags = 0;
    let taken = warp.carry;
    let out = std::array::from_fn(|i| {
        let (first, second) = match carry.op {
            CarryOp::Add | CarryOp::Sub => (x[i], y[i]),
            CarryOp::MadLo => (x[i].wrapping_mul(y[i]), z[i]),
            CarryOp::MadHiS => (mulhi_s(x[i], y[i]), z[i]),
            CarryOp::MadHiU => (mulhi_u(x[i], y[i]), z[i]),
        };
        let flag = carry.take && taken >> i & 1 == 1;
        let (sum, over) = match carry.op {
            CarryOp::Sub => {
                let (once, first_over) = first.overflowing_sub(second);
                let (twice, second_over) = once.overflowing_sub(u32::from(flag));
                (twice, first_over || second_over)
            }
            _ => {
                let (once, first_over) = first.overflowing_add(second);
                let (twice, second_over) = once.overflowing_add(u32::from(flag));
                (twice, first_over || second_over)
            }
        };
        flags |= u32::from(over) << i;
        sum
    });
    warp.w32(d, mask, &out);
    if carry.give {
        warp.carry = (warp.carry & !mask) | (flags & mask);
    }
}

pub(super) fn carry64(
    context: &Context<'_>,
    warp: &mut Warp,
    mask: u32,
    carry: Carry,
    d: R64,
    a: S64,
    b: S64,
    c: S64,
) {
    let (x, y, z) = (warp.s64(context, a), warp.s64(context, b), warp.s64(context, c));
    let mut flags = 0;
    let taken = warp.carry;
    let out = std::array::from_fn(|i| {
        let (first, second) = match carry.op {
            CarryOp::Add | CarryOp::Sub => (x[i], y[i]),
            CarryOp::MadLo => (x[i].wrapping_mul(y[i]), z[i]),
            CarryOp::MadHiS => (high64(true, x[i], y[i]), z[i]),
            CarryOp::MadHiU => (high64(false, x[i], y[i]), z[i]),
        };
        let flag = carry.take && taken >> i & 1 == 1;
        let (sum, over) = match carry.op {
            CarryOp::Sub => {
                let (once, first_over) = first.overflowing_sub(second);
                let (twice, second_over) = once.overflowing_sub(u64::from(flag));
                (twice, first_over || second_over)
            }
            _ => {
                let (once, first_over) = first.overflowing_add(second);
                let (twice, second_over) = once.overflowing_add(u64::from(flag));
                (twice, first_over || second_over)
            }
        };
        flags |= u32::from(over) << i;
        sum
    });
    warp.w64(d, mask, &out);
    if carry.give {
        warp.carry = (warp.carry & !mask) | (flags & mask);
    }
}
