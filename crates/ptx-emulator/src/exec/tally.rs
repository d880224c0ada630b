//! Counts the costs of a launch while it runs.

use super::{Context, access, warp::Warp};
use crate::{
    counts::{Counts, Traced, Traffic},
    op::{Address, Inst, LANES, MemOp, MemSpace, Op, Reg, V64},
    region::lanes,
};
use std::collections::BTreeMap;

/// The size of a sector in bytes, the unit in which memory is read and written.
const SECTOR: u64 = 32;
const BANKS: u64 = 32;

/// The number of loads before a value.
#[derive(Clone, Copy, Debug, Default)]
struct Depth {
    /// The number of loads whose addresses depend on one another.
    chain: u32,
    /// The number of waits of the warp until the value is available.
    wait: u32,
}

impl Depth {
    fn max(self, other: Depth) -> Depth {
        Depth { chain: self.chain.max(other.chain), wait: self.wait.max(other.wait) }
    }
}

/// The depths of a warp's registers.
#[derive(Debug, Default)]
struct Chains {
    b32: Vec<Depth>,
    b64: Vec<Depth>,
    preds: Vec<Depth>,
    /// The deepest value in local memory and in parameters of calls.
    own: Depth,
    /// The waits before the current stretch of instructions, and within it.
    floor: u32,
    pending: u32,
    longest: u32,
}

impl Chains {
    fn file(&mut self, warp: &Warp, reg: Reg) -> &mut Depth {
        let (file, index) = match reg {
            Reg::B32(_) => (&mut self.b32, warp.slot(reg)),
            Reg::B64(_) => (&mut self.b64, warp.slot(reg)),
            Reg::Pred(_) => (&mut self.preds, warp.slot(reg)),
        };
        if file.len() <= index {
            file.resize(index + 1, Depth::default());
        }
        &mut file[index]
    }
}

/// The last block that accessed each sector of an allocation, by its number from 1.
type Seen = BTreeMap<u64, Vec<u32>>;

/// The counts of a launch so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    chains: Vec<Chains>,
    block: u32,
    loaded: Seen,
    stored: Seen,
    updated: Seen,
    /// Atomics by address.
    atomics: BTreeMap<u64, u64>,
}

/// The way an instruction accesses memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    Load,
    Store,
    Atomic,
}

impl Tally {
    pub(crate) fn begin_block(&mut self, warps: usize) {
        self.block += 1;
        self.chains.clear();
        self.chains.resize_with(warps, Chains::default);
    }

    /// Sets the waits of every warp to those of the last one to reach the barrier.
    pub(crate) fn barrier(&mut self) {
        let last = self.chains.iter().map(|chains| chains.pending).max().unwrap_or(0);
        for chains in &mut self.chains {
            (chains.floor, chains.pending) = (last, last);
        }
    }

    pub(crate) fn end_block(&mut self, warps: &[Warp]) {
        let counts = &mut self.counts;
        counts.warps += warps.len() as u64;
        let longest = warps.iter().map(|warp| warp.steps).max().unwrap_or(0);
        counts.longest = counts.longest.max(longest);
        let chain = self.chains.iter().map(|chains| chains.longest).max().unwrap_or(0);
        counts.chain = counts.chain.max(u64::from(chain));
        let waits = self.chains.iter().map(|chains| chains.pending).max().unwrap_or(0);
        counts.waits = counts.waits.max(u64::from(waits));
        counts.block_waits += u64::from(waits);
    }

    pub(crate) fn finish(mut self) -> Counts {
        self.counts.atomic_hottest = self.atomics.values().copied().max().unwrap_or(0);
        self.counts
    }

    /// Counts an instruction before it is executed for the lanes in `mask`.
    pub(crate) fn note(
        &mut self,
        context: &Context<'_>,
        warp: &Warp,
        inst: &Inst,
        traced: &Traced,
        mask: u32,
    ) {
        self.counts.instructions[traced.class as usize] += 1;
        let chains = &mut self.chains[warp.index as usize];
        let mut source = Depth::default();
        for &reg in &traced.operands.reads {
            source = source.max(*chains.file(warp, reg));
        }
        let issue = chains.floor.max(source.wait);
        chains.pending = chains.pending.max(issue);
        if traced.fence {
            chains.floor = chains.pending;
        }
        if mask == 0 {
            return;
        }
        let touched = match &inst.op {
            Op::Ld { mem, .. } => Some((Touch::Load, *mem)),
            Op::St { mem, .. } => Some((Touch::Store, *mem)),
            Op::Atom { space, ty, address, .. } => {
                let mem =
                    MemOp { space: *space, ty: *ty, count: 1, strong: true, address: *address };
                Some((Touch::Atomic, mem))
            }
            _ => None,
        };
        let mut value = source;
        if let Some((touch, mem)) = touched {
            let (space, addresses) = whereabouts(context, warp, mem.space, &mem.address, mask);
            match (space, touch) {
                (MemSpace::Generic | MemSpace::Global, Touch::Load) => {
                    value = Depth { chain: source.chain + 1, wait: issue + 1 };
                }
                (MemSpace::Generic | MemSpace::Global, Touch::Atomic) => value.wait = issue + 1,
                (MemSpace::Local | MemSpace::FrameParam, Touch::Load) => {
                    value = value.max(chains.own);
                }
                (MemSpace::Local | MemSpace::FrameParam, _) => chains.own = chains.own.max(source),
                _ => {}
            }
            self.touch(context, &mem, touch, space, &addresses, mask);
        }
        let chains = &mut self.chains[warp.index as usize];
        chains.longest = chains.longest.max(value.chain);
        let all = mask == warp.live();
        for &reg in &traced.operands.writes {
            let known = chains.file(warp, reg);
            *known = if all { value } else { known.max(value) };
        }
    }

