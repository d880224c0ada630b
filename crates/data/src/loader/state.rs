//! A loader's position, for checkpoints.

use std::collections::BTreeMap;

use samebits_rng::Generator;
use serde::{Deserialize, Serialize};

use super::{Config, Seeding};
use crate::{Error, Result};

/// Where an epoch stands: after the last batch that was handed out.
///
/// Batches that workers have loaded ahead do not count; they will be loaded again. Serialise it
/// with any serde format.
///
/// # Determinism
///
/// A state holds what identifies the epoch (seed, sampler, dataset length) and a position in
/// it, not what was drawn. [`DataLoader::resume`](super::DataLoader::resume) continues with the
/// same bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderState {
    /// The version of this format.
    pub version: u32,
    /// The epoch.
    pub epoch: u64,
    /// How many batches this rank was given in the epoch.
    pub batch: u64,
    /// How many places of the global order all ranks together have visited: samples, or batches
    /// with a batch sampler.
    pub position: u64,
    /// The dataset's length.
    pub dataset_len: usize,
    /// The sampler's description.
    pub sampler: String,
    /// Where seeds come from.
    pub seeding: Seeding,
    /// How many workers the loader had.
    pub worker_count: usize,
    /// What each worker was doing after its last batch that was handed out. Empty or none where
    /// only samples are random.
    #[serde(default)]
    pub workers: Vec<Option<WorkerState>>,
}

/// A worker's own randomness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerState {
    /// The worker's generator.
    pub generator: Generator,
    /// The states of other libraries' generators, by the names of their hooks.
    pub hooks: BTreeMap<String, Vec<u8>>,
}

const VERSION: u32 = 1;

impl<D: crate::Dataset, C> Config<D, C> {
    pub(super) fn state(
        &self,
        epoch: u64,
        batch: u64,
        position: u64,
        workers: Vec<Option<WorkerState>>,
    ) -> LoaderState {
        LoaderState {
            version: VERSION,
            epoch,
            batch,
            position,
            dataset_len: self.dataset.len(),
            sampler: self.batching.describe(),
            seeding: self.seeding.clone(),
            worker_count: self.workers,
            workers,
        }
    }
}

impl LoaderState {
    /// Sees whether this state belongs to a loader whose own state would be `own`.
    pub(super) fn check(&self, own: &LoaderState) -> Result<()> {
        let same = |field, own: String, saved: String| {
            if own == saved {
                return Ok(());
            }
            Err(Error::StateMismatch { field, expected: own, found: saved })
        };
        same("version", own.version.to_string(), self.version.to_string())?;
        same("seeding", format!("{:?}", own.seeding), format!("{:?}", self.seeding))?;
        same("sampler", own.sampler.clone(), self.sampler.clone())?;
        same("dataset length", own.dataset_len.to_string(), self.dataset_len.to_string())
    }
}
