//! Copies of strided elements into dense memory.

use samebits_numerics::simd::{self, Level};
use samebits_numerics::transpose::{transpose_f32, transpose_f64};

use crate::backend::{Task, run_tasks};
use crate::buffer::Buffer;
use crate::layout::PerDim;
use crate::{Error, Layout, Result};

/// Elements that a thread copies at least: below, it costs more to wake another.
const PART: usize = 1 << 14;

/// Parts of a copy at most.
const MOST_PARTS: usize = 64;

/// Elements of a copy that stays in a cache.
const CACHED: usize = 1 << 16;

/// Elements of a cache line, for those of f32.
const LINE: usize = 16;

/// Rows of a transposition that threads copy one by one.
const FEW_ROWS: usize = 4;

/// The side of the tiles of a transposition.
const SIDE: usize = 16;

/// Rows that are transposed together, at most.
const STRIP: usize = 128;

/// The number of bytes from which the processor is told what is read next.
const NEAR: usize = 1 << 20;

impl Layout {
    /// Copies the elements of a slice that the layout selects to a dense one, in logical order, on this
    /// thread.
    ///
    /// # Panics
    ///
    /// If an element lies outside of the slice, or `to` is not as long as the layout.
    pub fn gather<T: bytemuck::Pod>(&self, from: &[T], to: &mut [T]) {
        assert_eq!(to.len(), self.numel(), "a slice for the elements of {self:?}");
        if to.is_empty() {
            return;
        }
        let layout = &merged(self);
        // One copy of the code for all types of a size.
        match (size_of::<T>(), align_of::<T>()) {
            (4, 4) => {
                gather_part::<u32>(bytemuck::cast_slice(from), layout, bytemuck::cast_slice_mut(to))
            }
            (8, 8) => {
                gather_part::<u64>(bytemuck::cast_slice(from), layout, bytemuck::cast_slice_mut(to))
            }
            _ => gather_part(from, layout, to),
        }
    }
}

/// Copies the elements of `size` bytes that `layout` selects, in logical order; large copies on several
/// threads.
///
/// # Panics
///
/// If the slices are not aligned to the size of an element.
pub(crate) fn gather_bytes(size: usize, from: &[u8], layout: &Layout, to: &mut [u8]) {
    use bytemuck::{cast_slice, cast_slice_mut};
    // A storage may end in bytes of no element.
    let from = &from[..from.len() / size * size];
    match size {
        1 => gather(from, layout, to),
        2 => gather::<u16>(cast_slice(from), layout, cast_slice_mut(to)),
        4 => gather::<u32>(cast_slice(from), layout, cast_slice_mut(to)),
        _ => gather::<u64>(cast_slice(from), layout, cast_slice_mut(to)),
    }
}

/// Copies the elements that `layout` selects, in logical order; large copies on several threads.
fn gather<T: bytemuck::Pod + Send + Sync>(from: &[T], layout: &Layout, to: &mut [T]) {
    if to.is_empty() {
        return;
    }
    let layout = &merged(layout);
    if to.len() < 2 * PART {
        return gather_part(from, layout, to);
    }
    let wanted = (to.len() / PART).min(MOST_PARTS);
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for (layout, to) in parts(layout, to, wanted) {
        tasks.push(Box::new(move || gather_part(from, &layout, to)));
    }
    run_tasks(tasks);
}

