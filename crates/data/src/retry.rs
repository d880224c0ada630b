//! Handling of failing samples.

use std::cell::Cell;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::context::WorkerContext;
use crate::guard::caught;
use crate::{Error, Result};

/// Policy for samples that fail or panic, and for unreadable records.
///
/// By default the error takes the place of its batch. The epoch's state then stays before that
/// batch, so that [`resume`](crate::DataLoader::resume) loads it again, until a later batch is
/// requested and handed out.
///
/// # Determinism
///
/// A retry draws the same random numbers as the first attempt: the sample's and the worker's
/// generators start again. Libraries seeded with [`SeedScope::Worker`](crate::SeedScope::Worker)
/// continue from where the failed attempt left them.
///
/// # Examples
///
/// ```
/// use samebits_data::{DataLoader, DatasetExt, Error, Memory, Retry};
///
/// let data = Memory::new(vec![1_i64, 2, 3]).map(|x, _| match x {
///     2 => Err(Error::other("damaged")),
///     x => Ok(x),
/// });
/// let loader = DataLoader::builder(data).batch_size(2).retry(Retry::times(1).skip(10)).build()?;
/// let mut epoch = loader.epoch(0);
/// let batches: Vec<_> = epoch.by_ref().map(|batch| batch.map(|b| b.data)).collect::<Result<_, _>>()?;
/// assert_eq!(batches, [vec![1], vec![3]]);
/// assert_eq!(
///     epoch.skipped()[0].to_string(),
///     "sample 1: loader: worker 0, batch 0, sample 1: damaged"
/// );
/// # Ok::<(), samebits_data::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    times: u32,
    pub(crate) most_skipped: u64,
}

impl Retry {
    /// Retries a failing sample up to `times` times.
    pub fn times(times: u32) -> Self {
        Retry { times, most_skipped: 0 }
    }

    /// Skips samples that still fail, up to `most` in an epoch; one more ends the epoch with
    /// [`Error::TooManySkipped`]. A batch shrinks by its skipped samples; an empty one is not
    /// handed out. `skipped` of the epoch and of its state list the skipped samples.
    #[must_use]
    pub fn skip(self, most: u64) -> Self {
        Retry { most_skipped: most, ..self }
    }

    /// Makes one sample of batch `batch`. `make` keeps `at` at the sample that it is making.
    pub(crate) fn run<T>(
        self,
        worker: &mut WorkerContext,
        batch: u64,
        at: &Cell<At>,
        mut make: impl FnMut(&mut WorkerContext) -> Result<T>,
    ) -> Result<T> {
        let generator = worker.generator.clone();
        let mut left = self.times;
        loop {
            let tried = caught(|| make(worker));
            let (id, At { shard, sample }) = (worker.info.id, at.get());
            let error = match tried {
                Ok(Ok(sample)) => return Ok(sample),
                Ok(Err(source)) => {
                    Error::Sample { worker: id, batch, shard, sample, source: Box::new(source) }
                }
                Err(message) => {
                    // The panic may have left it in an inconsistent state.
                    worker.local = None;
                    Error::Panic { worker: id, batch, shard, sample: Some(sample), message }
                }
            };
            if left == 0 || worker.cancelled() {
                return Err(error);
            }
            tracing::warn!(%error, "the sample is tried again");
            left -= 1;
            worker.generator = generator.clone();
        }
    }

    /// Adds `new` to the epoch's `skipped`, unless that exceeds the limit.
    pub(crate) fn admit(self, skipped: &mut Vec<Skipped>, new: Vec<Skipped>) -> Result<()> {
        let Some(last) = new.last() else { return Ok(()) };
        if (skipped.len() + new.len()) as u64 > self.most_skipped {
            let (most, last) = (self.most_skipped, last.to_string());
            return Err(Error::TooManySkipped { most, last });
        }
        for skip in &new {
            tracing::warn!("left out: {skip}");
        }
        skipped.extend(new);
        Ok(())
    }
}

/// The sample being made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// The shard of a stream.
    pub(crate) shard: Option<usize>,
    /// The index in the dataset, or the position in the shard.
    pub(crate) sample: usize,
}

/// A sample skipped by [`Retry::skip`], and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub enum Skipped {
    /// A sample of a map-style dataset.
    Sample {
        /// Its index in the dataset.
        index: usize,
        /// The error.
        reason: String,
    },
    /// A record of a stream.
    Record {
        /// Its shard.
        shard: usize,
        /// Its position there.
        place: u64,
        /// The error.
        reason: String,
    },
    /// The rest of a shard, which could not be opened at this position.
    Rest {
        /// The shard.
        shard: usize,
        /// The first position skipped.
        place: u64,
        /// The error.
        reason: String,
    },
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Skipped::Sample { index, reason } => write!(f, "sample {index}: {reason}"),
            Skipped::Record { shard, place, reason } => {
                write!(f, "shard {shard}, sample {place}: {reason}")
            }
            Skipped::Rest { shard, place, reason } => {
                write!(f, "shard {shard} from sample {place} on: {reason}")
            }
        }
    }
}
