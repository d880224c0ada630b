//! Sums of one addend at most: the sources of an index that names no row twice.

use samebits_numerics::simd::{self, Kernel};

use super::Sums;
use crate::{Result, memory, parallel};

/// Stands for a row without a source.
const NONE: u32 = u32::MAX;
/// The number of elements of a row of all slabs from which looking for duplicates takes no time beside
/// the sums.
const WIDE: usize = 8;

/// Returns the number of the source of each of `dim` rows, [`NONE`] for a row without one; `None` if a row
/// has several, or if that is likely and `width`, the number of elements of a row of all slabs, is so
/// small that looking would take long. The index must be valid.
pub(super) fn sources(
    op: &'static str,
    index: &[i64],
    dim: usize,
    width: usize,
) -> Result<Option<Vec<u32>>> {
    let n = index.len();
    // Of random rows as many as that, two are probably the same.
    let is_crowded = width < WIDE && n.saturating_mul(n) > dim;
    if n == 0 || n > dim || is_crowded || u32::try_from(n).is_err() {
        return Ok(None);
    }
    let mut sources = memory::filled(op, dim, NONE)?;
    for (source, &row) in (0..).zip(index) {
        let of_row = &mut sources[row as usize];
        if *of_row != NONE {
            return Ok(None);
        }
        *of_row = source;
    }
    Ok(Some(sources))
}

/// Adds `alpha` times its source to each row that has one, in slabs of `sources.len()` rows of `inner`
/// elements of which each has `n` sources. The content of a `fresh` output is ignored.
pub(super) fn add<T: Sums>(
    out: &mut [T],
    fresh: bool,
    (sources, inner, n): (&[u32], usize, usize),
    source: &[T],
    alpha: T,
) {
    parallel::rows(inner, out, |start, out| {
        simd::dispatch(Add { out, fresh, row: start / inner, sources, inner, n, source, alpha });
    });
}

struct Add<'a, T> {
    out: &'a mut [T],
    fresh: bool,
    /// The first row.
    row: usize,
    sources: &'a [u32],
    inner: usize,
    n: usize,
    source: &'a [T],
    alpha: T,
}

impl<T: Sums> Kernel for Add<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Add { out, fresh, row, sources, inner, n, source, alpha } = self;
        let (mut slab, mut place) = (row / sources.len(), row % sources.len());
        if fresh {
            out.fill(T::ZERO);
        }
        for out in out.chunks_exact_mut(inner) {
            match sources[place] {
                NONE => {
                    for sum in out {
                        *sum = sum.sum_of_one();
                    }
                }
                k => {
                    let addends = &source[(slab * n + k as usize) * inner..][..inner];
                    for (sum, &x) in out.iter_mut().zip(addends) {
                        *sum = (*sum + alpha * x).sum_of_one();
                    }
                }
            }
            place += 1;
            if place == sources.len() {
                (slab, place) = (slab + 1, 0);
            }
        }
    }
}
