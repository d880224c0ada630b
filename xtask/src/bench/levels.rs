//! `cargo xtask bench --levels`: what determinism costs.
//!
//! The program runs once per level. Each prepares the same case; then they call it by turns, and each
//! round begins with another level. A ratio is that of two levels in one round.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::cases::{Scale, cases};
use super::random::report::{Round, mean};
use super::random::{ROUND_MS, Side};
use super::{Args, Ratio, build, facts, median};
use crate::bench::random::draw::Case;

/// The levels, the strictest first.
const LEVELS: [&str; 3] = ["portable", "run_to_run", "not_guaranteed"];

/// Sizes for a CPU.
const CPU: Scale = Scale(16);

/// The families with variants of several levels on the CPU, and training steps.
const FAMILIES: [&str; 3] = ["index", "conv", "models"];

/// A case with the rounds of each level.
struct Measured {
    case: Case,
    rounds: [Vec<Round>; 3],
}

impl Measured {
    /// Returns a figure of all rounds of a level.
    fn of(&self, level: usize, figure: fn(&Round) -> f64) -> Vec<f64> {
        self.rounds[level].iter().map(figure).collect()
    }

    /// Returns a figure at `Portable` divided by that at another level.
    fn over(&self, level: usize, figure: fn(&Round) -> f64) -> Ratio {
        Ratio::new(&self.of(0, figure), &self.of(level, figure))
    }
}

/// The time of a call.
fn ms(round: &Round) -> f64 {
    round.ms
}

/// The processor time of a call, which other programs of the machine disturb least.
fn busy(round: &Round) -> f64 {
    round.busy
}

