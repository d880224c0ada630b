//! The workspace's own tasks: `cargo xtask COMMAND`. One file per command.

// A command line tool talks to its terminal.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};

mod audit_kernels;
mod bench;
mod build_kernels;
mod circles;
mod conformance;
mod cross;
mod docs;
mod fuzz;
mod gpu_bundle;
mod headers;
mod kernel_cost;
mod links;
mod lint;
mod mpi;
mod new_op;
mod nvrtc;
mod properties;
mod prose;
mod sanitize;
mod snippets;
mod standalone;
mod stubs;
mod support_matrix;
mod test;
mod tidy;
mod tools;
mod verify_math;

/// The workspace's own tasks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check that kernels declared Portable contain nothing that could break the promise.
    AuditKernels(audit_kernels::Args),
    /// Time training steps and operators, in turns with PyTorch's.
    Bench(bench::Args),
    /// Compile kernels/*.cu to the committed PTX, or check that it is up to date.
    BuildKernels(build_kernels::Args),
    /// Compare results and gradients with reference figures.
    Conformance(conformance::Args),
    /// Compare golden digests on other architectures and systems, under emulators.
    Cross(cross::Args),
    /// Build the book, follow its links, run its programs.
    Docs(docs::Args),
    /// Give random bytes to every parser and random arguments to every operation.
    Fuzz(fuzz::Args),
    /// Pack the CUDA tests and benches for a machine with a GPU.
    GpuBundle(gpu_bundle::Args),
    /// Count the cost of the CUDA kernels on the emulated device, or check that it has not risen.
    KernelCost(kernel_cost::Args),
    /// Run Clippy over every feature, or over those that can be built here.
    Lint(lint::Args),
    /// Test ranks as processes under `mpirun`, or time their exchange.
    Mpi(mpi::Args),
    /// Write the skeleton of an operator: its gradient, both devices, its sample.
    NewOp(new_op::Args),
    /// Run many more cases of every property than the test suite does.
    Properties(properties::Args),
    /// Run tests under Miri, under AddressSanitizer and without overflow checks.
    Sanitize(sanitize::Args),
    /// Package every crate, and build the program of each README against the packages.
    Standalone(standalone::Args),
    /// Write the table of kernels in docs/book/determinism.md, or check that it is up to date.
    SupportMatrix(support_matrix::Args),
    /// Run every test of the workspace.
    Test(test::Args),
    /// Check the rules that the compiler does not check.
    Tidy(tidy::Args),
    /// Compare the f32 functions with an independent library on all 2^32 inputs.
    VerifyMath(verify_math::Args),
}

fn main() -> anyhow::Result<()> {
    let result = match Cli::parse().command {
        Task::AuditKernels(args) => audit_kernels::run(args),
        Task::Bench(args) => bench::run(&args),
        Task::BuildKernels(args) => build_kernels::run(args),
        Task::Conformance(args) => conformance::run(&args),
        Task::Cross(args) => cross::run(&args),
        Task::Docs(args) => docs::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::GpuBundle(args) => gpu_bundle::run(args),
        Task::KernelCost(args) => kernel_cost::run(&args),
        Task::Lint(args) => lint::run(&args),
        Task::Mpi(args) => mpi::run(&args),
        Task::NewOp(args) => new_op::run(&args),
        Task::Properties(args) => properties::run(&args),
        Task::Sanitize(args) => sanitize::run(&args),
        Task::Standalone(args) => standalone::run(&args),
        Task::SupportMatrix(args) => support_matrix::run(&args),
        Task::Test(args) => test::run(args),
        Task::Tidy(args) => tidy::run(&args),
        Task::VerifyMath(args) => verify_math::run(args),
    };
    if let Err(error) = &result
        && let Some(missing) = error.downcast_ref::<tools::Missing>()
    {
        eprintln!("SKIPPED, tools are missing: {missing}");
        std::process::exit(tools::SKIPPED);
    }
    result
}

/// Returns the workspace's root folder.
fn root() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask has a parent folder")
}

/// Returns Cargo's target folder.
fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Builds an example of the workspace and returns its path.
fn example(name: &str) -> anyhow::Result<PathBuf> {
    build("--example", name)?;
    Ok(target().join("debug/examples").join(name).with_extension(env::consts::EXE_EXTENSION))
}

/// Builds a program of the workspace, with the test of the same name, and returns its path.
fn program(name: &str) -> anyhow::Result<PathBuf> {
    build("--test", name)?;
    Ok(target().join("debug").join(name).with_extension(env::consts::EXE_EXTENSION))
}

/// Builds one target of the workspace. It builds a test or an example of the whole workspace, so
/// that the crates below have the same features as in all tests and are built once.
fn build(kind: &str, name: &str) -> anyhow::Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["build", "--quiet", "--workspace", kind, name]);
    if !cargo.status().context("cannot start cargo")?.success() {
        bail!("cannot build `{name}`");
    }
    Ok(())
}
