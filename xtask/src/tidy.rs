//! `cargo xtask tidy`: checks the rules that the compiler does not check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::circles::Modules;

/// Flags of `cargo xtask tidy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// The crates that each crate may use: the arrows of ARCHITECTURE.md.
const MAY_USE: &[(&str, &[&str])] = &[
    ("numerics", &[]),
    ("rng", &["numerics"]),
    ("tensor-core", &["numerics", "rng"]),
    ("cpu-kernels", &["numerics", "rng", "tensor-core", "conv-autotune"]),
    ("cuda-kernels", &["numerics", "rng", "tensor-core", "conv-autotune"]),
    ("autotune", &["numerics"]),
    ("conv-autotune", &["autotune", "numerics", "rng", "tensor-core"]),
    ("data", &["numerics", "rng"]),
    (
        "autograd",
        &[
            "macros",
            "numerics",
            "rng",
            "tensor-core",
            "cpu-kernels",
            "cuda-kernels",
            "conv-autotune",
            "recorder",
        ],
    ),
    ("distributed", &["numerics", "tensor-core", "cpu-kernels", "autograd"]),
    (
        "samebits",
        &[
            "numerics",
            "rng",
            "tensor-core",
            "cpu-kernels",
            "cuda-kernels",
            "conv-autotune",
            "autograd",
            "data",
            "distributed",
            "ledger",
            "recorder",
        ],
    ),
    ("testing", &["samebits", "ledger"]),
    ("verify", &["samebits", "testing"]),
    ("cli", &["samebits", "verify", "ledger"]),
    ("macros", &[]),
    ("ledger", &["numerics"]),
    ("recorder", &["numerics", "rng", "tensor-core", "ledger"]),
    ("ptx-emulator", &[]),
    ("cuda-driver-emulator", &["ptx-emulator"]),
];

/// The places of unsafe code: files, or folders that end in `/`.
const MAY_BE_UNSAFE: &[&str] = &[
    "crates/numerics/src/simd.rs",
    "crates/numerics/src/fpenv.rs",
    "crates/numerics/src/math/pairs.rs",
    "crates/numerics/src/math/pairs/",
    "crates/numerics/src/memory/huge_pages.rs",
    "crates/numerics/src/platform.rs",
    "crates/numerics/src/transpose.rs",
    "crates/cpu-kernels/src/arch.rs",
    "crates/cpu-kernels/src/arch/",
    "crates/cuda-kernels/src/launch.rs",
    "crates/cuda-kernels/src/launch/",
    "crates/cuda-driver-emulator/",
    "crates/recorder/src/exit.rs",
    "tests/support/",
    "xtask/src/nvrtc.rs",
];

/// Words that some folders allow in a few files only, and the reason: invariants of
/// ARCHITECTURE.md. Comments may contain them.
const KEPT_TO: &[(&[&str], &str, &[&str], &str)] = &[
    (
        &["crates/cpu-kernels/src/"],
        "rayon",
        &[
            "crates/cpu-kernels/src/parallel.rs",
            "crates/cpu-kernels/src/parallel/awake.rs",
            "crates/cpu-kernels/src/parallel/outside.rs",
        ],
        "it guards the floating-point mode of what it runs",
    ),
    (&["crates/numerics/src/"], "rayon", &[], "numerics knows nothing of threads"),
    (&["crates/numerics/src/"], "std::thread", &[], "numerics knows nothing of threads"),
    (
        &["crates/"],
        "determinism::policy()",
        &["crates/tensor-core/src/registry.rs"],
        "the level in force is read in the registry",
    ),
    (
        &[
            "crates/numerics/src/",
            "crates/rng/src/",
            "crates/tensor-core/src/",
            "crates/cpu-kernels/src/",
            "crates/cuda-kernels/src/",
            "crates/autograd/src/",
            "crates/recorder/src/",
            "crates/samebits/src/",
        ],
        "Instant::now",
        &[
            "crates/cpu-kernels/src/parallel/awake.rs",
            "crates/cpu-kernels/src/parallel/outside.rs",
            "crates/cuda-kernels/src/backend/autotune.rs",
        ],
        "no result may depend on a clock",
    ),
    (
        &["crates/cuda-kernels/src/"],
        "DeviceGetAttribute",
        &[],
        "no grid may depend on an attribute of the device",
    ),
    (
        &["crates/cuda-kernels/src/"],
        "device_attribute",
        &[],
        "no grid may depend on an attribute of the device",
    ),
    (
        &["crates/", "tests/"],
        "simd::limit(",
        &["crates/testing/src/setting.rs", "tests/support/src/lib.rs"],
        "the level is the process's: tests take turns in `test_support::at_every_level`",
    ),
];

