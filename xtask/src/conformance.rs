//! `cargo xtask conformance`: compares results and gradients with reference figures.

use std::process::Command;

use anyhow::{Context, Result};

/// Flags of `cargo xtask conformance`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// With `--device cuda`, run on this machine's GPU instead of the emulated device.
    #[arg(long)]
    gpu: bool,
    /// Reference files, `--device` and `--level`, passed on to the comparing program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs the comparing program, so that xtask need not link every kernel. It runs in the caller's
/// folder, to which paths are relative.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut program = Command::new(crate::example("conformance")?);
    program.args(&args.rest);
    if !args.gpu && args.rest.iter().any(|arg| arg.ends_with("cuda")) {
        crate::test::use_emulated_driver(&mut program)?;
    }
    let status = program.status().context("cannot start the example `conformance`")?;
    // The program has reported the failures.
    std::process::exit(status.code().unwrap_or(1));
}
