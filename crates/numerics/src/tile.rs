//! Several short rows side by side, so that what is done to each of them is done to vectors.

/// Rows of a tile: a vector of f32 at the widest level.
pub(crate) const ROWS: usize = 16;

/// `columns[k][r] = rows[r * n + k]`; places without a row repeat the last one.
#[inline(always)]
pub(crate) fn transpose<T: Copy>(rows: &[T], n: usize, columns: &mut [[T; ROWS]]) {
    let last = rows.len() / n - 1;
    for r in 0..ROWS {
        let row = &rows[r.min(last) * n..][..n];
        for (column, &x) in columns.iter_mut().zip(row) {
            column[r] = x;
        }
    }
}
