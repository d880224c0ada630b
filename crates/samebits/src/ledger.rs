//! Ledgers: what a run computed, operation by operation, in a file.
//!
//! `samebits diff A B` compares two ledgers and names the first operation that had equal inputs and
//! unequal outputs. `docs/ledger.md` describes the files.
//!
//! | to record | use |
//! |---|---|
//! | a part of a program | [`scope`], or a [`Ledger`] with settings and its [`record`](Ledger::record) |
//! | a training | [`Trainer::ledger`](crate::trainer::Trainer::ledger) |
//! | a process | the environment variable `SAMEBITS_LEDGER=PATH`, and [`install`](crate::install) |
//!
//! A ledger holds the operations of the threads that record to it, in the order in which they
//! finish; ledgers that are to be compared record one thread. Operations that re-run mode repeats
//! are recorded once. A record is never left out: an operation that cannot be written down fails.
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

mod digest;
mod recorder;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use samebits_ledger::record::{Header, Program};
use samebits_ledger::writer::file_of_rank;
use samebits_ledger::{Writer, writer};
use samebits_tensor_core::observe::{self, LEDGER_VARIABLE, Observer};

use crate::environment::{self, Environment};
use crate::nn::Module;
use crate::{Generator, Gradients, Tensor, random};
use recorder::{Recorder, Refusal};

pub use samebits_ledger::record::{Detail, Digests};

/// A result whose error is this module's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with a ledger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] writer::Error),
    /// A tensor cannot be read from its device.
    #[error(transparent)]
    Tensor(#[from] crate::Error),
    /// A setting that ledgers do not have.
    #[error("ledger: {0}")]
    Invalid(String),
    /// It is finished: nothing can be recorded any more.
    #[error("ledger: {} is finished, so nothing more can be recorded", path.display())]
    Finished {
        /// The file.
        path: PathBuf,
    },
}

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
    OF_PROCESS.get().cloned()
}

static OF_PROCESS: OnceLock<Ledger> = OnceLock::new();

/// Begins the ledger that the environment asks for. If it cannot be written, operations say so.
pub(crate) fn install() {
    let Some(path) = std::env::var_os(LEDGER_VARIABLE).filter(|path| !path.is_empty()) else {
        return;
    };
    let observer: Arc<dyn Observer> = match Ledger::options(PathBuf::from(path)).unbuffered() {
        Ok(ledger) => OF_PROCESS.get_or_init(|| ledger).recorder.clone(),
        Err(error) => Arc::new(Refusal(error.to_string())),
    };
    observe::set_global(Some(observer));
}

/// A ledger that is being written. Clones write to the same file.
#[derive(Clone)]
pub struct Ledger {
    recorder: Arc<Recorder>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ledger({})", self.recorder.path().display())
    }
}

impl Ledger {
    /// A ledger of every operation, of a single rank.
    ///
    /// `path` is a file that ends in `.jsonl`, or a folder for the file `rank_000000.jsonl`.
    ///
    /// # Errors
    ///
    /// The file exists already or cannot be written.
    pub fn create(path: impl AsRef<Path>) -> Result<Ledger> {
        Ledger::options(path).create()
    }

    /// A ledger with settings.
    pub fn options(path: impl AsRef<Path>) -> Options {
        Options {
            path: path.as_ref().to_owned(),
            rank: 0,
            world_size: 1,
            detail: Detail::Op,
            digests: Digests::Full,
            seeds: random::initial_seed()
                .map(|seed| ("default".to_owned(), seed))
                .into_iter()
                .collect(),
            data: None,
        }
    }

    /// Runs `f` and records the operations of this thread.
    pub fn record<R>(&self, f: impl FnOnce() -> R) -> R {
        if self.recorder.detail() < Detail::Op {
            return f();
        }
        observe::scope(self.recorder.clone(), f)
    }

    /// Says which batch of which step the following operations belong to, both from 0.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if it does not come after the last one: a ledger holds one run.
    pub fn at(&self, step: u64, microbatch: u64) -> Result<()> {
        self.recorder.at(step, microbatch)
    }

    /// Names the parameters and buffers of `model` in the following operations, and takes the path
    /// of the module from the first parameter that an operation reads.
    /// [`step`](Ledger::step) does so too, because a step replaces the parameters. The first step
    /// needs it before: its gradients are those of the watched parameters.
    pub fn watch(&self, model: &(impl Module + ?Sized)) {
        self.recorder.watch(&|visit| model.visit("", visit));
    }

