//! Who touched a word last, and whether a new access is ordered after that.
//!
//! The order that a launch guarantees is small: a thread's own instructions, the barriers of its
//! block, `bar.warp.sync` among the lanes of a warp, and nothing at all between blocks. Lanes of
//! one warp are *not* in lockstep as far as memory is concerned: since sm_70 the hardware does
//! not promise it. Two accesses that no such order connects, at least one of them a write, are a
//! race, unless both are atomic (or `.volatile` or `.relaxed`, which PTX calls strong).
//!
//! One thing is let through: writing the value that is already there. Threads that all store the
//! same flag cannot be told apart in any schedule.
//!
//! Every launch draws interval numbers from one counter: a new one for each block and after each
//! barrier. So a stored number tells at once whether an access came from an earlier launch, from
//! another block, from before the last barrier or from the current interval.

use crate::error::Access;

/// Time, as far as races are concerned, for the thread that runs now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// First interval of this launch.
    pub(crate) launch: u64,
    /// First interval of this block.
    pub(crate) block: u64,
    /// The current interval.
    pub(crate) now: u64,
    /// How often the warp has synchronised its lanes in this interval.
    pub(crate) warp: u64,
    /// True if the history of other blocks counts: off for memory that no other block sees.
    pub(crate) between_blocks: bool,
}

/// Who has touched a word, packed: interval, thread, how many threads, warp time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Record(u64);

const THREAD_BITS: u32 = 10;
const WARP_TIME_BITS: u32 = 11;
const INTERVAL_SHIFT: u32 = THREAD_BITS + WARP_TIME_BITS + 4;
/// Several lanes of one warp.
const LANES: u64 = 1 << (THREAD_BITS + WARP_TIME_BITS);
/// Threads of several warps.
const WARPS: u64 = 2 << (THREAD_BITS + WARP_TIME_BITS);
/// Also a thread of another block in this launch.
const BLOCKS: u64 = 4 << (THREAD_BITS + WARP_TIME_BITS);
const ATOMIC: u64 = 8 << (THREAD_BITS + WARP_TIME_BITS);

impl Record {
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

    /// Returns true if some access in this record is not ordered before `thread` now.
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

    /// This record after another access of the same kind. The record stays strong only as long as
    /// every access in it that may still be in conflict is.
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

    /// Returns a single access.
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

/// Returns the warp's time, which stops counting at the end of its range: then later accesses look
/// simultaneous, and a race may be reported where there is none, never the other way round.
fn time(clock: &Clock) -> u64 {
    clock.warp.min((1 << WARP_TIME_BITS) - 1)
}

/// The history of one word: its last writers and its readers since.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    writers: Record,
    readers: Record,
}

/// What an access races with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// What the other access was.
    pub(crate) earlier: Access,
    /// The other thread of this block, if it is one and a single one.
    pub(crate) thread: Option<u32>,
    /// True if the other access came from another block.
    pub(crate) other_block: bool,
}

impl Cell {
    /// Notes an access. `strong` says that it does not race with other strong ones, `silent` that
    /// a write stores the value that is there already.
    #[inline]
    pub(crate) fn touch(
        &mut self,
        access: Access,
        clock: &Clock,
        thread: u32,
        strong: bool,
        silent: bool,
    ) -> Result<(), Conflict> {
        let (writers, readers) = (self.writers, self.readers);
        if writers.interval() < clock.launch && readers.interval() < clock.launch {
            // The first access of this launch: almost every one that a kernel makes.
            let record = Record::first(clock, thread, strong);
            *(if access == Access::Read { &mut self.readers } else { &mut self.writers }) = record;
            return Ok(());
        }
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
