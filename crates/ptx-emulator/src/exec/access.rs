//! Loads and stores.

use super::{
    Context, Run, Trouble,
    warp::{BIT, Warp},
};
use crate::{
    error::{Access, FaultKind, Space},
    load::DYNAMIC_SHARED,
    op::{Address, Base, Dst, LANES, MemOp, MemSpace, Src, V64},
    region::{LaneChecks, LaneFault, Region, Toucher, check_aligned, lanes},
};

/// The generic address at which shared memory and the other windows begin; below every device.
const SHARED_WINDOW: u64 = 0x6000_0000_0000;
const LOCAL_WINDOW: u64 = 0x6100_0000_0000;
const PARAM_WINDOW: u64 = 0x6200_0000_0000;
const WINDOW: u64 = 1 << 32;

/// Returns the offset that makes an address of a state space generic.
pub(crate) fn window(space: MemSpace) -> u64 {
    match space {
        MemSpace::Shared => SHARED_WINDOW,
        MemSpace::Local => LOCAL_WINDOW,
        MemSpace::EntryParam | MemSpace::FrameParam => PARAM_WINDOW,
        MemSpace::Global | MemSpace::Const | MemSpace::Generic => 0,
    }
}

/// Returns the state space of a generic address, and the address in it.
pub(crate) fn of_generic(address: u64) -> (MemSpace, u64) {
    for space in [MemSpace::Shared, MemSpace::Local, MemSpace::EntryParam] {
        let offset = address.wrapping_sub(window(space));
        if offset < WINDOW {
            return (space, offset);
        }
    }
    (MemSpace::Generic, address)
}

/// Returns true if a generic address points into `space`.
pub(crate) fn is_in(context: &Context<'_>, space: MemSpace, address: u64) -> bool {
    let constant = || context.memory.is_constant(address);
    match (space, of_generic(address).0) {
        (MemSpace::Const, MemSpace::Generic) => constant(),
        (MemSpace::Global, MemSpace::Generic) => !constant(),
        (wanted, found) => wanted == found,
    }
}

fn space_name(space: MemSpace) -> Space {
    match space {
        MemSpace::Generic => Space::Generic,
        MemSpace::Global => Space::Global,
        MemSpace::Shared => Space::Shared,
        MemSpace::Local => Space::Local,
        MemSpace::Const => Space::Const,
        MemSpace::EntryParam | MemSpace::FrameParam => Space::Param,
    }
}

/// Returns the start of an activation's local memory.
pub(crate) fn local_base(context: &Context<'_>, depth: u32) -> u64 {
    match depth {
        0 => 0,
        _ => {
            let entry = context.entry.local_bytes.next_multiple_of(64) as usize;
            (entry + (depth as usize - 1) * context.max_local) as u64
        }
    }
}

/// Returns the address of each lane.
#[inline(always)]
pub(crate) fn addresses(context: &Context<'_>, warp: &Warp, address: &Address) -> V64 {
    let offset = address.offset as u64;
    let mut out = [0; LANES];
    match address.base {
        Base::Reg64(index) => {
            let base = warp.s64(context, crate::op::S64::Reg(index));
            for lane in 0..LANES {
                out[lane] = base[lane].wrapping_add(offset);
            }
        }
        Base::Reg32(index) => {
            let base = warp.s32(context, crate::op::S32::Reg(index));
            for lane in 0..LANES {
                out[lane] = u64::from(base[lane]).wrapping_add(offset);
            }
        }
        Base::Const(index) => {
            out = [context.target.loaded.c64[index as usize][0].wrapping_add(offset); LANES];
        }
        Base::LocalFrame => {
            out = [local_base(context, warp.depth).wrapping_add(offset); LANES];
        }
    }
    out
}

/// The memory that contains an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Slot(u32),
    Static,
    Dynamic,
    /// The local memory of the activation at a depth.
    Local(u32),
}

impl Place {
    fn space(self, constant: bool) -> Space {
        match self {
            Place::Slot(_) if constant => Space::Const,
            Place::Slot(_) => Space::Global,
            Place::Static | Place::Dynamic => Space::Shared,
            Place::Local(_) => Space::Local,
        }
    }
}

