//! `cargo xtask bench`: times training steps and operators as users call them, beside PyTorch's.
//!
//! Both programs run the same cases in turns and alternate who goes first, so drift of the machine
//! affects both. A ratio is taken within a round. The interval shows the uncertainty of the median
//! ratio; if it contains 1, the case is called inconclusive.
//!
//! `--random SEED` draws cases instead: see [`random`]. `--levels` compares samebits with itself at
//! other levels: see [`levels`].

pub(crate) mod cases;
mod levels;
pub(crate) mod random;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use samebits_numerics::math::f64::pow;

/// Flags of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run two rounds of three calls.
    #[arg(long)]
    quick: bool,
    /// A Python with PyTorch, timed in turns with our program.
    #[arg(long, value_name = "PYTHON")]
    peers: Option<PathBuf>,
    /// Number of rounds; every program runs once per round.
    #[arg(long)]
    rounds: Option<usize>,
    /// Write a record of the run to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Number of threads of each program.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Run the cases in reverse order: earlier cases decide which memory is reused.
    #[arg(long)]
    reverse: bool,
    /// Draw the cases from this seed: calls of any operation and steps of small models.
    #[arg(long, value_name = "SEED")]
    random: Option<u64>,
    /// Number of drawn cases.
    #[arg(long, default_value_t = 170, requires = "random")]
    cases: usize,
    /// Keep only the cases of this family.
    #[arg(long, requires = "random")]
    family: Option<String>,
    /// Run only the case of this number.
    #[arg(long, value_name = "NUMBER", requires = "random")]
    case: Option<u64>,
    /// Print the cases, a line of JSON each, and run none.
    #[arg(long, requires = "random")]
    draw: bool,
    /// Time operations that have a faster variant than their deterministic one, and training steps, at
    /// each level.
    #[arg(long, conflicts_with_all = ["random", "peers"])]
    levels: bool,
    /// Draw the ratios of `--levels` to this file, as SVG.
    #[arg(long, value_name = "FILE", requires = "levels")]
    chart: Option<PathBuf>,
    /// Parts of the names of the cases to run; all by default.
    filters: Vec<String>,
}

