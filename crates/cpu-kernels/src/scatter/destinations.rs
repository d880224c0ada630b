//! The destination of each source.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::parallel;
use samebits_numerics::simd::{self, Kernel};

/// The output row that each source is sent to.
pub trait Destinations: Sync {
    /// Returns the operation, for errors.
    fn op(&self) -> &'static str;

    /// Returns the number of sources.
    fn count(&self) -> usize;

    /// Writes the output rows of the sources `start..start + rows.len()`.
    ///
    /// # Errors
    ///
    /// [`Error::IndexOutOfRange`] for the first source of the range whose index is invalid.
    fn fill(&self, start: usize, rows: &mut [usize]) -> Result<()>;

    /// Checks the indices of some sources.
    ///
    /// # Errors
    ///
    /// As [`Destinations::fill`].
    fn check(&self, sources: Range<usize>) -> Result<()>;

    /// Returns the number of sources and of output rows of a slab, if each source is sent to a row
    /// of its own slab.
    fn slab(&self) -> Option<[usize; 2]> {
        None
    }

    /// Returns the elements that the sources are, if each is one of a tensor, sent along a line of it.
    fn lines(&self) -> Option<Elements<'_>> {
        None
    }

    /// Returns true if no two sources are sent to the same row.
    fn distinct(&self) -> bool {
        false
    }
}

/// Sources sent to the rows in `index`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    /// The operation, for errors.
    pub op: &'static str,
    /// One index per source.
    pub index: &'a [i64],
    /// The number of output rows.
    pub size: usize,
    /// The row that index 0 names.
    pub base: usize,
}

impl Destinations for Rows<'_> {
    fn op(&self) -> &'static str {
        self.op
    }

    fn count(&self) -> usize {
        self.index.len()
    }

    fn fill(&self, start: usize, rows: &mut [usize]) -> Result<()> {
        let index = &self.index[start..start + rows.len()];
        let line = Line { index, size: self.size, first: self.base, step: 1, rows };
        if simd::dispatch(line) {
            Ok(())
        } else {
            Err(first_invalid(self.op, index, self.size, start))
        }
    }

    fn check(&self, sources: Range<usize>) -> Result<()> {
        check_some(self.op, self.index, self.size, sources)
    }
}

/// Sources of several slabs, each sent to the rows of its slab that one `index` names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slabs<'a> {
    /// The operation, for errors.
    pub op: &'static str,
    /// One index per source of a slab; not empty.
    pub index: &'a [i64],
    /// The number of output rows of a slab.
    pub size: usize,
    /// The number of slabs.
    pub count: usize,
}

impl Destinations for Slabs<'_> {
    fn op(&self) -> &'static str {
        self.op
    }

    fn count(&self) -> usize {
        self.count * self.index.len()
    }

    fn fill(&self, start: usize, rows: &mut [usize]) -> Result<()> {
        let Slabs { op, index, size, .. } = *self;
        let (mut slab, mut at) = (start / index.len(), start % index.len());
        let mut done = 0;
        while done < rows.len() {
            let length = (index.len() - at).min(rows.len() - done);
            let (base, index) = (slab * size, &index[at..at + length]);
            Rows { op, index, size, base }.fill(0, &mut rows[done..done + length])?;
            (slab, at, done) = (slab + 1, 0, done + length);
        }
        Ok(())
    }

    fn check(&self, _: Range<usize>) -> Result<()> {
        check(self.op, self.index, self.size)
    }

    fn slab(&self) -> Option<[usize; 2]> {
        Some([self.index.len(), self.size])
    }
}

/// Elements of an (outer, n, inner) tensor, sent along the middle dimension of an (outer, size,
/// inner) tensor, each to the place that its own index names.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    /// The operation, for errors.
    pub op: &'static str,
    /// (outer, n, inner): one index per element.
    pub index: &'a [i64],
    /// The number of elements sent along one line.
    pub n: usize,
    /// The number of elements of the output along that line.
    pub size: usize,
    /// The distance between neighbours on a line.
    pub inner: usize,
}

impl Destinations for Elements<'_> {
    fn op(&self) -> &'static str {
        self.op
    }

    fn count(&self) -> usize {
        self.index.len()
    }

    fn fill(&self, start: usize, rows: &mut [usize]) -> Result<()> {
        let index = &self.index[start..start + rows.len()];
        if simd::dispatch(Lines { elements: self, index, start, rows }) {
            Ok(())
        } else {
            Err(first_invalid(self.op, index, self.size, start))
        }
    }

    fn check(&self, sources: Range<usize>) -> Result<()> {
        check_some(self.op, self.index, self.size, sources)
    }

    fn slab(&self) -> Option<[usize; 2]> {
        // Without elements, the other sizes may be too large for a product.
        (!self.index.is_empty()).then(|| [self.n * self.inner, self.size * self.inner])
    }

    fn lines(&self) -> Option<Elements<'_>> {
        (!self.index.is_empty()).then_some(*self)
    }

    fn distinct(&self) -> bool {
        self.n == 1
    }
}

/// The number of neighbours on different lines below which pieces hold several times as many.
const NARROW: usize = 32;
/// The number of elements of such a piece.
const PIECE: usize = 64;

/// Arguments of a kernel that computes the rows of elements from number `start` on. Returns false if any
/// index is invalid.
struct Lines<'a> {
    elements: &'a Elements<'a>,
    index: &'a [i64],
    start: usize,
    rows: &'a mut [usize],
}