pub(super) fn run(args: &Args) -> Result<()> {
    let program = build("random")?;
    let start = |level| Side::at_level(level, args.threads, &program);
    let mut sides = LEVELS.into_iter().map(start).collect::<Result<Vec<_>>>()?;
    // Each level is as often first as the others.
    let rounds = args.rounds.unwrap_or(if args.quick { 3 } else { 9 }).next_multiple_of(3);
    let wanted = |case: &Case| {
        let title = case.title();
        FAMILIES.contains(&case.family)
            && (args.filters.is_empty() || args.filters.iter().any(|part| title.contains(part)))
    };
    println!(
        "| case | Portable, ms | RunToRun, ms | NotGuaranteed, ms | Portable / RunToRun | processor \
         time | Portable / NotGuaranteed | processor time |\n|---|---|---|---|---|---|---|---|"
    );
    let mut all = Vec::new();
    for case in cases(CPU).into_iter().filter(wanted) {
        let measured = measure(case, rounds, &mut sides)?;
        print(&measured);
        all.push(measured);
    }
    ensure!(!all.is_empty(), "no case has a name with any of {:?}", args.filters);
    println!();
    for (level, name) in [(1, "RunToRun"), (2, "NotGuaranteed")] {
        for (figure, of) in [(ms as fn(&Round) -> f64, "time"), (busy, "processor time")] {
            let ratios: Vec<f64> = all.iter().map(|case| case.over(level, figure).middle).collect();
            let worst = ratios.iter().copied().fold(0.0, f64::max);
            println!(
                "Portable over {name}, {of}: geometric mean {:.3}, at most {worst:.2}",
                mean(&ratios)
            );
        }
    }
    let write = |path: &std::path::Path, text: &str| {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    if let Some(path) = &args.chart {
        write(path, &chart(&all))?;
    }
    if let Some(path) = &args.record {
        write(path, &record(args, &all)?)?;
    }
    Ok(())
}

fn measure(case: Case, rounds: usize, sides: &mut [Side]) -> Result<Measured> {
    let title = case.title();
    let mut slowest: f64 = 0.0;
    for side in &mut *sides {
        match side.ask(&json!({ "prepare": case }))? {
            Ok(reply) => slowest = slowest.max(reply["ms"].as_f64().unwrap_or(0.0)),
            Err(error) => bail!("{title}: {error}"),
        }
    }
    // As many calls at each level, so that a ratio compares equal work.
    let calls = (ROUND_MS / slowest).clamp(1.0, 2000.0) as usize;
    let mut measured = Measured { case, rounds: Default::default() };
    for round in 0..rounds {
        for turn in 0..sides.len() {
            let level = (round + turn) % sides.len();
            match sides[level].ask(&json!({ "run": calls }))? {
                Ok(reply) => measured.rounds[level].push(Round::read(&reply)),
                Err(error) => bail!("{title}: {error}"),
            }
        }
    }
    Ok(measured)
}

fn print(measured: &Measured) {
    let middle = |level: usize| median(measured.of(level, ms));
    let ratio = |level: usize, figure| {
        let Ratio { middle, low, high } = measured.over(level, figure);
        format!("{middle:.2} ({low:.2} to {high:.2})")
    };
    println!(
        "| {} | {:.3} | {:.3} | {:.3} | {} | {} | {} | {} |",
        measured.case.title(),
        middle(0),
        middle(1),
        middle(2),
        ratio(1, ms),
        ratio(1, busy),
        ratio(2, ms),
        ratio(2, busy),
    );
}

/// Returns everything that was measured, as JSON.
fn record(args: &Args, all: &[Measured]) -> Result<String> {
    let cases: Vec<Value> = all
        .iter()
        .map(|Measured { case, rounds: [portable, run_to_run, not_guaranteed] }| {
            json!({
                "name": case.title(),
                "case": case,
                "portable": portable,
                "run_to_run": run_to_run,
                "not_guaranteed": not_guaranteed,
            })
        })
        .collect();
    let facts: std::collections::BTreeMap<_, _> = facts(args)?.into_iter().collect();
    Ok(serde_json::to_string_pretty(&json!({ "facts": facts, "cases": cases }))?)
}

/// Draws a bar for each case: from 1 to the ratio of `Portable` over `NotGuaranteed`, with its interval.
fn chart(all: &[Measured]) -> String {
    const LEFT: f64 = 420.0;
    const WIDTH: f64 = 420.0;
    const ROW: f64 = 18.0;
    const MOST: f64 = 2.0;
    let at = |ratio: f64| LEFT + ratio.clamp(0.0, MOST) / MOST * WIDTH;
    let height = ROW * (all.len() as f64 + 2.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <title>Time at Portable divided by that at NotGuaranteed</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        LEFT + WIDTH + 30.0
    );
    for tick in [0.0, 0.5, 1.0, 1.5, 2.0] {
        let (x, color) = (at(tick), if tick == 1.0 { "#444" } else { "#ddd" });
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"{ROW}\" x2=\"{x}\" y2=\"{height}\" stroke=\"{color}\"/>\
             <text x=\"{x}\" y=\"12\" text-anchor=\"middle\">{tick}</text>"
        );
    }
    for (row, measured) in all.iter().enumerate() {
        let y = ROW * (row as f64 + 1.5);
        let Ratio { middle, low, high } = measured.over(2, ms);
        let color = if low > 1.0 {
            "#c0504d"
        } else if high < 1.0 {
            "#4f8f4f"
        } else {
            "#8c8c8c"
        };
        let (from, to) = (at(middle.min(1.0)), at(middle.max(1.0)));
        let mut title = measured.case.title().replace('&', "&amp;").replace('<', "&lt;");
        if let Some((cut, _)) = title.char_indices().nth(70) {
            title.truncate(cut);
            title.push('…');
        }
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{title}</text>\
             <rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"10\" fill=\"{color}\"/>\
             <line x1=\"{:.1}\" y1=\"{y}\" x2=\"{:.1}\" y2=\"{y}\" stroke=\"black\"/>",
            LEFT - 6.0,
            y + 4.0,
            y - 5.0,
            (to - from).max(1.0),
            at(low),
            at(high)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(ms: [f64; 3]) -> Measured {
        let case = cases(CPU).remove(0);
        let rounds = |ms| {
            let reply = json!({ "ms": ms, "busy": 2.0 * ms });
            (0..3).map(|_| Round::read(&reply)).collect()
        };
        Measured { case, rounds: ms.map(rounds) }
    }

    #[test]
    fn ratios_are_those_of_portable_to_the_other_level() {
        let one = measured([3.0, 2.0, 1.5]);
        assert_eq!(one.over(1, ms).middle, 1.5);
        assert_eq!(one.over(2, busy).middle, 2.0);
    }

    #[test]
    fn the_chart_has_a_bar_for_each_case() {
        let svg = chart(&[measured([1.0, 1.0, 1.0]), measured([3.0, 1.0, 1.0])]);
        assert_eq!(svg.matches("height=\"10\"").count(), 2);
        assert!(svg.ends_with("</svg>\n"));
    }

    #[test]
    fn every_family_has_cases() {
        for family in FAMILIES {
            assert!(cases(CPU).iter().any(|case| case.family == family), "{family}");
        }
    }
}
