//! Sources of randomness for a sample.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use samebits_rng::Generator;
use samebits_rng::numpy::SeedSequence;

use crate::{BoxError, Determinism, Error, Result};

/// A worker's identity and seeds.
///
/// Without workers, the loader loads on the caller's thread, which then counts as worker 0 of 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerInfo {
    /// This worker's number, counted from 0.
    pub id: usize,
    /// The loader's number of workers.
    pub workers: usize,
    /// This worker's seed in this epoch: the base seed plus `id`.
    pub seed: u64,
    /// The base seed of this epoch and this rank.
    pub base_seed: u64,
    /// The epoch.
    pub epoch: u64,
}

impl WorkerInfo {
    /// Returns the four words that PyTorch derives for NumPy's generator in this worker. The
    /// derivation keeps the states of neighbouring workers unrelated.
    ///
    /// # References
    ///
    /// `_generate_state` in PyTorch's `torch/utils/data/_utils/worker.py`, after NumPy's
    /// `SeedSequence`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use samebits_data::WorkerInfo;
    /// let base_seed = 6909045637428952499;
    /// let info = WorkerInfo { id: 1, workers: 2, seed: base_seed + 1, base_seed, epoch: 0 };
    /// assert_eq!(info.numpy_seed(), [3232472729, 3564977305, 1873334822, 126208319]);
    /// ```
    pub fn numpy_seed(&self) -> [u32; 4] {
        let base_seed = [self.base_seed as u32, (self.base_seed >> 32) as u32];
        SeedSequence::from_words(&[self.id as u32, base_seed[0], base_seed[1]]).state_u32()
    }
}

/// A generator of another library, seeded (and optionally saved) with the loader.
///
/// Implement it for a library whose generator is global or per thread. All methods run on the
/// worker's own thread.
pub trait SeedHook: Send + Sync + 'static {
    /// Returns the name used in errors and saved states. It must be unique in a loader.
    fn name(&self) -> &str;

    /// Seeds the library's generator.
    ///
    /// # Errors
    ///
    /// The library's own errors. The epoch ends with [`Error::WorkerInit`].
    fn seed(&self, seed: u64) -> Result<(), BoxError>;

    /// Returns the state of the library's generator, if available. Called after every batch at
    /// scope [`SeedScope::Worker`].
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// Restores a state that [`save`](SeedHook::save) returned.
    ///
    /// # Errors
    ///
    /// The default returns an error: a hook that saves must also restore.
    fn restore(&self, state: &[u8]) -> Result<(), BoxError> {
        let _ = state;
        Err(format!("the hook {:?} cannot restore a state", self.name()).into())
    }
}

/// Times at which a [`SeedHook`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedScope {
    /// Once per worker and epoch, with the worker's seed, as PyTorch does. The library's draws then
    /// depend on the number of workers, so this scope needs [`Determinism::RunToRun`] or lower.
    Worker,
    /// Before every sample, with a seed derived from (seed, epoch, sample index, visit). This keeps
    /// every level, at the cost of one call per sample.
    Sample,
}

/// Context in which a dataset loads one sample, with the sample's own generator.
///
/// # Determinism
///
/// [`rng`](SampleContext::rng) is a function of (loader seed, epoch, sample index) alone. A dataset
/// that draws all its randomness from it gives the same sample for any number of workers, any
/// prefetch depth and any resume point.
#[derive(Debug)]
pub struct SampleContext<'a> {
    index: usize,
    repeat: u32,
    rng: Generator,
    worker: &'a mut WorkerContext,
}

impl<'a> SampleContext<'a> {
    /// Creates the context of one sample. In a map-style dataset, `address` is the sample's index
    /// and the number of earlier visits to it in the epoch; in a stream, its shard and its position
    /// there.
    #[inline]
    pub(crate) fn new(
        worker: &'a mut WorkerContext,
        keys: &SampleKeys,
        address: (u64, u64),
        index: usize,
        repeat: u32,
    ) -> Self {
        SampleContext { index, repeat, rng: keys.sample(address), worker }
    }

