//! The workspace's own tasks: `cargo xtask COMMAND`. One file per command.

// A command line tool talks to its terminal.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use clap::{Parser, Subcommand};

mod audit_kernels;
mod build_kernels;
mod conformance;
mod gpu_bundle;
mod nvrtc;
mod properties;
mod support_matrix;
mod test;
mod tidy;
mod verify_math;

/// The workspace's own tasks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check that kernels declared Portable hold nothing that could break the promise.
    AuditKernels(audit_kernels::Args),
    /// Compile kernels/*.cu to the committed PTX, or check that it is up to date.
    BuildKernels(build_kernels::Args),
    /// Compare results and gradients with reference figures.
    Conformance(conformance::Args),
    /// Pack the CUDA tests and benches for a machine with a GPU.
    GpuBundle(gpu_bundle::Args),
    /// Run many more cases of every property than the test suite does.
    Properties(properties::Args),
    /// Write the table of kernels in docs/determinism.md, or check that it is up to date.
    SupportMatrix(support_matrix::Args),
    /// Run every test of the workspace.
    Test(test::Args),
    /// Check the rules that no compiler checks.
    Tidy(tidy::Args),
    /// Compare the f32 functions with an independent library on all 2^32 inputs.
    VerifyMath(verify_math::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::AuditKernels(args) => audit_kernels::run(args),
        Command::BuildKernels(args) => build_kernels::run(args),
        Command::Conformance(args) => conformance::run(&args),
        Command::GpuBundle(args) => gpu_bundle::run(args),
        Command::Properties(args) => properties::run(&args),
        Command::SupportMatrix(args) => support_matrix::run(&args),
        Command::Test(args) => test::run(args),
        Command::Tidy(args) => tidy::run(&args),
        Command::VerifyMath(args) => verify_math::run(args),
    }
}

/// The workspace's root folder.
fn root() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask has a parent folder")
}
