//! Simultaneous runs of one program in two configurations, up to the first operation that differs.

use std::fmt;
use std::panic;
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};
use samebits_tensor_core::Tensor as Value;
use samebits_tensor_core::observe::{self, Call, Observer};
use samebits_tensor_core::rerun::Output as _;

use crate::{Determinism, Device, Error, Result, determinism, on_threads};

/// Configuration of one of the two programs of [`lockstep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The device that the program is given.
    pub device: Device,
    /// The level in force.
    pub level: Determinism,
    /// The number of threads that operations share; `None` for those of the process.
    pub threads: Option<usize>,
}

impl Configuration {
    /// Creates the configuration of `device` at [`Determinism::Portable`].
    pub fn new(device: Device) -> Configuration {
        Configuration { device, level: Determinism::Portable, threads: None }
    }

    /// Sets the level.
    #[must_use]
    pub fn level(mut self, level: Determinism) -> Configuration {
        self.level = level;
        self
    }

    /// Gives the program its own threads.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Configuration {
        self.threads = Some(threads);
        self
    }
}

impl From<Device> for Configuration {
    fn from(device: Device) -> Configuration {
        Configuration::new(device)
    }
}

/// Outcome of [`lockstep`].
#[derive(Debug)]
pub enum Lockstep<R> {
    /// Every operation had the same bits in both programs.
    Same {
        /// The number of operations.
        operations: u64,
        /// The results of the programs.
        results: [R; 2],
    },
    /// The programs differ.
    Parted(Box<Parting>),
}

/// The first operation in which two programs differ.
#[derive(Debug)]
pub struct Parting {
    /// The number of operations before it, all equal.
    pub operations: u64,
    /// The difference.
    pub difference: Difference,
    /// The operation in each program, or how the program ended.
    pub sides: [Side; 2],
}

/// Difference between two operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The operations are not the same, or one program has ended.
    Operation,
    /// A non-tensor argument, or the generator's position.
    Parameters,
    /// An input: the program created it outside operations.
    Input {
        /// Its index.
        index: usize,
        /// The position of the first different bit.
        place: String,
    },
    /// An output, although the inputs are equal.
    Output {
        /// Its index.
        index: usize,
        /// The position of the first different bit.
        place: String,
    },
}

/// State of one program at the first difference.
#[derive(Clone, Debug)]
pub enum Side {
    /// It computed this operation.
    Computed(Computed),
    /// It had returned, possibly with an error.
    Returned(Option<Error>),
}

/// An operation with its tensors.
#[derive(Clone, Debug)]
pub struct Computed {
    /// The operation, with its pass.
    pub name: String,
    /// The chosen kernel.
    pub variant: &'static str,
    /// The call site, as `file:line`.
    pub site: String,
    /// Its non-tensor arguments, and the generator that it drew from.
    pub parameters: String,
    /// The input tensors.
    pub inputs: Vec<Value>,
    /// The output tensors.
    pub outputs: Vec<Value>,
}

impl fmt::Display for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {} equal operations, ", self.operations)?;
        match &self.difference {
            Difference::Operation => f.write_str("the programs do different things")?,
            Difference::Parameters => f.write_str("an argument differs")?,
            Difference::Input { index, place } => write!(f, "input {index} differs: {place}")?,
            Difference::Output { index, place } => {
                write!(f, "equal inputs gave different outputs: output {index}, {place}")?;
            }
        }
        for side in &self.sides {
            match side {
                Side::Computed(Computed { name, variant, site, parameters, .. }) => {
                    write!(f, "; {name} {parameters} by {variant} at {site}")?;
                }
                Side::Returned(None) => f.write_str("; returned")?,
                Side::Returned(Some(error)) => write!(f, "; failed: {error}")?,
            }
        }
        Ok(())
    }
}

/// Runs `program` in two configurations simultaneously, on two threads that wait for each other at
/// every operation. Stops both at the first operation that differs, and returns its tensors.
///
/// The program receives the device to compute on. It runs on new threads, so it must seed its own
/// generators. Operations on other threads are not compared.
///
/// # Determinism
///
/// A kernel at [`Determinism::NotGuaranteed`] may differ in one run and agree in the next.
///
/// # Errors
///
/// The programs' error, if both return one; the error of a device that fails to return tensors; an
/// error if the threads cannot be started.
///
/// # Panics
///
/// If the program panics.
///
/// # Examples
///
/// ```
/// use samebits::{Configuration, Device, Lockstep, Tensor, lockstep};
///
/// let one = Configuration::new(Device::Cpu).threads(1);
/// let two = Configuration::new(Device::Cpu).threads(2);
/// let outcome = lockstep([one, two], |device| {
///     samebits::manual_seed(0);
///     let x = samebits::randn(&[4, 8])?.to(device)?;
///     x.matmul(&x.transpose(0, 1)?)?.sum(..)?.item::<f32>()
/// })?;
/// assert!(matches!(outcome, Lockstep::Same { operations: 3, .. }), "{outcome:?}");
///
/// // A program that looks at where it runs.
/// let outcome = lockstep([one, two], |_| {
///     let threads = rayon::current_thread_index().map_or(0, |_| rayon::current_num_threads());
///     Tensor::scalar(threads as f32).square()
/// })?;
/// let Lockstep::Parted(parting) = outcome else { panic!("{outcome:?}") };
/// assert!(parting.to_string().starts_with("after 0 equal operations, input 0 differs"));
/// # Ok::<(), samebits::Error>(())
/// ```
pub fn lockstep<R: Send>(
    configurations: [impl Into<Configuration>; 2],
    program: impl Fn(Device) -> Result<R> + Sync,
) -> Result<Lockstep<R>> {
    crate::install();
    let meeting = Arc::new(Meeting::default());
    let [first, second] = configurations.map(Into::into);
    let run = |side: usize, configuration: Configuration| -> Result<R> {
        // Tells the other side even if the program panics, so that it does not wait forever.
        let mut ending = Ending { meeting: &meeting, side, error: None };
        let Configuration { device, level, threads } = configuration;
        let observer = Arc::new(Participant { meeting: meeting.clone(), side });
        let observed =
            || observe::scope(observer, || determinism::scope(level, || program(device)));
        let result = on_threads(threads, observed)
            .unwrap_or_else(|missing| Err(Error::invalid("lockstep", missing.to_string())));
        ending.error = result.as_ref().err().cloned();
        result
    };
    let results = thread::scope(|scope| {
        let run = &run;
        let start = |side, configuration| {
            thread::Builder::new().spawn_scoped(scope, move || run(side, configuration)).map_err(
                |error| {
                    let error = Error::invalid("lockstep", error.to_string());
                    // The other side must not wait for this one.
                    meeting.meet(side, Side::Returned(Some(error.clone())));
                    error
                },
            )
        };
        let started = [start(0, first), start(1, second)];
        started.map(|thread| {
            thread.and_then(|thread| {
                thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
            })
        })
    });
    let mut state = meeting.state.lock();
    match state.verdict.take() {
        Some(Verdict::Failed(error)) => Err(error),
        Some(Verdict::Parted(parting)) => Ok(Lockstep::Parted(parting)),
        None => {
            let [one, other] = results;
            Ok(Lockstep::Same { operations: state.operations, results: [one?, other?] })
        }
    }
}

