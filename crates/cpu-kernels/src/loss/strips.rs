//! Softmax of many short rows, or of columns: [`WIDTH`] of them side by side, so that each step uses whole
//! vectors and reads its numbers from a cache.

use std::hint::select_unpredictable;

use samebits_numerics::extrema::replaces_max;
use samebits_numerics::reduce::{BLOCK, LANES, Lanes};
use samebits_numerics::simd::{self, Aligned, Kernel};
use samebits_tensor_core::geometry::Split;

use super::{SOFTMAX, cost, logs_of};
use crate::arch::{TileGrid, TileMut};
use crate::elementwise::Elementary;
use crate::error::Result;
use crate::memory;
use crate::parallel::{self, CHUNK};
use crate::quotient::Divisors;

/// The number of rows or columns side by side.
pub(super) const WIDTH: usize = 32;

/// The widths of rows that are turned: others fill vectors as they are.
const SHORTEST_ROW: usize = 4;
const LONGEST_ROW: usize = 96;

/// The number of rows of a strip whose exponentials are computed together.
const SOME: usize = LANES / 2;

/// The number of elements of a column from which few columns leave too much of the last strip empty, and
/// the bytes of a slab of such columns from which reading strips of it twice takes longer than to compute
/// exponentials of f32 twice.
const LONG: usize = 256;
const LARGE: usize = 1 << 24;

/// Returns true for rows that are turned, so that they lie side by side.
pub(super) fn are_turned(rows: usize, width: usize) -> bool {
    rows >= WIDTH && (SHORTEST_ROW..=LONGEST_ROW).contains(&width)
}

/// Returns true for columns that lie side by side.
pub(super) fn are_columns<T>(Split { size, inner, .. }: Split) -> bool {
    let is_full = || inner.next_multiple_of(WIDTH) - inner <= inner / 4;
    let is_near =
        || size <= BLOCK && (size_of::<T>() == 8 || size * inner <= LARGE / size_of::<T>());
    inner >= WIDTH && (size <= LONG || (is_near() && is_full()))
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
    let mut wide = parallel::even(inner, wide, WIDTH).min(inner);
    // The last tile has at least the columns of a strip.
    while (1..WIDTH).contains(&(inner % wide)) {
        wide = (wide + WIDTH).min(inner);
    }
    let together = if wide < inner { 1 } else { (task / (size * inner)).clamp(1, outer.max(1)) };
    TileGrid::new(out, outer, (size, inner), (together, size, wide)).try_for_each(
        |slab, _, column, tile| {
            let mut memory = memory::scratch::<T>(SOFTMAX, size * WIDTH)?;
            let (x, scratch) = (&x[slab * size * inner + column..], memory.as_mut_slice());
            simd::dispatch(Columns { exp, x, inner, tile, scratch });
            Ok(())
        },
    )
}

/// Computes softmax of at least [`WIDTH`] rows if `exp`, and otherwise its logarithms.
pub(super) fn rows<T: Elementary>(x: &[T], width: usize, exp: bool, out: &mut [T]) -> Result<()> {
    let mut memory = memory::scratch::<T>(SOFTMAX, width * WIDTH)?;
    simd::dispatch(Rows { exp, x, width, out, scratch: memory.as_mut_slice() });
    Ok(())
}

struct Columns<'a, 'o, T> {
    exp: bool,
    /// The elements from the first column of the first slab on.
    x: &'a [T],
    inner: usize,
    /// Some columns of some slabs.
    tile: TileMut<'o, T>,
    /// Scratch memory for a strip.
    scratch: &'a mut [T],
}

impl<T: Elementary> Kernel for Columns<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Columns { exp, x, inner, mut tile, scratch } = self;
        let (rows, columns, mut near) = (tile.rows, tile.columns, Near::new());
        for slab in 0..tile.matrices {
            for column in (0..columns).step_by(WIDTH) {
                // The last strip overlaps the one before: the same values are written again.
                let column = column.min(columns - WIDTH);
                let x = &x[slab * rows * inner + column..];
                let best = maxima(x, inner, rows);
                let finish = Finish::new(exp, (x, inner), best, scratch, &mut near);
                for row in 0..rows {
                    let made = finish.row(scratch, row);
                    tile.row(slab, row, column, column + WIDTH).copy_from_slice(&made);
                }
            }
        }
    }
}

