//! Calls from threads outside of rayon's pool, such as the program's first.
//!
//! rayon would hand such a call to the pool and let its thread sleep until the end. A call of a hundred
//! microseconds would wake two threads one after the other, and take twice as long; here its thread
//! takes parts as those of the pool do.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Items;
use super::awake::{self, Cpu};

/// The number of parts for each thread, so that one that wakes late finds less to do.
pub(super) const PARTS: usize = 4;

/// Calls `run` for `count` parts that together are all items, on `threads` threads.
pub(super) fn parts<I: Items>(items: I, count: usize, threads: usize, run: &(dyn Fn(I) + Sync)) {
    let mut parts: Vec<Part<'_>> = Vec::with_capacity(count);
    let mut left = items;
    for others in (1..count).rev() {
        let size = left.count() / (others + 1);
        let (part, rest) = left.split_at(size);
        parts.push(Mutex::new(Some(Box::new(move || run(part)))));
        left = rest;
    }
    parts.push(Mutex::new(Some(Box::new(move || run(left)))));
    run_all(&parts, threads);
}

/// A part that no thread has taken yet.
type Part<'a> = Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>;

/// Runs all parts, on `threads` threads. It is compiled once, for all kinds of items.
fn run_all(parts: &[Part<'_>], threads: usize) {
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let take_some = || {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let part = part.lock().take();
            part.into_iter().for_each(|run| run());
        }
    };
    let helpers = (threads - 1).min(parts.len() - 1);
    let cpu = Cpu::current();
    rayon::in_place_scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|_| {
                awake::counted(&ended, || {
                    cpu.leave();
                    take_some();
                });
            });
        }
        awake::at_work(|| {
            take_some();
            awake::wait(&ended, helpers);
        });
    });
}
