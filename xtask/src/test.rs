//! `cargo xtask test`: every test of the workspace, doctests included.

use std::process::Command;

use anyhow::{Context, bail};

/// Flags of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Passed on to `cargo test`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let status = Command::new(env!("CARGO"))
        .current_dir(crate::root())
        .args(["test", "--workspace"])
        .args(&args.rest)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("tests failed");
    }
    Ok(())
}