/// The modules of a circle, and the reason why it may stay.
type KnownCircle = (&'static [&'static str], &'static str);

/// The crates whose modules form no circles, with those that are known and the reason.
const NO_CIRCLES: &[(&str, &[KnownCircle])] = &[
    ("tensor-core", &[]),
    ("conv-autotune", &[]),
    ("recorder", &[]),
    ("cpu-kernels", &[]),
    (
        "cuda-kernels",
        &[(
            &["device", "launch", "launch::kernels::status"],
            "a device launches the kernel that collects its reports",
        )],
    ),
    (
        "autograd",
        &[(
            &[
                "dims",
                "functional",
                "functional::broadcast",
                "functional::cast",
                "functional::elementwise",
                "functional::scalar",
                "functional::shape",
                "graph",
                "tensor",
            ],
            "a tensor remembers functions, and a backward pass adds tensors",
        )],
    ),
];

/// Instructions whose block may promise `preserves_flags`. On x86 that includes the exception flags
/// of MXCSR, which arithmetic sets and `ldmxcsr` replaces.
const KEEP_FLAGS: &[&str] = &["stmxcsr", "mrs", "msr"];

/// Instructions whose block may promise `nomem`. `stmxcsr` writes memory. The control word that
/// `ldmxcsr` and `msr` load is ordered with other floating-point operations only by memory
/// (`fpenv::ieee`).
const KEEP_MEMORY: &[&str] = &["mrs"];

/// The maximum number of lines of a file.
const MOST_LINES: usize = 700;

pub(crate) fn run(_: &Args) -> Result<()> {
    let files = tracked_files()?;
    let mut findings = dependency_edges()?;
    for &(name, known) in NO_CIRCLES {
        let modules = Modules::read(&crate::root().join("crates").join(name).join("src"))?;
        findings.extend(new_circles(name, known, &modules.circles()));
    }
    for file in &files {
        check_file(file, &mut findings)?;
    }
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|found| found == "md")) {
        let text = std::fs::read_to_string(crate::root().join(file))?;
        check_names(crate::root(), file, &text, &mut findings);
        pages.insert(file.as_path(), text);
    }
    crate::links::check(crate::root(), &pages, &mut findings);
    crate::snippets::check(crate::root(), &pages, &mut findings);
    crate::verify_math::check_record(crate::root(), &files, &mut findings)?;
    crate::prose::check(crate::root(), &files, &mut findings)?;
    for needed in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"]
    {
        if !files.iter().any(|file| file == Path::new(needed)) {
            findings.push(format!("{needed} is missing"));
        }
    }
    if findings.is_empty() {
        println!("tidy: {} files, no findings", files.len());
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    bail!("tidy: {} findings", findings.len())
}

/// Returns the circles of modules that are not known, and the known ones that are gone.
fn new_circles(name: &str, known: &[(&[&str], &str)], circles: &[Vec<String>]) -> Vec<String> {
    let new = circles.iter().filter(|circle| known.iter().all(|(known, _)| circle != known));
    let new =
        new.map(|circle| format!("crates/{name}: a circle of modules: {}", circle.join(", ")));
    let gone = known.iter().filter(|(known, _)| circles.iter().all(|circle| circle != known));
    let gone = gone.map(|(known, _)| {
        format!("crates/{name}: no circle of modules any more: {}", known.join(", "))
    });
    new.chain(gone).collect()
}

/// Returns the edges between our crates that the layers forbid.
fn dependency_edges() -> Result<Vec<String>> {
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        MAY_USE.iter().map(|&(name, uses)| (name, uses.iter().copied().collect())).collect();
    let mut findings = Vec::new();
    for entry in std::fs::read_dir(crate::root().join("crates"))? {
        let folder = entry?.path();
        let manifest = folder.join("Cargo.toml");
        if !manifest.is_file() {
            continue;
        }
        let name = folder.file_name().and_then(|name| name.to_str()).context("a crate's name")?;
        let Some(uses) = allowed.get(name) else {
            findings.push(format!("crates/{name} has no place in the layers: see xtask tidy"));
            continue;
        };
        for used in our_dependencies(&std::fs::read_to_string(&manifest)?) {
            if !uses.contains(used.as_str()) {
                findings.push(format!("crates/{name} must not depend on {used}"));
            }
        }
    }
    Ok(findings)
}

