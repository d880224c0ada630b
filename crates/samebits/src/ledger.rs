//! Ledgers: files that record the computations of a run, operation by operation.
//!
//! `samebits diff A B` compares two ledgers and names the first operation that had equal inputs and
//! unequal outputs. `docs/book/ledger.md` describes the files.
//!
//! | to record | use |
//! |---|---|
//! | a part of a program | [`scope`], or a [`Ledger`] with settings and its [`record`](Ledger::record) |
//! | a training run | [`Trainer::ledger`](crate::trainer::Trainer::ledger) |
//! | a process | the environment variable `SAMEBITS_LEDGER=PATH` |
//!
//! A ledger holds the operations of the threads that record to it, in order of completion; record a
//! single thread in ledgers that are to be compared. Operations repeated by re-run mode are
//! recorded once. No record is ever skipped: if one cannot be written, later operations fail.
//!
//! # Determinism
//!
//! Recording changes no bit of a run. Records are functions of the program, except for the header,
//! and for the order if several threads record.
//!
//! # Examples
//!
//! ```
//! use samebits::{Tensor, ledger};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("run.jsonl");
//! let sums = ledger::scope(&path, || {
//!     let x = Tensor::from_slice(&[1.0f32, 2.0], &[2])?;
//!     x.cumsum(0)
//! })??;
//! assert_eq!(sums.to_vec::<f32>()?, [1.0, 3.0]);
//! let lines = std::fs::read_to_string(&path).unwrap();
//! let names = ["header", "\"name\":\"cumsum\"", "end"];
//! assert!(lines.lines().zip(names).all(|(line, name)| line.contains(name)));
//! # Ok::<(), samebits::ledger::Error>(())
//! ```

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use samebits_recorder::{Recorder, Settings};
use samebits_tensor_core::Tensor as Value;

use crate::environment::{self, Environment};
use crate::nn::Module;
use crate::{Generator, Gradients, Tensor};

pub use samebits_ledger::record::{Detail, Digests};
pub use samebits_recorder::{Error, Keep, Result, digest};

/// Creates a ledger at `path`, records the operations of this thread in `f`, and finishes it.
///
/// # Errors
///
/// As for [`Ledger::create`] and [`Ledger::finish`].
pub fn scope<R>(path: impl AsRef<Path>, f: impl FnOnce() -> R) -> Result<R> {
    let ledger = Ledger::create(path)?;
    let result = ledger.record(f);
    ledger.finish()?;
    Ok(result)
}

/// Returns the ledger requested by `SAMEBITS_LEDGER`, if any.
pub fn of_process() -> Option<Ledger> {
    static LEDGER: OnceLock<Option<Ledger>> = OnceLock::new();
    install();
    LEDGER.get_or_init(|| samebits_recorder::of_process().map(Ledger::of)).clone()
}

/// Begins the ledger requested by the environment. If it cannot be written, operations return the
/// error.
pub(crate) fn install() {
    samebits_recorder::describe_with(described);
    samebits_recorder::begin();
}

/// Ledger that is being written. Clones write to the same file. When the last clone is dropped, all
/// records are in the file.
#[derive(Clone)]
pub struct Ledger {
    recorder: Arc<Recorder>,
    /// The parameters whose gradients a step records.
    watched: Arc<Mutex<Vec<(String, Tensor)>>>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ledger({})", self.recorder.path().display())
    }
}

impl Ledger {
    /// Creates a ledger of every operation, of a single rank.
    ///
    /// `path` is a file that ends in `.jsonl`, or a folder for the file `rank_000000.jsonl`. With
    /// the suffix `.zst`, the file, or each file of the folder, is compressed (feature `zstd`).
    ///
    /// # Errors
    ///
    /// If the file already exists or cannot be written.
    pub fn create(path: impl AsRef<Path>) -> Result<Ledger> {
        Ledger::options(path).create()
    }

    /// Starts the settings of a ledger.
    pub fn options(path: impl AsRef<Path>) -> Options {
        Options { settings: Settings::new(path.as_ref().to_owned()) }
    }

    fn of(recorder: Arc<Recorder>) -> Ledger {
        Ledger { recorder, watched: Arc::default() }
    }

    /// Runs `f` and records the operations and layers of this thread that the level of detail
    /// includes.
    pub fn record<R>(&self, f: impl FnOnce() -> R) -> R {
        samebits_recorder::record(&self.recorder, f)
    }

    /// Sets the step and batch of the following operations, both from 0.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the position is not after the last one: a ledger holds one run.
    pub fn at(&self, step: u64, microbatch: u64) -> Result<()> {
        self.recorder.at(step, microbatch)
    }

    /// Names the parameters and buffers of `model` in the following operations and layers.
    ///
    /// A layer's path is the one under which the model holds its tensors; a layer without tensors
    /// has the path of the surrounding layer, or its position in a
    /// [`Sequential`](crate::nn::Sequential). An operation and its gradient belong to the innermost
    /// layer; outside of layers, to the module of the first parameter that it reads.
    ///
    /// [`step`](Ledger::step) also names the parameters, because a step replaces them. Call this
    /// function before the first step, which records the gradients of the watched parameters.
    pub fn watch(&self, model: &(impl Module + ?Sized)) {
        let tensors = tensors(model);
        self.recorder.watch(values(&tensors));
        *self.watched.lock() = tensors;
    }