/// Finds the memory behind an address and checks bounds and alignment.
#[inline]
pub(crate) fn locate(
    context: &mut Context<'_>,
    warp: &Warp,
    space: MemSpace,
    address: u64,
    size: u32,
    access: Access,
    lane: usize,
) -> Run<(Place, usize)> {
    let name = space_name(space);
    if let Err(kind) = check_aligned(name, access, address, size) {
        return Err(Trouble::new(kind, lane as u32));
    }
    let (space, local) = match space {
        MemSpace::Generic => of_generic(address),
        _ => (space, address),
    };
    let outside = |near: String| {
        let kind = FaultKind::OutOfBounds { space: name, access, address, size, near };
        Err(Trouble::new(kind, lane as u32))
    };
    // Tests if the access fits into `len` bytes that begin at `start`.
    let fits = |start: u64, len: u64| {
        local.checked_sub(start).is_some_and(|at| at < len && u64::from(size) <= len - at)
    };
    match space {
        MemSpace::Shared => {
            let (place, start, len) = if local < DYNAMIC_SHARED {
                (Place::Static, 0, context.shared.len() as u64)
            } else {
                (Place::Dynamic, DYNAMIC_SHARED, context.dynamic.len() as u64)
            };
            if fits(start, len) {
                return Ok((place, (local - start) as usize));
            }
            if is_elsewhere(context, name, address) {
                return wrong_space(context, name, address, lane);
            }
            let kind = if place == Place::Static { "static" } else { "dynamic" };
            outside(format!("the block has {len} bytes of {kind} shared memory at {start:#x}"))
        }
        MemSpace::Local => {
            // Activations lie on top of each other, as on a stack.
            for depth in (0..=warp.depth).rev() {
                let base = local_base(context, depth);
                let stride = warp.local[depth as usize].len() / LANES;
                if fits(base, stride as u64) {
                    return Ok((Place::Local(depth), lane * stride + (local - base) as usize));
                }
            }
            if is_elsewhere(context, name, address) {
                return wrong_space(context, name, address, lane);
            }
            let len = local_base(context, warp.depth + 1);
            outside(format!("the thread has {len} bytes of local memory"))
        }
        MemSpace::Generic | MemSpace::Global | MemSpace::Const => {
            let mut slot = context.last_slot;
            let fits = |allocation: Option<&mut crate::memory::Allocation>| {
                allocation
                    .filter(|a| a.contains(address, u64::from(size)))
                    .map(|a| (a.base, a.constant))
            };
            let mut found = fits(context.memory.slot(slot));
            if found.is_none()
                && let Some(other) = context.memory.find(address)
            {
                slot = other;
                found = fits(context.memory.slot(slot));
            }
            let Some((base, constant)) = found else {
                if space != MemSpace::Generic && of_generic(address).0 != MemSpace::Generic {
                    return wrong_space(context, name, address, lane);
                }
                let kind = context.memory.fault(access, address, size, name);
                return Err(Trouble::new(kind, lane as u32));
            };
            let wanted = match space {
                MemSpace::Global => !constant,
                MemSpace::Const => constant,
                _ => true,
            };
            if !wanted || (constant && access != Access::Read) {
                return wrong_space(context, name, address, lane);
            }
            context.last_slot = slot;
            Ok((Place::Slot(slot), (address - base) as usize))
        }
        MemSpace::EntryParam | MemSpace::FrameParam => wrong_space(context, name, address, lane),
    }
}

/// Returns true if an address is valid in another state space.
fn is_elsewhere(context: &Context<'_>, space: Space, address: u64) -> bool {
    space != Space::Generic
        && (of_generic(address).0 != MemSpace::Generic || context.memory.find(address).is_some())
}

fn wrong_space<T>(context: &Context<'_>, space: Space, address: u64, lane: usize) -> Run<T> {
    let found = match of_generic(address).0 {
        MemSpace::Shared => "a generic address of shared memory".to_owned(),
        MemSpace::Local => "a generic address of local memory".to_owned(),
        MemSpace::EntryParam => "a generic address of a parameter".to_owned(),
        _ if context.memory.is_constant(address) => "read-only memory".to_owned(),
        _ => "global memory".to_owned(),
    };
    Err(Trouble::new(FaultKind::InvalidSpace { space, address, found }, lane as u32))
}

/// Returns the region of a place.
#[inline]
pub(crate) fn region<'r>(
    context: &'r mut Context<'_>,
    warp: &'r mut Warp,
    place: Place,
) -> &'r mut Region {
    match place {
        Place::Slot(slot) => {
            let found = context.memory.slot(slot);
            &mut found.expect("a slot stays full for the length of a launch").region
        }
        Place::Static => &mut context.shared,
        Place::Dynamic => &mut context.dynamic,
        Place::Local(depth) => &mut warp.local[depth as usize],
    }
}

