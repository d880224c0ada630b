//! `samebits train`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use samebits::autotune::{self, Mode};
use samebits::distributed::{self, Threads, Transport, threads};
use samebits::io::Checkpoint;
use samebits::ledger::{Detail, Digests, Keep, Ledger};
use samebits::trainer::{self, Outcome as Ended};
use samebits::{Determinism, Device};

use crate::curve::{self, Line};
use crate::digits::Digits;
use crate::session::{Config, Session};

/// Without any of the options marked *, the network is trained three times from one seed: on one
/// thread, on all threads, and on all threads at level NotGuaranteed. With one of them it is
/// trained once. Under `mpirun` every process is a rank of one training, if the program was built
/// with the feature `mpi`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Seed of all random numbers [default: 0]
    #[arg(long)]
    seed: Option<u64>,
    /// Passes over the training images [default: 15]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: Option<u64>,
    /// Images per step [default: 64]
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..))]
    batch_size: Option<u32>,
    /// The learning rate [default: 0.05]
    #[arg(long, value_parser = learning_rate, allow_negative_numbers = true)]
    lr: Option<f64>,
    /// Threads that load and augment images; the bits do not depend on it
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// A CSV file (perhaps gzipped) of 64 pixels from 0 to 16 and a class from 0 to 9 per row; the
    /// digits that come with the program if not given
    #[arg(long)]
    data: Option<PathBuf>,
    /// File for the loss curve
    #[arg(long, default_value = "samebits-loss.svg")]
    curve: PathBuf,
    /// * The level that every operation must meet [default: portable]
    #[arg(long)]
    determinism: Option<Level>,
    /// * Threads to compute with [default: all, or RAYON_NUM_THREADS]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// * Equal parts of a batch, shared by the ranks; the bits depend on it [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    micro_batches: Option<u32>,
    /// * Threads that each compute some of the micro-batches; the bits do not depend on it
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: Option<u32>,
    /// * Device to compute on: cpu, cuda or cuda:N; the bits do not depend on it [default: cpu]
    #[arg(long, value_parser = device)]
    device: Option<Device>,
    /// Add the convolution algorithms that win a race to this file
    #[arg(long)]
    record_choices: Option<PathBuf>,
    /// Use the convolution algorithms that this file names, and no others
    #[arg(long, conflicts_with = "record_choices")]
    pin_choices: Option<PathBuf>,
    /// * Write a checkpoint here after every epoch
    #[arg(long)]
    save: Option<PathBuf>,
    /// * Continue from this checkpoint
    #[arg(long, conflicts_with_all = ["seed", "epochs", "batch_size", "lr", "determinism", "micro_batches"])]
    resume: Option<PathBuf>,
    /// * Stop after this many steps in total, as if interrupted
    #[arg(long)]
    max_steps: Option<u64>,
    /// * Record the run to this ledger: .jsonl, .jsonl.zst or a folder (several ranks: a folder)
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
    /// Show no progress bar
    #[arg(long)]
    quiet: bool,
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

pub(crate) fn run(args: &Args) -> Result<()> {
    let mode = match (&args.record_choices, &args.pin_choices) {
        (Some(path), _) => Mode::Record(path.clone()),
        (None, Some(path)) => Mode::pinned(path.clone()),
        (None, None) => Mode::Off,
    };
    let device = args.device.unwrap_or(Device::Cpu);
    if mode != Mode::Off {
        autotune::configure(
            device,
            autotune::Config { mode, ..autotune::default_config(device)? },
        )?;
    }
    if let Some(processes) = distributed::launched()
        && (processes > 1 || cfg!(feature = "mpi"))
    {
        return train_as_process(args, processes);
    }
    let digits = Digits::load(args.data.as_deref())?;
    tell_digits(&digits);
    let once = args.determinism.is_some()
        || args.threads.is_some()
        || args.device.is_some()
        || args.save.is_some()
        || args.resume.is_some()
        || args.max_steps.is_some()
        || args.micro_batches.is_some()
        || args.ranks.is_some()
        || args.ledger.is_some();
    match args.ranks {
        Some(world) => {
            let args = args.clone();
            let rank = move |transport: Threads| {
                let number = transport.rank();
                let end = train_on(&args, &digits, Some(Box::new(transport)));
                end.map_err(|error| match error.downcast_ref() {
                    // Errors that a rank learns from another name it already.
                    Some(trainer::Error::Ranks(_)) | None => error,
                    Some(_) => error.context(format!("rank {number}")),
                })
            };
            threads::run(world as usize, rank).map(|_| ())
        }
        None if once => train_on(args, &digits, None),
        None => compare(args, &digits),
    }
}

