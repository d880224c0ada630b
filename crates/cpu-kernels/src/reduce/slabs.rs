//! Reductions whose neighbouring results have neighbouring terms.

use std::hint::select_unpredictable;

use samebits_numerics::extrema::{max2, min2, replaces_max, replaces_min};
use samebits_numerics::reduce::{BLOCK, Lanes, TILE, combine_columns};
use samebits_numerics::simd::{self, Aligned, Kernel};
use samebits_tensor_core::Layout;
use samebits_tensor_core::layout::Positions;

use super::Extreme;
use crate::arch::prefetch;
use crate::error::Result;
use crate::float::Float;
use crate::memory;
use crate::parallel::{self, CHUNK, chunks_mut};

/// Slabs of `inner` columns: one result per column, in the order of the slabs.
pub(crate) struct Slabs<'a, T> {
    /// The storage.
    pub(crate) data: &'a [T],
    /// The start of each slab.
    pub(crate) starts: &'a Layout,
    /// The distance of each row of terms from the start of its slab.
    pub(crate) terms: &'a Layout,
    /// The columns of a slab, which are neighbours in the storage.
    pub(crate) inner: usize,
}

/// Some columns of slabs, from column `first` of all on.
pub(crate) struct Part<'a, T> {
    pub(crate) slabs: &'a Slabs<'a, T>,
    pub(crate) first: usize,
}

impl<T> Clone for Part<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Part<'_, T> {}

impl<'a, T: Copy + Send + Sync> Part<'a, T> {
    /// Returns the number of terms of a column.
    pub(crate) fn terms(&self) -> usize {
        self.slabs.terms.numel()
    }

    /// Returns the terms of one column, in order.
    pub(crate) fn column(&self, op: &'static str, column: usize) -> Result<Vec<T>> {
        let Slabs { data, starts, terms, inner } = *self.slabs;
        let (slab, inside) = ((self.first + column) / inner, (self.first + column) % inner);
        let start = starts.positions_from(slab).next().map_or(0, |start| start + inside);
        let mut column = memory::with_capacity(op, terms.numel())?;
        column.extend(terms.positions().map(|term| data[start + term]));
        Ok(column)
    }

    /// Calls `f(part, out)` for pieces of the columns. The pieces are small enough that several
    /// passes over one read memory once.
    pub(crate) fn pieces<R: Send>(
        self,
        out: &mut [R],
        f: impl Fn(Self, &mut [R]) -> Result<()> + Sync + Send,
    ) -> Result<()> {
        let inner = self.slabs.inner;
        let at = |first: usize| Part { first: self.first + first, ..self };
        let columns = CHUNK.div_ceil(self.terms().max(1)).next_multiple_of(TILE);
        if inner <= columns {
            let size = parallel::even(out.len(), columns / inner * inner, inner);
            return parallel::try_pieces_of(size, out, |start, out| f(at(start), out));
        }
        let even = inner.div_ceil(inner.div_ceil(columns)).next_multiple_of(16);
        parallel::try_pieces_of(inner, out, |slab, out| {
            parallel::try_pieces_of(even, out, |start, out| f(at(slab + start), out))
        })
    }

