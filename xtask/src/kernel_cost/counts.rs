//! Counts of the emulated device, and their extrapolation to other sizes.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

/// The figures of a launch by name, as the emulated device writes them.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Figures that are maxima; the others are sums.
const LARGEST: [&str; 4] = ["longest", "chain", "waits", "atomic_hottest"];
/// Figures that belong to the kernel.
const FIXED: [&str; 2] = ["threads", "dynamic_shared"];

/// The launches of one kernel.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Launches {
    /// The number of launches.
    pub(crate) count: f64,
    /// The sums or maxima over the launches.
    pub(crate) figures: Figures,
}

impl Launches {
    pub(crate) fn get(&self, name: &str) -> f64 {
        self.figures.get(name).copied().unwrap_or(0.0)
    }

    fn add(&mut self, figures: Figures) {
        self.count += 1.0;
        for (name, value) in figures {
            let known = self.figures.entry(name.clone()).or_default();
            *known = if is_sum(&name) { *known + value } else { known.max(value) };
        }
    }
}

fn is_sum(name: &str) -> bool {
    !LARGEST.contains(&name) && !FIXED.contains(&name)
}

/// A case at one size, with its kernels by name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) form: String,
    pub(crate) size: f64,
    /// The real size that the measured ones stand for.
    pub(crate) real: f64,
    /// The bytes that the operation must move at that size, and its arithmetic operations if it is
    /// a product.
    pub(crate) bytes: f64,
    pub(crate) flops: f64,
    /// The factors from the measured blocks to the real ones: their number, and the length of each.
    pub(crate) times: [f64; 2],
    pub(crate) kernels: BTreeMap<String, Launches>,
}

impl Measured {
    /// Returns a sum or maximum over all kernels.
    pub(crate) fn total(&self, names: &[&str]) -> f64 {
        let values = self.kernels.values().flat_map(|k| names.iter().map(|name| k.get(name)));
        if is_sum(names[0]) { values.sum() } else { values.fold(0.0, f64::max) }
    }
}

/// Parses the counts of a run.
pub(crate) fn read(text: &str) -> Result<Vec<Measured>> {
    let mut found: Vec<Measured> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if line == "end" {
            open = false;
        } else if let Some(case) = line.strip_prefix("case\t") {
            found.push(head(case).with_context(|| format!("cannot read {line:?}"))?);
            open = true;
        } else if open && let Some(case) = found.last_mut() {
            let mut words = line.split(' ');
            let kernel = words.next().unwrap_or_default().to_owned();
            let figures: Result<Figures> = words.map(figure).collect();
            case.kernels.entry(kernel).or_default().add(figures?);
        }
    }
    Ok(found)
}

fn head(line: &str) -> Result<Measured> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [name, form, numbers] = fields[..] else { bail!("expected three fields") };
    let numbers: Vec<f64> =
        numbers.split(' ').map(f64::from_str).collect::<Result<_, _>>().context("a number")?;
    let [size, real, bytes, blocks, depth, flops] = numbers[..] else {
        bail!("expected six numbers");
    };
    let (name, form, times) = (name.to_owned(), form.to_owned(), [blocks, depth]);
    Ok(Measured { name, form, size, real, bytes, flops, times, kernels: BTreeMap::new() })
}

fn figure(word: &str) -> Result<(String, f64)> {
    let (name, value) = word.split_once('=').with_context(|| format!("{word:?} has no ="))?;
    Ok((name.to_owned(), value.parse().with_context(|| format!("{word:?} has no number"))?))
}

