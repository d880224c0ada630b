//! `cargo xtask test`: every test of the workspace, doctests included.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use samebits_numerics::simd::{self, Level};

use crate::build_kernels::{self, Manifest};
use crate::tools;

/// Flags of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run the CUDA tests on this machine's GPU instead of the emulated device.
    #[arg(long)]
    gpu: bool,
    /// Arguments passed on to `cargo test`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let mut tests = tools::cargo();
    tests.args(["test", "--workspace"]);
    if !args.rest.iter().any(|arg| arg == "--no-fail-fast") {
        tests.arg("--no-fail-fast");
    }
    tests.args(&args.rest);
    if !args.gpu {
        use_emulated_driver(&mut tests)?;
    }
    let mut running = tests.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let output = running.stdout.take().context("cargo has no output")?;
    let failed = passed_on(BufReader::new(output), &mut io::stdout().lock())?;
    let passed = running.wait().context("cannot wait for cargo")?.success();
    println!("{}", compared(simd::supported()));
    if !passed {
        bail!("{}", summary(&failed));
    }
    Ok(())
}

/// Copies the output of test programs line by line and returns the names of failed tests.
fn passed_on(mut from: impl BufRead, to: &mut impl Write) -> io::Result<Vec<String>> {
    let (mut failed, mut listed) = (Vec::new(), Vec::new());
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text == "failures:" {
            // A program prints this line twice: above the output of its tests, and above their
            // names.
            listed.clear();
        } else if let Some(name) = text.strip_prefix("    ") {
            listed.push(name.to_owned());
        } else if text.starts_with("test result: FAILED") {
            failed.append(&mut listed);
        }
        line.clear();
    }
    Ok(failed)
}

/// Returns the last lines of a run with failures. Cargo has just named the programs that failed.
fn summary(failed: &[String]) -> String {
    match failed {
        [] => "a test program did not build, or ended before its tests did: see cargo's list above"
            .into(),
        _ => format!("{} tests failed:\n    {}", failed.len(), failed.join("\n    ")),
    }
}

/// Returns the last line of a run: the SIMD levels compared on this CPU, and those that were not.
fn compared(supported: Level) -> String {
    let names = |has: bool| {
        let levels = Level::ALL.into_iter().filter(|&level| (level <= supported) == has);
        levels.map(Level::name).collect::<Vec<_>>().join(", ")
    };
    match names(false) {
        none if none.is_empty() => format!("SIMD levels compared: {}", names(true)),
        not => format!("SIMD levels compared: {}. NOT COMPARED on this CPU: {not}", names(true)),
    }
}

/// Builds the emulated CUDA driver and makes `program` find it before any other, with the registers
/// of the committed kernels.
pub(crate) fn use_emulated_driver(program: &mut Command) -> Result<()> {
    let others = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folder = emulated_driver()?;
    let registers = folder.join("registers");
    std::fs::write(&registers, register_table(&build_kernels::read_manifest()?))?;
    let folders = std::iter::once(folder).chain(env::split_paths(&others));
    program.env("LD_LIBRARY_PATH", env::join_paths(folders)?);
    program.env("SAMEBITS_EMULATOR_REGISTERS", registers);
    Ok(())
}

/// Returns a line for each kernel: its name and the maximum number of registers over all
/// architectures.
fn register_table(manifest: &Manifest) -> String {
    let entries = manifest.family.iter().flat_map(|family| &family.entry);
    let rows = entries.filter_map(|entry| {
        let most = entry.resources.values().map(|resources| resources[0]).max()?;
        Some(format!("{} {most}\n", entry.name))
    });
    rows.collect()
}

/// Builds the emulated CUDA driver and copies it, as `libcuda.so`, to a folder of its own: in one
/// of Cargo's folders that name would shadow a real driver. Returns the folder.
fn emulated_driver() -> Result<PathBuf> {
    let package = "samebits-cuda-driver-emulator";
    let built = tools::cargo().args(["build", "--package", package]).status();
    if !built.context("cannot start cargo")?.success() {
        bail!("cannot build {package}");
    }
    let target = crate::target();
    let folder = target.join("emulator");
    std::fs::create_dir_all(&folder)?;
    let library = target.join("debug").join("libsamebits_cuda_driver_emulator.so");
    for name in ["libcuda.so", "libcuda.so.1"] {
        let place = folder.join(name);
        // Removed first: a process may have the old file mapped.
        let _ = std::fs::remove_file(&place);
        std::fs::copy(&library, &place)
            .with_context(|| format!("cannot copy {} to {}", library.display(), place.display()))?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_its_registers() {
        let table = register_table(&build_kernels::read_manifest().unwrap());
        assert!(table.lines().count() > 300, "{table}");
        assert!(table.lines().any(|line| line == "svd_f32 96"), "{table}");
    }

    #[test]
    fn failed_tests_are_named_over_all_programs() {
        let output = "\
running 2 tests
test a::one ... FAILED
test two ... ok

failures:

---- a::one stdout ----
thread 'a::one' panicked at tests/a.rs:1:1:
assertion failed
    left: 1

failures:
    a::one

test result: FAILED. 1 passed; 1 failed

test src/lib.rs - f (line 3) ... FAILED

failures:

---- src/lib.rs - f (line 3) stdout ----

failures:
    src/lib.rs - f (line 3)

test result: FAILED. 0 passed; 1 failed
";
        let mut copy = Vec::new();
        let failed = passed_on(output.as_bytes(), &mut copy).unwrap();
        assert_eq!(copy, output.as_bytes());
        assert_eq!(failed, ["a::one", "src/lib.rs - f (line 3)"]);
        assert_eq!(summary(&failed), "2 tests failed:\n    a::one\n    src/lib.rs - f (line 3)");
    }

    #[test]
    fn levels_that_were_not_compared_are_named() {
        assert_eq!(compared(Level::Avx512), "SIMD levels compared: portable, avx2, avx512");
        assert_eq!(
            compared(Level::Portable),
            "SIMD levels compared: portable. NOT COMPARED on this CPU: avx2, avx512"
        );
    }
}
