//! Iteration over the batches of an epoch.

use std::fmt;
use std::time::{Duration, Instant};

use super::LoaderState;
use super::state::WorkerState;
use super::task::Loading;
use crate::engine::{Home, Pool, Run, Settings};
use crate::{Collate, Dataset, Determinism, Error, Result, Skipped};

/// One batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<B> {
    /// The batch's number in this rank's epoch, counted from 0.
    pub number: u64,
    /// The epoch.
    pub epoch: u64,
    /// The samples' indices in the dataset.
    pub indices: Vec<usize>,
    /// The collate function's result for the samples.
    pub data: B,
}

/// Progress of an epoch. The times are for people; nothing is computed from them.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadReport {
    /// Batches handed out.
    pub batches: u64,
    /// Samples handed out.
    pub samples: u64,
    /// Time since the epoch began.
    pub elapsed: Duration,
    /// Time the consumer has spent waiting for batches, or loading them itself.
    pub waited: Duration,
    /// Time each worker has spent loading.
    pub busy: Vec<Duration>,
    /// The largest number of finished batches that waited for the consumer at once.
    pub peak_ready: usize,
}

impl LoadReport {
    /// Returns the share of the epoch's time spent waiting for data, between 0 and 1.
    pub fn waiting_share(&self) -> f64 {
        let elapsed = self.elapsed.as_secs_f64();
        if elapsed > 0.0 { self.waited.as_secs_f64() / elapsed } else { 0.0 }
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} samples in {} batches, {:.3} s, of which {:.3} s ({:.1} %) waiting for data",
            self.samples,
            self.batches,
            self.elapsed.as_secs_f64(),
            self.waited.as_secs_f64(),
            100.0 * self.waiting_share(),
        )
    }
}

/// The batches of one epoch, in order.
///
/// A failed sample affects its batch only: the error takes the batch's place, and the next batch
/// follows. [`LoaderBuilder::retry`](super::LoaderBuilder::retry) tries again or skips the sample.
/// After [`Error::WorkerInit`], [`Error::Timeout`], [`Error::Spawn`] and [`Error::TooManySkipped`]
/// the epoch ends.
///
/// Dropping an epoch early stops its workers after the sample they are loading.
pub struct Epoch<D: Dataset, C: Collate<D::Item>> {
    number: u64,
    state: State<D, C>,
    began: Instant,
    samples: u64,
}

enum State<D: Dataset, C: Collate<D::Item>> {
    /// The epoch could not start.
    Refused(Option<Error>),
    Running(Box<Running<D, C>>),
}

struct Running<D: Dataset, C: Collate<D::Item>> {
    run: Run<Loading<D, C>>,
    /// The next batch to hand out; in unordered epochs, the number handed out.
    next: u64,
    ended: bool,
    workers: Vec<Option<WorkerState>>,
    skipped: Vec<Skipped>,
    /// The position before an error, kept until a later batch is handed out.
    before_error: Option<Box<Standing>>,
    /// The loader's slot, to which persistent workers return at the end.
    home: Home<Loading<D, C>>,
}

/// The parts of a saved state.
#[derive(Clone)]
struct Standing {
    next: u64,
    workers: Vec<Option<WorkerState>>,
    skipped: usize,
}

impl<D: Dataset, C: Collate<D::Item>> Epoch<D, C> {
    pub(super) fn refused(number: u64, error: Error) -> Self {
        let state = State::Refused(Some(error));
        Epoch { number, state, began: Instant::now(), samples: 0 }
    }

    pub(super) fn start(
        task: Loading<D, C>,
        settings: Settings,
        pool: Option<Pool<Loading<D, C>>>,
        home: Home<Loading<D, C>>,
        skipped: Vec<Skipped>,
    ) -> Self {
        let mut workers = task.saved().to_vec();
        workers.resize(settings.workers.max(1), None);
        let (number, next) = (settings.epoch, settings.first_slot);
        let run = Run::start(task, settings, pool);
        let before_error = None;
        let running =
            Box::new(Running { run, next, ended: false, workers, skipped, before_error, home });
        Epoch { number, state: State::Running(running), began: Instant::now(), samples: 0 }
    }

    /// Returns the epoch's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of batches left.
    pub fn remaining(&self) -> u64 {
        match &self.state {
            State::Refused(error) => u64::from(error.is_some()),
            State::Running(running) if running.ended => 0,
            State::Running(running) => {
                let task = running.run.task();
                task.count(running.next, task.plan().end_batch())
            }
        }
    }

    /// Moves on to batch `number`, or to the end if there are fewer, without loading the batches in
    /// between. Does nothing if the epoch has already reached it. See [`Deal`](super::Deal).
    pub fn pass_to(&mut self, number: u64) {
        if let State::Running(running) = &mut self.state {
            let end = running.run.task().plan().end_batch();
            running.next = running.next.max(number.min(end));
            running.before_error = None;
        }
    }

