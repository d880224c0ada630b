//! Sharded datasets, whose shards can only be read from front to back.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use samebits_rng::Generator;
use serde::{Deserialize, Serialize};

use samebits_numerics::memory;

use crate::context::{SampleKeys, SeedHook, SeedScope, WorkerContext};
use crate::engine::{self, Pool, Settings};
use crate::guard::called;
use crate::loader::{Hooks, Seeding, WorkerState, same};
use crate::memory::allocated;
use crate::sampler::permutation;
use crate::{
    BoxError, Collate, Determinism, Error, Map, Result, Retry, SampleContext, Skipped, Stack,
};

mod epoch;
pub(crate) mod files;
pub(crate) mod lines;
mod task;
mod window;

pub use epoch::StreamEpoch;
pub use lines::Lines;

use task::Streaming;

/// A dataset in shards, each read from front to back: for example, files of records.
///
/// # Determinism
///
/// The records of [`open`](ShardedDataset::open) must depend on the shard alone; the result of
/// [`sample`](ShardedDataset::sample) must depend on the record and on [`SampleContext::rng`].
pub trait ShardedDataset: Send + Sync + 'static {
    /// A record as read.
    type Raw: Send + 'static;
    /// One sample.
    type Item: Send + 'static;

    /// Returns the number of shards.
    fn shards(&self) -> usize;

    /// Returns a description that identifies the dataset in a saved state.
    fn describe(&self) -> String {
        format!("{} shards", self.shards())
    }

    /// Opens a shard and skips its first `skip` records, or all if it is shorter. A reader that can
    /// seek should. After an unreadable record, the loader opens the shard again behind that
    /// record.
    ///
    /// # Errors
    /// Any failure to open the shard or to skip the records.
    fn open(&self, shard: usize, skip: u64) -> Result<Records<Self::Raw>>;

    /// Converts a record to a sample, for decoding and augmentation.
    ///
    /// # Errors
    ///
    /// Any failure while decoding. [`Retry`] sets the loader's response.
    fn sample(&self, raw: Self::Raw, cx: &mut SampleContext<'_>) -> Result<Self::Item>;
}

impl<D: ShardedDataset + ?Sized> ShardedDataset for Arc<D> {
    type Raw = D::Raw;
    type Item = D::Item;

    fn shards(&self) -> usize {
        (**self).shards()
    }

    fn describe(&self) -> String {
        (**self).describe()
    }

    fn open(&self, shard: usize, skip: u64) -> Result<Records<D::Raw>> {
        (**self).open(shard, skip)
    }

    fn sample(&self, raw: D::Raw, cx: &mut SampleContext<'_>) -> Result<D::Item> {
        (**self).sample(raw, cx)
    }
}

