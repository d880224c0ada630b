//! The kernels of samebits on CUDA: committed PTX and typed launch functions.
//!
//! A [`Device`] holds buffers and runs kernels through the installed driver; neither building nor
//! using this crate needs a CUDA toolkit. If an operation has an order-dependent fast form, both
//! forms are here, and a [`Variant`] chooses.
//!
//! [`install`] makes the devices usable for tensors; the modules are for programs without them.
//!
//! # Determinism
//!
//! Every kernel declares its level next to its source, in `kernels/*.cu`, and the committed PTX is
//! audited against the declaration. The grid of a launch is a function of the shape alone: no code
//! queries the size of the device.
//!
//! # Errors
//!
//! Work is asynchronous. If a kernel finds an index out of range, the next [`Device::synchronize`]
//! or [`Device::download`] reports it with the operation, the position, the index and the size, as
//! on the CPU. The results of that operation are unspecified, but nothing is read or written out of
//! bounds.

#![deny(unsafe_code)]

pub mod attention;
mod backend;
pub mod bincount;
pub mod conv;
pub mod conv_algorithms;
mod counts;
pub mod ctc;
#[cfg(feature = "cublas")]
pub mod cublas;
#[cfg(feature = "cudnn")]
pub mod cudnn;
mod device;
pub mod digest;
pub mod elementwise;
pub mod embedding;
mod error;
pub mod grid_sample;
pub mod interpolate;
mod launch;
pub mod linalg;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod optim;
pub mod padding;
pub mod places;
pub mod pooling;
pub mod random;
pub mod recurrent;
pub mod reduce;
pub mod rotary;
pub mod scan;
pub mod scatter;
mod segments;
pub mod sort;
pub mod sparse;
pub mod totals;
pub mod vendor;
mod workspace;

pub use backend::{install, install_with_block_size};
pub use device::{Device, Float, Number, Word, device_count, is_available};
pub use error::{CudaError, Result};
pub use launch::Buffer;

/// The form of an operation to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Level `Portable`: the same bits on every device and under every schedule.
    Deterministic,
    /// Level `NotGuaranteed`: atomics in the order of arrival.
    Atomic,
}
