//! Comparison of two runs: their first difference and its cause.
//!
//! The ledgers of two runs are aligned rank by rank and paired records are compared. The earlier
//! records explain the first difference.

mod cause;
mod compare;
mod ranks;
mod report;
mod tensors;

use std::path::Path;

use cause::{Context, First, describe};
pub use report::{
    Cause, Change, Counts, Difference, Mismatch, Part, Parting, Place, RankReport, Report, Spread,
};
pub(crate) use report::{Class, Slice};
pub use tensors::{Bucket, ElementDifference, TensorComparison};

use crate::align::{Row, align};
pub use crate::read::ReadError;
use crate::read::{End, Entry, Kind, Ledger, Names, Run};
use crate::record::{Detail, Digests, Event, Record, Tensor};

/// Scope of a comparison.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The first step to compare. Records of earlier steps are skipped.
    pub from_step: Option<u64>,
}

/// The largest number of slices in a timeline.
const SLICES: usize = 400;

/// Compares two runs, each a file or a folder with one file per rank.
///
/// Reads ledgers, traces of Megatron-LM and dumps of PyTorch's `DebugMode`.
///
/// # Errors
///
/// [`ReadError`] if a file cannot be read or breaks the schema, or if the two runs cannot be
/// compared.
///
/// # Examples
///
/// ```no_run
/// use samebits_ledger::diff::{Options, diff};
///
/// let report = diff("runs/a".as_ref(), "runs/b".as_ref(), &Options::default())?;
/// println!("{report}");
/// # Ok::<(), samebits_ledger::diff::ReadError>(())
/// ```
pub fn diff(a: &Path, b: &Path, options: &Options) -> Result<Report, ReadError> {
    let (a, b) = (Run::open(a)?, Run::open(b)?);
    if a.header.digests != b.header.digests {
        let problem = "one run has full digests, the other sampled ones: they cannot be compared";
        return Err(ReadError::unusable(&b.path, problem));
    }
    let mut report = Report {
        schema: 1,
        equal: true,
        cause: None,
        sentence: String::new(),
        a: a.path.clone(),
        b: b.path.clone(),
        environment: compare::changes(&a.header.environment, &b.header.environment),
        seeds: compare::changes(&a.header.seeds, &b.header.seeds),
        notes: Vec::new(),
        ranks: Vec::new(),
    };
    if a.header.writer != b.header.writer {
        let [a, b] = [&a, &b].map(|run| &run.header.writer);
        report.notes.push(format!(
            "A was written by {} {}, B by {} {}",
            a.name, a.version, b.name, b.version
        ));
    }
    if a.header.digests == Digests::Sampled {
        let note = "digests are sampled: of a tensor of more than 64 KiB, some blocks are compared";
        report.notes.push(note.to_owned());
    }
    if a.header.detail != b.header.detail {
        let [a, b] = [&a, &b].map(|run| run.header.detail);
        report.notes.push(format!("A has detail {a:?}, B {b:?}: what both have is compared"));
    }
    if a.header.world_size != b.header.world_size {
        ranks::across(&a, &b, options, &mut report)?;
        return Ok(report);
    }
    if a.ranks().len() != b.ranks().len() {
        let problem =
            format!("{} ranks, and {} in the other run", b.ranks().len(), a.ranks().len());
        return Err(ReadError::unusable(&b.path, problem));
    }
    for (index, (rank_a, rank_b)) in a.ranks().zip(b.ranks()).enumerate() {
        if rank_a != rank_b {
            report.notes.push(format!("rank {rank_a} of A is compared with rank {rank_b} of B"));
        }
        let mut names = Names::default();
        let mut ledgers = [a.ledger(index, &mut names)?, b.ledger(index, &mut names)?];
        let detail = a.header.detail.min(b.header.detail);
        for ledger in &mut ledgers {
            let left_out = restrict(ledger, &names, detail, options)?;
            ledger.left_out.extend(left_out);
        }
        let rank = compare_rank(&ledgers, &names, &report)?;
        report.ranks.push(rank);
    }
    ranks::conclude(&mut report);
    Ok(report)
}

