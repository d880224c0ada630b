//! Races algorithms for convolutions, and keeps the choice in a file that can be pinned.
//!
//! ```no_run
//! use samebits_conv_autotune::{self as autotune, Config, Mode};
//! use samebits_tensor_core::Device;
//!
//! // The first run records what is the fastest, later ones do not measure.
//! let mode = Mode::Record("choices.toml".into());
//! autotune::configure(Device::Cpu, Config { mode, ..autotune::default_config(Device::Cpu)? })?;
//! # Ok::<(), autotune::Error>(())
//! ```
//!
//! The tuner, the choice file and what they promise at each level are those of
//! [`samebits_autotune`], whose items are here too. This crate adds what is special about
//! convolutions: [`ConvCall`], [`ConvKey`], and the kernels that ask the tuner of a device.
//!
//! A library of convolution algorithms for a kind of device is put behind the operations of tensors
//! by [`install`]; each device then has a [`tuner`] in this process, which [`configure`] sets.
//!
//! # Comparison
//!
//! `torch.backends.cudnn.benchmark` races on the first call of each shape, for the process alone, and
//! repeats its bits only with the races off. Here races are off as well unless asked for; at
//! `Portable` they change no bit, and at `RunToRun` a recorded file repeats them. cuDNN has far more
//! algorithms, half precision, and kernels for each generation of GPUs; this tuner has those of
//! samebits, for f32.
#![forbid(unsafe_code)]

mod call;
mod environment;
mod kernels;
mod key;
mod process;

pub use call::{ConvCall, ConvOp};
pub use key::ConvKey;
pub use process::{
    ConvLibrary, NoLibrary, candidates, configure, default_config, tuner, tuner_with,
};
pub use samebits_autotune::{
    BoxError, Budget, Candidate, Choice, ChoiceFile, Clock, Config, Decision, Element, ElementType,
    Error, FORMAT_VERSION, Finding, Fingerprint, Key, Measured, Measuring, Merged, Missing, Mode,
    Numerics, Outcome, Problem, Result, Source, SystemClock, Tuner, Values, Verdict, code_digest,
    merge, missing_memory, prune,
};
pub use samebits_tensor_core::geometry::ConvPass;

/// Puts a tuner over the library's algorithms behind the convolutions of f32 tensors on its
/// devices, from 2²² products up. Smaller calls, and other types, go to the kernels that are
/// registered after this.
///
/// # Determinism
///
/// By default a written heuristic decides at every level, from the shape alone. Once asked to
/// ([`Config::benchmark`]), algorithms race at
/// [`Portable`](samebits_tensor_core::Determinism::Portable), where all of them have the same bits,
/// and at [`NotGuaranteed`](samebits_tensor_core::Determinism::NotGuaranteed); at
/// [`RunToRun`](samebits_tensor_core::Determinism::RunToRun) they do if [`configure`] names a file
/// to record the choices in.
pub fn install(library: ConvLibrary) {
    let kind = library.kind;
    if process::add(library) {
        kernels::register_all(kind);
    }
}
