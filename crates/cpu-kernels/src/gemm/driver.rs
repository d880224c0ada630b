//! The strided matrix product: cutting into tasks, packing, running register tiles.

use super::pack::{Lanes, PackPanels};
use super::scratch::{Buffer, Scratch};
use super::{Float, K_BLOCK, even_parts};
use crate::arch::{Finish, Kernels, Offsets, TileFns, TileGrid, TileMut};
use rayon::prelude::*;
use samebits_numerics::{fpenv, simd};
use std::ops::Range;

/// One product: lanes of `a` are output rows, lanes of `b` are output columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors<'a, T> {
    pub(crate) a: Lanes<'a, T>,
    pub(crate) b: Lanes<'a, T>,
}

/// Output columns of a task.
const TASK_COLUMNS: usize = 512;
/// Output rows of a task, where the product is large enough to have several.
const TASK_ROWS: usize = 140;
/// Columns and steps of B that are packed at a time, which bounds the memory.
const PACKED_COLUMNS: usize = 1 << 14;
const PACKED_ELEMENTS: usize = 1 << 24;

/// `count` products of one shape, each `m` by `n` over `k`, to consecutive matrices of `out`.
///
/// The choices made here (which operand is broadcast, how the output is cut, what is packed)
/// move work about and change no chain of operations.
pub(crate) fn products<'a, T: Float>(
    count: usize,
    (m, n, k): (usize, usize, usize),
    factors: impl Fn(usize) -> Factors<'a, T> + Sync,
    out: &mut [T],
) {
    if k == 0 {
        out[..count * m * n].fill(T::default());
        return;
    }
    let kernels = T::kernels(simd::level());
    let lanes = kernels.lanes();
    // Vector lanes run along the longer fit: a product with few columns is done transposed.
    let transpose = m.div_ceil(lanes) * n < n.div_ceil(lanes) * m;
    let shape = if transpose { (n, m, k) } else { (m, n, k) };
    let get = |index: usize| {
        let Factors { a, b } = factors(index);
        if transpose { Factors { a: b, b: a } } else { Factors { a, b } }
    };
    let plan = Plan::new(kernels, shape, count, transpose);
    if plan.shares_columns() {
        for index in 0..count {
            plan.run_shared(get(index), &mut out[index * m * n..][..m * n]);
        }
    } else {
        plan.run_separate(count, get, out);
    }
}

struct Plan<T: 'static> {
    tiles: &'static TileFns<T>,
    rows: usize,
    columns: usize,
    k: usize,
    task_rows: usize,
    task_columns: usize,
    transpose: bool,
}

