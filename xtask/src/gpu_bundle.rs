//! `cargo xtask gpu-bundle`: packs tests and benches with a script, for a machine that has an NVIDIA
//! GPU and its driver and nothing else.

mod report;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::test::use_emulated_driver;
use crate::{bench, tools};
use bench::cases::{self, Scale};

/// The maximum size of the archive, so that it can be transferred.
const MOST_BYTES: u64 = 40 << 20;

/// The folder within the archive.
const NAME: &str = "gpu-bundle";

/// The figures that the test of the devices reads, below the folder of the tests.
const REFERENCE: &str = "reference/torch.safetensors";

/// The emulated device runs cases that are so many times smaller.
const EMULATED: Scale = Scale(1 << 14);

const SCRIPT: &str = include_str!("gpu_bundle/run.sh");

/// Flags of `cargo xtask gpu-bundle`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The archive to write.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Unpack the archive elsewhere and run it on the emulated device for so many seconds.
    #[arg(long, value_name = "SECONDS")]
    rehearse: Option<u32>,
    /// Build nothing; print the tables of the results in this folder.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["out", "rehearse"])]
    report: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    if let Some(folder) = args.report {
        print!("{}", report::report(&folder)?);
        return Ok(());
    }
    let archive = args.out.unwrap_or_else(|| crate::target().join(format!("{NAME}.tar.xz")));
    pack(&archive)?;
    let bytes = fs::metadata(&archive)?.len();
    ensure!(
        bytes <= MOST_BYTES,
        "the archive has {bytes} bytes, more than the {MOST_BYTES} that it may have"
    );
    eprintln!(
        "{:.1} MiB: {}\nOn the machine with the GPU: tar -xJf {NAME}.tar.xz && {NAME}/run.sh\n\
         Then here: cargo xtask gpu-bundle --report FOLDER",
        bytes as f64 / f64::from(1 << 20),
        archive.display()
    );
    match args.rehearse {
        Some(seconds) => rehearse(&archive, seconds),
        None => Ok(()),
    }
}

/// Builds everything and writes the archive.
fn pack(archive: &Path) -> Result<()> {
    let folder = crate::target().join(NAME);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
    let samebits = ["build", "--release", "--package", "samebits-cli"];
    // Another package has a test of this name.
    let others = "samebits-cpu-kernels";
    let kernels =
        ["test", "--release", "--no-run", "--workspace", "--exclude", others, "--test", "kernels"];
    let devices = ["test", "--release", "--no-run", "--workspace", "--test", "devices"];
    for (built, name) in [
        (build(&samebits, "samebits-cli")?, "samebits"),
        (build(&kernels, "samebits-cuda-kernels")?, "kernels"),
        (build(&devices, "workspace-tests")?, "devices"),
        (bench::build("random")?, "cases"),
    ] {
        let place = bin.join(name);
        fs::copy(&built, &place).with_context(|| format!("cannot copy {}", built.display()))?;
        succeed(Command::new("strip").arg(&place))?;
    }
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    put("run.sh", SCRIPT)?;
    put("kernels.txt", &kernel_families(&bin.join("kernels"))?)?;
    put("verify.txt", &corpus_families()?)?;
    put("families.txt", &joined(&cases::families()))?;
    put("cases.jsonl", &joined(&cases::questions(Scale(1))))?;
    fs::create_dir(folder.join("reference"))?;
    for (from, name) in [("python/benchmarks", "random_cases.py"), ("tests", REFERENCE)] {
        fs::copy(crate::root().join(from).join(name), folder.join(name))?;
    }
    executable(&folder.join("run.sh"))?;
    succeed(Command::new("tar").arg("-cJf").arg(archive).arg("-C").arg(crate::target()).arg(NAME))
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}

/// Returns what a program prints.
fn said(command: &mut Command) -> Result<String> {
    command.stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the lines of a file.
fn joined(lines: &[impl std::fmt::Display]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn executable(path: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    let _ = path;
    Ok(())
}

/// Calls cargo and returns the executable that it builds for `package`.
fn build(arguments: &[&str], package: &str) -> Result<PathBuf> {
    let mut cargo = tools::cargo();
    let messages = said(cargo.args(arguments).arg("--message-format=json"))?;
    let folder = match package.strip_prefix("samebits-") {
        Some(name) => crate::root().join("crates").join(name),
        None => crate::root().join("tests"),
    };
    built(&messages, &folder)
        .with_context(|| format!("cargo {} built no program of {package}", arguments.join(" ")))
}

/// Returns the executable that cargo's messages name for the package in `folder`.
fn built(messages: &str, folder: &Path) -> Option<PathBuf> {
    messages.lines().rev().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let path = message["executable"].as_str()?;
        (manifest.parent() == Some(folder)).then(|| PathBuf::from(path))
    })
}

/// Returns the modules of the kernels' tests, a line each.
fn kernel_families(program: &Path) -> Result<String> {
    let listed = said(Command::new(program).arg("--list"))?;
    let families: BTreeSet<&str> =
        listed.lines().filter_map(|line| Some(line.split_once("::")?.0)).collect();
    Ok(joined(&Vec::from_iter(families)))
}

/// Returns the families of the corpus of `samebits verify`, a line each.
fn corpus_families() -> Result<String> {
    let folder = crate::root().join("crates/verify/golden");
    let mut families = BTreeSet::new();
    for file in
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        families.extend(file?.path().file_stem().and_then(|stem| Some(stem.to_str()?.to_owned())));
    }
    Ok(joined(&Vec::from_iter(families)))
}

