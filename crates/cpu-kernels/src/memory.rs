//! Buffers that kernels need besides their arguments: [`samebits_numerics::memory`] with errors that
//! name the operation.

use bytemuck::{Pod, Zeroable};
pub(crate) use samebits_numerics::memory::product;
use samebits_numerics::memory::{self, OutOfMemory};
use samebits_tensor_core::buffer::Buffer;

use crate::{Error, Result};

/// `len` zeros for `op`.
pub(crate) fn zeroed<T: Zeroable>(op: &'static str, len: usize) -> Result<Vec<T>> {
    memory::zeroed(len).map_err(named(op))
}

/// `len` elements of unspecified content for `op`, of memory that tensors no longer need: new pages
/// take longer than most of what is done to them.
pub(crate) fn scratch<T: Pod>(op: &'static str, len: usize) -> Result<Buffer> {
    let bytes = volume(op, &[len, size_of::<T>()])?;
    Buffer::scratch(bytes).map_err(named(op))
}

/// `len` copies of `value` for `op`.
pub(crate) fn filled<T: Clone>(op: &'static str, len: usize, value: T) -> Result<Vec<T>> {
    memory::filled(len, value).map_err(named(op))
}

/// Returns an empty vector with room for `capacity` elements for `op`.
pub(crate) fn with_capacity<T>(op: &'static str, capacity: usize) -> Result<Vec<T>> {
    memory::with_capacity(capacity).map_err(named(op))
}

/// Room for `additional` more elements of `vec`, which grows by at least the half.
pub(crate) fn reserve<T>(op: &'static str, vec: &mut Vec<T>, additional: usize) -> Result<()> {
    if vec.capacity() - vec.len() < additional {
        let capacity = (vec.len() + additional).max(vec.capacity() / 2 * 3);
        let mut grown = with_capacity(op, capacity)?;
        grown.append(vec);
        *vec = grown;
    }
    Ok(())
}

/// Returns the items of an iterator that knows how many it has, for `op`.
pub(crate) fn collected<T>(
    op: &'static str,
    items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
) -> Result<Vec<T>> {
    memory::collected(items).map_err(named(op))
}

/// Returns the number of elements of `sizes`; as many as cannot be counted cannot be had either.
pub(crate) fn volume(op: &'static str, sizes: &[usize]) -> Result<usize> {
    memory::product(sizes).ok_or(Error::OutOfMemory { op, bytes: usize::MAX })
}

/// Returns a shortage of memory during `op`.
pub(crate) fn named(op: &'static str) -> impl FnOnce(OutOfMemory) -> Error {
    move |OutOfMemory { bytes }| Error::OutOfMemory { op, bytes }
}
