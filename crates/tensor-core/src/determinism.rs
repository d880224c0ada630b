//! Determinism levels: the scope in which the bits of a result repeat, and the level a caller
//! requires.
//!
//! The level in force is that of the innermost scope of the calling thread, or the process default
//! if the thread is in no scope. An operation reads it once, when it is called. A scope never
//! applies to another thread, and a backward pass obeys the level in force when *it* runs.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU8, Ordering};

pub use samebits_numerics::Determinism;

/// The reaction when no variant meets the level in force; PyTorch's three debug modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugMode {
    /// Requires nothing: PyTorch's `"default"`.
    Default,
    /// Prefers [`Determinism::Portable`], and writes a warning if no variant has it.
    Warn,
    /// Requires [`Determinism::Portable`]; its absence is an error.
    Error,
}

/// Returns the level in force on this thread.
#[doc(alias = "are_deterministic_algorithms_enabled")]
pub fn required() -> Determinism {
    policy().level
}

/// Returns true if a missing level is only a warning on this thread.
#[doc(alias = "is_deterministic_algorithms_warn_only_enabled")]
pub fn is_warn_only() -> bool {
    policy().warn_only
}

/// Sets the level for every thread that is in no scope.
#[doc(alias = "use_deterministic_algorithms")]
pub fn set_default(level: Determinism) {
    let warn_only = load_default().warn_only;
    store_default(Policy { level, warn_only });
}

/// Turns a missing level into a warning (once per operation and call site) instead of an error, for
/// every thread that is in no scope. If there is a deterministic variant, it still runs.
///
/// Warnings go to the thread's `tracing` subscriber, or to standard error if it has none.
pub fn set_warn_only(warn_only: bool) {
    let level = load_default().level;
    store_default(Policy { level, warn_only });
}

/// Sets the process default as PyTorch's `set_deterministic_debug_mode` does.
#[doc(alias = "set_deterministic_debug_mode")]
pub fn set_debug_mode(mode: DebugMode) {
    store_default(match mode {
        DebugMode::Default => Policy { level: Determinism::NotGuaranteed, warn_only: false },
        DebugMode::Warn => Policy { level: Determinism::Portable, warn_only: true },
        DebugMode::Error => Policy { level: Determinism::Portable, warn_only: false },
    });
}

/// Returns the debug mode that matches the policy in force.
#[doc(alias = "get_deterministic_debug_mode")]
pub fn debug_mode() -> DebugMode {
    match policy() {
        Policy { level: Determinism::NotGuaranteed, .. } => DebugMode::Default,
        Policy { warn_only: true, .. } => DebugMode::Warn,
        Policy { .. } => DebugMode::Error,
    }
}

/// Runs `f` with `level` in force on this thread, and restores the previous level, even if `f`
/// panics.
#[track_caller]
pub fn scope<R>(level: Determinism, f: impl FnOnce() -> R) -> R {
    let _guard = enter(level);
    f()
}

/// Runs `f` with `level` preferred on this thread: if no variant meets it, the best variant runs
/// and a warning is written, as [`set_warn_only`] describes.
pub fn scope_warn_only<R>(level: Determinism, f: impl FnOnce() -> R) -> R {
    let _guard = push(Policy { level, warn_only: true });
    f()
}

/// Puts `level` in force on this thread until the guard is dropped.
///
/// Guards may be dropped in any order: the youngest guard alive decides the level.
#[must_use = "the level is in force only while the guard lives"]
pub fn enter(level: Determinism) -> ScopeGuard {
    push(Policy { level, warn_only: false })
}

/// A guard that keeps a level in force on the thread that made it; see [`enter`].
#[derive(Debug)]
pub struct ScopeGuard {
    id: u64,
    /// Makes the guard `!Send`: the scope stack belongs to the thread.
    not_send: std::marker::PhantomData<*const ()>,
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        SCOPES.with_borrow_mut(|scopes| scopes.stack.retain(|&(id, _)| id != self.id));
    }
}

/// Returns the policy in force on this thread.
pub(crate) fn policy() -> Policy {
    SCOPES
        .with_borrow(|scopes| scopes.stack.last().map(|&(_, policy)| policy))
        .unwrap_or_else(load_default)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) level: Determinism,
    pub(crate) warn_only: bool,
}

#[derive(Default)]
struct Scopes {
    next_id: u64,
    stack: Vec<(u64, Policy)>,
}

thread_local! {
    static SCOPES: RefCell<Scopes> = RefCell::default();
}

/// The process default: the level in the low bits and warn-only in bit 7, so that one load reads
/// both.
static DEFAULT: AtomicU8 = AtomicU8::new(Determinism::Portable as u8);

const WARN_ONLY: u8 = 0x80;

fn level_of(value: u8) -> Determinism {
    match value {
        0 => Determinism::NotGuaranteed,
        1 => Determinism::RunToRun,
        _ => Determinism::Portable,
    }
}

fn load_default() -> Policy {
    let value = DEFAULT.load(Ordering::Relaxed);
    Policy { level: level_of(value & !WARN_ONLY), warn_only: value & WARN_ONLY != 0 }
}

fn store_default(policy: Policy) {
    let flag = if policy.warn_only { WARN_ONLY } else { 0 };
    DEFAULT.store(policy.level as u8 | flag, Ordering::Relaxed);
}

fn push(policy: Policy) -> ScopeGuard {
    SCOPES.with_borrow_mut(|scopes| {
        let id = scopes.next_id;
        scopes.next_id += 1;
        scopes.stack.push((id, policy));
        ScopeGuard { id, not_send: std::marker::PhantomData }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Determinism::*;

    #[test]
    fn scopes_nest_and_end() {
        scope(RunToRun, || {
            assert_eq!(required(), RunToRun);
            scope(NotGuaranteed, || assert_eq!(required(), NotGuaranteed));
            assert_eq!(required(), RunToRun);
        });
    }

    #[test]
    fn a_scope_ends_when_its_closure_panics() {
        let before = required();
        let caught = std::panic::catch_unwind(|| scope(NotGuaranteed, || panic!("planted")));
        assert!(caught.is_err());
        assert_eq!(required(), before);
    }

    #[test]
    fn two_threads_have_their_own_levels() {
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|threads| {
            for level in [RunToRun, NotGuaranteed] {
                let barrier = &barrier;
                threads.spawn(move || {
                    scope(level, || {
                        barrier.wait();
                        assert_eq!(required(), level);
                        barrier.wait();
                    });
                });
            }
        });
    }

    #[test]
    fn a_guard_dropped_out_of_order_does_not_bring_an_old_level_back() {
        let outer = enter(RunToRun);
        let inner = enter(NotGuaranteed);
        drop(outer);
        assert_eq!(required(), NotGuaranteed);
        drop(inner);
        scope(Portable, || assert_eq!(required(), Portable));
    }
}
