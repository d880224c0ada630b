//! The rows of a reduction, dense or strided.

use samebits_numerics::reduce::BLOCK;
use samebits_tensor_core::Layout;
use samebits_tensor_core::layout::PerDim;

use crate::error::{Result, expect_size};
use crate::memory;

use super::Part;

/// The number of elements of a row that are gathered at a time: whole blocks.
const GATHERED: usize = BLOCK;

/// The length of a run of neighbours from which rows are read in place.
pub(crate) const SHORTEST_RUN: usize = 16;

/// Rows of one length.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a, T> {
    /// Rows of `n` elements, one after the other.
    Dense { x: &'a [T], n: usize },
    /// Rows of a layout, from row `first` on.
    Walked { walk: &'a Walk<'a, T>, first: usize },
    /// Columns, whose neighbours have neighbouring elements.
    Slabs(Part<'a, T>),
}

/// Rows that are not contiguous or that repeat elements, and are too large to be copied.
pub(crate) struct Walk<'a, T> {
    /// The storage.
    pub(crate) data: &'a [T],
    /// The start of each row.
    pub(crate) starts: &'a Layout,
    /// The positions of the elements of a row, relative to its start.
    pub(crate) row: &'a Layout,
    /// A function that replaces elements by what it makes of each.
    pub(crate) map: Option<fn(&mut [T])>,
}

impl<'a, T: Copy + Send + Sync> Rows<'a, T> {
    /// Returns `rows` rows of `n` elements that are all of `x`.
    pub(crate) fn dense(op: &'static str, x: &'a [T], rows: usize, n: usize) -> Result<Self> {
        expect_size(op, "x", x.len(), &[rows, n])?;
        Ok(Rows::Dense { x, n })
    }

    /// Returns the number of elements of a row.
    pub(crate) fn width(&self) -> usize {
        match self {
            Rows::Dense { n, .. } => *n,
            Rows::Walked { walk, .. } => walk.row.numel(),
            Rows::Slabs(part) => part.terms(),
        }
    }

    /// Returns `count` rows from row `start` on.
    pub(crate) fn part(&self, start: usize, count: usize) -> Self {
        match *self {
            Rows::Dense { x, n } => Rows::Dense { x: &x[start * n..][..count * n], n },
            Rows::Walked { walk, first } => Rows::Walked { walk, first: first + start },
            Rows::Slabs(part) => Rows::Slabs(Part { first: part.first + start, ..part }),
        }
    }
}

impl<T: bytemuck::Pod> Walk<'_, T> {
    /// Copies as many whole rows, which have elements, from row `first` on as fit the slice.
    pub(super) fn copy_rows(&self, first: usize, to: &mut [T]) {
        let n = self.row.numel();
        if let (&[_], &[distance]) = (self.starts.shape(), self.starts.strides()) {
            let count = to.len() / n;
            let sizes: PerDim =
                [count].into_iter().chain(self.row.shape().iter().copied()).collect();
            let strides: PerDim =
                [distance].into_iter().chain(self.row.strides().iter().copied()).collect();
            let start = self.layout(first).offset();
            let rows = Layout::strided(&sizes, &strides, start).expect("rows of a layout");
            rows.gather(self.data, to);
        } else {
            for (row, to) in (first..).zip(to.chunks_exact_mut(n)) {
                self.layout(row).gather(self.data, to);
            }
        }
        if let Some(map) = self.map {
            map(to);
        }
    }
}

