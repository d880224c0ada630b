//! Exact sums of f32 rows, rounded once: the algorithms behind the definition.
//!
//! The accumulator of an output is one f64. Each addition is tested for exactness, and
//! almost all additions of f32 numbers to an f64 are exact. If one is not, its error, which is
//! itself a number, is set aside as a further addend of that output. At the end, the few outputs
//! with addends set aside get their value from a long accumulator. So every schedule computes the
//! exact sum, and the data affects only the speed.

use super::ascending::{self, Entry, Order, Visitor, shared_evenly, slabs_apart};
use super::segments::{MOST_SPARSE, Segments, ends_in_order};
use super::{Addends, Destinations};
use crate::{Result, memory, parallel};
use samebits_numerics::exact::{ExactSum, tested_sum, two_sum};
use samebits_numerics::fpenv;
use samebits_numerics::nan::canonical;
use samebits_numerics::simd::{self, Aligned, Kernel};
use samebits_tensor_core::buffer::Buffer;
use std::collections::BTreeMap;

/// The number of outputs whose accumulators fit the second-level cache.
const TABLE: usize = 1 << 15;
/// The number of threads up to which the accumulators of one of them fit a table four times as large.
const FEW_THREADS: usize = 4;
/// The number of outputs up to which each piece of the sources gets its own table, and of outputs in
/// wide rows: their accumulators fit the first-level cache.
const SHARED: usize = 1 << 18;
const WIDE_SHARED: usize = 1 << 12;
/// The number of addends that justifies a table of their own, and that of many.
const PIECE: usize = 1 << 15;
const MANY: usize = 1 << 16;
/// The number of addends that one thread adds.
const SMALL: usize = 1 << 14;
/// The largest number of tables.
const MAX_TABLES: usize = 32;
/// The number of output rows for each source from which only rows with a source are summed.
const SPARSE: usize = 32;
/// The width of a row from which its sources are gathered before they are added.
const WIDE: usize = 8;
/// The number of addends set aside before they are moved to long accumulators.
const ASIDE: usize = 1 << 16;
/// The number of single addends that are tested after all are added.
const TESTED: usize = 128;
/// The number of neighbouring outputs that are checked together.
const GROUP: usize = 16;

/// Adds the row of every source to the output row that the source is sent to. The old value counts
/// as one more addend, unless the output is `fresh`: then its content is ignored.
///
/// # Errors
///
/// As [`Destinations::fill`], and then the output is unchanged;
/// [`OutOfMemory`](crate::Error::OutOfMemory).
pub(crate) fn add_rows(
    out: &mut [f32],
    fresh: bool,
    width: usize,
    destinations: &dyn Destinations,
    addends: &impl Addends<f32>,
) -> Result<()> {
    fpenv::ieee(|| add(out, fresh, width, destinations, addends))
}

