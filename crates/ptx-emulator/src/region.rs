//! A stretch of memory that knows which bytes are initialised and who touched them.

use crate::{
    error::{Access, FaultKind, Space},
    race::{Cell, Clock, Conflict},
};

/// What uninitialised bytes hold: a pattern that is a NaN as a float and -1 as an integer, so
/// that using it shows.
pub(crate) const POISON: u8 = 0xff;

/// Bytes with their history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    data: Vec<u8>,
    /// One bit per byte; empty once every byte is known to be initialised.
    init: Vec<u64>,
    cells: Vec<Cell>,
    /// Bytes per cell, as a shift: words, until something narrower is touched.
    narrow: bool,
}

impl Region {
    /// Uninitialised memory.
    pub(crate) fn uninitialised(size: usize) -> Region {
        Region { data: vec![POISON; size], init: vec![0; size.div_ceil(64)], ..Region::default() }
    }

    /// Initialised memory.
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
        let cells = self.cell_count();
        if !self.cells.is_empty() && self.cells.len() != cells {
            self.cells = vec![Cell::default(); cells];
        }
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

    /// Copies bytes, and whether they are initialised, from another region.
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
            // Nothing is left to track.
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

    /// Whether a naturally aligned range of at most 16 bytes is initialised. An aligned range
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

    /// The cells that cover an access.
    #[inline]
    fn cells(&mut self, at: usize, size: usize) -> &mut [Cell] {
        if self.cells.is_empty() {
            self.cells = vec![Cell::default(); self.cell_count()];
        }
        if self.narrow {
            return &mut self.cells[at..at + size];
        }
        if size < 4 {
            // Neighbouring bytes may belong to different threads: from now on each byte has a
            // cell of its own, beginning with the history of its word.
            self.narrow = true;
            let words = std::mem::take(&mut self.cells);
            self.cells = (0..self.data.len()).map(|byte| words[byte / 4]).collect();
            return &mut self.cells[at..at + size];
        }
        &mut self.cells[at / 4..(at + size) / 4]
    }

    /// Notes an access and reports what it races with.
    #[inline]
    pub(crate) fn touch(
        &mut self,
        at: usize,
        size: usize,
        access: Access,
        clock: &Clock,
        thread: u32,
        strong: bool,
        silent: bool,
    ) -> Result<(), Conflict> {
        for cell in self.cells(at, size) {
            cell.touch(access, clock, thread, strong, silent)?;
        }
        Ok(())
    }
}

/// The first bytes of a slice that the caller has checked to be long enough.
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
