use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use samebits::Result;
use samebits::ledger::{Digests, digest};
use samebits::tensor_core::Tensor as Value;
use samebits::tensor_core::observe::{self, Call, Observer};
use samebits_ledger::Digest;

/// The first operation at which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parting {
    /// The number of equal operations before it.
    pub before: usize,
    /// The operation of the first run, and its call site; `None` if the run had ended.
    pub left: Option<String>,
    /// The operation of the second run.
    pub right: Option<String>,
    /// The first difference.
    pub cause: Cause,
}

/// First difference between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The operation, or its call site.
    Operation,
    /// Its inputs, although all earlier operations gave equal results: their source lies elsewhere.
    Inputs,
    /// Its parameters.
    Parameters,
    /// The state of its generator.
    Generator,
    /// Its results, from equal inputs.
    Results,
}

impl fmt::Display for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |run: &Option<String>| run.clone().unwrap_or_else(|| "no operation".to_owned());
        let (left, right) = (name(&self.left), name(&self.right));
        match self.cause {
            Cause::Operation => write!(f, "the first run called {left}, the second {right}"),
            Cause::Inputs => write!(f, "{left} had other inputs, which no operation computed"),
            Cause::Parameters => write!(f, "{left} had other parameters"),
            Cause::Generator => write!(f, "{left} drew at another position of its generator"),
            Cause::Results => write!(f, "{left} had equal inputs and unequal results"),
        }?;
        write!(f, ", after {} equal operations", self.before)
    }
}

/// An operation with its inputs and results.
#[derive(PartialEq)]
struct Step {
    name: String,
    inputs: Vec<Digest>,
    parameters: String,
    generator: String,
    outputs: Vec<Digest>,
}

impl Step {
    fn cause(&self, other: &Step) -> Cause {
        if self.name != other.name {
            Cause::Operation
        } else if self.inputs != other.inputs {
            Cause::Inputs
        } else if self.parameters != other.parameters {
            Cause::Parameters
        } else if self.generator != other.generator {
            Cause::Generator
        } else {
            Cause::Results
        }
    }
}

/// Observer of the operations of a run.
#[derive(Default)]
pub(crate) struct Trace {
    steps: Mutex<Vec<Step>>,
}

impl Trace {
    /// Records the operations of `f` on the calling thread.
    pub(crate) fn of(f: impl FnOnce()) -> Trace {
        let trace = Arc::new(Trace::default());
        observe::scope(trace.clone(), f);
        Trace { steps: Mutex::new(std::mem::take(&mut trace.steps.lock())) }
    }

    /// Finds the first difference between two runs, if any.
    pub(crate) fn parting(&self, other: &Trace) -> Option<Parting> {
        let (left, right) = (self.steps.lock(), other.steps.lock());
        let before = left.iter().zip(right.iter()).take_while(|(a, b)| a == b).count();
        let (a, b) = (left.get(before), right.get(before));
        if a.is_none() && b.is_none() {
            return None;
        }
        Some(Parting {
            before,
            left: a.map(|step| step.name.clone()),
            right: b.map(|step| step.name.clone()),
            cause: a.zip(b).map_or(Cause::Operation, |(a, b)| a.cause(b)),
        })
    }
}

impl Observer for Trace {
    fn observe(&self, call: &Call<'_>) -> Result<()> {
        let digests = |tensors: &[&Value]| -> Result<_> {
            tensors.iter().map(|x| digest(x, Digests::Full)).collect()
        };
        let step = Step {
            name: format!("{} ({}, at {})", call.op, call.pass, call.caller),
            inputs: digests(call.inputs)?,
            parameters: format!("{:?}", call.parameters),
            generator: format!("{:?}", call.generator),
            outputs: digests(call.outputs)?,
        };
        self.steps.lock().push(step);
        Ok(())
    }
}
