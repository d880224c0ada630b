use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use samebits::Result;
use samebits::ledger::{Digests, digest};
use samebits::tensor_core::Tensor as Value;
use samebits::tensor_core::observe::{self, Call, Observer};
use samebits_ledger::Digest;

/// The first operation in which two runs parted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parting {
    /// How many equal operations came before it.
    pub before: usize,
    /// The operation of the first run, and where it was called; `None` if the run had ended.
    pub left: Option<String>,
    /// That of the second run.
    pub right: Option<String>,
    /// What differed.
    pub cause: Cause,
}

/// What differed first between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Which operation ran, or where it was called.
    Operation,
    /// Its inputs, though no operation before it had given other results: something else made them.
    Inputs,
    /// Its parameters.
    Parameters,
    /// Where its generator stood.
    Generator,
    /// Its results, of equal inputs.
    Results,
}

impl fmt::Display for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |run: &Option<String>| run.clone().unwrap_or_else(|| "no operation".to_owned());
        let (left, right) = (name(&self.left), name(&self.right));
        match self.cause {
            Cause::Operation => write!(f, "{left} ran at first, and {right} then"),
            Cause::Inputs => write!(f, "{left} had other inputs, which no operation had computed"),
            Cause::Parameters => write!(f, "{left} had other parameters"),
            Cause::Generator => write!(f, "{left} drew from another place of its generator"),
            Cause::Results => write!(f, "{left} had equal inputs and unequal results"),
        }?;
        write!(f, ", after {} equal operations", self.before)
    }
}

/// What an operation was, took and gave.
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

/// Listens to the operations of a run.
#[derive(Default)]
pub(crate) struct Trace {
    steps: Mutex<Vec<Step>>,
}

impl Trace {
    /// The operations of `f`, on the thread that it runs on.
    pub(crate) fn of(f: impl FnOnce()) -> Trace {
        let trace = Arc::new(Trace::default());
        observe::scope(trace.clone(), f);
        Trace { steps: Mutex::new(std::mem::take(&mut trace.steps.lock())) }
    }

    /// Where two runs part, if they do.
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
