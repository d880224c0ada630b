//! Householder reflections of one matrix by columns.

use samebits_numerics::simd::{self, Kernel};

use super::columns::{Element, GRAIN, Shape, TOGETHER, apply, apply_back, distance, factor};
use super::tiles::{PANEL, reflection};
use crate::Float;
use crate::arch::along::AlongPasses;
use crate::parallel::chunks_mut;

/// Returns true if columns are faster than tiles: if they are long, and few or very long. That changes
/// no bit.
pub(in crate::linalg) fn pays([m, n]: [usize; 2]) -> bool {
    m >= 200 && (n <= 32 || m / 32 >= n)
}

/// The elements of a cache line.
pub(super) const LINE: usize = 8;

/// Returns the layout of columns of `rows` elements.
pub(in crate::linalg) fn shape(rows: usize) -> Shape {
    Shape { rows, step: distance(rows.div_ceil(LINE)) * LINE }
}

/// The rows and columns that are transposed at a time.
const BLOCK_ROWS: usize = 64;
const BLOCK_COLUMNS: usize = 16;

/// Reads columns from number `first` on from rows of `count` elements.
pub(in crate::linalg) struct ReadColumns<'a, T> {
    pub(in crate::linalg) x: &'a [T],
    pub(in crate::linalg) count: usize,
    pub(in crate::linalg) shape: Shape,
    pub(in crate::linalg) first: usize,
    pub(in crate::linalg) columns: &'a mut [f64],
}

impl<T: Float> Kernel for ReadColumns<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let ReadColumns { x, count, shape: Shape { rows, step }, first, columns } = self;
        let mut block = [T::ZERO; BLOCK_ROWS * BLOCK_COLUMNS];
        let firsts = (first..).step_by(BLOCK_COLUMNS);
        for (first, columns) in firsts.zip(columns.chunks_mut(BLOCK_COLUMNS * step)) {
            let width = columns.len() / step;
            for row in (0..rows).step_by(BLOCK_ROWS) {
                let height = BLOCK_ROWS.min(rows - row);
                let from = &x[row * count + first..];
                T::transpose(from, count, (height, width), &mut block, BLOCK_ROWS);
                let blocks = block.chunks_exact(BLOCK_ROWS);
                for (column, block) in columns.chunks_exact_mut(step).zip(blocks) {
                    for (to, &x) in column[row..][..height].iter_mut().zip(block) {
                        *to = x.into();
                    }
                }
            }
        }
    }
}

/// Writes the rows from number `first` on of columns to rows of `count` elements; if `UPPER`, with
/// zeros below the diagonal, and in rows that the columns lack.
pub(in crate::linalg) struct WriteRows<'a, T, const UPPER: bool> {
    pub(in crate::linalg) columns: &'a [f64],
    pub(in crate::linalg) shape: Shape,
    pub(in crate::linalg) first: usize,
    pub(in crate::linalg) count: usize,
    pub(in crate::linalg) out: &'a mut [T],
}

impl<T: Float, const UPPER: bool> Kernel for WriteRows<'_, T, UPPER> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let WriteRows { columns, shape: Shape { rows, step }, first, count, out } = self;
        let mut block = [T::ZERO; BLOCK_ROWS * BLOCK_COLUMNS];
        for (i, out) in out.chunks_mut(BLOCK_ROWS * count).enumerate() {
            let row = first + i * BLOCK_ROWS;
            let height = (out.len() / count).min(rows.saturating_sub(row));
            let groups = columns.chunks(BLOCK_COLUMNS * step).enumerate();
            for (group, columns) in groups {
                let left = group * BLOCK_COLUMNS;
                let blocks = block.chunks_exact_mut(BLOCK_ROWS);
                for ((j, column), block) in (left..).zip(columns.chunks_exact(step)).zip(blocks) {
                    let column = column.get(row..row + height).unwrap_or_default();
                    for (to, &x) in block.iter_mut().zip(column) {
                        *to = T::from_f64(x).canonical();
                    }
                    if UPPER {
                        let inside = (j + 1).saturating_sub(row).min(height);
                        block[inside..height].fill(T::ZERO);
                    }
                }
                let width = columns.len() / step;
                T::transpose(&block, BLOCK_ROWS, (width, height), &mut out[left..], count);
            }
            if UPPER {
                out[height * count..].fill(T::ZERO);
            }
        }
    }
}

