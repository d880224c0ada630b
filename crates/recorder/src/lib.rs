//! The recorder of operations: an observer that writes them to a ledger while they run.
//!
//! | item | what it does |
//! |---|---|
//! | [`Recorder`] | writes operations, batches and steps to the file of a rank |
//! | [`begin`], [`of_process`] | the recorder that the environment variable `SAMEBITS_LEDGER` asks for |
//! | [`record`] | has a recorder listen to a part of a program |
//! | [`module`], [`enter_module`], [`of_layers`] | the layer that a thread computes, and who records it |
//! | [`Keep`] | the steps whose tensors are kept whole |
//! | [`digest`] | 64 bits that stand for a tensor's elements |
//!
//! It lies below the operations of users, so that any program can be recorded whatever it calls;
//! `samebits::ledger` is what users see of it.
//!
//! # How recording stays cheap
//!
//! A digest is of a sample of a large tensor, unless full digests are asked for. The thread that
//! computes digests tensors of few bytes itself; the others go to the thread pool, or are summed by
//! the device that has them, and their digits are put into the lines before these are written. Digests
//! are kept with the storage for as long as it lives, so the output of one operation is not digested
//! again as the input of another, and a parameter only after it has changed. Lines are formatted from
//! what the call borrows; a thread of the recorder writes them to the file.
//!
//! Unsafe code: a handler at the end of the process (`exit`).

#![deny(unsafe_code)]

mod contents;
mod exit;
mod keep;
mod layers;
mod process;
mod recorder;
mod scribe;

pub use contents::digest;
pub use keep::Keep;
pub use layers::{Entered, enter_module, module, of_layers, record};
pub use process::{begin, describe_with, of_process};
pub use recorder::{Recorder, Settings};

use std::path::PathBuf;
use std::sync::Arc;

use samebits_ledger::writer;

/// A result whose error is this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with a ledger.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] writer::Error),
    /// A tensor cannot be read from its device.
    #[error(transparent)]
    Tensor(#[from] samebits_tensor_core::Error),
    /// A setting that ledgers do not have.
    #[error("ledger: {0}")]
    Invalid(String),
    /// The system refuses the thread that writes.
    #[error("ledger: the thread that writes cannot be started: {0}")]
    Thread(std::io::Error),
    /// It is finished: nothing can be recorded any more.
    #[error("ledger: {} is finished, so nothing more can be recorded", path.display())]
    Finished {
        /// The file.
        path: PathBuf,
    },
    /// An earlier record could not be written, so the ledger has ended there.
    #[error(transparent)]
    Earlier(Arc<Error>),
}

samebits_numerics::debug_is_message!(Error);
