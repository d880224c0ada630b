//! `cargo xtask cross`: compares golden digests on other architectures and systems, under
//! emulators.
//!
//! A foreign target has other floating-point hardware, no x86 instruction sets and another C
//! library, so it reveals results that depend on the platform.

use std::path::PathBuf;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::tools;

/// Flags of `cargo xtask cross`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run only generators and the training, compiled without optimisation.
    #[arg(long)]
    quick: bool,
}

/// A target that runs under an emulator.
struct Target {
    triple: &'static str,
    /// The Debian packages of linker, C library and emulator.
    packages: &'static [&'static str],
    /// The C compiler, which also links.
    linker: &'static str,
    /// The emulator and its options; nothing for a target of this machine.
    runner: &'static [&'static str],
}

const AARCH64: Target = Target {
    triple: "aarch64-unknown-linux-gnu",
    packages: &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user"],
    linker: "aarch64-linux-gnu-gcc",
    runner: &["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
};

/// A target whose C library has an `fma` that has not been checked, so only our own may be used.
const MUSL: Target = Target {
    triple: "x86_64-unknown-linux-musl",
    packages: &["gcc"],
    // Rust brings the C library, and the start of the program that belongs to it.
    linker: "gcc",
    runner: &[],
};

/// A target whose C library has an `fma` that rounds twice, so only our own may be used.
const WINDOWS: Target = Target {
    triple: "x86_64-pc-windows-gnu",
    packages: &["gcc-mingw-w64-x86-64", "wine", "wine64"],
    linker: "x86_64-w64-mingw32-gcc",
    runner: &["wine"],
};

/// Targets without an emulator here. That they compile is all that is known.
const COMPILE: &[&str] = &[
    "aarch64-apple-darwin",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "x86_64-pc-windows-msvc",
];

/// A target whose x87 unit rounds results to more bits than their type has.
const REFUSED: &str = "i686-unknown-linux-gnu";

/// A training run of the program, and the expected start of the weights' digest.
struct Training {
    task: &'static str,
    arguments: &'static [&'static str],
    /// Arguments after these.
    more: &'static [&'static str],
    golden: &'static str,
}

const WHOLE: Training = Training {
    task: "train",
    arguments: &["--max-steps", "8"],
    more: &[],
    golden: include_str!("../../crates/cli/tests/train.digest").trim_ascii(),
};

/// A few images in small batches, for unoptimised kernels.
const FEW: Training = Training {
    task: "train",
    arguments: &["--max-steps", "4", "--batch-size", "4", "--data", FEW_IMAGES],
    more: &[],
    golden: include_str!("../../crates/cli/tests/few.digest").trim_ascii(),
};

/// A small language model.
const GPT: Training = Training {
    task: "gpt",
    arguments: &include!("../../crates/cli/tests/gpt.arguments"),
    more: &[],
    golden: include_str!("../../crates/cli/tests/gpt.digest").trim_ascii(),
};

/// The same in mixed precision.
const GPT_BF16: Training = Training {
    more: &["--precision", "bf16"],
    golden: include_str!("../../crates/cli/tests/gpt-bf16.digest").trim_ascii(),
    ..GPT
};

const FEW_IMAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/cli/tests/few.csv");

pub(crate) fn run(args: &Args) -> Result<()> {
    // In the short form, optimising the kernels would take longer than running them.
    let (level, training) = if args.quick { ("0", FEW) } else { ("1", WHOLE) };
    AARCH64.prepare()?;
    let trainings = [training, GPT, GPT_BF16];
    AARCH64.train(level, &trainings)?;
    if args.quick {
        AARCH64.test(level, &["--package", "samebits-rng", "--test", "stability"])?;
    } else {
        AARCH64.test(level, &["--package", "samebits-numerics", "--package", "samebits-rng"])?;
        AARCH64.test(level, &["--package", "workspace-tests", "--test", "invariance"])?;
        for target in [MUSL, WINDOWS] {
            target.prepare()?;
            if target.runner == WINDOWS.runner {
                give_wine_its_library()?;
            }
            target.train(level, &trainings)?;
            target.test(level, &["--package", "samebits-numerics", "--package", "samebits-rng"])?;
        }
        for triple in COMPILE {
            compiles(triple)?;
        }
    }
    is_refused()?;
    println!("cross: the digests are those of x86-64");
    Ok(())
}

/// Returns the folder in which Wine looks for libraries that it lacks.
fn wine_path() -> PathBuf {
    crate::target().join("wine")
}

/// Builds the library of which a Rust program needs one function, and which Wine 8 lacks.
fn give_wine_its_library() -> Result<()> {
    let folder = wine_path();
    std::fs::create_dir_all(&folder)?;
    let source = crate::root().join("xtask/src/cross/bcryptprimitives.c");
    let mut compile = Command::new(WINDOWS.linker);
    compile.args(["-shared", "-o"]).arg(folder.join("bcryptprimitives.dll"));
    tools::succeed("bcryptprimitives.dll", compile.arg(source).arg("-ladvapi32"))
}