/// Removes the records that are not to be compared, and adds a note about them.
fn restrict(
    ledger: &mut Ledger,
    names: &Names,
    detail: Detail,
    options: &Options,
) -> Result<Option<String>, ReadError> {
    let all = ledger.entries.len();
    ledger.entries.retain(|entry| {
        let recorded = match names.of(entry).kind {
            Kind::Operation => detail >= Detail::Op,
            Kind::Layer => detail >= Detail::Layer,
            Kind::Step | Kind::Data => true,
        };
        recorded && entry.group.step >= options.from_step.unwrap_or(0)
    });
    if ledger.entries.is_empty() {
        return Err(ReadError::unusable(&ledger.path, "holds no records that are to be compared"));
    }
    let why = match options.from_step {
        Some(step) => format!("before step {step} or finer than detail {detail:?}"),
        None => format!("finer than detail {detail:?}"),
    };
    Ok(match all - ledger.entries.len() {
        0 => None,
        1 => Some(format!("1 record {why}")),
        n => Some(format!("{n} records {why}")),
    })
}

/// Two aligned ledgers.
struct Aligned<'a> {
    ledgers: &'a [Ledger; 2],
    names: &'a Names,
    rows: Vec<Row>,
    /// The class of each row.
    classes: Vec<Class>,
    /// Tensors without a digest in one of the two.
    without_digest: WithoutDigest,
    /// The first step present in both.
    begin: u64,
}

