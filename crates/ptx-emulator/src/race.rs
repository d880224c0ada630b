//! Race detection: the last accesses to a word, and the order of a new access relative to them.
//!
//! The order that a launch guarantees is small: a thread's own instructions, the barriers of its
//! block, `bar.warp.sync` among the lanes of a warp, and nothing between blocks. For memory, the
//! lanes of one warp are *not* in lockstep: since sm_70 the hardware does not promise it. Two
//! accesses that are not so ordered, at least one of them a write, are a race, unless both are
//! atomic (or `.volatile` or `.relaxed`, which PTX calls strong).
//!
//! One exception: writing the value that is already stored is no race. No schedule can distinguish
//! threads that all store the same flag.
//!
//! Every launch takes interval numbers from one counter: a new one for each block and after each
//! barrier. So a stored number shows if an access came from an earlier launch, from another block,
//! from before the last barrier or from the current interval.

use crate::error::Access;

/// The time of the running thread, for race detection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// The first interval of this launch.
    pub(crate) launch: u64,
    /// The first interval of this block.
    pub(crate) block: u64,
    /// The current interval.
    pub(crate) now: u64,
    /// The number of times that the warp has synchronised its lanes in this interval.
    pub(crate) warp: u64,
    /// True if accesses of other blocks count; false for memory that no other block sees.
    pub(crate) between_blocks: bool,
}

/// The last accesses to a word, packed: interval, thread, a code for the number of threads, warp
/// time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Record(u64);

const THREAD_BITS: u32 = 10;
const WARP_TIME_BITS: u32 = 11;
const INTERVAL_SHIFT: u32 = THREAD_BITS + WARP_TIME_BITS + 4;
/// The code for several lanes of one warp.
const LANES: u64 = 1 << (THREAD_BITS + WARP_TIME_BITS);
/// The code for threads of several warps.
const WARPS: u64 = 2 << (THREAD_BITS + WARP_TIME_BITS);
/// The code for a thread of another block in this launch.
const BLOCKS: u64 = 4 << (THREAD_BITS + WARP_TIME_BITS);
const ATOMIC: u64 = 8 << (THREAD_BITS + WARP_TIME_BITS);

impl Record {
    #[inline(always)]
    fn interval(self) -> u64 {
        self.0 >> INTERVAL_SHIFT
    }

    fn thread(self) -> u32 {
        (self.0 & ((1 << THREAD_BITS) - 1)) as u32
    }

    fn warp_time(self) -> u64 {
        (self.0 >> THREAD_BITS) & ((1 << WARP_TIME_BITS) - 1)
    }

    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    /// Returns true if any access in this record is not ordered before `thread` now.
    #[inline]
    fn unordered(self, clock: &Clock, thread: u32) -> bool {
        let interval = self.interval();
        if interval < clock.launch {
            return false;
        }
        if clock.between_blocks && (interval < clock.block || self.has(BLOCKS)) {
            return true;
        }
        if interval != clock.now {
            return false;
        }
        if self.has(WARPS) {
            return true;
        }
        let same_warp = self.thread() / 32 == thread / 32;
        if same_warp && self.warp_time() < time(clock) {
            return false;
        }
        self.has(LANES) || self.thread() != thread
    }

    /// Returns this record after another access of the same kind. The record stays strong only
    /// while every access in it that may still be in conflict is strong.
    #[inline]
    fn joined(self, clock: &Clock, thread: u32, strong: bool) -> Record {
        let mut flags = if strong { ATOMIC } else { 0 };
        let interval = self.interval();
        if interval >= clock.launch
            && clock.between_blocks
            && (interval < clock.block || self.has(BLOCKS))
        {
            flags |= BLOCKS;
        }
        if interval == clock.now {
            if self.has(WARPS) || self.thread() / 32 != thread / 32 {
                flags |= WARPS;
            } else if self.warp_time() == time(clock)
                && (self.has(LANES) || self.thread() != thread)
            {
                flags |= LANES;
            }
        }
        if !self.has(ATOMIC) && (interval == clock.now || flags & BLOCKS != 0) {
            flags &= !ATOMIC;
        }
        Record::new(clock, thread, flags)
    }