/// Where the columns of a task come from.
#[derive(Clone, Copy)]
enum Columns<'a, T> {
    /// Straight from the operand; a task packs what it cannot load.
    Operand(Lanes<'a, T>),
    /// Panels `[panel][step][width]` of `steps` steps, packed before.
    Packed { panels: &'a [T], steps: usize, first_column: usize },
}

impl<T: Float> Plan<T> {
    fn new(
        kernels: &'static Kernels<T>,
        (rows, columns, k): (usize, usize, usize),
        count: usize,
        transpose: bool,
    ) -> Self {
        let lanes = kernels.lanes();
        let vectors = if columns <= lanes {
            1
        } else if rows <= 3 && columns >= 8 * lanes {
            8
        } else if rows <= 6 && columns >= 4 * lanes {
            4
        } else {
            2
        };
        let tiles = kernels.with_vectors(vectors);
        let width = tiles.columns();
        let mut task_rows = TASK_ROWS.next_multiple_of(tiles.max_rows());
        let mut task_columns = TASK_COLUMNS.next_multiple_of(width);
        // Cut finer until there is something for every thread of a large machine, but not so
        // fine that a task is over before it has begun.
        let tasks = |r: usize, c: usize| count * rows.div_ceil(r) * columns.div_ceil(c);
        while tasks(task_rows, task_columns) < 32 && task_columns > 2 * width {
            task_columns = (task_columns / 2).next_multiple_of(width);
        }
        while tasks(task_rows, task_columns) < 32
            && task_rows > 2 * tiles.max_rows()
            && task_rows * task_columns * k > 1 << 18
        {
            task_rows = (task_rows / 2).next_multiple_of(tiles.max_rows());
        }
        while rows.min(task_rows) * task_columns * k < 1 << 17 && task_columns < columns {
            task_columns *= 2;
        }
        Plan { tiles, rows, columns, k, task_rows, task_columns, transpose }
    }

    /// True if several tasks read the same columns, so that packing them once pays.
    fn shares_columns(&self) -> bool {
        self.rows > self.task_rows
    }

    fn grid<'o>(&self, count: usize, out: &'o mut [T]) -> TileGrid<'o, T> {
        if self.transpose {
            let tile = (self.task_columns, self.task_rows);
            TileGrid::new(out, count, (self.columns, self.rows), tile)
        } else {
            let tile = (self.task_rows, self.task_columns);
            TileGrid::new(out, count, (self.rows, self.columns), tile)
        }
    }

    fn run_separate<'a>(
        &self,
        count: usize,
        factors: impl Fn(usize) -> Factors<'a, T> + Sync,
        out: &mut [T],
    ) {
        let steps = Offsets::linear(self.k, self.tiles.columns());
        self.grid(count, out).for_each(|index, first, second, tile| {
            let (row, column) = if self.transpose { (second, first) } else { (first, second) };
            let Factors { a, b } = factors(index);
            let columns = Columns::Operand(b);
            T::with_scratch(|scratch| {
                fpenv::ieee(|| {
                    self.task(a, columns, 0..self.k, &steps, (row, column), tile, scratch);
                });
            });
        });
    }

    fn run_shared(&self, Factors { a, b }: Factors<'_, T>, out: &mut [T]) {
        let width = self.tiles.columns();
        T::with_scratch(|scratch| {
            // One chunk of columns at a time would need another grid: only the steps are cut.
            let padded = self.columns.next_multiple_of(width);
            let at_once = (PACKED_ELEMENTS / padded / K_BLOCK).max(1) * K_BLOCK;
            let mut from = 0;
            while from < self.k {
                let steps = from..self.k.min(from + at_once);
                let panels = self.pack_columns(b, steps.clone(), &mut scratch.b);
                let table = Offsets::linear(steps.len(), width);
                self.grid(1, out).for_each(|_, first, second, tile| {
                    let (row, column) =
                        if self.transpose { (second, first) } else { (first, second) };
                    let columns =
                        Columns::Packed { panels, steps: steps.len(), first_column: column };
                    T::with_scratch(|scratch| {
                        fpenv::ieee(|| {
                            let at = (row, column);
                            self.task(a, columns, steps.clone(), &table, at, tile, scratch);
                        });
                    });
                });
                from = steps.end;
            }
        });
    }

    /// Packs all columns of `steps` as `[panel][step][width]`.
    fn pack_columns<'s>(
        &self,
        b: Lanes<'_, T>,
        steps: Range<usize>,
        buffer: &'s mut Buffer<T>,
    ) -> &'s [T] {
        let width = self.tiles.columns();
        let panels = self.columns.div_ceil(width);
        let panel_len = width * steps.len();
        let packed = buffer.slice(panels * panel_len);
        packed.par_chunks_mut(panel_len).enumerate().with_min_len(4).for_each(|(panel, out)| {
            let lanes = panel * width..self.columns.min((panel + 1) * width);
            simd::dispatch(PackPanels {
                source: b,
                panels: &[lanes],
                steps: steps.clone(),
                width,
                out,
            });
        });
        packed
    }

    /// All steps of `steps` for one tile of the output.
    fn task(
        &self,
        a: Lanes<'_, T>,
        columns: Columns<'_, T>,
        steps: Range<usize>,
        table: &Offsets,
        (row, column): (usize, usize),
        mut out: TileMut<'_, T>,
        scratch: &mut Scratch<T>,
    ) {
        let width = self.tiles.columns();
        let (task_rows, task_columns) =
            if self.transpose { (out.columns, out.rows) } else { (out.rows, out.columns) };
        let row_panels: Vec<_> = even_parts(task_rows, self.tiles.max_rows())
            .map(|part| row + part.start..row + part.end)
            .collect();
        let Scratch { a: packed_a, b: packed_b, tile: spare, .. } = scratch;
        let spare = spare.slice(self.tiles.max_rows() * width);
        let mut block = steps.start;
        while block < steps.end {
            let k = K_BLOCK.min(steps.end - block);
            let finish = Finish { add: block > 0, last: block + k == self.k };
            let rows = packed_a.slice(task_rows * k);
            simd::dispatch(PackPanels {
                source: a,
                panels: &row_panels,
                steps: block..block + k,
                width: 0,
                out: rows,
            });
            for first in (0..task_columns).step_by(width) {
                let count = width.min(task_columns - first);
                let panel: &[T] = match columns {
                    Columns::Packed { panels, steps: packed_steps, first_column } => {
                        let panel = (first_column + first) / width;
                        let at = (panel * packed_steps + block - steps.start) * width;
                        &panels[at..at + k * width]
                    }
                    Columns::Operand(b) => {
                        let panel = packed_b.slice(k * width);
                        let lanes = column + first..column + first + count;
                        simd::dispatch(PackPanels {
                            source: b,
                            panels: &[lanes],
                            steps: block..block + k,
                            width,
                            out: panel,
                        });
                        panel
                    }
                };
                let mut packed = &rows[..];
                for lanes in &row_panels {
                    let (a_panel, rest) = packed.split_at(lanes.len() * k);
                    packed = rest;
                    let at = (lanes.start - row, first);
                    let r = lanes.len();
                    if count == width && !self.transpose {
                        self.tiles.run_packed(r, a_panel, panel, table, 0, k, &mut out, at, finish);
                    } else {
                        let mut whole = TileMut::from_slice(spare, r, width);
                        let plain = Finish { add: false, last: false };
                        self.tiles.run_packed(
                            r,
                            a_panel,
                            panel,
                            table,
                            0,
                            k,
                            &mut whole,
                            (0, 0),
                            plain,
                        );
                        merge(spare, width, (r, count), self.transpose, &mut out, at, finish);
                    }
                }
            }
            block += k;
        }
    }
}

/// Puts a tile that was formed aside where it belongs.
fn merge<T: Float>(
    from: &[T],
    stride: usize,
    (rows, columns): (usize, usize),
    transpose: bool,
    out: &mut TileMut<'_, T>,
    (row, column): (usize, usize),
    finish: Finish,
) {
    let put = |to: &mut T, mut value: T| {
        if finish.add {
            value = to.plus(value);
        }
        *to = if finish.last { value.canonical() } else { value };
    };
    if transpose {
        for j in 0..columns {
            for (i, to) in out.row(column + j, row, row + rows).iter_mut().enumerate() {
                put(to, from[i * stride + j]);
            }
        }
    } else {
        for i in 0..rows {
            let values = &from[i * stride..][..columns];
            for (to, &value) in out.row(row + i, column, column + columns).iter_mut().zip(values) {
                put(to, value);
            }
        }
    }
}
