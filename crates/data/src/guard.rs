//! Calling code of the caller's.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use samebits_rng::explicit_only;

use crate::{Error, Result};

/// Runs a function of the caller's: a panic becomes its message, and default generators cannot be
/// drawn from, on whatever thread this is.
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(|| explicit_only(f))).map_err(message)
}

/// As [`caught`], for functions that belong to no sample: `stage` is what `op` was doing.
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
                // Dropping a value of an unknown type may panic again.
                std::mem::forget(payload);
                "a value that is not a text".to_owned()
            }
        },
    }
}
