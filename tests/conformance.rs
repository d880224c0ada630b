//! Results and gradients against reference figures computed by another implementation.

use samebits::{Determinism, Device, determinism};
use workspace_tests::conformance::{Reference, own_reference, run};

/// Runs every case of the project's own reference file, at the lowest and the highest level.
/// `cargo xtask conformance` runs other files and prints a table.
#[test]
fn reference_figures() {
    let reference = Reference::read(&own_reference()).unwrap();
    for level in [Determinism::Portable, Determinism::NotGuaranteed] {
        let outcomes = determinism::scope(level, || run(&reference, Device::Cpu));
        let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed()).collect();
        assert!(failed.is_empty(), "at {level}: {failed:#?}");
        assert_eq!(outcomes.len(), 139);
    }
}
