//! Visits to sources in ascending order, output by output, on any number of threads.
//!
//! Sources are grouped by the stretch of the output that they go to, chunk by chunk and in order.
//! Each stretch then belongs to one task: there are no atomics, and its part of the output stays in
//! the cache. The division of the work changes only the order between outputs.

use super::{Addends, Destinations, Elements};
use crate::arch::TileGrid;
use crate::{Float, Result, memory, parallel};
use bytemuck::{Pod, Zeroable};
use samebits_numerics::fpenv;
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::buffer::Buffer;
use std::ops::Range;

/// The number of sources grouped together: the groups of one chunk fit the second-level cache.
const CHUNK: usize = 1 << 15;
/// The number of output elements of one stretch, in single elements and in rows: their
/// accumulators, or the numbers of their sources, fit the second-level cache.
const STRETCH: usize = 1 << 15;
const WIDE_STRETCH: usize = 1 << 16;
/// The largest number of stretches, so that a group of a chunk holds more than a few sources.
const MAX_STRETCHES: usize = 1024;
/// The product of sources and width below which threads cost more than they gain.
const SMALL: usize = 1 << 14;

/// The number of single sources from which threads share them.
const PARALLEL: usize = 1 << 16;

/// The width from which rows are long, and the product of sources and width that is work for all
/// threads.
const LONG: usize = 8;
const MANY: usize = 1 << 18;
/// The number of stretches for each thread where there is work for all.
const SHARES: usize = 16;

/// One source of a group: its output row inside the stretch, and what the visitor packed.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) row: u32,
    pub(crate) packed: u32,
}

/// The operation on the sources of one stretch of the output.
pub(crate) trait Visitor: Sync {
    /// The element type of the output.
    type Element: Copy + Send;
    /// The state kept between the sources of a stretch.
    type State;

    /// Starts a stretch.
    ///
    /// # Errors
    ///
    /// All three: [`OutOfMemory`](crate::Error::OutOfMemory).
    fn start(&self, out: &mut [Self::Element]) -> Result<Self::State>;

    /// True if [`count`](Visitor::count) must see all sources of a stretch before the first visit.
    const COUNTS: bool = false;

    /// Counts sources.
    fn count(&self, _state: &mut Self::State, _entries: &[Entry]) {}

    /// Replaces the stored part of entries of consecutive sources, which initially is the distance of each
    /// from `base`.
    fn pack(&self, _base: usize, _entries: &mut [Entry]) {}

    /// Visits some sources. Each row receives its sources in ascending order.
    fn visit(
        &self,
        state: &mut Self::State,
        out: &mut [Self::Element],
        base: usize,
        entries: &[Entry],
    ) -> Result<()>;

    /// Ends a stretch.
    fn finish(&self, state: Self::State, out: &mut [Self::Element]) -> Result<()>;
}

/// Passes every source to the visitor; those of one output row come in ascending order.
///
/// # Errors
///
/// As [`Destinations::fill`], and then the output is unchanged; the errors of the visitor.
pub(crate) fn visit_rows<V: Visitor>(
    out: &mut [V::Element],
    width: usize,
    destinations: &dyn Destinations,
    visitor: &V,
) -> Result<()> {
    fpenv::ieee(|| visit(out, width, destinations, visitor))
}

