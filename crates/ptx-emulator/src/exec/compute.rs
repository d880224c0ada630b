//! Instructions within a lane: moves, comparisons, selections, conversions.

use super::{
    Context, Run, access, atomic, cvt, numeric,
    warp::{BIT, Warp},
};
use crate::{
    approx::{approx32, approx64},
    float,
    op::{Cmp, Combine, LANES, Op, P, PredOp, SP, Special, Src, Ty, V64},
};

/// Executes one instruction for the lanes in `mask`, of which there is at least one.
pub(crate) fn run(context: &mut Context<'_>, warp: &mut Warp, op: &Op, mask: u32) -> Run<()> {
    match *op {
        Op::Ld { ref mem, ref d } => return access::load(context, warp, mem, d, mask),
        Op::St { ref mem, ref s } => return access::store(context, warp, mem, s, mask),
        Op::Atom { op, ty, space, ref address, d, b, c } => {
            return atomic::run(context, warp, op, ty, space, address, d, b, c, mask);
        }
        Op::Mov32(d, a) => {
            let value = *warp.s32(context, a);
            warp.w32(d, mask, &value);
        }
        Op::Mov64(d, a) => {
            let value = *warp.s64(context, a);
            warp.w64(d, mask, &value);
        }
        Op::Setp { ty, cmp, ftz, a, b, with, p, q } => {
            let holds = compare(context, warp, ty, cmp, ftz, a, b);
            set_preds(warp, mask, holds, with, p, q);
        }
        Op::Set { ty, cmp, ftz, a, b, with, d, float } => {
            let holds = compare(context, warp, ty, cmp, ftz, a, b);
            let holds = combined(warp, holds, with);
            let yes = if float { 1f32.to_bits() } else { !0 };
            let out = BIT.map(|bit| if holds & bit != 0 { yes } else { 0 });
            warp.w32(d, mask, &out);
        }
        Op::Testp { test, a, p } => {
            let (ty, values) = match a {
                Src::S32(a) => (Ty::F32, warp.s32(context, a).map(u64::from)),
                Src::S64(a) => (Ty::F64, *warp.s64(context, a)),
            };
            let holds = pack_bits(|lane| float::test(test, values[lane], ty));
            warp.wp(p, mask, holds);
        }
        Op::Selp32 { d, a, b, p } => {
            let choose = warp.pred(p);
            let (x, y) = (warp.s32(context, a), warp.s32(context, b));
            let mut out = [0; LANES];
            for lane in 0..LANES {
                out[lane] = if choose & BIT[lane] != 0 { x[lane] } else { y[lane] };
            }
            warp.w32(d, mask, &out);
        }
        Op::Selp64 { d, a, b, p } => {
            let choose = warp.pred(p);
            let (x, y) = (warp.s64(context, a), warp.s64(context, b));
            let mut out = [0; LANES];
            for lane in 0..LANES {
                out[lane] = if choose & BIT[lane] != 0 { x[lane] } else { y[lane] };
            }
            warp.w64(d, mask, &out);
        }
        Op::Slct { d, a, b, c, float } => {
            let (x, y) = (wide(context, warp, a), wide(context, warp, b));
            let by = *warp.s32(context, c);
            let mut out = [0; LANES];
            for lane in 0..LANES {
                let first = match float {
                    true => f32::from_bits(by[lane]) >= 0.0,
                    false => by[lane] as i32 >= 0,
                };
                out[lane] = if first { x[lane] } else { y[lane] };
            }
            warp.write(d, mask, &out);
        }
        Op::Pred(op, p, a, b) => {
            let (x, y) = (warp.pred(a), warp.pred(b));
            let value = match op {
                PredOp::And => x & y,
                PredOp::Or => x | y,
                PredOp::Xor => x ^ y,
                PredOp::Not => !x,
                PredOp::Mov => x,
            };
            warp.wp(p, mask, value);
        }
        Op::Cvt(conversion, d, a) => cvt::run(context, warp, conversion, d, a, mask),
        Op::Pack { d, parts, count, bits } => {
            let mut out = [0; LANES];
            for (i, &part) in parts[..usize::from(count)].iter().enumerate() {
                let values = wide(context, warp, part);
                let keep = u64::MAX >> (64 - u32::from(bits));
                for lane in 0..LANES {
                    out[lane] |= (values[lane] & keep) << (i as u32 * u32::from(bits));
                }
            }
            warp.write(d, mask, &out);
        }
        Op::Unpack { d, count, bits, a } => {
            let values = wide(context, warp, a);
            let keep = u64::MAX >> (64 - u32::from(bits));
            for (i, &part) in d[..usize::from(count)].iter().enumerate() {
                let shift = i as u32 * u32::from(bits);
                warp.write(part, mask, &values.map(|value| value >> shift & keep));
            }
        }
        Op::MovSpecial(d, special) => {
            let value = special_value(context, warp, special);
            warp.write(d, mask, &value);
        }
        Op::MovLocal { d, offset } => {
            let value = access::local_base(context, warp.depth) + offset;
            warp.write(d, mask, &[value; LANES]);
        }
        Op::Cvta { space, to, d, a } => {
            let start = access::window(space);
            let value = wide(context, warp, a).map(|address| match to {
                true => address.wrapping_sub(start),
                false => address.wrapping_add(start),
            });
            warp.write(d, mask, &value);
        }
        Op::IsSpace { space, p, a } => {
            let addresses = wide(context, warp, a);
            let holds = pack_bits(|lane| access::is_in(context, space, addresses[lane]));
            warp.wp(p, mask, holds);
        }
        Op::ActiveMask(d) => warp.w32(d, mask, &[mask; LANES]),
        Op::Approx32 { op, ftz, d, a, b } => {
            let (x, y) = (warp.s32(context, a), warp.s32(context, b));
            let mut out = [0; LANES];
            for lane in 0..LANES {
                out[lane] = approx32(op, ftz, x[lane], y[lane]);
            }
            warp.w32(d, mask, &out);
        }
        Op::Approx64 { op, d, a } => {
            let out = warp.s64(context, a).map(|bits| approx64(op, bits));
            warp.w64(d, mask, &out);
        }
        Op::Nop => {}
        _ => numeric::run(context, warp, op, mask),
    }
    Ok(())
}

