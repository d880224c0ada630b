//! Threads that stay awake for a while after a call.
//!
//! A call of a hundred microseconds is over before a thread that slept has woken. rayon's threads go
//! to sleep a few microseconds after their last work; here they look for work, with pauses in which
//! other processes run, until no call has come for [`IDLE`].
//!
//! A system may wake a thread on the CPU of its caller although others are idle, and let them share it
//! for tens of milliseconds, in which the caller might as well work alone. A thread that finds itself
//! there leaves the CPU, and may return to it later.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use rayon::Yield;
use scopeguard::guard;

/// The time after the last call in which threads stay awake.
const IDLE: Duration = Duration::from_micros(300);
/// The time for which a thread looks for the end of parts that others took before it sleeps.
const WAIT: Duration = Duration::from_millis(2);
/// The time for which a thread stays on the CPU that it was moved to, even if its caller is there too.
const STAYS: Duration = Duration::from_millis(5);
/// The largest number of threads that stay awake: more would get into each other's way.
const MOST: usize = 7;

/// What callers share with the threads that stay awake for them.
#[derive(Default)]
struct Awake {
    /// The number of threads that stay awake, or will.
    threads: AtomicUsize,
    /// The number of calls, which wraps around.
    calls: AtomicUsize,
    /// The CPU on which the last caller ran.
    cpu: AtomicUsize,
}

/// Of the callers outside of all pools, which share the global one.
static OUTSIDE: LazyLock<Arc<Awake>> = LazyLock::new(Arc::default);

thread_local! {
    /// Of this thread of a pool.
    static INSIDE: Arc<Awake> = Arc::default();
    /// The time at which this thread last left the CPU of its caller.
    static LEFT: Cell<Option<Instant>> = const { Cell::new(None) };
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

/// Runs a part of a call that another thread may have taken, and counts it even if it panics.
pub(super) fn counted(ended: &AtomicUsize, run: impl FnOnce()) {
    let _ended = guard((), |()| {
        ended.fetch_add(1, Ordering::Release);
    });
    at_work(run);
}

/// Runs whatever work there is until `count` parts have ended, but not for longer than [`WAIT`].
pub(super) fn wait(ended: &AtomicUsize, count: usize) {
    let mut start = None;
    while ended.load(Ordering::Acquire) < count {
        if rayon::yield_now() == Some(Yield::Executed) {
            continue;
        }
        if start.get_or_insert_with(Instant::now).elapsed() > WAIT {
            break;
        }
        thread::yield_now();
    }
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
    awake.cpu.store(cpu::current(), Ordering::Relaxed);
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
            Cpu(awake.cpu.load(Ordering::Relaxed)).leave();
        } else if last.elapsed() > IDLE {
            break;
        } else {
            thread::yield_now();
        }
    }
}

/// The CPU of a thread that other threads work for.
#[derive(Clone, Copy)]
pub(super) struct Cpu(usize);

impl Cpu {
    /// Returns the CPU of this thread.
    pub(super) fn current() -> Cpu {
        Cpu(cpu::current())
    }

    /// Moves this thread to another CPU if it is on this one, but not if it has just returned to it.
    pub(super) fn leave(self) {
        if cpu::current() != self.0 {
            return;
        }
        let now = Instant::now();
        if LEFT.get().is_none_or(|left| now - left > STAYS) {
            cpu::leave();
            LEFT.set(Some(now));
        }
    }
}

/// The CPU of this thread, where the system tells and changes it.
#[cfg(all(target_os = "linux", not(miri)))]
mod cpu {
    use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};

    pub(super) fn current() -> usize {
        sched_getcpu()
    }

    /// Moves this thread to another CPU, if it may run on others.
    pub(super) fn leave() {
        let Ok(allowed) = sched_getaffinity(None) else { return };
        let mut others = allowed;
        others.unset(sched_getcpu());
        if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
            let _ = sched_setaffinity(None, &allowed);
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod cpu {
    pub(super) fn current() -> usize {
        usize::MAX
    }

    pub(super) fn leave() {}
}
