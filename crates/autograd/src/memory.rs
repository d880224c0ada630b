//! Host memory for lists whose length the caller chooses.

use samebits_numerics::memory;
use samebits_tensor_core::{Error, Result};

/// Returns an empty list with room for `count` elements.
pub(crate) fn room<T>(op: &'static str, count: usize) -> Result<Vec<T>> {
    memory::with_capacity(count).map_err(Error::out_of_host_memory(op))
}
