//! Sources visited in ascending order, output by output, on any number of threads.
//!
//! Sources are grouped by the stretch of the output that they go to, chunk by chunk and keeping
//! their order. Each stretch is then one task's own: no atomics, and its part of the output
//! stays in the cache. How the work is cut changes the order between outputs only.

use super::{Addends, Destinations};
use crate::{Float, Result, memory, parallel};
use samebits_numerics::fpenv;
use samebits_numerics::simd::{self, Kernel};

/// Sources grouped together: the groups of one chunk fit the second-level cache.
const CHUNK: usize = 1 << 16;
/// Output elements of one stretch: their accumulators fit the second-level cache. Rows are read
/// from far apart, so fewer and larger stretches suit them better than single elements.
const STRETCH: usize = 1 << 15;
const WIDE_STRETCH: usize = 1 << 17;
/// Stretches at most, so that a group of a chunk holds more than a few sources.
const MAX_STRETCHES: usize = 1024;
/// Sources times width below which threads cost more than they bring.
const SMALL: usize = 1 << 14;

/// One source of a group: its output row inside the stretch, and what the visitor packed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) row: u32,
    pub(crate) packed: u32,
}

/// What is done with the sources of one stretch of the output.
pub(crate) trait Visitor: Sync {
    /// The element type of the output.
    type Element: Send;
    /// What is kept between the sources of a stretch.
    type State;

    /// Starts a stretch.
    ///
    /// # Errors
    ///
    /// All three: [`OutOfMemory`](crate::Error::OutOfMemory).
    fn start(&self, out: &mut [Self::Element]) -> Result<Self::State>;

    /// What a group remembers of source `base + offset`.
    #[inline(always)]
    fn pack(&self, _base: usize, offset: usize) -> u32 {
        offset as u32
    }

