//! The extremum of each of many rows.

use super::{Ordered, argmax, argmin, replaces_max, replaces_min};
use crate::tile::{self, ROWS};

/// Rows shorter than this are searched side by side: alone they take longer to end than to search.
const SHORT: usize = 64;

/// [`argmax`] of each row of `n` elements: `out[r] = pick(index, value)`.
///
/// # Shapes
///
/// `values` is (rows, n) row-major; `out` has one element for each row.
///
/// # Determinism
///
/// As [`argmax`].
///
/// # Panics
///
/// If `n` is 0 or `values` does not hold `out.len()` rows of `n`.
///
/// # Examples
///
/// ```
/// let mut found = [(0, 0.0); 2];
/// samebits_numerics::extrema::argmax_rows(
///     &[1.0f32, 3.0, 3.0, 6.0, 5.0, 4.0],
///     3,
///     |index, value| (index, value),
///     &mut found,
/// );
/// assert_eq!(found, [(1, 3.0), (0, 6.0)]);
/// ```
#[inline(always)]
pub fn argmax_rows<T: Ordered, R>(
    values: &[T],
    n: usize,
    pick: impl Fn(usize, T) -> R,
    out: &mut [R],
) {
    rows(values, n, |row| argmax(row), |old, new| replaces_max(old, new), pick, out);
}

/// [`argmin`] of each row; see [`argmax_rows`].
#[inline(always)]
pub fn argmin_rows<T: Ordered, R>(
    values: &[T],
    n: usize,
    pick: impl Fn(usize, T) -> R,
    out: &mut [R],
) {
    rows(values, n, |row| argmin(row), |old, new| replaces_min(old, new), pick, out);
}

#[inline(always)]
fn rows<T: Ordered, R>(
    values: &[T],
    n: usize,
    long: impl Fn(&[T]) -> Option<(usize, T)>,
    replaces: impl Fn(T, T) -> bool,
    pick: impl Fn(usize, T) -> R,
    out: &mut [R],
) {
    assert!(n > 0, "rows: no elements to choose from");
    assert_eq!(values.len(), out.len() * n, "rows: wrong number of elements");
    if n >= SHORT {
        for (row, out) in values.chunks_exact(n).zip(out) {
            let (index, value) = long(row).expect("a row has elements");
            *out = pick(index, value);
        }
        return;
    }
    for (tile, out) in values.chunks(ROWS * n).zip(out.chunks_mut(ROWS)) {
        let mut columns = [[T::default(); ROWS]; SHORT];
        let columns = &mut columns[..n];
        tile::transpose(tile, n, columns);
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
            *out = pick(index as usize, best.canonical());
        }
    }
}