fn tell_digits(digits: &Digits) {
    println!(
        "digits: {} images to train on, {} to test on",
        samebits::data::Dataset::len(&digits.train),
        digits.test_classes.len()
    );
}

/// Trains as one of the processes that an MPI launcher started.
#[cfg(feature = "mpi")]
fn train_as_process(args: &Args, _: usize) -> Result<()> {
    if args.ranks.is_some() {
        bail!("under MPI the processes are the ranks: leave out --ranks, which starts threads");
    }
    distributed::Mpi::run(|transport| {
        let digits = Digits::load(args.data.as_deref())?;
        if transport.rank() == 0 {
            tell_digits(&digits);
        }
        train_on(args, &digits, Some(Box::new(transport)))
    })
}

/// Refuses to train, because this program has no transport between processes.
#[cfg(not(feature = "mpi"))]
fn train_as_process(_: &Args, processes: usize) -> Result<()> {
    bail!(
        "{processes} processes would train alone, each the same: this program was built without the \
         feature `mpi`"
    )
}

/// Trains once, as one of several ranks if there is a transport. Only the first rank prints.
fn train_on(args: &Args, digits: &Digits, transport: Option<Box<dyn Transport>>) -> Result<()> {
    let (rank, world) = transport.as_ref().map_or((0, 1), |t| (t.rank(), t.world()));
    let level = args.determinism.unwrap_or(Level::Portable);
    let mut session = match &args.resume {
        Some(path) => Session::resume(Checkpoint::load(path)?, digits, args.workers)?,
        None => Session::new(config(args, level), digits, args.workers)?,
    };
    if let Some(device @ Device::Cuda(_)) = args.device {
        let name = open(device)?;
        if rank == 0 {
            println!("device: {device}, {name}");
        }
        session.to(device)?;
    }
    let path = args.ledger.as_deref();
    let ledger = path.map(|path| ledger(args, &session, path, (rank, world))).transpose()?;
    if let Some(ledger) = &ledger {
        session.trainer = session.trainer.ledger(ledger.clone());
    }
    if let Some(transport) = transport {
        session.trainer = session.trainer.ranks(transport);
    }
    let threads = args.threads.map_or(0, |threads| threads as usize);
    let outcome = train(args, session, threads)?;
    if let Some(ledger) = &ledger {
        ledger.finish()?;
    }
    if rank == 0 {
        println!("{HEADER}");
        println!("{}", outcome.row("1"));
        write_curve(&args.curve, &[("run 1", &outcome)])?;
        if let Some(path) = &args.save {
            println!("checkpoint after {} steps: {}", outcome.steps, path.display());
        }
    }
    outcome.expect_whole()
}

/// Creates the ledger of rank `rank` of `world`.
fn ledger(
    args: &Args,
    session: &Session<'_>,
    path: &Path,
    (rank, world): (usize, usize),
) -> Result<Ledger> {
    let detail = match args.detail {
        Some(Detailed::Step) => Detail::Step,
        Some(Detailed::Layer) => Detail::Layer,
        Some(Detailed::Op) | None => Detail::Op,
    };
    let digests = match args.digests {
        Some(Covered::Full) => Digests::Full,
        Some(Covered::Sampled) | None => Digests::Sampled,
    };
    let options = Ledger::options(path)
        .rank(u32::try_from(rank)?, u32::try_from(world)?)
        .detail(detail)
        .digests(digests)
        .seed("run", session.config.seed);
    let options = match args.keep {
        Some(keep) => options.keep(keep),
        None => options,
    };
    let data = args.data.as_ref().map_or("digits".to_owned(), |path| path.display().to_string());
    Ok(options.data(data).create()?)
}

/// Returns the name of a CUDA device, or the reason why there is none.
fn open(device: Device) -> Result<String> {
    let count = samebits::cuda::install()?;
    let Ok(backend) = samebits::backend(device) else {
        bail!("there is no {device}: the driver sees {count} devices");
    };
    // Open the device now, so that its errors surface before the training begins.
    backend.synchronize()?;
    Ok(backend.name())
}

