//! The sums behind the digests of ledgers.

use samebits_tensor_core::backend::DigestSum;

use crate::device::{Device, Word};
use crate::error::Result;
use crate::launch::kernels::digest as kernels;
use crate::launch::{Buffer, Launch};
use crate::reduce::grid;

/// The number of words per thread.
const WORDS: u64 = 16;

/// Computes the sum behind a digest over the elements `x`: one element, without waiting for it.
///
/// # Determinism
///
/// Portable: a wrapping sum of integers.
///
/// # Errors
///
/// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory) or [`CudaError::Driver`](crate::CudaError::Driver).
pub fn digest_sum<T: Word>(
    device: &Device,
    x: &Buffer<T>,
    n: usize,
    what: DigestSum,
) -> Result<Buffer<u64>> {
    let op = "digest";
    let mut sum = device.zeros_for::<u64>(op, 1)?;
    let DigestSum { blocks, block, infinity, quiet } = what;
    let each = u64::from(device.block()) * WORDS;
    let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    kernels::Digest {
        sum: &mut sum,
        x,
        n,
        blocks: size(blocks),
        block: size(block),
        infinity: size(infinity),
        quiet: size(quiet),
    }
    .grid(
        device,
        op,
        (grid(op, size((blocks * block).div_ceil(each)))?, 1, 1),
        (device.block(), 1, 1),
    )?;
    Ok(sum)
}
