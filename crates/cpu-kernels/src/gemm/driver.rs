//! The strided matrix product: division into tasks, packing, and calls of register tiles.

use super::pack::{Factors, Lanes, PackPanels, pack_all};
use super::scratch::Scratch;
use super::{K_BLOCK, Real, Source, even_parts, thin};
use crate::arch::{Finish, Kernels, Offsets, TileGrid, TileMut, Tiling};
use crate::parallel;
use samebits_numerics::memory::{OutOfMemory, product};
use samebits_numerics::simd;
use std::ops::Range;

/// The number of output columns of a task: large, because a task packs its rows.
const TASK_COLUMNS: usize = 1024;
/// The largest number of output rows of a task. If a batch has enough tasks for all threads without
/// a cut, a task may have twice as many.
const TASK_ROWS: usize = 126;
/// The number of products that is enough tasks for all threads without a cut.
const MANY: usize = 16;
/// The number of columns that are enough tasks with twice as many rows.
const WIDE: usize = 2 * TASK_COLUMNS;
/// The number of elements of B that are packed at a time: they stay in a cache until they are read.
const ROUND_ELEMENTS: usize = 1 << 18;
/// The number of multiplications of a thread between two of these times.
const ROUND: usize = 1 << 22;
/// The number of multiplications that justifies a task.
const TASK_WORK: usize = 1 << 17;
/// The number of multiplications from which a task is cut in two.
const CUT_WORK: usize = 1 << 19;
/// The number of rows whose products take as long as reading the columns.
const FEW_ROWS: usize = 8;
/// The number of multiplications from which packing shared columns pays.
const SHARED_WORK: usize = 1 << 23;
/// The number of steps up to which writing a tile takes as long as its products.
const SHALLOW: usize = 64;
/// The number of bytes of B that stay in the second cache while all rows of A pass.
const NEAR: usize = 1 << 17;

/// Computes `count` products of one shape, each `m` by `n` over `k`, into consecutive matrices of
/// `out`, which has exactly their size.
///
/// The choices made here (the broadcast operand, the cuts of the output, the packed operands)
/// distribute the work and change no chain of operations.
pub(crate) fn products<'a, T: Real, S: Source<T>>(
    count: usize,
    (m, n, k): (usize, usize, usize),
    factors: impl Fn(usize) -> Factors<'a, S> + Sync,
    out: &mut [T],
) -> Result<(), OutOfMemory> {
    debug_assert_eq!(product(&[count, m, n]), Some(out.len()));
    if out.is_empty() {
        return Ok(());
    }
    if k == 0 {
        out.fill(T::default());
        return Ok(());
    }
    let plain = factors(0);
    if thin::are_small::<T, S>(count, (m, n, k), plain) {
        thin::small((m, n, k), factors, out);
        return Ok(());
    }
    if thin::are_shallow::<T, S>(count, (m, n, k), plain) {
        return thin::shallow((m, n, k), factors, out);
    }
    let kernels = T::kernels(simd::level());
    let lanes = kernels.lanes();
    // Vector lanes run along the dimension that fits better: a product with few columns is computed
    // transposed. Each vector then costs its steps and what it takes to write it.
    let cost = |vectors: usize, write: usize| vectors.saturating_mul(k + write);
    let transpose = cost(m.div_ceil(lanes) * n, 2 * lanes) < cost(n.div_ceil(lanes) * m, 4);
    let shape = if transpose { (n, m, k) } else { (m, n, k) };
    let get = |index: usize| {
        let Factors { a, b } = factors(index);
        if transpose { Factors { a: b, b: a } } else { Factors { a, b } }
    };
    // All products of a call have the same strides.
    let first = get(0);
    if thin::is_vector(shape.0, first) {
        thin::vectors((shape.1, k), get, out);
        return Ok(());
    }
    if thin::has_few_rows(shape, first) {
        thin::few_rows(count, shape, transpose, get, out);
        return Ok(());
    }
    // A row and its transpose lie in memory alike.
    let plan = Plan::new(kernels, shape, count, transpose && shape.0 > 1);
    if plan.shares_columns(first.b) {
        plan.run_shared(count, first, get, out)
    } else {
        plan.run_separate(count, first, get, out)
    }
}

struct Plan<T: 'static> {
    tiles: Tiling<T>,
    rows: usize,
    columns: usize,
    k: usize,
    task_rows: usize,
    task_columns: usize,
    /// The number of products of a task, if none is cut.
    together: usize,
    transpose: bool,
}

/// Steps at a fixed distance: the distance, and the offset of each step.
struct StepTable {
    step: usize,
    offsets: Offsets,
}

