//! Householder reflections of columns: those of one matrix, or of several whose elements lie next to
//! each other.

/// An element of a column.
pub(in crate::linalg) trait Element: Copy {
    /// Passes over columns.
    type Passes: Copy;

    const ZERO: Self;
    const ONE: Self;

    /// Returns true if there is no reflection with this factor.
    fn none(self) -> bool;
    /// Returns what the element adds of the reflection's vector: `-(tau * (self + sum))`.
    fn factor(self, tau: Self, sum: Self) -> Self;
    /// Returns `fma(factor, x, self)`.
    fn add_product(self, factor: Self, x: Self) -> Self;

    /// Makes a column zero below its first element, where the reflection's vector is kept. Returns
    /// the factor, which is 0 for columns up to a negligible magnitude.
    fn reflection(passes: Self::Passes, column: &mut [Self], negligible: Self) -> Self;
    /// Adds multiples of `x` to columns `step` elements apart.
    fn add_scaled(
        passes: Self::Passes,
        columns: &mut [Self],
        step: usize,
        factors: &[Self],
        x: &[Self],
    );
    /// Multiplies columns by `z`.
    fn dots(passes: Self::Passes, columns: &[Self], step: usize, z: &[Self], sums: &mut [Self]);
    /// Does both, in this order.
    fn add_scaled_dots(
        passes: Self::Passes,
        columns: &mut [Self],
        step: usize,
        factors: &[Self],
        vectors: [&[Self]; 2],
        sums: &mut [Self],
    );
}

/// The number of elements, times reflections, that a thread takes at a time at least.
pub(in crate::linalg) const GRAIN: usize = 1 << 17;

/// The most columns of a pass.
pub(in crate::linalg) const TOGETHER: usize = 4;

/// Columns of `rows` elements.
#[derive(Clone, Copy, Debug)]
pub(in crate::linalg) struct Shape {
    pub(in crate::linalg) rows: usize,
    /// Their distance.
    pub(in crate::linalg) step: usize,
}

/// Returns the distance of columns of this many cache lines. It is odd, so that the lines of a row use
/// all places in the cache. A CPU may take a load for one of what an earlier store writes if the last
/// 12 bits of their addresses agree, so those of nearby rows of [`TOGETHER`] columns differ.
pub(in crate::linalg) fn distance(lines: usize) -> usize {
    const PAGE: usize = 4096 / 64;
    const APART: usize = 6;
    let apart = |distance: usize| {
        (1..TOGETHER).all(|c| (APART..=PAGE - APART).contains(&(c * distance % PAGE)))
    };
    (lines | 1..).step_by(2).take(PAGE).find(|&distance| apart(distance)).unwrap_or(lines)
}

/// Makes columns upper triangular, the first of which has its diagonal element in row `offset`; the
/// vectors of the reflections take the place of the elements below the diagonal. Columns up to the
/// magnitude `negligible` count as zero. The pass of one reflection also computes the sums for the next.
#[inline(always)]
pub(in crate::linalg) fn factor<E: Element>(
    passes: E::Passes,
    Shape { rows, step }: Shape,
    offset: usize,
    negligible: E,
    a: &mut [E],
    taus: &mut [E],
) {
    let (mut sums, mut factors) = ([E::ZERO; TOGETHER], [E::ZERO; TOGETHER]);
    for first in (0..a.len() / step).step_by(TOGETHER) {
        let count = (a.len() / step - first).min(TOGETHER);
        // The reflection that changed only the first elements of the columns so far.
        let mut pending: Option<usize> = None;
        for k in 0..taus.len().min(first + count) {
            let row = offset + k;
            // The columns from `start` on are to the right of the reflection's.
            let start = (k + 1).saturating_sub(first);
            let (vectors, columns) = a.split_at_mut((first + start) * step);
            let columns = &mut columns[..(count - start) * step];
            if k >= first {
                let (vectors, column) = vectors.split_at_mut(k * step);
                if let Some(before) = pending {
                    let (v, factors) = (&vectors[before * step..], &factors[start - 1..start]);
                    E::add_scaled(passes, &mut column[row..], step, factors, &v[row..rows]);
                }
                taus[k] = E::reflection(passes, &mut column[row..rows], negligible);
            }
            if columns.is_empty() {
                break;
            }
            let (sums, factors) = (&mut sums[start..count], &mut factors[start..count]);
            let vectors = &*vectors;
            let vector = |k: usize| &vectors[k * step..][..rows];
            if taus[k].none() {
                if let Some(before) = pending.take() {
                    let v = &vector(before)[row..];
                    E::add_scaled(passes, &mut columns[row..], step, factors, v);
                }
                continue;
            }
            let v = &vector(k)[row + 1..];
            if let Some(before) = pending {
                let x = &vector(before)[row..];
                // The sums are without the first element.
                for (column, &factor) in columns.chunks_exact_mut(step).zip(&*factors) {
                    column[row] = column[row].add_product(factor, x[0]);
                }
                let columns = &mut columns[row + 1..];
                E::add_scaled_dots(passes, columns, step, factors, [&x[1..], v], sums);
            } else {
                E::dots(passes, &columns[row + 1..], step, v, sums);
            }
            for (c, column) in columns.chunks_exact_mut(step).enumerate() {
                factors[c] = column[row].factor(taus[k], sums[c]);
                column[row] = column[row].add_product(factors[c], E::ONE);
            }
            pending = Some(k);
        }
        let start = taus.len().saturating_sub(first);
        if let (Some(k), true) = (pending, start < count) {
            let row = offset + k + 1;
            let (vectors, columns) = a.split_at_mut((first + start) * step);
            let v = &vectors[k * step..][row..rows];
            E::add_scaled(passes, &mut columns[row..], step, &factors[start..count], v);
        }
    }
}