/// Unpacks the archive in a folder of its own, runs it there on the emulated device, and prints its
/// results. The cases are small ones.
fn rehearse(archive: &Path, seconds: u32) -> Result<()> {
    let archive = archive.canonicalize()?;
    let folder = std::env::temp_dir().join(format!("{NAME}-{}", std::process::id()));
    let results = folder.join("out");
    fs::create_dir_all(&results)?;
    succeed(Command::new("tar").arg("-xJf").arg(&archive).arg("-C").arg(&folder))?;
    let unpacked = folder.join(NAME);
    fs::write(unpacked.join("cases.jsonl"), joined(&cases::questions(EMULATED)))?;
    let mut script = Command::new(unpacked.join("run.sh"));
    script.current_dir(&folder).args(["--seconds", &seconds.to_string()]);
    script.env("OUT", &results).env("STEPS", "1").env("SLOW", "4");
    script.env("GPT", "--context 16 --width 32 --layers 1 --batch-size 2");
    // Cargo's variable, which that machine lacks, would lead tests to the files of this package.
    script.env_remove("CARGO_MANIFEST_DIR");
    use_emulated_driver(&mut script)?;
    // The emulated machine lacks some tools, so a status of 1 is no error of the script.
    let status = script.status().context("cannot start run.sh")?;
    ensure!(matches!(status.code(), Some(0 | 1)), "run.sh ended with {status}");
    println!("\n{}", report::report(&results)?);
    println!("| file | bytes |\n|---|---|");
    let mut files: Vec<_> = fs::read_dir(&results)?.collect::<std::io::Result<_>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    for file in files {
        println!("| {} | {} |", file.file_name().display(), file.metadata()?.len());
    }
    fs::remove_dir_all(folder)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/crates/a/Cargo.toml\",\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/crates/b/Cargo.toml\",\"executable\":\"/t/kernels-0\"}\n\
            {\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/crates/a/Cargo.toml\",\"executable\":\"/t/kernels-1\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(built(messages, Path::new("/w/crates/a")), Some("/t/kernels-1".into()));
        assert_eq!(built(messages, Path::new("/w/crates/c")), None);
    }

    #[test]
    fn the_corpus_has_families() {
        let families = corpus_families().unwrap();
        assert!(families.contains("norm\n") && families.lines().count() > 10, "{families}");
    }

    /// Runs the script with programs that stand in for the packed ones and for the tools.
    #[cfg(unix)]
    #[test]
    fn parts_run_in_their_time_and_leave_results() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            executable(&path).unwrap();
        };
        put("run.sh", SCRIPT);
        put("kernels.txt", "good\nbad\nnone\nslow\n");
        put("verify.txt", "norm\n");
        put("families.txt", "sort\nscan\n");
        put("cases.jsonl", "{\"family\":\"scan\"}\n{\"family\":\"sort\"}\n");
        put("tools/nvidia-smi", "#!/bin/sh\necho 'Some GPU'\n");
        put("tools/python3", "#!/bin/sh\nexit 1\n");
        put("bin/samebits", "#!/bin/sh\necho $*\n");
        put("bin/devices", "#!/bin/sh\necho 'test result: ok. 9 passed'\n");
        put("bin/cases", "#!/bin/sh\nread line && echo \"$line\"\n");
        put(
            "bin/kernels",
            "#!/bin/sh\ncase $1 in\n\
             good::) echo 'test result: ok. 3 passed' ;;\n\
             bad::) echo \"thread 'x' panicked at \\\"here\\\"\" >&2; exit 101 ;;\n\
             none::) echo 'returning early: no device' ;;\n\
             slow::) trap '' TERM; sleep 30 ;;\nesac\n",
        );
        let run = |arguments: &[&str], out: &str| {
            let path = std::env::var("PATH").unwrap();
            let status = Command::new("bash")
                .arg(folder.path().join("run.sh"))
                .args(arguments)
                .env("OUT", folder.path().join(out))
                .env("GRACE", "1")
                .env("PATH", format!("{}:{path}", folder.path().join("tools").display()))
                .status()
                .unwrap();
            let text = |name: &str| {
                fs::read_to_string(folder.path().join(out).join(name)).unwrap_or_default()
            };
            (status.code(), text("report.jsonl"), text("bench.jsonl"), text("environment.log"))
        };
        let (status, lines, cases, environment) =
            run(&["environment", "verify", "bench", "pytorch"], "a");
        assert_eq!(status, Some(0), "{lines}");
        assert!(environment.contains("Some GPU") && environment.contains("env"), "{environment}");
        assert_eq!(cases, "{\"family\":\"sort\"}\n{\"family\":\"scan\"}\n");
        for line in lines.lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
        }
        assert!(lines.contains("\"part\":\"pytorch\",\"name\":\"all\",\"status\":\"skipped\""));

        let (status, lines, ..) = run(&["--seconds", "2", "kernels"], "b");
        assert_eq!(status, Some(1), "{lines}");
        for line in [
            "\"name\":\"good\",\"status\":\"passed\",\"code\":0",
            "\"name\":\"bad\",\"status\":\"failed\",\"code\":101",
            "panicked at here",
            "\"name\":\"none\",\"status\":\"no device\"",
            "\"name\":\"slow\",\"status\":\"stopped\",\"code\":137",
        ] {
            assert!(lines.contains(line), "{line}\n{lines}");
        }
        // Later parts keep their time, and what has no time says so.
        let (_, lines, ..) = run(&["--seconds", "0", "verify"], "c");
        assert!(lines.contains("\"name\":\"norm\",\"status\":\"no time\""), "{lines}");
        assert_eq!(run(&["nothing"], "d").0, Some(2));
    }
}
