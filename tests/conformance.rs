//! Results and gradients against reference figures computed by another implementation.

use samebits::{Determinism, Device, determinism};
use workspace_tests::conformance::{Reference, half_reference, own_reference, run};

/// Runs every case of the project's own reference files, at the lowest and the highest level.
/// `cargo xtask conformance` runs other files and prints a table.
#[test]
fn reference_figures() {
    check(&Reference::read(&own_reference()).unwrap(), 139);
}

/// Runs them in half precision: inputs are halves, and expected results were computed from them in
/// f64.
#[test]
fn reference_figures_of_halves() {
    check(&Reference::read(&half_reference()).unwrap(), 274);
}

fn check(reference: &Reference, count: usize) {
    for level in [Determinism::Portable, Determinism::NotGuaranteed] {
        let outcomes = determinism::scope(level, || run(reference, Device::Cpu));
        let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed()).collect();
        assert!(failed.is_empty(), "at {level}: {failed:#?}");
        assert_eq!(outcomes.len(), count);
    }
}
