//! Products of pieces of matrices by register tiles.

use std::ops::Range;

use crate::arch::{Finish, Kernels, Offsets, TileFns, TileMut};
use crate::gemm::pack::{Lanes, PackPanels};
use crate::gemm::{K_BLOCK, Real};
use samebits_numerics::memory::product;
use samebits_numerics::simd;

/// Columns for tiles: step `k` of panel `p` starts at `data[p * panel + k * step]`.
#[derive(Clone, Copy)]
pub(super) struct Panels<'a, T> {
    data: &'a [T],
    /// The number of panels.
    count: usize,
    /// The number of steps of a panel.
    steps: usize,
    /// The distance between panels.
    panel: usize,
    /// The distance between steps.
    step: usize,
}

impl<'a, T> Panels<'a, T> {
    /// Returns packed columns `[panel][step][width of a tile]`.
    pub(super) fn packed(data: &'a [T], steps: usize, width: usize) -> Self {
        let panel = steps * width;
        let count = data.len().checked_div(panel).unwrap_or(0);
        Panels { data, count, steps, panel, step: width }
    }

    /// Returns `columns` columns in memory, whose steps are `step` apart. Tiles of `width` columns
    /// read past the last one.
    pub(super) fn in_place(
        data: &'a [T],
        (columns, width): (usize, usize),
        (steps, step): (usize, usize),
    ) -> Self {
        Panels { data, count: columns.div_ceil(width), steps, panel: width, step }
    }

    /// Returns the slice from a step of a panel on.
    fn from(&self, panel: usize, step: usize) -> &'a [T] {
        &self.data[panel * self.panel + step * self.step..]
    }
}

/// Returns tiles for a product with this number of rows and columns. Vectors that the columns do not
/// fill cost more than tiles of one vector, if those have enough rows to keep chains in flight.
pub(super) fn columns_of<T: Real>(
    kernels: &Kernels<T>,
    rows: usize,
    columns: usize,
) -> &'static TileFns<T> {
    let tiles = kernels.fitting(rows.max(1), columns.max(1));
    let single = kernels.with_vectors(1);
    let wasted =
        columns.next_multiple_of(tiles.columns()) > columns.next_multiple_of(single.columns());
    if wasted && rows.min(single.max_rows()) >= 8 { single } else { tiles }
}

/// Packs `lanes` lanes of `steps` steps for tiles of `width` columns.
pub(super) fn pack<T: Real>(
    source: Lanes<'_, T>,
    lanes: usize,
    steps: usize,
    width: usize,
    out: &mut [T],
) {
    if steps == 0 {
        return;
    }
    for (panel, out) in out.chunks_exact_mut(steps * width).enumerate() {
        let lanes = panel * width..lanes.min((panel + 1) * width);
        let panels = &[lanes];
        simd::dispatch(PackPanels { source, panels, steps: 0..steps, width, out });
    }
}

/// Returns the number of elements of packed columns, if it does not overflow.
pub(super) fn packed_len(lanes: usize, steps: usize, width: usize) -> Option<usize> {
    product(&[lanes.div_ceil(width), width, steps])
}

/// Multiplies rows of a matrix, packed on the way, with columns: `out = a · b`. `steps` has the places
/// of a block of steps of the columns. `wanted` returns false for parts of rows and first columns of panels whose product is not needed; they
/// keep their contents.
pub(super) fn rows_by_columns<T: Real>(
    tiles: &'static TileFns<T>,
    a: Lanes<'_, T>,
    parts: &[Range<usize>],
    panels: Panels<'_, T>,
    steps: &Offsets,
    packed: &mut [T],
    out: &mut TileMut<'_, T>,
    wanted: impl Fn(&Range<usize>, usize) -> bool,
) {
    let (width, total) = (tiles.columns(), panels.steps);
    for block in (0..total).step_by(K_BLOCK) {
        let k = K_BLOCK.min(total - block);
        // The last block makes no NaN canonical: what follows does.
        let finish = Finish { add: block > 0, last: false };
        let rows = parts.last().map_or(0, |part| part.end);
        let packed = &mut packed[..rows * k];
        let steps_of_block = block..block + k;
        let out_rows = &mut *packed;
        simd::dispatch(PackPanels {
            source: a,
            panels: parts,
            steps: steps_of_block,
            width: 0,
            out: out_rows,
        });
        for panel in 0..panels.count {
            let b = panels.from(panel, block);
            for part in parts {
                if !wanted(part, panel * width) {
                    continue;
                }
                let a = &packed[part.start * k..part.end * k];
                let at = (part.start, panel * width);
                tiles.run_packed(part.len(), a, b, (steps, 0, k), out, at, finish);
            }
        }
    }
}

