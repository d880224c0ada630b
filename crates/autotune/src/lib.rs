//! Races algorithms for a computation, and keeps the choice in a file that can be pinned.
//!
//! ```
//! use samebits_autotune::{
//!     BoxError, Candidate, Config, Determinism, Fingerprint, Key, Problem, Tuner, Values,
//! };
//! use serde::{Deserialize, Serialize};
//!
//! /// What a choice may depend on: here the length of a sum.
//! #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
//! struct SumKey {
//!     level: Determinism,
//!     length: usize,
//! }
//!
//! impl Key for SumKey {
//!     fn level(&self) -> Determinism {
//!         self.level
//!     }
//! }
//!
//! impl std::fmt::Display for SumKey {
//!     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
//!         write!(f, "sum of {} at {}", self.length, self.level)
//!     }
//! }
//!
//! struct Sum(Vec<f32>);
//!
//! impl Problem for Sum {
//!     type Key = SumKey;
//!     type Output = Vec<f32>;
//!
//!     fn key(&self, level: Determinism) -> SumKey {
//!         SumKey { level, length: self.0.len() }
//!     }
//!
//!     fn magnitude(&self) -> f64 {
//!         self.0.iter().map(|x| f64::from(x.abs())).sum()
//!     }
//!
//!     fn values(sum: &Vec<f32>) -> Result<Values<'_>, BoxError> {
//!         Ok(Values::of(sum))
//!     }
//! }
//!
//! let in_order = |sum: &Sum| Ok(vec![sum.0.iter().sum()]);
//! let by_fours = |sum: &Sum| {
//!     let mut lanes = [0.0; 4];
//!     sum.0.chunks(4).for_each(|four| lanes.iter_mut().zip(four).for_each(|(l, x)| *l += x));
//!     Ok(vec![lanes.iter().sum()])
//! };
//! let tuner = Tuner::new(
//!     // The inputs of a race are a function of the key alone.
//!     |key: &SumKey| Ok(Sum(vec![0.5; key.length])),
//!     vec![
//!         Candidate::canonical(0, "in-order", in_order),
//!         Candidate::bounded(1, "by-fours", Determinism::RunToRun, 1e-6, by_fours),
//!     ],
//!     Config::new(Fingerprint::host("my-sums 1.0.0")),
//! )?;
//! let sum = tuner.run(&Sum(vec![0.25; 100]), Determinism::Portable)?;
//! assert_eq!(sum, [25.0]);
//! # Ok::<(), samebits_autotune::Error>(())
//! ```
//!
//! The fastest algorithm depends on the call and on the machine, so it has to be measured. But
//! measured times vary, and if algorithms differ in their bits, so do the results of two runs. This
//! crate separates the two:
//!
//! * At [`Portable`](Determinism::Portable) only algorithms with the exact bits of the written
//!   definition race. The result is the same whichever wins.
//! * At [`RunToRun`](Determinism::RunToRun) other deterministic algorithms race too, and the winner
//!   is written to a [`ChoiceFile`] that decides from then on. Read it, review it, keep it with the
//!   code and pin it ([`Mode::Pinned`]): then nothing is measured, and a call without a choice in the
//!   file is an error.
//! * At [`NotGuaranteed`](Determinism::NotGuaranteed) everything races.
//!
//! If the choice decides no promised bit, [`Mode::Cache`] saves later processes the race.
//!
//! Every candidate is compared with the reference before it is timed, so a fast but wrong candidate
//! is reported and not chosen. A candidate that fails or panics leaves the race. If memory runs
//! out, there is no choice at all, because free memory must not decide one.
//!
//! # Comparison
//!
//! * cuDNN's benchmark mode (`torch.backends.cudnn.benchmark`) keeps its choices for the process and
//!   compares no results; repeatable runs need `cudnn.deterministic` and forgo the races. It times
//!   on the first real call. It knows hundreds of algorithms; this crate knows those it is given.
//! * Triton's `@autotune` races configurations of one kernel by user-defined keys, and can cache the
//!   times on disk. It compares no results either, and has no file to review and pin. It generates
//!   the variants; here each is written by hand. Triton races many configurations faster: it
//!   compiles them in parallel and prunes them with a model.
//!
//! No other library crate lets a clock decide anything.
#![forbid(unsafe_code)]

mod candidate;
mod clock;
mod compare;
mod config;
mod error;
mod file;
mod key;
mod measure;
mod tuner;
mod values;

pub use candidate::{Candidate, Numerics, Problem};
pub use clock::{Clock, SystemClock};
pub use config::{Budget, Config, Fingerprint, Measuring, Missing, Mode, code_digest};
pub use error::{BoxError, Error, Result, missing_memory};
pub use file::{Choice, ChoiceFile, FORMAT_VERSION, Measured, Merged, Outcome, merge, prune};
pub use key::Key;
pub use samebits_numerics::Determinism;
pub use tuner::{Decision, Finding, Source, Tuner, Verdict};
pub use values::{Element, ElementType, Values};