    /// Returns the samples that [`Retry::skip`](crate::Retry::skip) has skipped so far, each with
    /// its reason.
    pub fn skipped(&self) -> &[Skipped] {
        match &self.state {
            State::Refused(_) => &[],
            State::Running(running) => &running.skipped,
        }
    }

    /// Returns the position for [`DataLoader::resume`](super::DataLoader::resume): after the last
    /// batch that was handed out. After an error, this is before the failed batch.
    ///
    /// # Errors
    ///
    /// [`Error::LevelUnavailable`] for unordered epochs, which have no position, and
    /// [`Error::Other`] if the epoch could not start.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{DataLoader, LoaderState, Memory};
    ///
    /// let data = Memory::new((0..6).collect::<Vec<i64>>());
    /// let loader = DataLoader::builder(data).batch_size(2).shuffle(true).workers(1).build()?;
    /// let mut epoch = loader.epoch(0);
    /// epoch.next();
    /// let state: LoaderState = epoch.state()?;
    /// let rest: Vec<_> = epoch.collect::<Result<_, _>>()?;
    /// let resumed: Vec<_> = loader.resume(&state)?.collect::<Result<_, _>>()?;
    /// assert_eq!(resumed, rest);
    /// # Ok::<(), samebits_data::Error>(())
    /// ```
    pub fn state(&self) -> Result<LoaderState> {
        let State::Running(running) = &self.state else {
            return Err(Error::other("state: the epoch could not start, so it has no position"));
        };
        let task = running.run.task();
        if !task.config().ordered {
            return Err(Error::LevelUnavailable {
                op: "state of an unordered epoch",
                required: Determinism::RunToRun,
                best: Determinism::NotGuaranteed,
                instead: "leave `ordered` on",
            });
        }
        let standing = running.before_error.as_ref().map(|standing| (**standing).clone());
        let Standing { next, workers, skipped } = standing.unwrap_or_else(|| running.standing());
        let mut state = task.config().state(self.number)?;
        state.batch = next;
        state.position = task.plan().position(next);
        if workers.iter().any(Option::is_some) {
            state.workers = workers;
        }
        state.skipped = running.skipped[..skipped].to_vec();
        Ok(state)
    }

    /// Returns a report on the epoch so far.
    pub fn report(&self) -> LoadReport {
        let mut report = LoadReport {
            batches: 0,
            samples: self.samples,
            elapsed: self.began.elapsed(),
            waited: Duration::ZERO,
            busy: Vec::new(),
            peak_ready: 0,
        };
        if let State::Running(running) = &self.state {
            let (waited, counters) = running.run.counters();
            let task = running.run.task();
            report.batches = task.count(task.plan().first_batch(), running.next);
            report.waited = waited;
            report.busy = counters.busy;
            report.peak_ready = counters.peak_ready;
        }
        report
    }
}

impl<D: Dataset, C: Collate<D::Item>> Running<D, C> {
    fn next(&mut self) -> Option<Result<Batch<C::Batch>>> {
        while !self.ended {
            let standing = self.next;
            self.next = self.run.task().next_number(standing)?;
            let loaded = match self.run.take(self.next) {
                Ok(loaded) => loaded,
                Err(error) => return Some(self.end(error)),
            };
            if loaded.batch.is_err() && self.before_error.is_none() {
                self.before_error = Some(Box::new(self.standing()));
            }
            let retry = self.run.task().config().retry;
            if let Err(error) = retry.admit(&mut self.skipped, loaded.skipped) {
                return Some(self.end(error));
            }
            self.next += 1;
            if loaded.state.is_some() {
                self.workers[loaded.worker] = loaded.state;
            }
            let Some(batch) = loaded.batch.transpose() else { continue };
            if batch.is_ok() {
                self.before_error = None;
            }
            return Some(batch);
        }
        None
    }

    fn end<T>(&mut self, error: Error) -> Result<T> {
        self.ended = true;
        Err(error)
    }

    fn standing(&self) -> Standing {
        let (workers, skipped) = (self.workers.clone(), self.skipped.len());
        Standing { next: self.next, workers, skipped }
    }
}

impl<D: Dataset, C: Collate<D::Item>> Iterator for Epoch<D, C> {
    type Item = Result<Batch<C::Batch>>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match &mut self.state {
            State::Refused(error) => error.take().map(Err),
            State::Running(running) => running.next(),
        };
        if let Some(Ok(batch)) = &batch {
            self.samples += batch.indices.len() as u64;
        }
        batch
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let most = usize::try_from(self.remaining()).unwrap_or(usize::MAX);
        // An error may end the epoch early.
        (0, Some(most))
    }
}

impl<D: Dataset, C: Collate<D::Item>> Drop for Running<D, C> {
    fn drop(&mut self) {
        let Some(pool) = self.run.finish() else { return };
        if self.run.task().config().persistent {
            let mut home = self.home.lock();
            if home.is_none() {
                *home = Some(pool);
                return;
            }
        }
        pool.join();
    }
}

impl<D: Dataset, C: Collate<D::Item>> fmt::Debug for Epoch<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch")
            .field("number", &self.number)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