/// The positions of the steps of a block.
struct Tables {
    /// The steps in packed columns.
    packed: StepTable,
    /// The steps in the operand.
    operand: StepTable,
    /// The steps in rows whose steps are neighbours.
    unit: Offsets,
    /// The positions of 1, 2, .. rows, if tiles read them from the operand.
    rows: Vec<Offsets>,
}

/// The source of the columns of a task.
#[derive(Clone, Copy)]
enum Columns<'a, T, S> {
    /// The operand itself; a task packs the columns that it cannot load.
    Operand(Lanes<'a, S>),
    /// Panels `[panel][step][width]` of `steps` steps, packed in advance.
    Packed { panels: &'a [T], steps: usize },
}

impl<T: Real> Plan<T> {
    fn new(
        kernels: &'static Kernels<T>,
        (rows, columns, k): (usize, usize, usize),
        count: usize,
        transpose: bool,
    ) -> Self {
        let tiles = kernels.tiling(kernels.fitting(rows, columns), columns);
        let width = tiles.columns();
        let wide = count >= MANY || columns >= WIDE;
        let all = rows.saturating_mul(columns).saturating_mul(k);
        let most = if all <= TASK_WORK {
            rows
        } else if wide {
            2 * TASK_ROWS
        } else {
            TASK_ROWS
        };
        // Cuts as evenly as whole tiles allow.
        let mut task_rows = rows.div_ceil(rows.div_ceil(most)).next_multiple_of(tiles.max_rows());
        let mut task_columns = TASK_COLUMNS.min(columns).next_multiple_of(width);
        // Cuts more finely until every thread of a large machine has work, but not so finely that
        // starting a task costs more than running it.
        let tasks = |r: usize, c: usize| count * rows.div_ceil(r) * columns.div_ceil(c);
        let work = |r: usize, c: usize| (rows.min(r) * columns.min(c)).saturating_mul(k);
        // A few rows take as long as the columns take to arrive. Of more, each task packs its own, which
        // takes long beside the products with few columns.
        let is_thin = rows <= FEW_ROWS;
        let time =
            |r: usize, c: usize| (rows.min(r).max(FEW_ROWS) * columns.min(c)).saturating_mul(k);
        while tasks(task_rows, task_columns) < MANY && time(task_rows, task_columns) > CUT_WORK {
            let is_wide = task_columns > 8 * width
                || task_columns >= 2 * width && is_thin
                || task_columns >= 4 * width
                    && tasks(task_rows, task_columns) < parallel::threads();
            if is_wide && task_columns >= task_rows {
                task_columns = (task_columns / 2).next_multiple_of(width);
            } else if task_rows > 4 * tiles.max_rows() && task_rows > task_columns {
                task_rows = (task_rows / 2).next_multiple_of(tiles.max_rows());
            } else {
                break;
            }
        }
        while work(task_rows, task_columns) < TASK_WORK && task_columns < columns {
            task_columns *= 2;
        }
        let whole = rows <= task_rows && columns <= task_columns;
        let together = if whole { TASK_WORK / work(rows, columns) } else { 1 };
        let together = together.clamp(1, count);
        Plan { tiles, rows, columns, k, task_rows, task_columns, together, transpose }
    }

    /// Returns true if several tasks read the same columns, so that packing them once pays.
    fn shares_columns<S: Source<T>>(&self, b: Lanes<'_, S>) -> bool {
        let work = (self.rows * self.columns).saturating_mul(self.k);
        let small = work < SHARED_WORK && self.columns_in_place(b).is_some();
        self.rows > self.task_rows && !small
    }

    fn tables<S: Source<T>>(&self, steps: usize, Factors { a, b }: Factors<'_, S>) -> Tables {
        let k = steps.min(K_BLOCK);
        let table = |step| StepTable { step, offsets: Offsets::linear(k, step) };
        let in_place = self.reads_rows_in_place(a);
        let rows = 1..=if in_place { self.tiles.max_rows() } else { 0 };
        Tables {
            packed: table(self.tiles.columns()),
            operand: table(b.step_stride),
            unit: Offsets::linear(k, 1),
            rows: rows.map(|rows| Offsets::linear(rows, a.lane_stride)).collect(),
        }
    }

    fn grid<'o>(&self, count: usize, out: &'o mut [T]) -> TileGrid<'o, T> {
        if self.transpose {
            let tile = (self.together, self.task_columns, self.task_rows);
            TileGrid::new(out, count, (self.columns, self.rows), tile)
        } else {
            let tile = (self.together, self.task_rows, self.task_columns);
            TileGrid::new(out, count, (self.rows, self.columns), tile)
        }
    }

    fn run_separate<'a, S: Source<T>>(
        &self,
        count: usize,
        first: Factors<'a, S>,
        factors: impl Fn(usize) -> Factors<'a, S> + Sync,
        out: &mut [T],
    ) -> Result<(), OutOfMemory> {
        let tables = self.tables(self.k, first);
        let columns = |index: usize| Columns::Operand(factors(index).b);
        self.run(count, |index| factors(index).a, columns, 0..self.k, &tables, out)
    }

    /// Packs the columns of as many products as the memory limit allows, then multiplies.
    fn run_shared<'a, S: Source<T>>(
        &self,
        count: usize,
        first: Factors<'a, S>,
        factors: impl Fn(usize) -> Factors<'a, S> + Sync,
        out: &mut [T],
    ) -> Result<(), OutOfMemory> {
        let width = self.tiles.columns();
        let padded = self.columns.next_multiple_of(width);
        // Cutting the columns into chunks would need another grid, so only the steps are cut.
        let work = (self.rows * self.columns).saturating_mul(K_BLOCK).max(1);
        let blocks = (ROUND_ELEMENTS / padded / K_BLOCK).max(parallel::threads() * ROUND / work);
        let most = blocks.clamp(1, (S::PACKED_ELEMENTS / padded / K_BLOCK).max(1)) * K_BLOCK;
        let at_once = (most / self.k).clamp(1, count);
        let matrix = self.rows * self.columns;
        T::with_scratch(|scratch| {
            for (group, out) in out.chunks_mut(at_once * matrix).enumerate() {
                let (base, count) = (group * at_once, out.len() / matrix);
                for from in (0..self.k).step_by(most) {
                    let steps = from..self.k.min(from + most);
                    let packed = scratch.b.slice(&[count, padded, steps.len()])?;
                    let each = padded * steps.len();
                    parallel::chunks_mut(packed, each).enumerate().for_each(|(index, packed)| {
                        let b = factors(base + index).b;
                        pack_all(b, self.columns, steps.clone(), width, packed);
                    });
                    let packed = &*packed;
                    let columns = |index: usize| Columns::Packed {
                        panels: &packed[index * each..][..each],
                        steps: steps.len(),
                    };
                    let tables = self.tables(steps.len(), first);
                    let rows = |index: usize| factors(base + index).a;
                    self.run(count, rows, columns, steps.clone(), &tables, out)?;
                }
            }
            Ok(())
        })
    }

    /// Computes steps `steps` of `count` products.
    fn run<'a, S: Source<T>>(
        &self,
        count: usize,
        rows: impl Fn(usize) -> Lanes<'a, S> + Sync,
        columns: impl Fn(usize) -> Columns<'a, T, S> + Sync,
        steps: Range<usize>,
        tables: &Tables,
        out: &mut [T],
    ) -> Result<(), OutOfMemory> {
        self.grid(count, out).try_for_each(|matrix, first, second, mut tile| {
            let at = if self.transpose { (second, first) } else { (first, second) };
            let task_rows = if self.transpose { tile.columns } else { tile.rows };
            let panels: Vec<_> = even_parts(task_rows, self.tiles.max_rows()).collect();
            T::with_scratch(|scratch| {
                for index in 0..tile.matrices {
                    let (a, b) = (rows(matrix + index), columns(matrix + index));
                    let (steps, out) = (steps.clone(), tile.matrix(index));
                    self.task(a, b, steps, tables, at, &panels, out, scratch)?;
                }
                Ok(())
            })
        })
    }

    /// Computes all steps of `steps` for one tile of the output, whose rows are in `row_panels`.
    fn task<S: Source<T>>(
        &self,
        a: Lanes<'_, S>,
        columns: Columns<'_, T, S>,
        steps: Range<usize>,
        tables: &Tables,
        (row, column): (usize, usize),
        row_panels: &[Range<usize>],
        mut out: TileMut<'_, T>,
        scratch: &mut Scratch<T>,
    ) -> Result<(), OutOfMemory> {
        let width = self.tiles.columns();
        let (task_rows, task_columns) =
            if self.transpose { (out.columns, out.rows) } else { (out.rows, out.columns) };
        let Scratch { a: packed_a, b: packed_b, tile: spare, .. } = scratch;
        let spare = spare.slice(&[self.tiles.max_rows(), width])?;
        let a = a.lanes_from(row);
        let a_direct = S::in_place(a.data).filter(|_| !tables.rows.is_empty());
        let mut block = steps.start;
        while block < steps.end {
            let k = K_BLOCK.min(steps.end - block);
            let finish = Finish { add: block > 0, last: block + k == self.k };
            let rows: &[T] = if a_direct.is_some() {
                &[]
            } else {
                let rows = packed_a.slice(&[task_rows, k])?;
                let steps = block..block + k;
                let panels = row_panels;
                simd::dispatch(PackPanels { source: a, panels, steps, width: 0, out: rows });
                rows
            };
            // The elements and the steps of a panel of B, or what must be packed first.
            let ready = |first: usize| -> Result<(&[T], &StepTable), Lanes<'_, S>> {
                match columns {
                    Columns::Packed { panels, steps: packed_steps } => {
                        let panel = (column + first) / width;
                        let at = (panel * packed_steps + block - steps.start) * width;
                        Ok((&panels[at..at + k * width], &tables.packed))
                    }
                    Columns::Operand(b) => {
                        let count = width.min(task_columns - first);
                        let whole = count == self.tiles.of(count).columns();
                        let data = self.columns_in_place(b).filter(|_| whole).ok_or(b)?;
                        let from = block * b.step_stride + column + first;
                        Ok((&data[from..], &tables.operand))
                    }
                }
            };
            let mut tile = |lanes: &Range<usize>, first: usize, panel: &[T], table: &StepTable| {
                let (r, count) = (lanes.len(), width.min(task_columns - first));
                let (at, tiles) = ((lanes.start, first), self.tiles.of(count));
                let run = |to: &mut TileMut<'_, T>, place, how| {
                    if let Some(data) = a_direct {
                        let values = &data[lanes.start * a.lane_stride + block..];
                        let (rows, steps) = (&tables.rows[r - 1], (&tables.unit, 0, k));
                        tiles.run_strided(values, rows, steps, panel, table.step, to, place, how);
                    } else {
                        let values = &rows[lanes.start * k..][..r * k];
                        tiles.run_packed(r, values, panel, (&table.offsets, 0, k), to, place, how);
                    }
                };
                let columns = tiles.columns();
                if count == columns && !self.transpose {
                    run(&mut out, at, finish);
                } else {
                    let mut aside = TileMut::from_slice(&mut *spare, r, columns);
                    run(&mut aside, (0, 0), Finish { add: false, last: false });
                    merge(spare, columns, (r, count), self.transpose, &mut out, at, finish);
                }
            };
            let firsts = (0..task_columns).step_by(width);
            let near = k <= SHALLOW && task_columns.saturating_mul(k * size_of::<T>()) <= NEAR;
            let last = task_columns.saturating_sub(1) / width * width;
            if near && !self.transpose && ready(last).is_ok() {
                // Along the rows of the output, in whose order memory is written fastest.
                for lanes in row_panels {
                    for first in firsts.clone() {
                        if let Ok((panel, table)) = ready(first) {
                            tile(lanes, first, panel, table);
                        }
                    }
                }
            } else {
                for first in firsts {
                    let (panel, table) = match ready(first) {
                        Ok(ready) => ready,
                        Err(source) => {
                            let out = packed_b.slice(&[k, width])?;
                            let lanes = column + first..column + task_columns.min(first + width);
                            let (steps, panels) = (block..block + k, &[lanes]);
                            simd::dispatch(PackPanels { source, panels, steps, width, out });
                            (&*out, &tables.packed)
                        }
                    };
                    for lanes in row_panels {
                        tile(lanes, first, panel, table);
                    }
                }
            }
            block += k;
        }
        Ok(())
    }

    /// Returns true if tiles read A from the operand: with few columns, packing costs more than it
    /// saves. It returns false if rows are a multiple of a page apart, because they compete for the
    /// same cache lines.
    fn reads_rows_in_place<S: Source<T>>(&self, a: Lanes<'_, S>) -> bool {
        let panels = self.columns.min(self.task_columns).div_ceil(self.tiles.columns());
        S::in_place(a.data).is_some()
            && a.step_stride == 1
            && panels <= 2
            && !(a.lane_stride * size_of::<T>()).is_multiple_of(4096)
    }

    /// Returns the elements of B if tiles read them from the operand.
    fn columns_in_place<'b, S: Source<T>>(&self, b: Lanes<'b, S>) -> Option<&'b [T]> {
        let near = b.step_stride * size_of::<T>() <= 1024;
        let reads = b.lane_stride == 1 && (near || self.rows <= 3 * self.tiles.max_rows());
        S::in_place(b.data).filter(|_| reads)
    }
}

/// The number of elements of a tile that are transposed together: at least a row of any tile.
const TILE: usize = 512;

/// Merges a tile that was computed in scratch memory into the output.
fn merge<T: Real>(
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
        let mut turned = [T::default(); TILE];
        for first in (0..columns).step_by(TILE / rows) {
            let count = (columns - first).min(TILE / rows);
            T::pack_transposed(&from[first..], stride, (rows, count), &mut turned, rows);
            for (j, values) in turned.chunks_exact(rows).take(count).enumerate() {
                let to = out.row(0, column + first + j, row, row + rows);
                to.iter_mut().zip(values).for_each(|(to, &value)| put(to, value));
            }
        }
    } else {
        for i in 0..rows {
            let values = &from[i * stride..][..columns];
            for (to, &value) in out.row(0, row + i, column, column + columns).iter_mut().zip(values)
            {
                put(to, value);
            }
        }
    }
}
