//! Records as written: the fields of `samebits_ledger::record`, borrowed from the call.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use samebits_ledger::record::{Generator as Positions, Phase};
use samebits_rng::Generator;
use samebits_tensor_core::{DType, Determinism, Device};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use crate::contents::{Content, Late};

/// An event. Serialises as `samebits_ledger::Event` does.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Event<'a> {
    Op(Operation<'a>),
    Layer(Operation<'a>),
    Data { step: u64, microbatch: u64, tensors: Vec<Seen<'a>>, indices: Option<Seen<'a>> },
    Step(Step<'a>),
    Abandoned { step: u64, from: u64 },
}

/// Position of an event in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Place {
    pub(crate) step: u64,
    pub(crate) microbatch: u64,
    pub(crate) phase: Phase,
}

/// An operation or a layer that has computed its result.
#[derive(Serialize)]
pub(crate) struct Operation<'a> {
    #[serde(flatten)]
    pub(crate) place: Place,
    pub(crate) name: &'static str,
    pub(crate) module: &'a str,
    #[serde(serialize_with = "shown")]
    pub(crate) site: Option<Site>,
    pub(crate) occurrence: u64,
    #[serde(serialize_with = "shown")]
    pub(crate) level: Option<Determinism>,
    pub(crate) variant: &'static str,
    pub(crate) inputs: Vec<Seen<'a>>,
    pub(crate) outputs: Vec<Seen<'a>>,
    pub(crate) parameters: BTreeMap<&'static str, Json>,
    pub(crate) generator: Option<Positions>,
}

/// The end of a step.
#[derive(Serialize)]
pub(crate) struct Step<'a> {
    pub(crate) step: u64,
    pub(crate) loss: Option<Seen<'a>>,
    pub(crate) parameters: BTreeMap<&'a str, Seen<'a>>,
    pub(crate) gradients: BTreeMap<&'a str, Seen<'a>>,
    pub(crate) generator: Option<Json>,
}

/// A tensor with its digest.
#[derive(Serialize)]
pub(crate) struct Seen<'a> {
    pub(crate) shape: &'a [usize],
    #[serde(serialize_with = "named")]
    pub(crate) dtype: DType,
    #[serde(serialize_with = "displayed")]
    pub(crate) device: Device,
    #[serde(serialize_with = "digest")]
    pub(crate) digest: Content,
    /// The name of the parameter, if it is one.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shown")]
    pub(crate) name: Option<Arc<str>>,
    /// The file of its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
}

/// Serialises a value as text; `None` as an empty text.
fn shown<T: fmt::Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_str(""),
    }
}

fn displayed<T: fmt::Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

fn named<S: Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(dtype.name())
}

/// Placeholder for a digest that is not known yet, as long as a digest.
const UNKNOWN: &[u8] = b"????????????????";

fn digest<S: Serializer>(content: &Content, to: S) -> Result<S::Ok, S::Error> {
    match content {
        Content::Known(digest) => digest.serialize(to),
        Content::Late(_) => to.serialize_bytes(UNKNOWN),
    }
}

impl Event<'_> {
    /// Returns the digests that are not known yet, in the order in which they are written.
    pub(crate) fn late(&self) -> Vec<Arc<Late>> {
        let all: Vec<&Seen<'_>> = match self {
            Event::Op(it) | Event::Layer(it) => it.inputs.iter().chain(&it.outputs).collect(),
            Event::Data { tensors, indices, .. } => tensors.iter().chain(indices).collect(),
            Event::Step(step) => {
                let named = step.parameters.values().chain(step.gradients.values());
                step.loss.iter().chain(named).collect()
            }
            Event::Abandoned { .. } => Vec::new(),
        };
        let late = |seen: &Seen<'_>| match &seen.digest {
            Content::Late(late) => Some(late.clone()),
            Content::Known(_) => None,
        };
        all.into_iter().filter_map(late).collect()
    }
}

/// Call site of an operation.
pub(crate) struct Site(pub(crate) &'static Location<'static>);

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.file(), self.0.line())
    }
}

/// Returns the path of the module that holds the tensor `name`.
pub(crate) fn parent(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(module, _)| module)
}

pub(crate) fn position(generator: &Generator) -> Json {
    serde_json::to_value(generator).unwrap_or(Json::Null)
}

/// Converts an argument to JSON: numbers, Booleans and lists of them as such, others as their
/// `Debug` text.
pub(crate) fn argument(value: &dyn fmt::Debug) -> Json {
    let shown = format!("{value:?}");
    serde_json::from_str(&shown).unwrap_or(Json::String(shown))
}