impl Kernel for Lines<'_> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let Lines { elements, index, start, rows } = self;
        let Elements { size, inner, .. } = *elements;
        if rows.is_empty() {
            return true;
        }
        let slab = elements.n * inner;
        // Goes piece by piece, with pieces of whole lines (or of `inner` neighbours on different
        // lines, or of several times few neighbours), so that the loops need no division.
        let (mut first, mut at) = (start / slab * size * inner, start % slab);
        let mut column = start % inner;
        let mut columns = [0; NARROW + PIECE];
        if inner < NARROW {
            let mut column = 0;
            for x in &mut columns {
                *x = column;
                column = if column + 1 == inner { 0 } else { column + 1 };
            }
        }
        let mut valid = true;
        let mut done = 0;
        while done < rows.len() {
            let length = match inner {
                1 => slab - at,
                2..NARROW => (slab - at).min(PIECE),
                _ => inner - column,
            };
            let piece = done..rows.len().min(done + length);
            let (index, rows) = (&index[piece.clone()], &mut rows[piece.clone()]);
            if let 2..NARROW = inner {
                let columns = &columns[column..][..rows.len()];
                valid &= Narrow { index, size, first, step: inner, columns, rows }.run();
                column = (column + length) % inner;
            } else {
                valid &= Line { index, size, first: first + column, step: inner, rows }.run();
                column = 0;
            }
            (done, at) = (piece.end, at + length);
            if at == slab {
                (first, at) = (first + size * inner, 0);
            }
        }
        valid
    }
}

/// Arguments of a kernel that computes the rows `first + step · index[j]`; with `step` above 1,
/// neighbours are on different lines, each one row further. Returns false if any index is not below
/// `size`.
struct Line<'a> {
    index: &'a [i64],
    size: usize,
    first: usize,
    step: usize,
    rows: &'a mut [usize],
}

impl Kernel for Line<'_> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let Line { index, size, first, step, rows } = self;
        let mut valid = true;
        if step == 1 {
            for (row, &i) in rows.iter_mut().zip(index) {
                valid &= is_below(i, size);
                *row = first.wrapping_add(i as usize);
            }
        } else {
            for (j, (row, &i)) in rows.iter_mut().zip(index).enumerate() {
                valid &= is_below(i, size);
                *row = (i as usize).wrapping_mul(step).wrapping_add(first + j);
            }
        }
        valid
    }
}

/// Arguments of a kernel that computes the rows `first + step · index[j] + columns[j]`. Returns false if
/// any index is not below `size`.
struct Narrow<'a> {
    index: &'a [i64],
    size: usize,
    first: usize,
    step: usize,
    columns: &'a [usize],
    rows: &'a mut [usize],
}

impl Kernel for Narrow<'_> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let Narrow { index, size, first, step, columns, rows } = self;
        let mut valid = true;
        for ((row, &i), &column) in rows.iter_mut().zip(index).zip(columns) {
            valid &= is_below(i, size);
            *row = (i as usize).wrapping_mul(step).wrapping_add(first + column);
        }
        valid
    }
}

/// Sources of an operation, sent to rows that the caller has computed and checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked<'a>(pub &'static str, pub &'a [usize]);

impl Destinations for Checked<'_> {
    fn op(&self) -> &'static str {
        self.0
    }

    fn count(&self) -> usize {
        self.1.len()
    }

    fn fill(&self, start: usize, rows: &mut [usize]) -> Result<()> {
        rows.copy_from_slice(&self.1[start..start + rows.len()]);
        Ok(())
    }

    fn check(&self, _: Range<usize>) -> Result<()> {
        Ok(())
    }
}

/// Checks that every index is in `0..size`.
///
/// # Errors
///
/// [`Error::IndexOutOfRange`] for the first index that is not.
pub(crate) fn check(op: &'static str, index: &[i64], size: usize) -> Result<()> {
    const PIECE: usize = 1 << 16;
    let pieces = index.len().div_ceil(PIECE);
    if pieces <= 1 {
        return check_some(op, index, size, 0..index.len());
    }
    parallel::items(0..pieces).try_for_each(|piece| {
        let first = piece * PIECE;
        check_some(op, index, size, first..index.len().min(first + PIECE))
    })
}

/// Returns true if an index is in `0..size`.
#[inline(always)]
fn is_below(index: i64, size: usize) -> bool {
    // As an unsigned number, a negative index is larger than any size.
    (index as u64) < size as u64
}

/// Arguments of a kernel that returns true if all indices are in `0..size`.
struct AllBelow<'a>(&'a [i64], usize);

impl Kernel for AllBelow<'_> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let AllBelow(index, size) = self;
        index.iter().fold(true, |valid, &i| valid & is_below(i, size))
    }
}

/// Checks some indices, as [`check`].
fn check_some(op: &'static str, index: &[i64], size: usize, some: Range<usize>) -> Result<()> {
    const PIECE: usize = 4096;
    for (number, piece) in index[some.clone()].chunks(PIECE).enumerate() {
        if !simd::dispatch(AllBelow(piece, size)) {
            return Err(first_invalid(op, piece, size, some.start + number * PIECE));
        }
    }
    Ok(())
}

/// Returns the error for the first index that is not in `0..size`, of which there is one; positions count
/// from `start`.
#[cold]
pub(crate) fn first_invalid(op: &'static str, index: &[i64], size: usize, start: usize) -> Error {
    let (position, &index) = index
        .iter()
        .enumerate()
        .find(|&(_, &i)| !is_below(i, size))
        .expect("the caller saw an invalid index");
    Error::IndexOutOfRange { op, position: start + position, index, size }
}
