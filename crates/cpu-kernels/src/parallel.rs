//! Distribution of work to threads, with results that do not depend on the number of threads.
//!
//! Work is cut into pieces, of which no element depends on the borders. The thread that computes a
//! piece decides neither its value nor its place. Small work stays on the calling thread.
//!
//! Other libraries share the pool and may have switched a thread to flush-to-zero. This module is
//! the crate's only user of rayon, so that all work on pool threads runs under [`fpenv::ieee`].
//!
//! The module uses rayon's scopes, which decide the thread for each piece, but not rayon's
//! iterators: they are compiled for each kind of item and result, some forty functions each time.
//! Splitting is done here, and a function of one item is a `&dyn Fn`: one call serves thousands of
//! elements.

mod awake;
mod outside;

use std::iter;
use std::ops::{Range, RangeFrom};
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use awake::Cpu;
use parking_lot::Mutex;
use samebits_numerics::fpenv;

use crate::{Result, memory};

/// The number of elements per piece: large enough to justify the hand-over, small enough to balance
/// the load.
pub(crate) const CHUNK: usize = 1 << 14;

/// The largest number of threads that share work. The time that rayon takes to start threads grows
/// with the square of their number, and the system may end the process before they have started.
pub const MOST_THREADS: usize = 1024;

/// Starts the global pool of the process with [`MOST_THREADS`] threads if the environment requests
/// more. Does nothing if the program has already started it.
pub(crate) fn bound_the_pool() {
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse().ok());
    if let Some(asked) = asked.filter(|&asked: &usize| asked > MOST_THREADS) {
        tracing::warn!("RAYON_NUM_THREADS is {asked}: {MOST_THREADS} threads are started");
        let _ = rayon::ThreadPoolBuilder::new().num_threads(MOST_THREADS).build_global();
    }
}

/// Returns the number of threads that share work. Use it only to choose between computations with
/// the same bits.
#[expect(clippy::disallowed_methods, reason = "decides who computes, and no bit")]
pub(crate) fn threads() -> usize {
    rayon::current_num_threads()
}

/// Calls `f(start, piece)` for each piece of `out`.
pub(crate) fn pieces<T: Send>(out: &mut [T], f: impl Fn(usize, &mut [T]) + Sync + Send) {
    costly_pieces(1, out, f);
}

/// Calls [`pieces`] for elements that each take as long as `cost` simple ones.
pub(crate) fn costly_pieces<T: Send>(
    cost: usize,
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) + Sync + Send,
) {
    pieces_of(even(out.len(), CHUNK / cost, LINE), out, f);
}

/// The number of elements at whose multiples pieces begin, so that no cache line is in two.
pub(crate) const LINE: usize = 64;

/// Returns the size of about `size` elements, in multiples of `unit`, that gives each thread as many
/// pieces of `len` elements as the others. Of many pieces none is left for long.
pub(crate) fn even(len: usize, size: usize, unit: usize) -> usize {
    let count = len.div_ceil(size);
    let evenly = count.next_multiple_of(threads());
    if count <= 1 || evenly > 2 * count {
        return size;
    }
    len.div_ceil(evenly).next_multiple_of(unit)
}

/// Calls `f(start, piece)` for pieces of about [`CHUNK`] elements that are whole rows of `width`.
pub(crate) fn rows<T: Send>(
    width: usize,
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) + Sync + Send,
) {
    let width = width.max(1);
    pieces_of(several(out.len() / width, width) * width, out, f);
}

/// Returns the number of rows of `width` in pieces of about [`CHUNK`] elements, of `count` rows.
pub(crate) fn several(count: usize, width: usize) -> usize {
    even(count, CHUNK.div_ceil(width.max(1)), 1)
}

