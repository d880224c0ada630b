//! The `samebits` program, as a library so that tests can call its parsers.
//!
//! Exit status: 0 on success, 1 on failure, 2 for a wrong command line. `samebits diff` returns 1
//! if the runs differ, and 2 if they cannot be compared.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to its user")]

mod autotune;
mod curve;
mod diff;
mod digits;
mod generate;
mod gpt;
mod model;
mod run;
mod session;
mod text;
mod train;
mod verify;

use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{Parser, Subcommand};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Same seed, same bits: reproducible tensor computation.
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show, check or clean a file of convolution choices.
    Autotune(autotune::Args),
    /// Compare the ledgers of two runs: find the first difference and its cause.
    Diff(diff::Args),
    /// Print the facts that affect bits and speed: versions, level, threads, instruction set,
    /// devices.
    Env,
    /// Continue a text with a model that `samebits gpt` has trained.
    Generate(generate::Args),
    /// Train a small language model on text, byte by byte, and let it write.
    Gpt(Box<gpt::Args>),
    /// Train a small convolutional network on handwritten digits three times, and compare the bits.
    Train(Box<train::Args>),
    /// Compute the golden corpus on every device, thread count and instruction set of this machine,
    /// also under load, and report the result. Exit status 1 if one bit differs.
    Verify(verify::Args),
}

/// Runs the program.
pub fn main() -> ExitCode {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry().with(lines).with(logged()).init();
    let cli = Cli::parse();
    // Begins the ledger that the environment may request.
    samebits::install();
    let result = match cli.command {
        Command::Autotune(args) => autotune::run(&args),
        Command::Diff(args) => return diff::run(&args),
        Command::Env => {
            print!("{}", samebits::environment());
            Ok(())
        }
        Command::Generate(args) => generate::run(&args),
        Command::Gpt(args) => gpt::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Verify(args) => verify::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the log filter from `RUST_LOG`, such as `info` or `samebits_data=debug,warn`; without it,
/// errors are logged.
fn logged() -> Targets {
    let asked = std::env::var("RUST_LOG").unwrap_or_default();
    let given = if asked.is_empty() { "error" } else { &asked };
    given.parse().unwrap_or_else(|error| {
        eprintln!("warning: RUST_LOG is {asked:?}: {error}");
        Targets::new().with_default(LevelFilter::ERROR)
    })
}

/// Returns the bytes of a checkpoint of a run that has not begun.
///
/// # Errors
///
/// If memory runs out.
pub fn fresh_checkpoint(seed: u64) -> anyhow::Result<Vec<u8>> {
    let config = session::Config {
        seed,
        epochs: 1,
        batch_size: 8,
        lr: 0.1,
        determinism: samebits::Determinism::Portable,
        micro_batches: 1,
        precision: run::Precision::F32,
    };
    let digits = digits::Digits::load(None)?;
    let session = session::Session::new(config, &digits, 0)?;
    Ok(session.trainer.state()?.to_bytes()?)
}

/// Checks the bytes of a checkpoint.
///
/// # Errors
///
/// If they are not a complete checkpoint of this version.
pub fn check_checkpoint(bytes: &[u8]) -> anyhow::Result<()> {
    static DIGITS: OnceLock<digits::Digits> = OnceLock::new();
    let digits = match DIGITS.get() {
        Some(digits) => digits,
        None => {
            let digits = digits::Digits::load(None)?;
            DIGITS.get_or_init(|| digits)
        }
    };
    let checkpoint = samebits::io::Checkpoint::from_bytes(bytes)?;
    session::Session::resume(checkpoint, digits, 0).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the calls of the program in the fenced blocks of a document.
    fn calls(text: &str) -> Vec<String> {
        let blocks = text.split("```").skip(1).step_by(2);
        let blocks =
            blocks.filter(|block| block.starts_with("sh\n") || block.starts_with("text\n"));
        let lines =
            blocks.flat_map(str::lines).map(|line| line.split(['#', '|']).next().unwrap_or(""));
        let calls = lines.filter_map(|line| {
            let words: Vec<_> = line.trim_start_matches("$ ").split_whitespace().collect();
            if words.starts_with(&["cargo", "run", "--release", "--", "train"]) {
                return Some(["samebits", &words[4..].join(" ")].join(" "));
            }
            let wrapped = ["mpirun", "srun"].contains(words.first()?);
            let at = words.iter().position(|word| *word == "samebits")?;
            (at == 0 || wrapped).then(|| words[at..].join(" "))
        });
        calls.collect()
    }

    #[test]
    fn calls_in_the_documents_are_understood() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut pages = vec![root.join("README.md"), root.join("crates/cli/README.md")];
        for entry in std::fs::read_dir(root.join("docs/book")).expect("the book") {
            let page = entry.expect("a page").path();
            pages.extend(page.extension().is_some_and(|found| found == "md").then_some(page));
        }
        let mut found = Vec::new();
        for page in pages {
            for call in calls(&std::fs::read_to_string(&page).expect("a page")) {
                if let Err(error) = Cli::try_parse_from(call.split_whitespace()) {
                    panic!("{}: `{call}`: {error}", page.display());
                }
                found.push(call);
            }
        }
        for known in [
            "train",
            "diff a.jsonl b.jsonl --html page.html",
            "train --max-steps 100 --micro-batches 8",
        ] {
            assert!(found.contains(&format!("samebits {known}")), "{known} in {found:?}");
        }
        assert!(Cli::try_parse_from(["samebits", "train", "--micro-batch", "8"]).is_err());
    }
}
