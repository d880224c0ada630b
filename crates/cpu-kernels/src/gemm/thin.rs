//! Products that no register tile fits: of a matrix and a vector, and of many small matrices.

use super::pack::{Factors, Lanes, pack_all};
use super::{K_BLOCK, Real, Source};
use crate::arch::{TileGrid, TileMut};
use crate::parallel;
use samebits_numerics::memory::{self, OutOfMemory, product};
use samebits_numerics::simd::{self, Aligned, Kernel};

/// The number of multiplications of a task.
const TASK_WORK: usize = 1 << 16;

/// The number of lanes that go through the steps together.
const LANES: usize = crate::arch::transpose::CHAINS;
/// The number of bytes from the first row to the last from which rows are read from far caches.
const FAR: usize = 1 << 18;

/// The number of steps that are transposed at a time.
const STEPS: usize = 32;

/// Returns true if the product has one row, whose columns would be packed only to be read once.
pub(crate) fn is_vector<S>(rows: usize, Factors { b, .. }: Factors<'_, S>) -> bool {
    rows == 1 && (b.lane_stride == 1 || b.step_stride == 1)
}

/// The number of columns that are not cut.
const UNIT: usize = LANES / 2;

/// Computes `count` products of one row over `k` steps, each with `columns` columns.
pub(crate) fn vectors<'a, T: Real, S: Source<T>>(
    (columns, k): (usize, usize),
    factors: impl Fn(usize) -> Factors<'a, S> + Sync,
    out: &mut [T],
) {
    if out.is_empty() {
        return;
    }
    // Sixteen lanes of long chains take as long as all.
    let mut size = ((TASK_WORK / k) / UNIT * UNIT).max(UNIT);
    if factors(0).b.lane_stride == 1 {
        // Of long products too, each thread reads long stretches, if there are enough columns for all.
        let share = out.len().div_ceil(parallel::threads());
        let wide = (share / 2).max(LEAST_STRETCH.min(share));
        size = size.max(wide.clamp(LANES, STRETCH).next_multiple_of(LANES));
    }
    // Several short products are not cut.
    let unit = if columns <= size { columns } else { UNIT };
    parallel::pieces_of(parallel::even(out.len(), size, unit), out, |start, mut out| {
        let mut at = start;
        while !out.is_empty() {
            let column = at % columns;
            let (now, later) = out.split_at_mut(out.len().min(columns - column));
            let Factors { a, b } = factors(at / columns);
            let b = b.lanes_from(column);
            at += now.len();
            if b.lane_stride == 1 {
                simd::dispatch(Stretches { a, b, k, out: now });
            } else {
                simd::dispatch(Row { a, b, k, out: now });
            }
            out = later;
        }
    });
}

/// Computes some columns of one row over `k` steps.
pub(crate) struct Row<'a, T, S> {
    pub(crate) a: Lanes<'a, S>,
    pub(crate) b: Lanes<'a, S>,
    pub(crate) k: usize,
    pub(crate) out: &'a mut [T],
}

impl<T: Real, S: Source<T>> Kernel for Row<'_, T, S> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Row { a, b, k, out } = self;
        if out.len() <= FEW && k <= K_BLOCK {
            return few::<FEW, _, _>(a, b, k, out);
        }
        let columns = out.len();
        let out = TileMut::from_slice(out, 1, columns);
        Rows::<1, _, _> { a, b, k, rows: 1, transpose: false, out }.run();
    }
}

/// Computes some columns of at most `R` rows over `k` steps, which are neighbours in B.
struct Rows<'a, const R: usize, T, S> {
    a: Lanes<'a, S>,
    b: Lanes<'a, S>,
    k: usize,
    rows: usize,
    /// Tells if the rows of the output are columns of the product.
    transpose: bool,
    out: TileMut<'a, T>,
}