fn compare(args: &Args, digits: &Digits) -> Result<()> {
    println!("{HEADER}");
    let new = |level| Session::new(config(args, level), digits, args.workers);
    let one = train(args, new(Level::Portable)?, 1)?;
    one.expect_whole()?;
    println!("{}", one.row("1"));
    let all = train(args, new(Level::Portable)?, 0)?;
    all.expect_whole()?;
    println!("{}", all.row("2"));
    let fast = train(args, new(Level::NotGuaranteed)?, 0)?;
    fast.expect_whole()?;
    println!("{}", fast.row("3"));
    let same = one.digest == all.digest;
    println!("runs 1 and 2: {}", if same { "the same bits" } else { "NOT the same bits" });
    let cost = all.seconds.as_secs_f64() / fast.seconds.as_secs_f64() - 1.0;
    println!(
        "run 3: {}; the same bits cost run 2 {:+.1} % of time",
        if fast.digest == all.digest { "the same bits, by luck" } else { "other bits" },
        100.0 * cost
    );
    let lines = [
        ("run 1: one thread", &one),
        ("run 2: all threads", &all),
        ("run 3: not guaranteed", &fast),
    ];
    write_curve(&args.curve, &lines)?;
    if !same {
        bail!("two runs from one seed ended in different bits");
    }
    Ok(())
}

/// Result of a run.
struct Outcome {
    threads: usize,
    level: Determinism,
    accuracy: f64,
    seconds: Duration,
    digest: String,
    epoch_losses: Vec<f64>,
    steps: usize,
    interrupted: bool,
}

const HEADER: &str = "run  threads  level          accuracy     time  digest of the weights";

impl Outcome {
    /// Returns an error if Ctrl-C ended the run.
    fn expect_whole(&self) -> Result<()> {
        if self.interrupted {
            bail!("interrupted after {} steps", self.steps);
        }
        Ok(())
    }

    fn row(&self, name: &str) -> String {
        format!(
            "{name:<4} {:<8} {:<14} {:>6.2} %  {:>5.1} s  {}",
            self.threads,
            self.level.to_string(),
            100.0 * self.accuracy,
            self.seconds.as_secs_f64(),
            &self.digest[..32]
        )
    }
}

fn train(args: &Args, mut session: Session<'_>, threads: usize) -> Result<Outcome> {
    if args.quiet {
        session.trainer = session.trainer.quiet();
    }
    if let Some(steps) = args.max_steps {
        session.trainer = session.trainer.max_steps(steps);
    }
    if let Some(path) = &args.save {
        session.trainer = session.trainer.checkpoint(path);
    }
    let started = stopwatch();
    #[expect(clippy::disallowed_methods, reason = "it is reported and decides nothing")]
    samebits::on_threads(Some(threads), || {
        let ended = session.train()?;
        let seconds = started.elapsed();
        Ok(Outcome {
            threads: rayon::current_num_threads(),
            level: session.config.determinism,
            accuracy: session.accuracy()?,
            seconds,
            digest: session.digest()?,
            epoch_losses: session.epoch_losses(),
            steps: session.steps(),
            interrupted: ended == Ended::Interrupted,
        })
    })?
}

fn write_curve(path: &Path, runs: &[(&str, &Outcome)]) -> Result<()> {
    let lines: Vec<Line> = runs
        .iter()
        .map(|&(name, outcome)| Line {
            name: name.to_owned(),
            losses: outcome.epoch_losses.clone(),
        })
        .collect();
    curve::write(path, &lines)?;
    println!("loss curve: {}", path.display());
    Ok(())
}

fn config(args: &Args, level: Level) -> Config {
    Config {
        seed: args.seed.unwrap_or(0),
        epochs: args.epochs.unwrap_or(15),
        batch_size: args.batch_size.unwrap_or(64) as usize,
        lr: args.lr.unwrap_or(0.05),
        determinism: level.determinism(),
        micro_batches: args.micro_batches.unwrap_or(1).into(),
    }
}

pub(crate) fn device(text: &str) -> Result<Device, String> {
    let number = text.strip_prefix("cuda:").unwrap_or("0");
    match (text, number.parse()) {
        ("cpu", _) => Ok(Device::Cpu),
        (text, Ok(number)) if text.starts_with("cuda:") || text == "cuda" => {
            Ok(Device::Cuda(number))
        }
        _ => Err("expected cpu, cuda or cuda:N".to_owned()),
    }
}

fn learning_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(lr) if lr > 0.0 && f64::is_finite(lr) => Ok(lr),
        _ => Err("expected a positive number".to_owned()),
    }
}

/// Starts a stopwatch. The time is shown to the user and decides nothing.
fn stopwatch() -> std::time::Instant {
    std::time::Instant::now()
}