/// Combinators of sharded datasets.
pub trait ShardedDatasetExt: ShardedDataset + Sized {
    /// Applies `f` to every sample, for decoding and augmentation.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{Lines, ShardedDatasetExt};
    ///
    /// let lengths = Lines::new(vec!["a.txt".into()]).map(|line, _| Ok(line.len()));
    /// # let _ = lengths;
    /// ```
    fn map<U, F>(self, f: F) -> Map<Self, F>
    where
        U: Send + 'static,
        F: Fn(Self::Item, &mut SampleContext<'_>) -> Result<U> + Send + Sync + 'static,
    {
        Map::new(self, f)
    }
}

impl<D: ShardedDataset> ShardedDatasetExt for D {}

impl<D, U, F> ShardedDataset for Map<D, F>
where
    D: ShardedDataset,
    U: Send + 'static,
    F: Fn(D::Item, &mut SampleContext<'_>) -> Result<U> + Send + Sync + 'static,
{
    type Raw = D::Raw;
    type Item = U;

    fn shards(&self) -> usize {
        self.inner().shards()
    }

    fn describe(&self) -> String {
        format!("{}, mapped", self.inner().describe())
    }

    fn open(&self, shard: usize, skip: u64) -> Result<Records<D::Raw>> {
        self.inner().open(shard, skip)
    }

    fn sample(&self, raw: D::Raw, cx: &mut SampleContext<'_>) -> Result<U> {
        let item = self.inner().sample(raw, cx)?;
        self.apply(item, cx)
    }
}

/// Iterator over the records of a shard. The loader discards it after an error or a panic.
pub type Records<R> = Box<dyn Iterator<Item = Result<R>> + Send>;

/// One batch of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamBatch<B> {
    /// The batch's number in its epoch, counted from 0.
    pub number: u64,
    /// The epoch.
    pub epoch: u64,
    /// The origin of each sample: its shard and its position there.
    pub origins: Vec<(usize, u64)>,
    /// The collate function's result for the samples.
    pub data: B,
}

/// Loads batches of a [`ShardedDataset`].
///
/// # Determinism
///
/// *Lanes* fix the order, not workers. The shards, shuffled on request, are assigned to a fixed
/// number of lanes: shard *k* of the order goes to lane *k* mod *lanes*. A lane reads its shards
/// one after another and cuts the records into batches. The lanes take turns, one batch each; lanes
/// that have ended are skipped. Any number of workers may share the lanes, at most one worker per
/// lane, without changing the order. The number of lanes and the batch size do change the order, as
/// in any loader.
///
/// Sample *i* of shard *s* has a generator derived from (seed, epoch, *s*, *i*). A loader does not
/// know about other ranks: ranks that read different shards must also use different seeds, for
/// instance `generator(root.derive("rank").fold_in(rank))`.
///
/// # Examples
///
/// ```
/// use samebits_data::{Lines, StreamLoader};
///
/// let dir = tempfile::tempdir()?;
/// let (a, b) = (dir.path().join("a.txt"), dir.path().join("b.txt"));
/// std::fs::write(&a, "1\n2\n3\n")?;
/// std::fs::write(&b, "4\n")?;
/// let loader = StreamLoader::builder(Lines::new(vec![a, b])).batch_size(2).lanes(2).build()?;
/// let batches = loader.epoch(0).map(|batch| batch.map(|batch| batch.data));
/// let batches = batches.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(batches, [vec!["1", "2"], vec!["4"], vec!["3"]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StreamLoader<D: ShardedDataset, C: Collate<D::Item> = Stack> {
    config: Arc<Config<D, C>>,
    live: Arc<AtomicUsize>,
}

/// Settings of a stream loader.
pub(crate) struct Config<D, C> {
    dataset: D,
    /// The dataset's description.
    identity: String,
    collate: C,
    batch_size: usize,
    drop_last: bool,
    shuffle: bool,
    window: usize,
    lanes: usize,
    seeding: Seeding,
    hooks: Hooks,
    retry: Retry,
    workers: usize,
    prefetch: usize,
    level: Determinism,
    timeout: Option<Duration>,
    grace: Duration,
}

/// Builds a [`StreamLoader`].
///
/// Defaults: batches of one sample, shards in their order, 4 lanes, no workers, seed 0, level
/// [`Determinism::Portable`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct StreamLoaderBuilder<D, C> {
    config: Config<D, C>,
}

/// Position in an epoch of a stream: after the last batch that was handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamState {
    /// The version of this format.
    pub version: u32,
    /// The epoch.
    pub epoch: u64,
    /// The number of batches handed out.
    pub batch: u64,
    /// The next turn, counted over all lanes.
    pub turn: u64,
    /// The position of each lane.
    pub lanes: Vec<LaneState>,
    /// The dataset's description.
    pub dataset: String,
    /// True if the shards are shuffled.
    pub shuffle: bool,
    /// The number of records of a shard that are shuffled together; 1 keeps their order.
    #[serde(default = "unshuffled")]
    pub window: usize,
    /// The source of the seeds.
    pub seeding: Seeding,
    /// The loader's number of workers.
    pub worker_count: usize,
    /// The state of each worker after its last batch that was handed out.
    #[serde(default)]
    pub workers: Vec<Option<WorkerState>>,
    /// The records skipped in the epoch so far.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
}

/// Position of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneState {
    /// The number of its shards that the lane has finished.
    pub shards: u64,
    /// The number of records of the next shard that it has read.
    pub records: u64,
    /// True if the lane has ended.
    pub ended: bool,
}

/// Returns the window size of states saved before windows existed.
fn unshuffled() -> usize {
    1
}