/// Returns a source of either class, as 64-bit values.
pub(crate) fn wide(context: &Context<'_>, warp: &Warp, source: Src) -> V64 {
    match source {
        Src::S32(a) => warp.s32(context, a).map(u64::from),
        Src::S64(a) => *warp.s64(context, a),
    }
}

#[inline(always)]
fn pack_bits(holds: impl Fn(usize) -> bool) -> u32 {
    let mut bits = 0;
    for lane in 0..LANES {
        bits |= if holds(lane) { BIT[lane] } else { 0 };
    }
    bits
}

fn combined(warp: &Warp, holds: u32, with: Option<(Combine, SP)>) -> u32 {
    match with {
        None => holds,
        Some((Combine::And, p)) => holds & warp.pred(p),
        Some((Combine::Or, p)) => holds | warp.pred(p),
        Some((Combine::Xor, p)) => holds ^ warp.pred(p),
    }
}

fn set_preds(
    warp: &mut Warp,
    mask: u32,
    holds: u32,
    with: Option<(Combine, SP)>,
    p: Option<P>,
    q: Option<P>,
) {
    let (yes, no) = (combined(warp, holds, with), combined(warp, !holds, with));
    if let Some(p) = p {
        warp.wp(p, mask, yes);
    }
    if let Some(q) = q {
        warp.wp(q, mask, no);
    }
}

fn compare(context: &Context<'_>, warp: &Warp, ty: Ty, cmp: Cmp, ftz: bool, a: Src, b: Src) -> u32 {
    match (a, b) {
        (Src::S32(a), Src::S32(b)) => {
            let (x, y) = (warp.s32(context, a), warp.s32(context, b));
            match ty {
                Ty::S32 => ordered(cmp, |i| (x[i] as i32, y[i] as i32)),
                Ty::S16 => ordered(cmp, |i| (x[i] as i16, y[i] as i16)),
                Ty::U16 | Ty::B16 => ordered(cmp, |i| (x[i] as u16, y[i] as u16)),
                Ty::F32 if ftz => unordered(cmp, |i| {
                    (f32::from_bits(float::flush(x[i])), f32::from_bits(float::flush(y[i])))
                }),
                Ty::F32 => unordered(cmp, |i| (f32::from_bits(x[i]), f32::from_bits(y[i]))),
                _ => ordered(cmp, |i| (x[i], y[i])),
            }
        }
        (Src::S64(a), Src::S64(b)) => {
            let (x, y) = (warp.s64(context, a), warp.s64(context, b));
            match ty {
                Ty::S64 => ordered(cmp, |i| (x[i] as i64, y[i] as i64)),
                Ty::F64 => unordered(cmp, |i| (f64::from_bits(x[i]), f64::from_bits(y[i]))),
                _ => ordered(cmp, |i| (x[i], y[i])),
            }
        }
        _ => unreachable!("the loader gives both operands the same width"),
    }
}