    /// Returns `(start, column, count)` of tiles of `count` columns in all: the storage position of
    /// the first term of the first column, and the number of that column in this part.
    #[inline(always)]
    fn tiles(&self, columns: usize) -> impl Iterator<Item = (usize, usize, usize)> + use<'a, T> {
        let Slabs { starts, inner, .. } = *self.slabs;
        let mut slabs = starts.positions_from(self.first / inner);
        let (mut slab, mut done, mut inside) = (None, 0, self.first % inner);
        std::iter::from_fn(move || {
            if done >= columns {
                return None;
            }
            let start = *slab.get_or_insert_with(|| slabs.next().expect("a slab for every column"));
            let count = TILE.min(inner - inside).min(columns - done);
            let tile = (start + inside, done, count);
            (inside, done) = (inside + count, done + count);
            if inside == inner {
                (slab, inside) = (None, 0);
            }
            Some(tile)
        })
    }

    /// Returns the rows of a block of terms, from position `start` of the storage on.
    #[inline(always)]
    fn rows(&self, start: usize, block: usize) -> impl Iterator<Item = &'a [T]> {
        let Slabs { data, terms, .. } = *self.slabs;
        Steps::new(terms, block * BLOCK, BLOCK).map(move |step| &data[start + step..])
    }

    /// Prefetches another row than this one: those that are read next lie far apart.
    #[inline(always)]
    fn prefetch_ahead(&self) -> impl Fn(&[T]) + use<T> {
        const FEW: usize = 256;
        let terms = self.slabs.terms;
        let ahead = match terms.strides() {
            // The same row of the next tile.
            _ if terms.numel() <= FEW => TILE,
            // A later row of this tile.
            [.., step] => 16 * step,
            [] => TILE,
        };
        move |row| {
            for line in (0..TILE).step_by(64 / size_of::<T>().max(1)) {
                if let Some(x) = row.get(ahead + line) {
                    prefetch(x);
                }
            }
        }
    }

    /// Returns the rows of a block as runs of consecutive rows, if a row has `count` columns and others
    /// follow it at once.
    #[inline(always)]
    fn dense(
        &self,
        start: usize,
        block: usize,
        count: usize,
    ) -> Option<impl Iterator<Item = &'a [T]>> {
        let Slabs { data, terms, inner, .. } = *self.slabs;
        let is_dense = count == inner && terms.strides().last().is_none_or(|&step| step == inner);
        is_dense.then(|| {
            let mut steps = Steps::new(terms, block * BLOCK, BLOCK);
            std::iter::from_fn(move || steps.run())
                .map(move |(first, rows)| &data[start + first..][..rows * inner])
        })
    }

    /// Computes `out[c] = Σ term(c)(x)` in f64 over the terms of each column. `SAME` promises that `term` is
    /// one function for all columns.
    pub(crate) fn sums<F: Fn(T) -> f64, const SAME: bool>(
        self,
        op: &'static str,
        term: &(impl Fn(usize) -> F + Sync),
        out: &mut [f64],
    ) -> Result<()> {
        let blocks = self.terms().div_ceil(BLOCK);
        if blocks <= 1 {
            simd::dispatch(SlabSums::<_, _, SAME> { part: self, block: 0, term, out });
            return Ok(());
        }
        let columns = out.len();
        let mut partials = memory::zeroed(op, memory::volume(op, &[blocks, columns])?)?;
        chunks_mut(&mut partials, columns).enumerate().for_each(|(block, out)| {
            simd::dispatch(SlabSums::<_, _, SAME> { part: self, block, term, out });
        });
        combine_columns(&partials, columns, out);
        Ok(())
    }
}

impl<T: Float> Part<'_, T> {
    /// Computes the product of each column of at most [`BLOCK`] terms.
    pub(crate) fn products(self, out: &mut [f64]) {
        simd::dispatch(SlabProducts { part: self, out });
    }

    /// Finds the extremum of each column.
    pub(crate) fn extreme_values(
        self,
        op: &'static str,
        which: Extreme,
        values: &mut [T],
    ) -> Result<()> {
        let columns = values.len();
        simd::dispatch(SlabValues { part: self, block: 0, which, values });
        let more = self.terms().div_ceil(BLOCK) - 1;
        if more > 0 {
            let mut later = memory::filled(op, memory::volume(op, &[more, columns])?, T::ZERO)?;
            chunks_mut(&mut later, columns).enumerate().for_each(|(i, values)| {
                simd::dispatch(SlabValues { part: self, block: i + 1, which, values });
            });
            for new in later.chunks_exact(columns) {
                for (value, &new) in values.iter_mut().zip(new) {
                    *value = match which {
                        Extreme::Max => max2(*value, new),
                        Extreme::Min => min2(*value, new),
                    };
                }
            }
        }
        values.iter_mut().for_each(|value| *value = value.canonical());
        Ok(())
    }

    /// Finds the extremum of each column, and its place.
    pub(crate) fn extremes(
        self,
        op: &'static str,
        which: Extreme,
        values: &mut [T],
        places: &mut [i64],
    ) -> Result<()> {
        let columns = values.len();
        simd::dispatch(SlabExtremes { part: self, block: 0, which, values, places });
        let more = self.terms().div_ceil(BLOCK) - 1;
        if more > 0 {
            let all = memory::volume(op, &[more, columns])?;
            let mut later = memory::filled(op, all, T::ZERO)?;
            let mut found = memory::zeroed(op, all)?;
            let blocks = chunks_mut(&mut later, columns).zip(chunks_mut(&mut found, columns));
            blocks.enumerate().for_each(|(i, (values, places))| {
                simd::dispatch(SlabExtremes { part: self, block: i + 1, which, values, places });
            });
            // Ascending, so that of equal elements the first is kept.
            let later = later.chunks_exact(columns).zip(found.chunks_exact(columns));
            for (block, (new, at)) in later.enumerate() {
                for c in 0..columns {
                    let better = match which {
                        Extreme::Max => replaces_max(values[c], new[c]),
                        Extreme::Min => replaces_min(values[c], new[c]),
                    };
                    if better {
                        (values[c], places[c]) = (new[c], at[c] + ((block + 1) * BLOCK) as i64);
                    }
                }
            }
        }
        values.iter_mut().for_each(|value| *value = value.canonical());
        Ok(())
    }
}

