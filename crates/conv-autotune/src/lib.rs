//! Races algorithms for convolutions, and keeps the choice in a file that can be pinned.
//!
//! Which algorithm is fastest depends on the shape and on the machine, so it has to be measured.
//! But times are never twice the same, and where algorithms differ in their bits, so would the
//! results of two runs. This crate takes that apart:
//!
//! * At [`Portable`](samebits_tensor_core::Determinism::Portable) only algorithms with the very
//!   bits of the written definition race. Whichever wins, nothing shows.
//! * At [`RunToRun`](samebits_tensor_core::Determinism::RunToRun) other deterministic algorithms
//!   race too, and what won is written to a [`ChoiceFile`] that decides from then on. It is meant
//!   to be read, reviewed, kept with the code and pinned ([`Mode::Pinned`]): then nothing is
//!   measured, and a call that the file does not hold is an error.
//! * At [`NotGuaranteed`](samebits_tensor_core::Determinism::NotGuaranteed) everything races.
//!
//! A candidate is compared with the reference before it is timed, so a fast wrong one is
//! reported and not chosen.
//!
//! The parts are generic: [`ConvCall`] and [`ConvKey`] serve convolutions on tensors, and another
//! library can tune its own kernels with a [`Problem`] and a [`Key`] of its own.
//!
//! A library of convolution algorithms for a kind of device is put behind the operations of tensors
//! by [`install`]; each device then has a [`tuner`] in this process, which [`configure`] sets.
//!
//! This is the one library crate that looks at a clock to decide something.

#![forbid(unsafe_code)]

mod call;
mod candidate;
mod clock;
mod compare;
mod config;
mod environment;
mod error;
mod file;
mod kernels;
mod key;
mod measure;
mod process;
mod tuner;

pub use call::ConvCall;
pub use candidate::{Candidate, Numerics, Output, Problem, Values};
pub use clock::{Clock, SystemClock};
pub use config::{Budget, Config, Fingerprint, Measuring, Missing, Mode, code_digest};
pub use error::{BoxError, Error, Result};
pub use file::{Choice, ChoiceFile, FORMAT_VERSION, Measured, Merged, Outcome, merge, prune};
pub use key::{ConvKey, ConvPass, Key};
pub use process::{ConvLibrary, candidates, configure, default_config, install, tuner, tuner_with};
pub use tuner::{Decision, Finding, Source, Tuner, Verdict};
