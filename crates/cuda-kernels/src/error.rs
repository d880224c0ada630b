//! The errors of operations on the GPU.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// A result whose error is a [`CudaError`].
pub type Result<T, E = CudaError> = std::result::Result<T, E>;

/// The reason why an operation on a CUDA device failed.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// No driver library is installed on this machine.
    #[error(
        "cuda: no driver library (libcuda.so or nvcuda.dll) was found; install NVIDIA's driver, \
         or use the CPU"
    )]
    DriverMissing,
    /// The driver cannot load this crate's PTX.
    #[error("cuda: the driver supports CUDA {found}, but {needed} is needed; update the driver")]
    DriverTooOld {
        /// The version that the driver supports.
        found: String,
        /// The version that the committed PTX needs.
        needed: String,
    },
    /// A library of the vendor that this build uses is not installed.
    #[error(
        "cuda: {library} was not found; install it where the loader looks, or build without its \
         feature"
    )]
    LibraryMissing {
        /// The library's name.
        library: &'static str,
    },
    /// A library of the vendor returned an error.
    #[error("{op}: {library} failed: {message}")]
    Library {
        /// The operation.
        op: &'static str,
        /// The library.
        library: &'static str,
        /// The library's message.
        message: String,
    },
    /// The driver does not start.
    #[error("cuda: the driver does not start: {message}")]
    DriverFailed {
        /// The driver's message.
        message: String,
    },
    /// There is no device with this number.
    #[error("cuda: there is no device {ordinal}: the driver sees {count}")]
    NoDevice {
        /// The requested number.
        ordinal: usize,
        /// The number of devices.
        count: usize,
    },
    /// The device has too little memory for a buffer.
    #[error(
        "{op}: the device has no memory left for {bytes} bytes; free tensors or use a smaller batch"
    )]
    OutOfMemory {
        /// The operation.
        op: &'static str,
        /// The size of the buffer.
        bytes: usize,
    },
    /// An index lies outside the dimension it indexes. A kernel finds it, and the next
    /// [`Device::synchronize`](crate::Device::synchronize) or
    /// [`Device::download`](crate::Device::download) reports it.
    #[error("{op}: index {index} at position {position} is out of range for size {size}")]
    IndexOutOfRange {
        /// The operation.
        op: &'static str,
        /// The first position in the index buffer with a bad index.
        position: usize,
        /// The index at that position.
        index: i64,
        /// The size of the dimension; the index must be below it.
        size: usize,
    },
    /// An integer operand has no result: a divisor of 0, or a negative exponent. It is found and
    /// reported as [`IndexOutOfRange`](CudaError::IndexOutOfRange) is.
    #[error("{op}: {what} {value} of integers")]
    Operand {
        /// The operation.
        op: &'static str,
        /// The name of the operand.
        what: &'static str,
        /// The first value that has no result.
        value: i64,
    },
    /// A buffer does not have the length that the shape requires.
    #[error("{op}: expected {what} with {expected} elements, got {got}")]
    Length {
        /// The operation.
        op: &'static str,
        /// The name of the buffer.
        what: &'static str,
        /// The required length.
        expected: usize,
        /// The actual length.
        got: usize,
    },
    /// An argument is outside what the operation accepts.
    #[error("{op}: {message}")]
    InvalidArgument {
        /// The operation.
        op: &'static str,
        /// The value that was expected and the one that was given.
        message: String,
    },
    /// The driver rejected a launch, or a kernel failed while it ran. A failed kernel surfaces at a
    /// later call.
    #[error("{op}: kernel {kernel} failed: {message}")]
    Launch {
        /// The operation.
        op: &'static str,
        /// The kernel.
        kernel: &'static str,
        /// The driver's message.
        message: String,
    },
    /// Any other failure of the driver.
    #[error("{op}: {message}")]
    Driver {
        /// The operation.
        op: &'static str,
        /// The driver's message.
        message: String,
    },
}

samebits_numerics::debug_is_message!(CudaError);

impl CudaError {
    /// Returns a [`CudaError::InvalidArgument`].
    pub(crate) fn invalid(op: &'static str, message: impl Into<String>) -> CudaError {
        CudaError::InvalidArgument { op, message: message.into() }
    }

    /// Returns the error for float atomics on f64.
    pub(crate) fn not_atomic(op: &'static str) -> CudaError {
        CudaError::invalid(op, "the atomic form takes f32 only")
    }

    /// Converts a driver's error during `op`.
    pub(crate) fn driver(op: &'static str, error: DriverError) -> CudaError {
        CudaError::Driver { op, message: message(error) }
    }

    /// Converts a driver's error during an allocation of `bytes`.
    pub(crate) fn allocation(op: &'static str, bytes: usize, error: DriverError) -> CudaError {
        match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => CudaError::OutOfMemory { op, bytes },
            _ => CudaError::driver(op, error),
        }
    }
}

/// Returns the driver's name and description of an error.
pub(crate) fn message(error: DriverError) -> String {
    let text = |found: std::result::Result<&std::ffi::CStr, DriverError>| {
        found.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
    };
    format!("{} ({})", text(error.error_name()), text(error.error_string()))
}
