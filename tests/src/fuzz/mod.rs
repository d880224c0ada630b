//! Random bytes for every parser and random arguments for every operation: what
//! `cargo xtask fuzz` runs.
//!
//! A case is a function of (seed, target, case number) alone. It must end in a result or in an
//! error that names the operation: no panic, no abort, no hang, no more memory than
//! [`MEMORY_LIMIT`], and no result whose bits depend on the number of threads. The cases run in
//! child processes, so that one that takes its process down is seen and named.

mod bytes;
mod calls;
mod child;
mod draw;
mod parent;
mod parsers;

pub use child::run_cases;
pub use draw::Draw;
pub use parent::{Finding, Plan, Report, hunt};

use samebits::registry::Pass;

/// What a child process may have of address space, in bytes. Hostile sizes exceed it whatever
/// the element type.
pub const MEMORY_LIMIT: u64 = 4 << 30;

/// How long a case may take on a loaded machine.
pub const TIME_LIMIT: std::time::Duration = std::time::Duration::from_secs(30);

/// A parser or an operation, and how to give it a case.
pub struct Target {
    /// `bytes/PARSER` or `calls/OPERATION`.
    pub name: String,
    /// The entry of the registry that it runs, if it runs one alone.
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

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In a result.
    Result,
    /// In a typed error.
    Refused,
    /// In what must not happen.
    Wrong(String),
}

/// Every target, in the order of the names.
pub fn targets() -> Vec<Target> {
    let mut targets = parsers::targets();
    targets.extend(calls::targets());
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    targets
}