/// Returns the workspace's crates in the `[dependencies]` of a manifest. Dev-dependencies are
/// unrestricted: tests may compare anything.
fn our_dependencies(manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        } else if section == "dependencies" || section.ends_with(".dependencies") {
            let name = line.split(['.', '=', ' ']).next().unwrap_or("");
            match name {
                "samebits" => found.push("samebits".to_owned()),
                _ => found.extend(name.strip_prefix("samebits-").map(str::to_owned)),
            }
        }
    }
    found
}

fn check_file(file: &Path, findings: &mut Vec<String>) -> Result<()> {
    let is = |extension: &str| file.extension().is_some_and(|found| found == extension);
    if !(is("rs") || is("md") || is("toml") || is("cu") || is("cuh") || is("yml") || is("py")) {
        return Ok(());
    }
    let shown = file.display();
    let Ok(text) = std::fs::read_to_string(crate::root().join(file)) else {
        findings.push(format!("{shown}: not UTF-8"));
        return Ok(());
    };
    for (number, line) in text.lines().enumerate() {
        let at = number + 1;
        if line.trim_end() != line {
            findings.push(format!("{shown}:{at}: trailing blanks"));
        }
        // Split, so that this file does not match itself.
        for mark in [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("#[ign", "ore")] {
            // A role is a test that another test runs in a process of its own.
            let a_role = line.contains("ore = \"a role in ");
            if is("rs") && line.contains(mark) && !a_role {
                findings.push(format!("{shown}:{at}: {mark}"));
            }
        }
    }
    if is("rs") {
        check_source(file, &text, findings);
    }
    if (is("rs") || is("cu") || is("cuh")) && text.lines().count() > MOST_LINES {
        findings.push(format!("{shown}: {} lines, at most {MOST_LINES}", text.lines().count()));
    }
    Ok(())
}

/// Checks the names in a document: a path in backticks whose first folder is one of the workspace's
/// must exist, and for "`ITEM` in `PATH`" the file must contain the item.
fn check_names(root: &Path, file: &Path, text: &str, findings: &mut Vec<String>) {
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        let parts: Vec<&str> = line.split('`').collect();
        for at in (1..parts.len()).step_by(2) {
            let path = parts[at];
            let is_path = path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            let folder = path.split_once('/').map(|(folder, _)| folder);
            let ours = ["crates", "docs", "kernels", "python", "tests", "xtask"];
            if !is_path || !folder.is_some_and(|folder| ours.contains(&folder)) {
                continue;
            }
            let shown = format!("{}:{}", file.display(), number + 1);
            if !root.join(path).exists() {
                findings.push(format!("{shown}: there is no `{path}`"));
            } else if at > 1 && parts[at - 1] == " in " {
                let item = parts[at - 2];
                let holds = std::fs::read_to_string(root.join(path));
                if !holds.is_ok_and(|text| text.contains(item)) {
                    findings.push(format!("{shown}: `{path}` holds no `{item}`"));
                }
            }
        }
    }
}

fn check_source(file: &Path, text: &str, findings: &mut Vec<String>) {
    let shown = file.display();
    let path = file.to_string_lossy();
    let has_unsafe = text.lines().map(str::trim_start).any(|line| {
        !line.starts_with("//")
            && ["{", "fn", "impl", "extern"]
                .iter()
                .any(|what| line.contains(&format!("{} {what}", concat!("un", "safe"))))
    });
    let allowed = MAY_BE_UNSAFE
        .iter()
        .any(|&place| if place.ends_with('/') { path.starts_with(place) } else { path == place });
    let a_test =
        path.contains("/tests/") || path.contains("/benches/") || path.contains("/examples/");
    if has_unsafe && !allowed && !a_test {
        findings.push(format!("{shown}: unsafe code outside the modules that may have it"));
    }
    let has =
        |word| text.lines().any(|line| line.contains(word) && !line.trim_start().starts_with("//"));
    for &(folders, word, files, why) in KEPT_TO {
        let kept = folders.iter().any(|folder| path.starts_with(folder));
        if kept && !files.contains(&&*path) && has(word) {
            findings.push(format!("{shown}: `{word}` has no place here: {why}"));
        }
    }
    for (number, line) in text.lines().enumerate() {
        let derived = line.trim_start().strip_prefix("#[derive(").unwrap_or("");
        let derives =
            |name: &str| derived.split([',', ')']).any(|word| word.trim().ends_with(name));
        if derives("Error") && derives("Debug") && path.starts_with("crates/") && !a_test {
            let instead = "`debug_is_message!` lets `main` print the message";
            findings
                .push(format!("{shown}:{}: a derived `Debug` of an error: {instead}", number + 1));
        }
    }
    for (at, problem) in wrong_assembly(text) {
        findings.push(format!("{shown}:{at}: {problem}"));
    }
    let root_module = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    if root_module && !text.starts_with("//!") && !text.starts_with("#!") {
        findings.push(format!("{shown}: begins without a //! summary"));
    }
}

