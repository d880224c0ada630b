//! Calls from threads outside of rayon's pool, such as the program's first.
//!
//! rayon would hand such a call to the pool and let its thread sleep until the end. A call of a hundred
//! microseconds would wake two threads one after the other, and take twice as long; here its thread
//! takes parts as those of the pool do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Items, awake};

/// The number of parts for each thread, so that one that wakes late finds less to do.
const PARTS: usize = 4;
/// The time for which the calling thread looks for the end before it sleeps.
const WAIT: Duration = Duration::from_micros(100);

/// Calls `run` for parts of `at_least` to `at_most` items that together are all items, on `threads`
/// threads.
pub(super) fn parts<I: Items>(
    items: I,
    at_least: usize,
    at_most: usize,
    threads: usize,
    run: &(dyn Fn(I) + Sync),
) {
    let count = items.count();
    let wanted = (PARTS * threads).min(count / at_least).max(1);
    let mut parts = Vec::with_capacity(wanted);
    let mut left = items;
    for number in 0..wanted - 1 {
        let size = left.count() / (wanted - number);
        let (part, rest) = left.split_at(size);
        parts.push(Mutex::new(Some(part)));
        left = rest;
    }
    parts.push(Mutex::new(Some(left)));
    take_all(wanted, threads, &|number| {
        let Some(mut part) = parts[number].lock().take() else { return };
        while part.count() > at_most {
            let (now, later) = part.split_at(at_most);
            run(now);
            part = later;
        }
        run(part);
    });
}

/// Calls `take` for each number below `count`, on `threads` threads.
fn take_all(count: usize, threads: usize, take: &(dyn Fn(usize) + Sync)) {
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let take_some = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            awake::at_work(|| take(number));
        }
    };
    let helpers = (threads - 1).min(count - 1);
    rayon::in_place_scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|_| {
                let _ended = scopeguard::guard((), |()| {
                    ended.fetch_add(1, Ordering::Release);
                });
                take_some();
            });
        }
        take_some();
        let start = Instant::now();
        while ended.load(Ordering::Acquire) < helpers && start.elapsed() < WAIT {
            thread::yield_now();
        }
    });
}
