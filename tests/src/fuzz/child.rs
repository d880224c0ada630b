//! The process that the cases run in.

use std::io::Write as _;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use super::{Outcome, Target};

/// Where a thread panicked, and why.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Runs cases of a target one after the other, and says on the standard output which one it
/// begins (`case 7`) and how it ended (`result`, `refused`, `wrong REASON`). Ends at the first
/// one that ended wrong: the next ones deserve a sound process.
///
/// # Errors
///
/// If nobody reads what it says.
pub fn run_cases(target: &Target, seed: u64, cases: Range<u64>) -> std::io::Result<()> {
    std::panic::set_hook(Box::new(|info| {
        let mut first = PANIC.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        first.get_or_insert_with(|| info.to_string());
    }));
    // Drawing casts numbers.
    samebits::install();
    let mut out = std::io::stdout().lock();
    for case in cases {
        writeln!(out, "case {case}")?;
        out.flush()?;
        let ended = catch_unwind(AssertUnwindSafe(|| target.run(seed, case)));
        // A panic counts even if something has caught it.
        let panic = PANIC.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        match (panic, ended) {
            (None, Ok(Outcome::Result)) => writeln!(out, "result")?,
            (None, Ok(Outcome::Refused)) => writeln!(out, "refused")?,
            (Some(reason), _) | (None, Ok(Outcome::Wrong(reason))) => {
                return writeln!(out, "wrong {}", reason.replace('\n', " | "));
            }
            (None, Err(_)) => return writeln!(out, "wrong unwound without a panic"),
        }
    }
    writeln!(out, "done")
}
