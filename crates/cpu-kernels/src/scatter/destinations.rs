//! Where each source goes.

use crate::error::{Error, Result};
use std::ops::Range;

/// The output row that each source is sent to.
pub trait Destinations: Sync {
    /// The number of sources.
    fn len(&self) -> usize;

    /// Writes the output rows of the sources `start..start + rows.len()`.
    ///
    /// # Errors
    ///
    /// [`Error::IndexOutOfRange`] for the first source of the range whose index is invalid.
    fn fill(&self, start: usize, rows: &mut [usize]) -> Result<()>;
}

/// Sources sent to `index[i]`.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The operation, for errors.
    pub op: &'static str,
    /// One index per source.
    pub index: &'a [i64],
    /// The number of output rows.
    pub size: usize,
    /// The row that index 0 means.
    pub base: usize,
}

impl Destinations for Rows<'_> {
    fn len(&self) -> usize {
        self.index.len()
    }

    fn fill(&self, start: usize, rows: &mut [usize]) -> Result<()> {
        let index = &self.index[start..start + rows.len()];
        let mut valid = true;
        for (row, &i) in rows.iter_mut().zip(index) {
            // As an unsigned number, a negative index is larger than any size.
            valid &= (i as u64) < self.size as u64;
            *row = self.base + i as usize;
        }
        if valid { Ok(()) } else { Err(first_invalid(self.op, index, self.size, start)) }
    }
}

/// Elements of an (outer, n, inner) tensor sent along the middle dimension of an
/// (outer, size, inner) tensor, to the place that an index of their own says.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    /// The operation, for errors.
    pub op: &'static str,
    /// (outer, n, inner): one index per element.
    pub index: &'a [i64],
    /// Elements sent along one line.
    pub n: usize,
    /// Elements of the output along that line.
    pub size: usize,
    /// Elements between neighbours on a line.
    pub inner: usize,
}

impl Destinations for Elements<'_> {
    fn len(&self) -> usize {
        self.index.len()
    }

    fn fill(&self, start: usize, rows: &mut [usize]) -> Result<()> {
        let index = &self.index[start..start + rows.len()];
        let slab = self.n * self.inner;
        let mut valid = true;
        let mut done = 0;
        // Piece by piece of `inner` neighbours (or of a whole line if `inner` is 1), so that
        // the loop below has no division.
        while done < rows.len() {
            let at = start + done;
            let base = at / slab * self.size * self.inner;
            let (offset, length) = if self.inner == 1 {
                (0, slab - at % slab)
            } else {
                (at % self.inner, self.inner - at % self.inner)
            };
            let length = length.min(rows.len() - done);
            let step = usize::from(self.inner != 1);
            let piece = rows[done..done + length].iter_mut().zip(&index[done..done + length]);
            for (j, (row, &i)) in piece.enumerate() {
                valid &= (i as u64) < self.size as u64;
                *row = (i as usize).wrapping_mul(self.inner).wrapping_add(base + offset + j * step);
            }
            done += length;
        }
        if valid { Ok(()) } else { Err(first_invalid(self.op, index, self.size, start)) }
    }
}

/// Sources sent to rows that the caller has computed and checked.
#[derive(Clone, Copy, Debug)]
pub struct Checked<'a>(pub &'a [usize]);

impl Destinations for Checked<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn fill(&self, start: usize, rows: &mut [usize]) -> Result<()> {
        rows.copy_from_slice(&self.0[start..start + rows.len()]);
        Ok(())
    }
}

/// Checks that every index is in `0..size`.
///
/// # Errors
///
/// [`Error::IndexOutOfRange`] for the first that is not.
pub(crate) fn check(op: &'static str, index: &[i64], size: usize) -> Result<()> {
    const PIECE: Range<usize> = 0..4096;
    for (number, piece) in index.chunks(PIECE.end).enumerate() {
        if !piece.iter().fold(true, |valid, &i| valid & ((i as u64) < size as u64)) {
            return Err(first_invalid(op, piece, size, number * PIECE.end));
        }
    }
    Ok(())
}

#[cold]
fn first_invalid(op: &'static str, index: &[i64], size: usize, start: usize) -> Error {
    let (position, &index) = index
        .iter()
        .enumerate()
        .find(|&(_, &i)| i as u64 >= size as u64)
        .expect("the caller saw an invalid index");
    Error::IndexOutOfRange { op, position: start + position, index, size }
}
