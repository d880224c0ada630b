//! A warp: registers and the groups that its lanes have diverged into.
//!
//! Lanes at the same instruction form a group. Of the groups that can continue, the one in the
//! deepest call runs; of several, the one with the lowest program counter. Compilers place the
//! point where branches meet after them, so groups meet there without any analysis of the program.

use super::Context;
use crate::{
    op::{Barrier, Dst, LANES, P, R32, R64, Reg, S32, S64, SP, V32, V64},
    region::Region,
};

/// The state of a group of lanes.
#[derive(Clone, Debug)]
pub(crate) enum Doing {
    Ready,
    /// At an instruction that needs lanes which have not arrived.
    Gathering,
    /// Arrived at a barrier of the block; the barrier's number and thread count.
    Waiting {
        id: u32,
        count: Option<u32>,
        barrier: Barrier,
    },
}

/// Lanes at the same instruction.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) pc: u32,
    pub(crate) depth: u32,
    pub(crate) mask: u32,
    pub(crate) doing: Doing,
}

/// The reason why a warp stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Its turn is over.
    Quantum,
    /// No group can continue by itself.
    Stuck,
    /// Every lane has exited.
    Done,
}

/// The registers and control state of 32 lanes.
#[derive(Debug)]
pub(crate) struct Warp {
    pub(crate) index: u32,
    /// The lanes that exist: the last warp of a block may be short.
    pub(crate) valid: u32,
    pub(crate) exited: u32,
    pub(crate) regs32: Vec<V32>,
    pub(crate) regs64: Vec<V64>,
    pub(crate) preds: Vec<u32>,
    /// The carry flag.
    pub(crate) carry: u32,
    pub(crate) pc: u32,
    pub(crate) depth: u32,
    /// The lanes of the running group.
    pub(crate) mask: u32,
    pub(crate) others: Vec<Group>,
    /// The return address of each lane for the call at each depth.
    pub(crate) returns: Vec<[u32; LANES]>,
    /// The parameters of functions and calls by depth, lane after lane.
    pub(crate) frames: Vec<Vec<u8>>,
    /// The local memory by depth, lane after lane.
    pub(crate) local: Vec<Region>,
    /// The number of times that the lanes have synchronised in this interval.
    pub(crate) time: u64,
    pub(crate) steps: u64,
    base32: usize,
    base64: usize,
    base_pred: usize,
}

/// The content of an undefined register: a recognisable pattern.
const UNDEFINED: u32 = 0xa5a5_a5a5;

impl Warp {
    pub(crate) fn new(context: &Context<'_>, index: u32) -> Warp {
        let lanes = (context.threads - index * LANES as u32).min(LANES as u32);
        Warp {
            index,
            valid: if lanes == 32 { !0 } else { (1 << lanes) - 1 },
            exited: 0,
            regs32: Vec::new(),
            regs64: Vec::new(),
            preds: Vec::new(),
            carry: 0,
            pc: 0,
            depth: 0,
            mask: 0,
            others: Vec::new(),
            returns: Vec::new(),
            frames: Vec::new(),
            local: Vec::new(),
            time: 0,
            steps: 0,
            base32: 0,
            base64: 0,
            base_pred: 0,
        }
    }

    /// Moves the warp to the start of the entry point.
    pub(crate) fn reset(&mut self, context: &Context<'_>) {
        let entry = context.entry;
        self.exited = 0;
        let undefined64 = u64::from(UNDEFINED) << 32 | u64::from(UNDEFINED);
        self.regs32.clear();
        self.regs32.resize(entry.regs32 as usize, [UNDEFINED; LANES]);
        self.regs64.clear();
        self.regs64.resize(entry.regs64 as usize, [undefined64; LANES]);
        self.preds.clear();
        self.preds.resize(entry.preds as usize, 0);
        self.carry = 0;
        self.others.clear();
        self.returns.clear();
        self.frames.truncate(1);
        if self.frames.is_empty() {
            self.frames.push(Vec::new());
        }
        self.frames[0].clear();
        self.frames[0].resize(context.max_frame * LANES, crate::region::POISON);
        self.local.truncate(1);
        if self.local.is_empty() {
            self.local.push(Region::default());
        }
        self.local[0].reset(entry.local_bytes.next_multiple_of(64) as usize * LANES);
        self.time = 0;
        self.enter(entry.start, 0, self.valid);
    }