impl<const R: usize, T: Real, S: Source<T>> Kernel for Rows<'_, R, T, S> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { a, b, k, rows, transpose, mut out } = self;
        let columns = if transpose { out.rows } else { out.columns };
        let mut panel = Aligned([T::default(); STEPS * LANES]);
        let mut copies = Aligned([[T::default(); K_BLOCK]; R]);
        // The sums of more lanes do not fit the registers. From far caches, half as many rows at a time
        // arrive faster.
        let far = b.lane_stride.saturating_mul(LANES * size_of::<S>()) > FAR;
        let most = if far || R > 2 { LANES / 2 } else { LANES };
        let mut from = 0;
        while from < columns {
            // Fewer lanes than all are whole vectors, or those of a product that has no more.
            let left = columns - from;
            let lanes = if left < 8 { left.max(from.min(8)) } else { (left / 8 * 8).min(most) };
            // The last lanes overlap those before: the same values are written again.
            from = from.min(columns - lanes);
            let values = &b.data[from * b.lane_stride..];
            let mut totals = [[T::default(); LANES]; R];
            for block in (0..k).step_by(K_BLOCK) {
                let end = k.min(block + K_BLOCK);
                let mut factors: [&[T]; R] = [&[]; R];
                for (r, (factors, copy)) in factors.iter_mut().zip(&mut copies.0).enumerate() {
                    // A row that is not there repeats the last one.
                    let row = &a.data[r.min(rows - 1) * a.lane_stride..];
                    *factors = match S::in_place(row) {
                        Some(row) if a.step_stride == 1 => &row[block..end],
                        _ => {
                            for (step, factor) in (block..end).zip(&mut *copy) {
                                *factor = row[step * a.step_stride].widen();
                            }
                            &copy[..end - block]
                        }
                    };
                }
                let values = &values[block..];
                let mut sums = Aligned([[T::default(); LANES]; R]);
                let mut first = S::add_products(factors, values, b.lane_stride, lanes, &mut sums.0);
                // An array that no function has seen stays in registers.
                let mut sums = *sums;
                while first < end - block {
                    let steps = STEPS.min(end - block - first);
                    let counts = (lanes, steps);
                    S::pack_transposed(&values[first..], b.lane_stride, counts, &mut *panel, LANES);
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let factors = &factors[r][first..first + steps];
                        for (&x, values) in factors.iter().zip(panel.chunks_exact(LANES)) {
                            for (sum, &value) in sums.iter_mut().zip(values) {
                                *sum = x.fma(value, *sum);
                            }
                        }
                    }
                    first += steps;
                }
                for (totals, sums) in totals.iter_mut().zip(sums) {
                    for (total, sum) in totals.iter_mut().zip(sums) {
                        *total = if block > 0 { total.plus(sum) } else { sum };
                    }
                }
            }
            if transpose {
                for lane in 0..lanes {
                    let out = out.row(0, from + lane, 0, rows);
                    for (out, totals) in out.iter_mut().zip(&totals) {
                        *out = totals[lane].canonical();
                    }
                }
            } else {
                for (r, totals) in totals.into_iter().enumerate().take(rows) {
                    let out = out.row(0, r, from, from + lanes);
                    for (out, total) in out.iter_mut().zip(totals) {
                        *out = total.canonical();
                    }
                }
            }
            from += lanes;
        }
    }
}

/// The largest number of rows of a product whose columns are not packed: they are turned in registers
/// for all rows at once.
const MOST_ROWS: usize = 4;

/// The number of steps and of columns from which that is faster than packing them.
const MANY_STEPS: usize = 64;
const MANY_COLUMNS: usize = 8;

/// Returns true if the product has two rows or a few more, and columns whose many steps are neighbours.
pub(crate) fn has_few_rows<S>(
    (rows, columns, k): (usize, usize, usize),
    Factors { b, .. }: Factors<'_, S>,
) -> bool {
    let is_long = k >= MANY_STEPS && columns >= MANY_COLUMNS;
    (2..=MOST_ROWS).contains(&rows) && is_long && b.step_stride == 1 && b.lane_stride != 1
}

