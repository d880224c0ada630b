//! Causes of a difference between two paired records when all earlier records are equal.

use serde_json::Value;

use super::compare;
use super::report::{Cause, Change, Difference, Part};
use crate::digest::Digest;
use crate::read::{Entry, Kind, Ledger, Names, ReadError};
use crate::record::{Digests, Event, Operation, Record, Tensor};

/// Parts of the names of operations whose outputs come from other ranks.
const COMMUNICATION: &[&str] = &[
    "all_reduce",
    "allreduce",
    "all_gather",
    "allgather",
    "all_to_all",
    "alltoall",
    "c10d",
    "recv",
    "reduce_scatter",
];

/// The two ledgers of a rank, and the differences between their headers.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) a: &'a Ledger,
    pub(super) b: &'a Ledger,
    pub(super) names: &'a Names,
    pub(super) environment: &'a [Change],
    pub(super) seeds: &'a [Change],
    /// True if the ledgers begin at different steps, because one run continues a run like the
    /// other.
    pub(super) resumed: bool,
}

/// Cause of a difference, and its sentence.
pub(super) struct Reason {
    pub(super) cause: Cause,
    pub(super) sentence: String,
}

/// Describes a record by its event.
pub(super) fn describe(names: &Names, entry: &Entry) -> String {
    let name = names.of(entry);
    let step = entry.group.step;
    let mut text = match name.kind {
        Kind::Step => return format!("the end of step {step}"),
        Kind::Data => format!("the batch of step {step}"),
        Kind::Operation | Kind::Layer => format!("{name} (step {step}"),
    };
    if entry.group.microbatch > 0 {
        text.push_str(&format!(", microbatch {}", entry.group.microbatch));
    }
    if let Some(phase) = name.phase {
        text.push_str(&format!(", {}", format!("{phase:?}").to_lowercase()));
        if entry.occurrence > 0 {
            text.push_str(&format!(", occurrence {}", entry.occurrence));
        }
        text.push(')');
    }
    text
}