/// Calls `f(elements, part)` for parts of `to`, with the elements that `layout` selects for them, copied
/// part by part; large ones on several threads. Of several errors, returns that of the first part.
pub(crate) fn gather_each<T: bytemuck::Pod + Send + Sync, R: Send>(
    from: &[T],
    layout: &Layout,
    to: &mut [R],
    f: impl Fn(&[T], &mut [R]) -> Result<()> + Sync,
) -> Result<()> {
    if to.is_empty() {
        return Ok(());
    }
    let run = |layout: &Layout, to: &mut [R]| {
        let bytes = size_of::<T>() * to.len();
        let mut copy = Buffer::scratch(bytes).map_err(Error::out_of_host_memory("contiguous"))?;
        gather_part(from, layout, copy.as_mut_slice());
        f(copy.as_slice(), to)
    };
    let layout = merged(layout);
    let wanted = to.len().div_ceil(CACHED);
    let (run, cut) = (&run, parts(&layout, to, wanted));
    let mut results: Vec<Result<()>> = cut.iter().map(|_| Ok(())).collect();
    let tasks = cut.into_iter().zip(&mut results).map(|((layout, to), result)| {
        let task: Task<'_> = Box::new(move || *result = run(&layout, to));
        task
    });
    run_tasks(tasks.collect());
    results.into_iter().collect()
}

/// Cuts a copy into about `wanted` parts along its outer dimensions.
fn parts<'a, T>(layout: &Layout, to: &'a mut [T], wanted: usize) -> Vec<(Layout, &'a mut [T])> {
    let mut all = vec![(layout.clone(), to)];
    for (dim, (&size, &stride)) in layout.shape().iter().zip(layout.strides()).enumerate() {
        let pieces = wanted.div_ceil(all.len());
        // Neighbours in storage are read together, and a transposition takes whole tiles.
        let step = match size.div_ceil(pieces) {
            1 if stride != 1 || size <= FEW_ROWS => 1,
            step => step.next_multiple_of(SIDE),
        };
        let cut = |(layout, mut to): (Layout, &'a mut [T])| {
            let inner = to.len() / size;
            let starts = (0..size).step_by(step);
            starts.map(move |start| {
                let count = step.min(size - start);
                let (part, rest) = std::mem::take(&mut to).split_at_mut(count * inner);
                to = rest;
                (layout.narrow(dim, start, count).expect("a part of a layout"), part)
            })
        };
        all = all.into_iter().flat_map(cut).collect();
        if step > 1 {
            break;
        }
    }
    all
}

/// Copies as [`gather`], on this thread.
fn gather_part<T: bytemuck::Pod>(from: &[T], layout: &Layout, to: &mut [T]) {
    let (shape, strides) = (layout.shape(), layout.strides());
    let (Some((&n, outer)), Some((&stride, outer_strides))) =
        (shape.split_last(), strides.split_last())
    else {
        to[0] = from[layout.offset()];
        return;
    };
    if stride > 1
        && let Some(dim) = outer_strides.iter().position(|&stride| stride == 1)
    {
        let run = run_of(layout);
        if run.len() > 1 && shape[dim] < SIDE && n >= SIDE {
            return gather_run(from, layout, &run, to);
        }
        return gather_across(from, layout, dim, to);
    }
    // The three innermost dimensions are plain loops, so the general stepping costs once per block.
    let mut dims = outer.len();
    let mut inner = || match dims.checked_sub(1) {
        Some(last) => {
            dims = last;
            (shape[last], strides[last])
        }
        None => (1, 0),
    };
    let [(rows, distance), (parts, gap)] = [inner(), inner()];
    let blocks = Layout::strided(&shape[..dims], &strides[..dims], layout.offset())
        .expect("as many sizes as strides");
    for (block, start) in to.chunks_exact_mut(parts * rows * n).zip(blocks.positions()) {
        for (part, to) in block.chunks_exact_mut(rows * n).enumerate() {
            gather_rows(&from[start + part * gap..], [distance, stride], n, to);
        }
    }
}

