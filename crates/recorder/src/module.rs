//! The module that a thread computes.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of live recorders.
static RECORDERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MODULE: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Guard that counts a live recorder.
pub(crate) struct Alive;

impl Alive {
    pub(crate) fn new() -> Alive {
        RECORDERS.fetch_add(1, Ordering::Relaxed);
        Alive
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        RECORDERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns true if a recorder lives.
pub(crate) fn is_recorded() -> bool {
    RECORDERS.load(Ordering::Relaxed) != 0
}

/// Returns the path of the module that this thread computes or differentiates, if known.
pub fn module() -> Option<Arc<str>> {
    if !is_recorded() {
        return None;
    }
    MODULE.with_borrow(Clone::clone)
}

/// Assigns this thread's work to the module at `path` until the guard is dropped.
#[must_use = "the thread is in the module only while the guard lives"]
pub fn enter_module(path: Arc<str>) -> Entered {
    Entered(replace(&MODULE, path))
}

/// Guard that keeps a thread in a module; see [`enter_module`].
#[derive(Debug)]
pub struct Entered(
    #[expect(dead_code, reason = "dropping it leaves the module")] Restore<Arc<str>>,
);

type Local<T> = std::thread::LocalKey<RefCell<Option<T>>>;

/// Replaces a thread-local value until the guard is dropped.
pub(crate) fn replace<T>(place: &'static Local<T>, value: T) -> Restore<T> {
    Restore { place, outer: place.replace(Some(value)) }
}

/// Guard that restores a thread-local value.
#[derive(Debug)]
pub(crate) struct Restore<T: 'static> {
    place: &'static Local<T>,
    outer: Option<T>,
}

impl<T> Drop for Restore<T> {
    fn drop(&mut self) {
        // Drop the replaced value only when nothing is borrowed any more.
        drop(self.place.replace(self.outer.take()));
    }
}
