//! The error type, with a variant per cause.

use samebits_numerics::memory::OutOfMemory;

use crate::{DType, Determinism, Device, Pass};

/// A result whose error is this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of an operation on tensors.
///
/// Messages start with the operation's name and give both sides of a mismatch.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two shapes that must agree differ.
    #[error("{op}: expected {what} of shape {expected:?}, got {got:?}")]
    ShapeMismatch {
        /// The operation.
        op: &'static str,
        /// The name of the argument.
        what: &'static str,
        /// The expected shape.
        expected: Vec<usize>,
        /// The given shape.
        got: Vec<usize>,
    },
    /// Two shapes cannot be broadcast together.
    #[error("{op}: shapes {left:?} and {right:?} cannot be broadcast together")]
    Broadcast {
        /// The operation.
        op: &'static str,
        /// One shape.
        left: Vec<usize>,
        /// The other shape.
        right: Vec<usize>,
    },
    /// An argument is outside what the operation accepts.
    #[error("{op}: {message}")]
    InvalidArgument {
        /// The operation.
        op: &'static str,
        /// The value that was expected and the one that was given.
        message: String,
    },
    /// A tensor has the wrong element type.
    #[error("{op}: expected {what} of type {expected}, got {got}")]
    DTypeMismatch {
        /// The operation.
        op: &'static str,
        /// The name of the argument.
        what: &'static str,
        /// The expected type.
        expected: DType,
        /// The given type.
        got: DType,
    },
    /// Two tensors live on different devices.
    #[error("{op}: tensors on {left} and {right}; move one with `to`")]
    DeviceMismatch {
        /// The operation.
        op: &'static str,
        /// The device of one tensor.
        left: Device,
        /// The device of the other tensor.
        right: Device,
    },
    /// An index lies outside the dimension it indexes.
    #[error("{op}: index {index} at position {position} is out of range for size {size}")]
    IndexOutOfRange {
        /// The operation.
        op: &'static str,
        /// The position in the index tensor, in its logical order.
        position: usize,
        /// The index at that position.
        index: i64,
        /// The size of the dimension; the index must be below it.
        size: usize,
    },
    /// No variant of the operation meets the required level.
    #[error(
        "{op} ({pass}): requires {required}, but the best variant on {device} for {dtype} is {best}; \
         require {best} for this call with `determinism::scope`, or use \
         `determinism::set_warn_only(true)` to be warned instead"
    )]
    LevelUnavailable {
        /// The operation.
        op: &'static str,
        /// Forward or backward.
        pass: Pass,
        /// The device of the call.
        device: Device,
        /// The element type.
        dtype: DType,
        /// The level in force.
        required: Determinism,
        /// The best level among the variants.
        best: Determinism,
    },
    /// No kernel is registered for the operation on this device and type.
    #[error("{op} ({pass}): no kernel on {device} for {dtype}{hint}")]
    NoKernel {
        /// The operation.
        op: &'static str,
        /// Forward or backward.
        pass: Pass,
        /// The device of the call.
        device: Device,
        /// The element type.
        dtype: DType,
        /// Advice for the user, if there is any.
        hint: &'static str,
    },
    /// No backend is installed for the device.
    #[error(
        "{device} cannot be used: `samebits::environment()` lists the devices of this machine, or \
         says what is missing for them"
    )]
    NoBackend {
        /// The device.
        device: Device,
    },
    /// The bits of two runs of one operation differ (see [`rerun`](crate::rerun)).
    #[error(
        "{op} ({pass}, variant {variant}): run {run} differs from run 1 in {what}; inputs {inputs}"
    )]
    RerunDiffers {
        /// The operation.
        op: &'static str,
        /// Forward or backward.
        pass: Pass,
        /// The kernel variant that ran.
        variant: &'static str,
        /// The repeat that differed, counted from 1.
        run: usize,
        /// The position of the first difference.
        what: String,
        /// The shapes of the inputs.
        inputs: String,
    },
    /// An environment variable has an invalid value.
    #[error(
        "{op}: the environment variable {variable} is {found:?}, but must be {expected}, or not set"
    )]
    InvalidVariable {
        /// The operation.
        op: &'static str,
        /// The name of the variable.
        variable: &'static str,
        /// The value found.
        found: &'static str,
        /// The valid values.
        expected: &'static str,
    },
    /// A draw from the default generator before it was seeded.
    #[error(
        "{op}: the default generator of this thread was never seeded, so the run could not be \
         repeated; call `manual_seed(seed)` first, or pass a generator"
    )]
    Unseeded {
        /// The operation.
        op: &'static str,
    },
    /// A draw from the default generator on a thread other than the one that seeded it.
    #[error(
        "{op}: the default generator belongs to the thread that seeded it; drawing from it here \
         would race. Split a generator on that thread and pass it to this one"
    )]
    ForeignThread {
        /// The operation.
        op: &'static str,
    },
    /// A draw from the default generator in a place that allows only explicit generators.
    #[error(
        "{op}: there is no default generator in the functions that a data loader calls, whatever \
         its number of workers; draw from the sample's generator, or pass one"
    )]
    ExplicitOnly {
        /// The operation.
        op: &'static str,
    },
    /// A saved state cannot be read.
    #[error("{op}: {message}")]
    InvalidState {
        /// The operation.
        op: &'static str,
        /// The defect of the state.
        message: String,
    },
    /// An operation of the user's own broke its contract, for example by a gradient of the wrong
    /// shape.
    #[error("{op}: {message}")]
    InvalidFunction {
        /// The operation.
        op: &'static str,
        /// The value that was expected and the one that was returned.
        message: String,
    },
    /// An [`Observer`](crate::observe::Observer) returned an error.
    #[error("{op}: {message}")]
    Observer {
        /// The operation.
        op: &'static str,
        /// The reason.
        message: String,
    },
    /// The device has too little memory for a result.
    #[error(
        "{op}: {device} has no memory left for {bytes} bytes; free tensors or use a smaller batch"
    )]
    OutOfMemory {
        /// The operation.
        op: &'static str,
        /// The device.
        device: Device,
        /// The size of the buffer.
        bytes: usize,
    },
    /// The device or its driver failed.
    #[error("{op}: {device}: {message}")]
    Backend {
        /// The operation.
        op: &'static str,
        /// The device.
        device: Device,
        /// The driver's message.
        message: String,
    },
}

