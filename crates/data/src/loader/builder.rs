//! The settings of a loader.

use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use samebits_rng::Generator;

use super::plan::Batching;
use super::seeding::{Hooks, Seeding};
use super::{Config, DataLoader};
use crate::context::{SeedHook, SeedScope, WorkerContext};
use crate::{
    BatchSampler, BoxError, Collate, Dataset, Determinism, Error, PyTorch, Result, Retry, Sampler,
    Sequential, Shard, Shuffled, engine,
};

/// Builds a [`DataLoader`].
///
/// Defaults: batches of one sample, in the order of the indices, on the caller's thread, seed 0,
/// level [`Determinism::Portable`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct LoaderBuilder<D, C> {
    dataset: D,
    collate: C,
    batch_size: usize,
    drop_last: bool,
    order: Order,
    seeding: Seeding,
    hooks: Hooks,
    retry: Retry,
    shard: Option<Shard>,
    workers: usize,
    prefetch: usize,
    level: Determinism,
    ordered: bool,
    persistent: bool,
    timeout: Option<Duration>,
    grace: Duration,
}

enum Order {
    Samples(Arc<dyn Sampler>),
    Batches(Arc<dyn BatchSampler>),
}

impl<D: Dataset, C> LoaderBuilder<D, C> {
    pub(super) fn new(dataset: D, collate: C) -> Self {
        LoaderBuilder {
            dataset,
            collate,
            batch_size: 1,
            drop_last: false,
            order: Order::Samples(Arc::new(Sequential)),
            seeding: Seeding::Addressed(Generator::new(0)),
            hooks: Hooks::default(),
            retry: Retry::default(),
            shard: None,
            workers: 0,
            prefetch: 2,
            level: Determinism::Portable,
            ordered: true,
            persistent: false,
            timeout: None,
            grace: Duration::from_secs(5),
        }
    }

    /// Sets the number of samples per batch. Ignored with a [`batch_sampler`](Self::batch_sampler).
    pub fn batch_size(self, samples: usize) -> Self {
        LoaderBuilder { batch_size: samples, ..self }
    }

    /// If `true`, drops the last batch when it is not full. Ignored with a
    /// [`batch_sampler`](Self::batch_sampler).
    pub fn drop_last(self, drop_last: bool) -> Self {
        LoaderBuilder { drop_last, ..self }
    }

    /// Visits the samples in random order, new in each epoch (`true`), or in index order (`false`).
    /// The order takes 8 bytes per sample; [`sampler(Bijective)`](crate::Bijective) takes none.
    pub fn shuffle(self, shuffle: bool) -> Self {
        if shuffle { self.sampler(Shuffled) } else { self.sampler(Sequential) }
    }

    /// Visits the samples in the order of `sampler`.
    pub fn sampler(self, sampler: impl Sampler) -> Self {
        LoaderBuilder { order: Order::Samples(Arc::new(sampler)), ..self }
    }

    /// Uses the batches of `sampler`.
    pub fn batch_sampler(self, sampler: impl BatchSampler) -> Self {
        LoaderBuilder { order: Order::Batches(Arc::new(sampler)), ..self }
    }

    /// Seeds everything random in the loader; short for `generator(Generator::new(seed))`.
    pub fn seed(self, seed: u64) -> Self {
        self.generator(Generator::new(seed))
    }

    /// Derives everything random from `generator`: from its seed and its stream, not from its
    /// position.
    ///
    /// # Determinism
    ///
    /// Nothing is ever drawn from the generator itself, so creating or iterating a loader does not
    /// affect other users of it. Epoch *e* uses its children: `derive("order").fold_in(e)` orders
    /// the samples; `derive("sample").fold_in(e).fold_in(i).fold_in(r)` belongs to the visit of
    /// sample *i* with *r* earlier visits; the first 63 bits of
    /// `derive("worker").fold_in(e).fold_in(k)` are the base seed of the workers of rank *k*.
    pub fn generator(self, generator: Generator) -> Self {
        LoaderBuilder { seeding: Seeding::Addressed(generator), ..self }
    }

    /// Uses PyTorch's base seeds, worker seeds and orders. Ranks other than 0 get their own seeds,
    /// since PyTorch's are the same on all ranks.
    pub fn pytorch(self, torch: PyTorch) -> Self {
        LoaderBuilder { seeding: Seeding::PyTorch(torch), ..self.sampler(torch) }
    }

    /// Loads only one rank's part of every epoch.
    pub fn shard(self, shard: Shard) -> Self {
        LoaderBuilder { shard: Some(shard), ..self }
    }

    /// Sets the number of worker threads; with 0, batches are loaded on the caller's thread.
    pub fn workers(self, workers: usize) -> Self {
        LoaderBuilder { workers, ..self }
    }

