//! Random bytes for every parser and random arguments for every operation, for `cargo xtask fuzz`.
//!
//! A case is a function of (seed, target, case number) alone. It must end in a result or in an
//! error that names the operation: no panic, no abort, no hang, no more memory than
//! [`MEMORY_LIMIT`], and no result whose bits depend on the number of threads. The cases run in
//! child processes, so that a case that kills its process is detected and named.

mod bytes;
mod calls;
mod child;
mod draw;
mod ledgers;
mod parent;
mod parsers;
mod saved;
mod sources;

pub use child::run_cases;
pub use draw::Draw;
pub use parent::{Finding, Plan, Report, hunt};

use samebits::registry::Pass;

/// The limit of a child's address space, in bytes. Hostile sizes exceed it for every element type.
pub const MEMORY_LIMIT: u64 = 4 << 30;

/// The time limit of a case: the longest need ten seconds of an idle machine, and a hang never
/// ends.
pub const TIME_LIMIT: std::time::Duration = std::time::Duration::from_secs(300);

/// A parser or an operation, with the function that runs a case.
pub struct Target {
    /// `bytes/PARSER` or `calls/OPERATION`.
    pub name: String,
    /// The registry entry that the target runs, if it runs only one.
    pub kernel: Option<(&'static str, Pass)>,
    run: Box<dyn Fn(&mut Draw) -> Outcome + Send + Sync>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Target {
    /// Runs a case in this process.
    pub fn run(&self, seed: u64, case: u64) -> Outcome {
        (self.run)(&mut Draw::new(seed, &self.name, case))
    }
}

/// The ending of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A result.
    Result,
    /// A typed error.
    Refused,
    /// An ending that must not happen.
    Wrong(String),
}

/// Returns every target, ordered by name.
pub fn targets() -> Vec<Target> {
    let mut targets = parsers::targets();
    targets.extend(calls::targets());
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    targets
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    /// The variable that names the planted fault, in children.
    const PLANTED: &str = "SAMEBITS_FUZZ_PLANTED";

    /// Returns this program, to run as a child.
    fn child(target: &str, _: u64, cases: &Range<u64>) -> Command {
        assert_eq!(*cases, 0..1);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "fuzz::tests::planted_faults_are_found", "--nocapture"]);
        command.env(PLANTED, target);
        command
    }

    #[test]
    fn planted_faults_are_found() {
        if let Ok(name) = std::env::var(PLANTED) {
            let planted = calls::planted().into_iter().find(|target| target.name == name).unwrap();
            return run_cases(&planted, 0, 0..1).unwrap();
        }
        let plan = |target: &Target| Plan {
            child,
            targets: vec![target.name.clone()],
            seed: 0,
            cases: 0..1,
            deadline: None,
            jobs: 1,
            patience: Duration::from_secs(if target.name == "calls/hang" { 1 } else { 60 }),
        };
        for target in calls::planted() {
            let report = hunt(&plan(&target), |_| {});
            let ended = match &report.findings[..] {
                [] => format!("{:?}", report.counts[&target.name]),
                [finding] => finding.reason.clone(),
                more => panic!("one case cannot end in {more:?}"),
            };
            let expected = match &*target.name {
                "calls/result" => "[1, 0]",
                "calls/refusal" => "[0, 1]",
                "calls/threads" => "1 and 4 threads give different bits",
                "calls/threads_refused" => "1 thread ends in a result, 4 threads in",
                "calls/nameless" => "an error that names no operation",
                "calls/panic" | "calls/caught" => "panicked at",
                "calls/abort" => "the process died",
                "calls/hang" => "no end after 1s",
                name => panic!("how must {name} end?"),
            };
            assert!(ended.starts_with(expected), "{}: {ended}", target.name);
        }
    }
}