/// As [`rows_by_columns`], for `count` columns over `total` steps that are packed tile by tile, into
/// memory for a block of steps of one tile: each is used once.
pub(super) fn rows_by_lanes<T: Real>(
    tiles: &'static TileFns<T>,
    a: Lanes<'_, T>,
    parts: &[Range<usize>],
    (columns, count, total): (Lanes<'_, T>, usize, usize),
    steps: &Offsets,
    (packed, panel): (&mut [T], &mut [T]),
    out: &mut TileMut<'_, T>,
    wanted: impl Fn(&Range<usize>, usize) -> bool,
) {
    let (width, rows) = (tiles.columns(), parts.last().map_or(0, |part| part.end));
    for block in (0..total).step_by(K_BLOCK) {
        let k = K_BLOCK.min(total - block);
        let finish = Finish { add: block > 0, last: false };
        let packed = &mut packed[..rows * k];
        simd::dispatch(PackPanels {
            source: a,
            panels: parts,
            steps: block..block + k,
            width: 0,
            out: &mut *packed,
        });
        let panel = &mut panel[..k * width];
        for first in (0..count).step_by(width) {
            let lanes = first..count.min(first + width);
            simd::dispatch(PackPanels {
                source: columns,
                panels: &[lanes],
                steps: block..block + k,
                width,
                out: &mut *panel,
            });
            for part in parts.iter().filter(|part| wanted(part, first)) {
                let a = &packed[part.start * k..part.end * k];
                let at = (part.start, first);
                tiles.run_packed(part.len(), a, panel, (steps, 0, k), out, at, finish);
            }
        }
    }
}

/// The positions of a matrix in memory for tiles that read it in place.
pub(super) struct InPlace {
    /// The positions of 1, 2, .. rows.
    rows: Vec<Offsets>,
    steps: Offsets,
}

impl InPlace {
    /// Describes up to `most_rows` rows of `steps` steps, both at fixed distances.
    pub(super) fn new(
        most_rows: usize,
        row_stride: usize,
        step_stride: usize,
        steps: usize,
    ) -> InPlace {
        let rows = (1..=most_rows).map(|rows| Offsets::linear(rows, row_stride)).collect();
        InPlace { rows, steps: Offsets::linear(steps, step_stride) }
    }
}

/// Multiplies one block of steps of a matrix in place with columns, and adds the product to
/// `out`, or replaces `out`, completed by `finish`. Step 0 of `a` is step `first` of the panels.
/// `used` returns the steps that are computed for some rows and the panel from some column on.
pub(super) fn block_in_place<T: Real>(
    tiles: &'static TileFns<T>,
    (a, row_stride, positions): (&[T], usize, &InPlace),
    parts: &[Range<usize>],
    (panels, first): (Panels<'_, T>, usize),
    out: &mut TileMut<'_, T>,
    finish: Finish,
    used: impl Fn(&Range<usize>, usize) -> Range<usize>,
) {
    let width = tiles.columns();
    for panel in 0..panels.count {
        for part in parts {
            let steps = used(part, panel * width);
            // Without steps the product is +0.
            let steps = if steps.is_empty() { 0..0 } else { steps };
            let b = panels.from(panel, first + steps.start);
            let a = &a[part.start * row_stride..];
            let rows = &positions.rows[part.len() - 1];
            let at = (part.start, panel * width);
            let steps = (&positions.steps, steps.start, steps.len());
            tiles.run_strided(a, rows, steps, b, panels.step, out, at, finish);
        }
    }
}

/// The number of rows whose chains run side by side.
pub(super) const CHAINS: usize = 4;

/// Returns the products of rows, each a chain within blocks of steps.
#[inline(always)]
pub(super) fn chains<T: Real>(a: [&[T]; CHAINS], b: [&[T]; CHAINS]) -> [T; CHAINS] {
    let steps = a[0].len();
    let mut totals = [T::default(); CHAINS];
    for block in (0..steps).step_by(K_BLOCK) {
        let count = K_BLOCK.min(steps - block);
        let (a, b) = (a.map(|a| &a[block..][..count]), b.map(|b| &b[block..][..count]));
        let mut sums = [T::default(); CHAINS];
        for step in 0..count {
            for i in 0..CHAINS {
                sums[i] = a[i][step].fma(b[i][step], sums[i]);
            }
        }
        for (total, sum) in totals.iter_mut().zip(sums) {
            *total = if block > 0 { total.plus(sum) } else { sum };
        }
    }
    totals
}

/// Computes the products of a few rows with a few columns, `out[row * stride + column]`, from slices
/// of rows that are steps long: fewer than repay a copy in the order of tiles.
pub(super) struct Pairs<'a, T, A, B> {
    /// The slice of a row.
    pub(super) row: A,
    /// The slice of a column.
    pub(super) column: B,
    pub(super) counts: (usize, usize),
    pub(super) out: &'a mut [T],
    pub(super) stride: usize,
}

/// Returns true if [`Pairs`] compute so many products, each of so many steps, sooner than tiles.
pub(super) fn are_few(rows: usize, columns: usize, steps: usize) -> bool {
    const STEPS: usize = 32;
    rows.saturating_mul(columns) <= CHAINS && steps >= STEPS
}

impl<'r, T, A, B> simd::Kernel for Pairs<'_, T, A, B>
where
    T: Real,
    A: Fn(usize) -> &'r [T],
    B: Fn(usize) -> &'r [T],
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Pairs { row, column, counts: (rows, columns), out, stride } = self;
        // The last chains repeat the last product.
        let pairs: [(usize, usize); CHAINS] = std::array::from_fn(|i| {
            let at = i.min(rows * columns - 1);
            (at / columns, at % columns)
        });
        let found = chains(pairs.map(|(i, _)| row(i)), pairs.map(|(_, j)| column(j)));
        for ((i, j), found) in pairs.into_iter().zip(found) {
            out[i * stride + j] = found;
        }
    }
}
