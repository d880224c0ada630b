//! Records in the order in which things happened, as lines.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use samebits_ledger::record::{
    Data, Event, Generator as Positions, Operation, Phase, Step, Tensor as Digested,
};
use samebits_ledger::{Digest, Writer};
use samebits_rng::Generator;
use samebits_tensor_core::{DType, Determinism, Device, Tensor};
use serde_json::Value as Json;

use crate::Result;
use crate::contents::Contents;
use crate::keep::Keeper;

/// Something that happened.
pub(crate) enum Item {
    Operation(Called),
    Layer(Layer),
    Data { step: u64, microbatch: u64, tensors: Vec<Seen>, indices: Option<Seen> },
    Step(Ended),
}

/// Where in a run something happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) step: u64,
    pub(crate) microbatch: u64,
    pub(crate) phase: Phase,
}

/// A layer that has computed its result.
pub(crate) struct Layer {
    pub(crate) place: Place,
    pub(crate) name: &'static str,
    pub(crate) module: Arc<str>,
    pub(crate) inputs: Vec<Seen>,
    pub(crate) outputs: Vec<Seen>,
}

/// An operation that has computed its result.
pub(crate) struct Called {
    pub(crate) place: Place,
    pub(crate) name: &'static str,
    /// The layer that it is a part of, if it is known.
    pub(crate) module: Option<Arc<str>>,
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
    /// That of the parameter that it is.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) content: Content,
    /// The tensor itself, if its bytes are to be kept.
    pub(crate) kept: Option<Tensor>,
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
            Item::Layer(layer) => sum(&layer.inputs) + sum(&layer.outputs),
            Item::Data { tensors, indices, .. } => sum(tensors) + sum(indices.as_slice()),
            Item::Step(ended) => {
                sum(ended.loss.as_slice()) + named(&ended.parameters) + named(&ended.gradients)
            }
        }
    }
}

impl Seen {
    fn held(&self) -> usize {
        match (&self.content, &self.kept) {
            (Content::Known(_), None) => 0,
            (Content::Held(tensor), _) | (_, Some(tensor)) => {
                tensor.numel() * tensor.dtype().size()
            }
        }
    }
}

/// Writes down what comes.
pub(crate) struct Scribe {
    /// None once the ledger is finished.
    pub(crate) writer: Option<Writer>,
    /// How often each operation and each layer was recorded in the step that they are of.
    occurrences: BTreeMap<Key, u64>,
    step: u64,
    keeper: Option<Keeper>,
}

/// Whether it is a layer, its place, its module and its name.
type Key = (bool, Place, Arc<str>, &'static str);

impl Scribe {
    pub(crate) fn new(writer: Writer, keeper: Option<Keeper>) -> Scribe {
        Scribe { writer: Some(writer), occurrences: BTreeMap::new(), step: 0, keeper }
    }

    /// Writes `item` down, if the ledger is not finished.
    pub(crate) fn write(&mut self, item: Item, contents: &Contents) -> Result<()> {
        let event = match item {
            Item::Operation(called) => Event::Op(self.operation(called, contents)?),
            Item::Layer(layer) => Event::Layer(self.layer(layer, contents)?),
            Item::Data { step, microbatch, tensors, indices } => {
                let tensors = self.all_digested(tensors, contents)?;
                let indices = indices.map(|it| self.digested(it, contents)).transpose()?;
                Event::Data(Data { step, microbatch, tensors, indices })
            }
            Item::Step(ended) => {
                let Ended { step, loss, parameters, gradients, generator } = ended;
                let mut of = |all: Vec<(String, Seen)>| -> Result<BTreeMap<String, Digested>> {
                    let named = |(name, it)| Ok((name, self.digested(it, contents)?));
                    all.into_iter().map(named).collect()
                };
                let (parameters, gradients) = (of(parameters)?, of(gradients)?);
                let loss = loss.map(|loss| self.digested(loss, contents)).transpose()?;
                let generator = generator.as_ref().map(position);
                Event::Step(Step { step, loss, parameters, gradients, generator })
            }
        };
        match &mut self.writer {
            Some(writer) => Ok(writer.append(event)?),
            None => Ok(()),
        }
    }

    fn operation(&mut self, called: Called, contents: &Contents) -> Result<Operation> {
        let Called { place, name, caller, variant, inputs, .. } = called;
        let module = called.module.unwrap_or_else(|| {
            let parameter = inputs.iter().find_map(|input| input.name.as_ref());
            parent(parameter.map_or("", |name| name)).into()
        });
        let parameters = called.parameters.into_iter();
        Ok(Operation {
            step: place.step,
            microbatch: place.microbatch,
            phase: place.phase,
            name: name.to_owned(),
            module: module.to_string(),
            site: format!("{}:{}", caller.file(), caller.line()),
            occurrence: self.occurrence((false, place, module, name)),
            level: called.required.to_string(),
            variant: variant.to_owned(),
            inputs: self.all_digested(inputs, contents)?,
            outputs: self.all_digested(called.outputs, contents)?,
            parameters: parameters
                .map(|(name, shown)| (name.to_owned(), argument(shown)))
                .collect(),
            // The caller reserves what an operation draws, so its end is not known here.
            generator: called
                .generator
                .map(|start| Positions { before: position(&start), after: Json::Null }),
        })
    }

    fn layer(&mut self, layer: Layer, contents: &Contents) -> Result<Operation> {
        let Layer { place, name, module, inputs, outputs } = layer;
        Ok(Operation {
            step: place.step,
            microbatch: place.microbatch,
            phase: place.phase,
            name: name.to_owned(),
            module: module.to_string(),
            site: String::new(),
            occurrence: self.occurrence((true, place, module, name)),
            level: String::new(),
            variant: String::new(),
            inputs: self.all_digested(inputs, contents)?,
            outputs: self.all_digested(outputs, contents)?,
            parameters: BTreeMap::new(),
            generator: None,
        })
    }

    /// Which one it is of the records of one key.
    fn occurrence(&mut self, key: Key) -> u64 {
        if self.step != key.1.step {
            self.occurrences.clear();
            self.step = key.1.step;
        }
        let next = self.occurrences.entry(key).or_insert(0);
        *next += 1;
        *next - 1
    }

    fn all_digested(&mut self, all: Vec<Seen>, contents: &Contents) -> Result<Vec<Digested>> {
        all.into_iter().map(|it| self.digested(it, contents)).collect()
    }

    fn digested(&mut self, seen: Seen, contents: &Contents) -> Result<Digested> {
        let Seen { shape, dtype, device, name, content, kept } = seen;
        let digest = match content {
            Content::Known(digest) => digest,
            Content::Held(tensor) => contents.digest_alone(&tensor)?,
        };
        let file = match (&mut self.keeper, kept) {
            (Some(keeper), Some(tensor)) => Some(keeper.keep(&tensor)?),
            _ => None,
        };
        let name = name.map(|name| name.to_string());
        let (dtype, device) = (dtype.name().to_owned(), device.to_string());
        Ok(Digested { shape, dtype, device, digest, name, file })
    }
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