/// Returns inline assembly whose options promise more than its instructions keep, by line.
fn wrong_assembly(text: &str) -> Vec<(usize, String)> {
    let mut wrong = Vec::new();
    for (start, call) in text.match_indices(concat!("as", "m!(")) {
        // The block has a template, its operands and, last, its options.
        let block = text[start + call.len()..].split(";\n").next().unwrap_or("");
        let (code, options) = block.split_once("options(").unwrap_or((block, ""));
        // Assume nothing about several instructions, or one that a macro names.
        let instruction = match code.trim_start().split('"').collect::<Vec<_>>()[..] {
            ["", line, _] => line.split(' ').next().unwrap_or(""),
            _ => "these instructions",
        };
        let promised = |option: &str| options.split([',', ')']).any(|word| word.trim() == option);
        let mut report = |option: &str, kept: &[&str]| {
            if promised(option) && !kept.contains(&instruction) {
                let at = text[..start].lines().count();
                wrong.push((at, format!("{instruction} must not promise `{option}`")));
            }
        };
        report("preserves_flags", KEEP_FLAGS);
        report("nomem", KEEP_MEMORY);
        // The compiler may drop, move and merge pure blocks.
        report("pure", &[]);
        if instruction.ends_with("mxcsr") {
            report("readonly", &[]);
        }
    }
    wrong
}

