//! A worker's task: loading one batch.

use std::cell::Cell;
use std::sync::Arc;

use samebits_numerics::memory;
use samebits_rng::Generator;

use super::deal::Numbers;
use super::plan::Plan;
use super::state::WorkerState;
use super::{Batch, Config};
use crate::context::{BatchContext, SampleContext, SampleKeys, WorkerContext};
use crate::engine::Task;
use crate::guard::caught;
use crate::memory::allocated;
use crate::retry::At;
use crate::{Collate, Dataset, Error, Result, Skipped};

/// One epoch of a loader; a slot is a batch.
pub(crate) struct Loading<D, C> {
    config: Arc<Config<D, C>>,
    plan: Plan,
    numbers: Numbers,
    epoch: u64,
    keys: SampleKeys,
    /// The states of the workers when the epoch was interrupted.
    saved: Vec<Option<WorkerState>>,
}

/// A loaded batch, and the worker's state after it.
pub(crate) struct Loaded<B> {
    /// None if all its samples were skipped.
    pub(super) batch: Result<Option<Batch<B>>>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) worker: usize,
    pub(super) state: Option<WorkerState>,
}

impl<D: Dataset, C: Collate<D::Item>> Loading<D, C> {
    pub(super) fn new(
        config: Arc<Config<D, C>>,
        plan: Plan,
        numbers: Numbers,
        epoch: u64,
        saved: Vec<Option<WorkerState>>,
    ) -> Self {
        let keys = SampleKeys::of_samples(&config.seeding.generator(), epoch);
        Loading { config, plan, numbers, epoch, keys, saved }
    }

    pub(super) fn config(&self) -> &Config<D, C> {
        &self.config
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the first batch from `from` on that this rank loads.
    pub(super) fn next_number(&self, from: u64) -> Option<u64> {
        self.numbers.next(from).filter(|&number| number < self.plan.end_batch())
    }

    /// Returns the number of batches from `from` up to `to` that this rank loads.
    pub(super) fn count(&self, from: u64, to: u64) -> u64 {
        self.numbers.place(to) - self.numbers.place(from)
    }

    pub(super) fn saved(&self) -> &[Option<WorkerState>] {
        &self.saved
    }

    fn load(&self, index: usize, repeat: u32, worker: &mut WorkerContext) -> Result<D::Item> {
        let address = (index as u64, u64::from(repeat));
        self.config.hooks.before_sample(&self.keys, address)?;
        let mut cx = SampleContext::new(worker, &self.keys, address, index, repeat);
        self.config.dataset.get(index, &mut cx)
    }

    /// Loads all samples of a batch in one call, if the dataset can and none fails. Libraries that
    /// are seeded per sample need the samples one after another.
    fn load_many(
        &self,
        indices: &[usize],
        visits: &[(usize, u32)],
        worker: &mut WorkerContext,
    ) -> Option<Vec<D::Item>> {
        if self.config.hooks.seed_samples() {
            return None;
        }
        worker.at_sample(indices.first().copied());
        let generator = worker.generator.clone();
        let mut cx = BatchContext::new(worker, &self.keys, visits);
        let loaded = caught(|| self.config.dataset.get_many(indices, &mut cx));
        if loaded.is_err() {
            // The panic may have left it in an inconsistent state.
            worker.local = None;
        }
        let samples = loaded.ok().flatten().filter(|samples| samples.len() == indices.len());
        if samples.is_none() {
            worker.generator = generator;
        }
        samples
    }

    fn batch(
        &self,
        slot: u64,
        worker: &mut WorkerContext,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Option<Batch<C::Batch>>> {
        let planned = self.plan.batch(slot);
        let mut visits = allocated("loader", memory::with_capacity(planned.len()))?;
        for place in planned {
            visits.push(self.plan.visit(place)?);
        }
        let retry = self.config.retry;
        let mut indices =
            allocated("loader", memory::collected(visits.iter().map(|visit| visit.0)))?;
        let samples = match self.load_many(&indices, &visits, worker) {
            Some(samples) => samples,
            None => {
                indices.clear();
                let mut samples = allocated("loader", memory::with_capacity(visits.len()))?;
                for &(index, repeat) in &visits {
                    if worker.cancelled() {
                        return Err(Error::other("the consumer has gone"));
                    }
                    worker.at_sample(Some(index));
                    let at = Cell::new(At { shard: None, sample: index });
                    match retry.run(worker, slot, &at, |worker| self.load(index, repeat, worker)) {
                        Ok(sample) => {
                            indices.push(index);
                            samples.push(sample);
                        }
                        Err(error) if retry.most_skipped == 0 => return Err(error),
                        Err(error) => {
                            skipped.push(Skipped::Sample { index, reason: error.to_string() });
                        }
                    }
                }
                samples
            }
        };
        worker.at_sample(None);
        if samples.is_empty() && !skipped.is_empty() {
            return Ok(None);
        }
        let (index, repeat) = visits.first().copied().unwrap_or_default();
        let generator = self.keys.batch((index as u64, u64::from(repeat)));
        let data = collate(&self.config.collate, slot, worker, samples, generator)?;
        Ok(Some(Batch { number: slot, epoch: self.epoch, indices, data }))
    }
}

impl<D: Dataset, C: Collate<D::Item>> Task for Loading<D, C> {
    type Output = Loaded<C::Batch>;
    type Local = ();

    fn owner(&self, slot: u64, workers: usize) -> usize {
        (self.numbers.place(slot) % workers as u64) as usize
    }

    fn next_slot(&self, (): &(), worker: usize, workers: usize, from: u64) -> Option<u64> {
        let (worker, workers) = (worker as u64, workers as u64);
        let place = self.numbers.place(from);
        let ahead = (worker + workers - place % workers) % workers;
        self.numbers.at(place + ahead).filter(|&slot| slot < self.plan.end_batch())
    }

    fn start(&self, worker: &mut WorkerContext) -> Result<()> {
        let saved = self.saved.get(worker.info().id).and_then(Option::as_ref);
        self.config.hooks.start(worker, saved)
    }

    fn run(&self, slot: u64, (): &mut (), worker: &mut WorkerContext) -> Result<Loaded<C::Batch>> {
        let mut skipped = Vec::new();
        let batch = self.batch(slot, worker, &mut skipped);
        let state = self.config.hooks.save(worker);
        Ok(Loaded { batch, skipped, worker: worker.info().id, state })
    }
}

/// Collates the samples of batch `batch`.
pub(crate) fn collate<S, C: Collate<S>>(
    collate: &C,
    batch: u64,
    worker: &WorkerContext,
    samples: Vec<S>,
    mut generator: Generator,
) -> Result<C::Batch> {
    let worker = worker.info().id;
    match caught(|| collate.collate(samples, &mut generator)) {
        Ok(Ok(data)) => Ok(data),
        Ok(Err(source)) => Err(Error::Collate { worker, batch, source: Box::new(source) }),
        Err(message) => Err(Error::Panic { worker, batch, shard: None, sample: None, message }),
    }
}
