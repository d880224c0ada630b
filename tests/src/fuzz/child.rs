//! The process in which the cases run.

use std::io::Write as _;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use super::{Outcome, Target};

/// The place and the message of a panic.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Runs cases of a target in sequence. Prints the case that it begins (`case 7`) and its ending
/// (`result`, `refused`, `wrong REASON`) to the standard output. Stops at the first wrong ending:
/// the next cases deserve a sound process.
///
/// # Errors
///
/// The reader of the output is gone.
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
        // A panic counts even if it was caught.
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
