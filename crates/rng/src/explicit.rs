//! Scopes in which draws must name their generator.

use std::cell::Cell;

/// Runs `f` without this thread's default generators: a draw that names no generator is an error
/// inside.
///
/// Use it for code that any thread may run, such as the samples of a data loader: a default
/// generator's values would depend on the thread.
///
/// # Examples
///
/// ```
/// use samebits_rng::{explicit_only, is_explicit_only};
///
/// assert!(explicit_only(is_explicit_only));
/// assert!(!is_explicit_only());
/// ```
pub fn explicit_only<R>(f: impl FnOnce() -> R) -> R {
    let _restored = scopeguard::guard(EXPLICIT.replace(true), |outer| EXPLICIT.set(outer));
    f()
}

/// Returns true inside [`explicit_only`]. Owners of default generators check this before each draw.
pub fn is_explicit_only() -> bool {
    EXPLICIT.get()
}

thread_local! {
    static EXPLICIT: Cell<bool> = const { Cell::new(false) };
}