/// Makes columns upper triangular, and keeps the vectors of the reflections below the diagonal. Columns up
/// to the magnitude `negligible` count as zero.
pub(in crate::linalg) fn factor_columns(
    shape: Shape,
    negligible: f64,
    columns: &mut [f64],
    taus: &mut [f64],
) {
    for (i, taus) in taus.chunks_mut(PANEL).enumerate() {
        let offset = PANEL * i;
        let (done, later) = columns.split_at_mut((offset + taus.len()) * shape.step);
        let panel = &mut done[offset * shape.step..];
        simd::dispatch(Factor { shape, offset, negligible, columns: panel, taus });
        let (vectors, taus) = (&*panel, &*taus);
        chunks_mut(later, together(shape, taus.len()) * shape.step).for_each(|columns| {
            simd::dispatch(Apply { shape, offset, vectors, taus, columns });
        });
    }
}

/// Returns the number of columns that a thread takes at a time: whole groups.
pub(in crate::linalg) fn together(shape: Shape, reflections: usize) -> usize {
    GRAIN.div_ceil(shape.step * reflections).next_multiple_of(TOGETHER)
}

/// Makes the columns of one panel upper triangular, the first of which has its diagonal element in
/// row `offset`.
struct Factor<'a> {
    shape: Shape,
    offset: usize,
    negligible: f64,
    columns: &'a mut [f64],
    taus: &'a mut [f64],
}

impl Kernel for Factor<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Factor { shape, offset, negligible, columns, taus } = self;
        factor(AlongPasses::new(), shape, offset, negligible, columns, taus);
    }
}

/// Applies the reflections of a panel to columns, in ascending order.
struct Apply<'a> {
    shape: Shape,
    offset: usize,
    vectors: &'a [f64],
    taus: &'a [f64],
    columns: &'a mut [f64],
}

impl Kernel for Apply<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Apply { shape, offset, vectors, taus, columns } = self;
        let passes = AlongPasses::new();
        for columns in columns.chunks_mut(TOGETHER * shape.step) {
            apply(passes, shape, offset, vectors, taus, columns);
        }
    }
}

/// Applies reflections to columns in descending order: all of them, or in columns of the identity,
/// which start with number `first`, those that change them. The vectors begin with a 1.
pub(in crate::linalg) struct ApplyBack<'a> {
    pub(in crate::linalg) shape: Shape,
    pub(in crate::linalg) vectors: &'a [f64],
    pub(in crate::linalg) taus: &'a [f64],
    pub(in crate::linalg) first: Option<usize>,
    pub(in crate::linalg) columns: &'a mut [f64],
}

impl Kernel for ApplyBack<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let ApplyBack { shape, vectors, taus, first, columns } = self;
        let Shape { rows, step } = shape;
        let passes = AlongPasses::new();
        for (panel, taus) in taus.chunks(PANEL).enumerate().rev() {
            let offset = panel * PANEL;
            let vectors = &vectors[offset * step..];
            let vector = |k: usize| &vectors[k * step..][..rows];
            for (i, columns) in columns.chunks_mut(TOGETHER * step).enumerate() {
                let first = first.map(|first| first + i * TOGETHER);
                apply_back(passes, shape, offset, vector, taus, first, columns);
            }
        }
    }
}

impl Element for f64 {
    type Passes = AlongPasses;

    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;

    #[inline(always)]
    fn none(self) -> bool {
        self == 0.0
    }

    #[inline(always)]
    fn factor(self, tau: f64, sum: f64) -> f64 {
        -(tau * (self + sum))
    }

    #[inline(always)]
    fn add_product(self, factor: f64, x: f64) -> f64 {
        factor.mul_add(x, self)
    }

    #[inline(always)]
    fn reflection(_: AlongPasses, column: &mut [f64], negligible: f64) -> f64 {
        reflection(column, negligible)
    }

    #[inline(always)]
    fn add_scaled(
        passes: AlongPasses,
        columns: &mut [f64],
        step: usize,
        factors: &[f64],
        x: &[f64],
    ) {
        passes.add_scaled(columns, step, factors, x);
    }

    #[inline(always)]
    fn dots(passes: AlongPasses, columns: &[f64], step: usize, z: &[f64], sums: &mut [f64]) {
        passes.dots(columns, step, z, sums);
    }

    #[inline(always)]
    fn add_scaled_dots(
        passes: AlongPasses,
        columns: &mut [f64],
        step: usize,
        factors: &[f64],
        vectors: [&[f64]; 2],
        sums: &mut [f64],
    ) {
        passes.add_scaled_dots(columns, step, factors, vectors, sums);
    }
}
