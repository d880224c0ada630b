//! Softmax of many short rows, or of columns: [`WIDTH`] of them side by side, so that each step uses whole
//! vectors and reads its numbers from a cache.

use std::hint::select_unpredictable;

use samebits_numerics::extrema::replaces_max;
use samebits_numerics::reduce::Lanes;
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::geometry::Split;

use super::{SOFTMAX, cost, logs_of};
use crate::arch::{TileGrid, TileMut};
use crate::elementwise::Elementary;
use crate::error::Result;
use crate::memory;
use crate::parallel::CHUNK;
use crate::quotient::Divisors;

/// The number of rows or columns side by side.
pub(super) const WIDTH: usize = 32;

/// The widths of rows that are turned: others fill vectors as they are.
const TURNED: std::ops::RangeInclusive<usize> = 4..=96;

/// The largest number of elements of a column: of longer ones, memory is read in short pieces.
const LONGEST: usize = 256;

/// Returns true for rows that are turned, so that they lie side by side.
pub(super) fn are_turned(rows: usize, width: usize) -> bool {
    rows >= WIDTH && TURNED.contains(&width)
}

/// Returns true for columns that lie side by side.
pub(super) fn are_columns(Split { size, inner, .. }: Split) -> bool {
    inner >= WIDTH && size <= LONGEST
}

/// Computes softmax of the columns of slabs if `exp`, and otherwise its logarithms.
pub(super) fn columns<T: Elementary>(
    x: &[T],
    Split { outer, size, inner }: Split,
    exp: bool,
    out: &mut [T],
) -> Result<()> {
    let task = CHUNK / cost::<T>();
    let wide = (task / size).next_multiple_of(WIDTH).max(WIDTH);
    let mut wide = inner.div_ceil((inner / wide).max(1)).next_multiple_of(WIDTH).min(inner);
    // The last tile has at least the columns of a strip.
    while (1..WIDTH).contains(&(inner % wide)) {
        wide = (wide + WIDTH).min(inner);
    }
    let together = if wide < inner { 1 } else { (task / (size * inner)).clamp(1, outer.max(1)) };
    TileGrid::new(out, outer, (size, inner), (together, size, wide)).try_for_each(
        |slab, _, column, mut tile| {
            let mut memory = memory::scratch::<T>(SOFTMAX, 2 * size * WIDTH)?;
            let scratch = memory.as_mut_slice();
            for index in 0..tile.matrices {
                let x = &x[(slab + index) * size * inner + column..];
                let out = tile.matrix(index);
                simd::dispatch(Columns { exp, x, inner, out, scratch });
            }
            Ok(())
        },
    )
}

/// Computes softmax of at least [`WIDTH`] rows if `exp`, and otherwise its logarithms.
pub(super) fn rows<T: Elementary>(x: &[T], width: usize, exp: bool, out: &mut [T]) -> Result<()> {
    let mut memory = memory::scratch::<T>(SOFTMAX, 2 * width * WIDTH)?;
    simd::dispatch(Rows { exp, x, width, out, scratch: memory.as_mut_slice() });
    Ok(())
}

struct Columns<'a, 'o, T> {
    exp: bool,
    /// The elements from the first column on.
    x: &'a [T],
    inner: usize,
    out: TileMut<'o, T>,
    scratch: &'a mut [T],
}

impl<T: Elementary> Kernel for Columns<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Columns { exp, x, inner, mut out, scratch } = self;
        let (size, columns) = (out.rows, out.columns);
        let (differences, exps) = scratch.split_at_mut(size * WIDTH);
        let mut lanes = Lanes::new();
        for column in (0..columns).step_by(WIDTH) {
            // The last strip overlaps the one before: the same values are written again.
            let column = column.min(columns - WIDTH);
            let x = &x[column..];
            subtract_maxima(x, inner, differences);
            T::exp_each(differences, exps);
            let finish = Finish::new(exp, &mut lanes, exps);
            for row in 0..size {
                let made = finish.row(differences, exps, row);
                out.row(0, row, column, column + WIDTH).copy_from_slice(&made);
            }
        }
    }
}

struct Rows<'a, T> {
    exp: bool,
    x: &'a [T],
    width: usize,
    out: &'a mut [T],
    scratch: &'a mut [T],
}

impl<T: Elementary> Kernel for Rows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { exp, x, width, out, scratch } = self;
        let (differences, exps) = scratch.split_at_mut(width * WIDTH);
        let (rows, mut lanes) = (out.len() / width, Lanes::new());
        for row in (0..rows).step_by(WIDTH) {
            let first = row.min(rows - WIDTH) * width;
            T::transpose(&x[first..], width, (WIDTH, width), exps, WIDTH);
            subtract_maxima(exps, WIDTH, differences);
            T::exp_each(differences, exps);
            let finish = Finish::new(exp, &mut lanes, exps);
            for row in 0..width {
                let made = finish.row(differences, exps, row);
                exps[row * WIDTH..][..WIDTH].copy_from_slice(&made);
            }
            T::transpose(exps, WIDTH, (width, WIDTH), &mut out[first..], width);
        }
    }
}

/// Writes the differences of a strip, whose rows are `stride` apart, to the maxima of its columns.
#[inline(always)]
fn subtract_maxima<T: Elementary>(x: &[T], stride: usize, differences: &mut [T]) {
    let mut best = [T::ZERO; WIDTH];
    best.copy_from_slice(&x[..WIDTH]);
    let rows = differences.len() / WIDTH;
    for row in 1..rows {
        let row = &x[row * stride..][..WIDTH];
        for c in 0..WIDTH {
            best[c] = select_unpredictable(replaces_max(best[c], row[c]), row[c], best[c]);
        }
    }
    for (row, differences) in differences.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
        let row = &x[row * stride..][..WIDTH];
        for c in 0..WIDTH {
            differences[c] = row[c] - best[c];
        }
    }
}

/// What the last step needs of the sums of a strip.
enum Finish<T> {
    Softmax(Divisors<T, WIDTH>),
    /// The logarithms of the sums.
    Log([T; WIDTH]),
}

impl<T: Elementary> Finish<T> {
    #[inline(always)]
    fn new(exp: bool, lanes: &mut Lanes, exps: &[T]) -> Finish<T> {
        let rows = exps.len() / WIDTH;
        for (row, count) in Lanes::made(rows, WIDTH) {
            lanes.add_made(row, WIDTH, &exps[row * WIDTH..][..count * WIDTH]);
        }
        let mut sums = [0.0; WIDTH];
        lanes.finish_made(rows, &mut sums);
        let mut of_sums = [T::ZERO; WIDTH];
        if exp {
            for (of_sum, &sum) in of_sums.iter_mut().zip(&sums) {
                *of_sum = T::from_f64(sum);
            }
            return Finish::Softmax(Divisors::new(of_sums));
        }
        logs_of(&sums, &mut of_sums);
        Finish::Log(of_sums)
    }

    /// Returns one row of the result.
    #[inline(always)]
    fn row(&self, differences: &[T], exps: &[T], row: usize) -> [T; WIDTH] {
        let at = row * WIDTH..(row + 1) * WIDTH;
        let mut made = [T::ZERO; WIDTH];
        match self {
            Finish::Softmax(divisors) => {
                made.copy_from_slice(&exps[at]);
                divisors.divide(&mut made);
            }
            Finish::Log(logs) => {
                let differences = &differences[at];
                for c in 0..WIDTH {
                    made[c] = (differences[c] - logs[c]).canonical();
                }
            }
        }
        made
    }
}
