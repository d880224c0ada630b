//! Sharing work among threads without the number of threads showing in any bit.
//!
//! Work is cut into pieces whose borders depend on sizes alone; which thread computes a piece
//! decides neither its value nor its place. Small work stays on the calling thread.
//!
//! Other libraries share the pool and may have switched a thread to flush-to-zero. This module is
//! the crate's only user of rayon, so that whatever reaches a thread of the pool runs under
//! [`fpenv::ieee`].
//!
//! rayon gets `&dyn Fn`: a call serves thousands of elements, and rayon's own code is compiled once
//! for each kind of item and not once for each kernel.

use std::ops::Range;

use rayon::iter::{Enumerate, MaxLen, MinLen, Zip};
use rayon::prelude::*;
use samebits_numerics::fpenv;

use crate::{Result, memory};

/// Elements per piece: large enough to pay for handing it over, small enough to share evenly.
pub(crate) const CHUNK: usize = 1 << 14;

/// The threads that share work. For choices among ways to the same bits, and nothing else.
#[expect(clippy::disallowed_methods, reason = "decides who computes, and no bit")]
pub(crate) fn threads() -> usize {
    rayon::current_num_threads()
}

/// Calls `f(start, piece)` for each piece of `out`.
pub(crate) fn pieces<T: Send>(out: &mut [T], f: impl Fn(usize, &mut [T]) + Sync + Send) {
    pieces_of(CHUNK, out, f);
}

/// Calls `f(start, piece)` for pieces of about [`CHUNK`] elements that are whole rows of `width`.
pub(crate) fn rows<T: Send>(
    width: usize,
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) + Sync + Send,
) {
    let width = width.max(1);
    pieces_of(CHUNK.div_ceil(width) * width, out, f);
}

/// Calls `f(start, piece)` for pieces of `size` elements.
pub(crate) fn pieces_of<T: Send>(
    size: usize,
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) + Sync + Send,
) {
    if out.len() <= size {
        if !out.is_empty() {
            fpenv::ieee(|| f(0, out));
        }
        return;
    }
    chunks_mut(out, size).enumerate().for_each(|(i, piece)| f(i * size, piece));
}

/// [`rows`] for an `f` that can fail: the error of the first piece that has one.
pub(crate) fn try_rows<T: Send>(
    width: usize,
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) -> Result<()> + Sync + Send,
) -> Result<()> {
    let width = width.max(1);
    try_pieces_of(CHUNK.div_ceil(width) * width, out, f)
}

/// [`pieces_of`] for an `f` that can fail: the error of the first piece that has one.
pub(crate) fn try_pieces_of<T: Send>(
    size: usize,
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) -> Result<()> + Sync + Send,
) -> Result<()> {
    if out.len() <= size {
        return if out.is_empty() { Ok(()) } else { fpenv::ieee(|| f(0, out)) };
    }
    chunks_mut(out, size).enumerate().try_for_each(|(i, piece)| f(i * size, piece))
}

/// `f(i)` for each `i` below `n`, in order, computed in parallel if `work` elements in all are
/// worth it; or the error of the lowest `i`, or that there is no memory for the results of `op`.
pub(crate) fn try_each<R: Send>(
    op: &'static str,
    n: usize,
    work: usize,
    f: impl Fn(usize) -> Result<R> + Sync + Send,
) -> Result<Vec<R>> {
    if work <= CHUNK || n <= 1 {
        let mut all = memory::with_capacity(op, n)?;
        for i in 0..n {
            all.push(fpenv::ieee(|| f(i))?);
        }
        return Ok(all);
    }
    items(0..n).try_collect(op, f)
}

