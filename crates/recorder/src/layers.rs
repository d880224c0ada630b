//! The recorder of a thread, and the layer that the thread computes.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use samebits_ledger::record::Detail;
use samebits_tensor_core::observe;

use crate::Recorder;
use crate::process::of_process;

/// The number of live recorders.
static RECORDERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static RECORDER: RefCell<Option<Arc<Recorder>>> = const { RefCell::new(None) };
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

/// Runs `f` and records the layers of this thread, and its operations if the recorder's level of
/// detail includes them.
pub fn record<R>(recorder: &Arc<Recorder>, f: impl FnOnce() -> R) -> R {
    let recording = || {
        if recorder.detail() < Detail::Op {
            return f();
        }
        observe::scope(recorder.clone(), f)
    };
    let _recorder = replace(&RECORDER, recorder.clone());
    recording()
}

/// Returns the recorder of this thread's layers, if any. Without a recorder this is a single load.
#[inline]
pub fn of_layers() -> Option<Arc<Recorder>> {
    if RECORDERS.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let recorder = RECORDER.with_borrow(Clone::clone).or_else(of_process)?;
    (recorder.detail() >= Detail::Layer).then_some(recorder)
}

/// Returns the path of the module that this thread computes or differentiates, if known.
pub fn module() -> Option<Arc<str>> {
    if RECORDERS.load(Ordering::Relaxed) == 0 {
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
fn replace<T>(place: &'static Local<T>, value: T) -> Restore<T> {
    Restore { place, outer: place.replace(Some(value)) }
}

#[derive(Debug)]
struct Restore<T: 'static> {
    place: &'static Local<T>,
    outer: Option<T>,
}

impl<T> Drop for Restore<T> {
    fn drop(&mut self) {
        // Drop the replaced value only when nothing is borrowed any more.
        drop(self.place.replace(self.outer.take()));
    }
}
