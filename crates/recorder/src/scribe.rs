//! Records in the order in which things happened, as lines.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;

use samebits_ledger::record::{
    Data, Event, Generator as Positions, Operation, Phase, Step, Tensor as Digested,
};
use samebits_ledger::{Digest, Writer};
use samebits_rng::Generator;
use samebits_tensor_core::{DType, Determinism, Device, Tensor};
use serde_json::Value as Json;

use crate::Result;
use crate::contents::Contents;

/// Something that happened.
pub(crate) enum Item {
    Operation(Called),
    /// The tensors of a model, by name.
    Names(Vec<(String, Tensor)>),
    Data {
        step: u64,
        microbatch: u64,
        tensors: Vec<Seen>,
        indices: Option<Seen>,
    },
    Step(Ended),
}

/// An operation that has computed its result.
pub(crate) struct Called {
    pub(crate) step: u64,
    pub(crate) microbatch: u64,
    pub(crate) phase: Phase,
    pub(crate) name: &'static str,
    pub(crate) caller: &'static Location<'static>,
    pub(crate) required: Determinism,
    pub(crate) variant: &'static str,
    pub(crate) inputs: Vec<Seen>,
    pub(crate) outputs: Vec<Seen>,
    /// Arguments by name, as Rust shows them.
    pub(crate) parameters: Vec<(&'static str, String)>,
    pub(crate) generator: Option<Generator>,
}

/// The end of a step.
pub(crate) struct Ended {
    pub(crate) step: u64,
    pub(crate) loss: Option<Seen>,
    pub(crate) parameters: Vec<(String, Seen)>,
    pub(crate) gradients: Vec<(String, Seen)>,
    pub(crate) generator: Option<Generator>,
}

/// A tensor, with its digest or for it.
pub(crate) struct Seen {
    pub(crate) shape: Vec<u64>,
    pub(crate) dtype: DType,
    pub(crate) device: Device,
    pub(crate) storage: usize,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    Known(Digest),
    /// What is still to be digested.
    Held(Tensor),
}

impl Item {
    /// The bytes of the tensors that it keeps.
    pub(crate) fn held(&self) -> usize {
        let sum = |all: &[Seen]| -> usize { all.iter().map(Seen::held).sum() };
        let named = |all: &[(String, Seen)]| -> usize { all.iter().map(|(_, it)| it.held()).sum() };
        match self {
            Item::Operation(called) => sum(&called.inputs) + sum(&called.outputs),
            // They are the model's, which keeps them too.
            Item::Names(_) => 0,
            Item::Data { tensors, indices, .. } => sum(tensors) + sum(indices.as_slice()),
            Item::Step(ended) => named(&ended.parameters) + named(&ended.gradients),
        }
    }
}

impl Seen {
    fn held(&self) -> usize {
        match &self.content {
            Content::Known(_) => 0,
            Content::Held(tensor) => tensor.numel() * tensor.dtype().size(),
        }
    }
}

/// Writes down what comes.
pub(crate) struct Scribe {
    /// None once the ledger is finished.
    pub(crate) writer: Option<Writer>,
    /// How often each operation was recorded in this step.
    occurrences: BTreeMap<(u64, Phase, String, &'static str), u64>,
    /// The step that they are of.
    step: u64,
    /// Parameters and buffers by the address of their storage, which cannot be given to another
    /// tensor as long as they are held here.
    names: BTreeMap<usize, (String, Tensor)>,
}

impl Scribe {
    pub(crate) fn new(writer: Writer) -> Scribe {
        let (occurrences, names) = (BTreeMap::new(), BTreeMap::new());
        Scribe { writer: Some(writer), occurrences, step: 0, names }
    }

