//! The figures of random cases, and what they add up to.

use std::collections::BTreeMap;

use anyhow::Result;
use samebits_numerics::math::f64::{exp, log};
use serde_json::{Value, json};

use super::draw::Case;
use crate::bench::median;

/// What one program needed for a call, in milliseconds.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(in crate::bench) struct Round {
    /// The median of the calls of a round.
    pub(in crate::bench) ms: f64,
    /// Processor time, of all threads.
    pub(in crate::bench) busy: f64,
}

impl Round {
    pub(in crate::bench) fn read(reply: &Value) -> Round {
        let number = |name: &str| reply[name].as_f64().unwrap_or(f64::NAN);
        Round { ms: number("ms"), busy: number("busy") }
    }
}

/// A case with the rounds of both programs, ours first.
pub(super) struct Measured {
    pub(super) case: Case,
    pub(super) rounds: [Vec<Round>; 2],
    pub(super) errors: [Option<String>; 2],
    /// What the machine's memory and its arithmetic would need at least, in milliseconds.
    limit: f64,
}

impl Measured {
    pub(super) fn new(case: Case, limits: &Value, ready: Option<&Value>) -> Measured {
        let bytes = ready.and_then(|ready| ready["bytes"].as_f64()).unwrap_or(0.0);
        let limit = (bytes / rate_of_copying(limits, bytes))
            .max(case.fmas / limits[case.dtype].as_f64().unwrap_or(f64::INFINITY));
        let (rounds, errors) = ([Vec::new(), Vec::new()], [None, None]);
        Measured { case, rounds, errors, limit: limit * 1e3 }
    }

    fn of(&self, side: usize, figure: fn(&Round) -> f64) -> Option<f64> {
        let rounds = &self.rounds[side];
        (!rounds.is_empty()).then(|| median(rounds.iter().map(figure).collect()))
    }

    /// Returns the median over the rounds of our figure divided by theirs.
    fn ratio(&self, figure: fn(&Round) -> f64) -> Option<f64> {
        let [mine, theirs] = &self.rounds;
        let ratios: Vec<f64> =
            mine.iter().zip(theirs).map(|(a, b)| figure(a) / figure(b)).collect();
        (!ratios.is_empty()).then(|| median(ratios))
    }

    fn ms(&self) -> Option<f64> {
        self.ratio(|round| round.ms)
    }

    fn busy(&self) -> Option<f64> {
        self.ratio(|round| round.busy)
    }

    pub(super) fn print(&self, seed: u64) {
        let Case { id, family, .. } = &self.case;
        let title = self.case.title();
        for (side, error) in ["samebits", "PyTorch"].iter().zip(&self.errors) {
            if let Some(error) = error {
                println!("| {id} | {family} | {title} | {side} failed: {error} (seed {seed}) |");
                return;
            }
        }
        let text = |figure: Option<f64>| figure.map_or(String::new(), digits);
        let distance = |side| text(self.of(side, |round| round.ms).map(|ms| ms / self.limit));
        println!(
            "| {id} | {family} | {title} | {} | {} | {} | {} | {} | {} | {} | {} |",
            text(self.of(0, |round| round.ms)),
            text(self.of(1, |round| round.ms)),
            text(self.ms()),
            text(self.of(0, |round| round.busy)),
            text(self.of(1, |round| round.busy)),
            text(self.busy()),
            distance(0),
            distance(1),
        );
    }
}

/// Three digits.
fn digits(x: f64) -> String {
    match x {
        x if x < 0.1 => format!("{x:.4}"),
        x if x < 10.0 => format!("{x:.2}"),
        _ => format!("{x:.0}"),
    }
}

/// Returns the bytes per second, read and written together, of a copy of about as many bytes.
fn rate_of_copying(limits: &Value, bytes: f64) -> f64 {
    let copies = limits["copy"].as_array().map_or(&[][..], Vec::as_slice);
    let rates = copies.iter().map(|pair| (pair[0].as_f64(), pair[1].as_f64()));
    let rates: Vec<(f64, f64)> = rates.filter_map(|(size, rate)| Some((size?, rate?))).collect();
    let fits = rates.iter().find(|(size, _)| *size >= bytes).or(rates.last());
    fits.map_or(f64::INFINITY, |(_, rate)| *rate)
}