    /// Creates the context of sample `index` in a loader seeded with `seed`, for trying a dataset
    /// without a loader.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{SampleContext, WorkerContext};
    ///
    /// let mut worker = WorkerContext::detached();
    /// let mut a = SampleContext::detached(&mut worker, 7, 0, 5);
    /// let first = a.rng().next_block();
    /// let mut worker = WorkerContext::detached();
    /// let mut b = SampleContext::detached(&mut worker, 7, 0, 5);
    /// assert_eq!(b.rng().next_block(), first);
    /// ```
    pub fn detached(worker: &'a mut WorkerContext, seed: u64, epoch: u64, index: usize) -> Self {
        worker.info.epoch = epoch;
        let keys = SampleKeys::of_samples(&Generator::new(seed), epoch);
        SampleContext::new(worker, &keys, (index as u64, 0), index, 0)
    }

    /// Returns the sample's index in the dataset given to the loader; in a sharded dataset, its
    /// position in its shard. Combinators pass the same context on, so an inner dataset sees the
    /// outer index here.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the number of earlier visits to this sample in this epoch. Always 0 unless the
    /// sampler repeats.
    #[inline]
    pub fn repeat(&self) -> u32 {
        self.repeat
    }

    /// Returns the epoch.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.worker.info.epoch
    }

    /// Returns this sample's own generator, for augmentations.
    #[inline]
    pub fn rng(&mut self) -> &mut Generator {
        &mut self.rng
    }

    /// Returns the worker that loads this sample.
    #[inline]
    pub fn worker(&mut self) -> &mut WorkerContext {
        self.worker
    }

    /// Returns true once the consumer has gone; a slow dataset may then give up.
    #[inline]
    pub fn cancelled(&self) -> bool {
        self.worker.cancelled()
    }
}

/// Context in which a dataset loads several samples at once; see
/// [`Dataset::get_many`](crate::Dataset::get_many).
#[derive(Debug)]
pub struct BatchContext<'a> {
    worker: &'a mut WorkerContext,
    keys: &'a SampleKeys,
    /// The index of each sample, and the number of earlier visits to it in the epoch.
    visits: &'a [(usize, u32)],
    /// The current state of each sample's generator; empty until first used.
    generators: Vec<Generator>,
}

impl<'a> BatchContext<'a> {
    pub(crate) fn new(
        worker: &'a mut WorkerContext,
        keys: &'a SampleKeys,
        visits: &'a [(usize, u32)],
    ) -> Self {
        BatchContext { worker, keys, visits, generators: Vec::new() }
    }

    /// Runs `f` with the context of the sample at position `place` of the batch. A later call for
    /// the same position continues with the sample's generator as `f` left it.
    ///
    /// # Panics
    /// Panics if the batch has no such position.
    pub fn sample<R>(&mut self, place: usize, f: impl FnOnce(&mut SampleContext<'_>) -> R) -> R {
        if self.generators.is_empty() {
            let rng = |&(index, repeat)| self.keys.sample((index as u64, u64::from(repeat)));
            self.generators = self.visits.iter().map(rng).collect();
        }
        let (index, repeat) = self.visits[place];
        self.worker.at_sample(Some(index));
        let rng = self.generators[place].clone();
        let mut cx = SampleContext { index, repeat, rng, worker: self.worker };
        let result = f(&mut cx);
        self.generators[place] = cx.rng;
        result
    }

    /// Returns the worker that loads the batch.
    pub fn worker(&mut self) -> &mut WorkerContext {
        self.worker
    }

    /// Returns true once the consumer has gone; a slow dataset may then give up.
    pub fn cancelled(&self) -> bool {
        self.worker.cancelled()
    }
}

/// Context of one worker: its seed, its generator, and the values it keeps.
pub struct WorkerContext {
    pub(crate) info: WorkerInfo,
    pub(crate) level: Determinism,
    pub(crate) generator: Generator,
    pub(crate) local: Option<Box<dyn std::any::Any + Send>>,
    /// Buffer for bytes on their way from a file to a sample.
    scratch: Vec<u8>,
    cancel: Arc<AtomicBool>,
    progress: Arc<Progress>,
}

impl WorkerContext {
    /// Creates a worker outside any loader, for trying a dataset by hand.
    pub fn detached() -> Self {
        let info = WorkerInfo { id: 0, workers: 0, seed: 0, base_seed: 0, epoch: 0 };
        let cancel = Arc::new(AtomicBool::new(false));
        WorkerContext::new(info, Determinism::RunToRun, cancel, Arc::new(Progress::default()))
    }