fn tracked_files() -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .current_dir(crate::root())
        .args(["ls-files", "-z"])
        .output()
        .context("cannot start git")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let exists = |name: &&str| !name.is_empty() && crate::root().join(name).is_file();
    Ok(names.split('\0').filter(exists).map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_found_in_every_spelling() {
        let manifest = "[package]\nname = \"samebits-x\"\n[dependencies]\nsamebits-rng.workspace = true\n\
            samebits = { path = \"..\" }\n[target.'cfg(unix)'.dependencies]\nsamebits-data = \"1\"\n\
            [dev-dependencies]\nsamebits-cli.workspace = true\n";
        assert_eq!(our_dependencies(manifest), ["rng", "samebits", "data"]);
    }

    #[test]
    fn new_and_former_circles_are_found() {
        let circle = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let known: &[(&[&str], &str)] = &[(&["a", "b"], "a reason")];
        assert_eq!(new_circles("x", known, &[circle(&["a", "b"])]), [""; 0]);
        assert_eq!(
            new_circles("x", known, &[circle(&["a", "b", "c"])]),
            [
                "crates/x: a circle of modules: a, b, c",
                "crates/x: no circle of modules any more: a, b"
            ]
        );
    }

    #[test]
    fn names_of_what_is_not_there_are_found() {
        let found = |text: &str| {
            let mut findings = Vec::new();
            check_names(crate::root(), Path::new("docs/a.md"), text, &mut findings);
            findings
        };
        assert_eq!(found("`xtask/src/tidy.rs`, `tests`, `no/such`, `kernels/*.cu`"), [""; 0]);
        assert_eq!(found("`fn check_names` in `xtask/src/tidy.rs`"), [""; 0]);
        assert_eq!(found("```sh\n`xtask/none.rs`\n```\n"), [""; 0]);
        assert_eq!(found("\n`xtask/none.rs`"), ["docs/a.md:2: there is no `xtask/none.rs`"]);
        let absent = concat!("fn absent", "_here");
        let wrong = found(&format!("| x | `{absent}` in `xtask/src/tidy.rs` |"));
        assert_eq!(wrong, [format!("docs/a.md:1: `xtask/src/tidy.rs` holds no `{absent}`")]);
    }

    #[test]
    fn unsafe_code_and_long_files_are_found() {
        let mut findings = Vec::new();
        check_source(
            Path::new("crates/rng/src/a.rs"),
            concat!("fn f() { un", "safe { g() } }"),
            &mut findings,
        );
        assert_eq!(findings.len(), 1);
        check_source(
            Path::new("crates/numerics/src/simd.rs"),
            concat!("un", "safe fn f() {}"),
            &mut findings,
        );
        check_source(Path::new("crates/rng/src/a.rs"), concat!("// un", "safe { }"), &mut findings);
        assert_eq!(findings.len(), 1);
        check_source(Path::new("crates/rng/src/lib.rs"), "fn f() {}", &mut findings);
        assert_eq!(findings.len(), 2);
    }

    #[test]
    fn errors_that_print_their_fields_are_found() {
        let mut findings = Vec::new();
        let mut check = |path: &str, text: &str| {
            check_source(Path::new(path), text, &mut findings);
            findings.len()
        };
        assert_eq!(check("crates/rng/src/a.rs", "#[derive(Clone, thiserror::Error)]"), 0);
        assert_eq!(check("crates/rng/src/a.rs", "#[derive(Clone, Debug)]"), 0);
        assert_eq!(check("crates/rng/tests/a.rs", "#[derive(Debug, thiserror::Error)]"), 0);
        assert_eq!(check("crates/rng/src/a.rs", "#[derive(Clone, Debug, thiserror::Error)]"), 1);
    }

    #[test]
    fn assembly_that_promises_too_much_is_found() {
        let found = |code: &str| {
            let text =
                format!("fn f() {{\n    unsafe_block(|| {}{code});\n}}\n", concat!("as", "m!("));
            let wrong = wrong_assembly(&text);
            assert!(wrong.iter().all(|&(at, _)| at == 2), "{wrong:?}");
            wrong.into_iter().map(|(_, problem)| problem).collect::<Vec<_>>()
        };
        let load = "\"ldmxcsr [{}]\", in(reg) &raw const word";
        let store = "\"stmxcsr [{}]\", in(reg) &raw mut word";
        let fused =
            "\n        concat!($fma, \" {x}, {y}\"),\n        x = inout(zmm_reg) x,\n        ";
        assert_eq!(found(&format!("{load}, options(nostack)")), [""; 0]);
        assert_eq!(found(&format!("{store}, options(nostack, preserves_flags)")), [""; 0]);
        assert_eq!(found("\"mrs {}, fpcr\", options(nomem, nostack, preserves_flags)"), [""; 0]);
        assert_eq!(found("\"msr fpcr, {}\", options(nostack, preserves_flags)"), [""; 0]);
        assert_eq!(found(&format!("{fused}options(readonly, nostack)\n    ")), [""; 0]);
        for (code, options, problems) in [
            (load, "nostack, preserves_flags", 1),
            (load, "nostack, nomem", 1),
            (load, "readonly", 1),
            (store, "nomem, nostack", 1),
            (store, "readonly, nostack", 1),
            (fused, "pure, readonly, nostack", 1),
            (fused, "nomem, preserves_flags", 2),
            ("\"stmxcsr [{x}]\", \"ldmxcsr [{x}]\"", "nostack, preserves_flags", 1),
            ("\"msr fpcr, {}\"", "nomem, nostack", 1),
            ("\"mrs {}, fpcr\"", "pure, nomem, nostack", 1),
        ] {
            let found = found(&format!("{code}, options({options})"));
            assert_eq!(found.len(), problems, "{code} {options}: {found:?}");
        }
    }

    #[test]
    fn words_out_of_place_are_found() {
        let mut findings = Vec::new();
        let mut check = |path: &str, text: &str| {
            check_source(Path::new(path), text, &mut findings);
            findings.len()
        };
        assert_eq!(check("crates/cpu-kernels/src/parallel.rs", "use rayon::prelude::*;"), 0);
        assert_eq!(check("crates/cpu-kernels/src/sort.rs", "// As rayon does."), 0);
        assert_eq!(check("crates/cpu-kernels/src/sort.rs", "use rayon::prelude::*;"), 1);
        assert_eq!(check("crates/cpu-kernels/src/conv/cut.rs", "rayon::join(a, b);"), 2);
        assert_eq!(check("crates/autotune/src/clock.rs", "Instant::now()"), 2);
        assert_eq!(check("crates/autograd/src/dispatch.rs", "Instant::now()"), 3);
        assert_eq!(check("crates/tensor-core/src/registry.rs", "determinism::policy()"), 3);
        assert_eq!(check("crates/tensor-core/src/tensor.rs", "determinism::policy()"), 4);
        assert_eq!(check("crates/cuda-kernels/src/scan.rs", "sys::cuDeviceGetAttribute(..)"), 5);
        assert_eq!(check("tests/orders/main.rs", concat!("simd::li", "mit(level);")), 6);
    }
}
