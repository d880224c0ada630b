//! Options and the course of a training run, for every model that the program trains.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::ValueEnum;
use samebits::distributed::{self, Threads, Transport, threads};
use samebits::ledger::{Detail, Digests, Keep, Ledger};
use samebits::nn::Module;
use samebits::optim::{GradScaler, Optimizers};
use samebits::trainer::{self, Loader, Trainer};
use samebits::{DType, Determinism, Device};
use serde::{Deserialize, Serialize};

/// Options of one run.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of one run")]
pub(crate) struct RunArgs {
    /// The level that every operation must meet [default: portable]
    #[arg(long, conflicts_with = "resume")]
    determinism: Option<Level>,
    /// Threads to compute with [default: all, or RAYON_NUM_THREADS]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Equal parts of a batch, shared by the ranks; the bits depend on it [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "resume")]
    micro_batches: Option<u32>,
    /// Precision of products, convolutions and attention while training [default: f32]
    #[arg(long, conflicts_with = "resume")]
    precision: Option<Precision>,
    /// Threads that each compute some of the micro-batches; the bits do not depend on it
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: Option<u32>,
    /// Device to compute on: cpu, cuda or cuda:N; the bits do not depend on it [default: cpu]
    #[arg(long)]
    device: Option<Device>,
    /// Write a checkpoint here after every epoch
    #[arg(long)]
    save: Option<PathBuf>,
    /// Continue from this checkpoint
    #[arg(long)]
    pub(crate) resume: Option<PathBuf>,
    /// Stop after this many steps in total, as if interrupted
    #[arg(long)]
    max_steps: Option<u64>,
    /// Record the run to this ledger: .jsonl, .jsonl.zst or a folder (several ranks: a folder)
    #[arg(long)]
    ledger: Option<PathBuf>,
    /// Level of detail of the ledger [default: op]
    #[arg(long, requires = "ledger")]
    detail: Option<Detailed>,
    /// Coverage of digests: every element, or a sample of tensors of more than 64 KiB [default:
    /// sampled]
    #[arg(long, requires = "ledger")]
    digests: Option<Covered>,
    /// Keep the tensors of this step, the step before and the step after in full: around:STEP
    #[arg(long, requires = "ledger")]
    keep: Option<Keep>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Level {
    NotGuaranteed,
    RunToRun,
    Portable,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Detailed {
    Step,
    Layer,
    Op,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Covered {
    Full,
    Sampled,
}

impl Level {
    pub(crate) fn determinism(self) -> Determinism {
        match self {
            Level::NotGuaranteed => Determinism::NotGuaranteed,
            Level::RunToRun => Determinism::RunToRun,
            Level::Portable => Determinism::Portable,
        }
    }
}

/// The precision of products, convolutions and attention while training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Precision {
    /// As everything else.
    #[default]
    F32,
    /// Mixed precision: half the bits, in exchange for some of the accuracy.
    Bf16,
    /// The same with more digits and a smaller range, so gradients are scaled.
    F16,
}

impl Precision {
    /// Runs a forward pass in this precision.
    pub(crate) fn run<R>(self, f: impl FnOnce() -> R) -> samebits::Result<R> {
        let dtype = match self {
            Precision::F32 => DType::F32,
            Precision::Bf16 => DType::BF16,
            Precision::F16 => DType::F16,
        };
        samebits::autocast(dtype, f)
    }

    /// Lets a run scale its gradients if the precision needs that.
    pub(crate) fn scale<'a, M, O, D>(self, run: Trainer<'a, M, O, D>) -> Trainer<'a, M, O, D>
    where
        M: Module,
        O: Optimizers,
        D: Loader,
    {
        if self == Precision::F16 { run.grad_scaler(GradScaler::default()) } else { run }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(crate) fn is_f32(&self) -> bool {
        *self == Precision::F32
    }
}

/// The end of a rank, if a run has several: its transport.
pub(crate) type Rank = Option<Box<dyn Transport>>;

impl RunArgs {
    /// Returns true if one of the options is given.
    pub(crate) fn is_any_given(&self) -> bool {
        self.determinism.is_some()
            || self.threads.is_some()
            || self.device.is_some()
            || self.save.is_some()
            || self.resume.is_some()
            || self.max_steps.is_some()
            || self.micro_batches.is_some()
            || self.precision.is_some()
            || self.ranks.is_some()
            || self.ledger.is_some()
    }

    /// Returns the level that every operation must meet.
    pub(crate) fn level(&self) -> Determinism {
        self.determinism.unwrap_or(Level::Portable).determinism()
    }

    pub(crate) fn micro_batches(&self) -> u64 {
        self.micro_batches.unwrap_or(1).into()
    }

    pub(crate) fn precision(&self) -> Precision {
        self.precision.unwrap_or_default()
    }

    pub(crate) fn device(&self) -> Option<Device> {
        self.device
    }

    /// Returns the number of threads to compute with, or 0 for the default.
    pub(crate) fn threads(&self) -> usize {
        self.threads.map_or(0, |threads| threads as usize)
    }

    /// Loads data with `load` and calls `each` for every rank of the run: for one without a
    /// transport, for the threads of `--ranks`, or for this process under an MPI launcher.
    pub(crate) fn spread<D: Send + Sync + 'static>(
        &self,
        load: impl FnOnce() -> Result<D>,
        each: impl Fn(&D, Rank) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        if let Some(processes) = processes() {
            return self.as_process(processes, load, each);
        }
        let data = load()?;
        let Some(world) = self.ranks else { return each(&data, None) };
        let rank = move |transport: Threads| {
            let number = transport.rank();
            each(&data, Some(Box::new(transport))).map_err(|error| match error.downcast_ref() {
                // Errors that a rank learns from another name it already.
                Some(trainer::Error::Ranks(_)) | None => error,
                Some(_) => error.context(format!("rank {number}")),
            })
        };
        threads::run(world as usize, rank).map(|_| ())
    }

    /// Trains as one of the processes that an MPI launcher started.
    #[cfg(feature = "mpi")]
    fn as_process<D>(
        &self,
        _: usize,
        load: impl FnOnce() -> Result<D>,
        each: impl Fn(&D, Rank) -> Result<()>,
    ) -> Result<()> {
        if self.ranks.is_some() {
            bail!("under MPI the processes are the ranks: leave out --ranks, which starts threads");
        }
        distributed::Mpi::run(|transport| each(&load()?, Some(Box::new(transport))))
    }

    /// Refuses to train, because this program has no transport between processes.
    #[cfg(not(feature = "mpi"))]
    #[expect(clippy::unused_self, reason = "it stands for the method above")]
    fn as_process<D>(
        &self,
        processes: usize,
        _: impl FnOnce() -> Result<D>,
        _: impl Fn(&D, Rank) -> Result<()>,
    ) -> Result<()> {
        bail!(
            "{processes} processes would train alone, each the same: this program was built \
             without the feature `mpi`"
        )
    }

    /// Returns the CUDA device that is asked for, opened, or `None` for the CPU.
    pub(crate) fn open_device(&self, shows: bool) -> Result<Option<Device>> {
        let Some(device @ Device::Cuda(_)) = self.device else { return Ok(None) };
        let name = open(device)?;
        if shows {
            println!("device: {device}, {name}");
        }
        Ok(Some(device))
    }

    /// Gives a trainer its limit, its checkpoint, its ledger and its rank. `seed` and `data` are
    /// facts for the ledger.
    pub(crate) fn prepare<'a, M: Module, O: Optimizers, D: Loader>(
        &self,
        mut trainer: Trainer<'a, M, O, D>,
        rank: Rank,
        seed: u64,
        data: String,
    ) -> Result<(Trainer<'a, M, O, D>, Option<Ledger>)> {
        if let Some(steps) = self.max_steps {
            trainer = trainer.max_steps(steps);
        }
        if let Some(path) = &self.save {
            trainer = trainer.checkpoint(path);
        }
        let ledger = self.new_ledger(place(&rank), seed, data)?;
        if let Some(ledger) = &ledger {
            trainer = trainer.ledger(ledger.clone());
        }
        if let Some(transport) = rank {
            trainer = trainer.ranks(transport);
        }
        Ok((trainer, ledger))
    }

