//! `samebits diff`: finds the first difference of two runs and its cause.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use samebits::io::write_whole;
use samebits_ledger::diff::{Options, diff};
use samebits_ledger::html;

/// Flags of `samebits diff`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The first run: a ledger, or a folder with one for each rank
    a: PathBuf,
    /// The second run
    b: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Also write the report to this file, as a page for browsers
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// First step to compare
    #[arg(long, value_name = "STEP")]
    from_step: Option<u64>,
}

/// Returns the exit status of `diff` and `cmp`: 0 if the runs are equal, 1 if they differ, 2 if
/// they cannot be compared.
pub(crate) fn run(args: &Args) -> ExitCode {
    match compare(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn compare(args: &Args) -> Result<bool> {
    let mut options = Options::default();
    options.from_step = args.from_step;
    let report = diff(&args.a, &args.b, &options)?;
    if let Some(path) = &args.html {
        let mut page = Vec::new();
        html::write(&report, &mut page)?;
        write_whole(path, &page).context("diff")?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(report.equal)
}
