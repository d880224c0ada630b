//! The number and size of memory allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with a count of a thread's allocations. A test that calls [`asked`] or
/// [`peak`] makes it the global allocator.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    /// Number and bytes of allocations.
    static ASKED: Cell<[usize; 2]> = const { Cell::new([0; 2]) };
    /// Bytes allocated and not freed by this thread, and their maximum.
    static LIVE: Cell<[isize; 2]> = const { Cell::new([0; 2]) };
}

fn note(bytes: usize) {
    let [times, sum] = ASKED.get();
    ASKED.set([times + 1, sum + bytes]);
    change(bytes as isize);
}

fn change(bytes: isize) {
    let [live, most] = LIVE.get();
    LIVE.set([live + bytes, most.max(live + bytes)]);
}

// SAFETY: every call is passed unchanged to the system's allocator; a `Cell` without a destructor
// allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        change(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        change(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Returns the number of allocations in `f`, and their bytes.
pub fn asked<R>(f: impl FnOnce() -> R) -> [usize; 2] {
    let before = ASKED.get();
    drop(f());
    [0, 1].map(|which| ASKED.get()[which] - before[which])
}

/// Returns the largest number of bytes that this thread held at one time in `f`, beyond those from
/// before.
pub fn peak<R>(f: impl FnOnce() -> R) -> usize {
    let [before, _] = LIVE.get();
    LIVE.set([before; 2]);
    drop(f());
    let [_, most] = LIVE.get();
    (most - before) as usize
}
