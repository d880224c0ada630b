//! Ledgers: records of a run, operation by operation, in files by which two runs can be compared.
//!
//! | item | purpose |
//! |---|---|
//! | [`Record`], [`Event`] | the schema described in `docs/book/ledger.md` |
//! | [`Digest`], [`digest`] | a 64-bit digest of a tensor's elements |
//! | [`Writer`] | appends records to a file |
//! | [`diff`] | finds the first difference of two runs and its cause |
//! | [`html`] | writes the result as a page |
//!
//! This crate knows no tensors: a recorder passes it bytes and names, so ledgers of every framework
//! have the same format.
//!
//! Unsafe code: none.

#![forbid(unsafe_code)]

mod align;
pub mod diff;
pub mod digest;
pub mod html;
mod read;
pub mod record;
mod unique;
pub mod writer;

pub use digest::Digest;
pub use record::{Event, Record};
pub use writer::Writer;
