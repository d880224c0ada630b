//! Sums of one addend at most: the sources of an index that names no row twice.

use samebits_numerics::simd::{self, Kernel};

use super::Sums;
use crate::{Result, memory, parallel};

/// Stands for a row without a source.
const NONE: u32 = u32::MAX;
/// The number of elements of a row of all slabs from which looking for duplicates takes no time beside
/// the sums.
const WIDE: usize = 8;
/// The number of rows for each source from which the sources are added after a pass over all rows.
const FEW: usize = 8;
/// The number of addends of a slab from which threads share them.
const MANY: usize = 1 << 16;

/// Adds `alpha` times each source to its row, in slabs of `dim` rows of `inner` elements, if no row has
/// several; returns false if one has, or if that is likely and looking would take long. The index must be
/// valid, and the output not empty. The content of a `fresh` output is ignored.
pub(super) fn add<T: Sums>(
    op: &'static str,
    out: &mut [T],
    fresh: bool,
    (index, dim, inner): (&[i64], usize, usize),
    source: &[T],
    alpha: T,
) -> Result<bool> {
    let n = index.len();
    // Of random rows as many as that, two are probably the same.
    let is_crowded = out.len() / dim < WIDE && n.saturating_mul(n) > dim;
    if n == 0 || n > dim || is_crowded || u32::try_from(n).is_err() {
        return Ok(false);
    }
    let slab = dim * inner;
    if n <= dim / FEW && (n * inner <= MANY || slab < out.len()) {
        if !are_distinct(op, index, dim)? {
            return Ok(false);
        }
        // Slabs that stay in a cache between both passes.
        let together = (parallel::CHUNK / slab).max(1) * slab;
        let few = |start: usize, out: &mut [T], skips: bool| {
            let source = &source[start / slab * n * inner..];
            simd::dispatch(AddFew { out, fresh, skips, index, slab, inner, source, alpha });
        };
        if slab > parallel::CHUNK {
            parallel::pieces(out, |_, out| simd::dispatch(Start { out, fresh }));
            parallel::pieces_of(slab, out, |start, out| few(start, out, true));
        } else {
            let size = parallel::even(out.len(), together, slab);
            parallel::pieces_of(size, out, |start, out| few(start, out, false));
        }
        return Ok(true);
    }
    let mut sources = memory::filled(op, dim, NONE)?;
    for (source, &row) in (0..).zip(index) {
        let of_row = &mut sources[row as usize];
        if *of_row != NONE {
            return Ok(false);
        }
        *of_row = source;
    }
    let sources = &sources[..];
    parallel::rows(inner, out, |start, out| {
        simd::dispatch(Add { out, fresh, row: start / inner, sources, inner, n, source, alpha });
    });
    Ok(true)
}

/// Returns true if no two indices, which are below `dim`, are the same.
fn are_distinct(op: &'static str, index: &[i64], dim: usize) -> Result<bool> {
    const BITS: usize = u64::BITS as usize;
    let mut seen = memory::zeroed::<u64>(op, dim.div_ceil(BITS))?;
    Ok(index.iter().all(|&row| {
        let (word, bit) = (&mut seen[row as usize / BITS], 1 << (row as usize % BITS));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }))
}

/// Makes sums of no addends of the elements of an output.
struct Start<'a, T> {
    out: &'a mut [T],
    fresh: bool,
}

impl<T: Sums> Kernel for Start<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        if self.fresh {
            return self.out.fill(T::ZERO);
        }
        for sum in self.out {
            *sum = sum.sum_of_one();
        }
    }
}

/// Adds a few sources to each of some slabs.
struct AddFew<'a, T> {
    out: &'a mut [T],
    fresh: bool,
    /// Tells if [`Start`] has run.
    skips: bool,
    index: &'a [i64],
    slab: usize,
    inner: usize,
    source: &'a [T],
    alpha: T,
}

impl<T: Sums> Kernel for AddFew<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let AddFew { out, fresh, skips, index, slab, inner, source, alpha } = self;
        let sources = source.chunks_exact(index.len() * inner);
        for (out, source) in out.chunks_exact_mut(slab).zip(sources) {
            if !skips {
                Start { out, fresh }.run();
            }
            for (&row, addends) in index.iter().zip(source.chunks_exact(inner)) {
                let sums = &mut out[row as usize * inner..][..inner];
                for (sum, &x) in sums.iter_mut().zip(addends) {
                    *sum = (*sum + alpha * x).sum_of_one();
                }
            }
        }
    }
}

/// Adds to each row its source, if it has one.
struct Add<'a, T> {
    out: &'a mut [T],
    fresh: bool,
    /// The first row.
    row: usize,
    /// The source of each row of a slab.
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
