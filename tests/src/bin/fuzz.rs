//! Searches for cases that end in a panic, an abort, a hang or a result that depends on the number
//! of threads, for `cargo xtask fuzz`.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use workspace_tests::fuzz::{self, Plan, TIME_LIMIT};

/// Give random input to every parser and every operation.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask fuzz")]
struct Args {
    /// Minutes to run; the default without cases is one.
    #[arg(long)]
    minutes: Option<f64>,
    /// The seed of the cases.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A case of each target, or several as FROM..TO.
    #[arg(long, alias = "case", value_parser = cases)]
    cases: Option<Range<u64>>,
    /// The number of concurrent processes.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Run the cases of one target in this process and report how each ends.
    #[arg(long, hide = true)]
    child: bool,
    /// Names or prefixes of targets, such as `bytes/` or `calls/conv`.
    targets: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let all = fuzz::targets();
    if args.child {
        // Elsewhere a request for too much memory is refused by the system alone.
        #[cfg(unix)]
        rlimit::setrlimit(rlimit::Resource::AS, fuzz::MEMORY_LIMIT, fuzz::MEMORY_LIMIT)
            .context("cannot limit the memory")?;
        let target = all.iter().find(|target| args.targets == [&*target.name]);
        fuzz::run_cases(target.context("no such target")?, args.seed, args.cases.unwrap_or(0..1))?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = |name: &str| {
        args.targets.is_empty() || args.targets.iter().any(|start| name.starts_with(start.as_str()))
    };
    let targets: Vec<String> =
        all.into_iter().map(|target| target.name).filter(|name| wanted(name)).collect();
    ensure!(!targets.is_empty(), "no target is called {:?}", args.targets);
    let minutes = args.minutes.or(args.cases.is_none().then_some(1.0));
    let plan = Plan {
        child,
        targets,
        seed: args.seed,
        cases: args.cases.unwrap_or(0..u64::MAX),
        deadline: minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(60.0 * minutes)),
        jobs: args.jobs,
        patience: TIME_LIMIT,
    };
    let report = fuzz::hunt(&plan, |finding| {
        println!("{}: {}", finding.target, finding.reason);
        println!("    {}", finding.reproduction(args.seed));
    });
    println!("{:<32} {:>9} {:>9} {:>9} {:>9}", "target", "cases", "results", "refused", "findings");
    let mut sums = [0; 3];
    for (target, [results, refused]) in &report.counts {
        let found = report.findings.iter().filter(|finding| finding.target == *target).count();
        line(target, [*results, *refused, found as u64]);
        sums = [sums[0] + results, sums[1] + refused, sums[2] + found as u64];
    }
    line("all", sums);
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(target: &str, [results, refused, found]: [u64; 3]) {
    let cases = results + refused + found;
    println!("{target:<32} {cases:>9} {results:>9} {refused:>9} {found:>9}");
}

/// Returns this program, to run as a child.
fn child(target: &str, seed: u64, cases: &Range<u64>) -> Command {
    // The binary at its path may change: an hour is long enough to build another one.
    let running = Some(PathBuf::from("/proc/self/exe")).filter(|link| link.exists());
    let path = || std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(running.unwrap_or_else(path));
    command.args(["--child", "--seed", &seed.to_string(), target]);
    command.args(["--cases", &format!("{}..{}", cases.start, cases.end)]);
    command
}

fn cases(text: &str) -> anyhow::Result<Range<u64>> {
    let range = match text.split_once("..") {
        Some((from, to)) => from.parse()?..to.parse()?,
        None => {
            let case: u64 = text.parse()?;
            case..case.checked_add(1).context("a smaller number")?
        }
    };
    if range.is_empty() {
        bail!("{text} holds no case");
    }
    Ok(range)
}
