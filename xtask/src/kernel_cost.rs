//! `cargo xtask kernel-cost`: reports the cost of CUDA kernels, as counted by the emulated device.
//!
//! `counts` and `model` do not depend on cargo: they read the counts of a run, extrapolate them to
//! the real sizes, and estimate the time on a GPU. This file runs the cases, and writes and
//! compares the document and the record.

mod counts;
mod model;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::build_kernels;
use counts::Measured;
use model::{H200, RTX, Resources};

/// Flags of `cargo xtask kernel-cost`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fail if a case costs over 5 % more than recorded, and write nothing.
    #[arg(long)]
    check: bool,
    /// Parts of the names of the cases to run; all by default. With filters nothing is written.
    filters: Vec<String>,
}

/// The factor by which a figure may rise.
const SLACK: f64 = 1.05;
const DOCUMENT: &str = "docs/book/cuda-cost.md";
const RECORD: &str = "kernels/cost.toml";
const BEGIN: &str = "<!-- costs: written by `cargo xtask kernel-cost` -->\n";
const END: &str = "<!-- end of the costs -->";

/// The costs of the cases when the record was written.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Record {
    #[serde(default)]
    case: Vec<Entry>,
}

/// A case at the larger of its measured sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    name: String,
    form: String,
    size: u64,
    /// Launches, fills and copies.
    launches: u64,
    /// Instructions of all warps.
    instructions: u64,
    /// Sectors that loads, stores and atomics request.
    sectors: u64,
    /// Instructions and waits of the longest warp, and its longest chain of loads.
    longest: u64,
    waits: u64,
    chain: u64,
}

/// Every class of instructions.
const CLASSES: [&str; 19] = [
    "float",
    "double",
    "divide_float",
    "divide_double",
    "word",
    "wide",
    "divide_word",
    "divide_wide",
    "approximate",
    "convert",
    "move",
    "global",
    "shared",
    "local",
    "constant",
    "atomic",
    "exchange",
    "barrier",
    "control",
];
const SECTORS: [&str; 3] = ["loads_asked", "stores_asked", "atomics_asked"];

impl Entry {
    fn of(case: &Measured) -> Entry {
        let total = |names: &[&str]| case.total(names) as u64;
        Entry {
            name: case.name.clone(),
            form: case.form.clone(),
            size: case.size as u64,
            launches: case.kernels.values().map(|kernel| kernel.count).sum::<f64>() as u64,
            instructions: total(&CLASSES),
            sectors: total(&SECTORS),
            longest: total(&["longest"]),
            waits: total(&["waits"]),
            chain: total(&["chain"]),
        }
    }

    /// Returns the figures that exceed those of the record.
    fn rises(&self, record: &Entry) -> Vec<String> {
        let figures = |entry: &Entry| {
            [
                ("launches", entry.launches),
                ("instructions", entry.instructions),
                ("sectors", entry.sectors),
                ("instructions of the longest warp", entry.longest),
                ("waits of the longest warp", entry.waits),
                ("loads in the longest chain", entry.chain),
            ]
        };
        let pairs = figures(self).into_iter().zip(figures(record));
        let risen = pairs.filter(|((_, now), (_, then))| *now as f64 > SLACK * *then as f64);
        risen
            .map(|((what, now), (_, then))| {
                format!("{}, {}: {now} {what}, {then} in the record", self.name, self.form)
            })
            .collect()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let found = measure(&args.filters)?;
    let entries: Vec<Entry> = found.iter().map(|[_, large]| Entry::of(large)).collect();
    if args.check {
        let text = read(RECORD)?;
        let record = toml::from_str(&text).with_context(|| format!("cannot parse {RECORD}"))?;
        return compare(&entries, &record, args.filters.is_empty());
    }
    let real = found.iter().map(|[small, large]| counts::extrapolate(small, large));
    let table = table(&real.collect::<Result<Vec<_>>>()?)?;
    println!("{table}");
    if !args.filters.is_empty() {
        return Ok(());
    }
    let old = read(DOCUMENT)?;
    let parts = old.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?)));
    let (head, (_, tail)) = parts.with_context(|| format!("{DOCUMENT} has no place for costs"))?;
    write(DOCUMENT, &format!("{head}{BEGIN}\n{table}\n{END}{tail}"))?;
    let record = toml::to_string(&Record { case: entries }).context("cannot write the record")?;
    let note = "# Written by `cargo xtask kernel-cost`. Do not edit.\n\n";
    write(RECORD, &format!("{note}{record}"))
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(crate::root().join(path)).with_context(|| format!("cannot read {path}"))
}

fn write(path: &str, text: &str) -> Result<()> {
    fs::write(crate::root().join(path), text).with_context(|| format!("cannot write {path}"))
}