/// Computes `count` products of a few rows over `k` steps; if `transpose`, their transposes.
pub(crate) fn few_rows<'a, T: Real, S: Source<T>>(
    count: usize,
    (rows, columns, k): (usize, usize, usize),
    transpose: bool,
    factors: impl Fn(usize) -> Factors<'a, S> + Sync,
    out: &mut [T],
) {
    let each = rows.saturating_mul(k);
    let most = (TASK_WORK / each).next_multiple_of(LANES).max(LANES);
    let size = parallel::even(columns, most, LANES);
    let together = (TASK_WORK / each.saturating_mul(columns)).clamp(1, count);
    let grid = match transpose {
        true => TileGrid::new(out, count, (columns, rows), (together, size, rows)),
        false => TileGrid::new(out, count, (rows, columns), (together, rows, size)),
    };
    let Ok(()) = grid.try_for_each(|first, row, column, mut tile| {
        let column = if transpose { row } else { column };
        for index in 0..tile.matrices {
            let Factors { a, b } = factors(first + index);
            let (b, out) = (b.lanes_from(column), tile.matrix(index));
            match rows {
                2 => simd::dispatch(Rows::<2, _, _> { a, b, k, rows, transpose, out }),
                _ => simd::dispatch(Rows::<MOST_ROWS, _, _> { a, b, k, rows, transpose, out }),
            }
        }
        Ok::<(), std::convert::Infallible>(())
    });
}

/// Computes some columns of one row over `k` steps. The columns are neighbours: stretches of
/// [`TOGETHER`] rows of B are added at a time.
struct Stretches<'a, T, S> {
    a: Lanes<'a, S>,
    b: Lanes<'a, S>,
    k: usize,
    out: &'a mut [T],
}

/// The number of rows of B whose stretches are added together.
const TOGETHER: usize = 8;
/// The number of columns of a stretch; their sums stay in the first cache.
const STRETCH: usize = 1024;
/// The number of columns from which a stretch is read as fast as a longer one.
const LEAST_STRETCH: usize = 128;

impl<T: Real, S: Source<T>> Kernel for Stretches<'_, T, S> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Stretches { a, b, k, out } = self;
        let mut sums = Aligned([T::default(); STRETCH]);
        for (number, out) in out.chunks_mut(STRETCH).enumerate() {
            let b = b.lanes_from(number * STRETCH);
            let sums = &mut sums[..out.len()];
            for block in (0..k).step_by(K_BLOCK) {
                let end = k.min(block + K_BLOCK);
                let whole = block + (end - block) / TOGETHER * TOGETHER;
                sums.fill(T::default());
                for step in (block..whole).step_by(TOGETHER) {
                    add_stretches::<TOGETHER, _, _>(a.steps_from(step), b.steps_from(step), sums);
                }
                for step in whole..end {
                    add_stretches::<1, _, _>(a.steps_from(step), b.steps_from(step), sums);
                }
                for (out, &sum) in out.iter_mut().zip(&*sums) {
                    *out = if block > 0 { out.plus(sum) } else { sum };
                }
            }
            out.iter_mut().for_each(|out| *out = out.canonical());
        }
    }
}

/// Adds `N` steps to the sums of columns that are neighbours.
#[inline(always)]
fn add_stretches<const N: usize, T: Real, S: Source<T>>(
    a: Lanes<'_, S>,
    b: Lanes<'_, S>,
    sums: &mut [T],
) {
    let (mut x, mut rows) = ([T::default(); N], [&b.data[..sums.len()]; N]);
    for step in 0..N {
        x[step] = a.data[step * a.step_stride].widen();
        rows[step] = &b.data[step * b.step_stride..][..sums.len()];
    }
    for j in 0..sums.len() {
        let mut sum = sums[j];
        for (x, row) in x.into_iter().zip(rows) {
            sum = x.fma(row[j].widen(), sum);
        }
        sums[j] = sum;
    }
}

/// The largest number of steps of products that take longer to write than to compute.
const SHALLOW: usize = 8;

/// Returns true for products over few steps whose rows are long enough for vectors.
pub(crate) fn are_shallow<T: Real, S: Source<T>>(
    count: usize,
    (rows, columns, k): (usize, usize, usize),
    Factors { b, .. }: Factors<'_, S>,
) -> bool {
    let is_read_in_place = b.lane_stride == 1 && !S::IS_NARROW;
    k <= SHALLOW && columns >= LANES && (is_read_in_place || (count == 1 && rows >= FEW_ROWS))
}

/// The number of rows from which it pays to turn the columns of a product, or to widen them.
const FEW_ROWS: usize = 4;