    /// Records a batch: its tensors, and the indices of its samples.
    ///
    /// # Errors
    ///
    /// As [`step`](Ledger::step).
    pub fn batch(&self, tensors: &[&Tensor], indices: Option<&Tensor>) -> Result<()> {
        self.recorder.batch(tensors, indices)
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
        self.recorder.step(loss, &|visit| model.visit("", visit), gradients, generator)?;
        self.watch(model);
        Ok(())
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

/// The settings of a [`Ledger`].
#[derive(Clone, Debug)]
pub struct Options {
    path: PathBuf,
    rank: u32,
    world_size: u32,
    detail: Detail,
    digests: Digests,
    seeds: BTreeMap<String, u64>,
    data: Option<String>,
}

impl Options {
    /// Which of how many ranks this is. Each writes a file of its own.
    #[must_use]
    pub fn rank(mut self, rank: u32, world_size: u32) -> Options {
        (self.rank, self.world_size) = (rank, world_size);
        self
    }

    /// How much to record: every operation, or steps alone.
    #[must_use]
    pub fn detail(mut self, detail: Detail) -> Options {
        self.detail = detail;
        self
    }

    /// What digests cover.
    #[must_use]
    pub fn digests(mut self, digests: Digests) -> Options {
        self.digests = digests;
        self
    }

    /// Writes a seed down. That of [`manual_seed`](crate::manual_seed) on this thread is written
    /// as `default`.
    #[must_use]
    pub fn seed(mut self, name: impl Into<String>, seed: u64) -> Options {
        self.seeds.insert(name.into(), seed);
        self
    }

    /// Writes down what identifies the data: a name with a version, or a digest.
    #[must_use]
    pub fn data(mut self, identity: impl Into<String>) -> Options {
        self.data = Some(identity.into());
        self
    }

    /// The ledger.
    ///
    /// # Errors
    ///
    /// The file exists already or cannot be written; the rank is not below the number of ranks;
    /// the detail is [`Detail::Layer`], which only recorders of other frameworks have.
    pub fn create(self) -> Result<Ledger> {
        crate::install();
        self.begin(false)
    }

    /// A ledger whose records are in the file at once, because nobody will say when it ends.
    fn unbuffered(self) -> Result<Ledger> {
        self.begin(true)
    }

    fn begin(self, unbuffered: bool) -> Result<Ledger> {
        let Options { path, rank, world_size, detail, digests, seeds, data } = self;
        if rank >= world_size {
            let message = format!("rank {rank} is not below the number of ranks, {world_size}");
            return Err(Error::Invalid(message));
        }
        if world_size > 1 && path.extension().is_some_and(|extension| extension == "jsonl") {
            let message = format!(
                "{} is a file, but each of {world_size} ranks needs one of its own: name a folder",
                path.display()
            );
            return Err(Error::Invalid(message));
        }
        if detail == Detail::Layer {
            let message = "expected detail `step` or `op`, found `layer`".to_owned();
            return Err(Error::Invalid(message));
        }
        let writer =
            Program { name: "samebits".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let environment = described(&environment::current());
        let header = Header { world_size, writer, detail, digests, environment, seeds, data };
        let writer = Writer::create(&file_of_rank(&path, rank), rank, header)?;
        Ok(Ledger { recorder: Arc::new(Recorder::new(writer, detail, digests, unbuffered)) })
    }
}

/// The environment as a header has it.
fn described(environment: &Environment) -> BTreeMap<String, String> {
    let Environment { simd: (simd, supported), .. } = environment;
    let mut entries = BTreeMap::new();
    let mut enter = |name: &str, value: &dyn fmt::Display| {
        entries.insert(name.to_owned(), value.to_string());
    };
    enter("system", &format_args!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    enter("numerics_version", &environment.numerics_version);
    enter("level", &environment.level);
    enter("rerun", &environment.rerun);
    enter("threads", &environment.threads);
    enter("simd", simd);
    enter("simd_supported", supported);
    enter("subnormals", if environment.ieee { &"kept" } else { &"flushed" });
    match &environment.cuda {
        Err(why) => enter("cuda", &format_args!("none: {why}")),
        Ok(devices) => {
            for (device, name) in devices {
                enter(&device.to_string(), name);
            }
        }
    }
    for (library, found) in &environment.libraries {
        enter(library, found);
    }
    enter("cublas_workspace_config", &environment.cublas_workspace_config);
    enter("convolution_choices", &environment.autotuner);
    entries
}