/// Copies rows of `n` elements, which begin at one distance and whose elements lie at another.
fn gather_rows<T: Copy>(from: &[T], [distance, stride]: [usize; 2], n: usize, to: &mut [T]) {
    match (n, stride) {
        (_, 0) => {
            for (i, row) in to.chunks_exact_mut(n).enumerate() {
                row.fill(from[i * distance]);
            }
        }
        (2, 1) => short_rows::<2, T>(from, distance, to),
        (3, 1) => short_rows::<3, T>(from, distance, to),
        (4, 1) => short_rows::<4, T>(from, distance, to),
        (5, 1) => short_rows::<5, T>(from, distance, to),
        (6, 1) => short_rows::<6, T>(from, distance, to),
        (7, 1) => short_rows::<7, T>(from, distance, to),
        (8, 1) => short_rows::<8, T>(from, distance, to),
        (_, 1) => {
            for (i, row) in to.chunks_exact_mut(n).enumerate() {
                row.copy_from_slice(&from[i * distance..][..n]);
            }
        }
        _ => {
            for (i, row) in to.chunks_exact_mut(n).enumerate() {
                let from = from[i * distance..].iter().step_by(stride);
                row.iter_mut().zip(from).for_each(|(to, &from)| *to = from);
            }
        }
    }
}

/// Returns a layout of the same elements in the same order, without dimensions of one element and
/// with neighbouring dimensions as one where a single stride serves both.
fn merged(layout: &Layout) -> Layout {
    let (mut shape, mut strides) = (PerDim::new(), PerDim::new());
    for (&n, &stride) in layout.shape().iter().zip(layout.strides()).filter(|(n, _)| **n != 1) {
        match (shape.last_mut(), strides.last_mut()) {
            (Some(size), Some(last)) if Some(*last) == n.checked_mul(stride) => {
                *size *= n;
                *last = stride;
            }
            _ => {
                shape.push(n);
                strides.push(stride);
            }
        }
    }
    Layout::strided(&shape, &strides, layout.offset()).expect("the elements of a layout")
}

/// Copies rows of `N` neighbours, which begin `distance` apart.
fn short_rows<const N: usize, T: Copy>(from: &[T], distance: usize, to: &mut [T]) {
    for (i, row) in to.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        row.copy_from_slice(&from[i * distance..][..N]);
    }
}

/// Copies as [`gather`] if neighbours in the storage lie along `dim` and not along the last
/// dimension.
fn gather_across<T: bytemuck::Pod>(from: &[T], layout: &Layout, dim: usize, to: &mut [T]) {
    let last = layout.rank() - 1;
    let (shape, strides) = (layout.shape(), layout.strides());
    let distance: usize = shape[dim + 1..].iter().product();
    // Neighbours in a cache line are read together, whatever the order in which they are written.
    let mut order: Vec<usize> = (0..last).filter(|&other| other != dim).collect();
    order.sort_by_key(|&dim| LINE.saturating_sub(strides[dim]));
    let others = |strides: &[usize], offset: usize| {
        let pick = |sizes: &[usize]| order.iter().map(|&dim| sizes[dim]).collect::<PerDim>();
        Layout::strided(&pick(shape), &pick(strides), offset).expect("part of a layout")
    };
    let dense = Layout::contiguous("contiguous", shape).expect("the shape of a layout");
    let (sources, targets) = (others(strides, layout.offset()), others(dense.strides(), 0));
    for (source, target) in sources.positions().zip(targets.positions()) {
        let (from, to) = (&from[source..], &mut to[target..]);
        transpose(from, strides[last], to, distance, [shape[dim], shape[last]]);
    }
}

/// Returns the dimensions whose elements are neighbours in the storage as those of one dimension would be,
/// nearest first, without the last dimension.
fn run_of(layout: &Layout) -> PerDim {
    let (mut run, mut length) = (PerDim::new(), 1);
    let (shape, strides) = (layout.shape(), layout.strides());
    let outer = 0..layout.rank() - 1;
    let next = |length| outer.clone().find(|&dim| strides[dim] == length && shape[dim] > 1);
    while let Some(dim) = next(length) {
        run.push(dim);
        length *= shape[dim];
    }
    run
}

