//! Sums of one addend at most: the sources of an index that names no row twice, or few rows.

use samebits_numerics::simd::{self, Kernel};

use super::Sums;
use super::start::{Start, start, sum_of_one};
use crate::{Result, memory, parallel};

/// Stands for a row without a source.
const NONE: u32 = u32::MAX;
/// The number of elements of a row of all slabs from which looking for duplicates takes no time beside
/// the sums.
const WIDE: usize = 8;
/// The number of rows for each source from which the sources are added after a pass over all rows: twice as
/// many for rows of one element, half as many for those that are nearly [`WIDE`].
const FEW: usize = 8;
/// The number of addends of a slab from which threads share them.
const MANY: usize = 1 << 16;

/// Adds `alpha` times each source to its row, in slabs of `dim` rows of `inner` elements, if no row has
/// several, or a few rows of many have; returns false for other indices, and where looking would take long.
/// The index must be valid, and the output not empty. The content of a `fresh` output is ignored.
pub(super) fn add<T: Sums>(
    op: &'static str,
    out: &mut [T],
    fresh: bool,
    (index, dim, inner): (&[i64], usize, usize),
    source: &[T],
    alpha: T,
) -> Result<bool> {
    let n = index.len();
    if n == 0 || n > dim || u32::try_from(n).is_err() {
        return Ok(false);
    }
    let slab = dim * inner;
    let across = out.len() / dim;
    let is_wide = across >= WIDE;
    let few = match across {
        1 => 2 * FEW,
        4..WIDE => FEW / 2,
        _ => FEW,
    };
    if n <= dim / few && (n * inner <= MANY || slab < out.len()) {
        let (once, repeated) = by_rows(op, index, dim)?;
        let of = Sources { once: &once, repeated: &repeated, slab, inner, n, source, alpha };
        // Slabs that stay in a cache between both passes.
        let together = (parallel::CHUNK / slab).max(1) * slab;
        if slab > parallel::CHUNK {
            start(out, fresh);
            parallel::pieces_of(slab, out, |start, out| {
                simd::dispatch(AddFew { out, begun: true, fresh, first: start / slab, of });
            });
        } else {
            let size = parallel::even(out.len(), together, slab);
            parallel::pieces_of(size, out, |start, out| {
                simd::dispatch(AddFew { out, begun: false, fresh, first: start / slab, of });
            });
        }
        return Ok(true);
    }
    // Of random rows as many as that, two are probably the same.
    if !is_wide && n.saturating_mul(n) > dim {
        return Ok(false);
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

/// Some rows, each with the number of a source.
type Pairs = Vec<(usize, usize)>;

/// Returns the rows, below `dim`, with one source, and those with several in order.
fn by_rows(op: &'static str, index: &[i64], dim: usize) -> Result<(Pairs, Pairs)> {
    const BITS: usize = u64::BITS as usize;
    let mut seen = memory::zeroed::<[u64; 2]>(op, dim.div_ceil(BITS))?;
    let mut repeats = false;
    for &row in index {
        let ([once, twice], bit) = (&mut seen[row as usize / BITS], 1 << (row as usize % BITS));
        repeats |= *once & bit != 0;
        *twice |= *once & bit;
        *once |= bit;
    }
    let mut alone = memory::with_capacity(op, index.len())?;
    let mut repeated = memory::with_capacity(op, if repeats { index.len() } else { 0 })?;
    for (source, &row) in index.iter().enumerate() {
        let row = row as usize;
        let is_repeated = repeats && seen[row / BITS][1] >> (row % BITS) & 1 == 1;
        let pairs = if is_repeated { &mut repeated } else { &mut alone };
        pairs.push((row, source));
    }
    repeated.sort_unstable();
    Ok((alone, repeated))
}

/// The sources of each slab.
#[derive(Clone, Copy)]
struct Sources<'a, T> {
    /// The rows with one source, and its number.
    once: &'a [(usize, usize)],
    /// The rows with several sources, and their numbers, in order.
    repeated: &'a [(usize, usize)],
    /// The number of elements of a slab.
    slab: usize,
    inner: usize,
    n: usize,
    source: &'a [T],
    alpha: T,
}

/// Adds a few sources to each of some slabs, from slab `first` on.
struct AddFew<'a, T> {
    out: &'a mut [T],
    /// Tells if [`start`] has run.
    begun: bool,
    fresh: bool,
    first: usize,
    of: Sources<'a, T>,
}

impl<T: Sums> Kernel for AddFew<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let AddFew { out, begun, fresh, first, of } = self;
        let Sources { once, repeated, slab, inner, n, source, alpha } = of;
        for (number, out) in (first..).zip(out.chunks_exact_mut(slab)) {
            if !begun {
                Start { out, fresh }.run();
            }
            let source = &source[number * n * inner..][..n * inner];
            for &(row, k) in once {
                let addends = &source[k * inner..][..inner];
                for (sum, &x) in out[row * inner..][..inner].iter_mut().zip(addends) {
                    *sum = sum_of_one(*sum + alpha * x);
                }
            }
            for row in repeated.chunk_by(|a, b| a.0 == b.0) {
                for (j, sum) in out[row[0].0 * inner..][..inner].iter_mut().enumerate() {
                    let addends = row.iter().map(|&(_, k)| alpha * source[k * inner + j]);
                    *sum = T::sum_of_some(*sum, addends);
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
                        *sum = sum_of_one(*sum);
                    }
                }
                k => {
                    let addends = &source[(slab * n + k as usize) * inner..][..inner];
                    for (sum, &x) in out.iter_mut().zip(addends) {
                        *sum = sum_of_one(*sum + alpha * x);
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
