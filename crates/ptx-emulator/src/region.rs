//! A range of memory that records which bytes are initialised and who accessed them.

use crate::{
    error::{Access, FaultKind, Space},
    exec::BIT,
    op::{LANES, V64},
    race::{Cell, Clock, Conflict},
};

/// The content of uninitialised bytes: NaN as a float and -1 as an integer, so that a use of it is
/// visible.
pub(crate) const POISON: u8 = 0xff;

/// Bytes with their history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    data: Vec<u8>,
    /// One bit per byte; empty once all bytes are known to be initialised.
    init: Vec<u64>,
    cells: Vec<Cell>,
    /// True if cells are bytes. They are words until a narrower access occurs.
    narrow: bool,
}

impl Region {
    /// Returns uninitialised memory.
    pub(crate) fn uninitialised(size: usize) -> Region {
        Region { data: vec![POISON; size], init: vec![0; size.div_ceil(64)], ..Region::default() }
    }

    /// Returns initialised memory.
    pub(crate) fn initialised(data: Vec<u8>) -> Region {
        Region { data, ..Region::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    /// Makes the memory uninitialised again, at a new size, and keeps its buffers.
    pub(crate) fn reset(&mut self, size: usize) {
        self.data.clear();
        self.data.resize(size, POISON);
        self.init.clear();
        self.init.resize(size.div_ceil(64), 0);
        if !self.cells.is_empty() {
            // What earlier launches did to them no longer counts.
            self.cells.resize(self.cell_count(), Cell::default());
        }
    }

    /// Makes this memory, which was freed, uninitialised memory of another size.
    pub(crate) fn reused(mut self, size: usize) -> Region {
        self.narrow = false;
        self.reset(size);
        self
    }

    /// Returns the number of bytes for which the memory has room.
    pub(crate) fn capacity(&self) -> usize {
        self.data.capacity()
    }

    pub(crate) fn bytes(&self, at: usize, size: usize) -> &[u8] {
        &self.data[at..at + size]
    }

    /// Overwrites bytes from outside a kernel.
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.data[at..at + bytes.len()].copy_from_slice(bytes);
        self.mark(at, bytes.len());
    }

    /// Fills bytes from outside a kernel with a repeated pattern.
    pub(crate) fn fill(&mut self, at: usize, size: usize, pattern: &[u8]) {
        for chunk in self.data[at..at + size].chunks_mut(pattern.len()) {
            chunk.copy_from_slice(&pattern[..chunk.len()]);
        }
        self.mark(at, size);
    }

    /// Copies bytes, and their initialisation state, from another region.
    pub(crate) fn copy_from(&mut self, at: usize, from: &Region, from_at: usize, size: usize) {
        self.data[at..at + size].copy_from_slice(&from.data[from_at..from_at + size]);
        self.copy_marks(at, size, |i| from.is_init(from_at + i));
    }

    /// Copies bytes within the region.
    pub(crate) fn copy_within(&mut self, at: usize, from_at: usize, size: usize) {
        let marks: Vec<bool> = (0..size).map(|i| self.is_init(from_at + i)).collect();
        self.data.copy_within(from_at..from_at + size, at);
        self.copy_marks(at, size, |i| marks[i]);
    }

    fn copy_marks(&mut self, at: usize, size: usize, marked: impl Fn(usize) -> bool) {
        if (0..size).all(&marked) {
            return self.mark(at, size);
        }
        if self.init.is_empty() {
            self.init = vec![!0; self.data.len().div_ceil(64)];
        }
        for i in 0..size {
            let byte = at + i;
            let bit = 1 << (byte % 64);
            if marked(i) {
                self.init[byte / 64] |= bit;
            } else {
                self.init[byte / 64] &= !bit;
            }
        }
    }

    fn is_init(&self, at: usize) -> bool {
        self.init.is_empty() || self.init[at / 64] >> (at % 64) & 1 == 1
    }

    /// Marks a range as initialised.
    fn mark(&mut self, at: usize, size: usize) {
        if self.init.is_empty() {
            return;
        }
        if at == 0 && size == self.data.len() {
            // All bytes are initialised, so nothing is left to track.
            self.init = Vec::new();
            return;
        }
        let end = at + size;
        let mut byte = at;
        while byte < end {
            let bits = (64 - byte % 64).min(end - byte);
            let mask = if bits == 64 { !0 } else { ((1u64 << bits) - 1) << (byte % 64) };
            self.init[byte / 64] |= mask;
            byte += bits;
        }
    }

    /// Returns true if a naturally aligned range of at most 16 bytes is initialised. Such a range
    /// lies within one word of marks.
    #[inline]
    pub(crate) fn all_init(&self, at: usize, size: usize) -> bool {
        if self.init.is_empty() {
            return true;
        }
        let mask = ((1u64 << size) - 1) << (at % 64);
        self.init[at / 64] & mask == mask
    }

    /// Reads an element of 1, 2, 4 or 8 bytes.
    #[inline]
    pub(crate) fn get(&self, at: usize, size: usize) -> u64 {
        match size {
            1 => u64::from(self.data[at]),
            2 => u64::from(u16::from_le_bytes(array(&self.data[at..]))),
            4 => u64::from(u32::from_le_bytes(array(&self.data[at..]))),
            _ => u64::from_le_bytes(array(&self.data[at..])),
        }
    }

    /// Writes an element of 1, 2, 4 or 8 bytes and marks it.
    #[inline]
    pub(crate) fn put(&mut self, at: usize, size: usize, value: u64) {
        self.data[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        if !self.init.is_empty() {
            let mask = ((1u64 << size) - 1) << (at % 64);
            self.init[at / 64] |= mask;
        }
    }

    fn cell_count(&self) -> usize {
        if self.narrow { self.data.len() } else { self.data.len().div_ceil(4) }
    }

    /// Ensures that there are cells, small enough for accesses of `size` bytes.
    #[inline]
    fn prepare_cells(&mut self, size: usize) {
        if self.cells.is_empty() {
            self.cells = vec![Cell::default(); self.cell_count()];
        }
        if size < 4 && !self.narrow {
            // Neighbouring bytes may belong to different threads: from now on each byte has its own
            // cell, which starts with the history of its word.
            self.narrow = true;
            let words = std::mem::take(&mut self.cells);
            self.cells = (0..self.data.len()).map(|byte| words[byte / 4]).collect();
        }
    }

    /// Records an access, and returns the access that it races with, if any.
    #[inline]
    fn touch(
        &mut self,
        at: usize,
        size: usize,
        access: Access,
        toucher: &Toucher<'_>,
        lane: usize,
        silent: bool,
    ) -> Result<(), Conflict> {
        let thread = toucher.first_thread + lane as u32;
        let cells = match self.narrow {
            true => &mut self.cells[at..at + size],
            false => &mut self.cells[at / 4..(at + size) / 4],
        };
        for cell in cells {
            cell.touch(access, toucher.clock, thread, toucher.strong, silent)?;
        }
        Ok(())
    }

    /// Records accesses of all lanes to neighbouring words that nothing has accessed in this launch, and
    /// returns true; else does nothing.
    #[inline]
    fn touch_fresh(
        &mut self,
        at: usize,
        size: usize,
        access: Access,
        toucher: &Toucher<'_>,
    ) -> bool {
        if self.narrow {
            return false;
        }
        let words = size / 4;
        let cells = &mut self.cells[at / 4..][..LANES * words];
        if !cells.iter().fold(true, |fresh, cell| fresh & cell.is_fresh(toucher.clock)) {
            return false;
        }
        for (thread, cells) in (toucher.first_thread..).zip(cells.chunks_exact_mut(words)) {
            for cell in cells {
                cell.touch_first(access, toucher.clock, thread, toucher.strong);
            }
        }
        true
    }

    /// Records the reads of all lanes of `mask`.
    #[inline]
    fn touch_reads(
        &mut self,
        offsets: &[u32; LANES],
        mask: u32,
        size: usize,
        toucher: &Toucher<'_>,
    ) -> Result<(), (usize, LaneFault)> {
        // The number of lanes before this one that read the same place.
        let (mut place, mut before) = (u32::MAX, 0);
        let is_word = size == 4 && !self.narrow;
        for lane in lanes(mask) {
            before = if offsets[lane] == place { before + 1 } else { 0 };
            place = offsets[lane];
            // Two lanes suffice: any race of a third would also be a race of one of them.
            if before < 2 {
                let thread = toucher.first_thread + lane as u32;
                if is_word
                    && self.cells[place as usize / 4].read_settled(
                        toucher.clock,
                        thread,
                        toucher.strong,
                    )
                {
                    continue;
                }
                self.touch(place as usize, size, Access::Read, toucher, lane, false)
                    .map_err(|conflict| (lane, LaneFault::Race(conflict)))?;
            }
        }
        Ok(())
    }

    /// Reads `count` elements for each lane of `mask`. The offsets are in bounds and aligned.
    #[inline]
    pub(crate) fn load_lanes(
        &mut self,
        offsets: &[u32; LANES],
        mask: u32,
        each: usize,
        out: &mut [V64],
        checks: LaneChecks<'_>,
    ) -> Result<(), (usize, LaneFault)> {
        let size = each * out.len();
        if checks.uninitialised && !self.init.is_empty() {
            for lane in lanes(mask) {
                if !self.all_init(offsets[lane] as usize, size) {
                    return Err((lane, LaneFault::Uninitialised));
                }
            }
        }
        let first = side_by_side(offsets, mask, size);
        if let Some(toucher) = checks.races {
            self.prepare_cells(size);
            let fresh = first.is_some_and(|at| self.touch_fresh(at, size, Access::Read, &toucher));
            if !fresh {
                self.touch_reads(offsets, mask, size, &toucher)?;
            }
        }
        if let (Some(at), 4, [values]) = (first, size, &mut *out) {
            let words = self.data[at..][..4 * LANES].as_chunks::<4>().0;
            for (value, &word) in values.iter_mut().zip(words) {
                *value = u32::from_le_bytes(word).into();
            }
            return Ok(());
        }
        for (element, values) in out.iter_mut().enumerate() {
            let shift = element * each;
            match each {
                4 => {
                    for lane in lanes(mask) {
                        let at = offsets[lane] as usize + shift;
                        values[lane] = u64::from(u32::from_le_bytes(array(&self.data[at..])));
                    }
                }
                _ => {
                    for lane in lanes(mask) {
                        values[lane] = self.get(offsets[lane] as usize + shift, each);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes `values` for each lane of `mask`, lane after lane in the given order. The offsets
    /// are in bounds and aligned.
    #[inline]
    pub(crate) fn store_lanes(
        &mut self,
        offsets: &[u32; LANES],
        mask: u32,
        each: usize,
        values: &[V64],
        order: &[u8; LANES],
        races: Option<Toucher<'_>>,
    ) -> Result<(), (usize, LaneFault)> {
        let size = each * values.len();
        let mut races = races;
        let first = side_by_side(offsets, mask, size);
        if let Some(toucher) = &races {
            self.prepare_cells(size);
            if first.is_some_and(|at| self.touch_fresh(at, size, Access::Write, toucher)) {
                races = None;
            }
        }
        if let (None, Some(at), 4, [values]) = (&races, first, size, values) {
            let words = self.data[at..][..4 * LANES].as_chunks_mut::<4>().0;
            for (word, &value) in words.iter_mut().zip(values) {
                *word = (value as u32).to_le_bytes();
            }
            self.mark(at, 4 * LANES);
            return Ok(());
        }
        for &lane in order {
            let lane = usize::from(lane);
            if mask & BIT[lane] == 0 {
                continue;
            }
            let at = offsets[lane] as usize;
            if let Some(toucher) = &races
                && let Err(conflict) = self.touch(at, size, Access::Write, toucher, lane, false)
            {
                // A write that changes nothing is equivalent to no write.
                let same = |(i, v): (usize, &V64)| self.get(at + i * each, each) == v[lane];
                if !self.all_init(at, size) || !values.iter().enumerate().all(same) {
                    return Err((lane, LaneFault::Race(conflict)));
                }
                self.touch(at, size, Access::Write, toucher, lane, true)
                    .expect("a silent write races with nothing");
            }
            for (element, value) in values.iter().enumerate() {
                self.put(at + element * each, each, value[lane]);
            }
        }
        Ok(())
    }

    /// Replaces one element by a function of it, atomically.
    #[inline]
    pub(crate) fn update(
        &mut self,
        at: usize,
        size: usize,
        lane: usize,
        checks: LaneChecks<'_>,
        new: impl FnOnce(u64) -> u64,
    ) -> Result<u64, LaneFault> {
        if checks.uninitialised && !self.all_init(at, size) {
            return Err(LaneFault::Uninitialised);
        }
        if let Some(toucher) = &checks.races {
            self.prepare_cells(size);
            self.touch(at, size, Access::Atomic, toucher, lane, false).map_err(LaneFault::Race)?;
        }
        let old = self.get(at, size);
        self.put(at, size, new(old));
        Ok(old)
    }
}

/// The thread that accesses memory, for race detection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Toucher<'a> {
    pub(crate) clock: &'a Clock,
    /// The number of lane 0 in its block.
    pub(crate) first_thread: u32,
    pub(crate) strong: bool,
}

/// The checks on the accesses of a warp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneChecks<'a> {
    pub(crate) uninitialised: bool,
    pub(crate) races: Option<Toucher<'a>>,
}

/// The fault of a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaneFault {
    Uninitialised,
    Race(Conflict),
}

/// Returns the first offset if all lanes access neighbouring words of `size` bytes in all, in order.
#[inline]
fn side_by_side(offsets: &[u32; LANES], mask: u32, size: usize) -> Option<usize> {
    let (first, size) = (offsets[0], size as u32);
    let mut all = mask == !0 && size.is_multiple_of(4);
    for (lane, &offset) in (0u32..).zip(offsets) {
        all &= offset == first.wrapping_add(lane * size);
    }
    all.then_some(first as usize)
}

/// Returns the lanes of a mask, in ascending order.
#[inline(always)]
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        Some(lane)
    })
}

/// Returns the first bytes of a slice; the caller has checked its length.
#[inline]
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[..N]);
    out
}

/// Checks that `address` is a multiple of `size`.
#[inline]
pub(crate) fn check_aligned(
    space: Space,
    access: Access,
    address: u64,
    size: u32,
) -> Result<(), FaultKind> {
    if address & u64::from(size - 1) == 0 {
        Ok(())
    } else {
        Err(FaultKind::Misaligned { space, access, address, size })
    }
}