    fn touch(
        &mut self,
        context: &Context<'_>,
        mem: &MemOp,
        touch: Touch,
        space: MemSpace,
        addresses: &V64,
        mask: u32,
    ) {
        let size = u64::from(mem.ty.bytes()) * u64::from(mem.count);
        let mut places = [0; LANES];
        let found = distinct(&mut places, lanes(mask).map(|lane| addresses[lane]));
        let repeats = u64::from(mask.count_ones()) - found.len() as u64;
        let counts = &mut self.counts;
        if touch == Touch::Atomic {
            counts.atomic_lanes += u64::from(mask.count_ones());
            counts.atomic_repeats += repeats;
        }
        match space {
            MemSpace::Shared => {
                let (waves, least) = waves(addresses, mask, size, touch == Touch::Atomic);
                counts.shared_waves += waves;
                counts.shared_least += least;
            }
            MemSpace::Const => counts.constant_replays += found.len() as u64 - 1,
            MemSpace::Generic | MemSpace::Global => {
                let (traffic, seen) = match touch {
                    Touch::Load => (&mut counts.loads, &mut self.loaded),
                    Touch::Store => (&mut counts.stores, &mut self.stored),
                    Touch::Atomic => (&mut counts.atomics, &mut self.updated),
                };
                if touch == Touch::Atomic {
                    for lane in lanes(mask) {
                        *self.atomics.entry(addresses[lane]).or_default() += 1;
                    }
                }
                traffic.needed += found.len() as u64 * size;
                let mut sectors = [0; LANES];
                let sectors = distinct(&mut sectors, found.iter().map(|place| place / SECTOR));
                traffic.asked += sectors.len() as u64;
                meet(context, traffic, seen, sectors, self.block);
            }
            _ => {}
        }
    }
}

/// Returns the state space of an access, and the addresses in it.
fn whereabouts(
    context: &Context<'_>,
    warp: &Warp,
    space: MemSpace,
    address: &Address,
    mask: u32,
) -> (MemSpace, V64) {
    let mut addresses = access::addresses(context, warp, address);
    if space != MemSpace::Generic {
        return (space, addresses);
    }
    // The lanes of one instruction almost never point into different spaces.
    let (space, _) = access::of_generic(addresses[mask.trailing_zeros() as usize]);
    for address in &mut addresses {
        *address = address.wrapping_sub(access::window(space));
    }
    (space, addresses)
}

/// Returns the distinct values in ascending order.
fn distinct(buffer: &mut V64, values: impl Iterator<Item = u64>) -> &[u64] {
    let mut len = 0;
    for value in values {
        buffer[len] = value;
        len += 1;
    }
    if !buffer[..len].is_sorted() {
        buffer[..len].sort_unstable();
    }
    let mut kept = 0;
    for at in 0..len {
        if kept == 0 || buffer[kept - 1] != buffer[at] {
            buffer[kept] = buffer[at];
            kept += 1;
        }
    }
    &buffer[..kept]
}

/// Marks sectors as accessed by a block.
fn meet(
    context: &Context<'_>,
    traffic: &mut Traffic,
    seen: &mut Seen,
    sectors: &[u64],
    block: u32,
) {
    let mut rest = sectors;
    while let Some(&first) = rest.first() {
        let Some((base, len)) = context.memory.range(first * SECTOR) else {
            // The access is a fault.
            return;
        };
        let end = (base + len).div_ceil(SECTOR);
        let here = rest.partition_point(|&sector| sector < end);
        let stamps = seen.entry(base).or_insert_with(|| vec![0; (end - base / SECTOR) as usize]);
        for sector in &rest[..here] {
            let stamp = &mut stamps[(sector - base / SECTOR) as usize];
            traffic.touched += u64::from(*stamp == 0);
            traffic.fetched += u64::from(*stamp != block);
            *stamp = block;
        }
        rest = &rest[here..];
    }
}

/// Returns the number of waves in which shared memory serves an instruction, and the number it
/// needs at least. Lanes of 8 bytes are served by halves of the warp, lanes of 16 bytes by
/// quarters. Lanes that read one word share it; atomics do not.
fn waves(addresses: &V64, mask: u32, size: u64, atomic: bool) -> (u64, u64) {
    let lanes_each = if size <= 4 { LANES } else { LANES * 4 / size as usize };
    let (mut total, mut least) = (0, 0);
    for first in (0..LANES).step_by(lanes_each) {
        let portion = (first..first + lanes_each).filter(|lane| mask >> lane & 1 == 1);
        let words = portion.flat_map(|lane| {
            let start = addresses[lane] / 4;
            start..start + size.div_ceil(4)
        });
        let mut banks = [0u64; BANKS as usize];
        let mut buffer = [0; LANES];
        if atomic {
            words.for_each(|word| banks[(word % BANKS) as usize] += 1);
        } else {
            for word in distinct(&mut buffer, words) {
                banks[(word % BANKS) as usize] += 1;
            }
        }
        let most = banks.into_iter().max().unwrap_or(0);
        total += most;
        least += most.min(1);
    }
    (total, least)
}
