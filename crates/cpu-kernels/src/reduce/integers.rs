//! Reductions of integers.

use samebits_numerics::simd;
use samebits_tensor_core::ops::ReduceKind;

use super::kernels::Integers;
use super::{Rows, expect_elements, few_and_long, pieces_of_rows};
use crate::error::{Error, Result};
use crate::parallel::{CHUNK, chunks};

/// Computes the sum or the product of each row of integers, which wrap around, or its largest or
/// smallest element.
///
/// # Errors
///
/// As [`sum_rows`](super::sum_rows); [`Error::Argument`] for an extremum of an empty row, or a mean.
pub fn integer_rows(kind: ReduceKind, x: &[i64], n: usize, out: &mut [i64]) -> Result<()> {
    integer("integer_rows", Rows::dense("integer_rows", x, out.len(), n)?, kind, out)
}

pub(crate) fn integer(
    op: &'static str,
    x: Rows<'_, i64>,
    kind: ReduceKind,
    out: &mut [i64],
) -> Result<()> {
    // Each of these gives the same result in any order.
    match kind {
        ReduceKind::Sum => integers(op, x, out, 0, i64::wrapping_add),
        ReduceKind::Prod => integers(op, x, out, 1, i64::wrapping_mul),
        ReduceKind::Amax => {
            expect_elements(op, x.width(), out.len())?;
            integers(op, x, out, i64::MIN, i64::max)
        }
        ReduceKind::Amin => {
            expect_elements(op, x.width(), out.len())?;
            integers(op, x, out, i64::MAX, i64::min)
        }
        kind => Err(Error::argument(op, format!("integers have no {kind:?}"))),
    }
}

fn integers(
    op: &'static str,
    x: Rows<'_, i64>,
    out: &mut [i64],
    first: i64,
    join: impl Fn(i64, i64) -> i64 + Copy + Send + Sync,
) -> Result<()> {
    let of = |x: &[i64]| {
        let mut joined = [first];
        simd::dispatch(Integers { x, n: x.len(), first, join, out: &mut joined });
        joined[0]
    };
    pieces_of_rows(op, x, out, |x, out| {
        match x {
            Rows::Dense { x, n } if !few_and_long(n, out.len()) => {
                simd::dispatch(Integers { x, n, first, join, out });
            }
            Rows::Dense { x, n } => {
                for (row, out) in x.chunks_exact(n).zip(out) {
                    *out = chunks(row, CHUNK).reduce(first, of, join);
                }
            }
            Rows::Walked { walk, first: row } => {
                let mut buffer = walk.buffer(op)?;
                for (i, out) in out.iter_mut().enumerate() {
                    *out = first;
                    walk.pieces(row + i, &mut buffer, |piece| *out = join(*out, of(piece)));
                }
            }
            Rows::Slabs(part) => part.integers(first, join, out),
        }
        Ok(())
    })
}
