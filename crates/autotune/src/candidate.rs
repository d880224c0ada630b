//! The algorithms that race, and what they compute.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::{BoxError, Determinism, Key, Values, missing_memory};

/// One call of the computation that is tuned: its inputs and parameters.
pub trait Problem: Send + Sync + 'static {
    /// What a choice is made for.
    type Key: Key;
    /// What a candidate returns.
    type Output: Send;

    /// The key of this call at `level`.
    fn key(&self, level: Determinism) -> Self::Key;

    /// A bound on the size of any intermediate sum of any element of the output, such as
    /// terms · max |a| · max |b|. The tolerance of a [`Numerics::Bounded`] candidate is a multiple
    /// of it.
    fn magnitude(&self) -> f64;

    /// The elements of a result in logical order, by which results are compared and digested.
    ///
    /// # Errors
    ///
    /// The elements cannot be had, for instance because a device failed.
    fn values(output: &Self::Output) -> Result<Values<'_>, BoxError>;

    /// The bytes that could not be had, if that is why a candidate failed: it says nothing about the
    /// candidate then, and decides no race. By default, if the error or one of its sources is an
    /// [`OutOfMemory`](samebits_numerics::memory::OutOfMemory); for a library with an error of its own
    /// for that, this is the place to know it.
    fn missing_memory(error: &(dyn std::error::Error + 'static)) -> Option<usize> {
        missing_memory(error)
    }
}

/// How an algorithm's result relates to the written definition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numerics {
    /// The very bits of the definition.
    Canonical,
    /// Other bits, each element within `tolerance` · [`Problem::magnitude`] of the definition.
    Bounded {
        /// The multiple of the magnitude.
        tolerance: f64,
    },
}

/// One algorithm: its name, its promises and how to run it.
///
/// The name is what choice files hold, so it must not change its meaning between releases; a new
/// algorithm takes a new name. The id breaks ties between times that are too close to tell
/// apart, so the algorithm with the least surprises takes the lowest.
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
    /// An algorithm with the bits of the definition, which may race at any level.
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

    /// An algorithm with bits of its own, within `tolerance` · [`Problem::magnitude`] of the
    /// definition, that promises `level`.
    ///
    /// However portable its own bits are, it never races at [`Determinism::Portable`]: there
    /// the choice must not show.
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

    /// Says which keys the algorithm can compute; all, unless this is called.
    #[must_use]
    pub fn applies_to(
        mut self,
        applies: impl Fn(&P::Key) -> bool + Send + Sync + 'static,
    ) -> Candidate<P> {
        self.applies = Box::new(applies);
        self
    }

    /// Says how many bytes beside inputs and output the algorithm needs; none, unless this is
    /// called.
    #[must_use]
    pub fn with_workspace(
        mut self,
        workspace: impl Fn(&P::Key) -> usize + Send + Sync + 'static,
    ) -> Candidate<P> {
        self.workspace = Box::new(workspace);
        self
    }

    /// Gives the written heuristic: an estimate of the cost, in any unit that the candidates
    /// share, from the key alone. Without a race the applicable candidate with the lowest
    /// estimate is taken, but one that is not canonical only if its estimate is below three quarters
    /// of every canonical one's. One without an estimate comes last.
    #[must_use]
    pub fn with_estimate(
        mut self,
        estimate: impl Fn(&P::Key) -> f64 + Send + Sync + 'static,
    ) -> Candidate<P> {
        self.estimate = Box::new(estimate);
        self
    }

    /// What breaks ties: the lowest wins.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What choice files call it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The level that the algorithm promises of its own bits.
    pub fn level(&self) -> Determinism {
        self.level
    }

    /// The highest level at which it may be chosen: what it promises, but
    /// [`Determinism::Portable`] only if it is canonical.
    pub fn usable_at(&self) -> Determinism {
        match self.numerics {
            Numerics::Canonical => self.level,
            Numerics::Bounded { .. } => self.level.min(Determinism::RunToRun),
        }
    }

    /// How its result relates to the definition.
    pub fn numerics(&self) -> Numerics {
        self.numerics
    }

    /// Bytes needed beside inputs and output.
    pub fn workspace(&self, key: &P::Key) -> usize {
        (self.workspace)(key)
    }

    /// Whether it can compute this call.
    pub fn applies(&self, key: &P::Key) -> bool {
        (self.applies)(key)
    }

    /// The estimated cost; a NaN counts as no estimate.
    pub fn estimate(&self, key: &P::Key) -> f64 {
        let estimate = (self.estimate)(key);
        if estimate.is_nan() { f64::INFINITY } else { estimate }
    }

    /// Computes the call.
    ///
    /// # Errors
    ///
    /// Whatever the algorithm says.
    pub fn run(&self, problem: &P) -> Result<P::Output, BoxError> {
        (self.run)(problem)
    }
}

impl<P: Problem> fmt::Debug for Candidate<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Candidate({} {:?}, {}, {:?})", self.id, self.name, self.level, self.numerics)
    }
}

/// The candidates of a tuner in ascending id; the reference is one of them.
pub(crate) type Candidates<P> = Vec<Arc<Candidate<P>>>;

/// Runs a part of a candidate; a panic in it is an error like any other. What it may have left half
/// done is its own: it sees its problem by a shared reference, and is not run again.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, BoxError>) -> Result<T, BoxError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("without a message")).into())
    })
}
