//! Host memory for lists whose length a caller chooses.

use samebits_numerics::memory::{self, OutOfMemory};
use samebits_tensor_core::{Device, Error, Result};

/// An empty list with room for `count` elements.
pub(crate) fn room<T>(op: &'static str, count: usize) -> Result<Vec<T>> {
    memory::with_capacity(count).map_err(out_of_memory(op))
}

/// The error of `op` for host memory that could not be had.
pub(crate) fn out_of_memory(op: &'static str) -> impl FnOnce(OutOfMemory) -> Error {
    move |OutOfMemory { bytes }| Error::OutOfMemory { op, device: Device::Cpu, bytes }
}
