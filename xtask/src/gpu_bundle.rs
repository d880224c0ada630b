//! `cargo xtask gpu-bundle`: test and bench binaries with a script, for a machine that has an
//! NVIDIA GPU and a driver and nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// The bundle must pass through narrow doors.
const MOST_BYTES: u64 = 60 << 20;

/// Flags of `cargo xtask gpu-bundle`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to put the bundle; replaced if it is there.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Packages whose test and bench binaries are packed.
    #[arg(long = "package", short = 'p', default_values_t = [String::from("samebits-cuda-kernels")])]
    packages: Vec<String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let out = args.out.unwrap_or_else(|| crate::target().join("gpu-bundle"));
    if out.exists() {
        // Only something that this command made may be deleted.
        ensure!(
            out.join("run.sh").exists() || out.read_dir()?.next().is_none(),
            "{} exists and is no bundle; name another folder with --out",
            out.display()
        );
        std::fs::remove_dir_all(&out)?;
    }
    std::fs::create_dir_all(out.join("bin"))
        .with_context(|| format!("cannot create {}", out.display()))?;

    let mut binaries = Vec::new();
    for (kind, command) in [("test", &["test", "--release"][..]), ("bench", &["bench"])] {
        for built in build(command, &args.packages)? {
            // The same file can be both: a library's unit tests are built for `bench` too.
            let name = format!("{kind}-{}", stem(&built));
            std::fs::copy(&built, out.join("bin").join(&name))
                .with_context(|| format!("cannot copy {}", built.display()))?;
            binaries.push(name);
        }
    }
    ensure!(!binaries.is_empty(), "{:?} have no test or bench binaries", args.packages);
    binaries.sort();
    std::fs::write(out.join("run.sh"), script(&binaries))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(out.join("run.sh"), executable)?;
    }
    let bytes = size(&out)?;
    if bytes > MOST_BYTES {
        bail!("the bundle has {bytes} bytes, more than the {MOST_BYTES} that it may have");
    }
    eprintln!(
        "{} binaries, {:.1} MiB: copy {} to a machine with an NVIDIA driver and run run.sh there",
        binaries.len(),
        bytes as f64 / f64::from(1 << 20),
        out.display()
    );
    Ok(())
}

/// Builds binaries without symbols and returns their paths.
fn build(command: &[&str], packages: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(crate::root())
        .args(command)
        .args(["--no-run", "--message-format=json"])
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_PROFILE_BENCH_STRIP", "symbols");
    for package in packages {
        cargo.args(["-p", package]);
    }
    if command[0] == "bench" {
        // Unit tests are in the bundle already.
        cargo.arg("--benches");
    }
    let output =
        cargo.stderr(std::process::Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo {} failed", command.join(" "));
    Ok(executables(&String::from_utf8_lossy(&output.stdout), command[0] == "bench"))
}

/// The executables that cargo's messages name; for `bench`, those of bench targets only.
fn executables(messages: &str, benches: bool) -> Vec<PathBuf> {
    messages
        .lines()
        .filter(|line| line.contains("\"reason\":\"compiler-artifact\""))
        .filter(|line| !benches || line.contains("\"kind\":[\"bench\"]"))
        .filter_map(|line| {
            let (_, rest) = line.split_once("\"executable\":\"")?;
            Some(PathBuf::from(rest.split('"').next()?))
        })
        .collect()
}

/// A file's name without the hash that cargo appends.
fn stem(path: &Path) -> String {
    let name = path.file_name().and_then(|s| s.to_str()).unwrap_or("binary");
    name.rsplit_once('-').map_or(name, |(stem, _)| stem).to_owned()
}

fn size(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { size(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}

/// What runs on the other machine.
fn script(binaries: &[String]) -> String {
    let list = |kind: &str| -> String {
        binaries
            .iter()
            .filter(|name| name.starts_with(kind))
            .map(|name| format!(" {name}"))
            .collect()
    };
    format!(
        r#"#!/usr/bin/env bash
# Runs the CUDA tests on this machine's GPU and writes report.txt. Needs NVIDIA's driver alone.
# With --bench it measures too; with --sanitize it repeats the tests under compute-sanitizer.
set -uo pipefail
cd "$(dirname "$0")"
report=report.txt
{{
  date -u '+date: %Y-%m-%d %H:%M UTC'
  nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader | sed 's/^/device: /'
}} > "$report" || {{ echo "nvidia-smi does not work: is the driver installed?" >&2; exit 1; }}
failed=0
for name in{tests}; do
  # One thread: tests that compare schedules or memory must not disturb each other.
  ./bin/"$name" --test-threads=1 --nocapture > "$name.log" 2>&1
  status=$?
  if [ $status -ne 0 ] || grep -q 'returning early' "$name.log"; then
    failed=1
    echo "$name: FAILED (see $name.log)" | tee -a "$report"
  else
    echo "$name: $(grep '^test result' "$name.log")" | tee -a "$report"
  fi
  if [ "${{1:-}}" = --sanitize ]; then
    for tool in memcheck racecheck synccheck initcheck; do
      if compute-sanitizer --tool "$tool" --error-exitcode 9 ./bin/"$name" --test-threads=1 \
        > "$name.$tool.log" 2>&1; then
        echo "$name: $tool clean" | tee -a "$report"
      else
        failed=1
        echo "$name: $tool FAILED (see $name.$tool.log)" | tee -a "$report"
      fi
    done
  fi
done
if [ "${{1:-}}" = --bench ]; then
  for name in{benches}; do
    ./bin/"$name" --bench | tee "$name.log"
  done
fi
exit $failed
"#,
        tests = list("test-"),
        benches = list("bench-"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_found_in_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"kind\":[\"lib\"]},\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"kind\":[\"test\"]},\"executable\":\"/t/deps/kernels-0a1b\",\"fresh\":true}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"kind\":[\"bench\"]},\"executable\":\"/t/deps/scatter-0a1b\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        let all = executables(messages, false);
        assert_eq!(all.len(), 2);
        assert_eq!(stem(&all[0]), "kernels");
        assert_eq!(executables(messages, true), [PathBuf::from("/t/deps/scatter-0a1b")]);
    }

    #[test]
    fn the_script_runs_every_test() {
        let text = script(&["bench-scatter".to_owned(), "test-kernels".to_owned()]);
        assert!(text.contains("for name in test-kernels; do"));
        assert!(text.contains("for name in bench-scatter; do"));
        let none = script(&["test-kernels".to_owned()]);
        assert!(none.contains("for name in; do"), "an empty list is valid bash");
    }
}
