//! Norms of rows.

use std::slice;

use samebits_numerics::math::f64 as math;
use samebits_numerics::reduce::{needs_no_scale, norm_leaves_range, norm_scale};
use samebits_numerics::simd;

use super::kernels::{Extreme, Most, Power};
use super::{
    Rows, each_row, expect_elements, extremes_of, few_and_long, pieces_of_rows, rare_sums_of,
    sums_of,
};
use crate::error::Result;
use crate::float::Float;
use crate::memory;
use crate::parallel::{CHUNK, chunks};

/// Computes the p-norm of each row in f64, rounded once; see
/// [`Norm`](samebits_tensor_core::ops::Norm).
///
/// # Errors
///
/// As [`sum_rows`](super::sum_rows); [`Error::Argument`](crate::Error::Argument) if `p` is infinite and rows are empty.
pub fn norm_rows<T: Float>(x: &[T], n: usize, p: f64, out: &mut [T]) -> Result<()> {
    norm("norm_rows", Rows::dense("norm_rows", x, out.len(), n)?, p, out)
}

pub(crate) fn norm<T: Float>(
    op: &'static str,
    x: Rows<'_, T>,
    p: f64,
    out: &mut [T],
) -> Result<()> {
    let magnitude = |x: T| -> f64 { x.abs().into() };
    // A closure this long is not inlined into the kernel of the sum, so it is one of its own.
    let pow = |x: f64, y: f64| simd::dispatch(Power { x, y });
    let root = |sum: f64| if p == 2.0 { math::sqrt(sum) } else { pow(sum, 1.0 / p) };
    if p.is_infinite() {
        let which = if p > 0.0 { Extreme::Max } else { Extreme::Min };
        expect_elements(op, x.width(), out.len())?;
        pieces_of_rows(op, x, out, |x, out| match x {
            Rows::Dense { x, n } => {
                let magnitudes = memory::collected(op, x.iter().map(|x| x.abs()))?;
                extremes_of(op, which, Rows::Dense { x: &magnitudes, n }, out)
            }
            Rows::Walked { .. } | Rows::Slabs(_) => extremes_of(op, which, x, out),
        })
    } else if p == 0.0 {
        let term = |x: T| if x == T::ZERO { 0.0 } else { 1.0 };
        each_row(op, x, out, |x, norms| sums_of::<T, _, true>(op, x, |_| term, norms))
    } else if p == 1.0 {
        each_row(op, x, out, |x, norms| sums_of::<T, _, true>(op, x, |_| magnitude, norms))
    } else {
        let leaves_range = norm_leaves_range(p, T::EXPONENT);
        each_row(op, x, out, |x, norms| {
            if T::WIDE && p == 2.0 {
                square_norms(op, x, norms)?;
                return Ok(());
            }
            let mut scales = memory::zeroed(op, if leaves_range { norms.len() } else { 0 })?;
            if leaves_range {
                scales_of(op, x, p, &mut scales)?;
            }
            let scale = |row: usize| scales.get(row).copied().unwrap_or(1.0);
            if p == 2.0 {
                sums_of::<T, _, true>(op, x, |_| square_of(1.0), norms)?;
            } else {
                let term = |row, x| pow(magnitude(x) / scale(row), p);
                rare_sums_of(op, x, &term, norms)?;
            }
            for (row, norm) in norms.iter_mut().enumerate() {
                *norm = root(*norm) * scale(row);
            }
            Ok(())
        })
    }
}

/// Computes the root of the sum of the squares of each row of a piece, whose squares may leave the range
/// of f64. Most do not, which their sum shows.
fn square_norms<T: Float>(op: &'static str, x: Rows<'_, T>, norms: &mut [f64]) -> Result<()> {
    sums_of::<T, _, true>(op, x, |_| square_of(1.0), norms)?;
    for (row, norm) in norms.iter_mut().enumerate() {
        if needs_no_scale(*norm) {
            *norm = math::sqrt(*norm);
            continue;
        }
        let (column, [mut scale, mut sum]);
        let x = match x {
            Rows::Slabs(part) => {
                column = part.column(op, row)?;
                Rows::Dense { x: &column[..], n: column.len() }
            }
            _ => x.part(row, 1),
        };
        [scale, sum] = [0.0; 2];
        scales_of(op, x, 2.0, slice::from_mut(&mut scale))?;
        // The scale is a power of two, so this is exact.
        sums_of::<T, _, true>(op, x, |_| square_of(1.0 / scale), slice::from_mut(&mut sum))?;
        *norm = math::sqrt(sum) * scale;
    }
    Ok(())
}

/// Returns the function that squares `x · scale`: one, so that the sums of squares are compiled once.
fn square_of<T: Float>(scale: f64) -> impl Fn(T) -> f64 + Copy + Sync {
    move |x: T| {
        let scaled = x.into() * scale;
        scaled * scaled
    }
}

/// Computes the [`norm_scale`] of each row of a piece.
fn scales_of<T: Float>(op: &'static str, x: Rows<'_, T>, p: f64, out: &mut [f64]) -> Result<()> {
    let smallest = p < 0.0;
    let join = if smallest { f64::min } else { f64::max };
    let first = if smallest { f64::INFINITY } else { 0.0 };
    let most_of = |x: &[T]| simd::dispatch(Most { x, smallest });
    match x {
        Rows::Dense { n: 0, .. } => out.fill(first),
        Rows::Dense { x, n } if !few_and_long(n, out.len()) => {
            for (most, row) in out.iter_mut().zip(x.chunks_exact(n)) {
                *most = most_of(row);
            }
        }
        Rows::Dense { x, n } => {
            for (most, row) in out.iter_mut().zip(x.chunks_exact(n)) {
                *most = chunks(row, CHUNK).reduce(first, most_of, join);
            }
        }
        Rows::Walked { walk, first: row } => {
            let mut buffer = walk.buffer(op)?;
            for (i, most) in out.iter_mut().enumerate() {
                *most = first;
                walk.pieces(row + i, &mut buffer, |piece| *most = join(*most, most_of(piece)));
            }
        }
        Rows::Slabs(_) => unreachable!("norms that need a scale are computed along rows"),
    }
    out.iter_mut().for_each(|most| *most = norm_scale(*most, p));
    Ok(())
}
