//! Sources visited in ascending order, output by output, on any number of threads.
//!
//! Sources are grouped by the stretch of the output that they go to, chunk by chunk and keeping
//! their order. Each stretch is then one task's own: no atomics, and its part of the output
//! stays in the cache. How the work is cut changes the order between outputs only.

use super::Destinations;
use crate::{Float, Result};
use rayon::prelude::*;
use samebits_numerics::simd::{self, Kernel};

/// Sources grouped together: the groups of one chunk fit the second-level cache.
const CHUNK: usize = 1 << 16;
/// Output elements of one stretch: their accumulators fit the second-level cache.
const STRETCH: usize = 1 << 15;
/// Stretches at most, so that a group of a chunk holds more than a few sources.
const MAX_STRETCHES: usize = 1024;
/// Sources times width below which threads cost more than they bring.
const SMALL: usize = 1 << 14;

/// What is done with the sources of one stretch of the output.
pub(crate) trait Visitor: Sync {
    /// The element type of the output.
    type Element: Send;
    /// What is kept between the sources of a stretch.
    type State;

    /// Starts a stretch.
    fn start(&self, out: &mut [Self::Element]) -> Self::State;

    /// Takes one source to row `row` of the stretch. Rows receive sources in ascending order.
    fn visit(&self, state: &mut Self::State, out: &mut [Self::Element], row: usize, source: usize);

    /// Ends a stretch.
    fn finish(&self, state: Self::State, out: &mut [Self::Element]);
}

/// Shows every source to the visitor, those of one output row in ascending order.
///
/// # Errors
///
/// As [`Destinations::fill`], and then the output is as it was.
pub(crate) fn visit_rows<V: Visitor, D: Destinations>(
    out: &mut [V::Element],
    width: usize,
    destinations: &D,
    visitor: &V,
) -> Result<()> {
    let n = destinations.len();
    if width == 0 || out.is_empty() {
        return check_only(destinations);
    }
    let rows = out.len() / width;
    let stretch = (STRETCH / width).max(rows.div_ceil(MAX_STRETCHES)).max(1).next_power_of_two();
    if stretch >= rows || n.saturating_mul(width) <= SMALL {
        let order = Order::read(destinations)?;
        simd::dispatch(VisitAll { out, order: &order, visitor });
        return Ok(());
    }
    let stretches = rows.div_ceil(stretch);
    let shift = stretch.trailing_zeros();
    let chunks = (0..n.div_ceil(CHUNK))
        .into_par_iter()
        .map(|number| {
            let start = number * CHUNK;
            Groups::of(destinations, start..n.min(start + CHUNK), stretches, shift)
        })
        .collect::<Result<Vec<Groups>>>()?;
    out.par_chunks_mut(stretch * width).enumerate().for_each(|(number, out)| {
        simd::dispatch(VisitStretch { out, number, chunks: &chunks, visitor });
    });
    Ok(())
}

/// Adds to each output row its sources in ascending order, one rounding each, starting from the
/// value that is there; NaN results are canonical.
pub(crate) fn add_rows<T: Float, D: Destinations>(
    out: &mut [T],
    width: usize,
    destinations: &D,
    source: impl Fn(usize, usize) -> T + Sync,
) -> Result<()> {
    struct Add<F, T>(F, usize, std::marker::PhantomData<fn() -> T>);
    impl<T: Float, F: Fn(usize, usize) -> T + Sync> Visitor for Add<F, T> {
        type Element = T;
        type State = ();
        #[inline(always)]
        fn start(&self, _: &mut [T]) {}
        #[inline(always)]
        fn visit(&self, (): &mut (), out: &mut [T], row: usize, source: usize) {
            for (j, sum) in out[row * self.1..][..self.1].iter_mut().enumerate() {
                *sum = *sum + self.0(source, j);
            }
        }
        #[inline(always)]
        fn finish(&self, (): (), out: &mut [T]) {
            for sum in out {
                *sum = (*sum + T::ZERO).canonical();
            }
        }
    }
    visit_rows(out, width, destinations, &Add(source, width, std::marker::PhantomData))
}

/// Checks the destinations of an output that has no elements to write.
fn check_only(destinations: &impl Destinations) -> Result<()> {
    Order::read(destinations).map(|_| ())
}

/// The output row of each source.
struct Order(Vec<usize>);

impl Order {
    fn read(destinations: &impl Destinations) -> Result<Order> {
        let mut rows = vec![0; destinations.len()];
        for (number, rows) in rows.chunks_mut(CHUNK).enumerate() {
            destinations.fill(number * CHUNK, rows)?;
        }
        Ok(Order(rows))
    }
}

struct VisitAll<'a, V: Visitor> {
    out: &'a mut [V::Element],
    order: &'a Order,
    visitor: &'a V,
}

impl<V: Visitor> Kernel for VisitAll<'_, V> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let mut state = self.visitor.start(self.out);
        for (source, &row) in self.order.0.iter().enumerate() {
            self.visitor.visit(&mut state, self.out, row, source);
        }
        self.visitor.finish(state, self.out);
    }
}

struct VisitStretch<'a, V: Visitor> {
    out: &'a mut [V::Element],
    number: usize,
    chunks: &'a [Groups],
    visitor: &'a V,
}

impl<V: Visitor> Kernel for VisitStretch<'_, V> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let mut state = self.visitor.start(self.out);
        for (number, groups) in self.chunks.iter().enumerate() {
            for &(row, source) in groups.of_stretch(self.number) {
                let source = number * CHUNK + source as usize;
                self.visitor.visit(&mut state, self.out, row as usize, source);
            }
        }
        self.visitor.finish(state, self.out);
    }
}

/// The sources of one chunk, grouped by stretch and in ascending order in each group.
struct Groups {
    /// Row inside its stretch, source inside the chunk.
    entries: Vec<(u32, u32)>,
    /// Where each group ends.
    ends: Vec<u32>,
}

impl Groups {
    fn of(
        destinations: &impl Destinations,
        sources: std::ops::Range<usize>,
        stretches: usize,
        shift: u32,
    ) -> Result<Groups> {
        let mut rows = vec![0; sources.len()];
        destinations.fill(sources.start, &mut rows)?;
        let mut ends = vec![0u32; stretches + 1];
        for &row in &rows {
            ends[(row >> shift) + 1] += 1;
        }
        for stretch in 1..=stretches {
            ends[stretch] += ends[stretch - 1];
        }
        // Now `ends[s]` is where group s starts; placing its entries moves it to its end.
        let mut entries = vec![(0, 0); rows.len()];
        let mask = (1usize << shift) - 1;
        for (source, &row) in rows.iter().enumerate() {
            let place = &mut ends[row >> shift];
            entries[*place as usize] = ((row & mask) as u32, source as u32);
            *place += 1;
        }
        Ok(Groups { entries, ends })
    }

    #[inline(always)]
    fn of_stretch(&self, number: usize) -> &[(u32, u32)] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.entries[start as usize..self.ends[number] as usize]
    }
}
