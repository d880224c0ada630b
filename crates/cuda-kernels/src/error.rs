//! What can go wrong on the way to a result on the GPU.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// A result whose error is a [`CudaError`].
pub type Result<T, E = CudaError> = std::result::Result<T, E>;

/// Why an operation on a CUDA device failed.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// There is no driver library on this machine.
    #[error(
        "cuda: no driver library (libcuda.so or nvcuda.dll) was found; install NVIDIA's driver, \
         or use the CPU"
    )]
    DriverMissing,
    /// The driver cannot load this crate's PTX.
    #[error("cuda: the driver supports CUDA {found}, but {needed} is needed; update the driver")]
    DriverTooOld {
        /// What the driver supports.
        found: String,
        /// What the committed PTX needs.
        needed: String,
    },
    /// A library of the vendor that this build uses is not on this machine.
    #[error(
        "cuda: {library} was not found; install it where the loader looks, or build without its \
         feature"
    )]
    LibraryMissing {
        /// Its name.
        library: &'static str,
    },
    /// A library of the vendor refused a call.
    #[error("{op}: {library} failed: {message}")]
    Library {
        /// The operation.
        op: &'static str,
        /// The library.
        library: &'static str,
        /// What it said.
        message: String,
    },
    /// The driver does not start.
    #[error("cuda: the driver does not start: {message}")]
    DriverFailed {
        /// What the driver said.
        message: String,
    },
    /// There is no device of this number.
    #[error("cuda: there is no device {ordinal}: the driver sees {count}")]
    NoDevice {
        /// The number asked for.
        ordinal: usize,
        /// The number of devices.
        count: usize,
    },
    /// The device has no memory left for a buffer.
    #[error(
        "{op}: the device has no memory left for {bytes} bytes; free tensors or use a smaller batch"
    )]
    OutOfMemory {
        /// The operation.
        op: &'static str,
        /// The size of the buffer.
        bytes: usize,
    },
    /// An index does not lie inside the dimension it indexes. Found on the device, and reported
    /// at the next [`Device::synchronize`](crate::Device::synchronize) or
    /// [`Device::download`](crate::Device::download).
    #[error("{op}: index {index} at position {position} is out of range for size {size}")]
    IndexOutOfRange {
        /// The operation.
        op: &'static str,
        /// Where in the index buffer: the first place with a bad index.
        position: usize,
        /// The index found there.
        index: i64,
        /// The size it should have been below.
        size: usize,
    },
    /// Integers have no result for an operand: a divisor is 0, or an exponent is negative. Found on
    /// the device, and reported as [`IndexOutOfRange`](CudaError::IndexOutOfRange) is.
    #[error("{op}: {what} {value} of integers")]
    Operand {
        /// The operation.
        op: &'static str,
        /// What the operand is called.
        what: &'static str,
        /// The first that has no result.
        value: i64,
    },
    /// A buffer does not have the length that the shape asks for.
    #[error("{op}: expected {what} with {expected} elements, got {got}")]
    Length {
        /// The operation.
        op: &'static str,
        /// Which buffer.
        what: &'static str,
        /// The length it should have had.
        expected: usize,
        /// The length it had.
        got: usize,
    },
    /// An argument is outside what the operation accepts.
    #[error("{op}: {message}")]
    InvalidArgument {
        /// The operation.
        op: &'static str,
        /// What was expected and what was given.
        message: String,
    },
    /// The driver refused a launch, or a kernel failed while it ran. The latter surfaces at a
    /// later call.
    #[error("{op}: kernel {kernel} failed: {message}")]
    Launch {
        /// The operation.
        op: &'static str,
        /// The kernel.
        kernel: &'static str,
        /// What the driver said.
        message: String,
    },
    /// Any other failure of the driver.
    #[error("{op}: {message}")]
    Driver {
        /// The operation.
        op: &'static str,
        /// What the driver said.
        message: String,
    },
}

samebits_numerics::debug_is_message!(CudaError);

impl CudaError {
    /// Returns an [`CudaError::InvalidArgument`].
    pub(crate) fn invalid(op: &'static str, message: impl Into<String>) -> CudaError {
        CudaError::InvalidArgument { op, message: message.into() }
    }

    /// Returns a float atomic was asked of f64.
    pub(crate) fn not_atomic(op: &'static str) -> CudaError {
        CudaError::invalid(op, "the atomic form takes f32 only")
    }

    /// Returns a driver's error during `op`.
    pub(crate) fn driver(op: &'static str, error: DriverError) -> CudaError {
        CudaError::Driver { op, message: message(error) }
    }

    /// Returns a driver's error while it allocated `bytes`.
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