/// The first records that differ, with their indices and differences.
pub(super) struct First<'a> {
    pub(super) a: (usize, &'a Record),
    pub(super) b: (usize, &'a Record),
    pub(super) differences: &'a [Difference],
}

impl Context<'_> {
    /// Finds the cause of the first difference.
    pub(super) fn reason(&self, first: &First<'_>) -> Result<Reason, ReadError> {
        let reason = match (&first.a.1.event, &first.b.1.event) {
            (Event::Op(a), Event::Op(b)) | (Event::Layer(a), Event::Layer(b)) => {
                self.operation(first, [a, b])?
            }
            (Event::Data(_), _) => self.batch(first)?,
            _ => self.step(first),
        };
        Ok(self.blamed(first, reason))
    }

    fn place(&self, first: &First<'_>) -> String {
        describe(self.names, &self.a.entries[first.a.0])
    }

    /// Attributes a difference to seeds or environments if they can explain it and nothing finer is
    /// known.
    fn blamed(&self, first: &First<'_>, reason: Reason) -> Reason {
        let steps = self.a.entries[..first.a.0].iter();
        let at_start = !steps.map(|entry| self.names.of(entry).kind).any(|kind| kind == Kind::Step);
        let (seedable, coarse) = match reason.cause {
            Cause::Generator | Cause::Data | Cause::DataOrder => (true, false),
            Cause::Parameters | Cause::Input => (at_start, false),
            Cause::Layer | Cause::Step => (at_start, true),
            _ => (false, false),
        };
        if seedable && !self.seeds.is_empty() {
            let sentence = format!("The seeds differ ({}). {}", list(self.seeds), reason.sentence);
            return Reason { cause: Cause::Seed, sentence };
        }
        if self.environment.is_empty() {
            return reason;
        }
        let environment = list(self.environment);
        if coarse {
            let sentence = format!("The environments differ ({environment}). {}", reason.sentence);
            return Reason { cause: Cause::Environment, sentence };
        }
        let sentence = format!("{} The environments differ too ({environment}).", reason.sentence);
        Reason { cause: reason.cause, sentence }
    }

    fn operation(&self, first: &First<'_>, [a, b]: [&Operation; 2]) -> Result<Reason, ReadError> {
        let place = self.place(first);
        let is = |part| first.differences.iter().find(|difference| difference.part == part);
        if let Some(Difference { what, a, b, .. }) = is(Part::Call) {
            let sentence =
                format!("{place} was called differently: {what} is {a} in A and {b} in B.");
            return Ok(Reason { cause: Cause::Call, sentence: capitalised(sentence) });
        }
        if is(Part::GeneratorBefore).is_some() {
            return self.generator(first, [a, b]);
        }
        if let Some(difference) = is(Part::Input) {
            let index = difference.index;
            return self.input(
                first,
                &difference.what,
                index,
                [&a.inputs[index], &b.inputs[index]],
            );
        }
        if is(Part::Output).is_none() {
            let sentence = format!("{place} moves its generator to another position.");
            return Ok(Reason { cause: Cause::Generator, sentence: capitalised(sentence) });
        }
        let communicates = COMMUNICATION.iter().any(|part| a.name.contains(part));
        let circumstances: Vec<Change> = compare::circumstances(a, b);
        let kernel: Vec<Change> =
            circumstances.into_iter().filter(|it| it.name != "device").collect();
        let (cause, rest) = if self.names.of(&self.a.entries[first.a.0]).kind == Kind::Layer {
            let rest = if a.inputs.is_empty() {
                " differs; its inputs are not recorded.".to_owned()
            } else {
                " had equal inputs and unequal outputs; its parameters are not recorded with it."
                    .to_owned()
            };
            (Cause::Layer, rest)
        } else if a.inputs.iter().chain(&b.inputs).any(|input| input.digest.is_none()) {
            (Cause::Layer, " has unequal outputs; some of its inputs have no digest.".to_owned())
        } else if communicates {
            (Cause::Communication, " received unequal results of other ranks.".to_owned())
        } else if kernel.is_empty() {
            (Cause::Operation, " had equal inputs and unequal outputs.".to_owned())
        } else {
            let rest = format!(
                " had equal inputs and unequal outputs, computed differently: {}.",
                list(&kernel)
            );
            (Cause::Kernel, rest)
        };
        let mut sentence = capitalised(place + &rest);
        if cause == Cause::Operation && a.level == "NotGuaranteed" {
            sentence.push_str(" Level NotGuaranteed does not promise equal bits.");
        }
        let sampled = self.a.header.digests == Digests::Sampled;
        if let Some(index) = a.inputs.iter().position(|it| sampled && it.is_larger_than_samples()) {
            sentence.push_str(&format!(
                " The digest of input {index} covers a sample: full digests of this step show whether \
                 the rest is equal."
            ));
        }
        Ok(Reason { cause, sentence })
    }

    fn generator(&self, first: &First<'_>, [a, b]: [&Operation; 2]) -> Result<Reason, ReadError> {
        let place = self.place(first);
        let seed = |operation: &Operation| -> Option<Value> {
            operation.generator.as_ref()?.before.get("seed").cloned()
        };
        let (cause, mut sentence) = match (seed(a), seed(b)) {
            (Some(a), Some(b)) if a != b => {
                let what = format!("of another seed: {a} in A and {b} in B.");
                (Cause::Seed, format!("{place} draws from a generator {what}"))
            }
            _ => {
                let sentence = format!("The generator stands at another position before {place}.");
                (Cause::Generator, sentence)
            }
        };
        // Finds the last equal position.
        for i in (0..first.a.0).rev() {
            if self.names.of(&self.a.entries[i]).kind != Kind::Operation {
                continue;
            }
            let record = self.a.record(i)?;
            if matches!(&record.event, Event::Op(Operation { generator: Some(_), .. })) {
                let last = describe(self.names, &self.a.entries[i]);
                sentence.push_str(&format!(
                    " It last stood equally after record {}, {last}.",
                    record.sequence
                ));
                break;
            }
        }
        Ok(Reason { cause, sentence: capitalised(sentence) })
    }

    /// Traces unequal inputs to their source. All earlier records are equal.
    fn input(
        &self,
        first: &First<'_>,
        what: &str,
        index: usize,
        [a, b]: [&Tensor; 2],
    ) -> Result<Reason, ReadError> {
        let place = self.place(first);
        let made = |ledger, end, tensor: &Tensor| match tensor.digest {
            Some(digest) => maker(ledger, end, digest),
            None => Ok(None),
        };
        let made_a = made(self.a, first.a.0, a)?;
        let made_b = made(self.b, first.b.0, b)?;
        let record = |ledger: &Ledger, i: usize| ledger.entries[i].sequence;
        let kind = self.names.of(&self.a.entries[first.a.0]).kind;
        let module = !self.names.of(&self.a.entries[first.a.0]).module.is_empty();
        let batches =
            self.a.entries[..first.a.0].iter().any(|entry| self.names.of(entry).kind == Kind::Data);
        let named = a.name.as_deref().is_some_and(|name| {
            name.ends_with("weight") || name.ends_with("bias") || name.ends_with("param")
        });
        let (cause, sentence) = match (made_a, made_b) {
            (Some(i), Some(j)) => {
                let (i, j) = (record(self.a, i), record(self.b, j));
                let why = format!(
                    "{place} takes its {what} from other records: from {i} in A and from {j} in B."
                );
                (Cause::Order, why)
            }
            (None, None) if kind == Kind::Layer => {
                let why = "and nothing recorded before it does";
                (Cause::Input, format!("{what} of {place} differs, {why}."))
            }
            (None, None) if batches || named || module && index > 0 => (
                Cause::Parameters,
                format!("The parameters differ: {what} of {place}, which no record produced."),
            ),
            (None, None) => {
                let why = "which no record produced: a parameter, a constant or data";
                (Cause::Input, format!("{what} of {place} differs, {why}."))
            }
            _ if self.resumed => {
                let why = "the continued run lacks the state of the other";
                (Cause::Parameters, format!("The state differs: {what} of {place}; {why}."))
            }
            (Some(i), None) => {
                let i = record(self.a, i);
                (
                    Cause::Input,
                    format!(
                        "{what} of {place} comes from record {i} in A and from no record in B."
                    ),
                )
            }
            (None, Some(j)) => {
                let j = record(self.b, j);
                (
                    Cause::Input,
                    format!(
                        "{what} of {place} comes from record {j} in B and from no record in A."
                    ),
                )
            }
        };
        Ok(Reason { cause, sentence: capitalised(sentence) })
    }

    fn batch(&self, first: &First<'_>) -> Result<Reason, ReadError> {
        let place = self.place(first);
        let identities = [&self.a.header.data, &self.b.header.data];
        let is = |part| first.differences.iter().any(|difference| difference.part == part);
        if identities[0] != identities[1] {
            let [a, b] = identities.map(|it| it.as_deref().unwrap_or("nothing"));
            let sentence = format!("The data differ ({a} in A and {b} in B), from {place} on.");
            return Ok(Reason { cause: Cause::Data, sentence });
        }
        let indices = |record: &Record| match &record.event {
            Event::Data(data) => data.indices.is_some(),
            _ => false,
        };
        if is(Part::Indices) {
            let sentence = format!("The data come in another order: {place} has other samples.");
            return Ok(Reason { cause: Cause::DataOrder, sentence });
        }
        if indices(first.a.1) && indices(first.b.1) {
            let sentence =
                format!("The data differ: {place} has the same samples with different contents.");
            return Ok(Reason { cause: Cause::Data, sentence });
        }
        let elsewhere = self.has_batch(self.b, first.a.1)? || self.has_batch(self.a, first.b.1)?;
        Ok(if elsewhere {
            let sentence =
                format!("The data come in another order: {place} is a batch of another place.");
            Reason { cause: Cause::DataOrder, sentence }
        } else {
            Reason { cause: Cause::Data, sentence: format!("The data differ: {place}.") }
        })
    }

    /// Returns true if a ledger has a batch of these tensors anywhere.
    fn has_batch(&self, ledger: &Ledger, batch: &Record) -> Result<bool, ReadError> {
        let digests = |record: &Record| -> Vec<Option<Digest>> {
            match &record.event {
                Event::Data(data) => data.tensors.iter().map(|tensor| tensor.digest).collect(),
                _ => Vec::new(),
            }
        };
        let sought = digests(batch);
        if !sought.iter().all(Option::is_some) {
            return Ok(false);
        }
        for (i, entry) in ledger.entries.iter().enumerate() {
            if self.names.of(entry).kind == Kind::Data && digests(&ledger.record(i)?) == sought {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn step(&self, first: &First<'_>) -> Reason {
        let place = self.place(first);
        if let Some(call) = first.differences.iter().find(|it| it.part == Part::Call) {
            let Difference { what, a, b, .. } = call;
            let sentence = format!("At {place}, {what} is {a} in A and {b} in B.");
            return Reason { cause: Cause::Call, sentence };
        }
        let count = |part| first.differences.iter().filter(|it| it.part == part).count();
        let counted = |part, one: &str| match count(part) {
            0 => None,
            1 => Some(format!("1 {one}")),
            n => Some(format!("{n} {one}s")),
        };
        let parts: Vec<String> = [
            (count(Part::Loss) > 0).then(|| "the loss".to_owned()),
            counted(Part::Gradient, "gradient"),
            counted(Part::Parameter, "parameter"),
            (count(Part::GeneratorAfter) > 0).then(|| "the generator".to_owned()),
        ]
        .into_iter()
        .flatten()
        .collect();
        let only_generator = count(Part::GeneratorAfter) == first.differences.len();
        let cause = if only_generator { Cause::Generator } else { Cause::Step };
        let sentence =
            format!("Unequal at {place}: {}. Nothing recorded before differs.", parts.join(", "));
        Reason { cause, sentence }
    }
}

/// Returns the last record before `end` that produced a tensor with this digest.
fn maker(ledger: &Ledger, end: usize, digest: Digest) -> Result<Option<usize>, ReadError> {
    let mut found = None;
    let has = |tensor: &Tensor| tensor.digest == Some(digest);
    for i in 0..end {
        let record = ledger.record(i)?;
        let made = match &record.event {
            Event::Op(it) | Event::Layer(it) => it.outputs.iter().any(has),
            Event::Data(data) => data.tensors.iter().any(has),
            Event::Step(step) => step.parameters.values().any(has),
            Event::Header(_) | Event::Abandoned(_) | Event::End(_) => false,
        };
        if made {
            found = Some(i);
        }
    }
    Ok(found)
}

pub(super) fn list(changes: &[Change]) -> String {
    changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

pub(super) fn capitalised(text: String) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}
