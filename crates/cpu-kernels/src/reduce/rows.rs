//! The rows of a reduction, dense or strided.

use samebits_tensor_core::Layout;

use crate::error::{Result, expect_size};
use crate::memory;

use super::Part;

/// The number of elements of a row that are gathered at a time.
pub(super) const GATHERED: usize = 1 << 14;

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
    /// A function that is applied to each element.
    pub(crate) map: Option<fn(T) -> T>,
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

impl<T: Copy> Walk<'_, T> {
    /// Returns a buffer for the elements of a row that are gathered at a time.
    pub(crate) fn buffer(&self, op: &'static str) -> Result<Vec<T>> {
        memory::with_capacity(op, self.row.numel().min(GATHERED))
    }

    /// Calls `f` with one piece of a row after the other, each gathered in the buffer.
    pub(crate) fn pieces(&self, row: usize, buffer: &mut Vec<T>, mut f: impl FnMut(&[T])) {
        for first in (0..self.row.numel()).step_by(GATHERED) {
            self.gather(row, first, GATHERED, buffer);
            f(buffer);
        }
    }

    /// Fills the buffer with at most `count` elements of a row, from element `first` on.
    pub(crate) fn gather(&self, row: usize, first: usize, count: usize, buffer: &mut Vec<T>) {
        buffer.clear();
        self.append(row, first, count, buffer);
    }

    /// Appends at most `count` elements of a row to the buffer, from element `first` on.
    pub(crate) fn append(&self, row: usize, first: usize, count: usize, buffer: &mut Vec<T>) {
        let count = count.min(self.row.numel() - first);
        let start = nth(self.starts, row);
        let (old, end) = (buffer.len(), buffer.len() + count);
        let (outer, run) = match (self.row.shape().split_last(), self.row.strides().last()) {
            (Some((&run, outer)), Some(1)) => (outer, run),
            _ => (self.row.shape(), 1),
        };
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
            buffer[old..].iter_mut().for_each(|x| *x = map(*x));
        }
    }
}

/// Returns the position of element `i` of a layout.
fn nth(layout: &Layout, mut i: usize) -> usize {
    let mut position = layout.offset();
    for (&size, &stride) in layout.shape().iter().zip(layout.strides()).rev() {
        position += i % size * stride;
        i /= size;
    }
    position
}