/// Copies as [`gather_across`] along several short dimensions, which follow each other in the storage:
/// transposes their run as one dimension, and puts its rows in their places.
fn gather_run<T: bytemuck::Pod>(from: &[T], layout: &Layout, run: &[usize], to: &mut [T]) {
    let last = layout.rank() - 1;
    let (shape, strides) = (layout.shape(), layout.strides());
    let dense = Layout::contiguous("contiguous", shape).expect("the shape of a layout");
    let pick = |of: &[usize], dims: &[usize]| dims.iter().map(|&dim| of[dim]).collect::<PerDim>();
    let part = |strides: &[usize], offset: usize, dims: &[usize]| {
        Layout::strided(&pick(shape, dims), &pick(strides, dims), offset).expect("part of a layout")
    };
    let others: PerDim = (0..last).filter(|dim| !run.contains(dim)).collect();
    let sources = part(strides, layout.offset(), &others);
    let targets = part(dense.strides(), 0, &others);
    // The nearest dimension is the last of a layout.
    let order: PerDim = run.iter().rev().copied().collect();
    let places = part(dense.strides(), 0, &order);
    let (columns, stride) = (shape[last], strides[last]);
    let mut copy = [T::zeroed(); STRIP * SIDE];
    for (source, target) in sources.positions().zip(targets.positions()) {
        for column in (0..columns).step_by(SIDE) {
            let count = SIDE.min(columns - column);
            let from = &from[source + column * stride..];
            let ahead = size_of_val(from) > NEAR && column + SIDE < columns;
            let mut next = places.positions();
            // Whole runs, whose lines the processor reads ahead.
            for first in (0..places.numel()).step_by(STRIP) {
                let rows = STRIP.min(places.numel() - first);
                transpose_strip(&from[first..], stride, &mut copy, SIDE, [rows, count], ahead);
                for (copy, row) in copy.as_chunks::<SIDE>().0[..rows].iter().zip(next.by_ref()) {
                    let to = &mut to[target + row + column..][..count];
                    match <&mut [T; SIDE]>::try_from(&mut *to) {
                        Ok(to) => *to = *copy,
                        Err(_) => to.copy_from_slice(&copy[..count]),
                    }
                }
            }
        }
    }
}

/// Computes `to[i · distance + j] = from[i + j · stride]`. Neighbouring parts in storage follow each other,
/// so that one page serves many of them.
fn transpose<T: bytemuck::Pod>(
    from: &[T],
    stride: usize,
    to: &mut [T],
    distance: usize,
    [rows, columns]: [usize; 2],
) {
    match rows {
        1 => return few_rows::<1, T>(from, stride, to, distance, columns),
        2 => return few_rows::<2, T>(from, stride, to, distance, columns),
        3 => return few_rows::<3, T>(from, stride, to, distance, columns),
        4 => return few_rows::<4, T>(from, stride, to, distance, columns),
        5 => return few_rows::<5, T>(from, stride, to, distance, columns),
        6 => return few_rows::<6, T>(from, stride, to, distance, columns),
        7 => return few_rows::<7, T>(from, stride, to, distance, columns),
        _ => {}
    }
    match columns {
        1 => return few_columns::<1, T>(from, stride, to, distance, rows),
        2 => return few_columns::<2, T>(from, stride, to, distance, rows),
        3 => return few_columns::<3, T>(from, stride, to, distance, rows),
        _ => {}
    }
    // Strips of rows, so that a page is read in one go, and of columns, so that lines are written whole.
    for i in (0..rows).step_by(STRIP) {
        for j in (0..columns).step_by(SIDE) {
            let sizes = [STRIP.min(rows - i), SIDE.min(columns - j)];
            let (from, to) = (&from[i + j * stride..], &mut to[i * distance + j..]);
            let ahead = size_of_val(from) > NEAR && j + SIDE < columns;
            transpose_strip(from, stride, to, distance, sizes, ahead);
        }
    }
}

/// Computes [`transpose`] of a few rows and columns. `ahead` tells that as many columns behind these follow.
fn transpose_strip<T: bytemuck::Pod>(
    from: &[T],
    stride: usize,
    to: &mut [T],
    distance: usize,
    sizes: [usize; 2],
    ahead: bool,
) {
    if !transpose_vectors(from, stride, to, distance, sizes, ahead) {
        transpose_tiles(from, stride, to, distance, sizes);
    }
}

