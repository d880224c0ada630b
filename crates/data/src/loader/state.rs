//! A loader's position, for checkpoints.

use std::collections::BTreeMap;

use samebits_rng::Generator;
use serde::{Deserialize, Serialize};

use super::{Config, Seeding};
use crate::guard::called;
use crate::{Error, Result, Skipped};

/// Position in an epoch: after the last batch that was handed out.
///
/// Batches that workers have prefetched do not count; they will be loaded again. A state can be
/// serialised with any serde format.
///
/// # Determinism
///
/// A state identifies the epoch (seed, sampler, dataset) and a position in it; it holds no random
/// draws. [`DataLoader::resume`](super::DataLoader::resume) continues with the same bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderState {
    /// The version of this format.
    pub version: u32,
    /// The epoch.
    pub epoch: u64,
    /// The number of batches that this rank received in the epoch.
    pub batch: u64,
    /// The number of positions of the global order that all ranks together have visited: samples,
    /// or batches with a batch sampler.
    pub position: u64,
    /// The dataset's length.
    pub dataset_len: usize,
    /// The dataset's description; see [`Dataset::describe`](crate::Dataset::describe).
    #[serde(default)]
    pub dataset: String,
    /// The sampler's description.
    pub sampler: String,
    /// The source of the seeds.
    pub seeding: Seeding,
    /// The loader's number of workers.
    pub worker_count: usize,
    /// State of each worker after its last batch that was handed out. Empty or `None` if only
    /// samples are random.
    #[serde(default)]
    pub workers: Vec<Option<WorkerState>>,
    /// The samples skipped in the epoch so far.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
}

/// A worker's own randomness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerState {
    /// The worker's generator.
    pub generator: Generator,
    /// The states of other libraries' generators, by hook name.
    pub hooks: BTreeMap<String, Vec<u8>>,
}

/// Format version. Version 1 had another order of samples and identified the dataset by its length
/// alone.
const VERSION: u32 = 2;

impl<D: crate::Dataset, C> Config<D, C> {
    /// Returns the dataset's length.
    pub(super) fn len(&self) -> Result<usize> {
        called("loader", "the dataset's length", || Ok(self.dataset.len()))
    }

    /// Returns the state at the start of an epoch.
    pub(super) fn state(&self, epoch: u64) -> Result<LoaderState> {
        let describe = || Ok(self.identity.get_or_init(|| self.dataset.describe()).clone());
        Ok(LoaderState {
            version: VERSION,
            epoch,
            batch: 0,
            position: 0,
            dataset_len: self.len()?,
            dataset: called("loader", "the dataset's description", describe)?,
            sampler: called("loader", "the sampler", || Ok(self.batching.describe()))?,
            seeding: self.seeding.clone(),
            worker_count: self.workers,
            workers: Vec::new(),
            skipped: Vec::new(),
        })
    }
}

impl LoaderState {
    /// Checks that this state belongs to a loader whose own state would be `own`.
    pub(super) fn check(&self, own: &LoaderState) -> Result<()> {
        same("version", own.version, self.version)?;
        same("seeding", format!("{:?}", own.seeding), format!("{:?}", self.seeding))?;
        same("sampler", &own.sampler, &self.sampler)?;
        same("dataset length", own.dataset_len, self.dataset_len)?;
        same("dataset", &own.dataset, &self.dataset)?;
        // Every batch visits at least one position.
        if self.batch > self.position {
            return Err(Error::StateMismatch {
                field: "batch",
                expected: format!("at most the position {}", self.position),
                found: self.batch.to_string(),
            });
        }
        Ok(())
    }
}

/// Checks that a field of a saved state equals this loader's own.
pub(crate) fn same<T: PartialEq + ToString>(field: &'static str, own: T, saved: T) -> Result<()> {
    if own == saved {
        return Ok(());
    }
    Err(Error::StateMismatch { field, expected: own.to_string(), found: saved.to_string() })
}