/// The median times of a program's cases in milliseconds and their processor times, one per round,
/// and the order of the cases.
#[derive(Default)]
struct Times {
    order: Vec<String>,
    rounds: BTreeMap<String, Vec<f64>>,
    busy: BTreeMap<String, Vec<f64>>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let rounds = args.rounds.unwrap_or(if args.quick { 2 } else { 7 });
    ensure!(rounds > 0, "expected at least one round");
    if args.levels {
        return levels::run(args);
    }
    if let Some(seed) = args.random {
        return random::run(args, seed);
    }
    let ours = build("steps")?;
    let script = crate::root().join("python/benchmarks/steps.py");
    let (mut mine, mut theirs) = (Times::default(), Times::default());
    for round in 0..rounds {
        let run_ours = |times: &mut Times| times.add(args, &mut Command::new(&ours));
        let run_theirs = |times: &mut Times| match &args.peers {
            Some(python) => times.add(args, Command::new(python).arg(&script)),
            None => Ok(()),
        };
        if round % 2 == 0 {
            run_ours(&mut mine)?;
            run_theirs(&mut theirs)?;
        } else {
            run_theirs(&mut theirs)?;
            run_ours(&mut mine)?;
        }
    }
    ensure!(!mine.order.is_empty(), "no case has a name with any of {:?}", args.filters);
    report(&mine, &theirs);
    if let Some(path) = &args.record {
        let record = record(args, &mine, &theirs)?;
        fs::write(path, record).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Builds a program of `crates/samebits/benches` as users build it.
pub(crate) fn build(name: &str) -> Result<PathBuf> {
    eprintln!("building the benchmark `{name}`, which takes minutes if a kernel has changed");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(crate::root());
    cargo.args(["bench", "--workspace", "--bench", name, "--no-run"]);
    let output = cargo.output().context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot build the bench:\n{said}");
    // The last line is like `Executable benches/steps.rs (target/release/deps/steps-0123)`.
    let path = said.lines().rev().find_map(|line| {
        let (_, path) = line.trim().strip_prefix("Executable ")?.split_once('(')?;
        path.strip_suffix(')')
    });
    Ok(crate::root().join(path.context("cargo does not say what it has built")?))
}

impl Times {
    /// Runs a program once and adds the times that it prints.
    fn add(&mut self, args: &Args, program: &mut Command) -> Result<()> {
        program.args(&args.filters).env("THREADS", args.threads.to_string());
        program.env("REPS", if args.quick { "3" } else { "7" });
        program.env("REVERSE", if args.reverse { "1" } else { "0" });
        let output = program.output().with_context(|| format!("cannot start {program:?}"))?;
        if !output.status.success() {
            bail!("{program:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let numbers = |i: usize| fields.get(i).and_then(|field| field.parse::<f64>().ok());
            let (Some(&name), Some(median), Some(busy)) = (fields.first(), numbers(1), numbers(3))
            else {
                bail!("{program:?} printed {line:?}, expected a name and times");
            };
            if !self.rounds.contains_key(name) {
                self.order.push(name.to_owned());
            }
            self.rounds.entry(name.to_owned()).or_default().push(median);
            self.busy.entry(name.to_owned()).or_default().push(busy);
        }
        Ok(())
    }

    fn median(&self, name: &str) -> Option<f64> {
        self.rounds.get(name).map(|rounds| median(rounds.clone()))
    }
}

/// The median of ratios and the interval that contains it in 95 of 100 resamples of the rounds.
struct Ratio {
    middle: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    fn new(mine: &[f64], theirs: &[f64]) -> Ratio {
        let ratios: Vec<f64> = mine.iter().zip(theirs).map(|(a, b)| a / b).collect();
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut draw = || {
            // Marsaglia's xorshift: equal figures give equal intervals.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ratios[(state >> 33) as usize % ratios.len()]
        };
        let mut medians: Vec<f64> =
            (0..2000).map(|_| median((0..ratios.len()).map(|_| draw()).collect())).collect();
        medians.sort_by(f64::total_cmp);
        let (low, high) = (medians[medians.len() / 40], medians[medians.len() * 39 / 40]);
        Ratio { middle: median(ratios.clone()), low, high }
    }

    fn is_conclusive(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

/// Returns the ratios of the cases that both programs ran.
fn ratios<'a>(mine: &'a Times, theirs: &'a Times) -> impl Iterator<Item = (&'a str, Ratio)> {
    mine.order.iter().filter_map(|name| {
        Some((name.as_str(), Ratio::new(&mine.rounds[name], theirs.rounds.get(name)?)))
    })
}

fn report(mine: &Times, theirs: &Times) {
    let ratios: BTreeMap<&str, Ratio> = ratios(mine, theirs).collect();
    println!("| case | samebits, ms | PyTorch, ms | ratio | of processor time | |");
    println!("|---|---|---|---|---|---|");
    for name in &mine.order {
        let ours = mine.median(name).unwrap_or(f64::NAN);
        let (Some(ratio), Some(peer)) = (ratios.get(name.as_str()), theirs.median(name)) else {
            println!("| {name} | {ours:.3} | | | | |");
            continue;
        };
        let Ratio { middle, low, high } = ratio;
        let remark = if ratio.is_conclusive() { "" } else { "inconclusive" };
        let busy = Ratio::new(&mine.busy[name], &theirs.busy[name]).middle;
        println!(
            "| {name} | {ours:.3} | {peer:.3} | {middle:.2} ({low:.2} to {high:.2}) | {busy:.2} | \
             {remark} |"
        );
    }
    if !ratios.is_empty() {
        let product: f64 = ratios.values().map(|ratio| ratio.middle).product();
        let mean = pow(product, 1.0 / ratios.len() as f64);
        println!("\ngeometric mean of {} ratios: {mean:.3}", ratios.len());
    }
}

/// Returns what the figures were measured with.
fn facts(args: &Args) -> Result<Vec<(&'static str, String)>> {
    let said = |program: &str, arguments: &[&str]| -> Result<String> {
        let output = Command::new(program).current_dir(crate::root()).args(arguments).output();
        let output = output.with_context(|| format!("cannot start {program}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let torch = match &args.peers {
        Some(python) => {
            let version = "import torch; print(torch.__version__)";
            said(&python.to_string_lossy(), &["-c", version])?
        }
        None => String::new(),
    };
    Ok(vec![
        ("commit", said("git", &["rev-parse", "HEAD"])?),
        ("committed", said("git", &["log", "-1", "--format=%cI"])?),
        ("cpu", cpu.map_or_else(String::new, |(_, cpu)| cpu.to_owned())),
        ("os", std::env::consts::OS.to_owned()),
        ("arch", std::env::consts::ARCH.to_owned()),
        ("rustc", said("rustc", &["--version"])?),
        ("torch", torch),
        ("threads", args.threads.to_string()),
        ("reverse", args.reverse.to_string()),
    ])
}

/// Returns the record of a run: the figures, the machine and the versions.
fn record(args: &Args, mine: &Times, theirs: &Times) -> Result<String> {
    let mut json = String::from("{\n");
    for (name, value) in facts(args)? {
        // The debug output of such texts is JSON.
        writeln!(json, "  {name:?}: {value:?},")?;
    }
    json.push_str("  \"cases\": [\n");
    for (i, name) in mine.order.iter().enumerate() {
        let theirs = theirs.rounds.get(name).map_or(&[][..], Vec::as_slice);
        let comma = if i + 1 < mine.order.len() { "," } else { "" };
        let mine = &mine.rounds[name];
        writeln!(
            json,
            "    {{\"name\": {name:?}, \"ms\": {mine:?}, \"torch_ms\": {theirs:?}}}{comma}"
        )?;
    }
    json.push_str("  ]\n}\n");
    Ok(json)
}