const OP: &str = "stream loader";
/// Format version. Version 1 had other generators of shards and records.
const VERSION: u32 = 2;
/// Largest window. A larger one is a mistake: its records are in memory.
const MOST_IN_WINDOW: usize = 1 << 24;
/// Largest number of lanes. More are a mistake: each keeps a shard open.
const MOST_LANES: usize = 1 << 16;
/// Bound of the counters in saved states, so that counting on cannot overflow.
const MOST_COUNTED: u64 = 1 << 62;

impl<D: ShardedDataset> StreamLoader<D, Stack>
where
    Stack: Collate<D::Item>,
{
    /// Starts building a loader that stacks samples.
    pub fn builder(dataset: D) -> StreamLoaderBuilder<D, Stack> {
        StreamLoaderBuilder::new(dataset, Stack)
    }
}

impl<D: ShardedDataset, C: Collate<D::Item>> StreamLoader<D, C> {
    /// Starts building a loader with a collate function of your own.
    pub fn builder_with(dataset: D, collate: C) -> StreamLoaderBuilder<D, C> {
        StreamLoaderBuilder::new(dataset, collate)
    }

    /// Returns the dataset.
    pub fn dataset(&self) -> &D {
        &self.config.dataset
    }

    /// Returns the batches of `epoch`. If starting fails, the first item is the error.
    pub fn epoch(&self, epoch: u64) -> StreamEpoch<D, C> {
        let state = self.config.state(epoch);
        match self.begin(&state) {
            Ok(running) => running,
            Err(error) => StreamEpoch::refused(error, state),
        }
    }

    /// Continues from `state`, with any number of workers.
    ///
    /// # Errors
    ///
    /// [`Error::StateMismatch`] if the state was saved by a loader with another seed, dataset or
    /// number of lanes.
    pub fn resume(&self, state: &StreamState) -> Result<StreamEpoch<D, C>> {
        let own = self.config.state(state.epoch);
        same("version", own.version, state.version)?;
        same("seeding", format!("{:?}", own.seeding), format!("{:?}", state.seeding))?;
        same("dataset", &own.dataset, &state.dataset)?;
        same("shuffle", own.shuffle, state.shuffle)?;
        same("window", own.window, state.window)?;
        same("number of lanes", own.lanes.len(), state.lanes.len())?;
        let lanes = state.lanes.iter().map(|lane| ("records", lane.records));
        for (field, count) in
            [("batch", state.batch), ("turn", state.turn)].into_iter().chain(lanes)
        {
            if count > MOST_COUNTED {
                let expected = format!("at most {MOST_COUNTED}");
                return Err(Error::StateMismatch { field, expected, found: count.to_string() });
            }
        }
        let mut state = state.clone();
        if state.worker_count != self.config.workers && state.workers.iter().any(Option::is_some) {
            tracing::warn!(
                saved = state.worker_count,
                workers = self.config.workers,
                "resume: the number of workers has changed, so worker generators start afresh"
            );
            state.workers.clear();
        }
        self.begin(&state)
    }

    /// Returns the state at the start of `epoch`.
    pub fn start_of(&self, epoch: u64) -> StreamState {
        self.config.state(epoch)
    }

