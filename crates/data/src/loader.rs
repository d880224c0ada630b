//! The loader of map-style datasets.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::context::{SampleContext, SampleKeys, WorkerContext};
use crate::engine::{Home, Pool, Settings};
use crate::guard::called;
use crate::{Collate, Dataset, Determinism, Error, Result, Retry, Shard, Skipped, Stack};

mod builder;
mod deal;
mod epoch;
mod plan;
mod seeding;
mod state;
mod task;

pub use builder::LoaderBuilder;
pub use deal::Deal;
pub use epoch::{Batch, Epoch, LoadReport};
pub use seeding::Seeding;
pub use state::{LoaderState, WorkerState};

use deal::Numbers;
use plan::{Batching, Plan};
pub(crate) use seeding::Hooks;
pub(crate) use state::same;
use task::Loading;
pub(crate) use task::collate;

/// Loads batches of a dataset, epoch after epoch, perhaps on worker threads.
///
/// # Determinism
///
/// At [`Determinism::Portable`], the default, batch *k* of epoch *e* is a function of the dataset,
/// the sampler, the batch size, the seed, *e* and *k*. The number of workers, the prefetch depth,
/// persistent workers, timing and the point of resumption cannot change it:
///
/// * the order of an epoch is computed from (seed, epoch) before anything is loaded;
/// * each sample has its own generator, derived from (seed, epoch, sample index);
/// * batches are handed out in order, through a window of at most workers × prefetch batches.
///
/// At [`Determinism::RunToRun`] datasets may also draw on their worker's generator. Batch *k*
/// is always loaded by worker *k* mod *workers*, so runs with the same number of workers agree.
///
/// # Examples
///
/// ```
/// use samebits_data::{DataLoader, DatasetExt, Memory};
///
/// let data = Memory::new((0..10).map(|i| (vec![i as f32], i)).collect::<Vec<(Vec<f32>, i64)>>());
/// let loader = DataLoader::builder(data).batch_size(4).shuffle(true).workers(2).seed(0).build()?;
/// for epoch in 0..2 {
///     for batch in loader.epoch(epoch) {
///         let batch = batch?;
///         let (pixels, classes) = &batch.data;
///         assert_eq!(pixels.rows, classes.len());
///     }
/// }
/// # Ok::<(), samebits_data::Error>(())
/// ```
pub struct DataLoader<D: Dataset, C: Collate<D::Item> = Stack> {
    config: Arc<Config<D, C>>,
    /// Idle persistent workers.
    pool: Home<Loading<D, C>>,
    live: Arc<AtomicUsize>,
}

/// Settings of a loader, shared by the loader and its epochs.
pub(crate) struct Config<D, C> {
    dataset: D,
    collate: C,
    batching: Batching,
    seeding: Seeding,
    hooks: Hooks,
    retry: Retry,
    /// The dataset's description, computed at first use.
    identity: OnceLock<String>,
    shard: Option<Shard>,
    workers: usize,
    prefetch: usize,
    level: Determinism,
    ordered: bool,
    persistent: bool,
    timeout: Option<Duration>,
    grace: Duration,
}

impl<D: Dataset> DataLoader<D, Stack>
where
    Stack: Collate<D::Item>,
{
    /// Starts building a loader that stacks samples. Set another collate function with
    /// [`LoaderBuilder::collate`].
    pub fn builder(dataset: D) -> LoaderBuilder<D, Stack> {
        LoaderBuilder::new(dataset, Stack)
    }
}

impl<D: Dataset, C: Collate<D::Item>> DataLoader<D, C> {
    /// Starts building a loader with a collate function of your own, for samples that
    /// [`Stack`] cannot stack.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{DataLoader, Keep, Memory};
    ///
    /// #[derive(Clone)]
    /// struct Word(String);
    /// let words = Memory::new(vec![Word("same".into()), Word("bits".into())]);
    /// let loader = DataLoader::builder_with(words, Keep).batch_size(2).build()?;
    /// let batch = loader.epoch(0).next().unwrap()?;
    /// assert_eq!(batch.data[1].0, "bits");
    /// # Ok::<(), samebits_data::Error>(())
    /// ```
    pub fn builder_with(dataset: D, collate: C) -> LoaderBuilder<D, C> {
        LoaderBuilder::new(dataset, collate)
    }

    /// Returns the dataset.
    pub fn dataset(&self) -> &D {
        &self.config.dataset
    }

    /// Returns the batches of `epoch`. Epochs can be requested in any order, and repeatedly.
    ///
    /// Worker threads start here. If starting fails, the first item is the error.
    pub fn epoch(&self, epoch: u64) -> Epoch<D, C> {
        match self.begin(epoch, 0, 0, Vec::new(), Vec::new(), None) {
            Ok(running) => running,
            Err(error) => Epoch::refused(epoch, error),
        }
    }

    /// Returns this rank's batches of `epoch`; see [`Deal`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the deal is invalid, or if the loader cannot be dealt out: it
    /// has a shard, it is unordered, it is below [`Determinism::Portable`], or it skips failing
    /// samples.
    pub fn epoch_dealt(&self, epoch: u64, deal: &Deal) -> Result<Epoch<D, C>> {
        deal.check(&self.config)?;
        self.begin(epoch, 0, 0, Vec::new(), Vec::new(), Some(deal.clone()))
    }