/// Calls `f(start, piece)` for pieces of `size` elements.
pub(crate) fn pieces_of<T: Send>(
    size: usize,
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) + Sync + Send,
) {
    fn shared<T: Send>(size: usize, out: &mut [T], f: &(dyn Fn(usize, &mut [T]) + Sync)) {
        match out.len() {
            0 => {}
            len if len <= size => fpenv::ieee(|| f(0, out)),
            _ => chunks_mut(out, size).enumerate().for_each(|(i, piece)| f(i * size, piece)),
        }
    }
    shared(size, out, &f);
}

/// Calls [`pieces`] with an `f` that can fail; returns the error of the first piece that failed.
pub(crate) fn try_pieces<T: Send>(
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) -> Result<()> + Sync + Send,
) -> Result<()> {
    try_pieces_of(even(out.len(), CHUNK, LINE), out, f)
}

/// Calls [`rows`] with an `f` that can fail; returns the error of the first piece that failed.
pub(crate) fn try_rows<T: Send>(
    width: usize,
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) -> Result<()> + Sync + Send,
) -> Result<()> {
    try_costly_rows(1, width, out, f)
}

/// Calls [`try_rows`] for elements that each take as long as `cost` simple ones.
pub(crate) fn try_costly_rows<T: Send>(
    cost: usize,
    width: usize,
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) -> Result<()> + Sync + Send,
) -> Result<()> {
    let width = width.max(1);
    let size = even(out.len() / width, (CHUNK / cost).div_ceil(width), 1) * width;
    try_pieces_of(size, out, f)
}

/// Calls [`pieces_of`] with an `f` that can fail; returns the error of the first piece that failed.
pub(crate) fn try_pieces_of<T: Send>(
    size: usize,
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) -> Result<()> + Sync + Send,
) -> Result<()> {
    fn shared<T: Send>(
        size: usize,
        out: &mut [T],
        f: &(dyn Fn(usize, &mut [T]) -> Result<()> + Sync),
    ) -> Result<()> {
        match out.len() {
            0 => Ok(()),
            len if len <= size => fpenv::ieee(|| f(0, out)),
            _ => chunks_mut(out, size).enumerate().try_for_each(|(i, piece)| f(i * size, piece)),
        }
    }
    shared(size, out, &f)
}

/// Returns `f(i)` for each `i` below `n`, in order. Runs in parallel if `work`, the total number of
/// elements, is large enough. If calls fail, returns the error of the lowest `i`; if the results of
/// `op` do not fit into memory, returns that error.
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

/// Calls `f(i, ..)` for each `i` below `n` with part `i` of each output. The number beside an
/// output is the size of its parts, and may be 0. If all sizes are 0, nothing is called: `n` may
/// then be too large to loop over. Runs in parallel if `work`, the total number of elements, is
/// large enough.
pub(crate) fn try_parts<T: Send, const N: usize>(
    op: &'static str,
    n: usize,
    work: usize,
    mut outs: [(&mut [T], usize); N],
    f: impl Fn(usize, [&mut [T]; N]) -> Result<()> + Sync + Send,
) -> Result<()> {
    if outs.iter().all(|(_, size)| *size == 0) {
        return Ok(());
    }
    let several = if work <= CHUNK { n } else { n.saturating_mul(CHUNK) / work };
    let several = even(n, several.max(1), 1);
    let mut all = memory::with_capacity(op, n.div_ceil(several))?;
    for first in (0..n).step_by(several) {
        let last = n.min(first + several);
        all.push(Some((first..last, take(&mut outs, last - first))));
    }
    let sizes = outs.map(|(_, size)| size);
    let run = |(range, parts): (Range<usize>, [&mut [T]; N])| {
        let mut sizes = sizes.into_iter();
        let mut left = parts.map(|part| (part, sizes.next().unwrap_or(0)));
        range.into_iter().try_for_each(|i| f(i, take(&mut left, 1)))
    };
    if all.len() > 1 {
        return tasks(&mut all).try_for_each(run);
    }
    all.into_iter().flatten().try_for_each(|task| fpenv::ieee(|| run(task)))
}

/// Splits the first `count` parts off each output and returns them.
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