impl<T: Copy> Walk<'_, T> {
    /// Returns a buffer for the elements of a row that are gathered at a time.
    pub(crate) fn buffer(&self, op: &'static str) -> Result<Vec<T>> {
        memory::with_capacity(op, self.row.numel().min(GATHERED))
    }

    /// Returns the number of neighbours in the storage that follow each other in a row.
    pub(super) fn run(&self) -> usize {
        match (self.row.shape().last(), self.row.strides().last()) {
            (Some(&run), Some(1)) => run,
            _ => 1,
        }
    }

    /// Returns true if neighbours of a row lie apart or in short runs, so that copying them in the order of
    /// the storage pays.
    pub(super) fn is_scattered(&self) -> bool {
        self.run() < SHORTEST_RUN
    }

    /// Returns the positions of the elements of a row.
    pub(super) fn layout(&self, row: usize) -> Layout {
        let start = nth(self.starts, row) + self.row.offset();
        Layout::strided(self.row.shape(), self.row.strides(), start).expect("a row of a layout")
    }

    /// Returns the elements of a row from element `first` on to the end of its run.
    fn rest_of_run(&self, row: usize, first: usize) -> &[T] {
        let start = nth(self.starts, row) + nth(self.row, first);
        &self.data[start..][..self.run() - first % self.run()]
    }

    /// Calls `f` with one run of a row after the other.
    pub(super) fn runs(&self, row: usize, f: impl FnMut(&[T])) {
        self.stretch(row, 0, self.row.numel(), f);
    }

    /// Calls `f` with what at most `count` elements of a row, from element `first` on, have of each run.
    pub(super) fn stretch(
        &self,
        row: usize,
        mut first: usize,
        count: usize,
        mut f: impl FnMut(&[T]),
    ) {
        let (start, run) = (nth(self.starts, row), self.run());
        let end = self.row.numel().min(first + count);
        while first < end {
            let length = (run - first % run).min(end - first);
            f(&self.data[start + nth(self.row, first)..][..length]);
            first += length;
        }
    }

    /// Calls `f(number, rows, out)` for each group of `out.len()` rows from row `first` on, gathered one
    /// after the other, of which the first has this number among them. A row has elements, at most half
    /// a block of them.
    pub(super) fn several_rows<R>(
        &self,
        op: &'static str,
        first: usize,
        out: &mut [R],
        mut f: impl FnMut(usize, &[T], &mut [R]),
    ) -> Result<()> {
        let together = BLOCK / self.row.numel();
        let mut buffer = memory::with_capacity(op, self.row.numel() * together.min(out.len()))?;
        for (number, out) in (0..).step_by(together).zip(out.chunks_mut(together)) {
            buffer.clear();
            self.append_rows(first + number, out.len(), &mut buffer);
            f(number, &buffer, out);
        }
        Ok(())
    }

    /// Appends `count` whole rows from row `first` on to the buffer.
    fn append_rows(&self, first: usize, count: usize, buffer: &mut Vec<T>) {
        let old = buffer.len();
        let starts = self.starts.positions_from(first).take(count);
        let (run, row) = (self.run(), self.row.shape());
        match (row, self.row.strides()) {
            (&[_], &[1]) => starts.for_each(|start| {
                buffer.extend_from_slice(&self.data[start..][..run]);
            }),
            (&[runs, _], &[stride, 1]) => starts.for_each(|start| {
                for number in 0..runs {
                    buffer.extend_from_slice(&self.data[start + number * stride..][..run]);
                }
            }),
            _ => {
                let n = self.row.numel();
                return (first..first + count).for_each(|row| self.append(row, 0, n, buffer));
            }
        }
        if let Some(map) = self.map {
            map(&mut buffer[old..]);
        }
    }

    /// Calls `f` with one piece of a row after the other: in place if whole blocks are neighbours, else
    /// gathered in the buffer. All but the last have whole blocks.
    pub(crate) fn pieces(&self, row: usize, buffer: &mut Vec<T>, mut f: impl FnMut(&[T])) {
        let (count, in_runs) = (self.row.numel(), self.run() >= BLOCK && self.map.is_none());
        let mut first = 0;
        while first < count {
            if in_runs {
                let here = self.rest_of_run(row, first);
                let is_last = first + here.len() == count;
                let whole = if is_last { here.len() } else { here.len() / BLOCK * BLOCK };
                if whole > 0 {
                    f(&here[..whole]);
                    first += whole;
                    continue;
                }
            }
            self.gather(row, first, GATHERED, buffer);
            f(buffer);
            first += buffer.len();
        }
    }

    /// Fills the buffer with at most `count` elements of a row, from element `first` on.
    pub(crate) fn gather(&self, row: usize, first: usize, count: usize, buffer: &mut Vec<T>) {
        buffer.clear();
        self.append(row, first, count, buffer);
    }

    /// Appends at most `count` elements of a row to the buffer, from element `first` on.
    fn append(&self, row: usize, first: usize, count: usize, buffer: &mut Vec<T>) {
        let count = count.min(self.row.numel() - first);
        let start = nth(self.starts, row);
        let (old, end) = (buffer.len(), buffer.len() + count);
        let run = self.run();
        let outer = &self.row.shape()[..self.row.rank().saturating_sub(1)];
        if run == 1 {
            let positions = self.row.positions_from(first).take(count);
            buffer.extend(positions.map(|position| self.data[start + position]));
        } else {
            let strides = self.row.strides();
            // Runs of the last but one dimension follow each other at one distance.
            let (size, stride) = match outer.len() {
                0 => (1, 0),
                rank => (outer[rank - 1], strides[rank - 1]),
            };
            while buffer.len() < end {
                let at = first + buffer.len() - old;
                let mut inside = at % run;
                let mut begin = start + nth(self.row, at) - inside;
                for _ in at / run % size..size {
                    let length = (run - inside).min(end - buffer.len());
                    if length == 0 {
                        break;
                    }
                    buffer.extend_from_slice(&self.data[begin + inside..][..length]);
                    (begin, inside) = (begin + stride, 0);
                }
            }
        }
        if let Some(map) = self.map {
            map(&mut buffer[old..]);
        }
    }
}

/// Returns the position of element `i` of a layout.
fn nth(layout: &Layout, i: usize) -> usize {
    layout.offset() + distance(layout.shape(), layout.strides(), i)
}

/// Returns the distance of element `i` of some dimensions from the first one.
pub(super) fn distance(shape: &[usize], strides: &[usize], mut i: usize) -> usize {
    let mut distance = 0;
    for (&size, &stride) in shape.iter().zip(strides).rev() {
        distance += i % size * stride;
        i /= size;
    }
    distance
}