fn visit<V: Visitor>(
    out: &mut [V::Element],
    width: usize,
    destinations: &dyn Destinations,
    visitor: &V,
) -> Result<()> {
    let n = destinations.count();
    if width == 0 || out.is_empty() {
        return destinations.check(0..n);
    }
    let rows = out.len() / width;
    let elements = if width == 1 { STRETCH } else { WIDE_STRETCH };
    let stretch = (elements / width).max(rows.div_ceil(MAX_STRETCHES)).max(1).next_power_of_two();
    let row_fits = u32::try_from(rows).is_ok();
    let pack = |base: usize, entries: &mut [Entry]| visitor.pack(base, entries);
    let is_small = n.saturating_mul(width) <= SMALL;
    let slab = if is_small { None } else { slab_within(stretch, rows, destinations) };
    // Long rows take longer to add than to group. If few rows get most of the sources, threads share them
    // only if stretches are short.
    let is_shared = n.saturating_mul(width) >= MANY && (width >= LONG || stretch < rows);
    let stretch = match rows.div_ceil(SHARES * parallel::threads()).next_power_of_two() {
        share if is_shared => stretch.min(share),
        _ => stretch,
    };
    let strips = if width == 1 { strips_within(destinations) } else { None };
    if row_fits && slab.is_none() && (stretch >= rows && strips.is_none() || is_small) {
        // A single batch is checked before it is visited.
        if n > BATCH {
            destinations.check(0..n)?;
        }
        return visit_stretch(out, visitor, |visit| {
            batches_of_entries(destinations, 0..n, 0, &pack, visit)
        });
    }
    if let Some([sources, slab]) = slab {
        // The sources of some slabs are all that go to their rows, so they need no groups.
        let most = (stretch / slab).min(CHUNK / sources).max(1);
        let slab = [shared_evenly(rows / slab, most), sources, slab];
        return slabs_apart(out, width, destinations, slab, |out, first, sources| {
            visit_stretch(out, visitor, |visit| {
                batches_of_entries(destinations, sources.clone(), first, &pack, visit)
            })
        });
    }
    if let Some((lines, strip)) = strips {
        destinations.check(0..n)?;
        return visit_strips(out, lines, strip, destinations.op(), visitor);
    }
    let stretches = rows.div_ceil(stretch);
    let mut groups = Groups::new(destinations, stretches)?;
    groups.fill(destinations, stretch.trailing_zeros(), &pack)?;
    let outs = parallel::chunks_mut(out, stretch * width).enumerate();
    outs.at_most(stretches.div_ceil(SHARES * parallel::threads())).try_for_each(|(number, out)| {
        visit_stretch(out, visitor, |visit| {
            groups.of(number).try_for_each(|(base, entries)| visit(base, entries))
        })
    })
}

/// Returns the number of sources and of rows of a slab, if there are several of at most `most` rows, or
/// one for each thread of some times as many: grouping takes longer than a larger cache.
fn slab_within(most: usize, rows: usize, destinations: &dyn Destinations) -> Option<[usize; 2]> {
    let [sources, slab] = destinations.slab()?;
    let most = if rows >= slab.saturating_mul(parallel::threads()) { 4 * most } else { most };
    (sources > 0 && slab < rows && slab <= most).then_some([sources, slab])
}

/// Returns the number of slabs, at most `most`, that one thread takes at a time.
pub(super) fn shared_evenly(slabs: usize, most: usize) -> usize {
    most.min(slabs.div_ceil(parallel::threads()))
}

/// Calls `each` for `together` slabs of the output at a time, with their first row and the sources
/// that are sent there, after all indices are checked. Each slab has `rows` output rows and as many
/// `sources`.
///
/// # Errors
///
/// As [`Destinations::fill`], and then the output is unchanged; the errors of `each`.
pub(super) fn slabs_apart<T: Send>(
    out: &mut [T],
    width: usize,
    destinations: &dyn Destinations,
    [together, sources, rows]: [usize; 3],
    each: impl Fn(&mut [T], usize, Range<usize>) -> Result<()> + Sync + Send,
) -> Result<()> {
    let n = destinations.count();
    let range = |task: usize| {
        let first = task * together * sources;
        first.min(n)..n.min(first + together * sources)
    };
    let tasks = out.len().div_ceil(together * rows * width);
    parallel::items(0..tasks).try_for_each(|task| destinations.check(range(task)))?;
    let outs = parallel::chunks_mut(out, together * rows * width).enumerate();
    outs.try_for_each(|(task, out)| each(out, task * together * rows, range(task)))
}

/// The number of neighbouring lines from which they are cut into strips, and of which strips are multiples.
const LINES: usize = 64;
const STRIP: usize = 16;

/// Returns the lines of elements, if grouping takes longer than to visit strips of neighbouring lines, which
/// no source leaves, and the width of these strips.
pub(super) fn strips_within(destinations: &dyn Destinations) -> Option<(Elements<'_>, usize)> {
    let lines = destinations.lines()?;
    let Elements { index, n, size, inner, .. } = lines;
    let most = (STRETCH / size.max(1)).max(STRIP);
    if index.len() <= PARALLEL || inner < LINES || 8 * n < size || most * size > 4 * STRETCH {
        return None;
    }
    let slabs = index.len() / (n * inner);
    let shared = inner.div_ceil(parallel::threads().div_ceil(slabs)).next_multiple_of(STRIP);
    Some((lines, most.min(shared) / STRIP * STRIP))
}

