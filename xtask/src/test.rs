//! `cargo xtask test`: every test of the workspace, doctests included.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use samebits_numerics::simd::{self, Level};
use serde::Deserialize;

use crate::build_kernels::{self, Manifest};
use crate::tools;

/// Flags of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run the CUDA tests on this machine's GPU instead of the emulated device.
    #[arg(long)]
    gpu: bool,
    /// Arguments passed on to `cargo test`. Without any, test programs run two at a time.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let mut environment = tools::cargo();
    if !args.gpu {
        use_emulated_driver(&mut environment)?;
    }
    if !args.rest.is_empty() {
        return run_some(environment, &args.rest);
    }
    let programs = test_programs()?;
    let mut runs = vec![Run::doc_tests(&environment)];
    runs.extend(programs.into_iter().map(|program| Run::of_program(program, &environment)));
    let failed = run_side_by_side(runs, &mut io::stdout())?;
    println!("{}", compared(simd::supported()));
    if !failed.is_empty() {
        bail!("{}", summary(&failed));
    }
    Ok(())
}

/// Passes the arguments on to `cargo test`.
fn run_some(mut cargo: Command, rest: &[String]) -> Result<()> {
    cargo.args(["test", "--workspace"]);
    if !rest.iter().any(|arg| arg == "--no-fail-fast") {
        cargo.arg("--no-fail-fast");
    }
    cargo.args(rest).stdout(Stdio::piped());
    let mut running = cargo.spawn().context("cannot start cargo")?;
    let output = running.stdout.take().context("cargo has no output")?;
    let output = passed_on(BufReader::new(output), &mut io::stdout())?;
    let status = running.wait().context("cannot wait for cargo")?;
    println!("{}", compared(simd::supported()));
    if !status.success() {
        bail!("{}", summary(&failures("cargo test", &output, status)));
    }
    Ok(())
}

/// Copies output line by line as it comes, and returns all of it.
fn passed_on(mut from: impl BufRead, to: &mut impl Write) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut start = 0;
    while from.read_until(b'\n', &mut all)? > 0 {
        to.write_all(&all[start..])?;
        to.flush()?;
        start = all.len();
    }
    Ok(all)
}

/// A line of `cargo test --message-format json`.
#[derive(Debug, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact(Artifact),
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Target {
    src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// A program with tests.
#[derive(Debug)]
struct Program {
    executable: PathBuf,
    manifest_path: PathBuf,
    src_path: PathBuf,
}

/// Builds all test programs and returns them in the order in which Cargo finished them.
fn test_programs() -> Result<Vec<Program>> {
    let mut cargo = tools::cargo();
    cargo.args(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]);
    let mut building = cargo.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let output = building.stdout.take().context("cargo has no output")?;
    let programs = programs_in(BufReader::new(output))?;
    if !building.wait().context("cannot wait for cargo")?.success() {
        bail!("cannot build the tests: see the errors above");
    }
    Ok(programs)
}

/// Returns the test programs that Cargo's messages name.
fn programs_in(messages: impl BufRead) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in messages.lines() {
        if let Message::CompilerArtifact(Artifact {
            manifest_path,
            target: Target { src_path },
            profile: Profile { test: true },
            executable: Some(executable),
        }) = serde_json::from_str(&line?)?
        {
            programs.push(Program { executable, manifest_path, src_path });
        }
    }
    Ok(programs)
}

/// A test program, or Cargo with the doc tests.
#[derive(Debug)]
struct Run {
    name: String,
    command: Command,
}

impl Run {
    fn doc_tests(environment: &Command) -> Self {
        let mut command = tools::cargo();
        command.args(["test", "--workspace", "--doc", "--no-fail-fast"]);
        inherit(&mut command, environment);
        Self { name: "doc tests".into(), command }
    }

    /// Starts a program as Cargo does: in the folder of its package.
    fn of_program(program: Program, environment: &Command) -> Self {
        let mut command = Command::new(program.executable);
        let package = program.manifest_path.parent().unwrap_or(Path::new("."));
        command.current_dir(package).env("CARGO_MANIFEST_DIR", package).env("CARGO", env!("CARGO"));
        inherit(&mut command, environment);
        let source = program.src_path;
        let name = source.strip_prefix(crate::root()).unwrap_or(&source).display().to_string();
        Self { name, command }
    }
}

