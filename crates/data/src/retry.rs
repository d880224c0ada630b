//! What a loader does about samples that fail.

use std::cell::Cell;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::context::WorkerContext;
use crate::guard::caught;
use crate::{Error, Result};

/// What a loader does if a sample fails or panics, or a record cannot be read.
///
/// By default the error comes in the place of its batch. The state of the epoch then still stands
/// before that batch, so that [`resume`](crate::DataLoader::resume) loads it again, until a later
/// batch is asked for and handed out.
///
/// # Determinism
///
/// A further try draws what the first drew: the sample's generator starts again, and so does the
/// worker's. Libraries seeded with [`SeedScope::Worker`](crate::SeedScope::Worker) go on where the
/// failed try has left them.
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
    /// Tries a sample that fails up to `times` times more.
    pub fn times(times: u32) -> Self {
        Retry { times, most_skipped: 0 }
    }

    /// Leaves out what still fails, up to `most` times in an epoch; one more ends the epoch with
    /// [`Error::TooManySkipped`]. Its batch is that much smaller, and a batch of which nothing is
    /// left is passed over. `skipped` of the epoch and its state list what was left out.
    #[must_use]
    pub fn skip(self, most: u64) -> Self {
        Retry { most_skipped: most, ..self }
    }

    /// Makes one sample of batch `batch`. `make` keeps `at` pointing at what it is making.
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
                    // Nobody knows in what state the panic has left it.
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

    /// Adds `new` to what an epoch has `skipped`, if it is not too much.
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

/// Which sample is being made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// The shard of a stream.
    pub(crate) shard: Option<usize>,
    /// The index in the dataset, or the place in the shard.
    pub(crate) sample: usize,
}

/// What [`Retry::skip`] has left out, and why.
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
        /// Its place there.
        place: u64,
        /// The error.
        reason: String,
    },
    /// The rest of a shard, which could not be opened there.
    Rest {
        /// The shard.
        shard: usize,
        /// The first place that was left out.
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
