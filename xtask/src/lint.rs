//! `cargo xtask lint`: Clippy over every feature of the workspace.

use anyhow::{Context, Result, ensure};

use crate::{mpi, tools};

/// Flags of `cargo xtask lint`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Lints with all features; without MPI, with all but `mpi`, and reports that.
pub(crate) fn run(_: &Args) -> Result<()> {
    let tools = mpi::install();
    let mut clippy = tools::cargo();
    clippy.args(["clippy", "--quiet", "--workspace", "--all-targets"]);
    match tools {
        Ok(()) => clippy.arg("--all-features"),
        Err(_) => clippy.args(["--features", &features_without_mpi()?]),
    };
    tools::succeed("clippy", clippy.args(["--", "-D", "warnings"]))?;
    tools
}

/// Returns the features of all crates of the workspace, except those named `mpi`.
fn features_without_mpi() -> Result<String> {
    let output =
        tools::cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    ensure!(output.status.success(), "cargo metadata: {}", output.status);
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    let features = packages.iter().flat_map(|package| {
        let names = package["features"].as_object().into_iter().flat_map(|found| found.keys());
        let of = package["name"].as_str().unwrap_or_default();
        names.filter(|name| *name != "mpi").map(move |name| format!("{of}/{name}"))
    });
    Ok(features.collect::<Vec<_>>().join(","))
}
