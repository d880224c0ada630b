//! The tables of a bundle's results.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::cases::{self, Scale};
use crate::bench::random::report::mean;

/// Returns the results in `folder` as tables in Markdown: the parts, the times of the cases, and the
/// geometric means of each family's ratios.
pub(super) fn report(folder: &Path) -> Result<String> {
    let mut text = String::from("| part | status | seconds | |\n|---|---|---|---|\n");
    for line in lines(&folder.join("report.jsonl"))? {
        let field = |name: &str| line[name].as_str().unwrap_or_default();
        text.push_str(&format!(
            "| {} {} | {} | {} | {} |\n",
            field("part"),
            field("name"),
            field("status"),
            line["seconds"],
            field("detail")
        ));
    }
    text.push_str(
        "\n| case | portable, us | fastest, us | ratio | GB/s | PyTorch deterministic, us | ratio | PyTorch default, us | ratio |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let (ours, theirs) =
        (times(&folder.join("bench.jsonl"))?, times(&folder.join("pytorch.jsonl"))?);
    let families: BTreeMap<String, &str> =
        cases::cases(Scale(1)).iter().map(|case| (case.title(), case.family)).collect();
    let mut by_family: BTreeMap<&str, [Vec<f64>; 3]> = BTreeMap::new();
    for (name, levels) in &ours.by_name {
        let peer = theirs.by_name.iter().find(|(other, _)| other == name).map(|(_, levels)| levels);
        let peer = peer.cloned().unwrap_or_default();
        text.push_str(&row(name, levels, &peer));
        let of_family = families.get(name).map(|family| by_family.entry(family).or_default());
        for (found, ratio) in of_family.into_iter().flatten().zip(ratios(levels, &peer)) {
            found.extend(ratio);
        }
    }
    text.push_str(
        "\n| family | cases | portable : fastest | portable : PyTorch deterministic | portable : PyTorch default |\n\
         |---|---|---|---|---|\n",
    );
    for (family, all) in &by_family {
        let shown = |found: &Vec<f64>| match found.is_empty() {
            true => String::new(),
            false => format!("{:.2}", mean(found)),
        };
        let [fastest, deterministic, default] = all.each_ref().map(shown);
        let cases = all[0].len();
        text.push_str(&format!(
            "| {family} | {cases} | {fastest} | {deterministic} | {default} |\n"
        ));
    }
    Ok(text)
}

/// Returns the microseconds of a call at a level.
fn us(levels: &Levels, level: &str) -> Option<f64> {
    Some(levels.get(level)?["ms"].as_f64()? * 1e3)
}

/// Returns the ratios of the portable time to the fastest one, and to PyTorch's with deterministic
/// algorithms and without.
fn ratios(ours: &Levels, theirs: &Levels) -> [Option<f64>; 3] {
    let fast = "not_guaranteed";
    let others = [us(ours, fast), us(theirs, "portable"), us(theirs, fast)];
    others.map(|other| Some(us(ours, "portable")? / other?))
}

/// The replies to the questions about a case, by level.
type Levels = BTreeMap<String, Value>;

/// The replies of a program, in the order of its cases.
#[derive(Default)]
struct Times {
    by_name: Vec<(String, Levels)>,
}

fn times(path: &Path) -> Result<Times> {
    let mut times = Times::default();
    for reply in lines(path)? {
        let text = |name: &str| reply[name].as_str().unwrap_or_default().to_owned();
        let (name, level) = (text("name"), text("level"));
        match times.by_name.iter_mut().find(|(known, _)| *known == name) {
            Some((_, levels)) => drop(levels.insert(level, reply)),
            None => times.by_name.push((name, Levels::from([(level, reply)]))),
        }
    }
    Ok(times)
}

/// Returns the line of a case: microseconds, ratios of ours to the column before, and GB/s.
fn row(name: &str, ours: &Levels, theirs: &Levels) -> String {
    let shown = |levels: &Levels, level: &str| match levels.get(level) {
        Some(reply) if reply["error"].is_string() => {
            reply["error"].as_str().unwrap_or_default().replace('|', "/")
        }
        Some(reply) => {
            let lacking = reply["not_deterministic"] == true && level == "portable";
            let time = us(levels, level).map_or_else(String::new, |us| format!("{us:.1}"));
            if lacking { format!("{time}, not deterministic") } else { time }
        }
        None => String::new(),
    };
    let ratio = |i: usize| ratios(ours, theirs)[i].map_or_else(String::new, |x| format!("{x:.2}"));
    let bytes = ours.get("portable").and_then(|reply| reply["bytes"].as_f64());
    let rate = match (bytes, us(ours, "portable")) {
        (Some(bytes), Some(us)) => format!("{:.0}", bytes / us / 1e3),
        _ => String::new(),
    };
    let name = shortened(name);
    format!(
        "| {name} | {} | {} | {} | {rate} | {} | {} | {} | {} |\n",
        shown(ours, "portable"),
        shown(ours, "not_guaranteed"),
        ratio(0),
        shown(theirs, "portable"),
        ratio(1),
        shown(theirs, "not_guaranteed"),
        ratio(2),
    )
}

/// Returns the name of a case with equal shapes in a row written once, with their number.
fn shortened(name: &str) -> String {
    let parts: Vec<&str> = name.split_inclusive("] ").collect();
    let mut text = String::new();
    for equal in parts.chunk_by(|a, b| a.trim_end() == b.trim_end() && a.starts_with('[')) {
        text.push_str(equal[0].trim_end());
        if equal.len() > 1 {
            text.push_str(&format!(" x {}", equal.len()));
        }
        text.push(' ');
    }
    text.trim_end().to_owned()
}

/// Returns the lines of a file of JSON; none if a part of the bundle did not write it. A last line
/// that the end of a process cut off is left out.
fn lines(path: &Path) -> Result<Vec<Value>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_beside_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        put(
            "report.jsonl",
            "{\"part\":\"verify\",\"name\":\"norm\",\"status\":\"passed\",\"code\":0,\"seconds\":7,\"detail\":\"\"}\n",
        );
        put(
            "bench.jsonl",
            "{\"name\":\"sum\",\"level\":\"portable\",\"ms\":0.03,\"bytes\":60000}\n\
             {\"name\":\"sum\",\"level\":\"not_guaranteed\",\"ms\":0.02,\"bytes\":60000}\n\
             {\"name\":\"cut",
        );
        put(
            "pytorch.jsonl",
            "{\"name\":\"sum\",\"level\":\"portable\",\"ms\":0.06,\"not_deterministic\":true}\n\
             {\"name\":\"sum\",\"level\":\"not_guaranteed\",\"error\":\"out of memory\"}\n",
        );
        let text = report(folder.path()).unwrap();
        assert!(text.contains("| verify norm | passed | 7 |  |"), "{text}");
        let row =
            "| sum | 30.0 | 20.0 | 1.50 | 2 | 60.0, not deterministic | 0.50 | out of memory |  |";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn equal_shapes_are_written_once() {
        assert_eq!(shortened("adam f32 [8] [8] [8]"), "adam f32 [8] [8] x 2");
        assert_eq!(shortened("matmul f32 [4 2] [2 4]"), "matmul f32 [4 2] [2 4]");
    }

    #[test]
    fn nothing_is_reported_of_what_did_not_run() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(report(folder.path()).unwrap().lines().count(), 8);
    }
}