#[inline(always)]
fn ordered<T: Ord>(cmp: Cmp, get: impl Fn(usize) -> (T, T)) -> u32 {
    let test = |f: fn(&T, &T) -> bool| {
        pack_bits(|lane| {
            let (x, y) = get(lane);
            f(&x, &y)
        })
    };
    match cmp {
        Cmp::Eq => test(T::eq),
        Cmp::Ne => test(T::ne),
        Cmp::Lt => test(T::lt),
        Cmp::Le => test(T::le),
        Cmp::Gt => test(T::gt),
        Cmp::Ge => test(T::ge),
        _ => unreachable!("the loader allows unordered comparisons of floats only"),
    }
}

#[inline(always)]
fn unordered<T: PartialOrd>(cmp: Cmp, get: impl Fn(usize) -> (T, T)) -> u32 {
    let test = |f: fn(&T, &T) -> bool| {
        pack_bits(|lane| {
            let (x, y) = get(lane);
            f(&x, &y)
        })
    };
    let number = test(|x, y| x.partial_cmp(y).is_some());
    match cmp {
        Cmp::Eq => test(T::eq),
        Cmp::Ne => test(T::ne) & number,
        Cmp::Lt => test(T::lt),
        Cmp::Le => test(T::le),
        Cmp::Gt => test(T::gt),
        Cmp::Ge => test(T::ge),
        Cmp::Equ => test(T::eq) | !number,
        Cmp::Neu => test(T::ne) | !number,
        Cmp::Ltu => test(T::lt) | !number,
        Cmp::Leu => test(T::le) | !number,
        Cmp::Gtu => test(T::gt) | !number,
        Cmp::Geu => test(T::ge) | !number,
        Cmp::Num => number,
        Cmp::Nan => !number,
    }
}

fn special_value(context: &Context<'_>, warp: &Warp, special: Special) -> V64 {
    let launch = context.target.launch;
    let first = warp.index * LANES as u32;
    let same = |value: u32| [u64::from(value); LANES];
    match special {
        Special::Tid(axis) => std::array::from_fn(|lane| {
            u64::from(context.tid(first + lane as u32)[usize::from(axis)])
        }),
        Special::Ntid(axis) => same(launch.block[usize::from(axis)]),
        Special::Ctaid(axis) => same(context.block[usize::from(axis)]),
        Special::Nctaid(axis) => same(launch.grid[usize::from(axis)]),
        Special::LaneId => std::array::from_fn(|lane| lane as u64),
        Special::WarpId => same(warp.index),
        Special::WarpCount => same(context.threads.div_ceil(LANES as u32)),
        // There is one multiprocessor: a kernel must not use these numbers for anything that
        // affects a result.
        Special::SmId => same(0),
        Special::SmCount => same(1),
        Special::GridId => [context.target.grid_id; LANES],
        Special::LaneMask(cmp) => std::array::from_fn(|lane| {
            let below = u64::from(BIT[lane] - 1);
            let bit = u64::from(BIT[lane]);
            match cmp {
                Cmp::Lt => below,
                Cmp::Le => below | bit,
                Cmp::Gt => !(below | bit) & 0xffff_ffff,
                Cmp::Ge => !below & 0xffff_ffff,
                _ => bit,
            }
        }),
        // Time is counted in instructions.
        Special::Clock => same(clock(context, warp) as u32),
        Special::ClockHigh => same((clock(context, warp) >> 32) as u32),
        Special::Clock64 | Special::GlobalTimer => [clock(context, warp); LANES],
        Special::DynamicShared => same(launch.dynamic_shared),
        Special::TotalShared => same(launch.dynamic_shared + context.entry.shared_bytes),
    }
}

fn clock(context: &Context<'_>, warp: &Warp) -> u64 {
    context.stats.warp_instructions + warp.steps
}