/// Meeting point of the two programs.
#[derive(Default)]
struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The sides that have arrived. Both leave together.
    present: [Option<Side>; 2],
    /// The number of meetings so far.
    meetings: u64,
    operations: u64,
    /// The outcome, once neither side may continue.
    verdict: Option<Verdict>,
}

enum Verdict {
    Parted(Box<Parting>),
    Failed(Error),
}

impl Meeting {
    /// Waits for the other side, and returns true if both may continue.
    fn meet(&self, side: usize, arrival: Side) -> bool {
        let mut state = self.state.lock();
        if state.verdict.is_some() {
            return false;
        }
        let (meetings, operations) = (state.meetings, state.operations);
        state.present[side] = Some(arrival);
        if let [Some(_), Some(_)] = state.present {
            let [Some(one), Some(other)] = std::mem::take(&mut state.present) else {
                unreachable!("both are present");
            };
            let ended = matches!((&one, &other), (Side::Returned(_), Side::Returned(_)));
            state.verdict = match difference(&one, &other) {
                Ok(None) => None,
                Ok(Some(difference)) => {
                    let sides = [one, other];
                    Some(Verdict::Parted(Box::new(Parting { operations, difference, sides })))
                }
                Err(error) => Some(Verdict::Failed(error)),
            };
            state.operations += u64::from(!ended);
            state.meetings += 1;
            self.changed.notify_all();
        } else {
            self.changed.wait_while(&mut state, |state| state.meetings == meetings);
        }
        state.verdict.is_none()
    }
}

/// Returns the difference between two sides that meet, if any.
fn difference(one: &Side, other: &Side) -> Result<Option<Difference>> {
    let (one, other) = match (one, other) {
        (Side::Computed(one), Side::Computed(other)) => (one, other),
        (Side::Returned(one), Side::Returned(other)) if one.is_none() == other.is_none() => {
            return Ok(None);
        }
        _ => return Ok(Some(Difference::Operation)),
    };
    let counts = |it: &Computed| (it.inputs.len(), it.outputs.len());
    if one.name != other.name || counts(one) != counts(other) {
        return Ok(Some(Difference::Operation));
    }
    if let Some((index, place)) = first_difference(&one.inputs, &other.inputs)? {
        return Ok(Some(Difference::Input { index, place }));
    }
    if one.parameters != other.parameters {
        return Ok(Some(Difference::Parameters));
    }
    let output = first_difference(&one.outputs, &other.outputs)?;
    Ok(output.map(|(index, place)| Difference::Output { index, place }))
}

fn first_difference(one: &[Value], other: &[Value]) -> Result<Option<(usize, String)>> {
    for (index, (one, other)) in one.iter().zip(other).enumerate() {
        let (one, other) = (one.to(Device::Cpu)?, other.to(Device::Cpu)?);
        if let Some(place) = one.first_difference(&other)? {
            return Ok(Some((index, place)));
        }
    }
    Ok(None)
}

/// The observer of a side.
struct Participant {
    meeting: Arc<Meeting>,
    side: usize,
}

impl Observer for Participant {
    fn observe(&self, call: &Call<'_>) -> Result<()> {
        let tensors = |all: &[&Value]| all.iter().map(|&tensor| tensor.clone()).collect();
        let parameters = match call.generator {
            None => format!("{:?}", call.parameters),
            Some(generator) => format!("{:?} from {generator:?}", call.parameters),
        };
        let computed = Computed {
            name: format!("{} ({})", call.op, call.pass),
            variant: call.variant,
            site: format!("{}:{}", call.caller.file(), call.caller.line()),
            parameters,
            inputs: tensors(call.inputs),
            outputs: tensors(call.outputs),
        };
        if self.meeting.meet(self.side, Side::Computed(computed)) {
            return Ok(());
        }
        let message = "the programs in lockstep have parted".to_owned();
        Err(Error::Observer { op: call.op, message })
    }
}

/// When dropped, tells the other side that this one has returned.
struct Ending<'a> {
    meeting: &'a Meeting,
    side: usize,
    error: Option<Error>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.meeting.meet(self.side, Side::Returned(self.error.take()));
    }
}
