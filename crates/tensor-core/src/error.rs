//! Everything that can go wrong, named so that a caller can match on it.

use samebits_numerics::memory::OutOfMemory;

use crate::{DType, Determinism, Device, Pass};

/// A result whose error is this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that can go wrong in an operation on tensors.
///
/// Messages start with the operation's name and give both sides of a mismatch.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two shapes had to agree and did not.
    #[error("{op}: expected {what} of shape {expected:?}, got {got:?}")]
    ShapeMismatch {
        /// The operation.
        op: &'static str,
        /// Which argument.
        what: &'static str,
        /// The shape it should have had.
        expected: Vec<usize>,
        /// The shape it had.
        got: Vec<usize>,
    },
    /// Two shapes cannot be broadcast to one.
    #[error("{op}: shapes {left:?} and {right:?} cannot be broadcast together")]
    Broadcast {
        /// The operation.
        op: &'static str,
        /// One shape.
        left: Vec<usize>,
        /// The other.
        right: Vec<usize>,
    },
    /// An argument is outside what the operation accepts.
    #[error("{op}: {message}")]
    InvalidArgument {
        /// The operation.
        op: &'static str,
        /// What was expected and what was given.
        message: String,
    },
    /// A tensor has the wrong element type.
    #[error("{op}: expected {what} of type {expected}, got {got}")]
    DTypeMismatch {
        /// The operation.
        op: &'static str,
        /// Which argument.
        what: &'static str,
        /// The type it should have had.
        expected: DType,
        /// The type it had.
        got: DType,
    },
    /// Two tensors live on different devices.
    #[error("{op}: tensors on {left} and {right}; move one with `to`")]
    DeviceMismatch {
        /// The operation.
        op: &'static str,
        /// One device.
        left: Device,
        /// The other.
        right: Device,
    },
    /// An index does not lie inside the dimension it indexes.
    #[error("{op}: index {index} at position {position} is out of range for size {size}")]
    IndexOutOfRange {
        /// The operation.
        op: &'static str,
        /// Where in the index tensor, counted in its logical order.
        position: usize,
        /// The index found there.
        index: i64,
        /// The size it should have been below.
        size: usize,
    },
    /// No variant of the operation meets the level that is required.
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
        /// The device it was to run on.
        device: Device,
        /// The element type.
        dtype: DType,
        /// The level in force.
        required: Determinism,
        /// The best level that a variant has.
        best: Determinism,
    },
    /// No kernel at all is registered for the operation on this device and type.
    #[error("{op} ({pass}): no kernel on {device} for {dtype}{hint}")]
    NoKernel {
        /// The operation.
        op: &'static str,
        /// Forward or backward.
        pass: Pass,
        /// The device it was to run on.
        device: Device,
        /// The element type.
        dtype: DType,
        /// What to do, if anything is known.
        hint: &'static str,
    },
    /// No backend is registered for the device.
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
        /// Which repeat differed, counted from 1.
        run: usize,
        /// Where the first difference is.
        what: String,
        /// The shapes of the inputs.
        inputs: String,
    },
    /// An environment variable holds none of the values that it can have.
    #[error(
        "{op}: the environment variable {variable} is {found:?}, but must be {expected}, or not set"
    )]
    InvalidVariable {
        /// The operation.
        op: &'static str,
        /// The variable.
        variable: &'static str,
        /// What it holds.
        found: &'static str,
        /// What it can hold.
        expected: &'static str,
    },
    /// A draw from the default generator before anyone seeded it.
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
    /// A draw from the default generator where every draw must name its generator.
    #[error(
        "{op}: there is no default generator in the functions that a data loader calls, whatever \
         its number of workers; draw from the sample's generator, or pass one"
    )]
    ExplicitOnly {
        /// The operation.
        op: &'static str,
    },
    /// The bytes given as a saved state are not one.
    #[error("{op}: {message}")]
    InvalidState {
        /// The operation.
        op: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// An [`Observer`](crate::observe::Observer) refused to go on.
    #[error("{op}: {message}")]
    Observer {
        /// The operation.
        op: &'static str,
        /// Why.
        message: String,
    },
    /// A device has no memory left for a result.
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
    /// A device or its driver failed.
    #[error("{op}: {device}: {message}")]
    Backend {
        /// The operation.
        op: &'static str,
        /// The device.
        device: Device,
        /// What the driver said.
        message: String,
    },
}

samebits_numerics::debug_is_message!(Error);

impl Error {
    /// Returns an [`Error::InvalidArgument`].
    pub fn invalid(op: &'static str, message: impl Into<String>) -> Error {
        Error::InvalidArgument { op, message: message.into() }
    }

    /// Returns the error of `op` if the host has no memory left.
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

    /// Returns the same error under the name of `op`, which the user called, and not of the step of
    /// it that failed. [`Error::NoBackend`] names no operation, and [`Error::RerunDiffers`] keeps
    /// the name of the kernel that did not repeat.
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
            | Error::Observer { op, .. }
            | Error::OutOfMemory { op, .. }
            | Error::Backend { op, .. } => *op = name,
            Error::NoBackend { .. } | Error::RerunDiffers { .. } => {}
        }
        self
    }
}
