//! Sums of long rows whose neighbours lie apart in memory: tiles of the row are copied in its order into
//! memory that a cache holds, and added there.

use samebits_numerics::reduce::{Accumulator, BLOCK};
use samebits_tensor_core::Layout;
use samebits_tensor_core::layout::PerDim;

use super::rows::distance;
use crate::error::Result;
use crate::float::Float;
use crate::memory;
use crate::parallel::{self, items};

/// The number of bytes of a tile, of one that is a single stretch, and of one with all neighbours of several
/// short dimensions at most.
const TILE: usize = 1 << 16;
const STRETCH: usize = 1 << 18;
const WHOLE: usize = 1 << 19;
/// The number of neighbours in memory that a tile has at least: those of a cache line of f32.
const LINE: usize = 16;
/// The number of neighbours that a tile has at most: more lines follow each other in one page.
const LINES: usize = 8 * LINE;
/// The number of elements that follow each other in a row and are added by one thread, if there are as many
/// for all: at least a quarter.
const RUN: usize = 16 * BLOCK;

/// Consecutive elements of a row, of which the blocks that begin there are added.
struct Stretch<T> {
    /// The number of the first element in the row.
    start: usize,
    /// The number of elements so far.
    len: usize,
    /// The first elements, which belong to a block that begins before.
    head: Vec<T>,
    /// The number of elements of the whole head.
    whole_head: usize,
    /// The sums of whole blocks.
    sums: Vec<f64>,
    /// The sum of the elements after them.
    open: Accumulator,
}

impl<T: Float> Stretch<T> {
    /// Returns a stretch of at most `most` elements, of which it has none so far.
    fn new(op: &'static str, start: usize, most: usize) -> Result<Stretch<T>> {
        let whole_head = (start.next_multiple_of(BLOCK) - start).min(most);
        let head = memory::with_capacity(op, whole_head)?;
        let sums = memory::with_capacity(op, most / BLOCK)?;
        Ok(Stretch { start, len: 0, head, whole_head, sums, open: Accumulator::new() })
    }

    /// Adds the elements that follow.
    fn push(&mut self, x: &[T], add: Add<'_, T>) {
        let (head, mut x) = x.split_at(x.len().min(self.whole_head - self.head.len()));
        self.head.extend_from_slice(head);
        self.len += head.len();
        while !x.is_empty() {
            let at = self.start + self.len;
            let (now, later) = x.split_at(x.len().min(BLOCK - at % BLOCK));
            add(now, &mut self.open);
            self.len += now.len();
            if (self.start + self.len).is_multiple_of(BLOCK) {
                self.sums.push(std::mem::take(&mut self.open).finish());
            }
            x = later;
        }
    }
}

/// A function that adds terms of elements to a sum.
type Add<'a, T> = &'a (dyn Fn(&[T], &mut Accumulator) + Sync);

/// A row that is cut into tiles: a few neighbours in memory, each with a stretch of what follows it in the
/// row.
struct Tiles<'a> {
    row: &'a Layout,
    /// The dimension of neighbours in memory, if they are far apart in the row. Without, a tile is one
    /// stretch.
    across: Option<usize>,
    /// The number of neighbours of a tile.
    neighbours: usize,
    /// The dimension that is cut; those behind it are whole.
    cut: usize,
    /// The size of the pieces of that dimension.
    step: usize,
    /// The number of tiles that are added by one thread, one after the other.
    together: usize,
}

/// The number of elements of a row from one index of a dimension to the next.
fn inner(row: &Layout, dim: usize) -> usize {
    row.shape()[dim + 1..].iter().product()
}

/// Returns the dimension along which neighbours in memory lie.
fn nearest(row: &Layout) -> Option<usize> {
    let apart = |&dim: &usize| row.shape()[dim] > 1 && row.strides()[dim] > 0;
    (0..row.rank()).filter(apart).min_by_key(|&dim| row.strides()[dim])
}

/// Returns the first of several dimensions whose elements are neighbours in memory, as those of one dimension
/// would be, if they are a line or more and a tile of `bytes` for an element holds them all.
fn whole_run(row: &Layout, bytes: usize) -> Option<usize> {
    let (shape, strides) = (row.shape(), row.strides());
    let fits = |&dim: &usize| shape[dim] * inner(row, dim) <= WHOLE / bytes;
    let mut first = nearest(row).filter(fits)?;
    let (mut count, mut next) = (shape[first], shape[first] * strides[first]);
    let follows = |next| (0..row.rank()).find(|&dim| strides[dim] == next && shape[dim] > 1);
    while let Some(dim) = follows(next).filter(fits) {
        first = first.min(dim);
        count *= shape[dim];
        next *= shape[dim];
    }
    (count >= LINE).then_some(first)
}

/// Returns true if tiles of a row of elements of `bytes` would have enough neighbours.
pub(crate) fn suit(row: &Layout, bytes: usize) -> bool {
    nearest(row).is_some_and(|dim| row.shape()[dim] >= LINE) || whole_run(row, bytes).is_some()
}

