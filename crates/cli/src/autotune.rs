//! `samebits autotune`: shows, verifies and edits a file of convolution choices.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Subcommand;
use samebits::autotune::{self, ChoiceFile, Config, ConvKey, Finding, Mode, Outcome, Verdict};
use samebits::{Determinism, Device};

/// Flags of `samebits autotune`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print every choice with the times of its candidates.
    Show {
        /// The file of choices
        file: PathBuf,
    },
    /// Run every choice again, and compare its output with the definition and with the recorded
    /// digest. Fails if one is wrong.
    Verify {
        /// The file of choices
        file: PathBuf,
        /// Device that recorded it: cpu, cuda, cuda:1, ...
        #[arg(long, default_value = "cpu")]
        device: Device,
    },
    /// Add the choices of other files, for example those of the ranks of a run. The first choice
    /// for a call is kept.
    Merge {
        /// The file to add to; it need not exist
        into: PathBuf,
        /// The files to read
        #[arg(required = true)]
        from: Vec<PathBuf>,
    },
    /// Remove the choices that this program would not use.
    Prune {
        /// The file of choices
        file: PathBuf,
        /// Device that recorded it: cpu, cuda, cuda:1, ...
        #[arg(long, default_value = "cpu")]
        device: Device,
        /// Also remove the choices for other levels
        #[arg(long)]
        level: Option<crate::run::Level>,
        /// Only print the number of choices to remove
        #[arg(long)]
        dry_run: bool,
    },
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Show { file } => show(file),
        Command::Verify { file, device } => verify(file, *device),
        Command::Merge { into, from } => merge(into, from),
        Command::Prune { file, device, level, dry_run } => {
            prune(file, *device, level.map(crate::run::Level::determinism), *dry_run)
        }
    }
}

fn show(path: &Path) -> Result<()> {
    let file = ChoiceFile::<ConvKey>::read(path)?;
    println!("{}: {} choices", path.display(), file.choices().len());
    println!("device   {}", file.fingerprint().device);
    println!(
        "library  {}, numerics version {}",
        file.fingerprint().library,
        file.numerics_version()
    );
    for (key, choice) in file.choices() {
        println!("\n{key}\n  {}, line {}", choice.algorithm, choice.line);
        for candidate in &choice.measured {
            let workspace = candidate.workspace as f64 / f64::from(1 << 20);
            match &candidate.outcome {
                Outcome::Time(time) => println!(
                    "    {:<16} {:>10.3} ms {workspace:>9.1} MiB",
                    candidate.name,
                    time.as_secs_f64() * 1e3
                ),
                Outcome::Disqualified(why) => {
                    println!("    {:<16} disqualified: {why}", candidate.name);
                }
            }
        }
    }
    Ok(())
}

fn verify(path: &Path, device: Device) -> Result<()> {
    let mode = Mode::pinned(path);
    let config = Config { mode, ..autotune::default_config(device)? };
    let verdicts = autotune::tuner_with(device, config)?.verify()?;
    let mut wrong = 0;
    for verdict in &verdicts {
        let finding = match &verdict.finding {
            Finding::Good | Finding::GoodWithoutDigest => "good".to_owned(),
            Finding::OtherDigest { recorded, now } => {
                format!("other bits: digest {now}, recorded {recorded}")
            }
            Finding::Wrong(how) => format!("wrong: {how}"),
            Finding::Failed(error) => format!("failed: {error}"),
            other => format!("{other:?}"),
        };
        wrong += usize::from(!is_good(verdict));
        println!(
            "{}:{}: {}: {}: {finding}",
            path.display(),
            verdict.line,
            verdict.key,
            verdict.algorithm
        );
    }
    println!("{} good, {wrong} wrong", verdicts.len() - wrong);
    if wrong > 0 {
        bail!("{}: {wrong} choices do not hold; record the file again", path.display());
    }
    Ok(())
}

fn merge(into: &Path, from: &[PathBuf]) -> Result<()> {
    let merged = autotune::merge::<ConvKey>(into, from, LOCK_TIMEOUT)?;
    println!(
        "{}: {} choices added; {} others name another algorithm for a call and were left out",
        into.display(),
        merged.added,
        merged.contradicted
    );
    Ok(())
}

fn is_good(verdict: &Verdict<ConvKey>) -> bool {
    matches!(verdict.finding, Finding::Good | Finding::GoodWithoutDigest)
}

/// Removes choices whose algorithm is unknown, does not apply, or may not be used at the choice's
/// level.
fn prune(path: &Path, device: Device, level: Option<Determinism>, dry_run: bool) -> Result<()> {
    let tuner = autotune::tuner(device)?;
    let keeps = |key: &ConvKey, algorithm: &str| {
        level.is_none_or(|level| key.level == level)
            && tuner.eligible(key).iter().any(|candidate| candidate.name() == algorithm)
    };
    let removed = if dry_run {
        let file = ChoiceFile::<ConvKey>::read(path)?;
        file.choices().filter(|(key, choice)| !keeps(key, &choice.algorithm)).count()
    } else {
        autotune::prune(path, LOCK_TIMEOUT, |key, choice| keeps(key, &choice.algorithm))?
    };
    let what = if dry_run { "would be removed" } else { "removed" };
    println!("{}: {removed} choices {what}", path.display());
    Ok(())
}

/// Longest wait for a program that is recording.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
