//! Host memory for tensors: aligned, recycled, never uninitialised.
//!
//! Safe Rust has no uninitialised memory, and zeroing every output would cost a pass over it. So
//! freed buffers are kept and used again: their old contents are valid, but meaningless. Debug
//! builds fill a reused buffer with NaN, so that a kernel which reads an element before writing it
//! is noticed at once.
//!
//! The kept buffers are a cache. [`set_cache_limit`] limits its size; beyond the limit, the oldest
//! buffer is freed first. [`empty_cache`] empties it, and so does an allocation that would
//! otherwise fail for lack of memory. [`cache_stats`] returns its counters.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use samebits_numerics::memory::{self, OutOfMemory};

use crate::dense;

/// A block of host memory, aligned to 64 bytes.
#[derive(Debug)]
pub struct Buffer {
    words: Vec<u64>,
    /// The first aligned word.
    start: usize,
    bytes: usize,
}

impl Buffer {
    /// Allocates `bytes` zero bytes.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if the allocation fails; the other functions that return a buffer fail
    /// alike.
    pub fn zeroed(bytes: usize) -> Result<Buffer, OutOfMemory> {
        let class = size_class(bytes);
        let Some(words) = recycled(class) else {
            return Ok(Buffer::over(allocate(class, bytes)?, bytes));
        };
        let mut buffer = Buffer::over(words, bytes);
        dense::fill::<u8>(buffer.as_mut_slice(), 0);
        Ok(buffer)
    }

    /// Allocates `bytes` bytes of unspecified content, for an output that the caller overwrites
    /// completely. In debug builds every byte is 0xff: NaN for floats, out of range for indices.
    pub fn scratch(bytes: usize) -> Result<Buffer, OutOfMemory> {
        let class = size_class(bytes);
        let words = recycled(class).map_or_else(|| allocate(class, bytes), Ok)?;
        let mut buffer = Buffer::over(words, bytes);
        if cfg!(debug_assertions) {
            buffer.as_mut_slice::<u8>().fill(0xff);
        }
        Ok(buffer)
    }

    /// Returns a copy of `values`.
    pub fn from_slice<T: bytemuck::Pod + Send + Sync>(values: &[T]) -> Result<Buffer, OutOfMemory> {
        let mut buffer = Buffer::scratch(size_of_val(values))?;
        dense::copy(values, buffer.as_mut_slice());
        Ok(buffer)
    }

    /// Returns a buffer that holds only `value`. It cannot fail: a few bytes of fixed size are
    /// assumed to be available.
    pub fn of<T: bytemuck::Pod>(value: T) -> Buffer {
        let bytes = size_of::<T>();
        let mut buffer = Buffer::over(vec![0; size_class(bytes)], bytes);
        buffer.as_mut_slice()[0] = value;
        buffer
    }

    /// Returns a copy of this buffer.
    pub fn try_clone(&self) -> Result<Buffer, OutOfMemory> {
        Buffer::from_slice(self.as_slice::<u8>())
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the contents as elements; an incomplete last element is left out.
    pub fn as_slice<T: bytemuck::Pod>(&self) -> &[T] {
        let bytes: &[u8] = bytemuck::cast_slice(&self.words[self.start..]);
        let whole = self.bytes / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice(&bytes[..whole])
    }

    /// Returns the contents as mutable elements, like [`as_slice`](Buffer::as_slice).
    pub fn as_mut_slice<T: bytemuck::Pod>(&mut self) -> &mut [T] {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words[self.start..]);
        let whole = self.bytes / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice_mut(&mut bytes[..whole])
    }

    fn over(words: Vec<u64>, bytes: usize) -> Buffer {
        // `align_offset` may return "impossible" (usize::MAX). Then the start is unaligned, which
        // costs only speed.
        let start = words.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT / 8);
        Buffer { words, start, bytes }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.words.len() >= SMALLEST_KEPT {
            // Releases the lock before memory goes back to the system.
            let _evicted = POOL.lock().put(std::mem::take(&mut self.words));
        }
    }
}

/// Statistics of the cache of freed host buffers, since the process started; see [`cache_stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// The bytes that the cache holds.
    pub kept: usize,
    /// The most bytes that the cache may hold; see [`set_cache_limit`].
    pub limit: usize,
    /// The number of allocations served from the cache.
    pub reused: u64,
    /// The number of allocations served with new memory, of sizes that the cache keeps.
    pub allocated: u64,
    /// The number of buffers returned to the system to stay within the limit.
    pub evicted: u64,
}

/// Returns the statistics of the cache of freed host buffers.
pub fn cache_stats() -> CacheStats {
    let pool = POOL.lock();
    CacheStats { kept: 8 * pool.kept, limit: 8 * pool.limit, ..pool.stats }
}

/// Limits the cache of freed host memory to `bytes` (512 MiB by default); 0 disables it.
pub fn set_cache_limit(bytes: usize) {
    let _evicted = {
        let mut pool = POOL.lock();
        pool.limit = bytes / 8;
        pool.evict()
    };
}

/// Returns all cached host memory to the system.
pub fn empty_cache() {
    let _emptied = POOL.lock().empty();
}

/// Takes a freed buffer of `class` words from the cache, if there is one.
fn recycled(class: usize) -> Option<Vec<u64>> {
    (class >= SMALLEST_KEPT).then(|| POOL.lock().take(class))?
}

