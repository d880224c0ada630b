//! Algorithms that race, and the problems that they solve.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::{BoxError, Determinism, Key, Values, missing_memory};

/// One call of the tuned computation: its inputs and parameters.
pub trait Problem: Send + Sync + 'static {
    /// The key type of choices.
    type Key: Key;
    /// The result type of a candidate.
    type Output: Send;

    /// Returns the key of this call at `level`.
    fn key(&self, level: Determinism) -> Self::Key;

    /// Returns a bound on every intermediate sum of every output element, such as terms · max |a| ·
    /// max |b|. The tolerance of a [`Numerics::Bounded`] candidate is a multiple of it.
    fn magnitude(&self) -> f64;

    /// Returns the elements of a result in logical order, for comparison and digests.
    ///
    /// # Errors
    ///
    /// If the elements cannot be read, for instance because a device failed.
    fn values(output: &Self::Output) -> Result<Values<'_>, BoxError>;

    /// Returns the number of missing bytes if a candidate failed for lack of memory. This failure
    /// says nothing about the candidate and decides no race. The default recognises an
    /// [`OutOfMemory`](samebits_numerics::memory::OutOfMemory) in the error or its sources;
    /// libraries with their own error type override this method.
    fn missing_memory(error: &(dyn std::error::Error + 'static)) -> Option<usize> {
        missing_memory(error)
    }
}

/// Relation of an algorithm's result to the written definition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numerics {
    /// The exact bits of the definition.
    Canonical,
    /// Different bits; each element is within `tolerance` · [`Problem::magnitude`] of the
    /// definition.
    Bounded {
        /// The multiple of the magnitude.
        tolerance: f64,
    },
}

/// One algorithm: its name, its promises and how to run it.
///
/// Choice files hold the name, so its meaning must not change between releases; a new algorithm
/// takes a new name. The id breaks ties between times too close to tell apart, so give the lowest
/// id to the algorithm with the fewest surprises.
pub struct Candidate<P: Problem> {
    id: u32,
    name: &'static str,
    level: Determinism,
    numerics: Numerics,
    workspace: Box<Measure<P, usize>>,
    applies: Box<Measure<P, bool>>,
    estimate: Box<Measure<P, f64>>,
    run: Box<Run<P>>,
}

type Measure<P, T> = dyn Fn(&<P as Problem>::Key) -> T + Send + Sync;
type Run<P> = dyn Fn(&P) -> Result<<P as Problem>::Output, BoxError> + Send + Sync;

impl<P: Problem> Candidate<P> {
    /// Creates an algorithm with the bits of the definition, which may race at any level.
    pub fn canonical(
        id: u32,
        name: &'static str,
        run: impl Fn(&P) -> Result<P::Output, BoxError> + Send + Sync + 'static,
    ) -> Candidate<P> {
        Candidate {
            id,
            name,
            level: Determinism::Portable,
            numerics: Numerics::Canonical,
            workspace: Box::new(|_| 0),
            applies: Box::new(|_| true),
            estimate: Box::new(|_| f64::INFINITY),
            run: Box::new(run),
        }
    }

    /// Creates an algorithm with its own bits, within `tolerance` · [`Problem::magnitude`] of the
    /// definition, that promises `level`.
    ///
    /// It never races at [`Determinism::Portable`], however portable its own bits are: at that
    /// level the choice must not change the result.
    pub fn bounded(
        id: u32,
        name: &'static str,
        level: Determinism,
        tolerance: f64,
        run: impl Fn(&P) -> Result<P::Output, BoxError> + Send + Sync + 'static,
    ) -> Candidate<P> {
        Candidate {
            level,
            numerics: Numerics::Bounded { tolerance },
            ..Candidate::canonical(id, name, run)
        }
    }

    /// Sets the keys that the algorithm supports; all, by default.
    #[must_use]
    pub fn applies_to(
        mut self,
        applies: impl Fn(&P::Key) -> bool + Send + Sync + 'static,
    ) -> Candidate<P> {
        self.applies = Box::new(applies);
        self
    }

    /// Sets the number of bytes that the algorithm needs besides inputs and output; none, by
    /// default.
    #[must_use]
    pub fn with_workspace(
        mut self,
        workspace: impl Fn(&P::Key) -> usize + Send + Sync + 'static,
    ) -> Candidate<P> {
        self.workspace = Box::new(workspace);
        self
    }

    /// Sets the written heuristic: an estimate of the cost from the key alone, in any unit that the
    /// candidates share. Without a race, the tuner takes the applicable candidate with the lowest
    /// estimate; it takes a non-canonical candidate only if its estimate is below three quarters of
    /// every canonical one's. A candidate without an estimate comes last.
    #[must_use]
    pub fn with_estimate(
        mut self,
        estimate: impl Fn(&P::Key) -> f64 + Send + Sync + 'static,
    ) -> Candidate<P> {
        self.estimate = Box::new(estimate);
        self
    }

    /// Returns the id that breaks ties: the lowest wins.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the name used in choice files.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the level that the algorithm promises for its own bits.
    pub fn level(&self) -> Determinism {
        self.level
    }

    /// Returns the highest level at which the algorithm may be chosen: the promised level, but
    /// [`Determinism::Portable`] only if it is canonical.
    pub fn usable_at(&self) -> Determinism {
        match self.numerics {
            Numerics::Canonical => self.level,
            Numerics::Bounded { .. } => self.level.min(Determinism::RunToRun),
        }
    }

    /// Returns the relation of its result to the definition.
    pub fn numerics(&self) -> Numerics {
        self.numerics
    }

    /// Returns the number of bytes needed besides inputs and output.
    pub fn workspace(&self, key: &P::Key) -> usize {
        (self.workspace)(key)
    }

    /// Returns true if the algorithm supports this call.
    pub fn applies(&self, key: &P::Key) -> bool {
        (self.applies)(key)
    }

    /// Returns the estimated cost; a NaN counts as no estimate.
    pub fn estimate(&self, key: &P::Key) -> f64 {
        let estimate = (self.estimate)(key);
        if estimate.is_nan() { f64::INFINITY } else { estimate }
    }

    /// Computes the call.
    ///
    /// # Errors
    ///
    /// The algorithm's error.
    pub fn run(&self, problem: &P) -> Result<P::Output, BoxError> {
        (self.run)(problem)
    }
}

impl<P: Problem> fmt::Debug for Candidate<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Candidate({} {:?}, {}, {:?})", self.id, self.name, self.level, self.numerics)
    }
}

/// The candidates of a tuner in ascending id, including the reference.
pub(crate) type Candidates<P> = Vec<Arc<Candidate<P>>>;

/// Runs a part of a candidate and turns a panic into an error. A panic cannot leave shared state
/// half-changed: the candidate sees its problem through a shared reference, and is not run again.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, BoxError>) -> Result<T, BoxError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("without a message")).into())
    })
}
