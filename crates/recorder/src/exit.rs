//! The end of the process. A program may end while threads of pools are still alive, so no
//! destructor of Rust is sure to run, but the C library calls its handlers.

#![allow(unsafe_code)]

use std::ffi::c_int;

// SAFETY: the declaration is that of the C standard, and a handler has no precondition.
unsafe extern "C" {
    safe fn atexit(handler: extern "C" fn()) -> c_int;
}

/// Calls `handler` when `main` returns or panics, or the process exits by itself; not when it is
/// killed or aborts. A system without room for another handler refuses in silence: the thread that
/// writes is then all there is.
pub(crate) fn at_exit(handler: extern "C" fn()) {
    atexit(handler);
}
