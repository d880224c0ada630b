//! How often, and for how much, something asks for memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts what a thread asks for. A test that calls [`asked`] makes it the
/// global one.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    /// Times and bytes.
    static ASKED: Cell<[usize; 2]> = const { Cell::new([0; 2]) };
}

fn note(bytes: usize) {
    let [times, sum] = ASKED.get();
    ASKED.set([times + 1, sum + bytes]);
}

// SAFETY: every call goes to the system's allocator as it came; a `Cell` without a destructor asks for no
// memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// How often, and for how many bytes, `f` asks for memory.
pub fn asked<R>(f: impl FnOnce() -> R) -> [usize; 2] {
    let before = ASKED.get();
    drop(f());
    [0, 1].map(|which| ASKED.get()[which] - before[which])
}
