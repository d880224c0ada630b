//! Calls to the caller's code.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use samebits_rng::explicit_only;

use crate::{Error, Result};

/// Runs a function of the caller's. A panic becomes its message; drawing from default generators is
/// an error on every thread.
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(|| explicit_only(f))).map_err(message)
}

/// Runs `f` as [`caught`], for functions that belong to no sample; `stage` says what `op` was
/// doing.
pub(crate) fn called<R>(
    op: &'static str,
    stage: &'static str,
    f: impl FnOnce() -> Result<R>,
) -> Result<R> {
    caught(f).unwrap_or_else(|message| Err(Error::Callback { op, stage, message }))
}

fn message(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(payload) => {
                // Dropping a payload of unknown type may panic again.
                std::mem::forget(payload);
                "a value that is not a text".to_owned()
            }
        },
    }
}