    /// Makes a group the running one.
    pub(crate) fn enter(&mut self, pc: u32, depth: u32, mask: u32) {
        (self.pc, self.depth, self.mask) = (pc, depth, mask);
    }

    /// Sets the bases of the register files for the current depth.
    pub(crate) fn rebase(&mut self, context: &Context<'_>) {
        if self.depth == 0 {
            (self.base32, self.base64, self.base_pred) = (0, 0, 0);
            return;
        }
        let above = self.depth as usize - 1;
        self.base32 = context.entry.regs32 as usize + above * context.max_regs32;
        self.base64 = context.entry.regs64 as usize + above * context.max_regs64;
        self.base_pred = context.entry.preds as usize + above * context.max_preds;
    }

    /// Returns the position of a register of the running activation in its file.
    pub(crate) fn slot(&self, reg: Reg) -> usize {
        match reg {
            Reg::B32(index) => self.base32 + usize::from(index),
            Reg::B64(index) => self.base64 + usize::from(index),
            Reg::Pred(index) => self.base_pred + usize::from(index),
        }
    }

    /// Reserves space for one more activation at `depth`.
    pub(crate) fn reserve(&mut self, context: &Context<'_>, depth: usize) {
        let entry = context.entry;
        let undefined64 = u64::from(UNDEFINED) << 32 | u64::from(UNDEFINED);
        let size32 = entry.regs32 as usize + depth * context.max_regs32;
        let size64 = entry.regs64 as usize + depth * context.max_regs64;
        let preds = entry.preds as usize + depth * context.max_preds;
        if self.regs32.len() < size32 {
            self.regs32.resize(size32, [UNDEFINED; LANES]);
        }
        if self.regs64.len() < size64 {
            self.regs64.resize(size64, [undefined64; LANES]);
        }
        if self.preds.len() < preds {
            self.preds.resize(preds, 0);
        }
        if self.returns.len() < depth {
            self.returns.resize(depth, [0; LANES]);
        }
        while self.frames.len() <= depth {
            self.frames.push(vec![crate::region::POISON; context.max_frame * LANES]);
        }
        while self.local.len() <= depth {
            self.local.push(Region::uninitialised(context.max_local * LANES));
        }
    }

    /// Returns the lanes that have not exited.
    pub(crate) fn live(&self) -> u32 {
        self.valid & !self.exited
    }

    /// Returns true if the lanes are in several groups.
    pub(crate) fn is_split(&self) -> bool {
        !self.others.is_empty()
    }

    /// Splits lanes off the running group.
    pub(crate) fn split(&mut self, pc: u32, depth: u32, mask: u32, doing: Doing) {
        if mask != 0 {
            self.mask &= !mask;
            self.others.push(Group { pc, depth, mask, doing });
        }
    }

