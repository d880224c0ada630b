//! `cargo xtask fuzz`: random bytes for every parser and random arguments for every operation.

use std::process::Command;

use anyhow::{Context, Result};

/// Flags of `cargo xtask fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// `--minutes N`, `--seed S`, `--case N`, `--jobs J` and names of targets, passed on to the
    /// fuzzing program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs the fuzzing program, so that xtask need not link every kernel.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut program = Command::new(crate::program("fuzz")?);
    let status = program.args(&args.rest).status().context("cannot start the program `fuzz`")?;
    // The program has reported its findings.
    std::process::exit(status.code().unwrap_or(1));
}