    pub(crate) fn new(
        info: WorkerInfo,
        level: Determinism,
        cancel: Arc<AtomicBool>,
        progress: Arc<Progress>,
    ) -> Self {
        let generator = Generator::new(info.seed);
        let (local, scratch) = (None, Vec::new());
        WorkerContext { info, level, generator, local, scratch, cancel, progress }
    }

    /// Starts an epoch as if the thread were new: new seed, new generator, no kept values.
    pub(crate) fn reseed(
        &mut self,
        info: WorkerInfo,
        level: Determinism,
        cancel: Arc<AtomicBool>,
        progress: Arc<Progress>,
    ) {
        self.generator = Generator::new(info.seed);
        self.local = None;
        self.info = info;
        self.level = level;
        self.cancel = cancel;
        self.progress = progress;
    }

    /// Returns the number, seed and epoch of this worker.
    #[inline]
    pub fn info(&self) -> &WorkerInfo {
        &self.info
    }

    /// Returns the worker's generator, seeded with the worker's seed at the start of each epoch.
    ///
    /// # Determinism
    ///
    /// The assignment of samples to workers depends on the number of workers, so draws from this
    /// generator do too. [`SampleContext::rng`] does not depend on it.
    ///
    /// # Errors
    ///
    /// [`Error::LevelUnavailable`] if the loader's level is [`Determinism::Portable`].
    pub fn generator(&mut self) -> Result<&mut Generator> {
        if self.level > Determinism::RunToRun {
            return Err(Error::LevelUnavailable {
                op: "worker generator",
                required: self.level,
                best: Determinism::RunToRun,
                instead: "draw from the sample's own generator, SampleContext::rng",
            });
        }
        Ok(&mut self.generator)
    }

    /// Returns the value that this worker keeps between the samples of an epoch, for example an
    /// open file or a scratch buffer. `T::default()` creates it at first use, or if the kept value
    /// has another type. It is dropped before the next epoch, so persistent workers carry nothing
    /// over.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::WorkerContext;
    ///
    /// let mut worker = WorkerContext::detached();
    /// worker.local::<Vec<u8>>().push(1);
    /// assert_eq!(worker.local::<Vec<u8>>().len(), 1);
    /// ```
    pub fn local<T: Default + Send + 'static>(&mut self) -> &mut T {
        if !self.local.as_ref().is_some_and(|local| local.is::<T>()) {
            self.local = None;
        }
        self.local
            .get_or_insert_with(|| Box::new(T::default()))
            .downcast_mut()
            .expect("the line above has made sure of the type")
    }

    /// Returns a buffer for the crate's own readers, so that a sample needs no allocation but its
    /// own. Its contents are never read before they are written.
    pub(crate) fn scratch(&mut self) -> &mut Vec<u8> {
        &mut self.scratch
    }

    /// Returns true once the consumer has gone.
    #[inline]
    pub fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn at_sample(&self, sample: Option<usize>) {
        self.progress.set(sample);
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }
}

impl fmt::Debug for WorkerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerContext")
            .field("info", &self.info)
            .field("level", &self.level)
            .field("generator", &self.generator)
            .finish_non_exhaustive()
    }
}

/// The sample that a worker is loading, for error messages.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The sample's index plus one, or zero between samples.
    sample: AtomicU64,
}