    /// Returns true if another access by any thread of the block adds nothing to this record: threads of
    /// several warps have made such accesses in this interval.
    #[inline(always)]
    fn says_all(self, clock: &Clock, strong: bool) -> bool {
        self.interval() == clock.now && self.has(WARPS) && (strong || !self.has(ATOMIC))
    }

    /// Returns a record of a single access.
    #[inline]
    fn first(clock: &Clock, thread: u32, strong: bool) -> Record {
        Record::new(clock, thread, if strong { ATOMIC } else { 0 })
    }

    #[inline]
    fn new(clock: &Clock, thread: u32, flags: u64) -> Record {
        let packed = u64::from(thread) | time(clock) << THREAD_BITS | flags;
        Record(packed | clock.now << INTERVAL_SHIFT)
    }
}

/// Returns the warp's time, which stops counting at the end of its range. Later accesses then look
/// simultaneous, so that a race may be reported wrongly, but none is missed.
fn time(clock: &Clock) -> u64 {
    clock.warp.min((1 << WARP_TIME_BITS) - 1)
}

/// The history of one word: its last writers and the readers since.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    writers: Record,
    readers: Record,
}

/// The access with which an access races.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The kind of the other access.
    pub(crate) earlier: Access,
    /// The other thread, if it is a single thread of this block.
    pub(crate) thread: Option<u32>,
    /// True if the other access came from another block.
    pub(crate) other_block: bool,
}

impl Cell {
    /// Returns true if nothing has accessed the word in this launch, which is the most common case.
    #[inline(always)]
    pub(crate) fn is_fresh(&self, clock: &Clock) -> bool {
        self.writers.interval() < clock.launch && self.readers.interval() < clock.launch
    }

    /// Records the first access in this launch.
    #[inline(always)]
    pub(crate) fn touch_first(&mut self, access: Access, clock: &Clock, thread: u32, strong: bool) {
        let record = Record::first(clock, thread, strong);
        *(if access == Access::Read { &mut self.readers } else { &mut self.writers }) = record;
    }

    /// Records a read as [`touch`](Cell::touch) does and returns true, if nothing has written the word in this
    /// launch, or only this block before the last barrier; else does nothing.
    #[inline(always)]
    pub(crate) fn read_settled(&mut self, clock: &Clock, thread: u32, strong: bool) -> bool {
        let written = self.writers.interval();
        if written >= clock.launch && (clock.between_blocks || written == clock.now) {
            return false;
        }
        if self.readers.interval() < clock.launch {
            self.readers = Record::first(clock, thread, strong);
        } else if !self.readers.says_all(clock, strong) {
            self.readers = self.readers.joined(clock, thread, strong);
        }
        true
    }

    /// Records an access. `strong` means that it does not race with other strong ones, `silent`
    /// that a write stores the value already there.
    #[inline]
    pub(crate) fn touch(
        &mut self,
        access: Access,
        clock: &Clock,
        thread: u32,
        strong: bool,
        silent: bool,
    ) -> Result<(), Conflict> {
        if self.is_fresh(clock) {
            self.touch_first(access, clock, thread, strong);
            return Ok(());
        }
        let (writers, readers) = (self.writers, self.readers);
        let both_strong = strong && writers.has(ATOMIC);
        if !both_strong && !silent && writers.unordered(clock, thread) {
            let earlier = if writers.has(ATOMIC) { Access::Atomic } else { Access::Write };
            return Err(conflict(writers, clock, earlier));
        }
        if access == Access::Read {
            self.readers = readers.joined(clock, thread, strong);
            return Ok(());
        }
        let both_strong = strong && readers.has(ATOMIC);
        if !both_strong && !silent && readers.unordered(clock, thread) {
            return Err(conflict(readers, clock, Access::Read));
        }
        self.writers = writers.joined(clock, thread, strong);
        Ok(())
    }
}

fn conflict(record: Record, clock: &Clock, earlier: Access) -> Conflict {
    let other_block =
        clock.between_blocks && (record.interval() < clock.block || record.has(BLOCKS));
    let single = !other_block && !record.has(WARPS | LANES);
    Conflict { earlier, thread: single.then(|| record.thread()), other_block }
}
