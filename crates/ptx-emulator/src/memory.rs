//! The memory of a device.

use crate::{
    Error,
    error::{Access, FaultKind, Space},
    region::Region,
};
use std::collections::BTreeMap;

/// The distance between allocations, so that a small overrun never reaches a neighbour.
const GAP: u64 = 512;
/// The alignment of allocations, as the driver promises.
const ALIGN: u64 = 256;
/// The number of freed allocations that are remembered.
const GRAVES: usize = 1 << 16;
/// The number of freed regions, and of their bytes, that are kept for later allocations.
const SPARE: usize = 64;
const SPARE_BYTES: usize = 1 << 27;

/// One allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) base: u64,
    pub(crate) region: Region,
    pub(crate) constant: bool,
}

impl Allocation {
    #[inline]
    pub(crate) fn contains(&self, address: u64, size: u64) -> bool {
        let offset = address.wrapping_sub(self.base);
        let len = self.region.len() as u64;
        offset < len && size <= len - offset
    }
}

/// All allocations of a device.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The slots by index; a freed slot is reused.
    slots: Vec<Option<Allocation>>,
    free: Vec<u32>,
    by_base: BTreeMap<u64, u32>,
    /// The freed ranges: base and size.
    graves: BTreeMap<u64, u64>,
    start: u64,
    next: u64,
    used: u64,
    capacity: u64,
    /// Freed regions, which are used again.
    spare: Vec<Region>,
}

impl Memory {
    pub(crate) fn new(start: u64, capacity: u64) -> Memory {
        Memory {
            slots: Vec::new(),
            free: Vec::new(),
            by_base: BTreeMap::new(),
            graves: BTreeMap::new(),
            start,
            next: start,
            used: 0,
            capacity,
            spare: Vec::new(),
        }
    }

    /// Returns uninitialised memory, in a freed region of about that size if there is one.
    pub(crate) fn uninitialised(&mut self, size: usize) -> Region {
        let fits = |room: usize| (size..=size.saturating_mul(2)).contains(&room);
        match self.spare.iter().rposition(|region| fits(region.capacity())) {
            Some(found) => self.spare.swap_remove(found).reused(size),
            None => Region::uninitialised(size),
        }
    }