impl Aligned<'_> {
    fn entries(&self, row: Row) -> [Option<&Entry>; 2] {
        let [a, b] = self.ledgers;
        [row.a.map(|i| &a.entries[i as usize]), row.b.map(|j| &b.entries[j as usize])]
    }

    fn either(&self, row: Row) -> Option<&Entry> {
        let [a, b] = self.entries(row);
        a.or(b)
    }

    fn new<'a>(
        ledgers: &'a [Ledger; 2],
        names: &'a Names,
        begin: u64,
    ) -> Result<Aligned<'a>, ReadError> {
        let rows = align(&ledgers[0].entries, &ledgers[1].entries);
        let mut aligned = Aligned {
            ledgers,
            names,
            rows,
            classes: Vec::new(),
            without_digest: WithoutDigest::default(),
            begin,
        };
        let mut without = WithoutDigest::default();
        let classes = aligned.rows.iter().map(|&row| aligned.compare(row, &mut without));
        aligned.classes = classes.collect::<Result<_, _>>()?;
        aligned.without_digest = without;
        Ok(aligned)
    }

    /// Classifies the records of a row. Counts tensors without a digest.
    fn compare(&self, row: Row, without: &mut WithoutDigest) -> Result<Class, ReadError> {
        let [Some(a), Some(b)] = self.entries(row) else {
            let earlier = self.either(row).is_some_and(|entry| entry.group.step < self.begin);
            return Ok(if earlier { Class::Skipped } else { Class::Missing });
        };
        let (x, y) = (a.prints, b.prints);
        let mut structure = x.structure == y.structure;
        let mut given = x.given == y.given;
        let mut made = x.made == y.made;
        let mut all_given = true;
        if !(a.is_known && b.is_known)
            && let Some([(_, a), (_, b)]) = self.records(row)?
        {
            all_given = without.note(&a, &b, || describe(self.names, self.entry_of(row)));
            // Hashes do not show a digest missing on both sides.
            let differences = compare::differences(&a, &b);
            let is = |wanted: &[Part]| differences.iter().any(|it| wanted.contains(&it.part));
            structure = !is(&[Part::Call]);
            given = !is(&[Part::GeneratorBefore, Part::Input]);
            made = !differences
                .iter()
                .any(|it| !matches!(it.part, Part::Call | Part::GeneratorBefore | Part::Input));
        }
        Ok(if structure && given && made {
            if row.moved { Class::Moved } else { Class::Equal }
        } else if !structure {
            Class::Event
        } else if given && all_given && self.names.of(a).kind == Kind::Operation {
            Class::Origin
        } else {
            Class::Content
        })
    }

    /// Returns an entry of a row; every row has one.
    fn entry_of(&self, row: Row) -> &Entry {
        let [a, b] = self.ledgers;
        row.a.map_or_else(|| &b.entries[row.b.unwrap_or(0) as usize], |i| &a.entries[i as usize])
    }

    fn place(&self, side: usize, index: u32) -> Place {
        let entry = &self.ledgers[side].entries[index as usize];
        let what = describe(self.names, entry);
        Place { sequence: entry.sequence, step: entry.group.step, what }
    }

    fn places(&self, row: Row) -> [Option<Place>; 2] {
        [row.a.map(|i| self.place(0, i)), row.b.map(|j| self.place(1, j))]
    }

    /// Returns the records of a row if it has both.
    fn records(&self, row: Row) -> Result<Option<[(usize, Record); 2]>, ReadError> {
        let (Some(i), Some(j)) = (row.a, row.b) else { return Ok(None) };
        let [a, b] = self.ledgers;
        let (i, j) = (i as usize, j as usize);
        Ok(Some([(i, a.record(i)?), (j, b.record(j)?)]))
    }

    fn parting(&self, at: usize, differences: Vec<Difference>) -> Option<Parting> {
        let row = self.rows[at];
        let mismatch = self.classes[at].mismatch()?;
        let [a, b] = self.places(row);
        let before = self.rows[..at].iter().rev().find_map(|&row| match self.places(row) {
            [Some(a), Some(b)] => Some([a, b]),
            _ => None,
        });
        Some(Parting { mismatch, a, b, before, differences })
    }

    fn counts(&self) -> Counts {
        let mut counts =
            Counts { without_digest: self.without_digest.tensors, ..Counts::default() };
        for (&row, &class) in self.rows.iter().zip(&self.classes) {
            counts.compared += u64::from(row.a.is_some() && row.b.is_some());
            *match class {
                Class::Equal => continue,
                Class::Skipped => &mut counts.skipped,
                Class::Moved => &mut counts.order,
                Class::Content | Class::Origin => &mut counts.content,
                Class::Event => &mut counts.event,
                Class::Missing if row.a.is_some() => &mut counts.only_a,
                Class::Missing => &mut counts.only_b,
            } += 1;
        }
        counts
    }

    fn spread(&self, first: usize) -> Spread {
        let mut spread = Spread {
            after: 0,
            unequal: 0,
            origins: 0,
            last_step: 0,
            equal_at_end: 0,
            next: Vec::new(),
        };
        for (&row, &class) in self.rows.iter().zip(&self.classes).skip(first + 1) {
            spread.after += 1;
            spread.equal_at_end += 1;
            if class <= Class::Skipped {
                continue;
            }
            spread.equal_at_end = 0;
            spread.unequal += 1;
            spread.origins += u64::from(class == Class::Origin);
            let step = self.either(row).map_or(0, |entry| entry.group.step);
            spread.last_step = spread.last_step.max(step);
            if spread.next.len() < 8 {
                spread.next.extend(self.places(row).into_iter().flatten().next());
            }
        }
        spread
    }

    fn timeline(&self, first: Option<usize>) -> Vec<Slice> {
        let each = self.rows.len().div_ceil(SLICES).max(1);
        let slice = |(at, (rows, classes)): (usize, (&[Row], &[Class]))| {
            let classes = || classes.iter().copied();
            let steps = || rows.iter().filter_map(|&row| self.either(row)).map(|it| it.group.step);
            Slice {
                worst: classes().max().unwrap_or(Class::Equal),
                records: rows.len() as u64,
                unequal: classes().filter(|&class| class > Class::Skipped).count() as u64,
                sequence: rows
                    .first()
                    .and_then(|&row| self.either(row))
                    .map_or(0, |it| it.sequence),
                steps: (steps().min().unwrap_or(0), steps().max().unwrap_or(0)),
                first: first.is_some_and(|first| first / each == at),
            }
        };
        self.rows.chunks(each).zip(self.classes.chunks(each)).enumerate().map(slice).collect()
    }

    /// Describes the records and tensors that were not compared.
    fn uncompared(&self) -> Vec<String> {
        let mut found = Vec::new();
        let WithoutDigest { tensors, records, first } = &self.without_digest;
        if let Some(first) = first {
            let tensors =
                if *tensors == 1 { "1 tensor".to_owned() } else { format!("{tensors} tensors") };
            let records =
                if *records == 1 { "1 record".to_owned() } else { format!("{records} records") };
            found.push(format!("{tensors} of {records} without a digest in A or B, first {first}"));
        }
        let skipped = self.classes.iter().filter(|&&class| class == Class::Skipped).count();
        if skipped > 0 {
            found.push(format!("{skipped} records of steps before {}", self.begin));
        }
        for (side, ledger) in ["A", "B"].into_iter().zip(self.ledgers) {
            found.extend(ledger.left_out.iter().map(|what| format!("of {side}, {what}")));
            match ledger.end {
                End::Interrupted { cut: Some(line) } => {
                    found.push(format!(
                        "of {side}, which was interrupted, line {line} and what would follow"
                    ));
                }
                End::Interrupted { cut: None } => {
                    found.push(format!("of {side}, which was interrupted, what would follow"));
                }
                End::Clean | End::Unknown => {}
            }
        }
        found
    }
}