    /// Resumes as [`resume`](DataLoader::resume), with this rank's batches only, counted from the
    /// position of `state`; see [`Deal`]. The state may come from any number of ranks.
    ///
    /// # Errors
    ///
    /// As [`resume`](DataLoader::resume) and [`epoch_dealt`](DataLoader::epoch_dealt).
    pub fn resume_dealt(&self, state: &LoaderState, deal: &Deal) -> Result<Epoch<D, C>> {
        deal.check(&self.config)?;
        state.check(&self.config.state(state.epoch)?)?;
        let skipped = state.skipped.clone();
        self.begin(
            state.epoch,
            state.batch,
            state.position,
            Vec::new(),
            skipped,
            Some(deal.clone()),
        )
    }

    /// Continues after the last batch that was handed out before `state` was saved.
    ///
    /// The number of workers, the prefetch depth, the batch size and the number of ranks may differ
    /// from the earlier run. Worker generators (level [`Determinism::RunToRun`] and below) and
    /// hooks that save their state continue only with the same number of workers. Otherwise the
    /// loader seeds them as at the start of an epoch and logs a warning.
    ///
    /// # Errors
    ///
    /// [`Error::StateMismatch`] if the state was saved by a loader with another seed, sampler or
    /// dataset, or by a release with another order of samples.
    pub fn resume(&self, state: &LoaderState) -> Result<Epoch<D, C>> {
        state.check(&self.config.state(state.epoch)?)?;
        let mut workers = state.workers.clone();
        if state.worker_count != self.config.workers && workers.iter().any(Option::is_some) {
            tracing::warn!(
                saved = state.worker_count,
                workers = self.config.workers,
                "resume: the number of workers has changed, so worker generators start afresh"
            );
            workers.clear();
        }
        self.begin(state.epoch, state.batch, state.position, workers, state.skipped.clone(), None)
    }

    /// Returns the number of batches in `epoch`. This call computes the order of the epoch.
    ///
    /// # Errors
    ///
    /// The sampler's errors.
    pub fn batches_in(&self, epoch: u64) -> Result<u64> {
        Ok(self.plan(epoch, 0, 0)?.batches())
    }

    /// Returns the state at the start of an epoch, before any batch is handed out.
    ///
    /// # Errors
    ///
    /// If the dataset or the sampler panics in `describe`.
    pub fn start_of(&self, epoch: u64) -> Result<LoaderState> {
        self.config.state(epoch)
    }

    /// Loads one sample on this thread as `epoch` would load it, for inspection.
    ///
    /// # Errors
    ///
    /// The dataset's errors, and [`Error::IndexOutOfRange`].
    pub fn sample(&self, epoch: u64, index: usize) -> Result<D::Item> {
        let config = &self.config;
        let len = config.len()?;
        if index >= len {
            return Err(Error::IndexOutOfRange { op: "loader", index, len });
        }
        let mut worker = WorkerContext::detached();
        worker.info.epoch = epoch;
        worker.level = config.level;
        let keys = SampleKeys::of_samples(&config.seeding.generator(), epoch);
        called("loader", "loading a single sample", || {
            let address = (index as u64, 0);
            config.hooks.before_sample(&keys, address)?;
            config
                .dataset
                .get(index, &mut SampleContext::new(&mut worker, &keys, address, index, 0))
        })
    }

    /// Returns the number of worker threads alive at this moment, for diagnosis.
    pub fn live_workers(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }

    fn plan(&self, epoch: u64, batch: u64, position: u64) -> Result<Plan> {
        let config = &self.config;
        let order = config.seeding.order_generator(epoch);
        let len = config.len()?;
        called("loader", "the sampler", || {
            config.batching.plan(len, epoch, &order, config.shard, batch, position)
        })
    }

    fn begin(
        &self,
        epoch: u64,
        batch: u64,
        position: u64,
        workers: Vec<Option<WorkerState>>,
        skipped: Vec<Skipped>,
        deal: Option<Deal>,
    ) -> Result<Epoch<D, C>> {
        let config = &self.config;
        let plan = self.plan(epoch, batch, position)?;
        let numbers = Numbers::new(batch, deal);
        let settings = Settings {
            workers: config.workers,
            capacity: numbers.spread((config.workers * config.prefetch) as u64),
            ordered: config.ordered,
            level: config.level,
            timeout: config.timeout,
            grace: config.grace,
            epoch,
            base_seed: config.seeding.base_seed(
                epoch,
                config.len()?,
                config.shard.map_or(0, |shard| shard.rank),
            )?,
            first_slot: batch,
        };
        let idle = if config.workers == 0 {
            None
        } else {
            let kept = self.pool.lock().take();
            Some(match kept {
                Some(pool) => pool,
                None => Pool::start(config.workers, &self.live)?,
            })
        };
        let task = Loading::new(Arc::clone(config), plan, numbers, epoch, workers);
        Ok(Epoch::start(task, settings, idle, Arc::clone(&self.pool), skipped))
    }
}

impl<D: Dataset, C: Collate<D::Item>> Drop for DataLoader<D, C> {
    fn drop(&mut self) {
        // Idle workers end at once; epochs that are still running keep their own.
        if let Some(pool) = self.pool.lock().take() {
            pool.join();
        }
    }
}

impl<D: Dataset, C: Collate<D::Item>> fmt::Debug for DataLoader<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.config;
        f.debug_struct("DataLoader")
            .field("len", &config.dataset.len())
            .field("batching", &config.batching)
            .field("seeding", &config.seeding)
            .field("shard", &config.shard)
            .field("workers", &config.workers)
            .field("prefetch", &config.prefetch)
            .field("level", &config.level)
            .finish_non_exhaustive()
    }
}