impl Part<'_, i64> {
    /// Joins the terms of each column with `first`, in any order.
    pub(crate) fn integers(self, first: i64, join: impl Fn(i64, i64) -> i64, out: &mut [i64]) {
        simd::dispatch(SlabIntegers { part: self, first, join, out });
    }
}

/// The positions of some elements of a layout, with a plain step along its last dimension.
struct Steps<'a> {
    left: usize,
    next: usize,
    step: usize,
    /// Elements before the next jump, and from then on.
    run: (usize, usize),
    jumps: Jumps<'a>,
}

/// The starts of runs.
struct Jumps<'a> {
    layout: &'a Layout,
    /// The number of the next element that begins a run.
    element: usize,
    positions: Option<Positions<'a>>,
}

impl<'a> Steps<'a> {
    /// Takes at most `count` elements from number `first` on.
    #[inline(always)]
    fn new(layout: &'a Layout, first: usize, count: usize) -> Steps<'a> {
        let run = layout.shape().last().copied().unwrap_or(1);
        let step = layout.strides().last().copied().unwrap_or(0);
        let left = count.min(layout.numel() - first);
        let next = match layout.rank() {
            0 | 1 => layout.offset() + first * step,
            _ => layout.positions_from(first).next().unwrap_or(0),
        };
        let now = run - first % run;
        let jumps = Jumps { layout, element: first + now, positions: None };
        Steps { left, next, step, run: (now, run), jumps }
    }

    /// Returns the position of the next element and the number of elements with the plain step from it on.
    #[inline(always)]
    fn run(&mut self) -> Option<(usize, usize)> {
        let count = self.run.0.min(self.left);
        let position = self.next;
        self.left -= count;
        if self.left > 0 {
            self.next = self.jumps.jump(self.run.1);
            self.run.0 = self.run.1;
        }
        (count > 0).then_some((position, count))
    }
}

impl Jumps<'_> {
    /// Returns the position of the first element of the next run.
    #[inline(never)]
    fn jump(&mut self, run: usize) -> usize {
        let position = match &mut self.positions {
            Some(positions) => positions.nth(run - 1),
            none => none.insert(self.layout.positions_from(self.element)).next(),
        };
        position.unwrap_or(0)
    }
}

impl Iterator for Steps<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let position = self.next;
        self.run.0 -= 1;
        if self.run.0 > 0 {
            self.next += self.step;
        } else if self.left > 0 {
            self.next = self.jumps.jump(self.run.1);
            self.run.0 = self.run.1;
        }
        Some(position)
    }
}

struct SlabSums<'a, T, F, const SAME: bool> {
    part: Part<'a, T>,
    block: usize,
    term: &'a F,
    out: &'a mut [f64],
}

impl<T: Copy + Send + Sync, F: Fn(usize) -> G, G: Fn(T) -> f64, const SAME: bool> Kernel
    for SlabSums<'_, T, F, SAME>
{
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let SlabSums { part, block, term, out } = self;
        let mut lanes = Lanes::new();
        for (start, column, count) in part.tiles(out.len()) {
            let out = &mut out[column..column + count];
            if SAME {
                let term = term(column);
                match part.dense(start, block, count).filter(|_| count < TILE) {
                    Some(runs) => lanes.dense_sums(runs, term, out),
                    None => {
                        let ahead = part.prefetch_ahead();
                        // Not `&term`: calls through a reference are a function of their own.
                        let term = |_| |x| term(x);
                        lanes.sums_ahead(part.rows(start, block), ahead, term, out);
                    }
                }
            } else {
                // Side by side, so that those of neighbouring columns fill vectors.
                let terms: [G; TILE] = std::array::from_fn(|c| term(column + c.min(count - 1)));
                let term = |c: usize| {
                    let term = &terms[c];
                    move |x| term(x)
                };
                lanes.sums(part.rows(start, block), term, out);
            }
        }
    }
}

struct SlabProducts<'a, T> {
    part: Part<'a, T>,
    out: &'a mut [f64],
}

impl<T: Float> Kernel for SlabProducts<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let mut lanes = Lanes::new();
        for (start, column, count) in self.part.tiles(self.out.len()) {
            lanes.products(self.part.rows(start, 0), &mut self.out[column..column + count]);
        }
    }
}