/// Tensors without a digest in one of two paired records.
#[derive(Clone, Debug, Default)]
struct WithoutDigest {
    tensors: u64,
    records: u64,
    /// The first of them, and the reason.
    first: Option<String>,
}

impl WithoutDigest {
    /// Counts the tensors without a digest in two records. Returns true if all inputs have digests.
    fn note(&mut self, a: &Record, b: &Record, place: impl FnOnce() -> String) -> bool {
        let pairs = compare::tensors(a, b);
        let without =
            |(_, a, b): &&(String, &Tensor, &Tensor)| a.digest.is_none() || b.digest.is_none();
        let found: Vec<_> = pairs.iter().filter(without).collect();
        if let Some((what, a, b)) = found.first() {
            self.tensors += found.len() as u64;
            self.records += 1;
            self.first.get_or_insert_with(|| {
                let why = a.reason.as_ref().or(b.reason.as_ref());
                let why = why.map_or(String::new(), |why| format!(": {why}"));
                format!("{what} of {}{why}", place())
            });
        }
        !found.iter().any(|(what, ..)| what.starts_with("input"))
    }
}

/// Makes the sentence for equal runs: the equal parts, and the parts that could not be compared.
fn equal(what: &str, uncompared: &[String]) -> String {
    if uncompared.is_empty() {
        format!("Equal: all {what} agree.")
    } else {
        format!(
            "Equal in what was compared: all {what} agree. Not compared: {}.",
            uncompared.join("; ")
        )
    }
}

fn compare_rank(
    ledgers: &[Ledger; 2],
    names: &Names,
    report: &Report,
) -> Result<RankReport, ReadError> {
    let [a, b] = ledgers;
    let first_step = |ledger: &Ledger| ledger.entries.iter().map(|it| it.group.step).min();
    let begins = [first_step(a), first_step(b)].map(|step| step.unwrap_or(0));
    let aligned = Aligned::new(ledgers, names, begins[0].max(begins[1]))?;
    let mut rank = RankReport {
        rank: a.rank,
        equal: true,
        cause: None,
        sentence: String::new(),
        first: None,
        counts: aligned.counts(),
        others: Vec::new(),
        spread: None,
        tensors: Vec::new(),
        uncompared: aligned.uncompared(),
        notes: notes(&aligned, begins)?,
        timeline: Vec::new(),
    };
    let classes =
        |wanted: fn(Class) -> bool| aligned.classes.iter().position(|&class| wanted(class));
    // A change of order alone changes no contents, so it explains nothing else.
    let first =
        classes(|class| class > Class::Moved).or_else(|| classes(|class| class == Class::Moved));
    rank.timeline = aligned.timeline(first);
    let Some(first) = first else {
        rank.sentence = equal(&format!("{} records", rank.counts.compared), &rank.uncompared);
        return Ok(rank);
    };
    rank.equal = false;
    explain(&aligned, first, begins, report, &mut rank)?;
    rank.spread = Some(aligned.spread(first));
    let told = rank.first.as_ref().map(|first| first.mismatch);
    for other in [Mismatch::Order, Mismatch::Content, Mismatch::Event, Mismatch::Missing] {
        let is_other = |class: &Class| class.mismatch() == Some(other);
        if let Some(at) = aligned.classes.iter().position(is_other).filter(|_| told != Some(other))
        {
            let differences = match aligned.records(aligned.rows[at])? {
                Some([(_, a), (_, b)]) => compare::differences(&a, &b),
                None => Vec::new(),
            };
            rank.others.extend(aligned.parting(at, differences));
        }
    }
    Ok(rank)
}

