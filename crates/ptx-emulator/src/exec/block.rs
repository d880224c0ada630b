//! A block: its warps and their barriers.

use super::{
    Context, Trouble,
    warp::{Doing, Stop, Warp},
};
use crate::{
    error::FaultKind,
    op::{BarRed, LANES},
};

/// A fault, the thread that caused it, and its line.
pub(crate) type Failed = (u32, Box<Trouble>, u32);

/// Runs one block to its end.
pub(crate) fn run(context: &mut Context<'_>, warps: &mut [Warp]) -> Result<(), Failed> {
    context.clock.now += 1;
    context.clock.block = context.clock.now;
    let (shared, dynamic) = (context.shared.len(), context.dynamic.len());
    context.shared.reset(shared);
    context.dynamic.reset(dynamic);
    let mut lanes: [u8; LANES] = std::array::from_fn(|lane| lane as u8);
    context.order.arrange(&mut lanes);
    context.lanes = lanes;
    for warp in warps.iter_mut() {
        warp.reset(context);
        warp.steps = 0;
    }
    if let Some(tally) = &mut context.tally {
        tally.begin_block(warps.len());
    }
    let mut arrived = Arrived::default();
    loop {
        run_interval(context, warps, &mut arrived)?;
        if warps.iter().all(|warp| warp.live() == 0) {
            if let Some(tally) = &mut context.tally {
                tally.end_block(warps);
            }
            return Ok(());
        }
        if !release(context, warps, &mut arrived) {
            return Err(explain(context, warps));
        }
        if let Some(tally) = &mut context.tally {
            tally.barrier();
        }
        context.clock.now += 1;
        for warp in warps.iter_mut() {
            warp.time = 0;
        }
    }
}

/// The number of threads that passed `bar.arrive` without waiting, by barrier.
#[derive(Debug, Default)]
struct Arrived([u32; 16]);

/// Runs every warp until none can continue.
fn run_interval(
    context: &mut Context<'_>,
    warps: &mut [Warp],
    arrived: &mut Arrived,
) -> Result<(), Failed> {
    let mut running: Vec<usize> = (0..warps.len()).collect();
    context.order.arrange(&mut running);
    while !running.is_empty() {
        let mut waiting = Vec::new();
        for &index in &running {
            let warp = &mut warps[index];
            context.clock.warp = warp.time;
            let quantum = context.order.quantum();
            match super::step::run(context, warp, quantum, &mut arrived.0) {
                Ok(Stop::Quantum) => waiting.push(index),
                Ok(Stop::Stuck | Stop::Done) => {}
                Err(trouble) => {
                    let line = context.target.loaded.module.code[warp.pc as usize].line;
                    return Err((warp.index * LANES as u32 + trouble.lane, trouble, line));
                }
            }
        }
        running = waiting;
        if running.len() > 1 {
            running.sort_unstable();
            context.order.arrange(&mut running);
        }
    }
    Ok(())
}

/// Opens every barrier that is complete. Returns true if there was one.
fn release(context: &Context<'_>, warps: &mut [Warp], arrived: &mut Arrived) -> bool {
    let mut any = false;
    for id in 0..16 {
        let mut threads = arrived.0[id as usize];
        let mut expected = None;
        let (mut ones, mut total) = (0, 0);
        for warp in warps.iter() {
            for group in &warp.others {
                let Doing::Waiting { id: at, count, barrier } = &group.doing else { continue };
                if *at != id {
                    continue;
                }
                expected = Some(count.unwrap_or(context.threads));
                threads += group.mask.count_ones();
                if let Some((_, value)) = barrier.red {
                    total += group.mask.count_ones();
                    ones +=
                        (group.mask & predicate(warp, group.depth, context, value)).count_ones();
                }
            }
        }
        if expected != Some(threads) {
            continue;
        }
        any = true;
        arrived.0[id as usize] = 0;
        for warp in warps.iter_mut() {
            for at in 0..warp.others.len() {
                let group = warp.others[at].clone();
                let Doing::Waiting { id: here, barrier, .. } = &group.doing else { continue };
                if *here != id {
                    continue;
                }
                warp.others[at].doing = Doing::Ready;
                warp.others[at].pc += 1;
                let depth = warp.depth;
                warp.depth = group.depth;
                warp.rebase(context);
                let holds = match barrier.red {
                    Some((BarRed::And, _)) => ones == total,
                    _ => ones > 0,
                };
                if let Some(p) = barrier.pred {
                    warp.wp(p, group.mask, if holds { !0 } else { 0 });
                }
                if let Some(d) = barrier.dst {
                    warp.w32(d, group.mask, &[ones; LANES]);
                }
                warp.depth = depth;
            }
        }
    }
    any
}

/// Returns a predicate in the registers of an activation other than the running one.
fn predicate(warp: &Warp, depth: u32, context: &Context<'_>, value: crate::op::SP) -> u32 {
    match value {
        crate::op::SP::Reg { index, negated } => {
            let base = match depth {
                0 => 0,
                _ => context.entry.preds as usize + (depth as usize - 1) * context.max_preds,
            };
            let bits = warp.preds[base + usize::from(index)];
            if negated { !bits } else { bits }
        }
        crate::op::SP::Const(constant) => {
            if constant {
                !0
            } else {
                0
            }
        }
    }
}

/// Explains why a block cannot continue, from its first waiting group.
fn explain(context: &Context<'_>, warps: &[Warp]) -> Failed {
    let code = &context.target.loaded.module.code;
    let mut places: Vec<(u32, String, u32)> = Vec::new();
    let mut first = None;
    let mut exited = 0;
    let mut barrier = false;
    for warp in warps {
        exited += warp.exited.count_ones();
        for group in &warp.others {
            let line = code[group.pc as usize].line;
            let what = match &group.doing {
                Doing::Waiting { id, count, .. } => {
                    barrier = true;
                    let wanted = count.unwrap_or(context.threads);
                    format!("at barrier {id} for {wanted} threads on line {line}")
                }
                _ => {
                    barrier |= matches!(code[group.pc as usize].op, crate::op::Op::Bar(_));
                    format!("for the other lanes of their warp on line {line}")
                }
            };
            let lane = group.mask.trailing_zeros();
            first.get_or_insert((warp.index * LANES as u32 + lane, lane, line));
            let threads = group.mask.count_ones();
            match places.iter_mut().find(|(_, known, _)| *known == what) {
                Some(place) => place.2 += threads,
                None => places.push((line, what, threads)),
            }
        }
    }
    places.sort();
    let mut parts: Vec<String> = places
        .into_iter()
        .map(|(_, what, threads)| format!("{threads} threads wait {what}"))
        .collect();
    if exited > 0 {
        parts.push(format!("{exited} threads have exited"));
    }
    let detail = parts.join(", ");
    let (thread, lane, line) = first.unwrap_or((0, 0, 0));
    let kind = if barrier {
        FaultKind::DivergentBarrier { detail }
    } else {
        FaultKind::Deadlock { detail }
    };
    (thread, Trouble::new(kind, lane), line)
}
