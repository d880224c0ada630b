//! Buffers whose size a caller or a file chooses: [`samebits_numerics::memory`] with this crate's
//! error.

use samebits_numerics::memory::{self, OutOfMemory};

use crate::{Error, Result};

/// Returns the buffer, or [`Error::OutOfMemory`] in the name of `op`.
pub(crate) fn allocated<T>(
    op: &'static str,
    buffer: Result<Vec<T>, OutOfMemory>,
) -> Result<Vec<T>> {
    buffer.map_err(|OutOfMemory { bytes }| Error::OutOfMemory { op, bytes })
}

/// Makes room for `additional` more elements. A full vector at least doubles, so growing moves each
/// element a constant number of times on average.
pub(crate) fn reserve<T>(op: &'static str, vec: &mut Vec<T>, additional: usize) -> Result<()> {
    let needed = vec.len().saturating_add(additional);
    if needed > vec.capacity() {
        let capacity = needed.max(vec.len().saturating_mul(2));
        let mut larger = allocated(op, memory::with_capacity(capacity))?;
        larger.append(vec);
        *vec = larger;
    }
    Ok(())
}