/// Computes [`transpose`] by vectors; returns false if there are none for this type or machine. `ahead` tells
/// that as many columns behind these follow.
fn transpose_vectors<T: bytemuck::Pod>(
    from: &[T],
    stride: usize,
    to: &mut [T],
    distance: usize,
    [rows, columns]: [usize; 2],
    ahead: bool,
) -> bool {
    if simd::level() == Level::Portable {
        return false;
    }
    let sizes = (columns, rows);
    match (size_of::<T>(), align_of::<T>()) {
        (4, 4) => {
            let (from, to) = (bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to));
            transpose_f32(from, stride, sizes, to, distance, ahead);
        }
        (8, 8) => {
            let (from, to) = (bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to));
            transpose_f64(from, stride, sizes, to, distance, ahead);
        }
        _ => return false,
    }
    true
}

/// Computes [`transpose`] of at most [`SIDE`] columns in tiles, each read whole before it is written: lines a
/// power of two apart share sets of the cache.
fn transpose_tiles<T: bytemuck::Pod>(
    from: &[T],
    stride: usize,
    to: &mut [T],
    distance: usize,
    [rows, columns]: [usize; 2],
) {
    let mut tile = [[T::zeroed(); SIDE]; SIDE];
    for i in (0..rows).step_by(SIDE) {
        let height = SIDE.min(rows - i);
        for (along, line) in tile[..columns].iter_mut().enumerate() {
            let from = &from[i + along * stride..];
            match from.first_chunk() {
                Some(whole) if height == SIDE => *line = *whole,
                _ => line[..height].copy_from_slice(&from[..height]),
            }
        }
        for across in 0..height {
            let to = &mut to[(i + across) * distance..][..columns];
            for (to, line) in to.iter_mut().zip(&tile) {
                *to = line[across];
            }
        }
    }
}

/// Computes [`transpose`] for `N` rows, which are written side by side.
fn few_rows<const N: usize, T: Copy>(
    from: &[T],
    stride: usize,
    to: &mut [T],
    distance: usize,
    columns: usize,
) {
    let mut lines = to.chunks_mut(distance);
    let mut rows: [&mut [T]; N] = std::array::from_fn(|_| {
        let line = lines.next().unwrap_or_default();
        &mut line[..columns]
    });
    for j in 0..columns {
        let from = &from[j * stride..][..N];
        for (row, &x) in rows.iter_mut().zip(from) {
            row[j] = x;
        }
    }
}

