//! `cargo xtask mpi`: ranks that are processes, under `mpirun`.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::tools;

/// Flags of `cargo xtask mpi`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Time the exchange beside `MPI_Allreduce`, by turns, instead.
    #[arg(long)]
    bench: bool,
}

/// What building and running with MPI needs on Debian.
const PACKAGES: &[&str] = &["openmpi-bin", "libopenmpi-dev", "libclang-dev"];

/// Faults of rank 1, and what the job must say.
const FAULTS: &[(&str, &str)] = &[
    ("unlike", "one seed, but rank 1 differ"),
    ("panic", "rank 1 ends the job: it panicked"),
    ("abort", "rank 1 ends the job: batch 7: no such file"),
    ("hang", "rank 1 has not answered rank"),
    ("exit", "exit code"),
];

/// How long a job with a fault may take; a rank is given up after 3 s.
const FAULT_ENDS: Duration = Duration::from_secs(20);

pub(crate) fn run(args: &Args) -> Result<()> {
    install()?;
    if args.bench {
        let bench = built(&["--bench", "exchange"])?;
        let output = mpirun(2, &bench, "")?;
        print!("{}", String::from_utf8_lossy(&output.stdout));
        ensure!(output.status.success(), "mpirun: {}", output.status);
        return Ok(());
    }
    let test = built(&["--test", "mpi"])?;
    for world in [1, 2, 4] {
        let said = expect(world, &test, "sum", 0)?;
        let expected = format!("same bits on {world} ranks");
        ensure!(said.contains(&expected), "{world} ranks do not say {expected:?}: {said}");
    }
    // On 2 or 4 ranks the library may happen to add in the order of the tree.
    expect(3, &test, "all-reduce", 0)?;
    for (case, named) in FAULTS {
        let began = Instant::now();
        let output = mpirun(3, &test, case)?;
        let said = text(&output);
        ensure!(!output.status.success(), "{case}: the job ends well: {said}");
        ensure!(said.contains(named), "{case}: the job does not say {named:?}: {said}");
        ensure!(began.elapsed() < FAULT_ENDS, "{case}: the job took {:?}", began.elapsed());
        println!("-- {case}: ended after {:.1?}", began.elapsed());
    }
    println!("mpi: no findings");
    Ok(())
}

/// Installs what building and running with MPI needs.
pub(crate) fn install() -> Result<()> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let holds_libclang = |folder: PathBuf| {
        let files = std::fs::read_dir(folder.join("lib")).into_iter().flatten().flatten();
        files
            .map(|file| file.file_name())
            .any(|name| name.as_encoded_bytes().starts_with(b"libclang"))
    };
    let found = std::env::var_os("LIBCLANG_PATH").is_some()
        || folders.map(|folder| folder.path()).any(holds_libclang);
    // A library is no program on the path.
    let programs: &[&str] = if found { &["mpirun", "mpicc"] } else { &["libclang.so"] };
    tools::debian(programs, PACKAGES)
}

/// Builds a program with MPI and returns its path. Of the whole workspace, because then the crates
/// below have the features that they have for all the tests.
fn built(target: &[&str]) -> Result<PathBuf> {
    let mut cargo = tools::cargo();
    let verb = if target.contains(&"--bench") { "bench" } else { "test" };
    cargo.args([verb, "--no-run", "--workspace", "--features", "samebits-distributed/mpi"]);
    cargo.args(target);
    let output = cargo.arg("--message-format=json").output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cannot build: {}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut programs = messages.lines().rev().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    programs.next().context("cargo names no program")
}

fn mpirun(world: usize, program: &PathBuf, case: &str) -> Result<Output> {
    let mut mpirun = Command::new("mpirun");
    mpirun.args(["--oversubscribe", "--allow-run-as-root", "-n", &world.to_string()]);
    mpirun.arg(program).args(Some(case).filter(|case| !case.is_empty()));
    // A panic of a rank is part of a case.
    mpirun.env_remove("RUST_BACKTRACE");
    mpirun.output().context("cannot start mpirun")
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// Runs a case that must end with this status, and returns what it said.
fn expect(world: usize, program: &PathBuf, case: &str, status: i32) -> Result<String> {
    println!("-- {case} on {world} ranks");
    let output = mpirun(world, program, case)?;
    if output.status.code() != Some(status) {
        bail!("{case} on {world} ranks: {}: {}", output.status, text(&output));
    }
    Ok(text(&output))
}