    /// Writes `item` down, if the ledger is not finished.
    pub(crate) fn write(&mut self, item: Item, contents: &Contents) -> Result<()> {
        let event = match item {
            Item::Operation(called) => Event::Op(self.operation(called, contents)?),
            Item::Names(names) => {
                self.names.clear();
                for (name, tensor) in names {
                    // A shared parameter has the name that is visited first.
                    self.names.entry(tensor.storage_address()).or_insert((name, tensor));
                }
                return Ok(());
            }
            Item::Data { step, microbatch, tensors, indices } => {
                let tensors = tensors.into_iter().map(|it| digested(it, None, contents));
                let tensors = tensors.collect::<Result<_>>()?;
                let indices = indices.map(|it| digested(it, None, contents)).transpose()?;
                Event::Data(Data { step, microbatch, tensors, indices })
            }
            Item::Step(ended) => {
                self.names.clear();
                let Ended { step, loss, parameters, gradients, generator } = ended;
                let of = |all: Vec<(String, Seen)>| -> Result<BTreeMap<String, Digested>> {
                    let named = |(name, it)| Ok((name, digested(it, None, contents)?));
                    all.into_iter().map(named).collect()
                };
                Event::Step(Step {
                    step,
                    loss: loss.map(|loss| digested(loss, None, contents)).transpose()?,
                    parameters: of(parameters)?,
                    gradients: of(gradients)?,
                    generator: generator.as_ref().map(position),
                })
            }
        };
        match &mut self.writer {
            Some(writer) => Ok(writer.append(event)?),
            None => Ok(()),
        }
    }

    fn operation(&mut self, called: Called, contents: &Contents) -> Result<Operation> {
        let Called { step, microbatch, phase, name, caller, variant, .. } = called;
        let named = |it: &Seen| self.names.get(&it.storage).map(|(name, _)| name.clone());
        let names: Vec<Option<String>> = called.inputs.iter().map(named).collect();
        let module = names.iter().flatten().next().map_or("", |name| parent(name)).to_owned();
        if self.step != step {
            self.occurrences.clear();
            self.step = step;
        }
        let next = self.occurrences.entry((microbatch, phase, module.clone(), name)).or_insert(0);
        let occurrence = *next;
        *next += 1;
        let inputs = called.inputs.into_iter().zip(names);
        let inputs = inputs.map(|(it, name)| digested(it, name, contents));
        let outputs = called.outputs.into_iter().map(|it| digested(it, None, contents));
        let parameters = called.parameters.into_iter();
        Ok(Operation {
            step,
            microbatch,
            phase,
            name: name.to_owned(),
            module,
            site: format!("{}:{}", caller.file(), caller.line()),
            occurrence,
            level: called.required.to_string(),
            variant: variant.to_owned(),
            inputs: inputs.collect::<Result<_>>()?,
            outputs: outputs.collect::<Result<_>>()?,
            parameters: parameters
                .map(|(name, shown)| (name.to_owned(), argument(shown)))
                .collect(),
            // The caller reserves what an operation draws, so its end is not known here.
            generator: called
                .generator
                .map(|start| Positions { before: position(&start), after: Json::Null }),
        })
    }
}

fn digested(seen: Seen, name: Option<String>, contents: &Contents) -> Result<Digested> {
    let Seen { shape, dtype, device, content, .. } = seen;
    let digest = match content {
        Content::Known(digest) => digest,
        Content::Held(tensor) => contents.digest_alone(&tensor)?,
    };
    let (dtype, device) = (dtype.name().to_owned(), device.to_string());
    Ok(Digested { shape, dtype, device, digest, name, file: None })
}

/// The path of the module that holds the tensor `name`.
fn parent(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(module, _)| module)
}

fn position(generator: &Generator) -> Json {
    serde_json::to_value(generator).unwrap_or(Json::Null)
}

/// An argument as JSON: numbers, truth values and lists of them as such, the rest as Rust shows it.
fn argument(shown: String) -> Json {
    serde_json::from_str(&shown).unwrap_or(Json::String(shown))
}

impl fmt::Debug for Scribe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scribe({:?})", self.writer)
    }
}
