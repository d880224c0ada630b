//! The process that starts the children and reads their output.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Seek};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The cases to run.
#[derive(Debug)]
pub struct Plan {
    /// A constructor of a process that calls [`run_cases`](super::run_cases) for a target and
    /// cases.
    pub child: fn(target: &str, seed: u64, cases: &Range<u64>) -> Command,
    /// The names of the targets.
    pub targets: Vec<String>,
    /// The seed of the cases.
    pub seed: u64,
    /// The cases of each target.
    pub cases: Range<u64>,
    /// The time to stop, even if cases remain.
    pub deadline: Option<Instant>,
    /// The number of concurrent children.
    pub jobs: usize,
    /// The time limit of a case.
    pub patience: Duration,
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// The cases that ended in a result and in a typed error, by target.
    pub counts: BTreeMap<String, [u64; 2]>,
    /// The cases that ended otherwise.
    pub findings: Vec<Finding>,
}

/// A case that ended wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The target.
    pub target: String,
    /// The first case that the process ran, and the one that it ended with. They differ only if the
    /// last one does not fail alone.
    pub cases: Range<u64>,
    /// The reason.
    pub reason: String,
}

/// The number of cases of one child.
const BATCH: u64 = 200;

/// The number of findings after which a target is skipped.
const ENOUGH: usize = 5;

/// Runs every target's cases, in turns of a few hundred; calls `tell` for each finding.
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

/// Runs cases in a child. Returns the numbers of cases that ended in a result and in a typed error,
/// and the case that ended otherwise, with the reason.
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
    // The processor time when the case began, and when its time limit last expired.
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
                // It may have ended just now; then there is nothing to kill.
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
            // A test harness prints text, too.
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

/// Returns whether an unfinished case is still computing and only other processes delay it: it has
/// had less than `patience` of processor time since it began, and some of that recently. A
/// deadlocked case has none.
fn waits_for_the_processor(
    [began, last]: [Duration; 2],
    now: Duration,
    patience: Duration,
) -> bool {
    now.saturating_sub(began) < patience && now.saturating_sub(last) > patience / 1000
}

/// Returns the processor time of a process with all its threads. It is zero if the system has no
/// `/proc`; then the time limit is that of the clock.
fn processor_time(child: &Child) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // After the name in parentheses, the 12th and 13th fields are hundredths of a second in user
    // code and in the system.
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace().skip(11).take(2);
    fields
        .filter_map(|field| field.parse().ok())
        .map(|ticks: u64| Duration::from_millis(10 * ticks))
        .sum()
}

/// Returns the message of an aborted process, and the function of ours that it was in.
fn last_words(said: &str) -> String {
    let message = said.lines().next().unwrap_or("");
    let ours = said.lines().filter(|line| line.contains("samebits_") && !line.contains("/"));
    let ours: Vec<&str> = ours.map(str::trim).take(3).collect();
    format!("{message} | {}", ours.join(" | "))
}

/// Reads the output of a child, line by line.
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
    /// Returns the command that reproduces the finding.
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