pub(super) fn head(limits: &Value) {
    let giga = |name: &str| limits[name].as_f64().unwrap_or(f64::NAN) / 1e9;
    println!(
        "limits: {:.0}e9 fma/s in f32, {:.0}e9 in f64, copies of 64 MiB at {:.1} GB/s read and \
         written\n",
        giga("f32"),
        giga("f64"),
        rate_of_copying(limits, 64.0 * 1048576.0) / 1e9
    );
    print_load();
    print_columns();
}

/// Prints the load of the machine, where the system tells it.
#[expect(clippy::disallowed_methods, reason = "it is reported and decides nothing")]
fn print_load() {
    let Ok(load) = std::fs::read_to_string("/proc/loadavg") else { return };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = load.split(' ').next().unwrap_or_default();
    println!("load {load} on {cores} cores\n");
}

fn print_columns() {
    println!(
        "| case | family | call | samebits, ms | PyTorch, ms | ratio | processor, ms | of PyTorch \
         | ratio | times the limit | of PyTorch |\n|---|---|---|---|---|---|---|---|---|---|---|"
    );
}

/// Returns the worst cases, the shares of slow ones, and the mean of each family.
pub(super) fn summary(seed: u64, all: &[Measured]) {
    let failed = all.iter().filter(|case| case.errors.iter().any(Option::is_some)).count();
    let mut compared: Vec<&Measured> = all.iter().filter(|case| case.ms().is_some()).collect();
    println!("\n{} cases, {} compared, {failed} failed", all.len(), compared.len());
    print_load();
    if compared.is_empty() {
        return;
    }
    compared.sort_by(|a, b| b.ms().unwrap_or(0.0).total_cmp(&a.ms().unwrap_or(0.0)));
    println!("\nthe slowest beside PyTorch:\n");
    print_columns();
    compared.iter().take(20).for_each(|case| case.print(seed));
    println!("\n`cargo xtask bench --random {seed} --case NUMBER --peers PYTHON` repeats one.");
    for (name, ratio) in FIGURES {
        let ratios: Vec<f64> = compared.iter().filter_map(|case| ratio(case)).collect();
        let share = |limit: f64| {
            let above = ratios.iter().filter(|ratio| **ratio > limit).count();
            100.0 * above as f64 / ratios.len() as f64
        };
        println!(
            "\n{name}: {:.0} % of cases above 1.05, {:.0} % above 1.25, {:.0} % above 2; geometric \
             mean {:.3}",
            share(1.05),
            share(1.25),
            share(2.0),
            mean(&ratios)
        );
    }
    println!("\n| family | cases | time | processor time | worst |\n|---|---|---|---|---|");
    let mut families: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
    for case in &compared {
        let of = families.entry(case.case.family).or_default();
        for (ratios, (_, ratio)) in of.iter_mut().zip(FIGURES) {
            ratios.extend(ratio(case));
        }
    }
    for (family, [time, busy]) in families {
        let worst = time.iter().copied().fold(0.0, f64::max);
        println!(
            "| {family} | {} | {:.2} | {:.2} | {worst:.2} |",
            time.len(),
            mean(&time),
            mean(&busy)
        );
    }
}

/// A ratio of each case, by its name.
type Figure = (&'static str, fn(&Measured) -> Option<f64>);

const FIGURES: [Figure; 2] = [("time", Measured::ms), ("processor time", Measured::busy)];

/// Returns the geometric mean of positive numbers.
pub(crate) fn mean(ratios: &[f64]) -> f64 {
    exp(ratios.iter().map(|&ratio| log(ratio)).sum::<f64>() / ratios.len() as f64)
}

/// Returns everything that was measured, as JSON.
pub(super) fn record(
    seed: u64,
    limits: &Value,
    all: &[Measured],
    facts: Vec<(&'static str, String)>,
) -> Result<String> {
    let cases: Vec<Value> = all
        .iter()
        .map(|measured| {
            json!({
                "case": measured.case,
                "samebits": measured.rounds[0],
                "torch": measured.rounds[1],
                "errors": measured.errors,
                "limit_ms": measured.limit,
            })
        })
        .collect();
    let facts: BTreeMap<&str, String> = facts.into_iter().collect();
    let record = json!({ "seed": seed, "facts": facts, "limits": limits, "cases": cases });
    Ok(serde_json::to_string_pretty(&record)?)
}