/// Calls `f(i, ..)` for each `i` below `n` with part `i` of each output, whose parts have the size
/// beside it and may be empty. Parallel if `work` elements in all are worth it.
pub(crate) fn try_parts<T: Send, const N: usize>(
    op: &'static str,
    n: usize,
    work: usize,
    mut outs: [(&mut [T], usize); N],
    f: impl Fn(usize, [&mut [T]; N]) -> Result<()> + Sync + Send,
) -> Result<()> {
    let several = if work <= CHUNK { n } else { n.saturating_mul(CHUNK) / work }.max(1);
    let mut tasks = memory::with_capacity(op, n.div_ceil(several))?;
    for first in (0..n).step_by(several) {
        let last = n.min(first + several);
        tasks.push((first..last, take(&mut outs, last - first)));
    }
    let sizes = outs.map(|(_, size)| size);
    let run = |(range, parts): (Range<usize>, [&mut [T]; N])| {
        let mut sizes = sizes.into_iter();
        let mut left = parts.map(|part| (part, sizes.next().unwrap_or(0)));
        range.into_iter().try_for_each(|i| f(i, take(&mut left, 1)))
    };
    match tasks.len() {
        0 => Ok(()),
        1 => tasks.into_iter().try_for_each(|task| fpenv::ieee(|| run(task))),
        _ => items(tasks).try_for_each(run),
    }
}