fn add(
    out: &mut [f32],
    fresh: bool,
    width: usize,
    destinations: &dyn Destinations,
    addends: &impl Addends<f32>,
) -> Result<()> {
    let (op, n) = (destinations.op(), destinations.count());
    let work = n.saturating_mul(width);
    // With few outputs and many addends, each piece of the sources is a task. The thresholds affect
    // only the speed.
    let most = if width < WIDE { SHARED } else { WIDE_SHARED };
    let pieces_of = |outputs: usize| work / PIECE.max(outputs * out.len());
    // A table for each thread pays sooner than more.
    let pieces = pieces_of(8).max(pieces_of(2).min(parallel::threads())).min(MAX_TABLES);
    let few = out.len() <= most && !out.is_empty() && pieces >= 2;
    let segments = Segments { op, addends, width, fresh };
    if n <= MOST_SPARSE && width < WIDE && n < out.len() / (SPARSE * width.max(1)) {
        return segments.sum_sparse(destinations, out);
    }
    if width == 1
        && destinations.slab().is_some_and(|[_, slab]| slab == out.len())
        && ascending::strips_within(destinations).is_some()
    {
        return ascending::visit_rows(out, width, destinations, &Sum { op, addends, width, fresh });
    }
    if !few && width >= WIDE {
        if let Some(ends) = ends_in_order(destinations, out.len() / width)? {
            segments.sum_in_order(&ends, out);
            return Ok(());
        }
        return ascending::visit_rows(out, width, destinations, &segments);
    }
    let sum = Sum { op, addends, width, fresh };
    // Grouping takes several times as long as adding to a larger table, which a few threads do not make up.
    let table = if parallel::threads() <= FEW_THREADS { 4 * TABLE } else { TABLE };
    if work > SMALL
        && !out.is_empty()
        && let Some([sources, slab]) = destinations.slab()
        && slab * width < out.len().min(table)
        && (slab * width < TABLE || slab * width * parallel::threads() <= out.len())
    {
        // The accumulators of some slabs fit a table, which no other source needs.
        let most = (TABLE / (slab * width)).min(MANY / sources.max(1)).max(1);
        let slab = [shared_evenly(out.len() / (slab * width), most), sources, slab];
        return slabs_apart(out, width, destinations, slab, |out, first, sources| {
            let mut total = sum.start(out)?;
            sum.add_to(&mut total, destinations, sources, first)?;
            total.finish(out);
            Ok(())
        });
    }
    if width == 0 || (out.len() > table && !few) {
        return ascending::visit_rows(out, width, destinations, &sum);
    }
    // Nothing is written before all sources are seen.
    if !few {
        let mut total = sum.start(out)?;
        sum.add_to(&mut total, destinations, 0..n, 0)?;
        total.finish(out);
        return Ok(());
    }
    let length = n.div_ceil(pieces);
    let tables = parallel::items(0..pieces).try_collect(op, |piece| {
        let range = (piece * length).min(n)..((piece + 1) * length).min(n);
        sum.table(out.len(), destinations, range)
    })?;
    let mut total = sum.start(out)?;
    for table in tables {
        simd::dispatch(Merge(&mut total, table));
    }
    total.finish(out);
    Ok(())
}

/// One accumulator per output, and the addends set aside.
pub(crate) struct Table {
    sums: Buffer,
    rest: Rest,
}

/// The borrowed accumulators of a [`Table`].
struct Sums<'a> {
    sums: &'a mut [f64],
    rest: &'a mut Rest,
}

/// The addends that accumulators could not hold, with their outputs.
#[derive(Default)]
pub(crate) struct Rest {
    aside: Vec<(usize, f64)>,
    folded: BTreeMap<usize, ExactSum>,
}

impl Table {
    fn zero(op: &'static str, len: usize) -> Result<Table> {
        let bytes = memory::volume(op, &[len, size_of::<f64>()])?;
        let sums = Buffer::zeroed(bytes).map_err(memory::named(op))?;
        Ok(Table { sums, rest: Rest::default() })
    }

    fn start(op: &'static str, out: &[f32]) -> Result<Table> {
        let mut table =
            Table { sums: memory::scratch::<f64>(op, out.len())?, rest: Rest::default() };
        if !simd::dispatch(Widen(out, table.sums.as_mut_slice())) {
            for (at, x) in out.iter().enumerate().filter(|(_, x)| !x.is_finite()) {
                table.rest.put_aside(at, f64::from(*x));
            }
        }
        Ok(table)
    }

    fn sums(&mut self) -> Sums<'_> {
        Sums { sums: self.sums.as_mut_slice(), rest: &mut self.rest }
    }

    /// Rounds every sum once.
    fn finish(self, out: &mut [f32]) {
        let Table { sums, rest } = self;
        let sums: &[f64] = sums.as_slice();
        simd::dispatch(Round(sums, out));
        for (at, x) in rest.values(sums) {
            out[at] = x;
        }
    }
}

