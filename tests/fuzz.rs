//! The fuzzer covers every operation, and what it found stays mended.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::Command;

use workspace_tests::fuzz::{self, Plan, TIME_LIMIT};

fn child(target: &str, seed: u64, cases: &Range<u64>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuzz"));
    command.args(["--child", "--seed", &seed.to_string(), target]);
    command.args(["--cases", &format!("{}..{}", cases.start, cases.end)]);
    command
}

fn plan(target: &str, seed: u64, cases: Range<u64>) -> Plan {
    Plan {
        child,
        targets: vec![target.to_owned()],
        seed,
        cases,
        deadline: None,
        jobs: 1,
        patience: TIME_LIMIT,
    }
}

#[test]
fn every_registered_operation_has_a_target() {
    samebits::install();
    let targets = fuzz::targets();
    let reached: BTreeSet<_> = targets.iter().filter_map(|target| target.kernel).collect();
    let registered = samebits::registry::kernels();
    let missing: BTreeSet<_> = registered
        .into_iter()
        .map(|(kernel, _)| (kernel.op, kernel.pass))
        .filter(|kernel| !reached.contains(kernel))
        .collect();
    assert!(missing.is_empty(), "add them to tests/src/fuzz/calls: {missing:?}");
}

/// Cases that once ended in what must not happen: `TARGET SEED CASE` in each line.
#[test]
fn what_was_found_stays_mended() {
    let lines = include_str!("fuzz_regressions.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let [target, seed, case] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("expected TARGET SEED CASE, found {line:?}");
        };
        let (seed, case): (u64, u64) = (seed.parse().unwrap(), case.parse().unwrap());
        assert!(fuzz::targets().iter().any(|known| known.name == target), "no target {target}");
        let report = fuzz::hunt(&plan(target, seed, case..case + 1), |_| {});
        assert!(report.findings.is_empty(), "{line}: {:?}", report.findings);
        let ended: u64 = report.counts.values().flatten().sum();
        assert_eq!(ended, 1, "{line}: the case did not run");
    }
}