/// Computes products over at most [`SHALLOW`] steps, row by row.
pub(crate) fn shallow<'a, T: Real, S: Source<T>>(
    shape @ (rows, columns, k): (usize, usize, usize),
    factors: impl Fn(usize) -> Factors<'a, S> + Sync,
    out: &mut [T],
) -> Result<(), OutOfMemory> {
    let in_place = |Lanes { data, lane_stride, step_stride }: Lanes<'a, S>| {
        S::in_place(data).map(|data| Lanes { data, lane_stride, step_stride })
    };
    let both = |Factors { a, b }| Some(Factors { a: in_place(a)?, b: in_place(b)? });
    let first = factors(0);
    if first.b.lane_stride == 1 && !S::IS_NARROW {
        let read = |index| both(factors(index)).expect("factors of the type of the products");
        shallow_rows(shape, &read, out);
        return Ok(());
    }
    // A single product, whose factors are widened once, and the steps of B turned.
    let copied = |source: Lanes<'a, S>, lanes: usize| {
        let volume = product(&[k, lanes]).ok_or(OutOfMemory { bytes: usize::MAX })?;
        let mut copy: Vec<T> = memory::zeroed(volume)?;
        pack_all(source, lanes, 0..k, lanes, &mut copy);
        Ok(copy)
    };
    let turned = copied(first.b, columns)?;
    let b = Lanes { data: &turned[..], lane_stride: 1, step_stride: columns };
    let widened;
    let a = match in_place(first.a) {
        Some(a) => a,
        None => {
            widened = copied(first.a, rows)?;
            Lanes { data: &widened[..], lane_stride: 1, step_stride: rows }
        }
    };
    shallow_rows(shape, &|_| Factors { a, b }, out);
    Ok(())
}

/// Computes [`shallow`] products of factors that are read in place.
fn shallow_rows<'a, T: Real>(
    (rows, columns, k): (usize, usize, usize),
    factors: &(dyn Fn(usize) -> Factors<'a, T> + Sync),
    out: &mut [T],
) {
    let size = parallel::even(out.len(), (TASK_WORK / columns).max(1) * columns, columns);
    parallel::pieces_of(size, out, |start, out| {
        let first = start / columns;
        simd::dispatch(Shallow { columns, k, rows, first, factors, out });
    });
}

/// The numbers of the columns of a block of a [`Shallow`] product fit half of the first cache.
const BLOCK: usize = 1 << 11;

struct Shallow<'f, 'a, T> {
    columns: usize,
    k: usize,
    /// The number of rows of a product.
    rows: usize,
    /// The number of the first row, counted over all products.
    first: usize,
    /// The factors of each product.
    factors: &'f (dyn Fn(usize) -> Factors<'a, T> + Sync),
    out: &'f mut [T],
}

impl<T: Real> Kernel for Shallow<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        match self.k {
            1 => self.over::<1>(),
            2 => self.over::<2>(),
            3 => self.over::<3>(),
            4 => self.over::<4>(),
            5 => self.over::<5>(),
            6 => self.over::<6>(),
            7 => self.over::<7>(),
            _ => self.over::<SHALLOW>(),
        }
    }
}

/// The number of columns of which a [`Shallow`] product keeps all steps in registers, and of elements of
/// the output that stay in the first cache meanwhile.
const SIDE: usize = 32;
const GROUP: usize = 1 << 12;

impl<T: Real> Shallow<'_, '_, T> {
    /// Computes the rows over `K` steps.
    #[inline(always)]
    fn over<const K: usize>(self) {
        let Shallow { columns, k, rows, first, factors, out } = self;
        assert!(k == K && columns >= SIDE);
        let (mut index, mut row, mut out) = (first / rows, first % rows, out);
        while !out.is_empty() {
            let count = (rows - row).min(out.len() / columns);
            let (now, later) = std::mem::take(&mut out).split_at_mut(count * columns);
            let Factors { a, b } = factors(index);
            let a = a.lanes_from(row);
            // Whole cache lines of f32.
            let block = BLOCK / K / SIDE * SIDE;
            for first in (0..columns).step_by(block) {
                let width = block.min(columns - first);
                let group = (GROUP / width).max(1);
                for (number, out) in now.chunks_mut(group * columns).enumerate() {
                    let a = a.lanes_from(number * group);
                    for column in (first..first + width).step_by(SIDE) {
                        // The last columns overlap those before: the same values are written again.
                        let column = column.min(columns - SIDE);
                        columns_of_rows::<K, _>(a, b.lanes_from(column), columns, column, out);
                    }
                }
            }
            (index, row, out) = (index + 1, 0, later);
        }
    }
}

