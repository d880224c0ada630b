//! The reorder window.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::guard::caught;
use crate::{Error, Result};

/// Finished slots that the consumer has not taken yet, and the workers that may still produce some.
pub(super) struct Window<O> {
    state: Mutex<State<O>>,
    /// Signals that a slot was finished, or a worker has failed or left.
    arrived: Condvar,
    /// Signals that a slot was taken, or the window has closed.
    room: Condvar,
}

struct State<O> {
    /// The first slot not yet taken; in unordered runs, the number of slots taken.
    base: u64,
    /// In unordered runs, the first slot that no worker has claimed.
    unclaimed: u64,
    ready: BTreeMap<u64, Result<O>>,
    /// Errors of workers that could not start.
    failed: BTreeMap<usize, Error>,
    left: Vec<bool>,
    closed: bool,
    counters: Counters,
}

/// Counters of an epoch so far.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    /// The largest number of finished slots that waited at once.
    pub(crate) peak_ready: usize,
    /// The time that each worker has spent on loading.
    pub(crate) busy: Vec<Duration>,
}

impl<O> Window<O> {
    pub(super) fn new(first: u64, workers: usize) -> Self {
        let counters = Counters { peak_ready: 0, busy: vec![Duration::ZERO; workers] };
        let state = State {
            base: first,
            unclaimed: first,
            ready: BTreeMap::new(),
            failed: BTreeMap::new(),
            left: vec![false; workers],
            closed: false,
            counters,
        };
        Window { state: Mutex::new(state), arrived: Condvar::new(), room: Condvar::new() }
    }

    /// Waits until `slot` lies in the window. Returns false if the window has closed.
    pub(super) fn wait_for_room(&self, slot: u64, capacity: u64) -> bool {
        let mut state = self.state.lock();
        while !state.closed && slot >= state.base.saturating_add(capacity) {
            self.room.wait(&mut state);
        }
        !state.closed
    }

    /// Claims the next slot for any worker, if it `exists`.
    pub(super) fn claim_any(&self, capacity: u64, exists: impl Fn(u64) -> bool) -> Option<u64> {
        let mut state = self.state.lock();
        while !state.closed
            && exists(state.unclaimed)
            && state.unclaimed >= state.base.saturating_add(capacity)
        {
            self.room.wait(&mut state);
        }
        let slot = state.unclaimed;
        if state.closed || !exists(slot) {
            return None;
        }
        state.unclaimed += 1;
        Some(slot)
    }

    pub(super) fn publish(&self, slot: u64, worker: usize, result: Result<O>, busy: Duration) {
        let mut state = self.state.lock();
        state.counters.busy[worker] += busy;
        // After the consumer has gone, nothing would drop the result.
        if state.closed {
            return;
        }
        state.ready.insert(slot, result);
        state.counters.peak_ready = state.counters.peak_ready.max(state.ready.len());
        drop(state);
        self.arrived.notify_one();
    }

    pub(super) fn fail(&self, worker: usize, error: Error) {
        self.state.lock().failed.insert(worker, error);
        self.arrived.notify_one();
    }

    pub(super) fn leave(&self, worker: usize) {
        self.state.lock().left[worker] = true;
        self.arrived.notify_one();
    }

    pub(super) fn count_inline(&self, busy: Duration) {
        self.state.lock().counters.busy[0] += busy;
    }

    /// Takes a slot: the requested one, from the worker responsible for it, or else the first
    /// available. Returns `None` after the timeout.
    pub(super) fn take(
        &self,
        asked: Option<(u64, usize)>,
        timeout: Option<Duration>,
    ) -> Option<Result<O>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.state.lock();
        if let Some((slot, _)) = asked
            && slot > state.base
        {
            // Slots that will no longer be requested must not keep this one out of the window.
            state.base = slot;
            self.room.notify_all();
        }
        loop {
            let found = match asked {
                Some((slot, _)) => state.ready.remove(&slot).map(|result| (slot + 1, result)),
                None => {
                    let first = state.ready.pop_first();
                    first.map(|(_, result)| (state.base + 1, result))
                }
            };
            if let Some((base, result)) = found {
                state.base = base;
                drop(state);
                self.room.notify_all();
                return Some(result);
            }
            if let Some(error) = state.broken(asked.map(|(_, worker)| worker)) {
                return Some(Err(error));
            }
            match deadline {
                None => self.arrived.wait(&mut state),
                Some(deadline) => {
                    if self.arrived.wait_until(&mut state, deadline).timed_out()
                        && Instant::now() >= deadline
                    {
                        // A slot that arrived just before the deadline still counts.
                        let late = match asked {
                            Some((slot, _)) => state.ready.contains_key(&slot),
                            None => !state.ready.is_empty(),
                        };
                        if !late {
                            return None;
                        }
                    }
                }
            }
        }
    }

    pub(super) fn close(&self) {
        let ready = {
            let mut state = self.state.lock();
            state.closed = true;
            std::mem::take(&mut state.ready)
        };
        self.room.notify_all();
        // Dropping results may run foreign code; release the lock first.
        for result in ready.into_values() {
            if let Err(message) = caught(|| drop(result)) {
                tracing::warn!("dropping a batch panicked: {message}");
            }
        }
    }

    /// Waits until all workers have left. Returns false if they have not within `grace`.
    pub(super) fn wait_until_left(&self, grace: Duration) -> bool {
        let deadline = Instant::now().checked_add(grace);
        let mut state = self.state.lock();
        while !state.left.iter().all(|&left| left) {
            match deadline {
                None => self.arrived.wait(&mut state),
                Some(deadline) => {
                    if self.arrived.wait_until(&mut state, deadline).timed_out() {
                        return state.left.iter().all(|&left| left);
                    }
                }
            }
        }
        true
    }

    pub(super) fn counters(&self) -> Counters {
        self.state.lock().counters.clone()
    }
}

impl<O> State<O> {
    /// Returns the error that stops `worker`, or every worker if none is given, from producing
    /// more.
    fn broken(&mut self, worker: Option<usize>) -> Option<Error> {
        let failed = match worker {
            Some(worker) => self.failed.remove(&worker),
            None => self.failed.pop_first().map(|(_, error)| error),
        };
        if failed.is_some() {
            return failed;
        }
        let gone = match worker {
            Some(worker) => self.left[worker],
            None => self.left.iter().all(|&left| left),
        };
        gone.then(|| Error::WorkerInit {
            worker: worker.unwrap_or(0),
            stage: "work".to_owned(),
            source: "the worker ended before its last batch".into(),
        })
    }
}