samebits_numerics::debug_is_message!(Error);

impl Error {
    /// Returns an [`Error::InvalidArgument`].
    pub fn invalid(op: &'static str, message: impl Into<String>) -> Error {
        Error::InvalidArgument { op, message: message.into() }
    }

    /// Returns a function that maps an allocation failure on the host to the error of `op`.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_numerics::memory;
    /// use samebits_tensor_core::Error;
    ///
    /// let scratch = memory::zeroed::<f32>(1 << 50).map_err(Error::out_of_host_memory("unique"));
    /// assert!(matches!(scratch, Err(Error::OutOfMemory { op: "unique", .. })));
    /// ```
    pub fn out_of_host_memory(op: &'static str) -> impl Fn(OutOfMemory) -> Error {
        move |OutOfMemory { bytes }| Error::OutOfMemory { op, device: Device::Cpu, bytes }
    }

    /// Returns the same error with the name of `op`, the function that the user called, instead of
    /// the name of the step that failed. [`Error::NoBackend`] names no operation, and
    /// [`Error::RerunDiffers`] keeps the name of the kernel that did not repeat.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_tensor_core::Error;
    ///
    /// let error = Error::invalid("scatter", "3 indices for 2 rows").called("one_hot");
    /// assert_eq!(error.to_string(), "one_hot: 3 indices for 2 rows");
    /// ```
    #[must_use]
    pub fn called(mut self, name: &'static str) -> Error {
        match &mut self {
            Error::ShapeMismatch { op, .. }
            | Error::Broadcast { op, .. }
            | Error::InvalidArgument { op, .. }
            | Error::DTypeMismatch { op, .. }
            | Error::DeviceMismatch { op, .. }
            | Error::IndexOutOfRange { op, .. }
            | Error::LevelUnavailable { op, .. }
            | Error::NoKernel { op, .. }
            | Error::InvalidVariable { op, .. }
            | Error::Unseeded { op }
            | Error::ForeignThread { op }
            | Error::ExplicitOnly { op }
            | Error::InvalidState { op, .. }
            | Error::InvalidFunction { op, .. }
            | Error::Observer { op, .. }
            | Error::OutOfMemory { op, .. }
            | Error::Backend { op, .. } => *op = name,
            Error::NoBackend { .. } | Error::RerunDiffers { .. } => {}
        }
        self
    }
}