/// Computes [`SIDE`] columns, from `column` on, of rows of `columns` over `K` steps.
#[inline(always)]
fn columns_of_rows<const K: usize, T: Real>(
    a: Lanes<'_, T>,
    b: Lanes<'_, T>,
    columns: usize,
    column: usize,
    out: &mut [T],
) {
    let mut steps = [[T::default(); SIDE]; K];
    for (step, values) in steps.iter_mut().enumerate() {
        values.copy_from_slice(&b.data[step * b.step_stride..][..SIDE]);
    }
    for (row, out) in out.chunks_exact_mut(columns).enumerate() {
        let mut sums = [T::default(); SIDE];
        for step in 0..K {
            let x = a.data[row * a.lane_stride + step * a.step_stride];
            for j in 0..SIDE {
                sums[j] = x.fma(steps[step][j], sums[j]);
            }
        }
        for j in 0..SIDE {
            sums[j] = sums[j].canonical();
        }
        out[column..column + SIDE].copy_from_slice(&sums);
    }
}

/// The number of columns over one block of steps that are not worth a panel.
const FEW: usize = 3;

/// Computes at most `N` columns of one row over one block of steps.
#[inline(always)]
fn few<const N: usize, T: Real, S: Source<T>>(
    a: Lanes<'_, S>,
    b: Lanes<'_, S>,
    k: usize,
    out: &mut [T],
) {
    let Some(last) = out.len().checked_sub(1) else { return };
    // A missing column repeats the last one.
    let mut rows = [&b.data[..k]; N];
    for (r, row) in rows.iter_mut().enumerate() {
        *row = &b.data[r.min(last) * b.lane_stride..][..k];
    }
    let mut sums = [T::default(); N];
    for step in 0..k {
        let x = a.data[step * a.step_stride].widen();
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum = x.fma(row[step].widen(), *sum);
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = sum.canonical();
    }
}

/// The largest number of steps of a small product, and half of its largest numbers of rows and columns.
const SMALL: usize = 16;

/// The number of multiplications that take as long as what a small product costs beside its own.
const SMALL_WORK: usize = 256;

/// The number of rows of a small product that are computed together, unless it has one.
const ROWS: usize = 4;

/// Returns true for many products so small that starting a tile costs more than computing it.
pub(crate) fn are_small<T: Real, S: Source<T>>(
    count: usize,
    (rows, columns, k): (usize, usize, usize),
    Factors { b, .. }: Factors<'_, S>,
) -> bool {
    let fits = |columns: usize| columns <= 2 * SMALL;
    let is_row = rows == 1 && fits(columns) && k <= K_BLOCK && b.lane_stride == 1;
    let is_narrow = || columns <= SMALL || !S::IS_NARROW && rows * columns * k <= WIDE_WORK;
    count >= 8 && (is_row || fits(rows) && fits(columns) && k <= SMALL && is_narrow())
}

/// The number of multiplications up to which products of more columns than [`SMALL`] are small.
const WIDE_WORK: usize = 4096;

