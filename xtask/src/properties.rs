//! `cargo xtask properties`: runs many more cases of the operations' properties than the tests do.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Flags of `cargo xtask properties`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The number of cases of each property.
    #[arg(long, default_value_t = 20_000)]
    cases: u32,
    /// Families of operations or names of properties; all by default.
    filter: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut tests = Command::new(env!("CARGO"));
    tests.current_dir(crate::root());
    tests.args(["test", "--package", "workspace-tests", "--test", "properties", "--"]);
    tests.args(&args.filter).env("PROPTEST_CASES", args.cases.to_string());
    if !tests.status().context("cannot start cargo")?.success() {
        bail!("a property does not hold");
    }
    Ok(())
}