/// Finds the memory behind the addresses of several lanes, if it is one place for all, and checks
/// bounds and alignment: all checks of [`locate`] at once.
#[inline]
fn locate_together(
    context: &mut Context<'_>,
    space: MemSpace,
    addresses: &V64,
    mask: u32,
    size: u32,
    access: Access,
) -> Option<(Place, u64)> {
    let first = addresses[mask.trailing_zeros() as usize];
    let (mut low, mut high, mut bits) = (first, first, 0);
    if mask == !0 {
        for &address in addresses {
            low = low.min(address);
            high = high.max(address);
            bits |= address;
        }
    } else {
        for lane in lanes(mask) {
            low = low.min(addresses[lane]);
            high = high.max(addresses[lane]);
            bits |= addresses[lane];
        }
    }
    let span = (high - low).checked_add(u64::from(size))?;
    if bits & u64::from(size - 1) != 0 {
        return None;
    }
    match space {
        MemSpace::Shared => {
            let end = low.checked_add(span)?;
            if low < DYNAMIC_SHARED {
                (end <= context.shared.len() as u64).then_some((Place::Static, 0))
            } else {
                let fits = end - DYNAMIC_SHARED <= context.dynamic.len() as u64;
                fits.then_some((Place::Dynamic, DYNAMIC_SHARED))
            }
        }
        MemSpace::Global | MemSpace::Generic | MemSpace::Const => {
            let fits = |allocation: &mut crate::memory::Allocation| {
                let kind = match space {
                    MemSpace::Global => !allocation.constant,
                    MemSpace::Const => allocation.constant,
                    _ => true,
                };
                (kind
                    && (access == Access::Read || !allocation.constant)
                    && allocation.contains(low, span))
                .then_some(allocation.base)
            };
            let last = context.last_slot;
            if let Some(base) = context.memory.slot(last).and_then(fits) {
                return Some((Place::Slot(last), base));
            }
            let found = context.memory.find(low)?;
            let base = context.memory.slot(found).and_then(fits)?;
            context.last_slot = found;
            Some((Place::Slot(found), base))
        }
        MemSpace::Local | MemSpace::EntryParam | MemSpace::FrameParam => None,
    }
}

/// Runs `body` on each region that the lanes of `mask` access, with these lanes and their offsets;
/// once, if all access the same region.
#[inline]
fn each_place(
    context: &mut Context<'_>,
    warp: &mut Warp,
    mem: &MemOp,
    size: u32,
    access: Access,
    mask: u32,
    mut body: impl FnMut(
        &mut Region,
        &[u32; LANES],
        u32,
        LaneChecks<'_>,
        &[u8; LANES],
    ) -> Result<(), (usize, LaneFault)>,
) -> Run<()> {
    let addresses = addresses(context, warp, &mem.address);
    if let Some((place, base)) = locate_together(context, mem.space, &addresses, mask, size, access)
    {
        let mut offsets = [0; LANES];
        for lane in 0..LANES {
            offsets[lane] = addresses[lane].wrapping_sub(base) as u32;
        }
        // Offsets have 32 bits, so larger allocations use the general path.
        if region(context, warp, place).len() <= u32::MAX as usize {
            return on_place(context, warp, place, mem.strong, |region, checks, order| {
                body(region, &offsets, mask, checks, order)
            })
            .map_err(|(lane, fault)| {
                lane_fault(context, warp, place, access, fault, lane, addresses[lane], size)
            });
        }
    }
    for position in 0..LANES {
        let lane = usize::from(context.lanes[position]);
        if mask & BIT[lane] == 0 {
            continue;
        }
        let address = addresses[lane];
        let (place, at) = locate(context, warp, mem.space, address, size, access, lane)?;
        let Ok(at) = u32::try_from(at) else {
            let near = "the emulator addresses 4 GiB of an allocation".to_owned();
            let space = place.space(false);
            let kind = FaultKind::OutOfBounds { space, access, address, size, near };
            return Err(Trouble::new(kind, lane as u32));
        };
        on_place(context, warp, place, mem.strong, |region, checks, order| {
            body(region, &[at; LANES], BIT[lane], checks, order)
        })
        .map_err(|(lane, fault)| {
            lane_fault(context, warp, place, access, fault, lane, address, size)
        })?;
    }
    Ok(())
}