/// Copies the variables that were set for `from`.
fn inherit(command: &mut Command, from: &Command) {
    for (name, value) in from.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
}

/// The number of programs that run at a time. A program whose last long test needs one core leaves
/// the others to the next program.
const LANES: usize = 2;

/// Runs programs, writes the output of each to `out` when it ends, and returns the names of what
/// failed.
fn run_side_by_side(runs: Vec<Run>, out: &mut (impl Write + Send)) -> Result<Vec<String>> {
    let count = runs.len();
    let waiting = Mutex::new(runs.into_iter().enumerate());
    let ended = Mutex::new((out, Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let lane = || -> Result<()> {
        while let Some((i, mut run)) = next() {
            let start = Instant::now();
            let output = run.command.stdin(Stdio::null()).output();
            let output = output.with_context(|| format!("cannot start {}", run.name))?;
            let seconds = start.elapsed().as_secs_f64();
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            let (out, failed) = &mut *ended;
            writeln!(out, "\n== {} of {count}: {} ({seconds:.1} s)", i + 1, run.name)?;
            out.write_all(&output.stdout)?;
            out.write_all(&output.stderr)?;
            out.flush()?;
            if !output.status.success() {
                failed.extend(failures(&run.name, &output.stdout, output.status));
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| match lane.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    Ok(ended.into_inner().unwrap_or_else(PoisonError::into_inner).1)
}

/// Returns the names of the tests that failed in a program, or its own name and status if it does
/// not say.
fn failures(program: &str, output: &[u8], status: ExitStatus) -> Vec<String> {
    let tests = failed_tests(&String::from_utf8_lossy(output));
    if tests.is_empty() {
        return vec![format!("{program} ({status})")];
    }
    tests.iter().map(|test| format!("{program}: {test}")).collect()
}

/// Returns the names of failed tests in the output of test programs.
fn failed_tests(output: &str) -> Vec<String> {
    let (mut failed, mut listed) = (Vec::new(), Vec::new());
    for line in output.lines().map(str::trim_end) {
        if line == "failures:" {
            // A program prints this line twice: above the output of its tests, and above their
            // names.
            listed.clear();
        } else if let Some(name) = line.strip_prefix("    ") {
            listed.push(name.to_owned());
        } else if line.starts_with("test result: FAILED") {
            failed.append(&mut listed);
        }
    }
    failed
}

/// Returns the last lines of a run with failures.
fn summary(failed: &[String]) -> String {
    format!("{} failed:\n    {}", failed.len(), failed.join("\n    "))
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
        assert!(table.lines().any(|line| line == "svd_f32 128"), "{table}");
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
        let all = passed_on(output.as_bytes(), &mut copy).unwrap();
        assert_eq!([&copy, &all], [output.as_bytes(); 2]);
        let failed = failures("tests/a.rs", &all, ExitStatus::default());
        assert_eq!(failed, ["tests/a.rs: a::one", "tests/a.rs: src/lib.rs - f (line 3)"]);
        assert_eq!(
            summary(&failed),
            "2 failed:\n    tests/a.rs: a::one\n    tests/a.rs: src/lib.rs - f (line 3)"
        );
    }

    #[test]
    fn programs_that_end_before_their_tests_are_named() {
        let crash = ["kill -9 $$", "echo test result: ok; exit 3", "true"].map(|script| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Run { name: script.into(), command }
        });
        let mut out = Vec::new();
        let mut failed = run_side_by_side(crash.into(), &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains(" of 3: true ("), "each has its line");
        failed.sort();
        assert_eq!(
            failed,
            ["echo test result: ok; exit 3 (exit status: 3)", "kill -9 $$ (signal: 9 (SIGKILL))"]
        );
    }

    #[test]
    fn test_programs_are_read_from_the_messages_of_cargo() {
        let line = |executable: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/Cargo.toml","target":{{"src_path":"/a/t.rs"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let messages = [
            line("null", false),
            r#"{"reason":"build-script-executed","package_id":"a"}"#.into(),
            line(r#""/target/t""#, true),
            line(r#""/target/example""#, false),
            r#"{"reason":"build-finished","success":true}"#.into(),
        ];
        let programs = programs_in(messages.join("\n").as_bytes()).unwrap();
        let [program] = programs.as_slice() else { panic!("{programs:?}") };
        assert_eq!(program.executable, Path::new("/target/t"));
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