    /// Creates the ledger of rank `rank` of `world`, if one is asked for.
    fn new_ledger(
        &self,
        (rank, world): (usize, usize),
        seed: u64,
        data: String,
    ) -> Result<Option<Ledger>> {
        let Some(path) = &self.ledger else { return Ok(None) };
        let detail = match self.detail {
            Some(Detailed::Step) => Detail::Step,
            Some(Detailed::Layer) => Detail::Layer,
            Some(Detailed::Op) | None => Detail::Op,
        };
        let digests = match self.digests {
            Some(Covered::Full) => Digests::Full,
            Some(Covered::Sampled) | None => Digests::Sampled,
        };
        let options = Ledger::options(path)
            .rank(u32::try_from(rank)?, u32::try_from(world)?)
            .detail(detail)
            .digests(digests)
            .seed("run", seed);
        let options = match self.keep {
            Some(keep) => options.keep(keep),
            None => options,
        };
        Ok(Some(options.data(data).create()?))
    }

    /// Says where the checkpoint is.
    pub(crate) fn tell_checkpoint(&self, steps: usize) {
        if let Some(path) = &self.save {
            println!("checkpoint after {steps} steps: {}", path.display());
        }
    }
}

/// Returns the number of processes that an MPI launcher started, if they can be ranks or would
/// train alone.
pub(crate) fn processes() -> Option<usize> {
    distributed::launched().filter(|&processes| processes > 1 || cfg!(feature = "mpi"))
}

/// Returns the number of a rank and the number of ranks.
pub(crate) fn place(rank: &Rank) -> (usize, usize) {
    rank.as_ref().map_or((0, 1), |transport| (transport.rank(), transport.world()))
}

/// Returns the name of a CUDA device, or the reason why there is none.
pub(crate) fn open(device: Device) -> Result<String> {
    let count = samebits::cuda::install()?;
    let Ok(backend) = samebits::backend(device) else {
        bail!("there is no {device}: the driver sees {count} devices");
    };
    // Open the device now, so that its errors surface before the training begins.
    backend.synchronize()?;
    Ok(backend.name())
}

pub(crate) fn learning_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(lr) if lr > 0.0 && f64::is_finite(lr) => Ok(lr),
        _ => Err("expected a positive number".to_owned()),
    }
}

/// Starts a stopwatch. The time is shown to the user and decides nothing.
pub(crate) fn stopwatch() -> Instant {
    Instant::now()
}