/// Visits the sources of each strip of `strip` lines. All indices must be valid.
///
/// # Errors
///
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory); the errors of the visitor.
pub(super) fn visit_strips<V: Visitor>(
    out: &mut [V::Element],
    Elements { index, n, size, inner, .. }: Elements<'_>,
    strip: usize,
    op: &'static str,
    visitor: &V,
) -> Result<()> {
    let slabs = index.len() / (n * inner);
    let grid = TileGrid::new(out, slabs, (size, inner), (1, size, strip));
    grid.try_for_each(|slab, _, line, mut tile| {
        let width = tile.columns;
        let mut rows = memory::with_capacity(op, memory::volume(op, &[size, width])?)?;
        for row in 0..size {
            rows.extend_from_slice(tile.row(0, row, 0, width));
        }
        visit_stretch(&mut rows, visitor, |visit| {
            let mut entries = [Entry::default(); BATCH];
            (0..n).try_for_each(|k| {
                let first = (slab * n + k) * inner + line;
                for (part, index) in index[first..][..width].chunks(BATCH).enumerate() {
                    let (column, entries) = (part * BATCH, &mut entries[..index.len()]);
                    simd::dispatch(EnterLines { index, width, column, entries });
                    visitor.pack(first + column, entries);
                    visit(first + column, entries)?;
                }
                Ok(())
            })
        })?;
        for (row, from) in rows.chunks_exact(width).enumerate() {
            tile.row(0, row, 0, width).copy_from_slice(from);
        }
        Ok(())
    })
}

/// Arguments of a kernel: makes entries of neighbouring lines in a strip of `width`, from number `column` on.
struct EnterLines<'a> {
    index: &'a [i64],
    width: usize,
    column: usize,
    entries: &'a mut [Entry],
}

impl Kernel for EnterLines<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let EnterLines { index, width, column, entries } = self;
        for (offset, (entry, &i)) in (0..).zip(entries.iter_mut().zip(index)) {
            let row = (i as usize * width + column) as u32 + offset;
            *entry = Entry { row, packed: offset };
        }
    }
}

/// A consumer of sources: it takes the number of the first source, and the entries counted from it.
type Visit<'a> = dyn FnMut(usize, &[Entry]) -> Result<()> + 'a;

/// A function with the signature of [`Visitor::pack`].
type Pack<'a> = dyn Fn(usize, &mut [Entry]) + Sync + 'a;

/// Passes to `visitor` the sources of one stretch of the output, which `sources` provides.
fn visit_stretch<V: Visitor>(
    out: &mut [V::Element],
    visitor: &V,
    sources: impl Fn(&mut Visit<'_>) -> Result<()>,
) -> Result<()> {
    let mut state = visitor.start(out)?;
    if V::COUNTS {
        sources(&mut |_, entries| {
            visitor.count(&mut state, entries);
            Ok(())
        })?;
    }
    sources(&mut |base, entries| {
        simd::dispatch(VisitSome { visitor, state: &mut state, out, base, entries })
    })?;
    simd::dispatch(Finish { visitor, state, out })
}

/// Adds to each output row its sources in ascending order, one rounding each, starting from its old
/// value, or from +0 if the output is `fresh`; NaN results are canonical.
pub(crate) fn add_rows<T: Float>(
    out: &mut [T],
    fresh: bool,
    width: usize,
    destinations: &dyn Destinations,
    addends: &impl Addends<T>,
) -> Result<()> {
    let n = destinations.count();
    if width == 1 && !out.is_empty() {
        let slab = slab_within(STRETCH, out.len(), destinations).filter(|_| n > SMALL);
        if let Some([sources, slab]) = slab {
            let most = (STRETCH / slab).min(CHUNK / sources).max(1);
            let slab = [shared_evenly(out.len() / slab, most), sources, slab];
            return fpenv::ieee(|| {
                slabs_apart(out, width, destinations, slab, |out, first, sources| {
                    add_singles(out, fresh, destinations, sources, first, addends)
                })
            });
        }
        if out.len() <= STRETCH && strips_within(destinations).is_none() {
            destinations.check(0..n)?;
            return fpenv::ieee(|| add_singles(out, fresh, destinations, 0..n, 0, addends));
        }
    }
    struct Add<'a, A, T>(&'a A, usize, bool, std::marker::PhantomData<fn() -> T>);
    impl<T: Float, A: Addends<T>> Visitor for Add<'_, A, T> {
        type Element = T;
        type State = ();
        #[inline(always)]
        fn start(&self, out: &mut [T]) -> Result<()> {
            if self.2 {
                out.fill(T::ZERO);
            }
            Ok(())
        }
        #[inline(always)]
        fn visit(&self, (): &mut (), out: &mut [T], base: usize, entries: &[Entry]) -> Result<()> {
            let width = self.1;
            for entry in entries {
                let source = base + entry.packed as usize;
                let sums = &mut out[entry.row as usize * width..][..width];
                for (sum, &x) in sums.iter_mut().zip(self.0.row(source, 0, width)) {
                    *sum = *sum + self.0.form(source, x);
                }
            }
            Ok(())
        }
        #[inline(always)]
        fn finish(&self, (): (), out: &mut [T]) -> Result<()> {
            for sum in out {
                *sum = sum.canonical();
            }
            Ok(())
        }
    }
    visit_rows(out, width, destinations, &Add(addends, width, fresh, std::marker::PhantomData))
}

