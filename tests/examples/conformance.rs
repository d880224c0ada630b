//! Runs reference cases and prints a table by operator, for `cargo xtask conformance`.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use samebits::{Determinism, Device, determinism};
use workspace_tests::conformance::{self, Outcome, Reference};

/// Compare with reference figures.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask conformance")]
struct Args {
    /// Reference files; by default those named by SAMEBITS_CONFORMANCE, separated by colons, else
    /// the project's own.
    files: Vec<PathBuf>,
    /// The device to run on.
    #[arg(long, default_value = "cpu", value_parser = ["cpu", "cuda"])]
    device: String,
    /// The level to require of every operation; may be given several times.
    #[arg(long, value_parser = ["not-guaranteed", "run-to-run", "portable"], default_value = "portable")]
    level: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    samebits::install();
    let device = if args.device == "cuda" { Device::Cuda(0) } else { Device::Cpu };
    let mut outcomes = Vec::new();
    for file in files(args.files) {
        let reference = Reference::read(&file)?;
        for level in &args.level {
            let run = || conformance::run(&reference, device);
            outcomes.extend(determinism::scope(parse(level), run));
        }
    }
    table(&outcomes);
    let passed = outcomes.iter().filter(|outcome| outcome.passed()).count();
    let failed = outcomes.len() - passed;
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn files(given: Vec<PathBuf>) -> Vec<PathBuf> {
    if !given.is_empty() {
        return given;
    }
    match std::env::var_os("SAMEBITS_CONFORMANCE") {
        Some(list) => std::env::split_paths(&list).collect(),
        None => vec![conformance::own_reference(), conformance::half_reference()],
    }
}

fn parse(level: &str) -> Determinism {
    match level {
        "not-guaranteed" => Determinism::NotGuaranteed,
        "run-to-run" => Determinism::RunToRun,
        _ => Determinism::Portable,
    }
}

/// Prints one line per operator, and one per failure.
fn table(outcomes: &[Outcome]) {
    let mut by_op: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
    for outcome in outcomes {
        by_op.entry(&outcome.op).or_default().push(outcome);
    }
    println!("{:<22} {:>7} {:>7} {:>22}", "operator", "cases", "passed", "worst, of tolerance");
    for (op, outcomes) in by_op {
        let passed = outcomes.iter().filter(|outcome| outcome.passed()).count();
        let worst = outcomes.iter().filter_map(|outcome| outcome.worst.as_ref().ok());
        let worst = worst.fold(0.0, |a: f64, &b| a.max(b));
        println!("{op:<22} {:>7} {passed:>7} {worst:>22.3}", outcomes.len());
        for outcome in outcomes {
            if let Err(reason) = &outcome.worst {
                println!("  {}: {reason}", outcome.name);
            }
        }
    }
}