/// Allocates `class` zero words for a buffer of `bytes` bytes.
fn allocate(class: usize, bytes: usize) -> Result<Vec<u64>, OutOfMemory> {
    memory::zeroed(class)
        .or_else(|_| {
            empty_cache();
            memory::zeroed(class)
        })
        .map_err(|_| OutOfMemory { bytes })
}

const ALIGNMENT: usize = 64;
/// The smallest buffer worth keeping, in words: the allocator provides smaller ones cheaply.
const SMALLEST_KEPT: usize = 4096 / 8;

static POOL: Mutex<Pool> = Mutex::new(Pool::new(512 << 17));

/// Freed buffers. Lengths are in words.
struct Pool {
    /// The buffers, by length and then by the time at which they were freed.
    free: BTreeMap<(usize, u64), Vec<u64>>,
    /// The length of each buffer, by the time at which it was freed.
    lengths: BTreeMap<u64, usize>,
    /// The time of the next release: the number of buffers freed so far.
    now: u64,
    kept: usize,
    limit: usize,
    stats: CacheStats,
}

impl Pool {
    const fn new(limit: usize) -> Pool {
        let stats = CacheStats { kept: 0, limit: 0, reused: 0, allocated: 0, evicted: 0 };
        Pool { free: BTreeMap::new(), lengths: BTreeMap::new(), now: 0, kept: 0, limit, stats }
    }

    /// Takes the most recently freed buffer of `length`: its pages are the likeliest to be in a CPU
    /// cache.
    fn take(&mut self, length: usize) -> Option<Vec<u64>> {
        let Some((&(_, freed), _)) = self.free.range((length, 0)..=(length, u64::MAX)).next_back()
        else {
            self.stats.allocated += 1;
            return None;
        };
        self.stats.reused += 1;
        self.lengths.remove(&freed);
        self.kept -= length;
        self.free.remove(&(length, freed))
    }

    /// Keeps `words`; returns the buffers that must be freed to stay within the limit.
    fn put(&mut self, words: Vec<u64>) -> Vec<Vec<u64>> {
        let length = words.len();
        if length > self.limit {
            return vec![words];
        }
        self.now += 1;
        self.kept += length;
        self.lengths.insert(self.now, length);
        self.free.insert((length, self.now), words);
        self.evict()
    }

    /// Removes the oldest buffers until the limit is met.
    fn evict(&mut self) -> Vec<Vec<u64>> {
        let mut evicted = Vec::new();
        while self.kept > self.limit
            && let Some((freed, length)) = self.lengths.pop_first()
        {
            self.kept -= length;
            self.stats.evicted += 1;
            evicted.extend(self.free.remove(&(length, freed)));
        }
        evicted
    }

    fn empty(&mut self) -> BTreeMap<(usize, u64), Vec<u64>> {
        self.kept = 0;
        self.lengths.clear();
        std::mem::take(&mut self.free)
    }
}

/// Returns the number of words to allocate for `bytes`. It includes room to align, and is rounded
/// up to an eighth of a power of two: near sizes share freed buffers, and at most an eighth is
/// wasted.
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
            let buffer = Buffer::scratch(bytes).unwrap();
            assert_eq!(buffer.as_slice::<u8>().len(), bytes);
            assert_eq!(buffer.as_slice::<f32>().len(), bytes / 4);
            assert_eq!(buffer.as_slice::<u8>().as_ptr() as usize % ALIGNMENT, 0);
        }
    }

    #[test]
    fn zeroed_is_zero_also_when_recycled() {
        for _ in 0..3 {
            let mut buffer = Buffer::zeroed(100_000).unwrap();
            assert!(buffer.as_slice::<u8>().iter().all(|&b| b == 0));
            buffer.as_mut_slice::<u8>().fill(7);
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    fn scratch_is_poisoned_in_debug_builds() {
        let buffer = Buffer::scratch(64).unwrap();
        assert!(buffer.as_slice::<f32>().iter().all(|x| x.is_nan()));
    }

    #[test]
    fn what_was_freed_first_leaves_first() {
        let (n, mut pool) = (SMALLEST_KEPT, Pool::new(4 * SMALLEST_KEPT));
        for length in [n, 2 * n, n] {
            assert_eq!(pool.put(vec![0; length]), Vec::<Vec<u64>>::new());
        }
        // The cache has room for four units; a fifth evicts the oldest, not itself.
        let lengths = |gone: Vec<Vec<u64>>| gone.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(pool.put(vec![1; n])), [n]);
        assert_eq!(pool.take(n), Some(vec![1; n]));
        assert_eq!(lengths(pool.put(vec![0; 3 * n])), [2 * n]);
        assert_eq!(pool.take(2 * n), None);
        // A buffer larger than the limit evicts nothing.
        assert_eq!(lengths(pool.put(vec![0; 5 * n])), [5 * n]);
        assert_eq!(pool.kept, 4 * n);
        let CacheStats { reused, allocated, evicted, .. } = pool.stats;
        assert_eq!((reused, allocated, evicted), (1, 1, 2));
        assert_eq!(pool.empty().len(), 2);
        assert_eq!((pool.kept, pool.take(n)), (0, None));
    }
}
