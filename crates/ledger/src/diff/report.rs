//! What a comparison finds, as data.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::tensors::TensorComparison;

/// What came of comparing two runs. Its text begins with the one sentence that says it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The version of this form: 1.
    pub schema: u32,
    /// Whether all that was compared is equal.
    pub equal: bool,
    /// Why the runs parted, if they did.
    pub cause: Option<Cause>,
    /// What parted first, and why.
    pub sentence: String,
    /// The first run.
    pub a: PathBuf,
    /// The second run.
    pub b: PathBuf,
    /// Entries of the environments that differ.
    pub environment: Vec<Change>,
    /// Seeds that differ.
    pub seeds: Vec<Change>,
    /// What the reader should know beside.
    pub notes: Vec<String>,
    /// The ranks, each for itself: their records have no common order.
    pub ranks: Vec<RankReport>,
}

/// What came of comparing the ledgers of one rank.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RankReport {
    /// The rank.
    pub rank: u32,
    /// Whether all that was compared is equal.
    pub equal: bool,
    /// Why its ledgers parted, if they did.
    pub cause: Option<Cause>,
    /// What parted first, and why.
    pub sentence: String,
    /// Where they parted.
    pub first: Option<Parting>,
    /// How many records differ, by kind of difference.
    pub counts: Counts,
    /// The first records of the other kinds of difference.
    pub others: Vec<Parting>,
    /// How the difference goes on.
    pub spread: Option<Spread>,
    /// Tensors that both runs kept, of the records that parted.
    pub tensors: Vec<TensorComparison>,
    /// What could not be compared, or was not to be.
    pub uncompared: Vec<String>,
    /// What the reader should know beside.
    pub notes: Vec<String>,
    /// Classes of records over the length of the ledgers.
    #[serde(skip)]
    pub(crate) timeline: Vec<Slice>,
}

/// Why two runs parted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// Other seeds.
    Seed,
    /// A generator stands at another position.
    Generator,
    /// The same samples or batches in another order.
    DataOrder,
    /// Other samples, or the same samples with other contents.
    Data,
    /// Other parameters at the start.
    Parameters,
    /// Another tensor that no record made: a parameter, a constant or data.
    Input,
    /// An operation was called with other arguments, shapes or types.
    Call,
    /// An operation with equal inputs ran at another level or by another kernel.
    Kernel,
    /// An operation had equal inputs and unequal outputs.
    Operation,
    /// A layer had equal inputs and unequal outputs; its parameters are not recorded.
    Layer,
    /// Other ranks sent something else.
    Communication,
    /// The end of a step differs, and nothing recorded before it does.
    Step,
    /// The environments differ, and nothing finer shows where the runs part.
    Environment,
    /// A record is missing in one of the runs.
    Missing,
    /// The same records in another order.
    Order,
    /// One run ends before the other.
    Extent,
}

/// An entry of two headers that differs.
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
    /// What it tells of.
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
    /// In both runs, among other records.
    Order,
    /// Digests or generator positions differ.
    Content,
    /// Shapes, types or arguments differ.
    Event,
    /// In one run only.
    Missing,
}

/// Records that differ.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Parting {
    /// How they differ.
    pub mismatch: Mismatch,
    /// The record of the first run.
    pub a: Option<Place>,
    /// The record of the second run.
    pub b: Option<Place>,
    /// The records of the two runs before it that belong together.
    pub before: Option<[Place; 2]>,
    /// What differs.
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
    /// Which of those parts, counted from 0.
    pub index: usize,
    /// Its name.
    pub what: String,
    /// It in the first run.
    pub a: String,
    /// It in the second run.
    pub b: String,
}

/// Numbers of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Records that are in both ledgers.
    pub compared: u64,
    /// Of these, with equal contents, in another order.
    pub order: u64,
    /// Of these, with other contents.
    pub content: u64,
    /// Of these, with other shapes, types or arguments.
    pub event: u64,
    /// Records of the first ledger alone.
    pub only_a: u64,
    /// Records of the second ledger alone.
    pub only_b: u64,
    /// Records of steps before the other ledger begins, which are not compared.
    pub skipped: u64,
    /// Tensors of records in both ledgers that have no digest in one of them, and are not compared.
    pub without_digest: u64,
}

/// How a difference goes on.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Spread {
    /// The records of both ledgers after the first difference.
    pub after: u64,
    /// How many of them differ.
    pub unequal: u64,
    /// How many of these are operations whose inputs are equal.
    pub origins: u64,
    /// The last step in which a record differs.
    pub last_step: u64,
    /// How many records at the end are equal again.
    pub equal_at_end: u64,
    /// The next records that differ.
    pub next: Vec<Place>,
}

/// How a record compares, from equal to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Equal,
    /// Not compared, because the other run begins later.
    Skipped,
    Moved,
    /// Other contents, of which some went in.
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

/// Neighbouring records on a timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) worst: Class,
    pub(crate) records: u64,
    pub(crate) unequal: u64,
    pub(crate) sequence: u64,
    pub(crate) steps: (u64, u64),
    /// Whether the first difference is among them.
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
                Mismatch::Content => "with other contents",
                Mismatch::Event => "called otherwise",
                Mismatch::Missing => "in one run only",
            };
            writeln!(f, "  first record {what}: {side} {place}")?;
        }
        let Counts { compared, order, content, event, only_a, only_b, .. } = self.counts;
        writeln!(
            f,
            "  {compared} records compared: {content} with other contents, {event} called otherwise, \
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
