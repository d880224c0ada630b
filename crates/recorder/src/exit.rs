//! Hook for the end of the process. A program may end while pool threads are still alive, so Rust's
//! destructors may not run, but the C library calls its handlers.

#![allow(unsafe_code)]

use std::ffi::c_int;

// SAFETY: the declaration is that of the C standard, and a handler has no precondition.
unsafe extern "C" {
    safe fn atexit(handler: extern "C" fn()) -> c_int;
}

/// Calls `handler` when `main` returns or panics, or the process exits by itself; not when it is
/// killed or aborts. A system without room for another handler ignores the request; then only the
/// writer thread writes.
pub(crate) fn at_exit(handler: extern "C" fn()) {
    atexit(handler);
}