impl Sums<'_> {
    /// Adds `x` to one output.
    #[inline(always)]
    fn add(&mut self, at: usize, x: f64) {
        let (sum, lost) = tested_sum(self.sums[at], x);
        // Also true if `x` is not finite.
        if lost << 1 != 0 {
            self.rest.add(&mut self.sums[at], at, x);
        } else {
            self.sums[at] = sum;
        }
    }

    /// Adds each of `addends` to an output, [`TESTED`] before their tests: an old sum that has just been
    /// stored could not be read soon. If any is inexact, the sums are put back, last to first.
    #[inline(always)]
    fn add_each(&mut self, places: &[usize], addends: &[f32]) {
        let mut old = Aligned([0.0; TESTED]);
        for (places, addends) in places.chunks(TESTED).zip(addends.chunks(TESTED)) {
            let places = &places[..addends.len()];
            let (old, sums) = (&mut old[..addends.len()], &mut *self.sums);
            for i in 0..addends.len() {
                let sum = &mut sums[places[i]];
                old[i] = *sum;
                *sum = old[i] + f64::from(addends[i]);
            }
            let mut inexact = 0;
            for (&old, &addend) in old.iter().zip(addends) {
                inexact |= tested_sum(old, addend.into()).1;
            }
            if inexact << 1 != 0 {
                for (&place, &old) in places.iter().zip(&*old).rev() {
                    self.sums[place] = old;
                }
                self.add_slowly(places, addends);
            }
        }
    }

    #[cold]
    fn add_slowly(&mut self, places: &[usize], addends: &[f32]) {
        self.add_in_groups(places, addends);
    }

    /// Adds each of `addends` to an output, [`READ`] at a time.
    #[inline(always)]
    fn add_in_groups(&mut self, places: &[usize], addends: &[f32]) {
        let ((places, last_places), (addends, last)) =
            (places.as_chunks::<READ>(), addends.as_chunks::<READ>());
        for (places, addends) in places.iter().zip(addends) {
            self.add_singles(places, addends);
        }
        for (&place, &addend) in last_places.iter().zip(last) {
            self.add(place, addend.into());
        }
    }

    /// Adds each of `addends` to an output. One test for all, because almost always all are exact;
    /// else the sums are put back, last to first.
    #[inline(always)]
    fn add_singles(&mut self, places: &[usize; READ], addends: &[f32; READ]) {
        let mut old = [0.0; READ];
        for i in 0..READ {
            old[i] = self.sums[places[i]];
            self.sums[places[i]] = old[i] + f64::from(addends[i]);
        }
        // Apart, so that the tests fill vectors.
        let mut inexact = 0;
        for i in 0..READ {
            inexact |= tested_sum(old[i], addends[i].into()).1;
        }
        if inexact << 1 != 0 {
            self.add_again(places, addends, &old);
        }
    }

    #[cold]
    fn add_again(&mut self, places: &[usize; READ], addends: &[f32; READ], old: &[f64; READ]) {
        for (&place, &old) in places.iter().zip(old).rev() {
            self.sums[place] = old;
        }
        for (&place, &addend) in places.iter().zip(addends) {
            self.add(place, addend.into());
        }
    }

    /// Adds `addends` to the outputs from `first` on.
    #[inline(always)]
    fn add_group<const N: usize>(&mut self, first: usize, addends: &[f32; N]) {
        let old: &mut [f64; N] =
            (&mut self.sums[first..first + N]).try_into().expect("the slice has this length");
        let mut new = [0.0; N];
        let mut inexact = 0;
        for j in 0..N {
            let (sum, lost) = tested_sum(old[j], addends[j].into());
            new[j] = sum;
            inexact |= lost;
        }
        if inexact << 1 == 0 {
            *old = new;
        } else {
            for (at, &addend) in (first..).zip(addends) {
                self.add(at, addend.into());
            }
        }
    }
}

impl Rest {
    /// Adds `x` to the accumulator of output `at`, and puts aside its error.
    #[cold]
    pub(crate) fn add(&mut self, accumulator: &mut f64, at: usize, x: f64) {
        if !x.is_finite() {
            return self.put_aside(at, x);
        }
        let (sum, error) = two_sum(*accumulator, x);
        *accumulator = sum;
        if error != 0.0 {
            self.put_aside(at, error);
        }
    }

