//! The elements of a channel, which lie apart, side by side.

use crate::error::Result;
use crate::{Float, memory, parallel};
use samebits_tensor_core::geometry::Batch;

/// The largest number of elements of a channel that are copied side by side for sums over them.
pub(super) const GATHERED: usize = parallel::CHUNK;

/// The largest number of elements of a channel that are copied to an array for that.
pub(super) const FEW: usize = 64;

/// The work of a channel, in elements, besides that for its elements.
pub(super) const CHANNEL: usize = 16;

/// Copies the elements of a channel, if they are few.
#[inline]
pub(super) fn gathered_few<'a, T: Float>(
    x: &[T],
    shape: Batch,
    channel: usize,
    few: &'a mut [T; FEW],
) -> Option<&'a [T]> {
    let few = few.get_mut(..shape.n * shape.spatial)?;
    for (n, to) in few.chunks_exact_mut(shape.spatial.max(1)).enumerate() {
        to.copy_from_slice(plane(x, shape, n, channel));
    }
    Some(few)
}

/// Returns the elements of a channel.
pub(super) fn gathered<T: Float>(
    op: &'static str,
    x: &[T],
    shape: Batch,
    channel: usize,
) -> Result<Vec<T>> {
    let mut all = memory::with_capacity(op, shape.n * shape.spatial)?;
    for n in 0..shape.n {
        all.extend_from_slice(plane(x, shape, n, channel));
    }
    Ok(all)
}

/// Returns sample `n` of one channel.
#[inline(always)]
pub(super) fn plane<T>(x: &[T], shape: Batch, n: usize, channel: usize) -> &[T] {
    &x[(n * shape.channels + channel) * shape.spatial..][..shape.spatial]
}
