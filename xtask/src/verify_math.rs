//! `cargo xtask verify-math`: compares every f32 function on every input with an independent,
//! correctly rounded library.
//!
//! The oracle is a C library and the loop needs optimised code, so both are behind the feature
//! `verify-math`. Without it, this command runs itself again with the feature in the release
//! profile; no other command compiles either.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

/// Flags of `cargo xtask verify-math`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The functions to check; all by default.
    functions: Vec<String>,
    /// The SIMD level to check: portable, avx2 or avx512; by default the best of this machine.
    #[arg(long)]
    level: Option<String>,
    /// Check this many inputs, spread evenly, instead of all 4294967296.
    #[arg(long)]
    sample: Option<u64>,
}

/// The page with the record of the check, and the code that it is a record of.
const RECORD: &str = "docs/book/verify-math.md";
const CODE: &str = "crates/numerics/src/math/";

/// Adds the files of the f32 functions whose code is not the code of the record to `findings`.
pub(crate) fn check_record(
    root: &Path,
    files: &[PathBuf],
    findings: &mut Vec<String>,
) -> anyhow::Result<()> {
    let record = std::fs::read_to_string(root.join(RECORD)).context(RECORD)?;
    for file in files {
        let Some(name) = file.to_str().and_then(|path| path.strip_prefix(CODE)) else { continue };
        // The functions of f64 are not correctly rounded.
        if name.starts_with("f64") {
            continue;
        }
        let line = format!("{name} {}", digest(&std::fs::read_to_string(root.join(file))?));
        if !record.lines().any(|recorded| recorded == line) {
            findings.push(format!(
                "{CODE}{name} is not the code of the record: run `cargo xtask verify-math`, at least for the \
                 functions that use it, and renew {RECORD}, with the line `{line}`"
            ));
        }
    }
    Ok(())
}

/// Returns a digest of code without its comments, blanks and tests.
fn digest(code: &str) -> String {
    let code = code.split("\n#[cfg(test)]\nmod ").next().unwrap_or("");
    let mut hash = Sha256::new();
    for line in code.lines() {
        let line = line.split("//").next().unwrap_or("");
        line.split_whitespace().for_each(|word| hash.update(word));
    }
    hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(not(feature = "verify-math"))]
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let mut command = std::process::Command::new(env!("CARGO"));
    command.current_dir(crate::root());
    command.args(["run", "--quiet", "--release", "--package", "xtask"]);
    command.args(["--features", "verify-math", "--", "verify-math"]);
    command.args(args.functions);
    if let Some(level) = args.level {
        command.args(["--level", &level]);
    }
    if let Some(sample) = args.sample {
        command.args(["--sample", &sample.to_string()]);
    }
    let status = command.status().context("cannot start cargo")?;
    anyhow::ensure!(status.success(), "verify-math failed");
    Ok(())
}

#[cfg(feature = "verify-math")]
pub(crate) use exhaustive::run;

#[cfg(feature = "verify-math")]
#[path = "../../crates/numerics/tests/math/oracle.rs"]
#[allow(dead_code)]
mod oracle;

#[cfg(feature = "verify-math")]
mod exhaustive {
    use std::time::Instant;

    use anyhow::{Context, bail, ensure};
    use indicatif::{ParallelProgressIterator, ProgressBar, ProgressStyle};
    use rayon::iter::{IntoParallelIterator, ParallelIterator};
    use samebits_numerics::simd::{self, Level};

    use super::Args;
    use super::oracle::{Function, Mismatch, functions};

    /// The number of inputs of one call.
    const CHUNK: u64 = 1 << 16;
    const ALL: u64 = 1 << 32;
    /// The maximum number of mismatches to print per function.
    const SHOWN: usize = 10;

