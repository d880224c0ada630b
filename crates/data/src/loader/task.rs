//! What a worker does for one batch.

use std::sync::Arc;

use samebits_rng::Generator;

use super::plan::Plan;
use super::state::WorkerState;
use super::{Batch, Config};
use crate::context::{SampleContext, WorkerContext, sample_key};
use crate::engine::Task;
use crate::{Collate, Dataset, Error, Result};

/// One epoch of a loader; a slot is a batch.
pub(crate) struct Loading<D, C> {
    config: Arc<Config<D, C>>,
    plan: Plan,
    epoch: u64,
    key: Generator,
    /// What the workers were doing when the epoch was interrupted.
    saved: Vec<Option<WorkerState>>,
}

/// A batch and the state of the worker that has just finished it.
pub(crate) struct Loaded<B> {
    pub(super) batch: Batch<B>,
    pub(super) worker: usize,
    pub(super) state: Option<WorkerState>,
}

impl<D: Dataset, C: Collate<D::Item>> Loading<D, C> {
    pub(super) fn new(
        config: Arc<Config<D, C>>,
        plan: Plan,
        epoch: u64,
        saved: Vec<Option<WorkerState>>,
    ) -> Self {
        let key = sample_key(&config.seeding.generator(), epoch);
        Loading { config, plan, epoch, key, saved }
    }

    pub(super) fn config(&self) -> &Config<D, C> {
        &self.config
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn saved(&self) -> &[Option<WorkerState>] {
        &self.saved
    }

    fn load(&self, index: usize, repeat: u32, worker: &mut WorkerContext) -> Result<D::Item> {
        let mut cx = SampleContext::new(worker, &self.key, index, repeat);
        self.config.hooks.before_sample(&mut cx)?;
        self.config.dataset.get(index, &mut cx)
    }
}

impl<D: Dataset, C: Collate<D::Item>> Task for Loading<D, C> {
    type Output = Loaded<C::Batch>;
    type Local = ();

    fn owner(&self, slot: u64, workers: usize) -> usize {
        (slot % workers as u64) as usize
    }

    fn next_slot(&self, (): &(), worker: usize, workers: usize, from: u64) -> Option<u64> {
        let (worker, workers) = (worker as u64, workers as u64);
        let ahead = (worker + workers - from % workers) % workers;
        Some(from + ahead).filter(|&slot| slot < self.plan.end_batch())
    }

    fn start(&self, worker: &mut WorkerContext) -> Result<()> {
        let saved = self.saved.get(worker.info().id).and_then(Option::as_ref);
        self.config.hooks.start(worker, saved)
    }

    fn run(&self, slot: u64, (): &mut (), worker: &mut WorkerContext) -> Result<Loaded<C::Batch>> {
        let id = worker.info().id;
        let (indices, repeats) = self.plan.batch(slot);
        let mut samples = Vec::with_capacity(indices.len());
        for (place, &index) in indices.iter().enumerate() {
            if worker.cancelled() {
                return Err(Error::other("the consumer has gone"));
            }
            worker.at_sample(Some(index));
            let repeat = repeats.get(place).copied().unwrap_or(0);
            let sample = self.load(index, repeat, worker).map_err(|source| Error::Sample {
                worker: id,
                batch: slot,
                sample: index,
                source: Box::new(source),
            })?;
            samples.push(sample);
        }
        worker.at_sample(None);
        let data = self.config.collate.collate(samples).map_err(|source| Error::Collate {
            worker: id,
            batch: slot,
            source: Box::new(source),
        })?;
        let batch = Batch { number: slot, epoch: self.epoch, indices: indices.to_vec(), data };
        Ok(Loaded { batch, worker: id, state: self.config.hooks.save(worker) })
    }
}