struct Rows<'a, T> {
    exp: bool,
    x: &'a [T],
    width: usize,
    out: &'a mut [T],
    /// Scratch memory for a strip.
    scratch: &'a mut [T],
}

impl<T: Elementary> Kernel for Rows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Rows { exp, x, width, out, scratch } = self;
        let (rows, mut near) = (out.len() / width, Near::new());
        let mut turned = Aligned([[T::ZERO; WIDTH]; LONGEST_ROW]);
        for row in (0..rows).step_by(WIDTH) {
            let first = row.min(rows - WIDTH) * width;
            let turned = turned[..width].as_flattened_mut();
            T::transpose(&x[first..], width, (WIDTH, width), turned, WIDTH);
            let best = maxima(turned, WIDTH, width);
            let finish = Finish::new(exp, (turned, WIDTH), best, scratch, &mut near);
            for row in 0..width {
                let made = finish.row(scratch, row);
                turned[row * WIDTH..][..WIDTH].copy_from_slice(&made);
            }
            T::transpose(turned, WIDTH, (width, WIDTH), &mut out[first..], width);
        }
    }
}

/// Finds the maxima of the columns of a strip, whose rows are `stride` apart.
#[inline(always)]
fn maxima<T: Elementary>(x: &[T], stride: usize, rows: usize) -> [T; WIDTH] {
    let mut best = [T::ZERO; WIDTH];
    best.copy_from_slice(&x[..WIDTH]);
    for row in 1..rows {
        let row = &x[row * stride..][..WIDTH];
        for c in 0..WIDTH {
            best[c] = select_unpredictable(replaces_max(best[c], row[c]), row[c], best[c]);
        }
    }
    best
}

/// Scratch memory for every strip, which stays in the first-level cache.
struct Near<T> {
    lanes: Lanes,
    /// What is not stored of some rows: differences or exponentials.
    other: Aligned<[T; SOME * WIDTH]>,
}

impl<T: Elementary> Near<T> {
    #[inline(always)]
    fn new() -> Near<T> {
        Near { lanes: Lanes::new(), other: Aligned([T::ZERO; SOME * WIDTH]) }
    }
}

/// What the last step needs of the sums of a strip.
enum Finish<T> {
    Softmax(Divisors<T, WIDTH>),
    /// The logarithms of the sums.
    Log([T; WIDTH]),
}

impl<T: Elementary> Finish<T> {
    /// Writes the exponentials of a strip, whose rows are `stride` apart, to `stored`, or if not `exp`
    /// their exponents.
    #[inline(always)]
    fn new(
        exp: bool,
        (x, stride): (&[T], usize),
        best: [T; WIDTH],
        stored: &mut [T],
        Near { lanes, other }: &mut Near<T>,
    ) -> Finish<T> {
        let rows = stored.len() / WIDTH;
        for (number, stored) in stored.chunks_mut(SOME * WIDTH).enumerate() {
            let first = number * SOME;
            let other = &mut other[..stored.len()];
            let (differences, exps) = if exp { (other, stored) } else { (stored, other) };
            for (r, to) in differences.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
                let row = &x[(first + r) * stride..][..WIDTH];
                for c in 0..WIDTH {
                    to[c] = row[c] - best[c];
                }
            }
            T::exp_each(differences, exps);
            lanes.add_made(first, WIDTH, exps);
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
    fn row(&self, stored: &[T], row: usize) -> [T; WIDTH] {
        let mut made = [T::ZERO; WIDTH];
        made.copy_from_slice(&stored[row * WIDTH..][..WIDTH]);
        match self {
            Finish::Softmax(divisors) => divisors.divide(&mut made),
            Finish::Log(logs) => {
                for c in 0..WIDTH {
                    made[c] = (made[c] - logs[c]).canonical();
                }
            }
        }
        made
    }
}
