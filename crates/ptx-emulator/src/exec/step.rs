//! The instruction loop and control flow.

use super::{
    CALL_DEPTH, Context, Run, Trouble,
    warp::{BIT, Doing, Stop, Warp},
};
use crate::{
    error::FaultKind,
    load::CODE_WINDOW,
    op::{Barrier, Call, CallTarget, LANES, Op, S32},
    region::lanes,
};

/// Runs a warp until its turn is over or it cannot continue.
pub(crate) fn run(
    context: &mut Context<'_>,
    warp: &mut Warp,
    quantum: u64,
    arrived: &mut [u32; 16],
) -> Run<Stop> {
    if !warp.settle() {
        return Ok(stopped(warp));
    }
    warp.rebase(context);
    let loaded = context.target.loaded;
    let code = &loaded.module.code[..];
    let traced = if context.tally.is_some() { loaded.module.traced() } else { &[] };
    let limit = context.target.checks.step_limit;
    let (mut steps, mut lanes) = (0u64, 0u64);
    let stop = loop {
        if steps == quantum {
            // The running group joins the others and waits for its turn.
            let (pc, depth, mask) = (warp.pc, warp.depth, warp.mask);
            warp.split(pc, depth, mask, Doing::Ready);
            break Ok(Stop::Quantum);
        }
        steps += 1;
        let inst = &code[warp.pc as usize];
        let mask = warp.guard(inst.guard);
        lanes += u64::from(mask.count_ones());
        if let Some(mut tally) = context.tally.take() {
            tally.note(context, warp, inst, &traced[warp.pc as usize], mask);
            context.tally = Some(tally);
        }
        let moved = match &inst.op {
            Op::Bra { target } => {
                if mask == warp.mask {
                    warp.pc = *target;
                } else {
                    let (pc, depth) = (*target, warp.depth);
                    warp.split(pc, depth, mask, Doing::Ready);
                    warp.pc += 1;
                }
                Ok(())
            }
            op if is_plain(op) => {
                let done =
                    if mask != 0 { super::compute::run(context, warp, op, mask) } else { Ok(()) };
                warp.pc += u32::from(done.is_ok());
                done
            }
            op => control(context, warp, op, mask, arrived),
        };
        if let Err(trouble) = moved {
            break Err(trouble);
        }
        if warp.mask == 0 || warp.is_split() {
            let depth = warp.depth;
            if !warp.settle() {
                break Ok(stopped(warp));
            }
            if warp.depth != depth {
                warp.rebase(context);
            }
        }
    };
    warp.steps += steps;
    context.stats.warp_instructions += steps;
    context.stats.lane_instructions += lanes;
    if warp.steps > limit && stop.is_ok() {
        let lane = warp.live().trailing_zeros() % LANES as u32;
        return Err(Trouble::new(FaultKind::StepLimit { limit }, lane));
    }
    stop
}