    /// Returns the outputs with addends set aside, and their exact sums, rounded once.
    pub(crate) fn values(mut self, sums: &[f64]) -> impl Iterator<Item = (usize, f32)> {
        if !self.aside.is_empty() {
            self.fold();
        }
        self.folded.into_iter().map(|(at, mut exact)| {
            exact.add_partial(sums[at]);
            (at, canonical(exact.to_f32()))
        })
    }

    #[cold]
    fn put_aside(&mut self, at: usize, x: f64) {
        self.aside.push((at, x));
        if self.aside.len() >= ASIDE {
            self.fold();
        }
    }

    /// Moves the addends set aside to long accumulators.
    #[cold]
    fn fold(&mut self) {
        self.aside.sort_unstable_by_key(|&(at, _)| at);
        for same in self.aside.chunk_by(|a, b| a.0 == b.0) {
            let sum = self.folded.entry(same[0].0).or_default();
            same.iter().for_each(|&(_, x)| sum.add_partial(x));
        }
        self.aside.clear();
    }
}

/// The sum of addends.
struct Sum<'a, A> {
    op: &'static str,
    addends: &'a A,
    width: usize,
    fresh: bool,
}

/// The number of sources that are read together, before any is added: distant reads then wait for
/// memory at the same time and not one after the other.
const READ: usize = 16;

impl<A: Addends<f32>> Sum<'_, A> {
    /// Adds up to [`READ`] sources: source `i` to row `row(i)`.
    #[inline(always)]
    fn add(
        &self,
        sums: &mut Sums<'_>,
        n: usize,
        row: impl Fn(usize) -> usize,
        source: impl Fn(usize) -> usize,
    ) {
        let mut j = 0;
        if self.width >= GROUP {
            let mut read = Aligned([[0.0f32; GROUP]; READ]);
            while j + GROUP <= self.width {
                for (i, read) in read.iter_mut().take(n).enumerate() {
                    for (x, &stored) in read.iter_mut().zip(self.addends.row(source(i), j, GROUP)) {
                        *x = self.addends.form(source(i), stored);
                    }
                }
                for (i, read) in read.iter().take(n).enumerate() {
                    sums.add_group(row(i) * self.width + j, read);
                }
                j += GROUP;
            }
        }
        for i in 0..n {
            let (first, source) = (row(i) * self.width, source(i));
            let stored = self.addends.row(source, j, self.width - j);
            let (fours, rest) = stored.as_chunks::<4>();
            let (twos, single) = rest.as_chunks::<2>();
            let mut at = first + j;
            for four in fours {
                sums.add_group(at, &four.map(|x| self.addends.form(source, x)));
                at += 4;
            }
            for two in twos {
                sums.add_group(at, &two.map(|x| self.addends.form(source, x)));
                at += 2;
            }
            for &x in single {
                sums.add(at, self.addends.form(source, x).into());
            }
        }
    }

    /// Returns the sums over one piece of the sources.
    fn table(
        &self,
        len: usize,
        destinations: &dyn Destinations,
        sources: std::ops::Range<usize>,
    ) -> Result<Table> {
        let mut table = Table::zero(self.op, len)?;
        self.add_to(&mut table, destinations, sources, 0)?;
        Ok(table)
    }

    /// Adds the sources of one piece to a table, whose first row is row `first` of the output.
    fn add_to(
        &self,
        table: &mut Table,
        destinations: &dyn Destinations,
        sources: std::ops::Range<usize>,
        first: usize,
    ) -> Result<()> {
        Order::batches(destinations, sources, |start, rows| {
            simd::dispatch(AddBatch { sum: self, table, start, rows, first });
            Ok(())
        })
    }
}

