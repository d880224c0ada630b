//! Results of a comparison, as data.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::tensors::TensorComparison;

/// Result of comparing two runs. Its text begins with the one-sentence conclusion.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The version of this format: 1.
    pub schema: u32,
    /// True if everything compared is equal.
    pub equal: bool,
    /// The cause of the first difference, if any.
    pub cause: Option<Cause>,
    /// The first difference and its cause, in a sentence.
    pub sentence: String,
    /// The first run.
    pub a: PathBuf,
    /// The second run.
    pub b: PathBuf,
    /// The entries of the environments that differ.
    pub environment: Vec<Change>,
    /// The seeds that differ.
    pub seeds: Vec<Change>,
    /// Further notes for the reader.
    pub notes: Vec<String>,
    /// The ranks, separately: records of different ranks have no common order.
    pub ranks: Vec<RankReport>,
}

/// Result of comparing the ledgers of one rank.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RankReport {
    /// The rank.
    pub rank: u32,
    /// True if everything compared is equal.
    pub equal: bool,
    /// The cause of the first difference, if any.
    pub cause: Option<Cause>,
    /// The first difference and its cause, in a sentence.
    pub sentence: String,
    /// The first difference.
    pub first: Option<Parting>,
    /// The numbers of records, by kind of difference.
    pub counts: Counts,
    /// The first record of each other kind of difference.
    pub others: Vec<Parting>,
    /// The spread of the difference.
    pub spread: Option<Spread>,
    /// The tensors of the differing records that both runs kept.
    pub tensors: Vec<TensorComparison>,
    /// The parts that could not be compared, or were excluded.
    pub uncompared: Vec<String>,
    /// Further notes for the reader.
    pub notes: Vec<String>,
    /// Classes of records over the length of the ledgers.
    #[serde(skip)]
    pub(crate) timeline: Vec<Slice>,
}

/// Cause of the first difference between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// Different seeds.
    Seed,
    /// A generator stands at another position.
    Generator,
    /// The same samples or batches in another order.
    DataOrder,
    /// Different samples, or the same samples with different contents.
    Data,
    /// Different parameters at the start.
    Parameters,
    /// An input differs that no record produced: a parameter, a constant or data.
    Input,
    /// An operation was called with different arguments, shapes or types.
    Call,
    /// An operation with equal inputs ran at a different level or with a different kernel.
    Kernel,
    /// An operation had equal inputs and unequal outputs.
    Operation,
    /// A layer had equal inputs and unequal outputs; its parameters are not recorded.
    Layer,
    /// Other ranks sent different data.
    Communication,
    /// The end of a step differs, although all earlier records are equal.
    Step,
    /// The environments differ, and nothing finer shows the cause.
    Environment,
    /// A record is missing in one of the runs.
    Missing,
    /// The same records in another order.
    Order,
    /// One run ends before the other.
    Extent,
}

/// A header entry that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// Its value in the first run.
    pub a: Option<String>,
    /// Its value in the second run.
    pub b: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = [&self.a, &self.b].map(|side| side.as_deref().unwrap_or("nothing"));
        write!(f, "{} is {a} in A and {b} in B", self.name)
    }
}

/// A record of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Its sequence.
    pub sequence: u64,
    /// Its step.
    pub step: u64,
    /// Its description.
    pub what: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: {}", self.sequence, self.what)
    }
}

/// A kind of difference between records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mismatch {
    /// The record is in both runs, at different positions.
    Order,
    /// Digests or generator positions differ.
    Content,
    /// Shapes, types or arguments differ.
    Event,
    /// The record is in one run only.
    Missing,
}

/// Two records that differ.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Parting {
    /// The kind of difference.
    pub mismatch: Mismatch,
    /// The record of the first run.
    pub a: Option<Place>,
    /// The record of the second run.
    pub b: Option<Place>,
    /// The last paired records before it.
    pub before: Option<[Place; 2]>,
    /// The differences.
    pub differences: Vec<Difference>,
}

/// A part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Arguments, and shapes and types of tensors.
    Call,
    /// The generator's position before.
    GeneratorBefore,
    /// An input.
    Input,
    /// An output.
    Output,
    /// The generator's position after.
    GeneratorAfter,
    /// A step's loss.
    Loss,
    /// A gradient.
    Gradient,
    /// A parameter after a step.
    Parameter,
    /// The indices of a batch's samples.
    Indices,
    /// A tensor of a batch.
    Batch,
}

/// A part of two records that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The part.
    pub part: Part,
    /// The index among parts of this kind.
    pub index: usize,
    /// Its name.
    pub what: String,
    /// The value in the first run.
    pub a: String,
    /// The value in the second run.
    pub b: String,
}

