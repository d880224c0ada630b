//! Conclusions over all ranks, and runs with different numbers of ranks.

use std::collections::{BTreeMap, BTreeSet};

use super::cause::capitalised;
use super::report::{
    Cause, Counts, Difference, Mismatch, Part, Parting, Place, RankReport, Report,
};
use super::{Options, equal, restrict};
use crate::read::{Kind, Ledger, Names, ReadError, Run};
use crate::record::{Detail, Event, Step, Tensor};

/// Takes the cause from the rank that differs at the earliest step. Ranks that differ at the same
/// step have no order, but a rank that received different data from others is not the cause.
pub(super) fn conclude(report: &mut Report) {
    let parted = || report.ranks.iter().filter(|rank| !rank.equal);
    let earliest = parted().min_by_key(|rank| {
        let first = rank.first.as_ref();
        let step = first.and_then(|first| first.a.as_ref().or(first.b.as_ref())).map(|at| at.step);
        (step, rank.cause == Some(Cause::Communication), rank.rank)
    });
    let Some(rank) = earliest else {
        let compared: u64 = report.ranks.iter().map(|rank| rank.counts.compared).sum();
        let several = report.ranks.len() > 1;
        let of_rank = |rank: &RankReport| -> Vec<String> {
            let named = |what: &String| match several {
                true => format!("on rank {}, {what}", rank.rank),
                false => what.clone(),
            };
            rank.uncompared.iter().map(named).collect()
        };
        let uncompared: Vec<String> = report.ranks.iter().flat_map(of_rank).collect();
        let what = match report.ranks.len() {
            1 => format!("{compared} records"),
            n => format!("{compared} records of {n} ranks"),
        };
        report.sentence = equal(&what, &uncompared);
        return;
    };
    let others = parted().filter(|other| other.rank != rank.rank).count();
    let mut sentence = rank.sentence.clone();
    if report.ranks.len() > 1 {
        sentence = format!("On rank {}: {sentence}", rank.rank);
    }
    if others > 0 {
        sentence.push_str(&format!(
            " {others} other ranks differ; records of ranks have no common order."
        ));
    }
    let cause = rank.cause;
    report.equal = false;
    report.cause = cause;
    report.sentence = sentence;
}

/// Compares runs with different numbers of ranks by the values that all ranks of a run share at the
/// ends of steps. The operations of a rank act on its own part of the work and cannot be compared.
pub(super) fn across(
    a: &Run,
    b: &Run,
    options: &Options,
    report: &mut Report,
) -> Result<(), ReadError> {
    let (ranks_a, ranks_b) = (a.header.world_size, b.header.world_size);
    report.notes.push(format!(
        "A has {ranks_a} ranks and B {ranks_b}: compared is what all ranks of a run hold alike at the \
         ends of steps"
    ));
    let a = [Steps::open(a, options)?, Steps::open(b, options)?];
    let begin = a.iter().filter_map(|run| run.places.keys().next()).max().copied().unwrap_or(0);
    let steps = a.iter().flat_map(|run| run.places.range(begin..).map(|(&step, _)| step));
    let steps: BTreeSet<u64> = steps.collect();

    let mut rank = RankReport {
        rank: 0,
        equal: true,
        cause: None,
        sentence: String::new(),
        first: None,
        counts: Counts::default(),
        others: Vec::new(),
        spread: None,
        tensors: Vec::new(),
        uncompared: Vec::new(),
        notes: Vec::new(),
        timeline: Vec::new(),
    };
    let mut before = None;
    let mut own: Option<BTreeSet<Value>> = None;
    for step in steps {
        let places = [a[0].place(step), a[1].place(step)];
        let [Some(place_a), Some(place_b)] = places.clone() else {
            let lacks = if places[0].is_none() { "A" } else { "B" };
            rank.cause = Some(Cause::Extent);
            rank.sentence = format!(
                "{lacks} has no record of the end of step {step}; everything earlier is equal."
            );
            let [a, b] = places;
            rank.first = Some(Parting {
                mismatch: Mismatch::Missing,
                a,
                b,
                before,
                differences: Vec::new(),
            });
            break;
        };
        let (held_a, held_b) = (a[0].held(step)?, a[1].held(step)?);
        let own = own.get_or_insert_with(|| {
            let held = held_a.iter().chain(&held_b);
            held.filter(|(_, it)| it.is_none()).map(|(value, _)| value.clone()).collect()
        });
        let mut differences = Vec::new();
        for (value, of_a) in &held_a {
            if own.contains(value) {
                continue;
            }
            let of_b = held_b.get(value).cloned().flatten();
            rank.counts.compared += 1;
            if *of_a != of_b || of_a.is_none() {
                let show = |held: Option<String>| held.unwrap_or("unequal on its ranks".to_owned());
                let (a, b) = (show(of_a.clone()), show(of_b));
                let (part, what) = value.clone();
                differences.push(Difference { part, index: 0, what, a, b });
            }
        }
        if !differences.is_empty() {
            let what = &differences[0].what;
            let n = differences.len();
            rank.sentence = capitalised(format!(
                "at the end of step {step}, {n} values differ, {what} first; everything compared earlier is equal."
            ));
            rank.cause = Some(Cause::Step);
            let (a, b) = (Some(place_a), Some(place_b));
            rank.counts.content = 1;
            rank.first = Some(Parting { mismatch: Mismatch::Content, a, b, before, differences });
            break;
        }
        before = Some([place_a, place_b]);
    }
    if rank.counts.compared == 0 && rank.cause.is_none() {
        let problem = "shares no values at the ends of steps with the other run";
        return Err(ReadError::unusable(&report.b, problem));
    }
    if let Some(own) = own.filter(|own| !own.is_empty()) {
        let what: Vec<String> = own.into_iter().map(|(_, what)| what).collect();
        let why = "which the ranks of a run hold apart or without a digest";
        rank.uncompared.push(format!("{}, {why}", what.join(", ")));
    }
    rank.equal = rank.cause.is_none();
    if rank.equal {
        rank.sentence = equal(&format!("{} values", rank.counts.compared), &rank.uncompared);
    }
    report.equal = rank.equal;
    report.cause = rank.cause;
    report.sentence = rank.sentence.clone();
    report.ranks.push(rank);
    Ok(())
}