impl<'a> Tiles<'a> {
    /// Returns how to cut a row, which has elements, if they are `bytes` long.
    fn new(row: &'a Layout, bytes: usize) -> Tiles<'a> {
        let nearest = nearest(row);
        let short = nearest.is_some_and(|dim| row.shape()[dim] < LINE);
        let run = if short { whole_run(row, bytes) } else { None };
        let across =
            nearest.filter(|&dim| run.is_none() && inner(row, dim) > STRETCH / bytes / LINE);
        let mut neighbours = if across.is_some() { LINES } else { 1 };
        loop {
            let most = if across.is_some() { TILE / neighbours } else { STRETCH } / bytes;
            let first = across.map_or(0, |dim| dim + 1);
            let cut = (first..row.rank()).find(|&dim| inner(row, dim) <= most).unwrap_or(first);
            let step = match most / inner(row, cut) {
                step if nearest == Some(cut) => step.max(LINE) / LINE * LINE,
                step => step.max(1),
            };
            let (cut, step) = match run {
                Some(run) if run <= cut => (run, row.shape()[run]),
                _ => (cut, step.min(row.shape()[cut])),
            };
            let mut tiles = Tiles { row, across, neighbours, cut, step, together: 1 };
            let share = |run: usize| (run / (step * inner(row, cut))).max(1);
            let least = tiles.count().div_ceil(share(RUN / 4));
            let units = tiles.count().div_ceil(share(RUN));
            let wanted = (4 * parallel::threads()).div_ceil(tiles.groups());
            tiles.together = tiles.count().div_ceil(units.max(wanted.min(least)));
            // Fewer neighbours if there is not enough work for all threads.
            if neighbours <= LINE || least >= wanted {
                return tiles;
            }
            neighbours /= 2;
        }
    }

    /// Returns the dimensions in front of the neighbours, and those between them and the cut.
    fn outside(&self) -> [std::ops::Range<usize>; 2] {
        match self.across {
            Some(across) => [0..across, across + 1..self.cut],
            None => [0..0, 0..self.cut],
        }
    }

    /// Returns the number of tiles that follow each other in the row.
    fn count(&self) -> usize {
        let [_, between] = self.outside();
        let pieces = self.row.shape()[self.cut].div_ceil(self.step);
        self.row.shape()[between].iter().product::<usize>() * pieces
    }

    /// Returns the number of groups of neighbours.
    fn groups(&self) -> usize {
        let [before, _] = self.outside();
        let neighbours = self.across.map_or(1, |dim| self.row.shape()[dim]);
        self.row.shape()[before].iter().product::<usize>() * neighbours.div_ceil(self.neighbours)
    }

    /// Returns the number of threads' shares of the tiles that follow each other.
    fn units(&self) -> usize {
        self.count().div_ceil(self.together)
    }

    /// Adds the tiles of one thread: number `unit` of those of a group of neighbours.
    fn stretches<T: Float>(
        &self,
        op: &'static str,
        data: &[T],
        (group, unit): (usize, usize),
        add: Add<'_, T>,
    ) -> Result<Vec<Stretch<T>>> {
        let (shape, strides) = (self.row.shape(), self.row.strides());
        let [before, between] = self.outside();
        let (size, stride) = self.across.map_or((1, 0), |dim| (shape[dim], strides[dim]));
        let parts = size.div_ceil(self.neighbours);
        let (outer, first) = (group / parts, group % parts * self.neighbours);
        let neighbours = self.neighbours.min(size - first);
        let start = self.row.offset()
            + distance(&shape[before.clone()], &strides[before], outer)
            + first * stride;
        let pieces = shape[self.cut].div_ceil(self.step);
        let length = inner(self.row, self.cut);
        let begin =
            |tile: usize| (tile / pieces * shape[self.cut] + tile % pieces * self.step) * length;
        let tiles = unit * self.together..self.count().min((unit + 1) * self.together);
        let most = tiles.len() * self.step * length;
        // The number of the first element of the first neighbour, and the distance to the next one.
        let (from, apart) = match self.across {
            Some(dim) => ((outer * size + first) * inner(self.row, dim), inner(self.row, dim)),
            None => (0, 0),
        };
        let mut stretches = memory::with_capacity(op, neighbours)?;
        for neighbour in 0..neighbours {
            stretches.push(Stretch::new(op, from + neighbour * apart + begin(tiles.start), most)?);
        }
        let mut copy = memory::scratch::<T>(op, neighbours * self.step * length)?;
        let copy: &mut [T] = copy.as_mut_slice();
        for tile in tiles {
            let at = tile % pieces * self.step;
            let step = self.step.min(shape[self.cut] - at);
            let start = start
                + distance(&shape[between.clone()], &strides[between.clone()], tile / pieces)
                + at * strides[self.cut];
            let mut sizes: PerDim = [neighbours, step].into_iter().collect();
            let mut steps: PerDim = [stride, strides[self.cut]].into_iter().collect();
            sizes.extend_from_slice(&shape[self.cut + 1..]);
            steps.extend_from_slice(&strides[self.cut + 1..]);
            let copy = &mut copy[..neighbours * step * length];
            let part = Layout::strided(&sizes, &steps, start).expect("a part of a layout");
            part.gather(data, copy);
            for (stretch, x) in stretches.iter_mut().zip(copy.chunks_exact(step * length)) {
                stretch.push(x, add);
            }
        }
        Ok(stretches)
    }
}

/// Computes the sum of the terms that `add` adds of each block of a row, which has elements.
pub(super) fn sums_of_blocks<T: Float>(
    op: &'static str,
    data: &[T],
    row: &Layout,
    add: Add<'_, T>,
) -> Result<Vec<f64>> {
    let count = row.numel();
    let tiles = Tiles::new(row, size_of::<T>());
    let units = tiles.units();
    let found = items(0..tiles.groups() * units)
        .try_collect(op, |i| tiles.stretches(op, data, (i / units, i % units), add))?;
    let mut stretches = memory::with_capacity(op, found.iter().map(Vec::len).sum())?;
    stretches.extend(found.into_iter().flatten());
    stretches.sort_unstable_by_key(|stretch| stretch.start);
    let mut sums = memory::with_capacity(op, count.div_ceil(BLOCK))?;
    let mut open = Accumulator::new();
    for stretch in stretches {
        add(&stretch.head, &mut open);
        let at = stretch.start + stretch.head.len();
        if !stretch.head.is_empty() && at.is_multiple_of(BLOCK) {
            sums.push(std::mem::take(&mut open).finish());
        }
        if stretch.len > stretch.head.len() {
            sums.extend_from_slice(&stretch.sums);
            open = stretch.open;
        }
    }
    if !count.is_multiple_of(BLOCK) {
        sums.push(open.finish());
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use samebits_numerics::reduce::{combine, sum_of};

    use super::super::kernels::Added;
    use super::*;

    fn sum<T: Float>(data: &[T], row: &Layout) -> f64 {
        let add = |x: &[T], sum: &mut Accumulator| {
            let term = |x: T| x.into();
            samebits_numerics::simd::dispatch(Added { x, term: &term, sum });
        };
        combine(&sums_of_blocks("test", data, row, &add).unwrap())
    }

    /// Compares the sum of a row with that of its elements one by one.
    fn check(row: &Layout) {
        let wide: Vec<f64> = (0..row.extent()).map(|i| 1.0 / (i as f64 + 1.5)).collect();
        let narrow: Vec<f32> = wide.iter().map(|&x| x as f32).collect();
        let expected: Vec<f64> = row.positions().map(|at| wide[at]).collect();
        assert_eq!(sum(&wide, row), sum_of(&expected, |x| x), "{row:?}");
        let expected: Vec<f32> = row.positions().map(|at| narrow[at]).collect();
        assert_eq!(sum(&narrow, row), sum_of(&expected, f64::from), "{row:?}");
    }

    #[test]
    fn sums_are_those_of_single_steps() {
        let shapes: [&[usize]; 19] = [
            &[16385],
            &[5000, 20],
            &[9000, 3, 5],
            &[70_001, 1, 2],
            &[2051, 33, 2],
            &[12_288, 17],
            &[130, 127],
            &[40, 4099],
            &[17, 8192],
            &[3, 70_001],
            &[70_001, 3],
            &[2, 9, 5000],
            &[3, 3, 41, 130],
            &[7, 2, 6, 3, 301],
            &[33, 1, 12289],
            &[4, 5, 6, 7, 31],
            &[2, 20_000, 2],
            &[44, 18, 17, 22, 5],
            &[600, 9, 4, 7],
        ];
        let (mut apart, mut near, mut runs) = (0, 0, 0);
        for shape in shapes {
            let dense = Layout::contiguous("test", shape).unwrap();
            for dim in 0..shape.len() {
                let mut order: Vec<usize> = (0..shape.len()).collect();
                order.rotate_left(dim);
                let rotated = dense.permute(&order).unwrap();
                order.swap(0, shape.len() - 1);
                let swapped = dense.permute(&order).unwrap();
                let last = shape.len() - 1;
                let stepped = rotated.stepped(last, rotated.shape()[last] / 3, 2).unwrap();
                let mut wide = rotated.narrow(0, 0, 1).unwrap().shape().to_vec();
                wide[0] = rotated.shape()[0];
                let repeated = rotated.narrow(0, 0, 1).unwrap().expand("test", &wide).unwrap();
                // The last dimensions in front, but for one that stays there.
                let mut order: Vec<usize> = (0..shape.len()).rev().collect();
                let kept = order.remove(dim);
                order.insert(0, kept);
                let turned = dense.permute(&order).unwrap();
                for row in [rotated, swapped, stepped, repeated, turned] {
                    check(&row);
                    let across = Tiles::new(&row, size_of::<f32>()).across.is_some();
                    *(if across { &mut apart } else { &mut near }) += 1;
                    let is_short = nearest(&row).is_some_and(|dim| row.shape()[dim] < LINE);
                    runs += usize::from(is_short && whole_run(&row, size_of::<f32>()).is_some());
                }
            }
        }
        assert!(apart > 10 && near > 10 && runs > 10, "{apart} {near} {runs}");
    }
}