    /// Records a batch: its tensors, and the indices of its samples.
    ///
    /// # Errors
    ///
    /// As for [`step`](Ledger::step).
    pub fn batch(&self, tensors: &[&Tensor], indices: Option<&Tensor>) -> Result<()> {
        let tensors: Vec<&Value> = tensors.iter().map(|tensor| tensor.value()).collect();
        self.recorder.batch(&tensors, indices.map(Tensor::value))
    }

    /// Records the end of a step, after the optimiser has changed `model`, and moves on to the
    /// next: the loss, every tensor of the model, the gradients of the [watched](Ledger::watch)
    /// parameters, and the generator's position.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, the ledger is finished, or a device fails.
    pub fn step(
        &self,
        loss: Option<&Tensor>,
        model: &(impl Module + ?Sized),
        gradients: &Gradients,
        generator: Option<&Generator>,
    ) -> Result<()> {
        // The gradients belong to the parameters that the step has replaced.
        let of = |(name, tensor): &(String, Tensor)| {
            Some((name.clone(), gradients.of(tensor)?.value().clone()))
        };
        let gradients: Vec<_> = self.watched.lock().iter().filter_map(of).collect();
        let tensors = tensors(model);
        let parameters = values(&tensors);
        self.recorder.step(loss.map(Tensor::value), &parameters, &gradients, generator)?;
        self.recorder.watch(parameters);
        *self.watched.lock() = tensors;
        Ok(())
    }

    /// Writes all records to the file now. Without this call it happens shortly afterwards.
    ///
    /// # Errors
    ///
    /// As for [`step`](Ledger::step).
    pub fn flush(&self) -> Result<()> {
        self.recorder.flush()
    }

    /// Marks the ledger as complete. Afterwards nothing can be recorded.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or the ledger is already finished.
    pub fn finish(&self) -> Result<()> {
        self.recorder.finish()
    }
}

/// Returns the tensors of a model by name.
fn tensors(model: &(impl Module + ?Sized)) -> Vec<(String, Tensor)> {
    let mut tensors = Vec::new();
    model.visit("", &mut |name, _, tensor| tensors.push((name.to_owned(), tensor.clone())));
    tensors
}

fn values(tensors: &[(String, Tensor)]) -> Vec<(String, Value)> {
    tensors.iter().map(|(name, tensor)| (name.clone(), tensor.value().clone())).collect()
}

/// The settings of a [`Ledger`].
#[derive(Clone, Debug)]
pub struct Options {
    settings: Settings,
}

impl Options {
    /// Sets the rank and the number of ranks. Each rank writes its own file.
    #[must_use]
    pub fn rank(mut self, rank: u32, world_size: u32) -> Options {
        (self.settings.rank, self.settings.world_size) = (rank, world_size);
        self
    }

    /// Sets the level of detail: every operation, layers, or only steps.
    #[must_use]
    pub fn detail(mut self, detail: Detail) -> Options {
        self.settings.detail = detail;
        self
    }

    /// Sets the coverage of digests.
    #[must_use]
    pub fn digests(mut self, digests: Digests) -> Options {
        self.settings.digests = digests;
        self
    }

    /// Keeps every recorded tensor of some steps in full, in files beside the ledger, so that a
    /// comparison shows which elements differ and by how much.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Options {
        self.settings.keep = Some(keep);
        self
    }

    /// Records a seed. The seed of [`manual_seed`](crate::manual_seed) on this thread is recorded
    /// as `default`.
    #[must_use]
    pub fn seed(mut self, name: impl Into<String>, seed: u64) -> Options {
        self.settings.seeds.insert(name.into(), seed);
        self
    }

    /// Records the identity of the data: a name with a version, or a digest.
    #[must_use]
    pub fn data(mut self, identity: impl Into<String>) -> Options {
        self.settings.data = Some(identity.into());
        self
    }

    /// Creates the ledger.
    ///
    /// # Errors
    ///
    /// If the file already exists or cannot be written, or the rank is not below the number of
    /// ranks.
    pub fn create(self) -> Result<Ledger> {
        crate::install();
        Ok(Ledger::of(Arc::new(Recorder::create(self.settings)?)))
    }
}

/// Describes the part of the environment that the recorder does not know.
fn described() -> Vec<(String, String)> {
    let found = environment::current();
    let Environment { cuda, libraries, autotuner, .. } = found;
    let cuda = cuda.err().map(|why| ("cuda".to_owned(), format!("none: {why}")));
    let libraries = libraries.into_iter().map(|(library, found)| (library.to_owned(), found));
    let choices = [
        #[cfg(feature = "cuda")]
        ("cublas_workspace_config".to_owned(), found.cublas_workspace_config.to_string()),
        ("convolution_choices".to_owned(), autotuner),
    ];
    cuda.into_iter().chain(libraries).chain(choices).collect()
}
