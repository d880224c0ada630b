//! Worker threads and the window through which their results come back.
//!
//! The engine knows neither datasets nor batches. A [`Task`] produces numbered *slots*; slot *s*
//! belongs to one worker, which produces its slots in ascending order. The consumer also takes the
//! slots in ascending order, whatever the order of completion. Threads meet only in the window, and
//! nothing that leaves it depends on timing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::context::{Progress, WorkerContext, WorkerInfo};
use crate::guard::caught;
use crate::inherit::{Inherited, captured, under};
use crate::{Determinism, Error, Result};

mod window;

pub(crate) use window::Counters;
use window::Window;

/// Work divided into slots.
pub(crate) trait Task: Send + Sync + 'static {
    /// The result of a slot.
    type Output: Send + 'static;
    /// The state that a worker keeps during one epoch.
    type Local: Send + 'static;

    /// Returns the worker that produces `slot`.
    fn owner(&self, slot: u64, workers: usize) -> usize;

    /// Returns the first slot from `from` on that `worker` must produce, or none if it is done.
    fn next_slot(
        &self,
        local: &Self::Local,
        worker: usize,
        workers: usize,
        from: u64,
    ) -> Option<u64>;

    /// Prepares `worker` for the epoch.
    fn start(&self, worker: &mut WorkerContext) -> Result<Self::Local>;

    /// Produces `slot`.
    fn run(
        &self,
        slot: u64,
        local: &mut Self::Local,
        worker: &mut WorkerContext,
    ) -> Result<Self::Output>;
}

/// Settings of an epoch's run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The number of worker threads; 0 runs everything on the consumer's thread.
    pub(crate) workers: usize,
    /// The number of slots that may be in production or waiting, over all workers.
    pub(crate) capacity: u64,
    /// False if slots are handed out as they arrive.
    pub(crate) ordered: bool,
    pub(crate) level: Determinism,
    /// The longest time that the consumer waits for one slot.
    pub(crate) timeout: Option<Duration>,
    /// The longest time that the consumer waits for workers if it leaves early.
    pub(crate) grace: Duration,
    pub(crate) epoch: u64,
    pub(crate) base_seed: u64,
    /// The first slot of this run.
    pub(crate) first_slot: u64,
}

/// Largest number of workers. More threads are a mistake and would exhaust the system.
const MOST_WORKERS: usize = 1024;

/// Checks the settings that the builders share; `op` names the builder.
pub(crate) fn check(
    op: &'static str,
    batch_size: usize,
    workers: usize,
    prefetch: usize,
    timeout: Option<Duration>,
) -> Result<()> {
    for (option, value) in [("batch size", batch_size), ("prefetch", prefetch)] {
        if value == 0 {
            return Err(Error::option(op, option, 0, "must be at least 1"));
        }
    }
    if workers > MOST_WORKERS {
        let expected = format!("must be at most {MOST_WORKERS}");
        return Err(Error::option(op, "number of workers", workers, expected));
    }
    if workers.checked_mul(prefetch).is_none() {
        return Err(Error::option(op, "prefetch", prefetch, "is too large"));
    }
    if let (Some(timeout), 0) = (timeout, workers) {
        let expected = "needs at least one worker: without workers there is nothing to wait for";
        return Err(Error::option(op, "timeout", format!("{timeout:?}"), expected));
    }
    Ok(())
}

impl Settings {
    fn info(&self, id: usize) -> WorkerInfo {
        WorkerInfo {
            id,
            workers: self.workers,
            seed: self.base_seed.wrapping_add(id as u64),
            base_seed: self.base_seed,
            epoch: self.epoch,
        }
    }
}

/// One epoch's work, shared by its workers and its consumer.
struct Job<T: Task> {
    task: T,
    settings: Settings,
    cancel: Arc<AtomicBool>,
    progress: Vec<Arc<Progress>>,
    window: Window<T::Output>,
    /// The settings in force on the thread that began the epoch.
    inherited: Inherited,
}

