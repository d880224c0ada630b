//! Recorder of operations: an observer that writes them to a ledger while they run.
//!
//! | item | purpose |
//! |---|---|
//! | [`Recorder`] | writes operations, batches and steps to the file of a rank |
//! | [`begin`], [`of_process`] | the recorder requested by the environment variable `SAMEBITS_LEDGER` |
//! | [`record`] | records a part of a program |
//! | [`module`], [`enter_module`], [`of_layers`] | the layer that a thread computes, and its recorder |
//! | [`Keep`] | the steps whose tensors are kept in full |
//! | [`digest`] | a 64-bit digest of a tensor's elements |
//!
//! The recorder lies below the users' operations, so any program can be recorded, whatever it
//! calls. Users reach it through `samebits::ledger`.
//!
//! # Cost of recording
//!
//! The digest of a large tensor covers a sample, unless full digests are requested. The computing
//! thread digests small tensors itself. The thread pool or the tensor's device digests the others,
//! and their digits are put into the lines before these are written. A digest is kept as long as
//! its storage lives: the output of one operation is not digested again as the input of another,
//! and a parameter only after it has changed. Lines are formatted from data borrowed from the call;
//! a thread of the recorder writes them to the file.
//!
//! Unsafe code: a handler at the end of the process (`exit`).

#![deny(unsafe_code)]

mod contents;
mod environment;
mod exit;
mod keep;
mod layers;
mod module;
mod process;
mod recorder;
mod scribe;

pub use contents::digest;
pub use environment::describe_with;
pub use keep::Keep;
pub use layers::{of_layers, record};
pub use module::{Entered, enter_module, module};
pub use process::{begin, of_process};
pub use recorder::{Recorder, Settings};

use std::path::PathBuf;
use std::sync::Arc;

use samebits_ledger::writer;

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of recording a ledger.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] writer::Error),
    /// A tensor could not be read from its device.
    #[error(transparent)]
    Tensor(#[from] samebits_tensor_core::Error),
    /// A setting is invalid.
    #[error("ledger: {0}")]
    Invalid(String),
    /// The system refused the writer thread.
    #[error("ledger: the thread that writes cannot be started: {0}")]
    Thread(std::io::Error),
    /// The ledger is finished, so nothing can be recorded any more.
    #[error("ledger: {} is finished, so nothing more can be recorded", path.display())]
    Finished {
        /// The file.
        path: PathBuf,
    },
    /// An earlier record could not be written, so the ledger ended there.
    #[error(transparent)]
    Earlier(Arc<Error>),
}

samebits_numerics::debug_is_message!(Error);
