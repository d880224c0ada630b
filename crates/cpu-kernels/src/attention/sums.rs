//! Rows of a gradient that is added up block by block.

use std::ops::Range;

use samebits_numerics::memory::product;
use samebits_numerics::simd::{self, Kernel};

use super::Number;
use super::products::{InPlace, Panels, block_in_place};
use crate::arch::{Finish, TileFns, TileMut};
use crate::gemm::{Real, even_parts};

/// Some rows of a gradient. The sums are built in their place if whole tiles fit there, else in a
/// buffer.
pub(super) struct Sums<'a, T: 'static> {
    pub(super) tiles: &'static TileFns<T>,
    /// The rows of the gradient.
    pub(super) out: &'a mut [T],
    pub(super) columns: usize,
    /// As many rows of whole tiles, if the gradient has none: see [`buffer_len`].
    pub(super) buffer: &'a mut [T],
    /// True if a block has been added before.
    pub(super) begun: bool,
    /// True if no block follows.
    pub(super) last: bool,
}

/// Returns the number of elements of the buffer for `rows` rows, if it does not overflow.
pub(super) fn buffer_len<T: Number>(
    tiles: &TileFns<T>,
    rows: usize,
    columns: usize,
) -> Option<usize> {
    match columns.is_multiple_of(tiles.columns()) {
        true => Some(0),
        false => product(&[rows, columns.checked_next_multiple_of(tiles.columns())?]),
    }
}

impl<T: Number> Sums<'_, T> {
    fn fits(&self) -> bool {
        self.columns.is_multiple_of(self.tiles.columns())
    }

    /// Adds the product of a matrix in place and columns from some step on. `used` returns the steps that
    /// are computed for some rows.
    pub(super) fn add(
        self,
        matrix: (&[T], usize, &InPlace),
        steps: (Panels<'_, T>, usize),
        used: impl Fn(&Range<usize>) -> Range<usize>,
    ) {
        if self.columns == 0 {
            return;
        }
        let fits = self.fits();
        let Sums { tiles, out, columns, buffer, begun, last } = self;
        let rows = out.len() / columns;
        let parts: Vec<Range<usize>> = even_parts(rows, tiles.max_rows()).collect();
        let stride = columns.next_multiple_of(tiles.columns());
        let finish = Finish { add: begun, last: last && fits };
        let sums = if fits { &mut *out } else { &mut *buffer };
        let mut to = TileMut::from_slice(sums, rows, stride);
        block_in_place(tiles, matrix, &parts, steps, &mut to, finish, |rows, _| used(rows));
        if last && !fits {
            copy(buffer, stride, columns, out);
        }
    }

    /// Adds +0, which turns −0 into +0.
    pub(super) fn add_zero(self) {
        if self.columns == 0 {
            return;
        }
        let fits = self.fits();
        let Sums { tiles, out, columns, buffer, begun, last } = self;
        let stride = columns.next_multiple_of(tiles.columns());
        let sums = if fits { &mut *out } else { &mut buffer[..out.len() / columns * stride] };
        if begun {
            for sum in sums {
                *sum = Real::canonical(sum.plus(T::ZERO));
            }
        } else {
            sums.fill(T::ZERO);
        }
        if last && !fits {
            copy(buffer, stride, columns, out);
        }
    }
}

/// Copies rows of `columns` elements out of rows of whole tiles, `stride` apart.
fn copy<T: Number>(from: &[T], stride: usize, columns: usize, out: &mut [T]) {
    simd::dispatch_inside(Copied { from, stride, columns, out });
}

struct Copied<'a, T> {
    from: &'a [T],
    stride: usize,
    columns: usize,
    out: &'a mut [T],
}

impl<T: Number> Kernel for Copied<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let rows = self.from.chunks_exact(self.stride);
        for (from, out) in rows.zip(self.out.chunks_exact_mut(self.columns)) {
            for (out, &from) in out.iter_mut().zip(from) {
                *out = Real::canonical(from);
            }
        }
    }
}
