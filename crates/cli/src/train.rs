//! `samebits train`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use samebits::autotune::{self, Mode};
use samebits::io::Checkpoint;
use samebits::trainer::Outcome as Ended;
use samebits::{Determinism, Device};

use crate::curve::{self, Line};
use crate::digits::Digits;
use crate::run::{self, Rank, RunArgs, learning_rate, stopwatch};
use crate::session::{Config, Session};

/// Without any of the options of one run, the network is trained three times from one seed: on one
/// thread, on all threads, and on all threads at level NotGuaranteed. With one of them it is
/// trained once. Under `mpirun` every process is a rank of one training, if the program was built
/// with the feature `mpi`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Seed of all random numbers [default: 0]
    #[arg(long, conflicts_with = "resume")]
    seed: Option<u64>,
    /// Passes over the training images [default: 15]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "resume")]
    epochs: Option<u64>,
    /// Images per step [default: 64]
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..), conflicts_with = "resume")]
    batch_size: Option<u32>,
    /// The learning rate [default: 0.05]
    #[arg(long, value_parser = learning_rate, allow_negative_numbers = true)]
    #[arg(conflicts_with = "resume")]
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
    /// Add the convolution algorithms that win a race to this file
    #[arg(long)]
    record_choices: Option<PathBuf>,
    /// Use the convolution algorithms that this file names, and no others
    #[arg(long, conflicts_with = "record_choices")]
    pin_choices: Option<PathBuf>,
    /// Show no progress bar
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    run: RunArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mode = match (&args.record_choices, &args.pin_choices) {
        (Some(path), _) => Mode::Record(path.clone()),
        (None, Some(path)) => Mode::pinned(path.clone()),
        (None, None) => Mode::Off,
    };
    let device = args.run.device().unwrap_or(Device::Cpu);
    if mode != Mode::Off {
        autotune::configure(
            device,
            autotune::Config { mode, ..autotune::default_config(device)? },
        )?;
    }
    let load = {
        let data = args.data.clone();
        move || Digits::load(data.as_deref())
    };
    if !args.run.is_any_given() && run::processes().is_none() {
        return compare(args, &load()?);
    }
    let own = args.clone();
    args.run.spread(load, move |digits, rank| train_on(&own, digits, rank))
}

fn tell_digits(digits: &Digits) {
    println!(
        "digits: {} images to train on, {} to test on",
        samebits::data::Dataset::len(&digits.train),
        digits.test_classes.len()
    );
}

/// Trains once. Only the first rank prints.
fn train_on(args: &Args, digits: &Digits, rank: Rank) -> Result<()> {
    let first = run::place(&rank).0 == 0;
    if first {
        tell_digits(digits);
    }
    let mut session = match &args.run.resume {
        Some(path) => Session::resume(Checkpoint::load(path)?, digits, args.workers)?,
        None => Session::new(config(args, args.run.level()), digits, args.workers)?,
    };
    if let Some(device) = args.run.open_device(first)? {
        session.to(device)?;
    }
    let data = args.data.as_ref().map_or("digits".to_owned(), |path| path.display().to_string());
    let (trainer, ledger) = args.run.prepare(session.trainer, rank, session.config.seed, data)?;
    session.trainer = trainer;
    let outcome = train(args, session, args.run.threads())?;
    if let Some(ledger) = &ledger {
        ledger.finish()?;
    }
    if first {
        println!("{HEADER}");
        println!("{}", outcome.row("1"));
        write_curve(&args.curve, &[("run 1", &outcome)])?;
        args.run.tell_checkpoint(outcome.steps);
    }
    outcome.expect_whole()
}

fn compare(args: &Args, digits: &Digits) -> Result<()> {
    tell_digits(digits);
    println!("{HEADER}");
    let new = |level| Session::new(config(args, level), digits, args.workers);
    let one = train(args, new(Determinism::Portable)?, 1)?;
    one.expect_whole()?;
    println!("{}", one.row("1"));
    let all = train(args, new(Determinism::Portable)?, 0)?;
    all.expect_whole()?;
    println!("{}", all.row("2"));
    let fast = train(args, new(Determinism::NotGuaranteed)?, 0)?;
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
    curve::write(path, "Training loss on the handwritten digits", &lines)?;
    println!("loss curve: {}", path.display());
    Ok(())
}

fn config(args: &Args, determinism: Determinism) -> Config {
    Config {
        seed: args.seed.unwrap_or(0),
        epochs: args.epochs.unwrap_or(15),
        batch_size: args.batch_size.unwrap_or(64) as usize,
        lr: args.lr.unwrap_or(0.05),
        determinism,
        micro_batches: args.run.micro_batches(),
        precision: args.run.precision(),
    }
}
