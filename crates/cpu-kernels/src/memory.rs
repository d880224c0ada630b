//! Buffers that kernels need besides their arguments: [`samebits_numerics::memory`] with errors
//! that name the operation.

use bytemuck::{Pod, Zeroable};
pub(crate) use samebits_numerics::memory::product;
use samebits_numerics::memory::{self, OutOfMemory};
use samebits_tensor_core::buffer::Buffer;

use crate::{Error, Result};

/// Returns `len` zeros for `op`.
pub(crate) fn zeroed<T: Zeroable>(op: &'static str, len: usize) -> Result<Vec<T>> {
    memory::zeroed(len).map_err(named(op))
}

/// Returns `len` elements of unspecified content for `op`, in memory that tensors have freed. New
/// pages would cost more time than most kernels.
pub(crate) fn scratch<T: Pod>(op: &'static str, len: usize) -> Result<Buffer> {
    let bytes = volume(op, &[len, size_of::<T>()])?;
    Buffer::scratch(bytes).map_err(named(op))
}

/// Returns `len` copies of `value` for `op`.
pub(crate) fn filled<T: Clone>(op: &'static str, len: usize, value: T) -> Result<Vec<T>> {
    memory::filled(len, value).map_err(named(op))
}

/// Returns an empty vector with room for `capacity` elements for `op`.
pub(crate) fn with_capacity<T>(op: &'static str, capacity: usize) -> Result<Vec<T>> {
    memory::with_capacity(capacity).map_err(named(op))
}

/// Reserves room for `additional` more elements of `vec`, which grows by at least half.
pub(crate) fn reserve<T>(op: &'static str, vec: &mut Vec<T>, additional: usize) -> Result<()> {
    if vec.capacity() - vec.len() < additional {
        let capacity = (vec.len() + additional).max(vec.capacity() / 2 * 3);
        let mut grown = with_capacity(op, capacity)?;
        grown.append(vec);
        *vec = grown;
    }
    Ok(())
}

/// Collects the items of an iterator of known length, for `op`.
pub(crate) fn collected<T>(
    op: &'static str,
    items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
) -> Result<Vec<T>> {
    memory::collected(items).map_err(named(op))
}

/// Returns the product of `sizes`, or the error for a lack of memory if it overflows.
pub(crate) fn volume(op: &'static str, sizes: &[usize]) -> Result<usize> {
    memory::product(sizes).ok_or(Error::OutOfMemory { op, bytes: usize::MAX })
}

/// Returns a function that maps an allocation failure to the error of `op`.
pub(crate) fn named(op: &'static str) -> impl FnOnce(OutOfMemory) -> Error {
    move |OutOfMemory { bytes }| Error::OutOfMemory { op, bytes }
}