    /// Keeps a freed region, if there is room for it.
    fn keep(&mut self, region: Region) {
        let bytes: usize = self.spare.iter().map(Region::capacity).sum();
        if region.capacity() + bytes <= SPARE_BYTES {
            if self.spare.len() == SPARE {
                self.spare.remove(0);
            }
            self.spare.push(region);
        }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Reserves addresses for an allocation of up to `size` bytes.
    pub(crate) fn reserve(&mut self, size: u64, align: u64) -> u64 {
        let base = self.next.next_multiple_of(align.max(ALIGN));
        // More than the capacity is never placed.
        self.next = base + size.min(self.capacity) + GAP;
        base
    }

    /// Places a region of `size` bytes at `base`, whose addresses were reserved.
    pub(crate) fn place(
        &mut self,
        base: u64,
        make: impl FnOnce(&mut Memory) -> Region,
        size: u64,
        constant: bool,
    ) -> Result<(), Error> {
        let fail = |message| Err(Error::Memory { op: "alloc", address: base, size, message });
        if size > self.capacity - self.used {
            return fail(format!("out of memory: {} of {} bytes in use", self.used, self.capacity));
        }
        if self.find(base).is_some() {
            return fail("the address is in use".to_owned());
        }
        self.graves.remove(&base);
        self.used += size;
        let allocation = Allocation { base, region: make(self), constant };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            }
        };
        self.slots[slot as usize] = Some(allocation);
        self.by_base.insert(base, slot);
        Ok(())
    }

    /// Places a region at addresses that have never been used.
    pub(crate) fn insert(
        &mut self,
        make: impl FnOnce(&mut Memory) -> Region,
        size: u64,
        align: u64,
        constant: bool,
    ) -> Result<u64, Error> {
        let base = self.reserve(size, align);
        self.place(base, make, size, constant)?;
        Ok(base)
    }

    /// Frees the allocation that starts at `base`.
    pub(crate) fn remove(&mut self, base: u64) -> Result<(), Error> {
        let Some(slot) = self.by_base.remove(&base) else {
            let message = match self.graves.contains_key(&base) {
                true => "freed twice".to_owned(),
                false => self.near(base),
            };
            return Err(Error::Memory { op: "free", address: base, size: 0, message });
        };
        let allocation =
            self.slots[slot as usize].take().expect("an address always names a full slot");
        let size = allocation.region.len() as u64;
        self.used -= size;
        self.free.push(slot);
        self.graves.insert(base, size);
        if self.graves.len() > GRAVES {
            self.graves.pop_first();
        }
        self.keep(allocation.region);
        Ok(())
    }

    /// Returns the slot of the allocation that contains `address`.
    pub(crate) fn find(&self, address: u64) -> Option<u32> {
        let (_, &slot) = self.by_base.range(..=address).next_back()?;
        let found = self.slots[slot as usize].as_ref()?;
        found.contains(address, 0).then_some(slot)
    }

    /// Returns true if `address` lies in read-only memory.
    pub(crate) fn is_constant(&self, address: u64) -> bool {
        self.find(address)
            .and_then(|slot| self.slots[slot as usize].as_ref())
            .is_some_and(|allocation| allocation.constant)
    }

    /// Returns the slot at an index that [`find`](Memory::find) returned during the same launch.
    #[inline]
    pub(crate) fn slot(&mut self, slot: u32) -> Option<&mut Allocation> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Returns base and size of the allocation that contains `address`.
    pub(crate) fn range(&self, address: u64) -> Option<(u64, u64)> {
        let found = self.slots[self.find(address)? as usize].as_ref()?;
        Some((found.base, found.region.len() as u64))
    }

    /// Returns the reason why `address` cannot be accessed.
    pub(crate) fn fault(&self, access: Access, address: u64, size: u32, space: Space) -> FaultKind {
        if let Some((&base, &len)) = self.graves.range(..=address).next_back()
            && address - base < len
        {
            return FaultKind::Freed { access, address, size };
        }
        FaultKind::OutOfBounds { space, access, address, size, near: self.near(address) }
    }

    /// Describes the allocation before `address`.
    fn near(&self, address: u64) -> String {
        match self.by_base.range(..=address).next_back() {
            Some((&base, &slot)) => {
                let len = self.slots[slot as usize].as_ref().map_or(0, |a| a.region.len() as u64);
                match (address - base).checked_sub(len) {
                    Some(beyond) => format!(
                        "the nearest allocation below, {len} bytes at {base:#x}, ends {beyond} \
                         bytes before"
                    ),
                    None => format!(
                        "it starts {} bytes into the {len} bytes at {base:#x}",
                        address - base
                    ),
                }
            }
            None => "no allocation lies below".to_owned(),
        }
    }

    /// Returns the region of a host-side access and the offset in it.
    pub(crate) fn host(
        &mut self,
        op: &'static str,
        address: u64,
        size: u64,
    ) -> Result<(&mut Region, usize), Error> {
        let slot = self.find(address).filter(|&slot| {
            self.slots[slot as usize].as_ref().is_some_and(|a| a.contains(address, size))
        });
        let Some(slot) = slot else {
            let message = match self.fault(Access::Read, address, 0, Space::Global) {
                FaultKind::Freed { .. } => "the memory has been freed".to_owned(),
                _ => self.near(address),
            };
            return Err(Error::Memory { op, address, size, message });
        };
        let allocation = self.slots[slot as usize].as_mut().expect("find returns full slots only");
        let offset = (address - allocation.base) as usize;
        Ok((&mut allocation.region, offset))
    }

    /// Puts a region back into the allocation at `base`.
    pub(crate) fn restore(&mut self, base: u64, region: Region) {
        if let Some(&slot) = self.by_base.get(&base)
            && let Some(allocation) = &mut self.slots[slot as usize]
        {
            allocation.region = region;
        }
    }

    /// Returns true if `address` may belong to this device.
    pub(crate) fn owns(&self, address: u64) -> bool {
        (self.start..self.next).contains(&address)
    }
}
