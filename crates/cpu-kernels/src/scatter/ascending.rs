//! Sources visited in ascending order, output by output, on any number of threads.
//!
//! Sources are grouped by the stretch of the output that they go to, chunk by chunk and keeping
//! their order. Each stretch is then one task's own: no atomics, and its part of the output
//! stays in the cache. How the work is cut changes the order between outputs only.

use super::{Addends, Destinations};
use crate::{Float, Result, memory, parallel};
use samebits_numerics::fpenv;
use samebits_numerics::simd::{self, Kernel};
use std::ops::Range;

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

    /// Changes what entries remember of their sources: until then, how far behind `base` each is.
    fn pack(&self, _base: usize, _entries: &mut [Entry]) {}

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
        return Order::check(destinations);
    }
    let rows = out.len() / width;
    let elements = if width == 1 { STRETCH } else { WIDE_STRETCH };
    let stretch = (elements / width).max(rows.div_ceil(MAX_STRETCHES)).max(1).next_power_of_two();
    let row_fits = u32::try_from(rows).is_ok();
    let pack = |base: usize, entries: &mut [Entry]| visitor.pack(base, entries);
    if row_fits && (stretch >= rows || n.saturating_mul(width) <= SMALL) {
        // A single batch is checked before it is visited.
        if n > BATCH {
            Order::check(destinations)?;
        }
        return visit_stretch(out, visitor, |visit| batches_of_entries(destinations, &pack, visit));
    }
    let chunks =
        parallel::items(0..n.div_ceil(CHUNK)).try_collect(destinations.op(), |number| {
            let start = number * CHUNK;
            let chunk = start..n.min(start + CHUNK);
            groups(destinations, chunk, rows.div_ceil(stretch), stretch.trailing_zeros(), &pack)
        })?;
    let stretches = parallel::chunks_mut(out, stretch * width).enumerate();
    stretches.try_for_each(|(stretch, out)| {
        visit_stretch(out, visitor, |visit| {
            let mut chunks = chunks.iter().enumerate();
            chunks.try_for_each(|(number, groups)| visit(number * CHUNK, &groups[stretch]))
        })
    })
}

/// Takes some sources: the first of them as the entries count it, and these.
type Visit<'a> = dyn FnMut(usize, &[Entry]) -> Result<()> + 'a;

/// [`Visitor::pack`].
type Pack<'a> = dyn Fn(usize, &mut [Entry]) + Sync + 'a;

/// Shows `visitor` the sources of one stretch of the output, which `sources` brings.
fn visit_stretch<V: Visitor>(
    out: &mut [V::Element],
    visitor: &V,
    sources: impl FnOnce(&mut Visit<'_>) -> Result<()>,
) -> Result<()> {
    let mut state = visitor.start(out)?;
    sources(&mut |base, entries| {
        simd::dispatch(VisitSome { visitor, state: &mut state, out, base, entries })
    })?;
    simd::dispatch(Finish { visitor, state, out })
}

/// Adds to each output row its sources in ascending order, one rounding each, starting from the
/// value that is there, or from +0 if the output is `fresh`; NaN results are canonical.
pub(crate) fn add_rows<T: Float>(
    out: &mut [T],
    fresh: bool,
    width: usize,
    destinations: &dyn Destinations,
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
const BATCH: usize = 512;

/// The output rows of all sources, batch by batch.
pub(super) struct Order;

impl Order {
    /// Checks every destination.
    fn check(destinations: &dyn Destinations) -> Result<()> {
        Order::batches(destinations, 0..destinations.count(), |_, _| Ok(()))
    }

    /// Calls `f(first source, rows)` for each batch of a range.
    pub(super) fn batches(
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

/// Shows all sources, batch by batch.
fn batches_of_entries(
    destinations: &dyn Destinations,
    pack: &Pack<'_>,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let mut entries = [Entry::default(); BATCH];
    Order::batches(destinations, 0..destinations.count(), |base, rows| {
        let entries = &mut entries[..rows.len()];
        simd::dispatch(Enter { rows, mask: usize::MAX, first: 0, entries });
        pack(base, entries);
        visit(base, entries)
    })
}

/// The entries of rows, or of what a mask leaves of their numbers, sent the sources from `first` on.
struct Enter<'a> {
    rows: &'a [usize],
    mask: usize,
    first: u32,
    entries: &'a mut [Entry],
}

impl Kernel for Enter<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Enter { rows, mask, first, entries } = self;
        for (offset, (entry, &row)) in (0..).zip(entries.iter_mut().zip(rows)) {
            *entry = Entry { row: (row & mask) as u32, packed: first + offset };
        }
    }
}

/// The sources of one chunk, grouped by stretch and in ascending order in each group.
fn groups(
    destinations: &dyn Destinations,
    chunk: Range<usize>,
    stretches: usize,
    shift: u32,
    pack: &Pack<'_>,
) -> Result<Vec<Vec<Entry>>> {
    // Room for a fair share and some more; a group that needs yet more grows, to the size of
    // the chunk at most.
    let op = destinations.op();
    let fair = chunk.len() / stretches;
    let mut groups: Vec<Vec<Entry>> = memory::with_capacity(op, stretches)?;
    for _ in 0..stretches {
        groups.push(memory::with_capacity(op, fair + fair / 8 + 16)?);
    }
    let mask = (1usize << shift) - 1;
    let mut entries = [Entry::default(); BATCH];
    Order::batches(destinations, chunk.clone(), |source, rows| {
        let entries = &mut entries[..rows.len()];
        simd::dispatch(Enter { rows, mask, first: (source - chunk.start) as u32, entries });
        pack(chunk.start, entries);
        for (&row, &entry) in rows.iter().zip(&*entries) {
            groups[row >> shift].push(entry);
        }
        Ok(())
    })?;
    Ok(groups)
}

/// [`Visitor::visit`].
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

/// [`Visitor::finish`].
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