/// The first `count` parts of each output, which go from it.
fn take<'a, T, const N: usize>(
    outs: &mut [(&'a mut [T], usize); N],
    count: usize,
) -> [&'a mut [T]; N] {
    outs.each_mut().map(|(out, size)| {
        let (parts, rest) = std::mem::take(out).split_at_mut(count * *size);
        *out = rest;
        parts
    })
}

/// Sorts by an order that is no arithmetic: floating-point numbers are not [`Ord`].
pub(crate) fn sort_unstable<T: Ord + Send>(items: &mut [T]) {
    items.par_sort_unstable();
}

/// Pieces of `size` elements, the last one shorter.
pub(crate) fn chunks<T: Sync>(
    slice: &[T],
    size: usize,
) -> Shared<impl IndexedParallelIterator<Item = &[T]>> {
    Shared(slice.par_chunks(size))
}

/// Pieces of `size` elements, the last one shorter.
pub(crate) fn chunks_mut<T: Send>(
    slice: &mut [T],
    size: usize,
) -> Shared<impl IndexedParallelIterator<Item = &mut [T]>> {
    Shared(slice.par_chunks_mut(size))
}

/// Pieces of `size` elements from the end on, the first one of the slice shorter.
pub(crate) fn rchunks<T: Sync>(
    slice: &[T],
    size: usize,
) -> Shared<impl IndexedParallelIterator<Item = &[T]>> {
    Shared(slice.par_rchunks(size))
}

/// Pieces of `size` elements from the end on, the first one of the slice shorter.
pub(crate) fn rchunks_mut<T: Send>(
    slice: &mut [T],
    size: usize,
) -> Shared<impl IndexedParallelIterator<Item = &mut [T]>> {
    Shared(slice.par_rchunks_mut(size))
}

/// The items of a range, a vector or a slice.
pub(crate) fn items<I: IntoParallelIterator<Iter: IndexedParallelIterator>>(
    items: I,
) -> Shared<I::Iter> {
    Shared(items.into_par_iter())
}

/// Items that threads share. Whatever is computed for one runs under [`fpenv::ieee`].
#[must_use]
pub(crate) struct Shared<I>(I);

impl<I: IndexedParallelIterator> Shared<I> {
    /// Pairs of items; as many as the shorter of the two has.
    pub(crate) fn zip<J: IndexedParallelIterator>(self, other: Shared<J>) -> Shared<Zip<I, J>> {
        Shared(self.0.zip(other.0))
    }

    /// Each item with its number.
    pub(crate) fn enumerate(self) -> Shared<Enumerate<I>> {
        Shared(self.0.enumerate())
    }

    /// Hands over at least `count` items at a time.
    pub(crate) fn at_least(self, count: usize) -> Shared<MinLen<I>> {
        Shared(self.0.with_min_len(count))
    }

    /// Hands over at most `count` items at a time.
    pub(crate) fn at_most(self, count: usize) -> Shared<MaxLen<I>> {
        Shared(self.0.with_max_len(count))
    }

    pub(crate) fn for_each(self, f: impl Fn(I::Item) + Sync + Send) {
        fn shared<I: IndexedParallelIterator>(items: I, f: &(dyn Fn(I::Item) + Sync)) {
            items.for_each(f);
        }
        shared(self.0, &|item| fpenv::ieee(|| f(item)));
    }

    /// Calls `f` for the items until one fails. Of several errors the one of the first item is
    /// returned, whichever thread was faster.
    pub(crate) fn try_for_each<E: Send>(
        self,
        f: impl Fn(I::Item) -> Result<(), E> + Sync + Send,
    ) -> Result<(), E> {
        first_error(self.0, &|item| fpenv::ieee(|| f(item)).err())
    }

    /// [`try_for_each`](Self::try_for_each) with scratch memory that `new` makes, now and then a
    /// new one: what `f` does must not depend on what it finds there.
    pub(crate) fn try_for_each_with<S: Send, E: Send>(
        self,
        new: impl Fn() -> Result<S, E> + Sync + Send,
        f: impl Fn(&mut S, I::Item) -> Result<(), E> + Sync + Send,
    ) -> Result<(), E> {
        let run = |scratch: &mut Option<S>, item| {
            let scratch = match scratch {
                Some(scratch) => scratch,
                none => none.insert(new()?),
            };
            fpenv::ieee(|| f(scratch, item))
        };
        fn shared<I: IndexedParallelIterator, S: Send, E: Send>(
            items: I,
            run: &WithScratch<'_, S, I::Item, E>,
        ) -> Result<(), E> {
            let results = items.map_init(|| None, run);
            results.find_map_first(|error| error).map_or(Ok(()), Err)
        }
        shared(self.0, &|scratch, item| run(scratch, item).err())
    }

    /// `f` of each item, in order.
    pub(crate) fn collect<R: Send>(
        self,
        op: &'static str,
        f: impl Fn(I::Item) -> R + Sync + Send,
    ) -> Result<Vec<R>> {
        fn shared<I: IndexedParallelIterator, R: Send>(
            items: I,
            f: &(dyn Fn(I::Item) -> R + Sync),
            all: &mut Vec<R>,
        ) {
            items.map(f).collect_into_vec(all);
        }
        let mut all = memory::with_capacity(op, self.0.len())?;
        shared(self.0, &|item| fpenv::ieee(|| f(item)), &mut all);
        Ok(all)
    }

    /// `f` of each item, in order, or the error of the first item that has one.
    pub(crate) fn try_collect<R: Send>(
        self,
        op: &'static str,
        f: impl Fn(I::Item) -> Result<R> + Sync + Send,
    ) -> Result<Vec<R>> {
        self.collect(op, f)?.into_iter().collect()
    }

    /// Merges `f` of each item, beginning with `first`. Threads merge what they have, so the result
    /// must not depend on where the brackets stand.
    pub(crate) fn reduce<R: Copy + Send + Sync>(
        self,
        first: R,
        f: impl Fn(I::Item) -> R + Sync + Send,
        merge: impl Fn(R, R) -> R + Sync + Send,
    ) -> R {
        fn shared<I: IndexedParallelIterator, R: Copy + Send + Sync>(
            items: I,
            first: R,
            f: &(dyn Fn(I::Item) -> R + Sync),
            merge: &(dyn Fn(R, R) -> R + Sync),
        ) -> R {
            items.map(f).reduce(|| first, merge)
        }
        let merge = |a, b| fpenv::ieee(|| merge(a, b));
        shared(self.0, first, &|item| fpenv::ieee(|| f(item)), &merge)
    }

    /// Whether `f` holds for some item.
    pub(crate) fn any(self, f: impl Fn(I::Item) -> bool + Sync + Send) -> bool {
        fn shared<I: IndexedParallelIterator>(
            items: I,
            f: &(dyn Fn(I::Item) -> bool + Sync),
        ) -> bool {
            items.any(f)
        }
        shared(self.0, &|item| fpenv::ieee(|| f(item)))
    }
}

/// The error of one item, given scratch memory that may be there already.
type WithScratch<'a, S, Item, E> = dyn Fn(&mut Option<S>, Item) -> Option<E> + Sync + 'a;

/// The error of the first item that has one.
fn first_error<I: IndexedParallelIterator, E: Send>(
    items: I,
    f: &(dyn Fn(I::Item) -> Option<E> + Sync),
) -> Result<(), E> {
    items.map(f).find_map_first(|error| error).map_or(Ok(()), Err)
}
