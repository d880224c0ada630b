//! Errors of generators and draws.

use alloc::{format, string::String};

use samebits_numerics::memory::OutOfMemory;
use thiserror::Error;

/// Reason why a generator or a draw was rejected.
///
/// Every message names the operation, the value given and the values accepted.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A saved state has the wrong number of bytes.
    #[error(
        "{op}: the state has {found} bytes, but {expected} are needed: pass what to_bytes returned"
    )]
    StateLength {
        /// The operation.
        op: &'static str,
        /// The number of bytes in the state format.
        expected: usize,
        /// The number of bytes passed.
        found: usize,
    },
    /// A saved state does not start with this library's mark.
    #[error(
        "{op}: the state starts with bytes {found:02x?}, not {expected:02x?}: it was not written by this library"
    )]
    ForeignState {
        /// The operation.
        op: &'static str,
        /// The mark.
        expected: [u8; 2],
        /// The bytes in its position.
        found: [u8; 2],
    },
    /// A saved state belongs to another generator.
    #[error(
        "{op}: the state is of kind {found}, but this generator reads kind {expected}: restore it with the generator that saved it"
    )]
    StateKind {
        /// The operation.
        op: &'static str,
        /// The kind this generator writes.
        expected: u8,
        /// The kind found.
        found: u8,
    },
    /// A saved state has a version that this release cannot read.
    #[error(
        "{op}: the state has version {found}, but this release reads version {expected}: use a newer release"
    )]
    StateVersion {
        /// The operation.
        op: &'static str,
        /// The version this release writes.
        expected: u8,
        /// The version found.
        found: u8,
    },
    /// A saved state was damaged.
    #[error(
        "{op}: the state's checksum is {found:08x}, but its bytes give {expected:08x}: the state is damaged, save it again"
    )]
    StateChecksum {
        /// The operation.
        op: &'static str,
        /// The checksum of the bytes.
        expected: u32,
        /// The checksum stored with them.
        found: u32,
    },
    /// A saved state passes its checksum but holds a value that no generator can have.
    #[error("{op}: the state holds {what}, which no generator can have: save it again")]
    StateValue {
        /// The operation.
        op: &'static str,
        /// The impossible value.
        what: &'static str,
    },
    /// A distribution's parameter is outside its domain.
    #[error("{op}: {name} is {found}, but must be {needed}")]
    Parameter {
        /// The operation.
        op: &'static str,
        /// The parameter.
        name: &'static str,
        /// Its value, as text.
        found: String,
        /// Its domain.
        needed: &'static str,
    },
    /// Two slices that must correspond have different lengths.
    #[error("{op}: {name} has {found} elements, but {expected} are needed to match {other}")]
    Length {
        /// The operation.
        op: &'static str,
        /// The slice with the wrong length.
        name: &'static str,
        /// The slice it must match.
        other: &'static str,
        /// The number of elements needed.
        expected: usize,
        /// The number of elements given.
        found: usize,
    },
    /// Memory for the result, or for an intermediate buffer, could not be allocated.
    #[error("{op}: no memory left for {bytes} bytes")]
    OutOfMemory {
        /// The operation.
        op: &'static str,
        /// The size of the buffer that could not be allocated.
        bytes: usize,
    },
}

samebits_numerics::debug_is_message!(Error);

impl Error {
    pub(crate) fn parameter(
        op: &'static str,
        name: &'static str,
        found: impl core::fmt::Debug,
        needed: &'static str,
    ) -> Error {
        Error::Parameter { op, name, found: format!("{found:?}"), needed }
    }

    pub(crate) fn length(
        op: &'static str,
        name: &'static str,
        found: usize,
        other: &'static str,
        expected: usize,
    ) -> Error {
        Error::Length { op, name, other, expected, found }
    }

    /// Makes the error of an operation that ran out of memory.
    pub(crate) fn memory(op: &'static str) -> impl Fn(OutOfMemory) -> Error {
        move |OutOfMemory { bytes }| Error::OutOfMemory { op, bytes }
    }
}
