//! Loads and stores.

use super::{Context, Run, Trouble, step::lanes, warp::Warp};
use crate::{
    error::{Access, FaultKind, Space},
    load::DYNAMIC_SHARED,
    op::{Address, Base, Dst, LANES, MemOp, MemSpace, Src, V64},
    race::Conflict,
    region::{Region, check_aligned},
};

/// Generic addresses of shared memory, and of the other windows, begin here; below every device.
const SHARED_WINDOW: u64 = 0x6000_0000_0000;
const LOCAL_WINDOW: u64 = 0x6100_0000_0000;
const PARAM_WINDOW: u64 = 0x6200_0000_0000;
const WINDOW: u64 = 1 << 32;

/// What is added to an address of a state space to make it generic.
pub(crate) fn window(space: MemSpace) -> u64 {
    match space {
        MemSpace::Shared => SHARED_WINDOW,
        MemSpace::Local => LOCAL_WINDOW,
        MemSpace::EntryParam | MemSpace::FrameParam => PARAM_WINDOW,
        MemSpace::Global | MemSpace::Const | MemSpace::Generic => 0,
    }
}

/// The state space that a generic address points into, and the address there.
fn of_generic(address: u64) -> (MemSpace, u64) {
    for space in [MemSpace::Shared, MemSpace::Local, MemSpace::EntryParam] {
        let offset = address.wrapping_sub(window(space));
        if offset < WINDOW {
            return (space, offset);
        }
    }
    (MemSpace::Generic, address)
}

/// Whether a generic address points into `space`.
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

/// Where the local memory of an activation begins.
pub(crate) fn local_base(context: &Context<'_>, depth: u32) -> u64 {
    match depth {
        0 => 0,
        _ => {
            let entry = context.entry.local_bytes.next_multiple_of(64) as usize;
            (entry + (depth as usize - 1) * context.max_local) as u64
        }
    }
}

/// The address of each lane.
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

