//! `cargo xtask standalone`: packages every crate and builds a program from each README.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::tools::{self, succeed};

/// Flags of `cargo xtask standalone`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only check the files of each package, and build nothing.
    #[arg(long)]
    list: bool,
    /// Crates whose README is built, by the folder in crates/; all of them if none is named.
    crates: Vec<String>,
}

/// Files that travel in each package.
const NEEDED: &[&str] = &["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Crates for programs in READMEs, besides ours.
const OTHERS: &[(&str, &str)] =
    &[("serde", "serde = { version = \"1\", features = [\"derive\"] }\n")];

pub(crate) fn run(args: &Args) -> Result<()> {
    let all = published()?;
    for name in &args.crates {
        ensure!(all.contains(name), "crates/{name} does not exist, or is not published");
    }
    for name in &all {
        check_list(name)?;
    }
    println!("{} packages have {}", all.len(), NEEDED.join(", "));
    if args.list {
        return Ok(());
    }
    let folder = crate::target().join("standalone");
    let packages = package(&all, &folder)?;
    let chosen = if args.crates.is_empty() { &all } else { &args.crates };
    for name in chosen {
        try_out(name, &all, &packages, &folder)?;
    }
    println!("{} programs were built against the packages", chosen.len());
    Ok(())
}

/// Returns the folders of the crates that are published.
fn published() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(crate::root().join("crates"))? {
        let entry = entry?;
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml"))?;
        if !manifest.contains("publish = false") {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the name of the package in a folder of `crates`.
fn package_name(folder: &str) -> String {
    match folder {
        "samebits" => folder.to_owned(),
        _ => format!("samebits-{folder}"),
    }
}

/// Checks that a package has its README and its licences.
fn check_list(folder: &str) -> Result<()> {
    let name = package_name(folder);
    let output = tools::cargo()
        .args(["package", "--list", "--allow-dirty", "--package", &name])
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo package --list of {name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    let missing: Vec<&str> = missing(&listed);
    ensure!(missing.is_empty(), "{name}: the package lacks {}", missing.join(", "));
    Ok(())
}

/// Returns the needed files that a list of files lacks.
fn missing(listed: &str) -> Vec<&'static str> {
    NEEDED.iter().copied().filter(|needed| !listed.lines().any(|line| line == *needed)).collect()
}

/// Packages the crates together and unpacks them. Returns the folder with the packages.
fn package(all: &[String], folder: &Path) -> Result<PathBuf> {
    let mut cargo = tools::cargo();
    cargo.args(["package", "--quiet", "--no-verify", "--allow-dirty", "--target-dir"]).arg(folder);
    for name in all {
        cargo.args(["--package", &package_name(name)]);
    }
    succeed("cargo package", &mut cargo)?;
    let packages = folder.join("packages");
    if packages.exists() {
        fs::remove_dir_all(&packages)?;
    }
    fs::create_dir_all(&packages)?;
    for name in all {
        let archive = format!("{}-{VERSION}.crate", package_name(name));
        let archive = folder.join("package").join(archive);
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&archive).arg("-C").arg(&packages);
        succeed(&format!("unpack {}", archive.display()), &mut tar)?;
    }
    Ok(packages)
}

/// The version of every crate.
const VERSION: &str = "0.1.0";

/// Builds the program of a README, and runs it unless it is marked `no_run`.
fn try_out(folder: &str, all: &[String], packages: &Path, target: &Path) -> Result<()> {
    let name = package_name(folder);
    let readme = packages.join(format!("{name}-{VERSION}")).join("README.md");
    let readme =
        fs::read_to_string(&readme).with_context(|| format!("cannot read {}", readme.display()))?;
    let (source, runs) = program(&readme);
    let program = target.join("programs").join(&name);
    fs::create_dir_all(program.join("src"))?;
    fs::write(program.join("src/main.rs"), &source)?;
    fs::write(program.join("Cargo.toml"), manifest(&name, &source, all, packages))?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&program).args([if runs { "run" } else { "build" }, "--quiet"]);
    cargo.env("CARGO_TARGET_DIR", target.join("build"));
    succeed(&format!("the README of {name}"), &mut cargo)
}

/// Returns the first program of a README, and whether it can be run: an empty one if there is none.
fn program(readme: &str) -> (String, bool) {
    for (mark, runs) in [("```rust\n", true), ("```rust,no_run\n", false)] {
        if let Some((_, rest)) = readme.split_once(mark)
            && let Some((source, _)) = rest.split_once("```\n")
        {
            return (source.to_owned(), runs);
        }
    }
    ("fn main() {}\n".to_owned(), true)
}

/// Returns the manifest of a program that depends on `name` and on the crates that it names.
fn manifest(name: &str, source: &str, all: &[String], packages: &Path) -> String {
    let mut text = format!(
        "[package]\nname = \"try-{name}\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n"
    );
    for other in all.iter().map(|folder| package_name(folder)) {
        let used = source.contains(&format!("{}::", other.replace('-', "_")));
        if other == name || used {
            text += &format!("{other} = \"{VERSION}\"\n");
        }
    }
    for (other, line) in OTHERS {
        if source.contains(&format!("{other}::")) {
            text += line;
        }
    }
    text += "\n[patch.crates-io]\n";
    for other in all.iter().map(|folder| package_name(folder)) {
        let path = packages.join(format!("{other}-{VERSION}"));
        text += &format!("{other} = {{ path = {:?} }}\n", path.display().to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_are_named() {
        assert_eq!(missing("Cargo.toml\nLICENSE-APACHE\nLICENSE-MIT\nREADME.md\n"), [""; 0]);
        assert_eq!(
            missing("Cargo.toml\nsrc/README.md\nLICENSE-MIT\n"),
            ["LICENSE-APACHE", "README.md"]
        );
    }

    #[test]
    fn programs_are_found_and_depend_on_their_crates() {
        let readme = "# x\n\n```rust\nuse samebits_rng::Generator;\nfn main() {}\n```\n";
        let (source, runs) = program(readme);
        assert!(runs && source.ends_with("fn main() {}\n"), "{source}");
        assert!(!program("```rust,no_run\nfn main() {}\n```\n").1);
        assert_eq!(program("none").0, "fn main() {}\n");
        let all = ["data", "rng", "samebits"].map(str::to_owned);
        let text = manifest("samebits-data", &source, &all, Path::new("p"));
        let dependencies =
            "[dependencies]\nsamebits-data = \"0.1.0\"\nsamebits-rng = \"0.1.0\"\n\n";
        assert!(text.contains(dependencies), "{text}");
    }

    #[test]
    fn every_crate_is_listed_once() {
        let all = published().unwrap();
        assert!(all.iter().any(|name| name == "rng"));
        assert!(!all.iter().any(|name| name == "cuda-driver-emulator"), "{all:?}");
    }
}