/// Explains the first difference.
fn explain(
    aligned: &Aligned<'_>,
    at: usize,
    begins: [u64; 2],
    report: &Report,
    rank: &mut RankReport,
) -> Result<(), ReadError> {
    let [a, b] = aligned.ledgers;
    let row = aligned.rows[at];
    let (cause, mut sentence) = match aligned.records(row)? {
        Some([first_a, first_b]) if aligned.classes[at] != Class::Moved => {
            let differences = compare::differences(&first_a.1, &first_b.1);
            for (what, of_a, of_b) in compare::tensors(&first_a.1, &first_b.1) {
                let folders = [a.folder(), b.folder()];
                rank.tensors.extend(tensors::compare(what, folders, of_a, of_b)?);
            }
            let context = Context {
                a,
                b,
                names: aligned.names,
                environment: &report.environment,
                seeds: &report.seeds,
                resumed: begins[0] != begins[1],
            };
            let first = First {
                a: (first_a.0, &first_a.1),
                b: (first_b.0, &first_b.1),
                differences: &differences,
            };
            let reason = context.reason(&first)?;
            rank.first = aligned.parting(at, differences);
            (reason.cause, reason.sentence)
        }
        _ => {
            rank.first = aligned.parting(at, Vec::new());
            without_pair(aligned, at)
        }
    };
    if begins[0] != begins[1] {
        let (side, step) = if begins[0] < begins[1] { ("B", begins[1]) } else { ("A", begins[0]) };
        sentence = format!("{side} continues from step {step}. {sentence}");
    }
    rank.cause = Some(cause);
    rank.sentence = sentence;
    Ok(())
}

/// Returns the cause and the sentence for a record that is missing or moved.
fn without_pair(aligned: &Aligned<'_>, at: usize) -> (Cause, String) {
    let row = aligned.rows[at];
    let [place_a, place_b] = aligned.places(row);
    let (has, lacks, other, place) = match (place_a, place_b) {
        (Some(a), Some(b)) => {
            let sentence = format!(
                "The records come in another order: {} is record {} in A and record {} in B.",
                a.what, a.sequence, b.sequence
            );
            return (Cause::Order, sentence);
        }
        (Some(a), None) => ("A", "B", &aligned.ledgers[1], a),
        (None, Some(b)) => ("B", "A", &aligned.ledgers[0], b),
        (None, None) => return (Cause::Missing, String::new()),
    };
    let rest = &aligned.rows[at..];
    let ends =
        rest.iter().all(|row| row.a.is_some() == (has == "A") && row.b.is_some() == (has == "B"));
    if !ends {
        let Place { what, sequence, .. } = place;
        let sentence =
            format!("{lacks} has no record of {what}, which is record {sequence} of {has}.");
        return (Cause::Missing, sentence);
    }
    let what = match other.end {
        End::Interrupted { .. } => "was interrupted",
        End::Clean | End::Unknown => "ends",
    };
    let last = other.entries.last().map_or(0, |entry| entry.sequence);
    let sentence = format!(
        "{lacks} {what} after record {last}, equal to there; {has} continues with {} more records.",
        rest.len()
    );
    (Cause::Extent, sentence)
}

/// Collects notes on ledgers, equal or not.
fn notes(aligned: &Aligned<'_>, begins: [u64; 2]) -> Result<Vec<String>, ReadError> {
    let mut notes = Vec::new();
    for (side, ledger) in ["A", "B"].into_iter().zip(aligned.ledgers) {
        match ledger.end {
            End::Interrupted { cut: Some(line) } => notes
                .push(format!("{side} was interrupted: line {line} is incomplete and left out")),
            End::Interrupted { cut: None } => {
                notes.push(format!("{side} was interrupted: it has no end record"));
            }
            End::Clean | End::Unknown => {}
        }
    }
    if begins[0] != begins[1] {
        let [a, b] = begins;
        notes.push(format!("A begins at step {a}, B at step {b}: earlier steps are not compared"));
    }
    let differs = |&row: &Row| match aligned.entries(row) {
        [Some(a), Some(b)] => a.circumstances != b.circumstances,
        _ => false,
    };
    let count = aligned.rows.iter().filter(|row| differs(row)).count();
    let first = aligned.rows.iter().copied().find(differs);
    if let Some([(_, a), (_, b)]) = first.map(|row| aligned.records(row)).transpose()?.flatten()
        && let (Event::Op(x), Event::Op(y)) | (Event::Layer(x), Event::Layer(y)) =
            (&a.event, &b.event)
    {
        let changes = cause::list(&compare::circumstances(x, y));
        let from = a.sequence;
        notes.push(format!("from record {from} of A on, {count} records differ in: {changes}"));
    }
    Ok(notes)
}