/// Computes [`add_rows`] for rows of one element that fit a cache, from row `first` on, and some sources,
/// all valid.
fn add_singles<T: Float>(
    out: &mut [T],
    fresh: bool,
    destinations: &dyn Destinations,
    sources: Range<usize>,
    first: usize,
    addends: &impl Addends<T>,
) -> Result<()> {
    if fresh {
        out.fill(T::ZERO);
    }
    Order::batches(destinations, sources, |start, rows| {
        addends.for_singles(start, rows.iter(), |row, addend| {
            let sum = &mut out[row - first];
            *sum = *sum + addend;
        });
        Ok(())
    })?;
    out.iter_mut().for_each(|sum| *sum = sum.canonical());
    Ok(())
}

/// The number of sources whose output rows are looked up together.
const BATCH: usize = 512;

/// The output rows of all sources, batch by batch.
pub(crate) struct Order;

impl Order {
    /// Calls `f(first source, rows)` for each batch of a range.
    pub(crate) fn batches(
        destinations: &dyn Destinations,
        sources: Range<usize>,
        mut f: impl FnMut(usize, &[usize]) -> Result<()>,
    ) -> Result<()> {
        let mut rows = [0; BATCH];
        for start in sources.clone().step_by(BATCH) {
            let rows = &mut rows[..BATCH.min(sources.end - start)];
            destinations.fill(start, rows)?;
            f(start, rows)?;
        }
        Ok(())
    }
}

/// Passes sources to `visit`, batch by batch, with rows that count from `row` on.
fn batches_of_entries(
    destinations: &dyn Destinations,
    sources: Range<usize>,
    row: usize,
    pack: &Pack<'_>,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let mut entries = [Entry::default(); BATCH];
    Order::batches(destinations, sources, |base, rows| {
        let entries = &mut entries[..rows.len()];
        simd::dispatch(Enter { rows, row, mask: usize::MAX, first: 0, entries });
        pack(base, entries);
        visit(base, entries)
    })
}

/// Arguments of a kernel: makes entries from rows, counted from `row` on, or from the masked bits of
/// row numbers, for the sources from `first` on.
struct Enter<'a> {
    rows: &'a [usize],
    row: usize,
    mask: usize,
    first: u32,
    entries: &'a mut [Entry],
}

impl Kernel for Enter<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Enter { rows, row: base, mask, first, entries } = self;
        for (offset, (entry, &row)) in (0..).zip(entries.iter_mut().zip(rows)) {
            *entry = Entry { row: ((row - base) & mask) as u32, packed: first + offset };
        }
    }
}

/// All sources, chunk by chunk; those of a chunk are grouped by stretch, and ascending in each
/// group.
struct Groups {
    entries: Buffer,
    /// The start and end of each stretch's group among the entries of its chunk, chunk by chunk.
    spans: Vec<[u32; 2]>,
    stretches: usize,
    /// The number of entries of an even share of a chunk, plus a margin.
    room: usize,
}

impl Groups {
    fn new(destinations: &dyn Destinations, stretches: usize) -> Result<Groups> {
        let (op, n) = (destinations.op(), destinations.count());
        // The margin is six times the usual deviation of the shares of random rows from their mean.
        let share = CHUNK.div_ceil(stretches);
        let room = share + 6 * share.isqrt() + 8;
        let count = memory::volume(op, &[n.div_ceil(CHUNK), stretches])?;
        let entries = memory::scratch::<Entry>(op, memory::volume(op, &[count, room])?)?;
        Ok(Groups { entries, spans: memory::zeroed(op, count)?, stretches, room })
    }