    /// Continues from `state` with the lanes `own` alone, as one of several ranks that share the
    /// lanes. Lanes take turns in rounds, and `state` must stand between two rounds; so does that of
    /// [`start_of`](StreamLoader::start_of). [`StreamEpoch::next_before`] ends a round.
    ///
    /// The lanes of other ranks are left out: in [`StreamEpoch::state`] they count as ended. The
    /// state of the whole stream has each lane's position from the rank that reads it.
    ///
    /// # Errors
    ///
    /// As [`resume`](StreamLoader::resume); [`Error::StateMismatch`] if `state` stands within a
    /// round; [`Error::InvalidOption`] if `own` names other lanes than the stream has, if the loader
    /// skips failing samples, or if it is below level `Portable` and `own` are not all lanes.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{Lines, StreamLoader};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let paths = ["a", "b", "c"].map(|name| {
    ///     let path = dir.path().join(name);
    ///     std::fs::write(&path, format!("{name}1\n{name}2\n")).map(|()| path)
    /// });
    /// let paths = paths.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let loader = StreamLoader::builder(Lines::new(paths)).lanes(3).build()?;
    /// // The second of two ranks.
    /// let mut epoch = loader.resume_lanes(&loader.start_of(0), 1..3)?;
    /// for round in 0..2 {
    ///     let mut batches = Vec::new();
    ///     while let Some(batch) = epoch.next_before((round + 1) * 3) {
    ///         batches.extend(batch?.data);
    ///     }
    ///     assert_eq!(batches, [format!("b{}", round + 1), format!("c{}", round + 1)]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resume_lanes(
        &self,
        state: &StreamState,
        own: Range<usize>,
    ) -> Result<StreamEpoch<D, C>> {
        let (config, lanes) = (&self.config, self.config.lanes);
        let cannot = |option, value: String, expected| {
            Err(Error::option("stream loader: dealing out lanes", option, value, expected))
        };
        if own.start > own.end || own.end > lanes {
            return cannot("lanes", format!("{own:?} of {lanes}"), "must be lanes of the stream");
        }
        if config.retry.most_skipped > 0 {
            let skipped = config.retry.most_skipped.to_string();
            return cannot("retry", skipped, "must not skip samples: other ranks would not know");
        }
        if own != (0..lanes) && config.level < Determinism::Portable {
            let level = format!("{:?}", config.level);
            let expected = "must be Portable: a worker's generator depends on ranks";
            return cannot("level", level, expected);
        }
        if !state.turn.is_multiple_of(lanes as u64) {
            let (expected, found) = (format!("a multiple of {lanes}"), state.turn.to_string());
            return Err(Error::StateMismatch { field: "turn", expected, found });
        }
        let mut state = state.clone();
        for (lane, position) in state.lanes.iter_mut().enumerate() {
            position.ended |= !own.contains(&lane);
        }
        self.resume(&state)
    }

    fn begin(&self, state: &StreamState) -> Result<StreamEpoch<D, C>> {
        let config = &self.config;
        let shards = called(OP, "the number of shards", || Ok(config.dataset.shards()))?;
        let order = match config.shuffle {
            true => permutation(OP, shards, &config.seeding.order_generator(state.epoch))?,
            false => allocated(OP, memory::collected(0..shards))?,
        };
        let settings = Settings {
            workers: config.workers,
            capacity: (config.workers * config.prefetch) as u64,
            ordered: true,
            level: config.level,
            timeout: config.timeout,
            grace: config.grace,
            epoch: state.epoch,
            base_seed: config.seeding.base_seed(state.epoch, shards, 0)?,
            first_slot: state.turn,
        };
        let pool = match config.workers {
            0 => None,
            workers => Some(Pool::start(workers, &self.live)?),
        };
        let task = Streaming::new(Arc::clone(config), order, state);
        Ok(StreamEpoch::start(task, settings, pool, state))
    }
}

impl<D: ShardedDataset, C> Config<D, C> {
    /// Returns the state at the start of an epoch.
    fn state(&self, epoch: u64) -> StreamState {
        StreamState {
            version: VERSION,
            epoch,
            batch: 0,
            turn: 0,
            lanes: vec![LaneState::default(); self.lanes],
            dataset: self.identity.clone(),
            shuffle: self.shuffle,
            window: self.window,
            seeding: self.seeding.clone(),
            worker_count: self.workers,
            workers: Vec::new(),
            skipped: Vec::new(),
        }
    }
}

impl<D: ShardedDataset, C: Collate<D::Item>> StreamLoaderBuilder<D, C> {
    fn new(dataset: D, collate: C) -> Self {
        StreamLoaderBuilder {
            config: Config {
                dataset,
                identity: String::new(),
                collate,
                batch_size: 1,
                drop_last: false,
                shuffle: false,
                window: 1,
                lanes: 4,
                seeding: Seeding::Addressed(Generator::new(0)),
                hooks: Hooks::default(),
                retry: Retry::default(),
                workers: 0,
                prefetch: 2,
                level: Determinism::Portable,
                timeout: None,
                grace: Duration::from_secs(5),
            },
        }
    }

    /// Sets the number of samples per batch.
    pub fn batch_size(mut self, samples: usize) -> Self {
        self.config.batch_size = samples;
        self
    }

