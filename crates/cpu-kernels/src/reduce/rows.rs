//! Where the rows that are reduced lie.

use samebits_tensor_core::Layout;

use crate::error::{Result, expect_size};
use crate::memory;

/// Elements of a row that are gathered at a time.
const GATHERED: usize = 1 << 14;

/// Rows of one length.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a, T> {
    /// Rows of `n` elements, one after the other.
    Dense { x: &'a [T], n: usize },
    /// Rows of a layout, from row `first` on.
    Walked { walk: &'a Walk<'a, T>, first: usize },
}

/// Rows that lie scattered, or that repeat elements: too large to be copied.
pub(crate) struct Walk<'a, T> {
    /// The storage.
    pub(crate) data: &'a [T],
    /// Where each row starts.
    pub(crate) starts: Layout,
    /// Where the elements of a row lie, from its start on.
    pub(crate) row: Layout,
    /// What is done to each element.
    pub(crate) map: fn(T) -> T,
}

impl<'a, T: Copy> Rows<'a, T> {
    /// `rows` rows of `n` elements that are all of `x`.
    pub(crate) fn dense(op: &'static str, x: &'a [T], rows: usize, n: usize) -> Result<Self> {
        expect_size(op, "x", x.len(), &[rows, n])?;
        Ok(Rows::Dense { x, n })
    }

    /// Elements of a row.
    pub(crate) fn width(&self) -> usize {
        match self {
            Rows::Dense { n, .. } => *n,
            Rows::Walked { walk, .. } => walk.row.numel(),
        }
    }

    /// `count` rows from row `start` on.
    pub(crate) fn part(&self, start: usize, count: usize) -> Self {
        match *self {
            Rows::Dense { x, n } => Rows::Dense { x: &x[start * n..][..count * n], n },
            Rows::Walked { walk, first } => Rows::Walked { walk, first: first + start },
        }
    }
}

impl<T: Copy> Walk<'_, T> {
    /// Room for the elements of a row that are gathered at a time.
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

/// Where element `i` of a layout lies.
fn nth(layout: &Layout, mut i: usize) -> usize {
    let mut position = layout.offset();
    for (&size, &stride) in layout.shape().iter().zip(layout.strides()).rev() {
        position += i % size * stride;
        i /= size;
    }
    position
}