impl<A: Addends<f32>> Visitor for Sum<'_, A> {
    type Element = f32;
    type State = Table;

    #[inline(always)]
    fn start(&self, out: &mut [f32]) -> Result<Table> {
        if self.fresh { Table::zero(self.op, out.len()) } else { Table::start(self.op, out) }
    }

    /// A single value is packed itself, because it is in the cache now and would not be later.
    fn pack(&self, base: usize, entries: &mut [Entry]) {
        if self.width == 1 {
            let first = base + entries.first().map_or(0, |entry| entry.packed as usize);
            self.addends.for_singles(first, entries.iter_mut(), |entry, addend| {
                entry.packed = addend.to_bits();
            });
        }
    }

    #[inline(always)]
    fn visit(
        &self,
        table: &mut Table,
        _: &mut [f32],
        base: usize,
        entries: &[Entry],
    ) -> Result<()> {
        let mut sums = table.sums();
        if self.width == 1 {
            let (mut places, mut addends) = ([0; TESTED], [0.0; TESTED]);
            for entries in entries.chunks(TESTED) {
                let (places, addends) =
                    (&mut places[..entries.len()], &mut addends[..entries.len()]);
                for (i, entry) in entries.iter().enumerate() {
                    places[i] = entry.row as usize;
                    addends[i] = f32::from_bits(entry.packed);
                }
                sums.add_each(places, addends);
            }
        } else {
            for entries in entries.chunks(READ) {
                let source = |i: usize| base + entries[i].packed as usize;
                self.add(&mut sums, entries.len(), |i| entries[i].row as usize, source);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn finish(&self, table: Table, out: &mut [f32]) -> Result<()> {
        table.finish(out);
        Ok(())
    }
}

struct AddBatch<'a, A> {
    sum: &'a Sum<'a, A>,
    table: &'a mut Table,
    start: usize,
    rows: &'a [usize],
    first: usize,
}

impl<A: Addends<f32>> Kernel for AddBatch<'_, A> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let AddBatch { sum, table, start, rows, first } = self;
        let mut sums = table.sums();
        if sum.width == 1 {
            let (mut places, mut addends) = ([0; TESTED], [0.0; TESTED]);
            for (start, rows) in (start..).step_by(TESTED).zip(rows.chunks(TESTED)) {
                let (places, addends) = (&mut places[..rows.len()], &mut addends[..rows.len()]);
                for (place, row) in places.iter_mut().zip(rows) {
                    *place = row - first;
                }
                sum.addends.for_singles(start, addends.iter_mut(), |out, addend| *out = addend);
                sums.add_each(places, addends);
            }
            return;
        }
        for (start, rows) in (start..).step_by(READ).zip(rows.chunks(READ)) {
            sum.add(&mut sums, rows.len(), |i| rows[i] - first, |i| start + i);
        }
    }
}

/// Arguments of a kernel that converts finite elements and writes zeros for the others. Returns
/// false if there are others.
struct Widen<'a>(&'a [f32], &'a mut [f64]);

impl Kernel for Widen<'_> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let mut finite = true;
        for (sum, &x) in self.1.iter_mut().zip(self.0) {
            finite &= x.is_finite();
            *sum = if x.is_finite() { x.into() } else { 0.0 };
        }
        finite
    }
}

struct Round<'a>(&'a [f64], &'a mut [f32]);

impl Kernel for Round<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (x, &sum) in self.1.iter_mut().zip(self.0) {
            // Only a start of -0 without other addends gives -0; adding +0 makes it +0.
            *x = (sum + 0.0) as f32;
        }
    }
}

struct Merge<'a>(&'a mut Table, Table);

impl Kernel for Merge<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Merge(total, table) = self;
        let mut sums = total.sums();
        for (at, &sum) in table.sums.as_slice().iter().enumerate() {
            sums.add(at, sum);
        }
        for (at, x) in table.rest.aside {
            total.rest.put_aside(at, x);
        }
        for (at, sum) in table.rest.folded {
            total.rest.folded.entry(at).or_default().merge(&sum);
        }
    }
}
