//! Exchanges between the lanes of a warp.

use super::{
    Context, Run, Trouble,
    warp::{BIT, Warp},
};
use crate::error::FaultKind;
use crate::op::{Dst, IntOp, LANES, Op, ShflMode, Src, VoteMode};
use crate::region::lanes;

/// Executes an exchange for the lanes in `mask`; all members of each are present.
pub(crate) fn run(context: &Context<'_>, warp: &mut Warp, op: &Op, mask: u32) -> Run<()> {
    match *op {
        Op::Shfl { mode, d, p, a, b, c, mask: members } => {
            let members = *warp.s32(context, members);
            let values = *warp.s32(context, a);
            let (by, limits) = (*warp.s32(context, b), *warp.s32(context, c));
            let mut out = [0; LANES];
            let mut found = 0;
            for lane in lanes(mask) {
                let (from, inside) = source(mode, lane as u32, by[lane], limits[lane]);
                if mask & members[lane] & BIT[from as usize] == 0 {
                    return Err(Trouble::new(FaultKind::InactiveLane { lane: from }, lane as u32));
                }
                out[lane] = values[from as usize];
                found |= if inside { BIT[lane] } else { 0 };
            }
            warp.w32(d, mask, &out);
            if let Some(p) = p {
                warp.wp(p, mask, found);
            }
        }
        Op::Vote { mode, p, d, a, mask: members } => {
            let ballot = warp.pred(a) & mask;
            let members = *warp.s32(context, members);
            let mut counts = [0; LANES];
            let mut holds = 0;
            for lane in lanes(mask) {
                let others = members[lane] & mask;
                let yes = ballot & others;
                counts[lane] = yes;
                let true_here = match mode {
                    VoteMode::All => yes == others,
                    VoteMode::Any => yes != 0,
                    VoteMode::Uni => yes == 0 || yes == others,
                    VoteMode::Ballot => false,
                };
                holds |= if true_here { BIT[lane] } else { 0 };
            }
            if let Some(d) = d {
                warp.w32(d, mask, &counts);
            }
            if let Some(p) = p {
                warp.wp(p, mask, holds);
            }
        }
        Op::Match { all, d, p, a, mask: members } => {
            let values = match a {
                Src::S32(a) => warp.s32(context, a).map(u64::from),
                Src::S64(a) => *warp.s64(context, a),
            };
            let members = *warp.s32(context, members);
            let mut out = [0; LANES];
            let mut holds = 0;
            for lane in lanes(mask) {
                let others = members[lane] & mask;
                let same = lanes(others)
                    .filter(|&other| values[other] == values[lane])
                    .fold(0, |set, other| set | BIT[other]);
                if !all {
                    out[lane] = same;
                } else if same == others {
                    out[lane] = others;
                    holds |= BIT[lane];
                }
            }
            warp.w32(d, mask, &out);
            if let Some(p) = p {
                warp.wp(p, mask, holds);
            }
        }
        Op::Redux { op, d, a, mask: members } => {
            let values = *warp.s32(context, a);
            let members = *warp.s32(context, members);
            let mut out = [0; LANES];
            for lane in lanes(mask) {
                let others = lanes(members[lane] & mask).map(|other| values[other]);
                out[lane] = others.reduce(|x, y| combine(op, x, y)).unwrap_or(0);
            }
            warp.write(Dst::R32(d), mask, &out.map(u64::from));
        }
        _ => unreachable!("only exchanges come here"),
    }
    Ok(())
}

fn combine(op: IntOp, x: u32, y: u32) -> u32 {
    match op {
        IntOp::Add => x.wrapping_add(y),
        IntOp::MinS => (x as i32).min(y as i32) as u32,
        IntOp::MaxS => (x as i32).max(y as i32) as u32,
        IntOp::MinU => x.min(y),
        IntOp::MaxU => x.max(y),
        IntOp::And => x & y,
        IntOp::Or => x | y,
        _ => x ^ y,
    }
}

/// Returns the lane that `lane` reads from, and true if that lies inside its segment, by the
/// pseudocode of the PTX ISA.
fn source(mode: ShflMode, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let by = b & 31;
    let clamp = c & 31;
    let segment = c >> 8 & 31;
    let max = (lane & segment) | (clamp & !segment & 31);
    let min = lane & segment;
    let (from, inside) = match mode {
        ShflMode::Up => (lane.wrapping_sub(by), (lane as i32 - by as i32) >= max as i32),
        ShflMode::Down => (lane + by, lane + by <= max),
        ShflMode::Bfly => (lane ^ by, lane ^ by <= max),
        ShflMode::Idx => {
            let from = min | (by & !segment & 31);
            (from, from <= max)
        }
    };
    if inside { (from, true) } else { (lane, false) }
}