/// Returns true if an instruction neither moves the program counter nor involves other lanes.
#[inline(always)]
fn is_plain(op: &Op) -> bool {
    !matches!(
        op,
        Op::BrxIdx { .. }
            | Op::Call(_)
            | Op::Ret
            | Op::Exit
            | Op::Trap
            | Op::Bar(_)
            | Op::WarpSync(_)
            | Op::Shfl { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
    )
}

fn stopped(warp: &Warp) -> Stop {
    if warp.live() == 0 { Stop::Done } else { Stop::Stuck }
}

fn control(
    context: &mut Context<'_>,
    warp: &mut Warp,
    op: &Op,
    mask: u32,
    arrived: &mut [u32; 16],
) -> Run<()> {
    if mask == 0 {
        warp.pc += 1;
        return Ok(());
    }
    let depth = warp.depth;
    match op {
        Op::BrxIdx { index, targets } => {
            let index = *warp.s32(context, *index);
            let next = warp.pc + 1;
            for lane in lanes(mask) {
                let Some(&target) = targets.get(index[lane] as usize) else {
                    let target = u64::from(index[lane]);
                    return Err(Trouble::new(FaultKind::InvalidTarget { target }, lane as u32));
                };
                warp.split(target, depth, BIT[lane], Doing::Ready);
            }
            warp.pc = next;
            regroup(warp);
        }
        Op::Call(call) => return enter(context, warp, call, mask),
        Op::Ret if depth > 0 => leave(context, warp, mask),
        Op::Ret | Op::Exit => {
            warp.exited |= mask;
            warp.mask &= !mask;
            warp.pc += 1;
            warp.retry();
        }
        Op::Trap => return Err(Trouble::new(FaultKind::Trap, mask.trailing_zeros())),
        Op::Bar(barrier) => return bar(context, warp, barrier, mask, arrived),
        Op::WarpSync(members) => {
            if let Some(ready) = gather(context, warp, *members, mask)? {
                warp.time += 1;
                context.clock.warp = warp.time;
                pass(warp, ready);
            }
        }
        Op::Shfl { mask: members, .. }
        | Op::Vote { mask: members, .. }
        | Op::Match { mask: members, .. }
        | Op::Redux { mask: members, .. } => {
            if let Some(ready) = gather(context, warp, *members, mask)? {
                super::lanes::run(context, warp, op, ready)?;
                pass(warp, ready);
            }
        }
        _ => unreachable!("plain instructions are executed elsewhere"),
    }
    Ok(())
}

/// Merges ready groups that a many-way branch has sent to the same place.
fn regroup(warp: &mut Warp) {
    let mut merged: Vec<super::warp::Group> = Vec::new();
    for group in warp.others.drain(..) {
        let same = |known: &&mut super::warp::Group| {
            known.pc == group.pc
                && known.depth == group.depth
                && matches!((&known.doing, &group.doing), (Doing::Ready, Doing::Ready))
        };
        match merged.iter_mut().find(same) {
            Some(known) => known.mask |= group.mask,
            None => merged.push(group),
        }
    }
    warp.others = merged;
}

/// Moves `ready` lanes past the current instruction and lets the rest of the group wait there.
/// Lanes whose guard is off have been moved already.
fn pass(warp: &mut Warp, ready: u32) {
    let rest = warp.mask & !ready;
    let (pc, depth) = (warp.pc, warp.depth);
    warp.split(pc, depth, rest, Doing::Gathering);
    warp.pc += 1;
}

/// Returns those lanes of `mask` whose member mask is completely present. If there are none, the
/// group waits.
fn gather(context: &Context<'_>, warp: &mut Warp, members: S32, mask: u32) -> Run<Option<u32>> {
    let members = *warp.s32(context, members);
    let (pc, depth) = (warp.pc, warp.depth);
    let mut ready = 0;
    for lane in lanes(mask) {
        if members[lane] & BIT[lane] == 0 {
            let detail =
                format!("lane {lane} is not in its own member mask {:#010x}", members[lane]);
            return Err(Trouble::new(FaultKind::DivergentBarrier { detail }, lane as u32));
        }
        if members[lane] & warp.live() & !mask == 0 {
            ready |= BIT[lane];
        }
    }
    // Lanes whose guard is off do not participate.
    let idle = warp.mask & !mask;
    warp.split(pc + 1, depth, idle, Doing::Ready);
    if ready == 0 {
        warp.split(pc, depth, mask, Doing::Gathering);
        return Ok(None);
    }
    Ok(Some(ready))
}

fn bar(
    context: &Context<'_>,
    warp: &mut Warp,
    barrier: &Barrier,
    mask: u32,
    arrived: &mut [u32; 16],
) -> Run<()> {
    let (pc, depth) = (warp.pc, warp.depth);
    let idle = warp.mask & !mask;
    warp.split(pc + 1, depth, idle, Doing::Ready);
    if barrier.aligned && mask != warp.live() {
        warp.split(pc, depth, mask, Doing::Gathering);
        return Ok(());
    }
    let first = mask.trailing_zeros();
    let uniform = |source: S32| -> Run<u32> {
        let values = warp.s32(context, source);
        let value = values[first as usize];
        if lanes(mask).any(|lane| values[lane] != value) {
            let detail = "the lanes of a warp name different barriers or counts".to_owned();
            return Err(Trouble::new(FaultKind::DivergentBarrier { detail }, first));
        }
        Ok(value)
    };
    let id = uniform(barrier.id)?;
    let count = barrier.count.map(uniform).transpose()?;
    let bad_count =
        count.is_some_and(|n| n == 0 || n % 32 != 0 || n > context.threads.next_multiple_of(32));
    if id > 15 || bad_count {
        let detail = format!(
            "barrier {id} for {count:?} threads: barriers are 0 to 15, counts multiples of 32"
        );
        return Err(Trouble::new(FaultKind::DivergentBarrier { detail }, first));
    }
    if barrier.arrive {
        arrived[id as usize] += mask.count_ones();
        warp.pc += 1;
    } else {
        warp.split(pc, depth, mask, Doing::Waiting { id, count, barrier: *barrier });
    }
    Ok(())
}

/// Calls a function for the lanes in `mask`.
fn enter(context: &mut Context<'_>, warp: &mut Warp, call: &Call, mask: u32) -> Run<()> {
    let module = &context.target.loaded.module;
    let (pc, depth) = (warp.pc, warp.depth as usize);
    let idle = warp.mask & !mask;
    warp.split(pc + 1, warp.depth, idle, Doing::Ready);
    if depth + 1 > CALL_DEPTH {
        let kind = FaultKind::CallDepth { limit: CALL_DEPTH };
        return Err(Trouble::new(kind, mask.trailing_zeros()));
    }
    let mut targets = [0u32; LANES];
    match call.target {
        CallTarget::Direct(index) => targets = [index; LANES],
        CallTarget::Indirect(pointer) => {
            let pointers = warp.s64(context, pointer);
            for lane in lanes(mask) {
                let index = pointers[lane].wrapping_sub(CODE_WINDOW);
                let function = usize::try_from(index).ok().and_then(|i| module.functions.get(i));
                let fits = function.is_some_and(|f| {
                    f.defined
                        && !f.is_entry
                        && f.params.iter().map(|p| p.size).eq(call.args.iter().map(|a| a.1))
                        && f.rets.iter().map(|p| p.size).eq(call.rets.iter().map(|a| a.1))
                });
                if !fits {
                    let target = pointers[lane];
                    return Err(Trouble::new(FaultKind::InvalidTarget { target }, lane as u32));
                }
                targets[lane] = index as u32;
            }
        }
    }
    warp.reserve(context, depth + 1);
    let frame = context.max_frame;
    let (callers, callees) = warp.frames.split_at_mut(depth + 1);
    for lane in lanes(mask) {
        warp.returns[depth][lane] = pc;
        let function = &module.functions[targets[lane] as usize];
        for (&(from, size), param) in call.args.iter().zip(&function.params) {
            let (from, to) = (lane * frame + from as usize, lane * frame + param.offset as usize);
            let size = size as usize;
            callees[0][to..to + size].copy_from_slice(&callers[depth][from..from + size]);
        }
    }
    // The local memory of a lane below this call is new.
    warp.mask = 0;
    for lane in lanes(mask) {
        let start = module.functions[targets[lane] as usize].start;
        match warp.others.iter_mut().find(|group| {
            group.pc == start
                && group.depth == depth as u32 + 1
                && matches!(group.doing, Doing::Ready)
        }) {
            Some(group) => group.mask |= BIT[lane],
            None => warp.others.push(super::warp::Group {
                pc: start,
                depth: depth as u32 + 1,
                mask: BIT[lane],
                doing: Doing::Ready,
            }),
        }
    }
    Ok(())
}

/// Returns from a function for the lanes in `mask`.
fn leave(context: &Context<'_>, warp: &mut Warp, mask: u32) {
    let module = &context.target.loaded.module;
    let depth = warp.depth as usize;
    let function = function_at(context, warp.pc);
    let (pc, idle) = (warp.pc, warp.mask & !mask);
    warp.split(pc + 1, depth as u32, idle, Doing::Ready);
    let frame = context.max_frame;
    let (callers, callees) = warp.frames.split_at_mut(depth);
    for lane in lanes(mask) {
        let site = warp.returns[depth - 1][lane];
        if let Op::Call(call) = &module.code[site as usize].op {
            for (&(to, size), ret) in call.rets.iter().zip(&function.rets) {
                let (to, from) = (lane * frame + to as usize, lane * frame + ret.offset as usize);
                let size = size as usize;
                callers[depth - 1][to..to + size].copy_from_slice(&callees[0][from..from + size]);
            }
        }
    }
    warp.mask = 0;
    for lane in lanes(mask) {
        let back = warp.returns[depth - 1][lane] + 1;
        let at = warp.others.iter_mut().find(|group| {
            group.pc == back
                && group.depth == depth as u32 - 1
                && matches!(group.doing, Doing::Ready)
        });
        match at {
            Some(group) => group.mask |= BIT[lane],
            None => warp.others.push(super::warp::Group {
                pc: back,
                depth: depth as u32 - 1,
                mask: BIT[lane],
                doing: Doing::Ready,
            }),
        }
    }
}

/// Returns the function that contains the instruction at `pc`.
fn function_at<'a>(context: &'a Context<'_>, pc: u32) -> &'a crate::module::Function {
    let functions = &context.target.loaded.module.functions;
    functions
        .iter()
        .filter(|function| function.defined && function.start <= pc)
        .max_by_key(|function| function.start)
        .expect("every instruction belongs to a function")
}
