//! Threads that stay awake for a while after a call.
//!
//! A call of a hundred microseconds is over before a thread that slept has woken. rayon's threads go
//! to sleep a few microseconds after their last work; here they look for work, with pauses in which
//! other processes run, until no call has come for [`IDLE`].

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use rayon::Yield;
use scopeguard::guard;

/// The time after the last call in which threads stay awake.
const IDLE: Duration = Duration::from_micros(300);
/// The largest number of threads that stay awake: more would get into each other's way.
const MOST: usize = 7;

/// What callers share with the threads that stay awake for them.
#[derive(Default)]
struct Awake {
    /// The number of threads that stay awake, or will.
    threads: AtomicUsize,
    /// The number of calls, which wraps around.
    calls: AtomicUsize,
}

/// Of the callers outside of all pools, which share the global one.
static OUTSIDE: LazyLock<Arc<Awake>> = LazyLock::new(Arc::default);

thread_local! {
    /// Of this thread of a pool.
    static INSIDE: Arc<Awake> = Arc::default();
    /// True while this thread works on a part of a call.
    static IS_AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Runs a part of a call. Where it waits for other parts, the thread does not stay awake for later
/// calls.
pub(super) fn at_work(run: impl FnOnce()) {
    let before = IS_AT_WORK.replace(true);
    let _restored = guard((), |()| IS_AT_WORK.set(before));
    run();
}

/// Keeps some of the `threads` threads of this pool awake after a call.
pub(super) fn after_call(threads: usize) {
    if IS_AT_WORK.get() {
        return;
    }
    match rayon::current_thread_index() {
        Some(caller) => INSIDE.with(|awake| keep(awake, threads, threads - 1, caller + 1)),
        None => keep(&OUTSIDE, threads, threads - 1, 0),
    }
}

/// Keeps up to `others` threads awake, counted from thread `first` of `threads` on.
fn keep(awake: &Arc<Awake>, threads: usize, others: usize, first: usize) {
    awake.calls.fetch_add(1, Ordering::Relaxed);
    let most = MOST.min(others);
    if awake.threads.compare_exchange(0, most, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    let awake = awake.clone();
    rayon::spawn_broadcast(move |thread| {
        if (thread.index() + threads - first) % threads < most {
            if !IS_AT_WORK.get() {
                stay(&awake);
            }
            awake.threads.fetch_sub(1, Ordering::Relaxed);
        }
    });
}

/// Runs whatever work there is until no call has come for [`IDLE`].
fn stay(awake: &Awake) {
    let (mut calls, mut last) = (awake.calls.load(Ordering::Relaxed), Instant::now());
    while let Some(found) = rayon::yield_now() {
        let now = awake.calls.load(Ordering::Relaxed);
        if found == Yield::Executed || now != calls {
            (calls, last) = (now, Instant::now());
        } else if last.elapsed() > IDLE {
            break;
        } else {
            thread::yield_now();
        }
    }
}
