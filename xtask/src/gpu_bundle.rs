//! `cargo xtask gpu-bundle`: packs test and bench binaries with a script, for a machine that has an
//! NVIDIA GPU and its driver and nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// The maximum size of the bundle, so that it can be transferred.
const MOST_BYTES: u64 = 200 << 20;

/// Flags of `cargo xtask gpu-bundle`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of the bundle; replaced if it exists.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A program for the other machine; the most valuable come first.
struct Part {
    /// The name of the part and of its binary in the bundle.
    name: &'static str,
    /// The property that it tests.
    shows: &'static str,
    /// The default time limit in seconds.
    seconds: u32,
    /// The arguments with which cargo builds it.
    build: &'static [&'static str],
    /// The arguments of its binary.
    arguments: &'static str,
}

const PARTS: &[Part] = &[
    Part {
        name: "kernels",
        shows: "every kernel against its plain definition",
        seconds: 900,
        build: &["test", "--release", "-p", "samebits-cuda-kernels", "--test", "kernels"],
        // One thread: tests that compare schedules or memory must not disturb each other.
        arguments: "--test-threads=1 --nocapture",
    },
    Part {
        name: "devices",
        shows: "the bits of the CPU: every sample of every operation, every reference figure",
        seconds: 1800,
        build: &["test", "--release", "-p", "workspace-tests", "--test", "devices"],
        arguments: "--test-threads=1 --nocapture",
    },
    Part {
        name: "variants",
        shows: "times of deterministic and atomic forms",
        seconds: 900,
        build: &["bench", "-p", "samebits-cuda-kernels", "--bench", "variants"],
        arguments: "--bench",
    },
];

/// The kernel tests that compute-sanitizer repeats: those with the most shared memory, barriers and
/// atomics. All tests would take hours.
const SANITIZED: &str = "scatter:: sort:: scan:: conv::";

/// The file that `devices` reads in its working folder.
const REFERENCE: &str = "reference/torch.safetensors";

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let out = args.out.unwrap_or_else(|| crate::target().join("gpu-bundle"));
    if out.exists() {
        // Delete only a folder that this command made.
        ensure!(
            out.join("run.sh").exists() || out.read_dir()?.next().is_none(),
            "{} exists and is no bundle; name another folder with --out",
            out.display()
        );
        std::fs::remove_dir_all(&out)?;
    }
    for folder in ["bin", "reference"] {
        let folder = out.join(folder);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    for part in PARTS {
        let built = build(part)?;
        std::fs::copy(&built, out.join("bin").join(part.name))
            .with_context(|| format!("cannot copy {}", built.display()))?;
    }
    let reference = crate::root().join("tests").join(REFERENCE);
    std::fs::copy(&reference, out.join(REFERENCE))
        .with_context(|| format!("cannot copy {}", reference.display()))?;
    std::fs::write(out.join("run.sh"), script())?;
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
        "{:.1} MiB: copy {} to a machine with an NVIDIA driver and run run.sh there",
        bytes as f64 / f64::from(1 << 20),
        out.display()
    );
    Ok(())
}

/// Builds a part's binary without symbols and returns its path.
fn build(part: &Part) -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(crate::root())
        .args(part.build)
        .args(["--no-run", "--message-format=json"])
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_PROFILE_BENCH_STRIP", "symbols");
    let output =
        cargo.stderr(std::process::Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo {} failed", part.build.join(" "));
    executable(&String::from_utf8_lossy(&output.stdout), part.name)
        .with_context(|| format!("cargo built no binary for {}", part.name))
}

