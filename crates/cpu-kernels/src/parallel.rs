//! Sharing work among threads without the number of threads showing in any bit.
//!
//! Work is cut into pieces whose borders depend on sizes alone; which thread computes a piece
//! decides neither its value nor its place. Small work stays on the calling thread.
//!
//! Other libraries share the pool and may have switched a thread to flush-to-zero, so each piece
//! runs under [`fpenv::ieee`].

use rayon::prelude::*;
use samebits_numerics::fpenv;

/// For loops that cut their work themselves.
pub(crate) trait ForEachIeee: ParallelIterator {
    /// Calls `f` for each item, under IEEE arithmetic.
    fn for_each_ieee(self, f: impl Fn(Self::Item) + Send + Sync) {
        self.for_each(|item| fpenv::ieee(|| f(item)));
    }
}

impl<I: ParallelIterator> ForEachIeee for I {}

/// Elements per piece: large enough to pay for handing it over, small enough to share evenly.
pub(crate) const CHUNK: usize = 1 << 14;

/// The threads that share work. For choices among ways to the same bits, and nothing else.
#[expect(clippy::disallowed_methods, reason = "decides who computes, and no bit")]
pub(crate) fn threads() -> usize {
    rayon::current_num_threads()
}

/// Calls `f(start, piece)` for each piece of `out`.
pub(crate) fn pieces<T: Send>(out: &mut [T], f: impl Fn(usize, &mut [T]) + Sync) {
    pieces_of(CHUNK, out, f);
}

/// Calls `f(start, piece)` for pieces of about [`CHUNK`] elements that are whole rows of `width`.
pub(crate) fn rows<T: Send>(width: usize, out: &mut [T], f: impl Fn(usize, &mut [T]) + Sync) {
    let width = width.max(1);
    pieces_of(CHUNK.div_ceil(width) * width, out, f);
}

/// Calls `f(start, piece)` for pieces of `size` elements.
pub(crate) fn pieces_of<T: Send>(size: usize, out: &mut [T], f: impl Fn(usize, &mut [T]) + Sync) {
    if out.len() <= size {
        if !out.is_empty() {
            fpenv::ieee(|| f(0, out));
        }
        return;
    }
    out.par_chunks_mut(size).enumerate().for_each(|(i, piece)| fpenv::ieee(|| f(i * size, piece)));
}

/// `f(i)` for each `i` below `n`, in order, computed in parallel if `work` elements in all are
/// worth it.
pub(crate) fn each<R: Send>(n: usize, work: usize, f: impl Fn(usize) -> R + Sync + Send) -> Vec<R> {
    let f = |i| fpenv::ieee(|| f(i));
    if work <= CHUNK || n <= 1 {
        return (0..n).map(f).collect();
    }
    (0..n).into_par_iter().map(f).collect()
}