    /// Takes some sources. Each row receives its sources in ascending order.
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

/// Shows every source to the visitor, those of one output row in ascending order.
///
/// # Errors
///
/// As [`Destinations::fill`], and then the output is as it was; those of the visitor.
pub(crate) fn visit_rows<V: Visitor, D: Destinations>(
    out: &mut [V::Element],
    width: usize,
    destinations: &D,
    visitor: &V,
) -> Result<()> {
    fpenv::ieee(|| visit(out, width, destinations, visitor))
}

fn visit<V: Visitor, D: Destinations>(
    out: &mut [V::Element],
    width: usize,
    destinations: &D,
    visitor: &V,
) -> Result<()> {
    let n = destinations.count();
    if width == 0 || out.is_empty() {
        return Order::check(destinations);
    }
    let rows = out.len() / width;
    let elements = if width == 1 { STRETCH } else { WIDE_STRETCH };
    let stretch = (elements / width).max(rows.div_ceil(MAX_STRETCHES)).max(1).next_power_of_two();
    let row_fits = u32::try_from(rows).is_ok();
    if row_fits && (stretch >= rows || n.saturating_mul(width) <= SMALL) {
        Order::check(destinations)?;
        return simd::dispatch(VisitAll { out, destinations, visitor });
    }
    let stretches = rows.div_ceil(stretch);
    let shift = stretch.trailing_zeros();
    let chunks =
        parallel::items(0..n.div_ceil(CHUNK)).try_collect(destinations.op(), |number| {
            let start = number * CHUNK;
            let chunk = Chunk { destinations, visitor, start, end: n.min(start + CHUNK) };
            simd::dispatch(Group { chunk, stretches, shift })
        })?;
    let stretches = parallel::chunks_mut(out, stretch * width).enumerate();
    stretches.try_for_each(|(number, out)| {
        simd::dispatch(VisitStretch { out, number, chunks: &chunks, visitor })
    })
}

/// Adds to each output row its sources in ascending order, one rounding each, starting from the
/// value that is there, or from +0 if the output is `fresh`; NaN results are canonical.
pub(crate) fn add_rows<T: Float, D: Destinations>(
    out: &mut [T],
    fresh: bool,
    width: usize,
    destinations: &D,
    addends: &impl Addends<T>,
) -> Result<()> {
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

/// Sources whose output rows are looked up together.
const BATCH: usize = 1024;

/// The output rows of all sources, batch by batch.
pub(super) struct Order;

impl Order {
    /// Checks every destination.
    fn check(destinations: &impl Destinations) -> Result<()> {
        Order::batches(destinations, 0..destinations.count(), |_, _| Ok(()))
    }

    /// Calls `f(first source, rows)` for each batch of a range.
    #[inline(always)]
    pub(super) fn batches(
        destinations: &impl Destinations,
        sources: std::ops::Range<usize>,
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

struct VisitAll<'a, V: Visitor, D> {
    out: &'a mut [V::Element],
    destinations: &'a D,
    visitor: &'a V,
}

impl<V: Visitor, D: Destinations> Kernel for VisitAll<'_, V, D> {
    type Output = Result<()>;
    #[inline(always)]
    fn run(self) -> Result<()> {
        let VisitAll { out, destinations, visitor } = self;
        let mut state = visitor.start(out)?;
        let mut entries = [Entry::default(); BATCH];
        Order::batches(destinations, 0..destinations.count(), |base, rows| {
            for (offset, (entry, &row)) in entries.iter_mut().zip(rows).enumerate() {
                *entry = Entry { row: row as u32, packed: visitor.pack(base, offset) };
            }
            visitor.visit(&mut state, out, base, &entries[..rows.len()])
        })?;
        visitor.finish(state, out)
    }
}

struct VisitStretch<'a, V: Visitor> {
    out: &'a mut [V::Element],
    number: usize,
    chunks: &'a [Groups],
    visitor: &'a V,
}

impl<V: Visitor> Kernel for VisitStretch<'_, V> {
    type Output = Result<()>;
    #[inline(always)]
    fn run(self) -> Result<()> {
        let mut state = self.visitor.start(self.out)?;
        for (number, groups) in self.chunks.iter().enumerate() {
            let entries = groups.of_stretch(self.number);
            self.visitor.visit(&mut state, self.out, number * CHUNK, entries)?;
        }
        self.visitor.finish(state, self.out)
    }
}

/// The sources of one chunk, grouped by stretch and in ascending order in each group.
struct Groups(Vec<Vec<Entry>>);

impl Groups {
    #[inline(always)]
    fn of_stretch(&self, number: usize) -> &[Entry] {
        &self.0[number]
    }
}

struct Chunk<'a, V, D> {
    destinations: &'a D,
    visitor: &'a V,
    start: usize,
    end: usize,
}

struct Group<'a, V, D> {
    chunk: Chunk<'a, V, D>,
    stretches: usize,
    shift: u32,
}

impl<V: Visitor, D: Destinations> Kernel for Group<'_, V, D> {
    type Output = Result<Groups>;
    #[inline(always)]
    fn run(self) -> Result<Groups> {
        let Group { chunk, stretches, shift } = self;
        // Room for a fair share and some more; a group that needs yet more grows, to the size of
        // the chunk at most.
        let op = chunk.destinations.op();
        let fair = (chunk.end - chunk.start) / stretches;
        let mut groups: Vec<Vec<Entry>> = memory::with_capacity(op, stretches)?;
        for _ in 0..stretches {
            groups.push(memory::with_capacity(op, fair + fair / 8 + 16)?);
        }
        let mask = (1usize << shift) - 1;
        Order::batches(chunk.destinations, chunk.start..chunk.end, |first, rows| {
            for (offset, &row) in rows.iter().enumerate() {
                let packed = chunk.visitor.pack(chunk.start, first - chunk.start + offset);
                groups[row >> shift].push(Entry { row: (row & mask) as u32, packed });
            }
            Ok(())
        })?;
        Ok(Groups(groups))
    }
}