/// Numbers of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Records in both ledgers.
    pub compared: u64,
    /// Compared records with equal contents, in a different order.
    pub order: u64,
    /// Compared records with different contents.
    pub content: u64,
    /// Compared records with different shapes, types or arguments.
    pub event: u64,
    /// Records only in the first ledger.
    pub only_a: u64,
    /// Records only in the second ledger.
    pub only_b: u64,
    /// Records of steps before the other ledger begins, which are not compared.
    pub skipped: u64,
    /// Tensors of compared records without a digest in one ledger; they are not compared.
    pub without_digest: u64,
}

/// Spread of a difference over later records.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Spread {
    /// The number of records in both ledgers after the first difference.
    pub after: u64,
    /// The number of them that differ.
    pub unequal: u64,
    /// The number of differing operations with equal inputs.
    pub origins: u64,
    /// The last step in which a record differs.
    pub last_step: u64,
    /// The number of records at the end that are equal again.
    pub equal_at_end: u64,
    /// The next records that differ.
    pub next: Vec<Place>,
}

/// Class of a record in a comparison, from equal to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Equal,
    /// Not compared, because the other run begins later.
    Skipped,
    Moved,
    /// Different contents, some of them inputs.
    Content,
    Event,
    Missing,
    /// An operation with equal inputs and unequal outputs.
    Origin,
}

impl Class {
    pub(crate) fn mismatch(self) -> Option<Mismatch> {
        match self {
            Class::Equal | Class::Skipped => None,
            Class::Moved => Some(Mismatch::Order),
            Class::Content | Class::Origin => Some(Mismatch::Content),
            Class::Event => Some(Mismatch::Event),
            Class::Missing => Some(Mismatch::Missing),
        }
    }
}

/// Adjacent records on a timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) worst: Class,
    pub(crate) records: u64,
    pub(crate) unequal: u64,
    pub(crate) sequence: u64,
    pub(crate) steps: (u64, u64),
    /// True if the slice holds the first difference.
    pub(crate) first: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.sentence)?;
        writeln!(f, "A: {}\nB: {}", self.a.display(), self.b.display())?;
        for (what, changes) in [("environment", &self.environment), ("seed", &self.seeds)] {
            changes.iter().try_for_each(|change| writeln!(f, "{what}: {change}"))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        self.ranks.iter().try_for_each(|rank| rank.fmt(f))
    }
}

impl fmt::Display for RankReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nrank {}: {}", self.rank, self.sentence)?;
        if let Some(first) = &self.first {
            for (side, place) in [("A", &first.a), ("B", &first.b)] {
                place.iter().try_for_each(|place| writeln!(f, "  {side} {place}"))?;
            }
            for difference in first.differences.iter().take(8) {
                let Difference { what, a, b, .. } = difference;
                writeln!(f, "    {what}: {a} in A, {b} in B")?;
            }
            if first.differences.len() > 8 {
                writeln!(f, "    and {} more", first.differences.len() - 8)?;
            }
            match &first.before {
                Some([a, b]) => writeln!(f, "  before it, A {a}; B record {}", b.sequence)?,
                None => writeln!(f, "  before it, nothing was compared")?,
            }
        }
        self.tensors.iter().try_for_each(|tensor| tensor.fmt(f))?;
        if let Some(spread) = &self.spread {
            writeln!(f, "  after it, {spread}")?;
        }
        for other in &self.others {
            let (side, place) = match (&other.a, &other.b) {
                (Some(a), _) => ("A", a),
                (None, Some(b)) => ("B", b),
                (None, None) => continue,
            };
            let what = match other.mismatch {
                Mismatch::Order => "in another order",
                Mismatch::Content => "with different contents",
                Mismatch::Event => "called differently",
                Mismatch::Missing => "in one run only",
            };
            writeln!(f, "  first record {what}: {side} {place}")?;
        }
        let Counts { compared, order, content, event, only_a, only_b, .. } = self.counts;
        writeln!(
            f,
            "  {compared} records compared: {content} with different contents, {event} called differently, \
             {order} in another order; {only_a} only in A, {only_b} only in B"
        )?;
        self.uncompared.iter().try_for_each(|what| writeln!(f, "  not compared: {what}"))?;
        self.notes.iter().try_for_each(|note| writeln!(f, "  note: {note}"))
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { after, unequal, origins, last_step, equal_at_end, next } = self;
        write!(f, "{unequal} of {after} records differ")?;
        if *unequal > 0 {
            write!(f, ", to step {last_step}; {origins} of them are operations with equal inputs")?;
        }
        if *unequal > 0 && *equal_at_end > 0 {
            write!(f, "; the last {equal_at_end} records are equal again")?;
        }
        next.iter().take(3).try_for_each(|place| write!(f, "\n    {place}"))
    }
}