/// Applies reflections in ascending order to up to [`TOGETHER`] columns, all to the right of theirs;
/// the first one has its diagonal element in row `offset`.
#[inline(always)]
pub(in crate::linalg) fn apply<E: Element>(
    passes: E::Passes,
    Shape { rows, step }: Shape,
    offset: usize,
    vectors: &[E],
    taus: &[E],
    columns: &mut [E],
) {
    let count = columns.len() / step;
    let (mut sums, mut factors) = ([E::ZERO; TOGETHER], [E::ZERO; TOGETHER]);
    let (sums, factors) = (&mut sums[..count], &mut factors[..count]);
    let vector = |k: usize| &vectors[k * step..][..rows];
    let mut known = false;
    for (k, &tau) in taus.iter().enumerate() {
        if tau.none() {
            known = false;
            continue;
        }
        let (row, v) = (offset + k, vector(k));
        if !known {
            E::dots(passes, &columns[row + 1..], step, &v[row + 1..], sums);
        }
        known = k + 1 < taus.len();
        for (c, column) in columns.chunks_exact_mut(step).enumerate() {
            factors[c] = column[row].factor(tau, sums[c]);
            column[row] = column[row].add_product(factors[c], E::ONE);
            if known {
                // The next sums are without this element.
                column[row + 1] = column[row + 1].add_product(factors[c], v[row + 1]);
            }
        }
        if known {
            let next = &vector(k + 1)[row + 2..];
            let columns = &mut columns[row + 2..];
            E::add_scaled_dots(passes, columns, step, factors, [&v[row + 2..], next], sums);
        } else {
            E::add_scaled(passes, &mut columns[row + 1..], step, factors, &v[row + 1..]);
        }
    }
}

/// Applies reflections in descending order to up to [`TOGETHER`] columns: all of them, or in columns
/// of the identity, which start with number `first`, those up to a column's number, since no other
/// changes it. The vectors begin with a 1, the first one in row `offset`.
#[inline(always)]
pub(in crate::linalg) fn apply_back<'a, E: Element + 'a>(
    passes: E::Passes,
    Shape { rows, step }: Shape,
    offset: usize,
    vector: impl Fn(usize) -> &'a [E],
    taus: &[E],
    first: Option<usize>,
    columns: &mut [E],
) {
    let count = columns.len() / step;
    let end = first.map_or(usize::MAX, |first| (first + count).saturating_sub(offset));
    let last = taus.len().min(end);
    let (mut sums, mut factors) = ([E::ZERO; TOGETHER], [E::ZERO; TOGETHER]);
    // A column of the identity has no products with the vector of its own number below its 1.
    let mut known = end == last;
    for k in (0..last).rev() {
        if taus[k].none() {
            known = false;
            continue;
        }
        let row = offset + k;
        let start = first.map_or(0, |first| row.saturating_sub(first));
        let (columns, v) = (&mut columns[start * step + row..], &vector(k)[row..rows]);
        let (sums, factors) = (&mut sums[start..count], &mut factors[start..count]);
        if !known {
            E::dots(passes, &columns[1..], step, &v[1..], sums);
        }
        for (c, factor) in factors.iter_mut().enumerate() {
            *factor = columns[c * step].factor(taus[k], sums[c]);
        }
        known = k > 0;
        if known {
            let next = &vector(k - 1)[row..rows];
            E::add_scaled_dots(passes, columns, step, factors, [v, next], sums);
        } else {
            E::add_scaled(passes, columns, step, factors, v);
        }
    }
}
