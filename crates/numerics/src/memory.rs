//! Allocation of sizes that a caller chooses, with errors instead of aborts.
//!
//! `vec![0.0; n]` panics if `n` elements cannot be addressed, and aborts the process if memory runs
//! out. The functions here return [`OutOfMemory`] instead. Every buffer of samebits whose length a
//! caller chooses comes from here; buffers of a fixed or small length need not. Linux is asked to
//! back those of at least 8 MiB by huge pages.

mod huge_pages;

use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use bytemuck::Zeroable;

/// A failed allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The size of the buffer, or `usize::MAX` if it cannot be addressed.
    pub bytes: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no memory left for {} bytes", self.bytes)
    }
}

impl core::error::Error for OutOfMemory {}

crate::debug_is_message!(OutOfMemory);

/// Returns `len` zeros. The pages of a large buffer are not touched.
///
/// # Errors
///
/// [`OutOfMemory`] if the allocation fails.
///
/// # Examples
///
/// ```
/// use samebits_numerics::memory;
///
/// assert_eq!(memory::zeroed::<f32>(3)?, [0.0; 3]);
/// assert_eq!(memory::zeroed::<f64>(1 << 50).unwrap_err().bytes, 1 << 53);
/// # Ok::<(), memory::OutOfMemory>(())
/// ```
pub fn zeroed<T: Zeroable>(len: usize) -> Result<Vec<T>, OutOfMemory> {
    let bytes = admitted::<T>(len)?;
    let vec = bytemuck::allocation::try_zeroed_vec(len).map_err(|()| OutOfMemory { bytes })?;
    huge_pages::prefer(vec.as_ptr() as usize, bytes);
    Ok(vec)
}

/// Returns `len` copies of `value`.
///
/// # Errors
///
/// [`OutOfMemory`] if the allocation fails.
pub fn filled<T: Clone>(len: usize, value: T) -> Result<Vec<T>, OutOfMemory> {
    let mut vec = with_capacity(len)?;
    vec.resize(len, value);
    Ok(vec)
}

/// Returns an empty vector with room for `capacity` elements.
///
/// # Errors
///
/// [`OutOfMemory`] if the allocation fails.
pub fn with_capacity<T>(capacity: usize) -> Result<Vec<T>, OutOfMemory> {
    let bytes = admitted::<T>(capacity)?;
    let mut vec = Vec::new();
    vec.try_reserve_exact(capacity).map_err(|_| OutOfMemory { bytes })?;
    huge_pages::prefer(vec.as_ptr() as usize, bytes);
    Ok(vec)
}

/// Collects the items of an iterator of known length.
///
/// # Errors
///
/// [`OutOfMemory`] if the allocation fails.
pub fn collected<T>(
    items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
) -> Result<Vec<T>, OutOfMemory> {
    let items = items.into_iter();
    let mut vec = with_capacity(items.len())?;
    vec.extend(items);
    Ok(vec)
}

/// Returns the product of `sizes`, or `None` if it overflows a `usize`. Lengths that unsafe code
/// relies on must be computed here: a product that wraps around could pass a length check.
///
/// # Examples
///
/// ```
/// use samebits_numerics::memory::product;
///
/// assert_eq!(product(&[2, 3, 4]), Some(24));
/// assert_eq!(product(&[usize::MAX, 2]), None);
/// assert_eq!(product(&[usize::MAX, 2, 0]), Some(0));
/// ```
#[inline]
pub fn product(sizes: &[usize]) -> Option<usize> {
    if sizes.contains(&0) {
        return Some(0);
    }
    sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
}

/// Makes every allocation of more than `bytes` fail in this process from now on; `None` removes the
/// limit. It serves systems that promise more memory than they have, and tests that simulate a
/// shortage.
pub fn set_limit(bytes: Option<usize>) {
    LIMIT.store(bytes.unwrap_or(usize::MAX), Ordering::Relaxed);
}

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Returns the size in bytes of `len` elements, if the limit permits a buffer of that size.
fn admitted<T>(len: usize) -> Result<usize, OutOfMemory> {
    let bytes = len.checked_mul(size_of::<T>()).ok_or(OutOfMemory { bytes: usize::MAX })?;
    if bytes > LIMIT.load(Ordering::Relaxed) { Err(OutOfMemory { bytes }) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_an_error() {
        for len in [1 << 50, usize::MAX / 8, usize::MAX / 2, usize::MAX] {
            let bytes = len.saturating_mul(8);
            let expected = Err(OutOfMemory { bytes });
            assert_eq!(zeroed::<u64>(len).map(|vec| vec.len()), expected);
            assert_eq!(filled(len, 1u64).map(|vec| vec.len()), expected);
            assert_eq!(with_capacity::<u64>(len).map(|vec| vec.len()), expected);
            assert_eq!(collected((0..len).map(|i| i as u64)).map(|vec| vec.len()), expected);
        }
    }

    #[test]
    fn what_can_be_had_is_whole() {
        assert_eq!(zeroed::<u8>(5), Ok(vec![0; 5]));
        assert_eq!(filled(3, 7i64), Ok(vec![7; 3]));
        assert_eq!(collected([1, 2, 3]), Ok(vec![1, 2, 3]));
        assert_eq!(zeroed::<f32>(0), Ok(vec![]));
    }
}