    /// Groups sources by stretches of 2^`shift` rows.
    fn fill(&mut self, destinations: &dyn Destinations, shift: u32, pack: &Pack<'_>) -> Result<()> {
        let (room, n) = (self.room, destinations.count());
        let entries = parallel::chunks_mut(self.entries.as_mut_slice(), room * self.stretches);
        let chunks = entries.zip(parallel::chunks_mut(&mut self.spans, self.stretches));
        chunks.enumerate().try_for_each(|(number, (entries, spans))| {
            let start = number * CHUNK;
            let chunk = Chunk { sources: start..n.min(start + CHUNK), destinations, shift, pack };
            chunk.group(room, entries, spans)
        })
    }

    /// Returns the group of one stretch in each chunk, with the chunk's first source.
    fn of(&self, stretch: usize) -> impl Iterator<Item = (usize, &[Entry])> {
        let chunks = self.entries.as_slice::<Entry>().chunks(self.room * self.stretches);
        let chunks = chunks.zip(self.spans.chunks_exact(self.stretches)).enumerate();
        chunks.map(move |(number, (entries, spans))| {
            let [start, end] = spans[stretch];
            (number * CHUNK, &entries[start as usize..end as usize])
        })
    }
}

/// Sources to be grouped.
struct Chunk<'a> {
    sources: Range<usize>,
    destinations: &'a dyn Destinations,
    shift: u32,
    pack: &'a Pack<'a>,
}

impl Chunk<'_> {
    /// Groups all sources, first on the assumption that no group needs more than `room`, which
    /// saves a counting pass.
    fn group(&self, room: usize, entries: &mut [Entry], spans: &mut [[u32; 2]]) -> Result<()> {
        let room = room as u32;
        for (stretch, span) in (0..).zip(&mut *spans) {
            *span = [stretch * room; 2];
        }
        self.place(entries, spans)?;
        if spans.iter().all(|[start, end]| end - start <= room) {
            return Ok(());
        }
        spans.fill([0; 2]);
        Order::batches(self.destinations, self.sources.clone(), |_, rows| {
            rows.iter().for_each(|row| spans[row >> self.shift][1] += 1);
            Ok(())
        })?;
        let mut end = 0;
        for span in &mut *spans {
            let start = end;
            end += span[1];
            *span = [start; 2];
        }
        self.place(entries, spans)
    }

    /// Appends each source to its group. A group without room overflows into the next.
    fn place(&self, groups: &mut [Entry], spans: &mut [[u32; 2]]) -> Result<()> {
        let first = self.sources.start;
        let mask = (1usize << self.shift) - 1;
        let (mut entries, mut places) = ([Entry::default(); BATCH], [0; BATCH]);
        Order::batches(self.destinations, self.sources.clone(), |source, rows| {
            let entries = &mut entries[..rows.len()];
            simd::dispatch(Enter { rows, row: 0, mask, first: (source - first) as u32, entries });
            (self.pack)(first, entries);
            // Computes all places first: they depend on one another, but the writes of entries do
            // not.
            for (place, &row) in places.iter_mut().zip(rows) {
                let end = &mut spans[row >> self.shift][1];
                *place = *end;
                *end += 1;
            }
            for (&place, &entry) in places.iter().zip(&*entries) {
                if let Some(group) = groups.get_mut(place as usize) {
                    *group = entry;
                }
            }
            Ok(())
        })
    }
}

/// Arguments of the kernel that calls [`Visitor::visit`].
struct VisitSome<'a, V: Visitor> {
    visitor: &'a V,
    state: &'a mut V::State,
    out: &'a mut [V::Element],
    base: usize,
    entries: &'a [Entry],
}

impl<V: Visitor> Kernel for VisitSome<'_, V> {
    type Output = Result<()>;
    #[inline(always)]
    fn run(self) -> Result<()> {
        self.visitor.visit(self.state, self.out, self.base, self.entries)
    }
}

/// Arguments of the kernel that calls [`Visitor::finish`].
struct Finish<'a, V: Visitor> {
    visitor: &'a V,
    state: V::State,
    out: &'a mut [V::Element],
}

impl<V: Visitor> Kernel for Finish<'_, V> {
    type Output = Result<()>;
    #[inline(always)]
    fn run(self) -> Result<()> {
        self.visitor.finish(self.state, self.out)
    }
}
