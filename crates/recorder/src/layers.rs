//! The recorder of a thread.

use std::cell::RefCell;
use std::sync::Arc;

use samebits_ledger::record::Detail;
use samebits_tensor_core::observe;

use crate::Recorder;
use crate::module::{is_recorded, replace};
use crate::process::of_process;

thread_local! {
    static RECORDER: RefCell<Option<Arc<Recorder>>> = const { RefCell::new(None) };
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
    if !is_recorded() {
        return None;
    }
    let recorder = RECORDER.with_borrow(Clone::clone).or_else(of_process)?;
    (recorder.detail() >= Detail::Layer).then_some(recorder)
}