/// Computes `count` small products.
pub(crate) fn small<'a, T: Real, S: Source<T>>(
    (rows, columns, k): (usize, usize, usize),
    factors: impl Fn(usize) -> Factors<'a, S> + Sync,
    out: &mut [T],
) {
    let product = rows * columns;
    let size = (TASK_WORK / (product * k + SMALL_WORK)).max(1) * product;
    let size = parallel::even(out.len(), size, product);
    // One column is the row of the product of the transposes.
    let swap = columns == 1;
    let (rows, columns) = if swap { (1, rows) } else { (rows, columns) };
    parallel::pieces_of(size, out, |start, out| {
        let factors = |index: usize| {
            let Factors { a, b } = factors(start / product + index);
            if swap { Factors { a: b, b: a } } else { Factors { a, b } }
        };
        // One type of function, so that each kernel is compiled once.
        let factors = &factors;
        if S::IS_NARROW {
            // Widening takes longest, so fewer kernels serve.
            return match rows {
                1 => simd::dispatch(Small::<32, 1, _, _> { rows, columns, k, factors, out }),
                _ => simd::dispatch(Small::<16, ROWS, _, _> { rows, columns, k, factors, out }),
            };
        }
        match (rows, columns) {
            (1, ..=4) => simd::dispatch(Small::<4, 1, _, _> { rows, columns, k, factors, out }),
            (1, 5..=16) => simd::dispatch(Small::<16, 1, _, _> { rows, columns, k, factors, out }),
            (1, _) => simd::dispatch(Small::<32, 1, _, _> { rows, columns, k, factors, out }),
            (_, ..=4) => simd::dispatch(Small::<4, ROWS, _, _> { rows, columns, k, factors, out }),
            (_, 5..=8) => simd::dispatch(Small::<8, ROWS, _, _> { rows, columns, k, factors, out }),
            (_, 9..=16) => {
                simd::dispatch(Small::<16, ROWS, _, _> { rows, columns, k, factors, out })
            }
            _ => simd::dispatch(Small::<32, ROWS, _, _> { rows, columns, k, factors, out }),
        }
    });
}

/// Computes small products of at most `N` columns, `R` rows at a time.
struct Small<'f, 'a, const N: usize, const R: usize, T, S> {
    rows: usize,
    columns: usize,
    k: usize,
    factors: &'f dyn Fn(usize) -> Factors<'a, S>,
    out: &'f mut [T],
}

impl<const N: usize, const R: usize, T: Real, S: Source<T>> Kernel for Small<'_, '_, N, R, T, S> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Small { rows, columns, k, factors, out } = self;
        // Columns that a product lacks are computed from zeros and dropped.
        let mut padded = [[T::default(); N]; SMALL];
        for (index, out) in out.chunks_exact_mut(rows * columns).enumerate() {
            let Factors { a, b } = factors(index);
            if R == 1 && !S::IS_NARROW && b.step_stride == 1 && b.lane_stride != 1 {
                // Turning the columns would take longer than their chains.
                for (first, out) in (0..columns).step_by(4).zip(out.chunks_mut(4)) {
                    few::<4, _, _>(a, b.lanes_from(first), k, out);
                }
                continue;
            }
            if R == 1 && b.lane_stride == 1 {
                let mut sums = [T::default(); N];
                for step in 0..k {
                    let x = a.data[step * a.step_stride].widen();
                    let values = &b.data[step * b.step_stride..];
                    let mut row = [T::default(); N];
                    match values.first_chunk::<N>() {
                        Some(values) => S::copy(values, &mut row),
                        None => S::copy(&values[..columns], &mut row[..columns]),
                    }
                    for c in 0..N {
                        sums[c] = x.fma(row[c], sums[c]);
                    }
                }
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = sum.canonical();
                }
                continue;
            }
            for (step, padded) in padded[..k].iter_mut().enumerate() {
                let values = &b.data[step * b.step_stride..];
                match values.first_chunk::<N>() {
                    Some(row) if b.lane_stride == 1 => S::copy(row, padded),
                    _ => {
                        let values = values.iter().step_by(b.lane_stride.max(1));
                        for (to, &value) in padded[..columns].iter_mut().zip(values) {
                            *to = value.widen();
                        }
                        if b.lane_stride == 0 {
                            padded.fill(b.data[step * b.step_stride].widen());
                        }
                    }
                }
            }
            for first in (0..rows).step_by(R) {
                let count = R.min(rows - first);
                let mut sums = [[T::default(); N]; R];
                for (step, values) in padded[..k].iter().enumerate() {
                    for (r, sums) in sums.iter_mut().enumerate() {
                        // A missing row repeats the last one.
                        let row = first + r.min(count - 1);
                        let x = a.data[row * a.lane_stride + step * a.step_stride].widen();
                        for c in 0..N {
                            sums[c] = x.fma(values[c], sums[c]);
                        }
                    }
                }
                let out = out[first * columns..].chunks_exact_mut(columns);
                for (out, sums) in out.zip(&sums[..count]) {
                    for (out, sum) in out.iter_mut().zip(sums) {
                        *out = sum.canonical();
                    }
                }
            }
        }
    }
}