    pub(crate) fn run(args: Args) -> anyhow::Result<()> {
        let level = match &args.level {
            None => simd::supported(),
            Some(name) => Level::from_name(name)
                .with_context(|| format!("no level '{name}': portable, avx2 or avx512"))?,
        };
        ensure!(level <= simd::supported(), "this CPU has no {}", level.name());
        let mut chosen = functions();
        for name in &args.functions {
            ensure!(chosen.iter().any(|f| f.name == name), "no function '{name}'");
        }
        if !args.functions.is_empty() {
            chosen.retain(|f| args.functions.iter().any(|name| f.name == name));
        }
        let count = args.sample.unwrap_or(ALL).min(ALL);

        let mut wrong = Vec::new();
        for function in &chosen {
            let start = Instant::now();
            let mut mismatches = verify(function, level, count)?;
            println!(
                "{}: {} mismatches in {count} inputs ({:.1} s, {})",
                function.name,
                mismatches.len(),
                start.elapsed().as_secs_f64(),
                level.name(),
            );
            mismatches.sort_by_key(|m| m.input);
            for Mismatch { input, got, want } in mismatches.iter().take(SHOWN) {
                let [x, y, z] = [*input, *got, *want].map(f32::from_bits);
                println!("  {input:08x} ({x:e}): got {got:08x} ({y:e}), want {want:08x} ({z:e})");
            }
            if !mismatches.is_empty() {
                wrong.push(function.name);
            }
        }
        if !wrong.is_empty() {
            bail!("not correctly rounded: {}", wrong.join(", "));
        }
        Ok(())
    }

    fn verify(function: &Function, level: Level, count: u64) -> anyhow::Result<Vec<Mismatch>> {
        let chunks = count.div_ceil(CHUNK);
        let style = "{prefix:>8} {wide_bar} {percent:>3} % {eta}";
        let bar = ProgressBar::new(chunks)
            .with_style(ProgressStyle::with_template(style)?)
            .with_prefix(function.name);
        let mismatches = (0..chunks)
            .into_par_iter()
            .progress_with(bar.clone())
            .flat_map_iter(|chunk| {
                let inputs: Vec<f32> = (chunk * CHUNK..((chunk + 1) * CHUNK).min(count))
                    .map(|i| input(i, count))
                    .collect();
                function.check(level, &inputs)
            })
            .collect();
        bar.finish_and_clear();
        Ok(mismatches)
    }

    /// Returns input `i` of `count`.
    fn input(i: u64, count: u64) -> f32 {
        // In order for an exhaustive check. Otherwise a multiple of the golden ratio, which spreads
        // the inputs evenly and, being odd, never repeats one.
        f32::from_bits(if count == ALL { i as u32 } else { (i as u32).wrapping_mul(0x9e37_79b1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_has_a_digest_without_comments_blanks_and_tests() {
        let code = "fn f(x: f32) -> f32 {\n    x * 2.0 // twice\n}\n";
        let other = "//! A file.\n\nfn f(x: f32)\n    -> f32 {\n    x * 2.0\n}\n\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(digest(code), digest(other));
        assert_ne!(digest(code), digest(&code.replace("2.0", "2.5")));
    }

    #[test]
    fn changed_code_is_found() {
        let root = tempfile::tempdir().unwrap();
        let [page, file] = [RECORD, "crates/numerics/src/math/exp.rs"].map(PathBuf::from);
        for path in [&page, &file] {
            std::fs::create_dir_all(root.path().join(path).parent().unwrap()).unwrap();
        }
        let record = format!("x\nexp.rs {}\n", digest("let a = 1;"));
        std::fs::write(root.path().join(&page), record).unwrap();
        for (code, count) in [("let a = 1; // one", 0), ("let a = 2;", 1)] {
            std::fs::write(root.path().join(&file), code).unwrap();
            let mut findings = Vec::new();
            check_record(root.path(), &[page.clone(), file.clone()], &mut findings).unwrap();
            assert_eq!(findings.len(), count, "{findings:?}");
        }
    }
}
