//! The rows of a reduction, dense or strided.

use samebits_tensor_core::Layout;

use crate::error::{Result, expect_size};
use crate::memory;

/// The number of elements of a row that are gathered at a time.
const GATHERED: usize = 1 << 14;

/// Rows of one length.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a, T> {
    /// Rows of `n` elements, one after the other.
    Dense { x: &'a [T], n: usize },
    /// Rows of a layout, from row `first` on.
    Walked { walk: &'a Walk<'a, T>, first: usize },
}

/// Rows that are not contiguous or that repeat elements, and are too large to be copied.
pub(crate) struct Walk<'a, T> {
    /// The storage.
    pub(crate) data: &'a [T],
    /// The start of each row.
    pub(crate) starts: Layout,
    /// The positions of the elements of a row, relative to its start.
    pub(crate) row: Layout,
    /// A function that is applied to each element.
    pub(crate) map: fn(T) -> T,
}

impl<'a, T: Copy> Rows<'a, T> {
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
        }
    }

    /// Returns `count` rows from row `start` on.
    pub(crate) fn part(&self, start: usize, count: usize) -> Self {
        match *self {
            Rows::Dense { x, n } => Rows::Dense { x: &x[start * n..][..count * n], n },
            Rows::Walked { walk, first } => Rows::Walked { walk, first: first + start },
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
        let start = nth(&self.starts, row);
        let mut positions = self.row.positions();
        for _ in 0..self.row.numel().div_ceil(GATHERED) {
            buffer.clear();
            let piece = positions.by_ref().take(GATHERED);
            buffer.extend(piece.map(|position| (self.map)(self.data[start + position])));
            f(buffer);
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
