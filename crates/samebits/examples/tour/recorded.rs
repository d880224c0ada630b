//! Records two runs that should agree, and finds the first place where they differ.

use samebits::ledger::scope;
use samebits::nn::{Linear, ReLU};
use samebits::prelude::*;
use samebits::sequential;
use samebits_ledger::diff::{Options, diff};

/// Computes a few outputs; the fault scales one input by another factor.
fn compute(fault: bool) -> samebits::Result<()> {
    let model = sequential![Linear::new(4, 8)?, ReLU, Linear::new(8, 2)?];
    for step in 0..5 {
        let scale = if fault && step == 3 { 0.5 } else { 1.0 };
        model.forward(&(samebits::randn(&[3, 4])? * scale)?)?;
    }
    Ok(())
}

pub(super) fn run() -> super::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).with_extension("jsonl");
    for (name, fault) in [("a", false), ("again", false), ("b", true)] {
        // Before the record, which has the seed in its first line.
        manual_seed(0);
        scope(path(name), || compute(fault))??;
    }
    let report = diff(&path("a"), &path("again"), &Options::default())?;
    println!("{report}");
    assert!(report.to_string().starts_with("Equal"));
    // As `samebits diff a.jsonl b.jsonl` prints it.
    let report = diff(&path("a"), &path("b"), &Options::default())?;
    println!("{report}");
    let found = "Input 0 of operation `cast` (step 0, forward, occurrence 3) differs, which no record \
                 produced: a parameter, a constant or data.";
    assert!(report.to_string().starts_with(found));
    Ok(())
}