impl<T: Task> Job<T> {
    /// Produces a worker's slots of the epoch.
    fn work(&self, id: usize, worker: &mut WorkerContext) {
        let info = self.settings.info(id);
        let span = tracing::debug_span!("worker", id, epoch = info.epoch, seed = info.seed);
        let _entered = span.enter();
        let (cancel, progress) = (Arc::clone(&self.cancel), Arc::clone(&self.progress[id]));
        worker.reseed(info, self.settings.level, cancel, progress);
        let mut local = match start(&self.task, worker) {
            Ok(local) => local,
            Err(error) => {
                tracing::warn!(%error, "worker did not start");
                return self.window.fail(id, error);
            }
        };
        let mut from = self.settings.first_slot;
        while let Some(slot) = self.claim(id, &local, from) {
            let began = Instant::now();
            let result = {
                let _slot = tracing::trace_span!("batch", number = slot).entered();
                run(&self.task, slot, &mut local, worker)
            };
            self.window.publish(slot, id, result, began.elapsed());
            from = slot + 1;
        }
    }

    /// Claims the next slot of worker `id` once there is room for it. Returns `None` at the end.
    fn claim(&self, id: usize, local: &T::Local, from: u64) -> Option<u64> {
        let Settings { workers, capacity, ordered, .. } = self.settings;
        if ordered {
            let slot = self.task.next_slot(local, id, workers, from)?;
            self.window.wait_for_room(slot, capacity).then_some(slot)
        } else {
            self.window
                .claim_any(capacity, |slot| self.task.next_slot(local, 0, 1, slot) == Some(slot))
        }
    }
}

/// Runs [`Task::start`] and turns a panic into an error.
fn start<T: Task>(task: &T, worker: &mut WorkerContext) -> Result<T::Local> {
    caught(|| task.start(worker))
        .unwrap_or_else(|message| Err(panicked(worker.info.id, "initialisation", &message)))
}

/// Makes the error for a panic that belongs to no batch.
fn panicked(worker: usize, stage: &str, message: &str) -> Error {
    let source = format!("panicked: {message}").into();
    Error::WorkerInit { worker, stage: stage.to_owned(), source }
}

/// Runs [`Task::run`] and turns a panic into an error.
fn run<T: Task>(
    task: &T,
    slot: u64,
    local: &mut T::Local,
    worker: &mut WorkerContext,
) -> Result<T::Output> {
    let result = caught(|| task.run(slot, local, worker)).unwrap_or_else(|message| {
        Err(Error::Panic {
            worker: worker.info.id,
            batch: slot,
            shard: None,
            sample: worker.progress().get(),
            message,
        })
    });
    worker.at_sample(None);
    result
}

/// Guard that tells the window when a worker leaves, even by a panic.
struct Leave<'a, T: Task>(&'a Job<T>, usize);

impl<T: Task> Drop for Leave<'_, T> {
    fn drop(&mut self) {
        self.0.window.leave(self.1);
    }
}

/// Storage for idle persistent workers between epochs.
pub(crate) type Home<T> = Arc<Mutex<Option<Pool<T>>>>;

/// Pool of threads that wait for epochs.
pub(crate) struct Pool<T: Task> {
    workers: Vec<mpsc::Sender<Arc<Job<T>>>>,
    threads: Vec<JoinHandle<()>>,
}