fn compiles(triple: &str) -> Result<()> {
    tools::target(triple)?;
    let mut check = tools::cargo();
    check.args(["check", "--quiet", "--workspace", "--exclude", "xtask", "--target", triple]);
    tools::succeed(&format!("{triple}: cargo check"), &mut check)
}

fn is_refused() -> Result<()> {
    println!("-- {REFUSED} is refused");
    tools::target(REFUSED)?;
    let mut check = tools::cargo();
    check.args(["check", "--quiet", "--package", "samebits-numerics", "--target", REFUSED]);
    let output = check.output().context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && said.contains("x87"),
        "{REFUSED} must be refused at compile time with a word about x87, but cargo says:\n{said}"
    );
    Ok(())
}

impl Target {
    fn prepare(&self) -> Result<()> {
        tools::target(self.triple)?;
        let programs: Vec<&str> =
            [self.linker].into_iter().chain(self.runner.first().copied()).collect();
        tools::debian(&programs, self.packages)
    }

    /// Returns Cargo for this target, with this optimisation level.
    fn cargo(&self, level: &str, command: &str) -> Command {
        let mut cargo = tools::cargo();
        let name = self.triple.replace('-', "_").to_uppercase();
        cargo
            .env(format!("CARGO_TARGET_{name}_LINKER"), self.linker)
            .env(format!("CC_{}", name.to_lowercase()), self.linker)
            .env("CARGO_PROFILE_CROSS_OPT_LEVEL", level)
            // A test for Windows cannot ask Cargo for the folder of its snapshots.
            .env("INSTA_WORKSPACE_ROOT", crate::root())
            .env("WINEPATH", wine_path())
            .env("WINEDEBUG", "-all")
            .args([command, "--quiet", "--profile", "cross", "--target", self.triple]);
        if !self.runner.is_empty() {
            cargo.env(format!("CARGO_TARGET_{name}_RUNNER"), self.runner.join(" "));
        }
        cargo
    }

    fn test(&self, level: &str, which: &[&str]) -> Result<()> {
        let what = format!("{}: cargo test {}", self.triple, which.join(" "));
        tools::succeed(&what, self.cargo(level, "test").args(which))
    }

    /// Checks that short trainings, all at the same time, end in the expected weights.
    fn train(&self, level: &str, trainings: &[Training]) -> Result<()> {
        let mut build = self.cargo(level, "build");
        let what = format!("{}: samebits", self.triple);
        tools::succeed(&what, build.args(["--package", "samebits-cli"]))?;
        thread::scope(|scope| {
            let run = |training| scope.spawn(move || self.train_one(training));
            let running: Vec<_> = trainings.iter().map(run).collect();
            running.into_iter().try_for_each(|one| one.join().expect("it returns its errors"))
        })
    }

    fn train_one(&self, training: &Training) -> Result<()> {
        let (task, more) = (training.task, training.more.join(" "));
        let what = format!("{}: samebits {task} {more}", self.triple);
        println!("-- {}", what.trim_end());
        let name = if self.triple.contains("windows") { "samebits.exe" } else { "samebits" };
        let program = crate::target().join(self.triple).join("cross").join(name);
        let mut train = match self.runner.split_first() {
            Some((emulator, options)) => {
                let mut emulator = Command::new(emulator);
                emulator.args(options).arg(program);
                emulator
            }
            None => Command::new(program),
        };
        let output = train
            .arg(training.task)
            .args(training.arguments)
            .args(training.more)
            .env("WINEPATH", wine_path())
            .env("WINEDEBUG", "-all")
            // The folder in which the program leaves its picture.
            .current_dir(crate::target())
            .output()
            .with_context(|| format!("cannot start {train:?}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        training
            .check(&said)
            .with_context(|| format!("{what}\n{said}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

impl Training {
    /// Rejects a table with another digest.
    fn check(&self, said: &str) -> Result<()> {
        let row =
            |line: &&str| line.starts_with("1   ") || line.starts_with("digest of the weights");
        let row = said.lines().find(row);
        match row.and_then(|line| line.split_whitespace().last()) {
            Some(digest) if digest.starts_with(self.golden) => Ok(()),
            found => bail!("{}, must begin with {}", found.unwrap_or("no digest"), self.golden),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_digest_or_none_is_an_error() {
        let table = |digest: &str| format!("run  digest\n1    {digest}ffff\n");
        FEW.check(&table(FEW.golden)).unwrap();
        let error = |said: &str| FEW.check(said).unwrap_err().to_string();
        assert!(error(&table("0123456789abcdef")).starts_with("0123456789abcdefffff, must begin"));
        assert!(error("error: out of memory").starts_with("no digest, must begin"));
    }
}