    /// Sets how many batches each worker may be ahead of the consumer. At most workers × prefetch
    /// batches are being loaded or waiting at any time.
    pub fn prefetch(self, batches: usize) -> Self {
        LoaderBuilder { prefetch: batches, ..self }
    }

    /// Sets the level of determinism that the loader must keep.
    pub fn level(self, level: Determinism) -> Self {
        LoaderBuilder { level, ..self }
    }

    /// If `false`, hands batches out as they arrive. Needs [`Determinism::NotGuaranteed`].
    pub fn ordered(self, ordered: bool) -> Self {
        LoaderBuilder { ordered, ..self }
    }

    /// If `true`, keeps the worker threads between epochs. Workers are seeded and initialised anew
    /// in each epoch, so this affects only the start-up time.
    pub fn persistent_workers(self, persistent: bool) -> Self {
        LoaderBuilder { persistent, ..self }
    }

    /// Sets the response to a failing sample. By default there is none; the error takes the batch's
    /// place.
    pub fn retry(self, retry: Retry) -> Self {
        LoaderBuilder { retry, ..self }
    }

    /// Gives up waiting for a batch after `timeout`. Needs at least one worker.
    pub fn timeout(self, timeout: Duration) -> Self {
        LoaderBuilder { timeout: Some(timeout), ..self }
    }

    /// Sets how long dropping an unfinished epoch waits for workers in the middle of a sample; 5
    /// seconds by default. A slower worker ends by itself later.
    pub fn grace(self, grace: Duration) -> Self {
        LoaderBuilder { grace, ..self }
    }

    /// Calls `init` on each worker at the start of each epoch, after seeding.
    pub fn worker_init<F>(mut self, init: F) -> Self
    where
        F: Fn(&mut WorkerContext) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        self.hooks.init = Some(Arc::new(init));
        self
    }

    /// Seeds another library's generator together with the loader's.
    pub fn seed_hook(mut self, scope: SeedScope, hook: impl SeedHook) -> Self {
        self.hooks.add(scope, Arc::new(hook));
        self
    }

    /// Sets the collate function, which assembles the samples of a batch.
    pub fn collate<C2: Collate<D::Item>>(self, collate: C2) -> LoaderBuilder<D, C2> {
        let LoaderBuilder { dataset, collate: _, batch_size, drop_last, order, .. } = self;
        LoaderBuilder {
            dataset,
            collate,
            batch_size,
            drop_last,
            order,
            seeding: self.seeding,
            hooks: self.hooks,
            retry: self.retry,
            shard: self.shard,
            workers: self.workers,
            prefetch: self.prefetch,
            level: self.level,
            ordered: self.ordered,
            persistent: self.persistent,
            timeout: self.timeout,
            grace: self.grace,
        }
    }

    /// Builds the loader. No thread starts before the first epoch.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] and [`Error::LevelUnavailable`] for settings that contradict each
    /// other.
    pub fn build(self) -> Result<DataLoader<D, C>>
    where
        C: Collate<D::Item>,
    {
        let op = "loader";
        engine::check(op, self.batch_size, self.workers, self.prefetch, self.timeout)?;
        if !self.ordered && self.level > Determinism::NotGuaranteed {
            return Err(Error::LevelUnavailable {
                op: "loader: unordered delivery",
                required: self.level,
                best: Determinism::NotGuaranteed,
                instead: "leave `ordered` on",
            });
        }
        self.hooks.check(self.level)?;
        let batching = match self.order {
            Order::Samples(sampler) => {
                Batching::Even { sampler, size: self.batch_size, drop_last: self.drop_last }
            }
            Order::Batches(sampler) => Batching::Listed { sampler },
        };
        let config = Config {
            dataset: self.dataset,
            collate: self.collate,
            batching,
            seeding: self.seeding,
            hooks: self.hooks,
            retry: self.retry,
            identity: OnceLock::new(),
            shard: self.shard,
            workers: self.workers,
            prefetch: self.prefetch,
            level: self.level,
            ordered: self.ordered,
            persistent: self.persistent,
            timeout: self.timeout,
            grace: self.grace,
        };
        Ok(DataLoader {
            config: Arc::new(config),
            pool: Arc::new(Mutex::new(None)),
            live: Arc::new(AtomicUsize::new(0)),
        })
    }
}

impl<D, C> fmt::Debug for LoaderBuilder<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoaderBuilder")
            .field("batch_size", &self.batch_size)
            .field("drop_last", &self.drop_last)
            .field("seeding", &self.seeding)
            .field("shard", &self.shard)
            .field("workers", &self.workers)
            .field("prefetch", &self.prefetch)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}
