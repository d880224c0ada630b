//! The observer that writes operations down.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use samebits_ledger::Writer;
use samebits_ledger::record::{
    Data, Detail, Digests, Event, Generator as Positions, Operation, Phase, Step,
    Tensor as Digested,
};
use samebits_tensor_core::Tensor as Value;
use samebits_tensor_core::observe::{self, Call, Observer};
use serde_json::Value as Json;

use super::digest::digest;
use super::{Error, Result};
use crate::nn::Kind;
use crate::{Generator, Gradients, Tensor};

/// Visits the tensors of a model: [`Module::visit`](crate::nn::Module::visit) from its root.
type Visit<'a> = &'a dyn Fn(&mut dyn FnMut(&str, Kind, &Tensor));

/// Writes operations, batches and steps to the file of a rank.
pub(super) struct Recorder {
    path: PathBuf,
    detail: Detail,
    digests: Digests,
    unbuffered: bool,
    state: Mutex<State>,
}

struct State {
    /// None once the ledger is finished, or the file failed.
    writer: Option<Writer>,
    step: u64,
    microbatch: u64,
    /// The last place that cannot come again.
    passed: Option<(u64, u64)>,
    /// How often each operation was recorded in this step.
    occurrences: BTreeMap<(u64, Phase, String, &'static str), u64>,
    /// Parameters and buffers by the address of their storage, which cannot be given to another
    /// tensor as long as they are held here.
    names: BTreeMap<usize, (String, Tensor)>,
}

impl Recorder {
    pub(super) fn new(writer: Writer, detail: Detail, digests: Digests, unbuffered: bool) -> Self {
        let path = writer.path().to_owned();
        let state = State {
            writer: Some(writer),
            step: 0,
            microbatch: 0,
            passed: None,
            occurrences: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        Recorder { path, detail, digests, unbuffered, state: Mutex::new(state) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn detail(&self) -> Detail {
        self.detail
    }

    pub(super) fn at(&self, step: u64, microbatch: u64) -> Result<()> {
        let mut state = self.state.lock();
        if state.passed.is_some_and(|passed| (step, microbatch) <= passed) {
            let message = format!(
                "batch {microbatch} of step {step} comes again in {}: each run needs a ledger of \
                 its own",
                self.path.display()
            );
            return Err(Error::Invalid(message));
        }
        if state.step != step {
            state.occurrences.clear();
        }
        (state.step, state.microbatch) = (step, microbatch);
        state.passed = Some((step, microbatch));
        Ok(())
    }

    pub(super) fn watch(&self, visit: Visit<'_>) {
        let mut names = BTreeMap::new();
        visit(&mut |name, _, tensor| {
            // A shared parameter has the name that is visited first.
            names
                .entry(tensor.value().storage_address())
                .or_insert_with(|| (name.to_owned(), tensor.clone()));
        });
        self.state.lock().names = names;
    }

    pub(super) fn batch(&self, tensors: &[&Tensor], indices: Option<&Tensor>) -> Result<()> {
        let tensors = tensors.iter().map(|tensor| self.digested(tensor.value(), None));
        let tensors = tensors.collect::<crate::Result<_>>()?;
        let indices = indices.map(|indices| self.digested(indices.value(), None)).transpose()?;
        let mut state = self.state.lock();
        let (step, microbatch) = (state.step, state.microbatch);
        self.append(&mut state, Event::Data(Data { step, microbatch, tensors, indices }))
    }

    pub(super) fn step(
        &self,
        loss: Option<&Tensor>,
        visit: Visit<'_>,
        gradients: &Gradients,
        generator: Option<&Generator>,
    ) -> Result<()> {
        let loss = loss.map(|loss| self.digested(loss.value(), None)).transpose()?;
        let mut parameters = Vec::new();
        visit(&mut |name, _, tensor| parameters.push((name.to_owned(), tensor.clone())));
        // The gradients are those of the parameters that the step has replaced.
        let watched: Vec<_> = self.state.lock().names.values().cloned().collect();
        let found = watched.into_iter();
        let found = found.filter_map(|(name, of)| Some((name, gradients.of(&of)?.clone())));
        let digested =
            |(name, tensor): (String, Tensor)| Ok((name, self.digested(tensor.value(), None)?));
        let gradients = found.map(digested).collect::<Result<BTreeMap<_, _>>>()?;
        let parameters = parameters.into_iter().map(digested).collect::<Result<_>>()?;
        let generator = generator.map(position);
        let mut state = self.state.lock();
        let step = state.step;
        let event = Event::Step(Step { step, loss, parameters, gradients, generator });
        self.append(&mut state, event)?;
        if let Some(writer) = &mut state.writer {
            writer.flush()?;
        }
        (state.step, state.microbatch) = (step + 1, 0);
        state.passed = Some((step, u64::MAX));
        state.occurrences.clear();
        state.names.clear();
        Ok(())
    }

    pub(super) fn finish(&self) -> Result<()> {
        let writer = self.state.lock().writer.take();
        Ok(writer.ok_or_else(|| self.finished())?.finish()?)
    }

    fn finished(&self) -> Error {
        Error::Finished { path: self.path.clone() }
    }

    fn append(&self, state: &mut State, event: Event) -> Result<()> {
        let writer = state.writer.as_mut().ok_or_else(|| self.finished())?;
        writer.append(event)?;
        if self.unbuffered {
            writer.flush()?;
        }
        Ok(())
    }

    fn digested(&self, tensor: &Value, name: Option<String>) -> crate::Result<Digested> {
        Ok(Digested {
            shape: tensor.shape().iter().map(|&size| size as u64).collect(),
            dtype: tensor.dtype().name().to_owned(),
            device: tensor.device().to_string(),
            digest: digest(tensor, self.digests)?,
            name,
            file: None,
        })
    }

    fn recorded(&self, call: &Call<'_>) -> Result<()> {
        let names: Vec<Option<String>> = {
            let state = self.state.lock();
            let name = |tensor: &&Value| state.names.get(&tensor.storage_address());
            call.inputs.iter().map(|tensor| name(tensor).map(|(name, _)| name.clone())).collect()
        };
        let module = names.iter().flatten().next().map_or("", |name| parent(name)).to_owned();
        let inputs = call.inputs.iter().zip(names);
        let inputs = inputs.map(|(tensor, name)| self.digested(tensor, name));
        let inputs = inputs.collect::<crate::Result<_>>()?;
        let outputs = call.outputs.iter().map(|tensor| self.digested(tensor, None));
        let outputs = outputs.collect::<crate::Result<_>>()?;
        let parameters = call.parameters.iter();
        let parameters =
            parameters.map(|&(name, value)| (name.to_owned(), argument(value))).collect();
        let phase = match call.phase {
            observe::Phase::Forward => Phase::Forward,
            observe::Phase::Backward => Phase::Backward,
            observe::Phase::Optimizer => Phase::Optimizer,
        };
        let mut state = self.state.lock();
        let key = (state.microbatch, phase, module.clone(), call.op);
        let next = state.occurrences.entry(key).or_insert(0);
        let occurrence = *next;
        *next += 1;
        let operation = Operation {
            step: state.step,
            microbatch: state.microbatch,
            phase,
            name: call.op.to_owned(),
            module,
            site: format!("{}:{}", call.caller.file(), call.caller.line()),
            occurrence,
            level: call.required.to_string(),
            variant: call.variant.to_owned(),
            inputs,
            outputs,
            parameters,
            // The caller reserves what an operation draws, so its end is not known here.
            generator: call
                .generator
                .map(|start| Positions { before: position(start), after: Json::Null }),
        };
        self.append(&mut state, Event::Op(operation))
    }
}

impl Observer for Recorder {
    fn observe(&self, call: &Call<'_>) -> crate::Result<()> {
        self.recorded(call).map_err(|error| match error {
            Error::Tensor(error) => error,
            error => crate::Error::Observer { op: call.op, message: error.to_string() },
        })
    }
}

/// In the place of a recorder that could not be made.
pub(super) struct Refusal(pub(super) String);

impl Observer for Refusal {
    fn observe(&self, call: &Call<'_>) -> crate::Result<()> {
        Err(crate::Error::Observer { op: call.op, message: self.0.clone() })
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
fn argument(value: &dyn fmt::Debug) -> Json {
    let shown = format!("{value:?}");
    serde_json::from_str(&shown).unwrap_or(Json::String(shown))
}
