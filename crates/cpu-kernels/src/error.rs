//! The errors of kernels.

use samebits_numerics::memory;

/// A result whose error is this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An argument that a kernel rejects. Messages start with the operation's name and give both sides
/// of the mismatch.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An index lies outside the dimension it indexes.
    #[error("{op}: index {index} at position {position} is out of range for size {size}")]
    IndexOutOfRange {
        /// The operation.
        op: &'static str,
        /// The position in the index slice.
        position: usize,
        /// The index at that position.
        index: i64,
        /// The size of the dimension; the index must be below it.
        size: usize,
    },
    /// A slice has the wrong number of elements for the given sizes.
    #[error("{op}: {what} must have {expected} elements, got {got}")]
    Length {
        /// The operation.
        op: &'static str,
        /// The name of the slice.
        what: &'static str,
        /// The number of elements that the sizes require.
        expected: usize,
        /// The number of elements of the slice.
        got: usize,
    },
    /// The allocation of a buffer besides the arguments failed.
    #[error("{op}: no memory left for {bytes} bytes; use smaller sizes")]
    OutOfMemory {
        /// The operation.
        op: &'static str,
        /// The size of the buffer.
        bytes: usize,
    },
    /// An argument is outside what the operation accepts.
    #[error("{op}: {message}")]
    Argument {
        /// The operation.
        op: &'static str,
        /// The value that was expected and the one that was given.
        message: String,
    },
}

samebits_numerics::debug_is_message!(Error);

impl Error {
    /// Returns an [`Error::Argument`].
    pub(crate) fn argument(op: &'static str, message: impl Into<String>) -> Error {
        Error::Argument { op, message: message.into() }
    }
}

/// Checks that a slice has the number of elements that the sizes require.
#[inline]
pub(crate) fn expect_len(
    op: &'static str,
    what: &'static str,
    got: usize,
    expected: usize,
) -> Result<()> {
    if got == expected { Ok(()) } else { Err(Error::Length { op, what, expected, got }) }
}

/// Checks that the number of elements of a slice is the product of `sizes`. A product that
/// overflows is larger than any slice.
#[inline]
pub(crate) fn expect_size(
    op: &'static str,
    what: &'static str,
    got: usize,
    sizes: &[usize],
) -> Result<()> {
    expect_len(op, what, got, memory::product(sizes).unwrap_or(usize::MAX))
}

/// Checks that the product of `sizes` does not overflow. Sizes of 0 are left out, so that the
/// product of any of the sizes does not overflow either.
pub(crate) fn expect_countable(op: &'static str, sizes: &[usize]) -> Result<()> {
    let product = sizes.iter().try_fold(1usize, |product, &n| product.checked_mul(n.max(1)));
    match product {
        Some(_) => Ok(()),
        None => Err(Error::argument(op, format!("sizes {sizes:?} are too many elements"))),
    }
}

impl From<Error> for samebits_tensor_core::Error {
    fn from(error: Error) -> samebits_tensor_core::Error {
        match error {
            Error::IndexOutOfRange { op, position, index, size } => {
                samebits_tensor_core::Error::IndexOutOfRange { op, position, index, size }
            }
            Error::Length { op, what, expected, got } => samebits_tensor_core::Error::invalid(
                op,
                format!("{what} must have {expected} elements, got {got}"),
            ),
            Error::OutOfMemory { op, bytes } => {
                let device = samebits_tensor_core::Device::Cpu;
                samebits_tensor_core::Error::OutOfMemory { op, device, bytes }
            }
            Error::Argument { op, message } => samebits_tensor_core::Error::invalid(op, message),
        }
    }
}
