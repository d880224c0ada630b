//! `cargo xtask support-matrix`: writes the table of kernels in docs/book/determinism.md from the
//! registry.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Flags of `cargo xtask support-matrix`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fail if the table is out of date, and change nothing.
    #[arg(long)]
    check: bool,
}

const DOCUMENT: &str = "docs/book/determinism.md";
const BEGIN: &str = "<!-- support matrix: written by `cargo xtask support-matrix` -->\n";
const END: &str = "<!-- end of the support matrix -->";

pub(crate) fn run(args: &Args) -> Result<()> {
    let path = crate::root().join(DOCUMENT);
    let old = std::fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let (head, rest) =
        old.split_once(BEGIN).with_context(|| format!("{DOCUMENT} has no place for it"))?;
    let (_, tail) = rest.split_once(END).context("the support matrix has no end")?;
    let new = format!("{head}{BEGIN}\n{}\n{END}{tail}", table()?);
    if new == old {
        return Ok(());
    }
    if args.check {
        bail!("{DOCUMENT} is out of date: run `cargo xtask support-matrix`");
    }
    std::fs::write(&path, new).with_context(|| format!("cannot write {DOCUMENT}"))
}

/// Returns the table of the registry. Another program prints it, so that xtask need not link every
/// kernel.
fn table() -> Result<String> {
    let output = Command::new(crate::example("support_matrix")?)
        .output()
        .context("cannot start the example `support_matrix`")?;
    if !output.status.success() {
        bail!("cannot list the kernels: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
