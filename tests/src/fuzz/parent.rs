//! The process that starts the children and listens to them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Seek};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What to run.
#[derive(Debug)]
pub struct Plan {
    /// Makes a process that calls [`run_cases`](super::run_cases) for a target and cases.
    pub child: fn(target: &str, seed: u64, cases: &Range<u64>) -> Command,
    /// The names of the targets.
    pub targets: Vec<String>,
    /// What cases are drawn from.
    pub seed: u64,
    /// The cases of each target.
    pub cases: Range<u64>,
    /// When to stop although there are more.
    pub deadline: Option<Instant>,
    /// How many children at once.
    pub jobs: usize,
    /// How long a case may take.
    pub patience: Duration,
}

/// What was run.
#[derive(Debug, Default)]
pub struct Report {
    /// Cases that ended in a result and in a typed error, by target.
    pub counts: BTreeMap<String, [u64; 2]>,
    /// Cases that ended otherwise.
    pub findings: Vec<Finding>,
}

/// A case that ended in what must not happen.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its target.
    pub target: String,
    /// The first case that the process ran, and the one that it ended with. They differ only if
    /// the last one on its own does not fail.
    pub cases: Range<u64>,
    /// What happened.
    pub reason: String,
}

/// Cases of one child.
const BATCH: u64 = 200;

/// A target is left alone after so many findings.
const ENOUGH: usize = 5;

/// Runs every target's cases, in turns of a few hundred; `tell` hears of findings as they come.
pub fn hunt(plan: &Plan, tell: impl Fn(&Finding) + Sync) -> Report {
    let report = Mutex::new(Report::default());
    let (first, turn) = (plan.cases.start, AtomicU64::new(0));
    let targets = plan.targets.len() as u64;
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let turn = turn.fetch_add(1, Ordering::Relaxed);
                    let start = first.saturating_add(turn / targets * BATCH);
                    let late = plan.deadline.is_some_and(|deadline| Instant::now() >= deadline);
                    if late || start >= plan.cases.end {
                        return;
                    }
                    let cases = start..plan.cases.end.min(start.saturating_add(BATCH));
                    let target = &plan.targets[(turn % targets) as usize];
                    run_batch(plan, target, cases, &report, &tell);
                }
            });
        }
    });
    report.into_inner().expect("no thread panicked")
}

/// Runs cases of a target, in a new child after each finding.
fn run_batch(
    plan: &Plan,
    target: &str,
    mut cases: Range<u64>,
    report: &Mutex<Report>,
    tell: &(impl Fn(&Finding) + Sync),
) {
    let report = || report.lock().expect("no thread panicked");
    let found = || report().findings.iter().filter(|finding| finding.target == target).count();
    while !cases.is_empty() && found() < ENOUGH {
        let (counts, finding) = run_child(plan, target, &cases);
        report().count(target, counts);
        let Some((case, reason)) = finding else { return };
        let alone = case..case + 1;
        let again = run_child(plan, target, &alone).1;
        let range = if again.is_some() { alone } else { cases.start..case + 1 };
        let finding = Finding { target: target.to_owned(), cases: range, reason };
        tell(&finding);
        report().findings.push(finding);
        cases.start = case + 1;
    }
}

