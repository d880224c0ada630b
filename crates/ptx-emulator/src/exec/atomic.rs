//! Atomic operations on memory.

use super::{
    Context, Run,
    access::{Place, addresses, lane_fault, locate, on_place},
    compute::wide,
    warp::Warp,
};
use crate::{
    error::Access,
    float::{bits32, bits64, flush},
    op::{Address, AtomOp, Dst, LANES, MemSpace, Src, Ty},
};

/// Executes `atom` and `red`, one lane after another in the schedule's order.
pub(crate) fn run(
    context: &mut Context<'_>,
    warp: &mut Warp,
    op: AtomOp,
    ty: Ty,
    space: MemSpace,
    address: &Address,
    d: Dst,
    b: Src,
    c: Option<Src>,
    mask: u32,
) -> Run<()> {
    let addresses = addresses(context, warp, address);
    let b = wide(context, warp, b);
    let c = c.map_or([0; LANES], |c| wide(context, warp, c));
    let mut out = [0; LANES];
    let size = ty.bytes();
    for position in 0..LANES {
        let lane = usize::from(context.lanes[position]);
        if mask >> lane & 1 == 0 {
            continue;
        }
        let address = addresses[lane];
        let (place, at) = locate(context, warp, space, address, size, Access::Atomic, lane)?;
        let in_shared = matches!(place, Place::Static | Place::Dynamic);
        let old = on_place(context, warp, place, true, |region, checks, _| {
            region.update(at, size as usize, lane, checks, |old| {
                apply(op, ty, old, b[lane], c[lane], in_shared)
            })
        })
        .map_err(|fault| {
            lane_fault(context, warp, place, Access::Atomic, fault, lane, address, size)
        })?;
        out[lane] = old;
    }
    warp.write(d, mask, &out);
    Ok(())
}

fn apply(op: AtomOp, ty: Ty, old: u64, b: u64, c: u64, in_shared: bool) -> u64 {
    let (old32, b32) = (old as u32, b as u32);
    match (op, ty) {
        (AtomOp::Add, Ty::F32) => {
            // By the PTX ISA, subnormal numbers are flushed in global memory and kept in shared
            // memory.
            let keep = |bits: u32| if in_shared { bits } else { flush(bits) };
            let sum = f32::from_bits(keep(old32)) + f32::from_bits(keep(b32));
            u64::from(keep(bits32(sum)))
        }
        (AtomOp::Add, Ty::F64) => bits64(f64::from_bits(old) + f64::from_bits(b)),
        (AtomOp::Add, Ty::U64 | Ty::S64) => old.wrapping_add(b),
        (AtomOp::Add, _) => u64::from(old32.wrapping_add(b32)),
        (AtomOp::Min, Ty::S32) => u64::from((old32 as i32).min(b32 as i32) as u32),
        (AtomOp::Max, Ty::S32) => u64::from((old32 as i32).max(b32 as i32) as u32),
        (AtomOp::Min, Ty::S64) => (old as i64).min(b as i64) as u64,
        (AtomOp::Max, Ty::S64) => (old as i64).max(b as i64) as u64,
        (AtomOp::Min, _) => old.min(b),
        (AtomOp::Max, _) => old.max(b),
        (AtomOp::And, _) => old & b,
        (AtomOp::Or, _) => old | b,
        (AtomOp::Xor, _) => old ^ b,
        (AtomOp::Exch, _) => b,
        (AtomOp::Cas, _) => {
            if old == b {
                c
            } else {
                old
            }
        }
        (AtomOp::Inc, _) => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        (AtomOp::Dec, _) => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
    }
}