impl<T: Task> Pool<T> {
    /// Starts `workers` threads, counted in `live` while they run.
    pub(crate) fn start(workers: usize, live: &Arc<AtomicUsize>) -> Result<Self> {
        let mut pool = Pool { workers: Vec::new(), threads: Vec::new() };
        for id in 0..workers {
            let (sender, jobs) = mpsc::channel::<Arc<Job<T>>>();
            let alive = Alive::new(live);
            let thread = thread::Builder::new()
                .name(format!("data-worker-{id}"))
                .spawn(move || {
                    let _alive = alive;
                    let mut worker = WorkerContext::detached();
                    for job in jobs {
                        let _leave = Leave(&job, id);
                        // The caller's values may panic when dropped.
                        if let Err(message) =
                            caught(|| under(&job.inherited, || job.work(id, &mut worker)))
                        {
                            job.window.fail(id, panicked(id, "work", &message));
                            // Dropping the context might panic again.
                            std::mem::forget(std::mem::replace(
                                &mut worker,
                                WorkerContext::detached(),
                            ));
                        }
                    }
                })
                .map_err(|source| Error::Spawn { worker: id, source })?;
            pool.workers.push(sender);
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    fn submit(&self, job: &Arc<Job<T>>) {
        for (id, worker) in self.workers.iter().enumerate() {
            if worker.send(Arc::clone(job)).is_err() {
                // The thread is gone, so it cannot report this itself.
                job.window.leave(id);
            }
        }
    }

    /// Ends all threads and waits for them. Call this only if the pool's workers are idle.
    pub(crate) fn join(self) {
        drop(self.workers);
        for thread in self.threads {
            // A worker's panics were caught and reported; there is nothing left to report.
            let _ = thread.join();
        }
    }
}

/// Guard that counts a thread while it runs.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(live: &Arc<AtomicUsize>) -> Self {
        live.fetch_add(1, Ordering::SeqCst);
        Alive(Arc::clone(live))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The consumer's end of an epoch.
pub(crate) struct Run<T: Task> {
    job: Arc<Job<T>>,
    lane: Lane<T>,
    waited: Duration,
}

/// Place of execution of an epoch.
enum Lane<T: Task> {
    /// The consumer's thread, started at the first slot.
    Inline { worker: Box<WorkerContext>, local: Option<T::Local> },
    /// Worker threads.
    Pool { pool: Option<Pool<T>>, hung: bool },
}

impl<T: Task> Run<T> {
    /// Starts `task` on `pool`, or on this thread if there is none.
    pub(crate) fn start(task: T, settings: Settings, pool: Option<Pool<T>>) -> Self {
        let cancel = Arc::new(AtomicBool::new(false));
        let progress: Vec<_> = (0..settings.workers.max(1)).map(|_| Arc::default()).collect();
        let lane = match pool {
            None => {
                let (cancel, progress) = (Arc::clone(&cancel), Arc::clone(&progress[0]));
                let worker = WorkerContext::new(settings.info(0), settings.level, cancel, progress);
                Lane::Inline { worker: Box::new(worker), local: None }
            }
            Some(pool) => Lane::Pool { pool: Some(pool), hung: false },
        };
        let window = Window::new(settings.first_slot, settings.workers.max(1));
        let inherited = captured();
        let job = Arc::new(Job { task, settings, cancel, progress, window, inherited });
        if let Lane::Pool { pool: Some(pool), .. } = &lane {
            pool.submit(&job);
        }
        Run { job, lane, waited: Duration::ZERO }
    }

    pub(crate) fn task(&self) -> &T {
        &self.job.task
    }

    /// Takes slot `slot`, or in unordered runs any slot; waits until it is available.
    pub(crate) fn take(&mut self, slot: u64) -> Result<T::Output> {
        let began = Instant::now();
        let result = self.wait(slot);
        self.waited += began.elapsed();
        result
    }

    fn wait(&mut self, slot: u64) -> Result<T::Output> {
        let job = &self.job;
        match &mut self.lane {
            Lane::Inline { worker, local } => {
                let began = Instant::now();
                let result = under(&job.inherited, || {
                    let local = match local {
                        Some(local) => local,
                        None => local.insert(start(&job.task, worker)?),
                    };
                    run(&job.task, slot, local, worker)
                });
                job.window.count_inline(began.elapsed());
                result
            }
            Lane::Pool { hung, .. } => {
                let Settings { workers, ordered, timeout, .. } = job.settings;
                let owner = ordered.then(|| (slot, job.task.owner(slot, workers)));
                let Some(result) = job.window.take(owner, timeout) else {
                    *hung = true;
                    let worker = match owner {
                        Some((_, worker)) => worker,
                        None => job.progress.iter().position(|p| p.get().is_some()).unwrap_or(0),
                    };
                    return Err(Error::Timeout {
                        worker,
                        batch: slot,
                        sample: job.progress[worker].get(),
                        waited: timeout.unwrap_or_default(),
                    });
                };
                result
            }
        }
    }

    /// Returns the time that the consumer has waited, and the workers' counters.
    pub(crate) fn counters(&self) -> (Duration, Counters) {
        (self.waited, self.job.window.counters())
    }

    /// Ends the run. Returns the pool for reuse if all its workers have left the epoch.
    pub(crate) fn finish(&mut self) -> Option<Pool<T>> {
        self.job.cancel.store(true, Ordering::Relaxed);
        self.job.window.close();
        let Lane::Pool { pool, hung } = &mut self.lane else { return None };
        let pool = pool.take()?;
        // Do not wait for a worker that missed the timeout: its thread ends by itself when its
        // sample returns.
        let grace = if *hung { Duration::ZERO } else { self.job.settings.grace };
        self.job.window.wait_until_left(grace).then_some(pool)
    }
}
