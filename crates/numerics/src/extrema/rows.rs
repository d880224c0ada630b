//! The extremum of each of many rows.

use super::{Ordered, argmax, argmin, max, min, replaces_max, replaces_min};

/// Rows shorter than this are searched side by side: alone, finishing one costs more than its
/// search.
const SHORT: usize = 24;

/// The same if the places are wanted, for which a row is searched again.
const SHORT_PLACES: usize = 32;

/// The number of rows side by side: a vector of f32 at the widest level.
const ROWS: usize = 16;

/// Fewer rows are searched one by one: side by side, they take as long as [`ROWS`] rows.
const FEW: usize = 4;

/// Writes `$long` of each row and returns if rows are long or few.
///
/// A macro: what is not inlined into a kernel has no vectors, and a long closure is not inlined.
macro_rules! each_long {
    ($values:ident, $n:ident, $out:ident, $long:ident, $short:ident) => {
        assert!($n > 0, "rows: no elements to choose from");
        assert_eq!($values.len(), $out.len() * $n, "rows: wrong number of elements");
        if $n >= $short || $out.len() < FEW {
            for (row, out) in $values.chunks_exact($n).zip($out) {
                *out = $long(row).expect("a row has elements");
            }
            return;
        }
    };
}

/// Computes [`max`] of each row of `n` elements.
///
/// # Shapes
///
/// `values` is (rows, n) row-major; `out` has one element for each row.
///
/// # Determinism
///
/// As [`max`].
///
/// # Panics
///
/// If `n` is 0 or `values` does not hold `out.len()` rows of `n`.
///
/// # Examples
///
/// ```
/// let mut found = [0.0; 2];
/// samebits_numerics::extrema::max_rows(&[1.0f32, 3.0, 3.0, 6.0, 5.0, 4.0], 3, &mut found);
/// assert_eq!(found, [3.0, 6.0]);
/// ```
#[inline(always)]
pub fn max_rows<T: Ordered>(values: &[T], n: usize, out: &mut [T]) {
    each_long!(values, n, out, max, SHORT);
    short_rows(values, n, |old, new| replaces_max(old, new), |_, value| value, out);
}

/// Computes [`min`] of each row; see [`max_rows`].
#[inline(always)]
pub fn min_rows<T: Ordered>(values: &[T], n: usize, out: &mut [T]) {
    each_long!(values, n, out, min, SHORT);
    short_rows(values, n, |old, new| replaces_min(old, new), |_, value| value, out);
}

/// Computes the index of [`argmax`] of each row of `n` elements, as the i64 of index tensors.
///
/// # Shapes
///
/// As [`max_rows`].
///
/// # Determinism
///
/// As [`argmax`].
///
/// # Panics
///
/// As [`max_rows`].
///
/// # Examples
///
/// ```
/// let mut found = [0; 2];
/// samebits_numerics::extrema::argmax_rows(&[1.0f32, 3.0, 3.0, 6.0, 5.0, 4.0], 3, &mut found);
/// assert_eq!(found, [1, 0]);
/// ```
#[inline(always)]
pub fn argmax_rows<T: Ordered>(values: &[T], n: usize, out: &mut [i64]) {
    each_long!(values, n, out, place_of_max, SHORT_PLACES);
    short_rows(values, n, |old, new| replaces_max(old, new), |index, _| index.into(), out);
}

/// Computes the index of [`argmin`] of each row; see [`argmax_rows`].
#[inline(always)]
pub fn argmin_rows<T: Ordered>(values: &[T], n: usize, out: &mut [i64]) {
    each_long!(values, n, out, place_of_min, SHORT_PLACES);
    short_rows(values, n, |old, new| replaces_min(old, new), |index, _| index.into(), out);
}

#[inline(always)]
fn place_of_max<T: Ordered>(row: &[T]) -> Option<i64> {
    argmax(row).map(|(index, _)| index as i64)
}

#[inline(always)]
fn place_of_min<T: Ordered>(row: &[T]) -> Option<i64> {
    argmin(row).map(|(index, _)| index as i64)
}

/// Writes `pick(index, value)` of the extremum of each row of fewer than [`SHORT_PLACES`] elements.
#[inline(always)]
fn short_rows<T: Ordered, R>(
    values: &[T],
    n: usize,
    replaces: impl Fn(T, T) -> bool,
    pick: impl Fn(u32, T) -> R,
    out: &mut [R],
) {
    for (tile, out) in values.chunks(ROWS * n).zip(out.chunks_mut(ROWS)) {
        let mut columns = [[T::default(); ROWS]; SHORT_PLACES];
        let columns = &mut columns[..n];
        transpose(tile, n, columns);
        let mut best = columns[0];
        let mut indices = [0u32; ROWS];
        for (column, k) in columns.iter().zip(0u32..) {
            for r in 0..ROWS {
                let better = replaces(best[r], column[r]);
                best[r] = if better { column[r] } else { best[r] };
                indices[r] = if better { k } else { indices[r] };
            }
        }
        for ((out, best), index) in out.iter_mut().zip(best).zip(indices) {
            *out = pick(index, best.canonical());
        }
    }
}

/// Sets `columns[k][r] = rows[r * n + k]`; missing rows repeat the last one.
#[inline(always)]
fn transpose<T: Copy>(rows: &[T], n: usize, columns: &mut [[T; ROWS]]) {
    let last = rows.len() / n - 1;
    for r in 0..ROWS {
        let row = &rows[r.min(last) * n..][..n];
        for (column, &x) in columns.iter_mut().zip(row) {
            column[r] = x;
        }
    }
}