/// Computes [`transpose`] for `N` columns, which are read side by side.
fn few_columns<const N: usize, T: Copy>(
    from: &[T],
    stride: usize,
    to: &mut [T],
    distance: usize,
    rows: usize,
) {
    let mut columns = [from; N];
    for (j, column) in columns.iter_mut().enumerate() {
        *column = &from[j * stride..][..rows];
    }
    for i in 0..rows {
        let to = &mut to[i * distance..][..N];
        for (to, column) in to.iter_mut().zip(columns) {
            *to = column[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws numbers below a bound.
    struct Draws(u64);

    impl Draws {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % bound
        }

        /// Draws a view of a dense tensor of up to five dimensions.
        fn layout(&mut self) -> Layout {
            let rank = self.below(6);
            let sizes = [1, 1, 2, 3, 5, 8, 9, 17, 40];
            let mut shape: Vec<usize> = (0..rank).map(|_| sizes[self.below(sizes.len())]).collect();
            while shape.iter().product::<usize>() > 5000 {
                shape.pop();
            }
            let rank = shape.len();
            let mut layout = Layout::contiguous("test", &shape).unwrap();
            for _ in 0..self.below(4) {
                let dim = self.below(rank.max(1));
                layout = match self.below(4) {
                    _ if rank == 0 => layout,
                    0 => {
                        let mut order: Vec<usize> = (0..rank).collect();
                        order.rotate_left(dim);
                        if self.below(2) == 0 {
                            order.reverse();
                        }
                        layout.permute(&order).unwrap()
                    }
                    1 => {
                        let size = layout.shape()[dim];
                        let start = self.below(size);
                        let length = 1 + self.below(size - start);
                        layout.narrow(dim, start, length).unwrap()
                    }
                    2 => {
                        let start = self.below(layout.shape()[dim]);
                        layout.stepped(dim, start, 2).unwrap()
                    }
                    _ => {
                        let one = layout.narrow(dim, 0, 1).unwrap();
                        let mut wide = one.shape().to_vec();
                        wide[dim] = 1 + self.below(6);
                        one.expand("test", &wide).unwrap()
                    }
                };
            }
            layout
        }
    }

    #[test]
    fn parts_are_the_whole() {
        let mut draws = Draws(11);
        let mut several = 0;
        for _ in 0..4000 {
            let layout = merged(&draws.layout());
            let mut to: Vec<u32> = vec![u32::MAX; layout.shape().iter().product()];
            let from: Vec<u32> = (0..layout.extent().max(1) as u32).collect();
            let cut = parts(&layout, &mut to, 1 + draws.below(20));
            several += usize::from(cut.len() > 1);
            for (layout, to) in cut {
                gather_part(&from, &layout, to);
            }
            let steps: Vec<u32> = layout.positions().map(|at| from[at]).collect();
            assert_eq!(to, steps, "{layout:?}");
        }
        assert!(several > 1000, "{several}");
    }

    #[test]
    fn parts_of_a_function_are_the_whole() {
        let rows = Layout::contiguous("test", &[9, 300, 41]).unwrap();
        let large = [[2, 1, 0], [1, 2, 0]].map(|order| rows.permute(&order).unwrap());
        let mut draws = Draws(5);
        let small = (0..500).map(|_| draws.layout());
        for layout in small.chain(large) {
            let from: Vec<u32> = (0..layout.extent().max(1) as u32).collect();
            let mut to = vec![u64::MAX; layout.shape().iter().product()];
            let f = |from: &[u32], to: &mut [u64]| {
                assert_eq!(from.len(), to.len());
                to.iter_mut().zip(from).for_each(|(to, &x)| *to = u64::from(x) + 7);
                Ok(())
            };
            gather_each(&from, &layout, &mut to, f).unwrap();
            let steps: Vec<u64> = layout.positions().map(|at| u64::from(from[at]) + 7).collect();
            assert_eq!(to, steps, "{layout:?}");
        }
    }

    #[test]
    fn the_error_of_the_first_part_is_returned() {
        let rows = Layout::contiguous("test", &[9, 30_000]).unwrap();
        let layout = rows.permute(&[1, 0]).unwrap();
        let from: Vec<u32> = (0..270_000).collect();
        let mut to = vec![0u8; from.len()];
        let first = |from: &[u32]| from[0];
        let f = |from: &[u32], _: &mut [u8]| match first(from) {
            0 => Ok(()),
            x => Err(Error::invalid("test", format!("the part from {x} on"))),
        };
        let error = gather_each(&from, &layout, &mut to, f).unwrap_err();
        let step = 30_000usize.div_ceil(270_000usize.div_ceil(CACHED)).next_multiple_of(SIDE);
        assert_eq!(error.to_string(), format!("test: the part from {step} on"));
    }

    #[test]
    fn copies_are_those_of_single_steps() {
        let mut draws = Draws(7);
        for _ in 0..4000 {
            let layout = draws.layout();
            let from: Vec<u32> = (0..layout.extent().max(1) as u32).collect();
            let mut to = vec![u32::MAX; layout.shape().iter().product()];
            gather(&from, &layout, &mut to);
            let steps: Vec<u32> = layout.positions().map(|at| from[at]).collect();
            assert_eq!(to, steps, "{layout:?}");
        }
    }
}
