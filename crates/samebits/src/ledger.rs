//! Ledgers: what a run computed, operation by operation, in a file.
//!
//! `samebits diff A B` compares two ledgers and names the first operation that had equal inputs and
//! unequal outputs. `docs/ledger.md` describes the files.
//!
//! | to record | use |
//! |---|---|
//! | a part of a program | [`scope`], or a [`Ledger`] with settings and its [`record`](Ledger::record) |
//! | a training | [`Trainer::ledger`](crate::trainer::Trainer::ledger) |
//! | a process | the environment variable `SAMEBITS_LEDGER=PATH` |
//!
//! A ledger holds the operations of the threads that record to it, in the order in which they
//! finish; ledgers that are to be compared record one thread. Operations that re-run mode repeats
//! are recorded once. A record is never left out: if one cannot be written, the operations after it
//! fail.
//!
//! # Determinism
//!
//! Recording changes no bit of a run. Records are functions of the program, but for the header,
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
/// As [`Ledger::create`] and [`Ledger::finish`].
pub fn scope<R>(path: impl AsRef<Path>, f: impl FnOnce() -> R) -> Result<R> {
    let ledger = Ledger::create(path)?;
    let result = ledger.record(f);
    ledger.finish()?;
    Ok(result)
}

/// The ledger that `SAMEBITS_LEDGER` asked for, if it did.
pub fn of_process() -> Option<Ledger> {
    static LEDGER: OnceLock<Option<Ledger>> = OnceLock::new();
    install();
    LEDGER.get_or_init(|| samebits_recorder::of_process().map(Ledger::of)).clone()
}

/// Begins the ledger that the environment asks for. If it cannot be written, operations say so.
pub(crate) fn install() {
    samebits_recorder::describe_with(described);
    samebits_recorder::begin();
}

/// A ledger that is being written. Clones write to the same file. When the last of them is dropped,
/// what was recorded is in the file.
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
    /// A ledger of every operation, of a single rank.
    ///
    /// `path` is a file that ends in `.jsonl`, or a folder for the file `rank_000000.jsonl`. With
    /// `.zst` behind it the file, or each file of the folder, is compressed (feature `zstd`).
    ///
    /// # Errors
    ///
    /// The file exists already or cannot be written.
    pub fn create(path: impl AsRef<Path>) -> Result<Ledger> {
        Ledger::options(path).create()
    }

    /// A ledger with settings.
    pub fn options(path: impl AsRef<Path>) -> Options {
        Options { settings: Settings::new(path.as_ref().to_owned()) }
    }

    fn of(recorder: Arc<Recorder>) -> Ledger {
        Ledger { recorder, watched: Arc::default() }
    }

    /// Runs `f` and records the operations and layers of this thread, as far as the detail
    /// includes them.
    pub fn record<R>(&self, f: impl FnOnce() -> R) -> R {
        samebits_recorder::record(&self.recorder, f)
    }

    /// Says which batch of which step the following operations belong to, both from 0.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if it does not come after the last one: a ledger holds one run.
    pub fn at(&self, step: u64, microbatch: u64) -> Result<()> {
        self.recorder.at(step, microbatch)
    }

    /// Names the parameters and buffers of `model` in the following operations and layers. A layer
    /// has the path under which the model holds its tensors; one without tensors, that of the layer
    /// around it, or its place in a [`Sequential`](crate::nn::Sequential). An operation belongs to
    /// the innermost layer, its gradients too; outside of layers, to the module of the first
    /// parameter that it reads. [`step`](Ledger::step) does so too, because a step replaces the parameters. The first step
    /// needs it before: its gradients are those of the watched parameters.
    pub fn watch(&self, model: &(impl Module + ?Sized)) {
        let tensors = tensors(model);
        self.recorder.watch(values(&tensors));
        *self.watched.lock() = tensors;
    }

    /// Records a batch: its tensors, and the indices of its samples.
    ///
    /// # Errors
    ///
    /// As [`step`](Ledger::step).
    pub fn batch(&self, tensors: &[&Tensor], indices: Option<&Tensor>) -> Result<()> {
        let tensors: Vec<&Value> = tensors.iter().map(|tensor| tensor.value()).collect();
        self.recorder.batch(&tensors, indices.map(Tensor::value))
    }

    /// Records the end of a step, after the optimiser has changed `model`, and goes on to the next:
    /// the loss, every tensor of the model, the gradients of the parameters that were
    /// [watched](Ledger::watch), and where the generator stands.
    ///
    /// # Errors
    ///
    /// The file cannot be written, the ledger is finished, or a device fails.
    pub fn step(
        &self,
        loss: Option<&Tensor>,
        model: &(impl Module + ?Sized),
        gradients: &Gradients,
        generator: Option<&Generator>,
    ) -> Result<()> {
        // The gradients are those of the parameters that the step has replaced.
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

    /// Writes everything that was recorded so far to the file. Without this it is there within a
    /// moment.
    ///
    /// # Errors
    ///
    /// As [`step`](Ledger::step).
    pub fn flush(&self) -> Result<()> {
        self.recorder.flush()
    }

    /// Marks the ledger as complete. Afterwards nothing can be recorded.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or the ledger is finished already.
    pub fn finish(&self) -> Result<()> {
        self.recorder.finish()
    }
}

/// The tensors of a model by name.
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
    /// Which of how many ranks this is. Each writes a file of its own.
    #[must_use]
    pub fn rank(mut self, rank: u32, world_size: u32) -> Options {
        (self.settings.rank, self.settings.world_size) = (rank, world_size);
        self
    }

    /// How much to record: every operation, layers, or steps alone.
    #[must_use]
    pub fn detail(mut self, detail: Detail) -> Options {
        self.settings.detail = detail;
        self
    }

    /// What digests cover.
    #[must_use]
    pub fn digests(mut self, digests: Digests) -> Options {
        self.settings.digests = digests;
        self
    }

    /// Keeps every recorded tensor of some steps whole, in files beside the ledger, so that a
    /// comparison shows which elements differ and by how much.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Options {
        self.settings.keep = Some(keep);
        self
    }

    /// Writes a seed down. That of [`manual_seed`](crate::manual_seed) on this thread is written
    /// as `default`.
    #[must_use]
    pub fn seed(mut self, name: impl Into<String>, seed: u64) -> Options {
        self.settings.seeds.insert(name.into(), seed);
        self
    }

    /// Writes down what identifies the data: a name with a version, or a digest.
    #[must_use]
    pub fn data(mut self, identity: impl Into<String>) -> Options {
        self.settings.data = Some(identity.into());
        self
    }

    /// The ledger.
    ///
    /// # Errors
    ///
    /// The file exists already or cannot be written; the rank is not below the number of ranks.
    pub fn create(self) -> Result<Ledger> {
        crate::install();
        Ok(Ledger::of(Arc::new(Recorder::create(self.settings)?)))
    }
}

/// What the facade knows of the environment beside the recorder.
fn described() -> Vec<(String, String)> {
    let Environment { cuda, libraries, cublas_workspace_config, autotuner, .. } =
        environment::current();
    let cuda = cuda.err().map(|why| ("cuda".to_owned(), format!("none: {why}")));
    let libraries = libraries.into_iter().map(|(library, found)| (library.to_owned(), found));
    let choices = [
        ("cublas_workspace_config".to_owned(), cublas_workspace_config.to_string()),
        ("convolution_choices".to_owned(), autotuner),
    ];
    cuda.into_iter().chain(libraries).chain(choices).collect()
}
