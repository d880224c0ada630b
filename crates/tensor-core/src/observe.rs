//! Observers of operations: the basis of ledgers and of comparisons of two runs.
//!
//! An [`Observer`] sees each operation of the threads that it listens to once, after the result is
//! computed, even if re-run mode computes it several times. Observing never changes a bit. Without
//! an observer a call costs one load of a counter.
//!
//! The observer of a thread is that of the innermost [`scope`], or else that of the process
//! ([`set_global`]).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use samebits_rng::Generator;
use scopeguard::guard;

use crate::{Determinism, Error, Pass, Result, Tensor};

/// The environment variable that requests a ledger of the process.
pub const LEDGER_VARIABLE: &str = "SAMEBITS_LEDGER";

/// The part of a training step that a thread is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Everything outside the other phases.
    #[default]
    Forward,
    /// A backward pass.
    Backward,
    /// A step of an optimiser.
    Optimizer,
}

/// An operation that has computed its result.
pub struct Call<'a> {
    /// The operation's name.
    pub op: &'static str,
    /// The pass: result or gradient.
    pub pass: Pass,
    /// The part of a training step that it belongs to.
    pub phase: Phase,
    /// Its inputs.
    pub inputs: &'a [&'a Tensor],
    /// Its results.
    pub outputs: &'a [&'a Tensor],
    /// Its arguments other than tensors, by name.
    pub parameters: &'a [(&'static str, &'a dyn fmt::Debug)],
    /// Its generator, at the start of the draw, if it draws.
    pub generator: Option<&'a Generator>,
    /// The level in force.
    pub required: Determinism,
    /// The level that the kernel promises.
    pub level: Determinism,
    /// The kernel variant that ran.
    pub variant: &'static str,
    /// The source location of the call.
    pub caller: &'static Location<'static>,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({} {}, {} at {})", self.op, self.pass, self.variant, self.caller)
    }
}

/// A listener to operations.
pub trait Observer: Send + Sync {
    /// Receives a call, on the thread that made it. Operations inside this function are not
    /// observed.
    ///
    /// # Errors
    ///
    /// The call returns this error in place of its result; [`Error::Observer`] is meant for it.
    fn observe(&self, call: &Call<'_>) -> Result<()>;
}

/// Runs `f` with `observer` listening to this thread, instead of any other observer.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use samebits_tensor_core::observe::{self, Call, Observer};
///
/// #[derive(Default)]
/// struct Count(AtomicUsize);
///
/// impl Observer for Count {
///     fn observe(&self, _: &Call<'_>) -> samebits_tensor_core::Result<()> {
///         self.0.fetch_add(1, Ordering::Relaxed);
///         Ok(())
///     }
/// }
///
/// let count = Arc::new(Count::default());
/// observe::scope(count.clone(), || ()); // operations go here
/// assert_eq!(count.0.load(Ordering::Relaxed), 0);
/// ```
pub fn scope<R>(observer: Arc<dyn Observer>, f: impl FnOnce() -> R) -> R {
    let _listening = Listening::new();
    with_local(Local::Scope(observer), f)
}

/// Sets the observer of all threads that are in no [`scope`], or removes it.
pub fn set_global(observer: Option<Arc<dyn Observer>>) {
    let mut global = GLOBAL.write();
    let listening = observer.as_ref().map(|_| Listening::new());
    *global = observer.zip(listening);
}

/// Returns the part of a training step that this thread is in.
pub fn phase() -> Phase {
    PHASE.get()
}

/// Runs `f` as the given part of a training step. Backward passes and optimisers call it
/// themselves.
pub fn in_phase<R>(phase: Phase, f: impl FnOnce() -> R) -> R {
    let _restored = guard(PHASE.replace(phase), |outer| PHASE.set(outer));
    f()
}

/// Runs `f` unobserved on this thread, for code that inspects a run without being part of it.
pub fn unobserved<R>(f: impl FnOnce() -> R) -> R {
    with_local(Local::Off, f)
}

/// Returns true if any thread may have an observer.
#[inline]
pub fn is_on() -> bool {
    LISTENERS.load(Ordering::Relaxed) != 0
}

/// Tells the observer of this thread, if it has one.
pub(crate) fn tell(op: &'static str, call: &dyn Fn(&dyn Observer) -> Result<()>) -> Result<()> {
    let observer = LOCAL.with_borrow(|local| match local {
        Local::Off => Ok(None),
        Local::Scope(observer) => Ok(Some(observer.clone())),
        Local::Global => global(op),
    })?;
    match observer {
        None => Ok(()),
        Some(observer) => with_local(Local::Off, || call(&*observer)),
    }
}

/// Returns the observer of the process. If the environment requests a ledger but no observer is
/// set, this is an error, so that a run does not end without the record it should have.
fn global(op: &'static str) -> Result<Option<Arc<dyn Observer>>> {
    static ENVIRONMENT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    if let Some((observer, _)) = &*GLOBAL.read() {
        return Ok(Some(observer.clone()));
    }
    let asked = *ENVIRONMENT.get_or_init(|| {
        let asked = std::env::var_os(LEDGER_VARIABLE).is_some_and(|path| !path.is_empty());
        if !asked {
            // Until now, the environment counted as a listener.
            LISTENERS.fetch_sub(1, Ordering::Relaxed);
        }
        asked
    });
    if asked {
        let message = format!(
            "the environment variable {LEDGER_VARIABLE} is set, but nothing records: call \
             `samebits::install()` before the first operation"
        );
        return Err(Error::Observer { op, message });
    }
    Ok(None)
}

fn with_local<R>(local: Local, f: impl FnOnce() -> R) -> R {
    let _restored = guard(LOCAL.replace(local), |outer| LOCAL.set(outer));
    f()
}

/// The observer of a thread.
enum Local {
    /// The observer of the process.
    Global,
    /// The observer of a scope.
    Scope(Arc<dyn Observer>),
    /// None: an observer is being called, or the thread is in [`unobserved`].
    Off,
}

/// A guard that counts one listener while it lives.
struct Listening;

impl Listening {
    fn new() -> Listening {
        LISTENERS.fetch_add(1, Ordering::Relaxed);
        Listening
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        LISTENERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number of observers. Until the environment is read, it counts as one.
static LISTENERS: AtomicUsize = AtomicUsize::new(1);

static GLOBAL: RwLock<Option<(Arc<dyn Observer>, Listening)>> = RwLock::new(None);

thread_local! {
    static LOCAL: RefCell<Local> = const { RefCell::new(Local::Global) };
    static PHASE: Cell<Phase> = const { Cell::new(Phase::Forward) };
}