/// Runs `body` on a region with the checks that apply to it.
#[inline]
pub(crate) fn on_place<T>(
    context: &mut Context<'_>,
    warp: &mut Warp,
    place: Place,
    strong: bool,
    body: impl FnOnce(&mut Region, LaneChecks<'_>, &[u8; LANES]) -> T,
) -> T {
    let mut clock = context.clock;
    clock.between_blocks = matches!(place, Place::Slot(_));
    let toucher = Toucher { clock: &clock, first_thread: warp.index * LANES as u32, strong };
    let wanted = context.target.checks;
    let races = wanted.races && !matches!(place, Place::Local(_));
    let checks =
        LaneChecks { uninitialised: wanted.uninitialised, races: races.then_some(toucher) };
    let order = context.lanes;
    body(region(context, warp, place), checks, &order)
}

#[cold]
pub(crate) fn lane_fault(
    context: &Context<'_>,
    warp: &Warp,
    place: Place,
    access: Access,
    fault: LaneFault,
    lane: usize,
    address: u64,
    size: u32,
) -> Box<Trouble> {
    let space = place.space(false);
    let kind = match fault {
        LaneFault::Uninitialised => FaultKind::Uninitialised { space, address, size },
        LaneFault::Race(conflict) => {
            let other = match conflict.thread {
                _ if conflict.other_block => "a thread of another block".to_owned(),
                Some(thread) => {
                    let [x, y, z] = context.tid(thread);
                    format!("thread ({x}, {y}, {z})")
                }
                None => format!(
                    "several threads, thread {} of the block not alone",
                    warp.index * LANES as u32 + lane as u32
                ),
            };
            FaultKind::Race { space, access, earlier: conflict.earlier, address, other }
        }
    };
    Trouble::new(kind, lane as u32)
}

/// Executes a load.
pub(crate) fn load(
    context: &mut Context<'_>,
    warp: &mut Warp,
    mem: &MemOp,
    d: &[Dst; 4],
    mask: u32,
) -> Run<()> {
    let each = mem.ty.bytes() as usize;
    let count = usize::from(mem.count);
    let size = mem.ty.bytes() * u32::from(mem.count);
    let mut out = [[0u64; LANES]; 4];
    let out = &mut out[..count];
    match mem.space {
        MemSpace::EntryParam | MemSpace::FrameParam => {
            load_param(context, warp, mem, out, mask)?;
        }
        _ => each_place(
            context,
            warp,
            mem,
            size,
            Access::Read,
            mask,
            |region, offsets, mask, checks, _| region.load_lanes(offsets, mask, each, out, checks),
        )?,
    }
    for (element, values) in out.iter_mut().enumerate() {
        if mem.ty.is_signed() && each < 8 {
            let unused = 64 - mem.ty.bits();
            for value in values.iter_mut() {
                *value = ((*value << unused) as i64 >> unused) as u64;
            }
        }
        warp.write(d[element], mask, values);
    }
    Ok(())
}

fn load_param(
    context: &Context<'_>,
    warp: &Warp,
    mem: &MemOp,
    out: &mut [V64],
    mask: u32,
) -> Run<()> {
    let each = mem.ty.bytes() as usize;
    let size = each * out.len();
    let addresses = addresses(context, warp, &mem.address);
    let frame = context.max_frame;
    for lane in lanes(mask) {
        let bytes = match mem.space {
            MemSpace::EntryParam => context.target.params,
            _ => &warp.frames[warp.depth as usize][lane * frame..(lane + 1) * frame],
        };
        let at = addresses[lane] as usize;
        let Some(bytes) = at.checked_add(size).and_then(|end| bytes.get(at..end)) else {
            return Err(param_fault(context, addresses[lane], size as u32, lane));
        };
        for (element, chunk) in bytes.chunks(each).enumerate() {
            out[element][lane] = little_endian(chunk);
        }
    }
    Ok(())
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn param_fault(context: &Context<'_>, address: u64, size: u32, lane: usize) -> Box<Trouble> {
    let near = format!("the kernel has {} bytes of parameters", context.entry.param_bytes);
    let (space, access) = (Space::Param, Access::Read);
    Trouble::new(FaultKind::OutOfBounds { space, access, address, size, near }, lane as u32)
}

/// Executes a store.
pub(crate) fn store(
    context: &mut Context<'_>,
    warp: &mut Warp,
    mem: &MemOp,
    s: &[Src; 4],
    mask: u32,
) -> Run<()> {
    let each = mem.ty.bytes() as usize;
    let count = usize::from(mem.count);
    let size = mem.ty.bytes() * u32::from(mem.count);
    let keep = u64::MAX >> (64 - mem.ty.bits());
    let mut values = [[0u64; LANES]; 4];
    for element in 0..count {
        values[element] = super::compute::wide(context, warp, s[element]).map(|v| v & keep);
    }
    let values = &values[..count];
    if mem.space == MemSpace::FrameParam {
        let addresses = addresses(context, warp, &mem.address);
        let (frame, depth) = (context.max_frame, warp.depth as usize);
        for lane in lanes(mask) {
            let at = addresses[lane] as usize;
            if at.checked_add(size as usize).is_none_or(|end| end > frame) {
                return Err(param_fault(context, addresses[lane], size, lane));
            }
            for (element, value) in values.iter().enumerate() {
                let start = lane * frame + at + element * each;
                warp.frames[depth][start..start + each]
                    .copy_from_slice(&value[lane].to_le_bytes()[..each]);
            }
        }
        return Ok(());
    }
    each_place(
        context,
        warp,
        mem,
        size,
        Access::Write,
        mask,
        |region, offsets, mask, checks, order| {
            region.store_lanes(offsets, mask, each, values, order, checks.races)
        },
    )
}