/// Memory that an address has been found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Slot(u32),
    Static,
    Dynamic,
    /// Local memory of the activation at a depth.
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
    let end = local.wrapping_add(u64::from(size));
    match space {
        MemSpace::Shared => {
            let (place, start, len) = if local < DYNAMIC_SHARED {
                (Place::Static, 0, context.shared.len() as u64)
            } else {
                (Place::Dynamic, DYNAMIC_SHARED, context.dynamic.len() as u64)
            };
            if end - start <= len && end > local {
                return Ok((place, (local - start) as usize));
            }
            if is_elsewhere(context, name, address) {
                return wrong_space(context, name, address, lane);
            }
            let kind = if place == Place::Static { "static" } else { "dynamic" };
            outside(format!("the block has {len} bytes of {kind} shared memory at {start:#x}"))
        }
        MemSpace::Local => {
            let entry = local_base(context, 1);
            let depth = match local.checked_sub(entry) {
                None => 0,
                Some(above) => 1 + above / (context.max_local as u64).max(1),
            };
            let base = local_base(
                context,
                u32::try_from(depth).unwrap_or(u32::MAX).min(u32::from(u16::MAX)),
            );
            if let Some(region) = warp.local.get(depth as usize)
                && end - base <= (region.len() / LANES) as u64
                && end > local
            {
                let stride = region.len() / LANES;
                return Ok((Place::Local(depth as u32), lane * stride + (local - base) as usize));
            }
            if is_elsewhere(context, name, address) {
                return wrong_space(context, name, address, lane);
            }
            outside(format!(
                "the thread has {} bytes of local memory",
                local_base(context, warp.depth + 1)
            ))
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

/// Whether an address means something in another state space.
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

/// The region of a place.
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

/// Makes sure that an access is not a race, and notes it.
#[inline]
pub(crate) fn check_race(
    context: &mut Context<'_>,
    warp: &mut Warp,
    place: Place,
    at: usize,
    size: u32,
    access: Access,
    strong: bool,
    silent: bool,
    lane: usize,
    address: u64,
) -> Run<()> {
    if !context.target.checks.races || matches!(place, Place::Local(_)) {
        return Ok(());
    }
    let mut clock = context.clock;
    clock.between_blocks = matches!(place, Place::Slot(_));
    let thread = warp.index * LANES as u32 + lane as u32;
    let region = region(context, warp, place);
    match region.touch(at, size as usize, access, &clock, thread, strong, silent) {
        Ok(()) => Ok(()),
        Err(conflict) => Err(race(context, warp, place, access, conflict, lane, address)),
    }
}

#[cold]
fn race(
    context: &Context<'_>,
    warp: &Warp,
    place: Place,
    access: Access,
    conflict: Conflict,
    lane: usize,
    address: u64,
) -> Box<Trouble> {
    let other = match conflict.thread {
        _ if conflict.other_block => "a thread of another block".to_owned(),
        Some(thread) => {
            let [x, y, z] = context.tid(thread);
            format!("thread ({x}, {y}, {z})")
        }
        None => format!(
            "several threads of the block, seen from thread {}",
            warp.index * LANES as u32 + lane as u32
        ),
    };
    let kind = FaultKind::Race {
        space: place.space(false),
        access,
        earlier: conflict.earlier,
        address,
        other,
    };
    Trouble::new(kind, lane as u32)
}

/// Fails if a read touches memory that nobody has written.
#[inline]
pub(crate) fn check_init(
    context: &mut Context<'_>,
    warp: &mut Warp,
    place: Place,
    at: usize,
    size: u32,
    lane: usize,
    address: u64,
) -> Run<()> {
    if !context.target.checks.uninitialised
        || region(context, warp, place).all_init(at, size as usize)
    {
        return Ok(());
    }
    let space = place.space(false);
    Err(Trouble::new(FaultKind::Uninitialised { space, address, size }, lane as u32))
}

/// Executes a load.
pub(crate) fn load(
    context: &mut Context<'_>,
    warp: &mut Warp,
    mem: &MemOp,
    d: &[Dst; 4],
    mask: u32,
) -> Run<()> {
    let each = mem.ty.bytes();
    let count = usize::from(mem.count);
    let size = each * u32::from(mem.count);
    let addresses = addresses(context, warp, &mem.address);
    let mut out = [[0u64; LANES]; 4];
    match mem.space {
        MemSpace::EntryParam => {
            for lane in lanes(mask) {
                let at = addresses[lane] as usize;
                let bytes = at
                    .checked_add(size as usize)
                    .and_then(|end| context.target.params.get(at..end));
                let Some(bytes) = bytes else {
                    return Err(param_fault(context, addresses[lane], size, lane));
                };
                for (element, chunk) in bytes.chunks(each as usize).enumerate() {
                    out[element][lane] = little_endian(chunk);
                }
            }
        }
        MemSpace::FrameParam => {
            let frame = context.max_frame;
            let bytes = &warp.frames[warp.depth as usize];
            for lane in lanes(mask) {
                let at = addresses[lane] as usize;
                if at.checked_add(size as usize).is_none_or(|end| end > frame) {
                    return Err(param_fault(context, addresses[lane], size, lane));
                }
                let start = lane * frame + at;
                for (element, chunk) in
                    bytes[start..start + size as usize].chunks(each as usize).enumerate()
                {
                    out[element][lane] = little_endian(chunk);
                }
            }
        }
        _ => {
            for lane in lanes(mask) {
                let address = addresses[lane];
                let (place, at) =
                    locate(context, warp, mem.space, address, size, Access::Read, lane)?;
                check_init(context, warp, place, at, size, lane, address)?;
                let (access, strong) = (Access::Read, mem.strong);
                check_race(context, warp, place, at, size, access, strong, false, lane, address)?;
                let region = region(context, warp, place);
                for element in 0..count {
                    let at = at + element * each as usize;
                    out[element][lane] = region.get(at, each as usize);
                }
            }
        }
    }
    for (element, values) in out[..count].iter_mut().enumerate() {
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

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn param_fault(context: &Context<'_>, address: u64, size: u32, lane: usize) -> Box<Trouble> {
    let near = format!("the kernel has {} bytes of parameters", context.entry.param_bytes);
    let kind =
        FaultKind::OutOfBounds { space: Space::Param, access: Access::Read, address, size, near };
    Trouble::new(kind, lane as u32)
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
    let addresses = addresses(context, warp, &mem.address);
    let keep = u64::MAX >> (64 - mem.ty.bits());
    let mut values = [[0u64; LANES]; 4];
    for element in 0..count {
        values[element] = super::compute::wide(context, warp, s[element]).map(|v| v & keep);
    }
    if mem.space == MemSpace::FrameParam {
        let frame = context.max_frame;
        let depth = warp.depth as usize;
        for lane in lanes(mask) {
            let at = addresses[lane] as usize;
            if at.checked_add(size as usize).is_none_or(|end| end > frame) {
                return Err(param_fault(context, addresses[lane], size, lane));
            }
            for element in 0..count {
                let start = lane * frame + at + element * each;
                warp.frames[depth][start..start + each]
                    .copy_from_slice(&values[element][lane].to_le_bytes()[..each]);
            }
        }
        return Ok(());
    }
    for position in 0..LANES {
        let lane = usize::from(context.lanes[position]);
        if mask >> lane & 1 == 0 {
            continue;
        }
        let address = addresses[lane];
        let (place, at) = locate(context, warp, mem.space, address, size, Access::Write, lane)?;
        let old = region(context, warp, place);
        // A write that changes nothing cannot be told apart from no write.
        let silent = old.all_init(at, size as usize)
            && (0..count)
                .all(|element| old.get(at + element * each, each) == values[element][lane]);
        let (access, strong) = (Access::Write, mem.strong);
        check_race(context, warp, place, at, size, access, strong, silent, lane, address)?;
        let region = region(context, warp, place);
        for element in 0..count {
            region.put(at + element * each, each, values[element][lane]);
        }
    }
    Ok(())
}