/// Returns the executable of a target that cargo's messages name.
fn executable(messages: &str, target: &str) -> Option<PathBuf> {
    let line = messages.lines().find(|line| {
        line.contains("\"reason\":\"compiler-artifact\"")
            && line.contains(&format!("\"name\":\"{target}\""))
            && line.contains("\"executable\":\"")
    })?;
    let (_, rest) = line.split_once("\"executable\":\"")?;
    Some(PathBuf::from(rest.split('"').next()?))
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

/// Returns the script for the other machine.
fn script() -> String {
    let lines = |line: &dyn Fn(&Part) -> String| PARTS.iter().map(line).collect::<String>();
    let usage = lines(&|part| format!("#   {}={}: {}\n", part.name, part.seconds, part.shows));
    let all = lines(&|part| format!(" {}", part.name));
    let cases = lines(&|part| {
        let Part { name, seconds, arguments, .. } = part;
        format!("    {name}) default={seconds}; arguments=\"{arguments}\" ;;\n")
    });
    format!(
        r#"#!/usr/bin/env bash
# Runs samebits on this machine's GPU. Needs NVIDIA's driver alone.
#
#   ./run.sh [PART[=SECONDS]]..
#
# runs these parts, in this order and with these times if none is named:
#
{usage}#   sanitize=3600: some tests of kernels under compute-sanitizer; only if named
#
# results/PART.log is what a part says, and results/report.txt has a line as each part ends. A part
# whose time is over is stopped, and the next one starts. The status is 1 if a part failed.
set -uo pipefail
cd "$(dirname "$0")"
mkdir -p results
report=results/report.txt
{{
  date -u '+date: %Y-%m-%d %H:%M UTC'
  nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader | sed 's/^/device: /'
}} > "$report" || {{ echo "nvidia-smi does not work: is the driver installed?" >&2; exit 1; }}
failed=0

# A line of the report: part, status, log.
tell() {{
  local text
  if [ "$2" -eq 124 ]; then text="STOPPED after $4 s"
  elif [ "$2" -ne 0 ]; then text="FAILED with status $2"
  elif grep -q 'returning early' "$3"; then text="FAILED: it had no device"
  else text="$(grep '^test result' "$3" || echo done)"
  fi
  case "$text" in FAILED*|STOPPED*) failed=1 ;; esac
  echo "$1: $text ($3)" | tee -a "$report"
  grep -h 'never varied' "$3" | sed "s/^/$1: /" | tee -a "$report"
}}

[ $# -eq 0 ] && set --{all}
for wanted; do
  part=${{wanted%%=*}}
  case "$part" in
{cases}    sanitize) default=3600 ;;
    *) echo "run.sh: no part is called $part" >&2; exit 2 ;;
  esac
  seconds=$default
  [ "$part" != "$wanted" ] && seconds=${{wanted#*=}}
  if [ "$part" = sanitize ]; then
    end=$(($(date +%s) + seconds))
    for tool in memcheck racecheck synccheck initcheck; do
      left=$((end - $(date +%s)))
      [ "$left" -le 0 ] && {{ echo "sanitize: no time for $tool" | tee -a "$report"; continue; }}
      timeout "$left" compute-sanitizer --tool "$tool" --error-exitcode 9 ./bin/kernels         --test-threads=1 {SANITIZED} > "results/$tool.log" 2>&1
      tell "sanitize $tool" $? "results/$tool.log" "$left"
    done
    continue
  fi
  # shellcheck disable=SC2086
  timeout "$seconds" ./bin/"$part" $arguments > "results/$part.log" 2>&1
  tell "$part" $? "results/$part.log" "$seconds"
done
exit $failed
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_found_in_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"kernels\"},\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"other\"},\"executable\":\"/t/deps/other-0a1b\"}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"kernels\"},\"executable\":\"/t/deps/kernels-0a1b\",\"fresh\":true}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages, "kernels"), Some("/t/deps/kernels-0a1b".into()));
        assert_eq!(executable(messages, "devices"), None);
    }

    #[test]
    fn the_reference_figures_are_where_the_bundle_takes_them_from() {
        assert!(crate::root().join("tests").join(REFERENCE).exists());
    }

    /// Runs the script with programs that stand in for the parts and for the driver's tool.
    #[cfg(unix)]
    #[test]
    fn parts_run_in_their_time_and_leave_results() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("gpu-bundle-{}", std::process::id()));
        let put = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        put("run.sh", &script());
        put("tools/nvidia-smi", "#!/bin/sh\necho 'Some GPU, 1.2, 9.0'\n");
        put(
            "bin/kernels",
            "#!/bin/sh\necho 'test result: ok. 3 passed'; echo 'sum never varied'\n",
        );
        put("bin/devices", "#!/bin/sh\nsleep 30\n");
        put("bin/variants", "#!/bin/sh\necho returning early\n");
        let run = |arguments: &[&str]| {
            let path = std::env::var("PATH").unwrap();
            let status = Command::new("bash")
                .arg(folder.join("run.sh"))
                .args(arguments)
                .env("PATH", format!("{}:{path}", folder.join("tools").display()))
                .output()
                .unwrap()
                .status;
            (status.code(), std::fs::read_to_string(folder.join("results/report.txt")).unwrap())
        };
        let (status, report) = run(&["kernels", "devices=1", "variants"]);
        assert_eq!(status, Some(1), "{report}");
        for line in [
            "device: Some GPU, 1.2, 9.0",
            "kernels: test result: ok. 3 passed (results/kernels.log)",
            "kernels: sum never varied",
            "devices: STOPPED after 1 s (results/devices.log)",
            "variants: FAILED: it had no device (results/variants.log)",
        ] {
            assert!(report.contains(line), "{line}\n{report}");
        }
        assert_eq!(run(&["kernels"]).0, Some(0));
        assert_eq!(run(&["nothing"]).0, Some(2));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
