//! `cargo xtask bench --random SEED`: cases that nobody chose, beside PyTorch's.
//!
//! A case is a function of the seed and its number. Each program is one process that is told by
//! lines of JSON which case to prepare and how often to call it, so both have the same cases, and
//! within a case they run by turns. No case is left out because it is slow.

pub(crate) mod draw;
mod families;
pub(crate) mod report;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::Args;
use draw::Case;
use families::{FAMILIES, case};
use report::{Measured, Round};

/// Milliseconds of calls in a round.
pub(super) const ROUND_MS: f64 = 20.0;

/// The pause before a turn, after which the threads of the other program sleep: those of PyTorch's
/// OpenMP look for work for some milliseconds after a call.
const PAUSE: Duration = Duration::from_millis(20);

/// Calls of at least so many milliseconds have few rounds.
const SLOW_MS: f64 = 300.0;

pub(super) fn run(args: &Args, seed: u64) -> Result<()> {
    let cases = cases(args, seed)?;
    if args.draw {
        for case in cases {
            println!("{}", serde_json::to_string(&case)?);
        }
        return Ok(());
    }
    let ours = super::build("random")?;
    let script = crate::root().join("python/benchmarks/random_cases.py");
    let mut mine = Side::start("samebits", args.threads, &ours, &[])?;
    let mut theirs = match &args.peers {
        Some(python) => Some(Side::start("PyTorch", args.threads, python, &[&script])?),
        None => None,
    };
    let limits = mine.ask(&json!("limits"))?.map_err(anyhow::Error::msg)?;
    let mut all = Vec::new();
    report::head(&limits);
    for case in cases {
        let measured = measure(args, case, &limits, &mut mine, theirs.as_mut())?;
        measured.print(seed);
        all.push(measured);
    }
    report::summary(seed, &all);
    if let Some(path) = &args.record {
        let record = report::record(seed, &limits, &all, super::facts(args)?)?;
        std::fs::write(path, record).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the cases that the arguments ask for.
fn cases(args: &Args, seed: u64) -> Result<Vec<Case>> {
    if let Some(id) = args.case {
        return Ok(vec![case(seed, id)]);
    }
    if let Some(family) = &args.family {
        let known = FAMILIES.map(|(name, _)| name);
        ensure!(
            known.contains(&family.as_str()),
            "no family {family:?}, expected one of {known:?}"
        );
    }
    let wanted = |case: &Case| args.family.as_ref().is_none_or(|family| case.family == family);
    Ok((0..).map(|id| case(seed, id)).filter(wanted).take(args.cases).collect())
}

fn measure(
    args: &Args,
    case: Case,
    limits: &Value,
    mine: &mut Side,
    mut theirs: Option<&mut Side>,
) -> Result<Measured> {
    let prepare = json!({ "prepare": case });
    let ready = mine.ask(&prepare)?;
    let peer = match theirs.as_deref_mut() {
        Some(side) => Some(side.ask(&prepare)?),
        None => None,
    };
    let mut measured = Measured::new(case, limits, ready.as_ref().ok());
    let error = |found: Option<&Result<Value, String>>| found.and_then(|f| f.clone().err());
    measured.errors = [error(Some(&ready)), error(peer.as_ref())];
    if measured.errors.iter().any(Option::is_some) {
        return Ok(measured);
    }
    let ms = |reply: &Value| reply["ms"].as_f64().unwrap_or(f64::NAN);
    let calls = |ms: f64| (ROUND_MS / ms).clamp(1.0, 2000.0) as usize;
    let (of_mine, of_theirs) =
        (ready.as_ref().map_or(0.0, ms), peer.as_ref().map(|p| p.as_ref().map_or(0.0, ms)));
    let usual = args.rounds.unwrap_or(if args.quick { 2 } else { 5 });
    let slow = of_mine.max(of_theirs.unwrap_or(0.0)) > SLOW_MS;
    for round in 0..if slow { usual.min(2) } else { usual } {
        let mut turn = |side: usize| -> Result<()> {
            let (program, ms) = match (side, theirs.as_deref_mut(), of_theirs) {
                (0, ..) => (&mut *mine, of_mine),
                (_, Some(side), Some(ms)) => (side, ms),
                _ => return Ok(()),
            };
            thread::sleep(PAUSE);
            match program.ask(&json!({ "run": calls(ms) }))? {
                Ok(reply) => measured.rounds[side].push(Round::read(&reply)),
                Err(error) => measured.errors[side] = Some(error),
            }
            Ok(())
        };
        turn(round % 2)?;
        turn(1 - round % 2)?;
    }
    Ok(measured)
}

/// A program that runs cases.
pub(super) struct Side {
    name: &'static str,
    command: Command,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Side {
    pub(super) fn start(
        name: &'static str,
        threads: usize,
        program: &Path,
        args: &[&Path],
    ) -> Result<Side> {
        let mut command = Command::new(program);
        command.args(args).env("THREADS", threads.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Side::of(name, command)
    }

    /// Starts our program at a level.
    pub(super) fn at_level(level: &'static str, threads: usize, program: &Path) -> Result<Side> {
        let mut command = Command::new(program);
        command.env("THREADS", threads.to_string()).env("LEVEL", level);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Side::of(level, command)
    }

    fn of(name: &'static str, mut command: Command) -> Result<Side> {
        let (child, input, output) = spawn(&mut command)?;
        Ok(Side { name, command, child, input, output })
    }

    /// Returns the reply to a question: a value, or the error that the program names. A program
    /// that ends instead has that as its error and is started again.
    pub(super) fn ask(&mut self, question: &Value) -> Result<Result<Value, String>> {
        let mut line = String::new();
        let sent = writeln!(self.input, "{question}").and_then(|()| self.input.flush());
        let read = sent.and_then(|()| self.output.read_line(&mut line));
        if !matches!(read, Ok(1..)) {
            let status = self.child.wait()?;
            (self.child, self.input, self.output) = spawn(&mut self.command)?;
            return Ok(Err(format!("the program ended: {status}")));
        }
        let reply: Value = serde_json::from_str(&line)
            .with_context(|| format!("{} said {line:?}, expected JSON", self.name))?;
        Ok(match reply.get("error") {
            Some(error) => Err(error.as_str().unwrap_or_default().to_owned()),
            None => Ok(reply),
        })
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // Its process has nothing that could be lost.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(command: &mut Command) -> Result<(Child, ChildStdin, BufReader<ChildStdout>)> {
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("{command:?} has no pipes");
    };
    Ok((child, input, BufReader::new(output)))
}