/// Returns the case at its real size: each figure lies on the straight line through the two
/// measured ones.
pub(crate) fn extrapolate(small: &Measured, large: &Measured) -> Result<Measured> {
    let same = small.name == large.name && small.form == large.form;
    ensure!(same && small.size < large.size, "{} has no two sizes", small.name);
    let part = (large.real - small.size) / (large.size - small.size);
    let line = |a: f64, b: f64| (a + (b - a) * part).max(0.0);
    let [blocks, depth] = large.times;
    let nothing = Launches::default();
    let mut kernels = BTreeMap::new();
    for (kernel, after) in &large.kernels {
        let before = small.kernels.get(kernel).unwrap_or(&nothing);
        // Passes that each size adds, like those of a merge sort, are added at each doubling.
        let grown = if before.count > 0.0 { (after.count - before.count).max(0.0) } else { 0.0 };
        let ratio = large.size / small.size;
        let sizes = std::iter::successors(Some(large.size * ratio), |size| Some(size * ratio));
        let steps = sizes.take_while(|&size| size <= large.real).count();
        let count = after.count + grown * steps as f64;
        // A search adds loads at each doubling; a walk has twice as many.
        let [fewer, chain] = [before, after].map(|kernel| kernel.get("chain"));
        let searches = fewer < chain && chain < 1.5 * fewer;
        let figures = after.figures.iter().map(|(name, &value)| {
            let value = match name.as_str() {
                name if FIXED.contains(&name) => value,
                name if is_sum(name) => {
                    let longer = if name == "blocks" || name == "warps" { 1.0 } else { depth };
                    let total = if grown > 0.0 {
                        line(before.get(name) / before.count, value / after.count) * count
                    } else {
                        line(before.get(name), value)
                    };
                    total * blocks * longer
                }
                "atomic_hottest" => line(before.get(name), value) * blocks,
                "chain" | "longest" | "waits" if searches => {
                    (value + (value - before.get(name)) * steps as f64) * depth
                }
                name => line(before.get(name), value) * depth,
            };
            (name.clone(), value)
        });
        let figures = figures.collect();
        kernels.insert(kernel.clone(), Launches { count, figures });
    }
    Ok(Measured { size: large.real, kernels, ..large.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "prepare blocks=9 waits=9\n\
        case\tsum\tdeterministic\t10 100 800 1 1 0\n\
        tree blocks=2 threads=256 float=20 waits=3\n\
        tree blocks=1 threads=256 float=4 waits=5\n\
        end\n\
        prepare blocks=9\n\
        case\tsum\tdeterministic\t20 100 800 1 1 0\n\
        tree blocks=4 threads=256 float=44 waits=7\n\
        end\n";

    #[test]
    fn launches_of_a_case_are_put_together() {
        let found = read(TEXT).unwrap();
        assert_eq!(found.len(), 2);
        let tree = &found[0].kernels["tree"];
        assert_eq!((tree.count, tree.get("float"), tree.get("waits")), (2.0, 24.0, 5.0));
        assert_eq!(found[0].total(&["float", "double"]), 24.0);
    }

    #[test]
    fn figures_lie_on_a_line() {
        let found = read(TEXT).unwrap();
        let real = extrapolate(&found[0], &found[1]).unwrap();
        let tree = &real.kernels["tree"];
        // 24 at 10 and 44 at 20: 204 at 100; 5 and 7: 23.
        assert_eq!((tree.get("float"), tree.get("waits")), (204.0, 23.0));
        assert_eq!(tree.get("threads"), 256.0);
        assert!(extrapolate(&found[1], &found[0]).is_err());
        // A launch more for each doubling: 4, 5 and, at 160, 8; each of 2 and 3 blocks, so of 17.
        let of = |size: f64, count: f64, each: f64| {
            let figures = [("blocks".to_owned(), count * each)].into();
            let kernels = [("merge".to_owned(), Launches { count, figures })].into();
            Measured { size, real: 160.0, kernels, ..found[0].clone() }
        };
        let real = extrapolate(&of(10.0, 4.0, 2.0), &of(20.0, 5.0, 3.0)).unwrap();
        let merge = &real.kernels["merge"];
        assert_eq!((merge.count, merge.get("blocks")), (8.0, 8.0 * 17.0));
        for (before, after, expected) in [(9.0, 10.0, 13.0), (10.0, 20.0, 160.0)] {
            let of = |size: f64, chain: f64| {
                let figures = [("chain".to_owned(), chain)].into();
                let kernels = [("find".to_owned(), Launches { count: 1.0, figures })].into();
                Measured { size, real: 160.0, kernels, ..found[0].clone() }
            };
            let real = extrapolate(&of(10.0, before), &of(20.0, after)).unwrap();
            assert_eq!(real.kernels["find"].get("chain"), expected);
        }
    }
}