/// Returns two rows at a time; the last one of an odd number twice, which changes no extremum.
///
/// One alone would be compared and then stored under a mask, for which later loads wait.
#[inline(always)]
fn pairs<'a, T: 'a>(mut rows: impl Iterator<Item = &'a [T]>) -> impl Iterator<Item = [&'a [T]; 2]> {
    std::iter::from_fn(move || {
        let row = rows.next()?;
        Some([row, rows.next().unwrap_or(row)])
    })
}

/// The extremes of a block of terms, not canonical yet.
struct SlabExtremes<'a, T> {
    part: Part<'a, T>,
    block: usize,
    which: Extreme,
    values: &'a mut [T],
    places: &'a mut [i64],
}

impl<T: Float> Kernel for SlabExtremes<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        match self.which {
            Extreme::Max => self.search(|old, new| replaces_max(old, new)),
            Extreme::Min => self.search(|old, new| replaces_min(old, new)),
        }
    }
}

impl<T: Float> SlabExtremes<'_, T> {
    #[inline(always)]
    fn search(self, replaces: impl Fn(T, T) -> bool) {
        let (mut best, mut at) = (Aligned([T::ZERO; TILE]), Aligned([0u32; TILE]));
        for (start, column, count) in self.part.tiles(self.values.len()) {
            let mut rows = self.part.rows(start, self.block);
            if let Some(row) = rows.next() {
                best[..count].copy_from_slice(&row[..count]);
                at[..count].fill(0);
            }
            for (k, [row, next]) in (1u32..).step_by(2).zip(pairs(rows)) {
                let found = best.iter_mut().zip(&mut *at);
                for ((best, at), (&x, &y)) in found.zip(row[..count].iter().zip(&next[..count])) {
                    let better = replaces(*best, x);
                    let (first, first_at) = (
                        select_unpredictable(better, x, *best),
                        select_unpredictable(better, k, *at),
                    );
                    let better = replaces(first, y);
                    *best = select_unpredictable(better, y, first);
                    *at = select_unpredictable(better, k + 1, first_at);
                }
            }
            self.values[column..column + count].copy_from_slice(&best[..count]);
            for (place, &at) in self.places[column..column + count].iter_mut().zip(&*at) {
                *place = at.into();
            }
        }
    }
}

/// The extremes of a block of terms, without their places.
struct SlabValues<'a, T> {
    part: Part<'a, T>,
    block: usize,
    which: Extreme,
    values: &'a mut [T],
}

impl<T: Float> Kernel for SlabValues<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        match self.which {
            Extreme::Max => self.search(|old, new| new > old),
            Extreme::Min => self.search(|old, new| new < old),
        }
    }
}

impl<T: Float> SlabValues<'_, T> {
    /// Compares without a look at NaN, which a sum keeps, and again if a sum is NaN.
    #[inline(always)]
    fn search(self, replaces: impl Fn(T, T) -> bool) {
        let (mut best, mut sums) = (Aligned([T::ZERO; TILE]), Aligned([T::ZERO; TILE]));
        for (start, column, count) in self.part.tiles(self.values.len()) {
            let mut rows = self.part.rows(start, self.block);
            if let Some(row) = rows.next() {
                best[..count].copy_from_slice(&row[..count]);
                sums[..count].copy_from_slice(&row[..count]);
            }
            for [row, next] in pairs(rows) {
                let found = best.iter_mut().zip(&mut *sums);
                for ((best, sum), (&x, &y)) in found.zip(row[..count].iter().zip(&next[..count])) {
                    let first = select_unpredictable(replaces(*best, x), x, *best);
                    *best = select_unpredictable(replaces(first, y), y, first);
                    *sum = *sum + (x + y);
                }
            }
            if sums[..count].iter().any(|sum| sum.is_nan()) {
                for row in self.part.rows(start, self.block) {
                    for (best, &x) in best.iter_mut().zip(&row[..count]) {
                        *best = if x.is_nan() { x } else { *best };
                    }
                }
            }
            self.values[column..column + count].copy_from_slice(&best[..count]);
        }
    }
}

struct SlabIntegers<'a, F> {
    part: Part<'a, i64>,
    first: i64,
    join: F,
    out: &'a mut [i64],
}

impl<F: Fn(i64, i64) -> i64> Kernel for SlabIntegers<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.out.fill(self.first);
        let blocks = self.part.terms().div_ceil(BLOCK);
        for (start, column, count) in self.part.tiles(self.out.len()) {
            let out = &mut self.out[column..column + count];
            for row in (0..blocks).flat_map(|block| self.part.rows(start, block)) {
                for (out, &x) in out.iter_mut().zip(row) {
                    *out = (self.join)(*out, x);
                }
            }
        }
    }
}