    /// If `true`, drops the last batch of each lane when it is not full.
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.config.drop_last = drop_last;
        self
    }

    /// If `true`, reads the shards in random order, new in each epoch. The records of a shard stay
    /// in order, unless a [`window`](Self::window) shuffles them.
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.config.shuffle = shuffle;
        self
    }

    /// Shuffles the records of each shard in consecutive windows of `records`, at most 2^24. 1, the
    /// default, keeps their order. Each lane holds a window in memory.
    ///
    /// # Determinism
    ///
    /// In epoch *e*, window *w* of shard *s* is shuffled by the permutation drawn by
    /// `derive("record").derive("window").fold_in(e).fold_in(s).fold_in(w)`, independent of the
    /// lanes, the workers and the point of resumption. A stream resumed within a window reads that
    /// window again. WebDataset's and torchdata's shufflers swap each record into a buffer instead;
    /// a record may stay in the buffer for long, and resuming would need the whole buffer.
    pub fn window(mut self, records: usize) -> Self {
        self.config.window = records;
        self
    }

    /// Sets the number of shards read concurrently, at most 65536. More workers than lanes do not
    /// help.
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.config.lanes = lanes;
        self
    }

    /// Seeds everything random in the loader.
    pub fn seed(self, seed: u64) -> Self {
        self.generator(Generator::new(seed))
    }

    /// Derives everything random from children of `generator`.
    pub fn generator(mut self, generator: Generator) -> Self {
        self.config.seeding = Seeding::Addressed(generator);
        self
    }

    /// Sets the number of worker threads; with 0, batches are loaded on the caller's thread.
    pub fn workers(mut self, workers: usize) -> Self {
        self.config.workers = workers;
        self
    }

    /// Sets how many batches each worker may be ahead of the consumer.
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.config.prefetch = batches;
        self
    }

    /// Sets the level of determinism that the loader must keep.
    pub fn level(mut self, level: Determinism) -> Self {
        self.config.level = level;
        self
    }

    /// Sets the response to a failing sample or an unreadable record. By default there is none; the
    /// error takes the batch's place.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.config.retry = retry;
        self
    }

    /// Gives up waiting for a batch after `timeout`. Needs at least one worker.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.config.timeout = Some(timeout);
        self
    }

    /// Sets how long dropping an unfinished epoch waits for workers; 5 seconds by default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.config.grace = grace;
        self
    }

    /// Calls `init` on each worker at the start of each epoch, after seeding.
    pub fn worker_init<F>(mut self, init: F) -> Self
    where
        F: Fn(&mut WorkerContext) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        self.config.hooks.init = Some(Arc::new(init));
        self
    }

    /// Seeds another library's generator together with the loader's.
    pub fn seed_hook(mut self, scope: SeedScope, hook: impl SeedHook) -> Self {
        self.config.hooks.add(scope, Arc::new(hook));
        self
    }

    /// Builds the loader.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] and [`Error::LevelUnavailable`] for settings that contradict each
    /// other.
    pub fn build(self) -> Result<StreamLoader<D, C>> {
        let mut config = self.config;
        engine::check(OP, config.batch_size, config.workers, config.prefetch, config.timeout)?;
        if config.lanes == 0 || config.lanes > MOST_LANES {
            let expected = format!("must be from 1 to {MOST_LANES}");
            return Err(Error::option(OP, "number of lanes", config.lanes, expected));
        }
        if config.window == 0 || config.window > MOST_IN_WINDOW {
            let expected = format!("must be from 1 to {MOST_IN_WINDOW}");
            return Err(Error::option(OP, "window", config.window, expected));
        }
        config.identity =
            called(OP, "the dataset's description", || Ok(config.dataset.describe()))?;
        config.hooks.check(config.level)?;
        Ok(StreamLoader { config: Arc::new(config), live: Arc::default() })
    }
}

impl<D: ShardedDataset, C: Collate<D::Item>> fmt::Debug for StreamLoader<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.debug("StreamLoader", f)
    }
}

impl<D: ShardedDataset, C> fmt::Debug for StreamLoaderBuilder<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.debug("StreamLoaderBuilder", f)
    }
}

impl<D: ShardedDataset, C> Config<D, C> {
    fn debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("dataset", &self.identity)
            .field("batch_size", &self.batch_size)
            .field("window", &self.window)
            .field("lanes", &self.lanes)
            .field("seeding", &self.seeding)
            .field("workers", &self.workers)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }

    fn keys(&self, epoch: u64) -> SampleKeys {
        SampleKeys::of_records(&self.seeding.generator(), epoch)
    }
}