/// Sorts items that are [`Ord`], which excludes floating-point numbers, so no arithmetic is
/// involved.
pub(crate) fn sort_unstable<T: Ord + Send>(items: &mut [T]) {
    /// The number of items that one thread sorts.
    const FEW: usize = 1 << 13;
    fn sort<T: Ord + Send>(items: &mut [T], parts: usize) {
        if parts == 1 || items.len() <= FEW {
            return items.sort_unstable();
        }
        let (lower, _, higher) = items.select_nth_unstable(items.len() / 2);
        rayon::join(|| sort(lower, parts / 2), || sort(higher, parts / 2));
    }
    sort(items, threads().next_power_of_two());
}

/// Returns pieces of `size` elements; the last one may be shorter.
pub(crate) fn chunks<T: Sync>(slice: &[T], size: usize) -> Shared<Chunks<'_, T>> {
    items(Chunks { slice, size })
}

/// Returns mutable pieces of `size` elements; the last one may be shorter.
pub(crate) fn chunks_mut<T: Send>(slice: &mut [T], size: usize) -> Shared<ChunksMut<'_, T>> {
    items(ChunksMut { slice, size })
}

/// Returns pieces of `size` elements, counted from the end; the first one of the slice may be
/// shorter.
pub(crate) fn rchunks<T: Sync>(slice: &[T], size: usize) -> Shared<RChunks<'_, T>> {
    items(RChunks { slice, size })
}

/// Returns mutable pieces of `size` elements, counted from the end; the first one of the slice may
/// be shorter.
pub(crate) fn rchunks_mut<T: Send>(slice: &mut [T], size: usize) -> Shared<RChunksMut<'_, T>> {
    items(RChunksMut { slice, size })
}

/// Returns the contents of the slots, which are taken out of them.
pub(crate) fn tasks<T: Send>(slots: &mut [Option<T>]) -> Shared<Tasks<'_, T>> {
    items(Tasks(slots))
}

/// Runs each task.
pub(crate) fn run_tasks(all: Vec<Box<dyn FnOnce() + Send + '_>>) {
    let mut slots: Vec<_> = all.into_iter().map(Some).collect();
    tasks(&mut slots).for_each(|task| task());
}

/// Returns the items of a range or a slice.
pub(crate) fn items<I: Items>(items: I) -> Shared<I> {
    Shared { items, at_least: 1, at_most: usize::MAX }
}

/// Items that can be cut in two.
pub(crate) trait Items: Send + Sized {
    /// The argument of the function called for each item.
    type Item;
    /// An iterator over the items in order.
    type Iter: Iterator<Item = Self::Item>;

    fn count(&self) -> usize;
    /// Splits into the first `index` items and the others.
    fn split_at(self, index: usize) -> (Self, Self);
    fn each(self) -> Self::Iter;
}

impl Items for Range<usize> {
    type Item = usize;
    type Iter = Range<usize>;

    fn count(&self) -> usize {
        self.len()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let middle = self.start + index;
        (self.start..middle, middle..self.end)
    }

    fn each(self) -> Range<usize> {
        self
    }
}

impl<'a, T: Sync> Items for &'a [T] {
    type Item = &'a T;
    type Iter = slice::Iter<'a, T>;

    fn count(&self) -> usize {
        self.len()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        <[T]>::split_at(self, index)
    }

    fn each(self) -> slice::Iter<'a, T> {
        self.iter()
    }
}

/// See [`tasks`].
pub(crate) struct Tasks<'a, T>(&'a mut [Option<T>]);

impl<'a, T: Send> Items for Tasks<'a, T> {
    type Item = T;
    type Iter = iter::FilterMap<slice::IterMut<'a, Option<T>>, fn(&mut Option<T>) -> Option<T>>;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let (left, right) = self.0.split_at_mut(index);
        (Tasks(left), Tasks(right))
    }

    fn each(self) -> Self::Iter {
        self.0.iter_mut().filter_map(Option::take)
    }
}