/// Runs the cases on the emulated device. Returns each at both of its sizes.
fn measure(filters: &[String]) -> Result<Vec<[Measured; 2]>> {
    let path = target_file()?;
    let mut program = Command::new(crate::example("kernel_cost")?);
    crate::test::use_emulated_driver(&mut program)?;
    // Counting needs no checks: the tests run the same kernels with all of them.
    program.env("SAMEBITS_EMULATOR_CHECKS", "no-races,no-uninitialised");
    program.env("SAMEBITS_EMULATOR_COUNTS", &path).args(filters);
    let status = program.status().context("cannot start the example `kernel_cost`")?;
    ensure!(status.success(), "the cases cannot be run: {status}");
    let text = fs::read_to_string(&path).context("no case has that name")?;
    let cases = counts::read(&text)?;
    let pairs = cases.chunks(2).map(|pair| match pair {
        [small, large] => Ok([small.clone(), large.clone()]),
        _ => bail!("a case has one size"),
    });
    pairs.collect()
}

/// Returns an empty file for the counts.
fn target_file() -> Result<PathBuf> {
    let folder = crate::target().join("kernel-cost");
    fs::create_dir_all(&folder)?;
    let path = folder.join("counts");
    if path.exists() {
        fs::remove_file(&path)?;
    }
    Ok(path)
}

fn compare(entries: &[Entry], record: &Record, all: bool) -> Result<()> {
    let key = |entry: &Entry| (entry.name.clone(), entry.form.clone(), entry.size);
    let mut known: BTreeMap<_, &Entry> = record.case.iter().map(|e| (key(e), e)).collect();
    let mut wrong = Vec::new();
    for entry in entries {
        match known.remove(&key(entry)) {
            Some(then) => wrong.extend(entry.rises(then)),
            None => wrong.push(format!("{}, {}: not in the record", entry.name, entry.form)),
        }
    }
    if all {
        wrong.extend(known.into_values().map(|e| format!("{}, {}: not run", e.name, e.form)));
    }
    ensure!(
        wrong.is_empty(),
        "kernels cost more than {RECORD} says; `cargo xtask kernel-cost` renews it:\n{}",
        wrong.join("\n")
    );
    Ok(())
}

/// Returns the table of the document.
fn table(cases: &[Measured]) -> Result<String> {
    let manifest = build_kernels::read_manifest()?;
    let entries = manifest.family.iter().flat_map(|family| &family.entry);
    let resources: BTreeMap<&str, Resources> = entries
        .map(|entry| {
            let [registers, _, shared] = entry.resources.get("sm_90").copied().unwrap_or_default();
            let [registers, shared] = [registers, shared].map(f64::from);
            (entry.name.as_str(), Resources { registers, shared })
        })
        .collect();
    let of = |kernel: &str| resources.get(kernel).copied().unwrap_or_default();
    let time = |case: &Measured| H200.total(case, of);
    let mut text = format!(
        "| case | form | launches | bytes / least | sectors / needed | waits | chain \
         | uncalibrated: us {} | bound | / roofline | / atomic | us {} |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        H200.name, RTX.name,
    );
    for case in cases {
        let launches: f64 = case.kernels.values().map(|kernel| kernel.count).sum();
        let touched = case.total(&["loads_touched", "stores_touched", "atomics_touched"]);
        let needed = case.total(&["loads_needed", "stores_needed", "atomics_needed"]);
        let sectors = 32.0 * case.total(&SECTORS) / needed.max(1.0);
        let (fast, slow) = (time(case), RTX.total(case, of));
        let atomic = cases.iter().find(|other| {
            case.form == "deterministic" && other.name == case.name && other.form == "atomic"
        });
        let atomic = atomic
            .map_or(String::new(), |other| format!("{:.2}", fast.seconds / time(other).seconds));
        writeln!(
            text,
            "| {} | {} | {launches} | {:.2} | {sectors:.2} | {:.0} | {:.0} | {:.1} | {} | {:.1} \
             | {atomic} | {:.1} |",
            case.name,
            case.form,
            32.0 * touched / case.bytes,
            case.total(&["waits"]),
            case.total(&["chain"]),
            1e6 * fast.seconds,
            fast.bound,
            fast.seconds / H200.roofline(case),
            1e6 * slow.seconds,
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sectors: u64, waits: u64) -> Entry {
        let (name, form) = ("sum".to_owned(), "deterministic".to_owned());
        let launches = 3;
        Entry {
            name,
            form,
            size: 10,
            launches,
            instructions: 1000,
            sectors,
            longest: 9,
            waits,
            chain: 1,
        }
    }

    #[test]
    fn more_sectors_and_longer_chains_are_found() {
        let record = Record { case: vec![entry(100, 20)] };
        assert!(compare(&[entry(105, 20)], &record, true).is_ok());
        let more = compare(&[entry(106, 20)], &record, true).unwrap_err().to_string();
        assert!(more.contains("106 sectors, 100 in the record"), "{more}");
        let longer = compare(&[entry(100, 22)], &record, true).unwrap_err().to_string();
        assert!(longer.contains("22 waits"), "{longer}");
        assert!(compare(&[], &record, true).unwrap_err().to_string().contains("not run"));
        let new = compare(&[entry(1, 1)], &Record::default(), true).unwrap_err().to_string();
        assert!(new.contains("not in the record"), "{new}");
    }

    #[test]
    fn the_record_can_be_read_again() {
        let record = Record { case: vec![entry(100, 20)] };
        let text = toml::to_string(&record).unwrap();
        assert_eq!(toml::from_str::<Record>(&text).unwrap(), record);
    }
}