impl Progress {
    #[inline]
    pub(crate) fn set(&self, sample: Option<usize>) {
        self.sample.store(sample.map_or(0, |index| index as u64 + 1), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<usize> {
        self.sample.load(Ordering::Relaxed).checked_sub(1).map(|index| index as usize)
    }
}

/// Generators of an epoch; folding in two numbers gives a sample's generator. Datasets receive
/// leaves: nothing else in the loader shares a generator derived from a leaf.
#[derive(Debug)]
pub(crate) struct SampleKeys {
    /// Datasets' draws.
    draws: Generator,
    /// Seeds of other libraries.
    hooks: Generator,
    /// Collate functions' draws.
    batches: Generator,
    /// Shuffling of record windows.
    windows: Generator,
}

// The names are part of this crate's promised values: another name would give other epochs.
impl SampleKeys {
    /// Creates the keys of a map-style dataset.
    pub(crate) fn of_samples(generator: &Generator, epoch: u64) -> Self {
        SampleKeys::of(&generator.derive("sample"), epoch)
    }

    /// Creates the keys of a stream.
    pub(crate) fn of_records(generator: &Generator, epoch: u64) -> Self {
        SampleKeys::of(&generator.derive("record"), epoch)
    }

    fn of(family: &Generator, epoch: u64) -> Self {
        let named = |name| family.derive(name).fold_in(epoch);
        SampleKeys {
            draws: family.fold_in(epoch),
            hooks: named("hook"),
            batches: named("batch"),
            windows: named("window"),
        }
    }

    /// Returns the generator of the sample at `address`.
    #[inline]
    fn sample(&self, address: (u64, u64)) -> Generator {
        self.draws.fold_in(address.0).fold_in(address.1)
    }

    /// Returns the generator of the batch whose first sample is the one at `address`.
    pub(crate) fn batch(&self, address: (u64, u64)) -> Generator {
        self.batches.fold_in(address.0).fold_in(address.1)
    }

    /// Returns the generator that shuffles window `address.1` of shard `address.0`.
    pub(crate) fn window(&self, address: (u64, u64)) -> Generator {
        self.windows.fold_in(address.0).fold_in(address.1)
    }

    /// Returns the seed for libraries before the sample at `address`.
    pub(crate) fn hook_seed(&self, address: (u64, u64)) -> u64 {
        first_u64(&self.hooks.fold_in(address.0).fold_in(address.1))
    }
}

/// Returns the generator that orders the samples of an epoch.
pub(crate) fn order_key(generator: &Generator, epoch: u64) -> Generator {
    generator.derive("order").fold_in(epoch)
}

/// Returns the base seed of a rank's workers in an epoch: 63 bits, as in PyTorch, so that adding a
/// worker's number cannot overflow.
pub(crate) fn base_seed(generator: &Generator, epoch: u64, rank: usize) -> u64 {
    first_u64(&generator.derive("worker").fold_in(epoch).fold_in(rank as u64)) >> 1
}

/// Returns the first 64 bits of `generator`, low word first.
pub(crate) fn first_u64(generator: &Generator) -> u64 {
    let [low, high, ..] = generator.block_at(generator.offset());
    u64::from(low) | u64::from(high) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numpy_seeds_are_those_of_pytorch() {
        let base_seed = 6909045637428952499;
        let seed = |id| WorkerInfo { id, workers: 2, seed: 0, base_seed, epoch: 0 }.numpy_seed();
        assert_eq!(seed(0), [1635152616, 742584865, 3822113244, 3272642742]);
        assert_eq!(seed(1), [3232472729, 3564977305, 1873334822, 126208319]);
    }

    #[test]
    fn the_worker_generator_is_refused_at_portable() {
        let mut worker = WorkerContext::detached();
        assert!(worker.generator().is_ok());
        worker.level = Determinism::Portable;
        let error = worker.generator().unwrap_err();
        assert!(matches!(error, Error::LevelUnavailable { .. }), "{error}");
    }

    #[test]
    fn what_a_worker_keeps_is_replaced_when_its_type_changes() {
        let mut worker = WorkerContext::detached();
        *worker.local::<u32>() = 5;
        assert_eq!(*worker.local::<u32>(), 5);
        assert_eq!(*worker.local::<i64>(), 0);
        assert_eq!(*worker.local::<u32>(), 0);
    }
}