/// Defines a type of pieces, from its name, the bound on its elements, the functions that make
/// pieces and that cut, and true if pieces count from the end.
macro_rules! pieces {
    ($($name:ident, [$($slice:tt)+], $bound:ident, $pieces:ident, $split:ident, $reversed:literal;)*) => {
        $(
            /// Pieces of a slice.
            pub(crate) struct $name<'a, T> {
                slice: $($slice)+ [T],
                size: usize,
            }

            impl<'a, T: $bound> Items for $name<'a, T> {
                type Item = $($slice)+ [T];
                type Iter = slice::$name<'a, T>;

                fn count(&self) -> usize {
                    self.slice.len().div_ceil(self.size)
                }

                fn split_at(self, index: usize) -> (Self, Self) {
                    let $name { slice, size } = self;
                    let elements = index * size;
                    if $reversed {
                        let (right, left) = slice.$split(slice.len().saturating_sub(elements));
                        ($name { slice: left, size }, $name { slice: right, size })
                    } else {
                        let (left, right) = slice.$split(slice.len().min(elements));
                        ($name { slice: left, size }, $name { slice: right, size })
                    }
                }

                fn each(self) -> Self::Iter {
                    self.slice.$pieces(self.size)
                }
            }
        )*
    };
}

pieces! {
    Chunks, [&'a], Sync, chunks, split_at, false;
    ChunksMut, [&'a mut], Send, chunks_mut, split_at_mut, false;
    RChunks, [&'a], Sync, rchunks, split_at, true;
    RChunksMut, [&'a mut], Send, rchunks_mut, split_at_mut, true;
}

/// Pairs of items, as many as the shorter of the two has.
pub(crate) struct Zip<I, J>(I, J);

impl<I: Items, J: Items> Items for Zip<I, J> {
    type Item = (I::Item, J::Item);
    type Iter = iter::Zip<I::Iter, J::Iter>;

    fn count(&self) -> usize {
        self.0.count().min(self.1.count())
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let ((a, b), (c, d)) = (self.0.split_at(index), self.1.split_at(index));
        (Zip(a, c), Zip(b, d))
    }

    fn each(self) -> Self::Iter {
        self.0.each().zip(self.1.each())
    }
}

/// Items with their numbers, which start from that of the first item.
pub(crate) struct Enumerate<I>(usize, I);

impl<I: Items> Items for Enumerate<I> {
    type Item = (usize, I::Item);
    type Iter = iter::Zip<RangeFrom<usize>, I::Iter>;

    fn count(&self) -> usize {
        self.1.count()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let (left, right) = self.1.split_at(index);
        (Enumerate(self.0, left), Enumerate(self.0 + index, right))
    }

    fn each(self) -> Self::Iter {
        (self.0..).zip(self.1.each())
    }
}

/// Items that threads share. Their computation runs under [`fpenv::ieee`].
#[must_use]
pub(crate) struct Shared<I> {
    items: I,
    at_least: usize,
    at_most: usize,
}

impl<I: Items> Shared<I> {
    /// Pairs these items with others; the excess of the longer one is ignored.
    pub(crate) fn zip<J: Items>(self, other: Shared<J>) -> Shared<Zip<I, J>> {
        Shared {
            items: Zip(self.items, other.items),
            at_least: self.at_least.max(other.at_least),
            at_most: self.at_most.min(other.at_most),
        }
    }

    /// Pairs each item with its number.
    pub(crate) fn enumerate(self) -> Shared<Enumerate<I>> {
        let Shared { items, at_least, at_most } = self;
        Shared { items: Enumerate(0, items), at_least, at_most }
    }

    /// Sets the smallest number of items that a thread takes at a time.
    pub(crate) fn at_least(self, count: usize) -> Shared<I> {
        Shared { at_least: count.max(1), ..self }
    }

    /// Sets the largest number of items that a thread takes at a time.
    pub(crate) fn at_most(self, count: usize) -> Shared<I> {
        Shared { at_most: count.max(1), ..self }
    }

    /// Calls `run` under [`fpenv::ieee`] for parts that together are all items.
    fn parts(self, run: &(dyn Fn(I) + Sync)) {
        let run = &|part| fpenv::ieee(|| run(part));
        let threads = threads();
        // A caller outside the pool would wait while its only thread wakes up and works.
        if threads == 1 {
            return run(self.items);
        }
        let Shared { items, at_least, at_most } = self;
        let count = items.count();
        if count / 2 < at_least {
            return run(items);
        }
        if rayon::current_thread_index().is_some() {
            let left = threads.max(count / at_most);
            split(items, false, Splits { left, at_least }, run);
        } else {
            let parts = (outside::PARTS * threads).max(count / at_most).min(count / at_least);
            outside::parts(items, parts, threads, run);
        }
        awake::after_call(threads);
    }

    pub(crate) fn for_each(self, f: impl Fn(I::Item) + Sync + Send) {
        fn shared<I: Items>(items: Shared<I>, f: &(dyn Fn(I::Item) + Sync)) {
            items.parts(&|part| part.each().for_each(f));
        }
        shared(self, &f);
    }

    /// Calls `f` for the items until one fails. If several fail, returns the error of the first
    /// item, whichever thread was faster.
    pub(crate) fn try_for_each<E: Send>(
        self,
        f: impl Fn(I::Item) -> Result<(), E> + Sync + Send,
    ) -> Result<(), E> {
        self.first_error(&|_: &mut Option<()>, item| f(item).err())
    }

    /// Calls [`try_for_each`](Self::try_for_each) with scratch memory, which `new` creates for each
    /// part of the items. The result of `f` must not depend on the contents of the scratch memory.
    pub(crate) fn try_for_each_with<S, E: Send>(
        self,
        new: impl Fn() -> Result<S, E> + Sync + Send,
        f: impl Fn(&mut S, I::Item) -> Result<(), E> + Sync + Send,
    ) -> Result<(), E> {
        let run = |scratch: &mut Option<S>, item| {
            let scratch = match scratch {
                Some(scratch) => scratch,
                none => none.insert(new()?),
            };
            f(scratch, item)
        };
        self.first_error(&|scratch, item| run(scratch, item).err())
    }

    /// Returns the error of the first item that fails.
    fn first_error<S, E: Send>(self, f: &WithScratch<'_, S, I::Item, E>) -> Result<(), E> {
        // The number of the first item known to fail; later items are skipped.
        let lowest = AtomicUsize::new(usize::MAX);
        let error = Mutex::new(None);
        self.enumerate().parts(&|part| {
            let mut scratch = None;
            for (number, item) in part.each() {
                if number > lowest.load(Ordering::Relaxed) {
                    return;
                }
                if let Some(found) = f(&mut scratch, item) {
                    let mut error = error.lock();
                    if lowest.fetch_min(number, Ordering::Relaxed) > number {
                        *error = Some(found);
                    }
                    return;
                }
            }
        });
        error.into_inner().map_or(Ok(()), Err)
    }

    /// Returns `f` of each item, in order.
    pub(crate) fn collect<R: Send>(
        self,
        op: &'static str,
        f: impl Fn(I::Item) -> R + Sync + Send,
    ) -> Result<Vec<R>> {
        fn shared<I: Items, R: Send>(
            op: &'static str,
            items: Shared<I>,
            f: &(dyn Fn(I::Item) -> R + Sync),
        ) -> Result<Vec<R>> {
            let count = items.items.count();
            let mut results = memory::with_capacity(op, count)?;
            results.resize_with(count, || None);
            items.zip(chunks_mut(&mut results, 1)).parts(&|part| {
                part.each().for_each(|(item, result)| result[0] = Some(f(item)));
            });
            let results = results.into_iter();
            memory::collected(op, results.map(|result| result.expect("every item has a result")))
        }
        shared(op, self, &f)
    }

    /// Returns `f` of each item, in order, or the error of the first item that fails.
    pub(crate) fn try_collect<R: Send>(
        self,
        op: &'static str,
        f: impl Fn(I::Item) -> Result<R> + Sync + Send,
    ) -> Result<Vec<R>> {
        self.collect(op, f)?.into_iter().collect()
    }

    /// Merges `f` of each item, and `first`, which must be neutral. Threads merge their parts, so
    /// `merge` must be associative and commutative.
    pub(crate) fn reduce<R: Copy + Send + Sync>(
        self,
        first: R,
        f: impl Fn(I::Item) -> R + Sync + Send,
        merge: impl Fn(R, R) -> R + Sync + Send,
    ) -> R {
        fn shared<I: Items, R: Copy + Send + Sync>(
            items: Shared<I>,
            first: R,
            f: &(dyn Fn(I::Item) -> R + Sync),
            merge: &(dyn Fn(R, R) -> R + Sync),
        ) -> R {
            let total = Mutex::new(first);
            items.parts(&|part| {
                let merged = part.each().map(f).fold(first, merge);
                let mut total = total.lock();
                *total = merge(*total, merged);
            });
            total.into_inner()
        }
        shared(self, first, &f, &merge)
    }

    /// Returns true if `f` holds for any item.
    pub(crate) fn any(self, f: impl Fn(I::Item) -> bool + Sync + Send) -> bool {
        fn shared<I: Items>(items: Shared<I>, f: &(dyn Fn(I::Item) -> bool + Sync)) -> bool {
            let found = AtomicBool::new(false);
            items.parts(&|part| {
                if part.each().any(|item| found.load(Ordering::Relaxed) || f(item)) {
                    found.store(true, Ordering::Relaxed);
                }
            });
            found.into_inner()
        }
        shared(self, &f)
    }
}

/// Returns the error of one item, given scratch memory that may already exist.
type WithScratch<'a, S, Item, E> = dyn Fn(&mut Option<S>, Item) -> Option<E> + Sync + 'a;

/// The number of times that items are still cut in two. As in rayon's iterators, a part that
/// another thread took is cut further, because there are idle threads.
#[derive(Clone, Copy)]
struct Splits {
    left: usize,
    at_least: usize,
}

impl Splits {
    fn another(&mut self, count: usize, stolen: bool) -> bool {
        let more = stolen || self.left > 0;
        self.left = if stolen { threads().max(self.left / 2) } else { self.left / 2 };
        more && count / 2 >= self.at_least
    }
}

fn split<I: Items>(items: I, stolen: bool, mut splits: Splits, run: &(dyn Fn(I) + Sync)) {
    let count = items.count();
    if !splits.another(count, stolen) {
        return run(items);
    }
    let (left, right) = items.split_at(count / 2);
    let (mut left, mut right) = (Some(left), Some(right));
    let half = |items: &mut Option<I>, stolen| {
        if let Some(items) = items.take() {
            split(items, stolen, splits, run);
        }
    };
    join(&mut |stolen| half(&mut left, stolen), &mut |stolen| half(&mut right, stolen));
}

/// One half of some work; its argument is true if another thread took it.
type Half<'a> = dyn FnMut(bool) + Send + 'a;

/// Runs both halves, in parallel if another thread is free at once.
fn join(left: &mut Half<'_>, right: &mut Half<'_>) {
    let caller = rayon::current_thread_index();
    let cpu = Cpu::current();
    let ended = AtomicUsize::new(0);
    fpenv::keep(|| {
        rayon::in_place_scope(|scope| {
            scope.spawn(|_| {
                awake::counted(&ended, || {
                    let stolen = rayon::current_thread_index() != caller;
                    if stolen {
                        cpu.leave();
                    }
                    right(stolen);
                });
            });
            awake::at_work(|| {
                left(false);
                awake::wait(&ended, 1);
            });
        });
    });
}
