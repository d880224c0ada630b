//! Programs and Rust components that a command needs beside the pinned toolchain.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The exit status for tools that cannot be had here, so nothing was checked. Test runners read it
/// as "skipped".
pub(crate) const SKIPPED: i32 = 77;

/// A missing tool that cannot be installed.
#[derive(Debug)]
pub(crate) struct Missing(String);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for Missing {}

/// Returns Cargo of the toolchain in use, in the workspace's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(crate::root());
    command
}

/// Returns Cargo of the nightly toolchain, in the workspace's root.
pub(crate) fn nightly_cargo() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).current_dir(crate::root());
    // These variables would select the toolchain in use.
    for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command
}

/// Runs a step and, on failure, names it in the error.
pub(crate) fn succeed(what: &str, command: &mut Command) -> Result<()> {
    println!("-- {what}");
    let status = command.status().with_context(|| format!("{what}: cannot start {command:?}"))?;
    if !status.success() {
        bail!("{what} failed: {status}");
    }
    Ok(())
}

/// Installs components of the nightly toolchain.
pub(crate) fn nightly(components: &[&str]) -> Result<()> {
    let mut rustup = Command::new("rustup");
    rustup.args(["toolchain", "install", "nightly", "--profile", "minimal", "--no-self-update"]);
    for component in components {
        rustup.args(["--component", component]);
    }
    let have = Command::new("rustup")
        .args(["component", "list", "--toolchain", "nightly", "--installed"])
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let has = |component: &&str| have.lines().any(|line| line.starts_with(*component));
    if !have.is_empty() && components.iter().all(has) {
        return Ok(());
    }
    install(&mut rustup)
}

/// Installs the standard library of another target for the pinned toolchain.
pub(crate) fn target(triple: &str) -> Result<()> {
    install(Command::new("rustup").current_dir(crate::root()).args(["target", "add", triple]))
}

/// Installs Debian packages if one of their programs is not on the path. Needs root.
pub(crate) fn debian(programs: &[&str], packages: &[&str]) -> Result<()> {
    if programs.iter().all(|program| on_path(program)) {
        return Ok(());
    }
    let run = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        apt.status().is_ok_and(|status| status.success())
    };
    let install = ["install", "--quiet", "--yes", "--no-install-recommends"];
    if run(&["update", "--quiet"]) && run(&[&install, packages].concat()) {
        return Ok(());
    }
    Err(Missing(format!("install the packages {}", packages.join(", "))).into())
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Runs a command that installs a tool; on failure, the tool is missing.
pub(crate) fn install(command: &mut Command) -> Result<()> {
    match command.stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Missing(format!("cannot run {command:?}; run it by hand")).into()),
    }
}