    /// Merges the running group with any other at the same instruction, then selects the group
    /// whose turn it is. Returns true if there is one.
    pub(crate) fn settle(&mut self) -> bool {
        if self.mask != 0 {
            let (pc, depth) = (self.pc, self.depth);
            let mut joined = 0;
            self.others.retain(|group| {
                let here = group.pc == pc
                    && group.depth == depth
                    && !matches!(group.doing, Doing::Waiting { .. });
                joined |= if here { group.mask } else { 0 };
                !here
            });
            self.mask |= joined;
        }
        let rank = |depth: u32, pc: u32| (u32::MAX - depth, pc);
        let best = self
            .others
            .iter()
            .enumerate()
            .filter(|(_, group)| matches!(group.doing, Doing::Ready))
            .min_by_key(|(_, group)| rank(group.depth, group.pc))
            .map(|(index, group)| (index, rank(group.depth, group.pc)));
        match best {
            Some((index, key)) if self.mask == 0 || key < rank(self.depth, self.pc) => {
                let next = self.others.swap_remove(index);
                if self.mask != 0 {
                    let (pc, depth, mask) = (self.pc, self.depth, self.mask);
                    self.others.push(Group { pc, depth, mask, doing: Doing::Ready });
                }
                self.enter(next.pc, next.depth, next.mask);
                // Another group may be at the same instruction.
                if self.others.iter().any(|group| group.pc == next.pc) {
                    self.settle()
                } else {
                    true
                }
            }
            _ => self.mask != 0,
        }
    }

    /// Lets groups that waited for lanes try again, because lanes have exited.
    pub(crate) fn retry(&mut self) {
        for group in &mut self.others {
            if matches!(group.doing, Doing::Gathering) {
                group.doing = Doing::Ready;
            }
        }
    }

    #[inline(always)]
    pub(crate) fn s32<'v>(&'v self, context: &'v Context<'_>, source: S32) -> &'v V32 {
        match source {
            S32::Reg(index) => &self.regs32[self.base32 + usize::from(index)],
            S32::Const(index) => &context.target.loaded.c32[index as usize],
        }
    }

    #[inline(always)]
    pub(crate) fn s64<'v>(&'v self, context: &'v Context<'_>, source: S64) -> &'v V64 {
        match source {
            S64::Reg(index) => &self.regs64[self.base64 + usize::from(index)],
            S64::Const(index) => &context.target.loaded.c64[index as usize],
        }
    }

    #[inline(always)]
    pub(crate) fn pred(&self, source: SP) -> u32 {
        match source {
            SP::Reg { index, negated } => {
                let value = self.preds[self.base_pred + usize::from(index)];
                if negated { !value } else { value }
            }
            SP::Const(true) => !0,
            SP::Const(false) => 0,
        }
    }

    #[inline(always)]
    pub(crate) fn guard(&self, guard: Option<(u16, bool)>) -> u32 {
        match guard {
            None => self.mask,
            Some((index, negated)) => self.mask & self.pred(SP::Reg { index, negated }),
        }
    }

    #[inline(always)]
    pub(crate) fn w32(&mut self, d: R32, mask: u32, value: &V32) {
        let slot = &mut self.regs32[self.base32 + usize::from(d.0)];
        if mask == !0 {
            *slot = *value;
        } else {
            for lane in 0..LANES {
                slot[lane] = if mask & BIT[lane] != 0 { value[lane] } else { slot[lane] };
            }
        }
    }

    #[inline(always)]
    pub(crate) fn w64(&mut self, d: R64, mask: u32, value: &V64) {
        let slot = &mut self.regs64[self.base64 + usize::from(d.0)];
        if mask == !0 {
            *slot = *value;
        } else {
            for lane in 0..LANES {
                slot[lane] = if mask & BIT[lane] != 0 { value[lane] } else { slot[lane] };
            }
        }
    }

    #[inline(always)]
    pub(crate) fn wp(&mut self, d: P, mask: u32, value: u32) {
        let slot = &mut self.preds[self.base_pred + usize::from(d.0)];
        *slot = (*slot & !mask) | (value & mask);
    }

    /// Writes 64-bit values to a register of either class.
    pub(crate) fn write(&mut self, d: Dst, mask: u32, value: &V64) {
        match d {
            Dst::R64(d) => self.w64(d, mask, value),
            Dst::R32(d) => self.w32(d, mask, &value.map(|v| v as u32)),
            Dst::None => {}
        }
    }
}

/// The bit of each lane.
pub(crate) const BIT: [u32; LANES] = {
    let mut bits = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        bits[lane] = 1 << lane;
        lane += 1;
    }
    bits
};
