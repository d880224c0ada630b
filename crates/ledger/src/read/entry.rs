//! The in-memory part of a record: its position, its key, and hashes for comparison.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use serde_json::Value;

use crate::record::{Event, Operation, Phase, Step, Tensor};

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// An operation, of which all inputs are recorded.
    Operation,
    /// A layer, whose parameters are not among its inputs.
    Layer,
    /// The end of a step.
    Step,
    /// A batch.
    Data,
}

/// The common part of all records of a module's operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) kind: Kind,
    pub(crate) phase: Option<Phase>,
    pub(crate) module: String,
    pub(crate) name: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Operation => write!(f, "operation `{}`", self.name)?,
            Kind::Layer => write!(f, "layer `{}`", self.name)?,
            Kind::Step => write!(f, "the end of the step")?,
            Kind::Data => write!(f, "the batch")?,
        }
        if self.module.is_empty() { Ok(()) } else { write!(f, " of `{}`", self.module) }
    }
}

/// The names of the records of two runs, by number.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: BTreeMap<Name, u32>,
    names: Vec<Name>,
}

impl Names {
    fn number(&mut self, name: Name) -> u32 {
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    pub(crate) fn of(&self, entry: &Entry) -> &Name {
        &self.names[entry.group.name as usize]
    }
}

/// The key of a record without its occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) step: u64,
    pub(crate) microbatch: u64,
    /// An index into [`Names`].
    name: u32,
}

/// Hashes of the parts of a record. They are comparable only between records of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Prints {
    /// Shapes, element types and arguments.
    pub(crate) structure: u64,
    /// Contents of the inputs, and the generator's position before.
    pub(crate) given: u64,
    /// Contents of the outputs, and the generator's position after.
    pub(crate) made: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The offset of the record's line.
    pub(crate) offset: u64,
    pub(crate) sequence: u64,
    pub(crate) group: Group,
    pub(crate) occurrence: u64,
    pub(crate) prints: Prints,
    /// Hash of an operation's level, kernel and devices, which may differ between equal records.
    pub(crate) circumstances: u64,
    /// True if every tensor has a digest.
    pub(crate) is_known: bool,
}

impl Entry {
    /// Makes the entry of a record; `None` for headers and ends.
    pub(super) fn new(
        offset: u64,
        sequence: u64,
        event: &Event,
        names: &mut Names,
    ) -> Option<Entry> {
        let mut hashes = Hashes::default();
        let mut occurrence = 0;
        let (kind, step, microbatch) = match event {
            Event::Op(operation) | Event::Layer(operation) => {
                hashes.operation(operation);
                occurrence = operation.occurrence;
                let kind = match event {
                    Event::Op(_) => Kind::Operation,
                    _ => Kind::Layer,
                };
                (kind, operation.step, operation.microbatch)
            }
            Event::Step(step) => {
                hashes.step(step);
                (Kind::Step, step.step, 0)
            }
            Event::Data(data) => {
                for tensor in data.tensors.iter().chain(&data.indices) {
                    hashes.output(tensor);
                }
                (Kind::Data, data.step, data.microbatch)
            }
            Event::Header(_) | Event::Abandoned(_) | Event::End(_) => return None,
        };
        let name = match event {
            Event::Op(Operation { name, module, phase, .. })
            | Event::Layer(Operation { name, module, phase, .. }) => {
                Name { kind, phase: Some(*phase), module: module.clone(), name: name.clone() }
            }
            _ => Name { kind, phase: None, module: String::new(), name: String::new() },
        };
        Some(Entry {
            offset,
            sequence,
            group: Group { step, microbatch, name: names.number(name) },
            occurrence,
            prints: Prints {
                structure: hashes.structure.finish(),
                given: hashes.given.finish(),
                made: hashes.made.finish(),
            },
            circumstances: hashes.circumstances.finish(),
            is_known: !hashes.unknown,
        })
    }

    /// Returns the unique key.
    pub(crate) fn key(&self) -> (Group, u64) {
        (self.group, self.occurrence)
    }
}

#[derive(Default)]
struct Hashes {
    structure: DefaultHasher,
    given: DefaultHasher,
    made: DefaultHasher,
    circumstances: DefaultHasher,
    /// True if a tensor has no digest.
    unknown: bool,
}

impl Hashes {
    fn input(&mut self, tensor: &Tensor) {
        self.tensor(tensor);
        tensor.digest.iter().for_each(|digest| digest.0.hash(&mut self.given));
    }

    fn output(&mut self, tensor: &Tensor) {
        self.tensor(tensor);
        tensor.digest.iter().for_each(|digest| digest.0.hash(&mut self.made));
    }

    fn tensor(&mut self, tensor: &Tensor) {
        (&tensor.shape, &tensor.dtype).hash(&mut self.structure);
        self.unknown |= tensor.digest.is_none();
    }

    fn operation(&mut self, operation: &Operation) {
        operation.inputs.iter().for_each(|tensor| self.input(tensor));
        operation.inputs.len().hash(&mut self.structure);
        operation.outputs.iter().for_each(|tensor| self.output(tensor));
        for (name, value) in &operation.parameters {
            name.hash(&mut self.structure);
            hash_value(value, &mut self.structure);
        }
        if let Some(generator) = &operation.generator {
            hash_value(&generator.before, &mut self.given);
            hash_value(&generator.after, &mut self.made);
        }
        (&operation.level, &operation.variant).hash(&mut self.circumstances);
        let tensors = operation.inputs.iter().chain(&operation.outputs);
        tensors.for_each(|tensor| tensor.device.hash(&mut self.circumstances));
    }

    fn step(&mut self, step: &Step) {
        step.loss.iter().for_each(|loss| self.output(loss));
        for tensors in [&step.parameters, &step.gradients] {
            tensors.len().hash(&mut self.structure);
            for (name, tensor) in tensors {
                name.hash(&mut self.structure);
                self.output(tensor);
            }
        }
        step.generator.iter().for_each(|generator| hash_value(generator, &mut self.made));
    }
}

/// Hashes a value by its text. Equal values have equal texts: numbers keep their written form, and
/// objects are ordered.
fn hash_value(value: &Value, into: &mut DefaultHasher) {
    value.to_string().hash(into);
}
