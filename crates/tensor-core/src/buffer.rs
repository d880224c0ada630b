//! Host memory for tensors: aligned, recycled, never uninitialised.
//!
//! Safe Rust has no uninitialised memory, and zeroing every output would cost a pass over it.
//! Freed buffers are therefore kept and handed out again: their old contents are valid, only
//! meaningless. In debug builds such a buffer is filled with NaN, so that a kernel that reads
//! what it has not written shows at once.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// A block of host memory, aligned to 64 bytes.
#[derive(Debug)]
pub struct Buffer {
    words: Vec<u64>,
    /// The first aligned word.
    start: usize,
    bytes: usize,
}

impl Buffer {
    /// `bytes` zero bytes.
    pub fn zeroed(bytes: usize) -> Buffer {
        let class = size_class(bytes);
        match POOL.lock().take(class) {
            Some(words) => {
                let mut buffer = Buffer::over(words, bytes);
                buffer.as_mut_slice::<u8>().fill(0);
                buffer
            }
            None => Buffer::over(vec![0; class], bytes),
        }
    }

    /// `bytes` bytes of unspecified content, for an output that is about to be written whole.
    /// In debug builds every byte is 0xff: NaN for floats, out of range for indices.
    pub fn scratch(bytes: usize) -> Buffer {
        let class = size_class(bytes);
        let recycled = POOL.lock().take(class);
        let mut buffer = Buffer::over(recycled.unwrap_or_else(|| vec![0; class]), bytes);
        if cfg!(debug_assertions) {
            buffer.as_mut_slice::<u8>().fill(0xff);
        }
        buffer
    }

    /// A copy of `values`.
    pub fn from_slice<T: bytemuck::Pod>(values: &[T]) -> Buffer {
        let mut buffer = Buffer::scratch(size_of_val(values));
        buffer.as_mut_slice().copy_from_slice(values);
        buffer
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The contents as elements; a trailing part of an element is left out.
    pub fn as_slice<T: bytemuck::Pod>(&self) -> &[T] {
        let bytes: &[u8] = bytemuck::cast_slice(&self.words[self.start..]);
        let whole = self.bytes / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice(&bytes[..whole])
    }

    /// The contents as elements, to be written.
    pub fn as_mut_slice<T: bytemuck::Pod>(&mut self) -> &mut [T] {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words[self.start..]);
        let whole = self.bytes / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice_mut(&mut bytes[..whole])
    }

    fn over(words: Vec<u64>, bytes: usize) -> Buffer {
        // `align_offset` may say "impossible" (usize::MAX); alignment is for speed alone.
        let start = words.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT / 8);
        Buffer { words, start, bytes }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        Buffer::from_slice(self.as_slice::<u8>())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        POOL.lock().put(std::mem::take(&mut self.words));
    }
}

const ALIGNMENT: usize = 64;
/// Smaller buffers are cheap to get from the allocator.
const SMALLEST_KEPT: usize = 4096 / 8;
/// At most this many words are kept for later (512 MiB).
const MOST_KEPT: usize = 512 << 17;

static POOL: Mutex<Pool> = Mutex::new(Pool { free: BTreeMap::new(), kept: 0 });

/// Freed buffers by their length in words.
struct Pool {
    free: BTreeMap<usize, Vec<Vec<u64>>>,
    kept: usize,
}

impl Pool {
    fn take(&mut self, class: usize) -> Option<Vec<u64>> {
        let words = self.free.get_mut(&class)?.pop()?;
        self.kept -= class;
        Some(words)
    }

    fn put(&mut self, words: Vec<u64>) {
        let class = words.len();
        if class < SMALLEST_KEPT || self.kept + class > MOST_KEPT {
            return;
        }
        self.kept += class;
        self.free.entry(class).or_default().push(words);
    }
}

/// The number of words allocated for `bytes`: room to align, rounded up to an eighth of a power
/// of two, so that near sizes share freed buffers and at most an eighth is wasted.
fn size_class(bytes: usize) -> usize {
    let words = bytes.div_ceil(8) + ALIGNMENT / 8;
    if words < SMALLEST_KEPT {
        return words;
    }
    let step = (words.next_power_of_two() / 16).max(1);
    words.div_ceil(step) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_as_long_as_asked() {
        for bytes in [0, 1, 7, 8, 63, 64, 4095, 4096, 100_001, 1 << 20] {
            let buffer = Buffer::scratch(bytes);
            assert_eq!(buffer.as_slice::<u8>().len(), bytes);
            assert_eq!(buffer.as_slice::<f32>().len(), bytes / 4);
            assert_eq!(buffer.as_slice::<u8>().as_ptr() as usize % ALIGNMENT, 0);
        }
    }

    #[test]
    fn zeroed_is_zero_also_when_recycled() {
        for _ in 0..3 {
            let mut buffer = Buffer::zeroed(100_000);
            assert!(buffer.as_slice::<u8>().iter().all(|&b| b == 0));
            buffer.as_mut_slice::<u8>().fill(7);
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    fn scratch_is_poisoned_in_debug_builds() {
        let buffer = Buffer::scratch(64);
        assert!(buffer.as_slice::<f32>().iter().all(|x| x.is_nan()));
    }
}