/// Runs cases in a child. Returns how many ended in a result and how many in a typed error, and
/// the case that ended otherwise, with the reason.
fn run_child(plan: &Plan, target: &str, cases: &Range<u64>) -> ([u64; 2], Option<(u64, String)>) {
    let mut complaints = tempfile::tempfile().expect("a temporary file");
    let mut child = (plan.child)(target, plan.seed, cases)
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(complaints.try_clone().expect("a temporary file"))
        .spawn()
        .expect("a child process");
    let lines = listen(&mut child);
    let (mut counts, mut case) = ([0; 2], cases.start);
    // Of the processor, when the case began and when its time was last up.
    let mut spent = [Duration::ZERO; 2];
    let reason = loop {
        let line = match lines.recv_timeout(plan.patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                let now = processor_time(&child);
                if waits_for_the_processor(spent, now, plan.patience) {
                    spent[1] = now;
                    continue;
                }
                // It may have ended this very moment; then there is nothing to kill.
                drop(child.kill());
                break Some(format!("no end after {:?}", plan.patience));
            }
            Err(RecvTimeoutError::Disconnected) => break Some(String::new()),
        };
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("case", number) => {
                case = number.parse().expect("the number of a case");
                spent = [processor_time(&child); 2];
            }
            ("result", _) => counts[0] += 1,
            ("refused", _) => counts[1] += 1,
            ("wrong", reason) => break Some(reason.to_owned()),
            ("done", _) => break None,
            // A test harness has a word to say too.
            _ => {}
        }
    };
    let status = child.wait().expect("a child process");
    let reason = reason.map(|reason| {
        if !reason.is_empty() {
            return reason;
        }
        let mut said = Vec::new();
        // Without its last words, its status still tells how it ended.
        drop(complaints.rewind().and_then(|()| complaints.read_to_end(&mut said)));
        format!("the process died: {status}: {}", last_words(&String::from_utf8_lossy(&said)))
    });
    (counts, reason.map(|reason| (case, reason)))
}

/// Whether a case without an end is still at work, and only other processes keep it from ending: it
/// has had less than `patience` of the processor since it began, and a little of that lately. What waits
/// for ever has nothing.
fn waits_for_the_processor(
    [began, last]: [Duration; 2],
    now: Duration,
    patience: Duration,
) -> bool {
    now.saturating_sub(began) < patience && now.saturating_sub(last) > patience / 1000
}

/// How long a process has computed, with all its threads. Zero where the system has no `/proc`: there a
/// case may take its time on the clock.
fn processor_time(child: &Child) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // After the name, in parentheses, the 12th and 13th fields: hundredths of a second in user code and
    // in the system.
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace().skip(11).take(2);
    fields
        .filter_map(|field| field.parse().ok())
        .map(|ticks: u64| Duration::from_millis(10 * ticks))
        .sum()
}

/// The message of a process that was aborted, and which of our functions it was in.
fn last_words(said: &str) -> String {
    let message = said.lines().next().unwrap_or("");
    let ours = said.lines().filter(|line| line.contains("samebits_") && !line.contains("/"));
    let ours: Vec<&str> = ours.map(str::trim).take(3).collect();
    format!("{message} | {}", ours.join(" | "))
}

/// What a child says, line by line.
fn listen(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = channel();
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Report {
    fn count(&mut self, target: &str, [results, refused]: [u64; 2]) {
        let sums = self.counts.entry(target.to_owned()).or_default();
        *sums = [sums[0] + results, sums[1] + refused];
    }
}

impl Finding {
    /// The command that shows it again.
    pub fn reproduction(&self, seed: u64) -> String {
        let Range { start, end } = self.cases;
        let cases = if end - start == 1 { start.to_string() } else { format!("{start}..{end}") };
        format!("cargo xtask fuzz --seed {seed} --case {cases} {}", self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starved_case_is_no_hang() {
        let waits = |began, last, now| {
            let [began, last, now] = [began, last, now].map(Duration::from_millis);
            waits_for_the_processor([began, last], now, Duration::from_secs(300))
        };
        assert!(waits(7_000, 7_000, 9_000), "at work");
        assert!(waits(7_000, 9_000, 306_000), "still at work");
        assert!(!waits(7_000, 9_000, 307_000), "it has had its time");
        assert!(!waits(7_000, 9_000, 9_100), "it does nothing");
        assert!(!waits(0, 0, 0), "nobody knows");
    }

    #[test]
    fn the_processor_time_of_a_process_is_that_of_its_threads() {
        let mut spinning = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let start = Instant::now();
        while cfg!(target_os = "linux") && processor_time(&spinning) < Duration::from_millis(50) {
            assert!(start.elapsed() < Duration::from_secs(60), "no time passes");
            std::thread::sleep(Duration::from_millis(10));
        }
        spinning.kill().unwrap();
        spinning.wait().unwrap();
    }
}