/// A value at the end of a step.
type Value = (Part, String);

/// The values at the end of a step; `None` if the ranks disagree.
type Held = BTreeMap<Value, Option<String>>;

/// The ends of steps of all ranks of a run.
struct Steps {
    ledgers: Vec<Ledger>,
    /// For each step that all ranks have, the entry of each rank.
    places: BTreeMap<u64, Vec<usize>>,
}

impl Steps {
    fn open(run: &Run, options: &Options) -> Result<Steps, ReadError> {
        let mut names = Names::default();
        let mut ledgers = Vec::new();
        let mut places: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for index in 0..run.ranks().len() {
            let mut ledger = run.ledger(index, &mut names)?;
            restrict(&mut ledger, &names, Detail::Step, options)?;
            ledger.entries.retain(|entry| names.of(entry).kind == Kind::Step);
            for (i, entry) in ledger.entries.iter().enumerate() {
                places.entry(entry.group.step).or_default().push(i);
            }
            ledgers.push(ledger);
        }
        places.retain(|_, entries| entries.len() == ledgers.len());
        Ok(Steps { ledgers, places })
    }

    /// Returns the first rank's record of a step.
    fn place(&self, step: u64) -> Option<Place> {
        let first = *self.places.get(&step)?.first()?;
        let sequence = self.ledgers.first()?.entries[first].sequence;
        Some(Place { sequence, step, what: format!("the end of step {step}") })
    }

    fn held(&self, step: u64) -> Result<Held, ReadError> {
        let mut held: Option<Held> = None;
        for (ledger, &entry) in
            self.ledgers.iter().zip(self.places.get(&step).into_iter().flatten())
        {
            let Event::Step(record) = ledger.record(entry)?.event else { continue };
            let of_rank = values(&record);
            match &mut held {
                None => held = Some(of_rank),
                Some(held) => {
                    held.iter_mut()
                        .filter(|(key, value)| of_rank.get(key) != Some(value))
                        .for_each(|(_, value)| *value = None);
                }
            }
        }
        Ok(held.unwrap_or_default())
    }
}

/// Returns the values of a step, as texts that are equal if and only if the values are.
fn values(step: &Step) -> Held {
    let text = |it: &Tensor| Some(format!("{}{:?} {}", it.dtype, it.shape, it.digest?));
    let mut held = Held::new();
    if let Some(loss) = &step.loss {
        held.insert((Part::Loss, "loss".to_owned()), text(loss));
    }
    for (part, what, tensors) in [
        (Part::Gradient, "gradient", &step.gradients),
        (Part::Parameter, "parameter", &step.parameters),
    ] {
        for (name, tensor) in tensors {
            held.insert((part, format!("{what} `{name}`")), text(tensor));
        }
    }
    if let Some(generator) = &step.generator {
        held.insert((Part::GeneratorAfter, "generator".to_owned()), Some(generator.to_string()));
    }
    held
}
