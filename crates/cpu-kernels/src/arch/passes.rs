//! What the passes of reflections over columns share, whatever an element of a column is.

/// The most columns of a pass.
pub(crate) const TOGETHER: usize = 4;

/// The kinds of passes: columns change, or are multiplied by `z` and summed, or both.
pub(super) const ADD: usize = 0;
pub(super) const SUM: usize = 1;
pub(super) const ADD_AND_SUM: usize = 2;

/// A compiled pass.
///
/// # Safety
///
/// The CPU must have the instructions of the level for which the pass was compiled; every pointer of
/// the argument must be valid for the accesses of the pass.
pub(super) type Pass<E> = unsafe fn(Raw<E>);

/// Raw arguments of a pass over `count` rows of columns, which are `step` rows apart. `x` and `z`
/// have an element for each row, `factors` and `sums` for each column.
#[derive(Clone, Copy)]
pub(super) struct Raw<E> {
    pub(super) columns: *mut E,
    pub(super) step: usize,
    pub(super) count: usize,
    pub(super) factors: *const E,
    pub(super) x: *const E,
    pub(super) z: *const E,
    pub(super) sums: *mut E,
}

impl<E: Copy> Raw<E> {
    /// Runs passes over `count` columns.
    ///
    /// # Safety
    ///
    /// The contract of [`Pass`] for all these columns.
    #[inline]
    pub(super) unsafe fn run(mut self, [one, several]: [Pass<E>; 2], count: usize) {
        // SAFETY: the caller guarantees the instructions and all columns.
        unsafe {
            if count == TOGETHER {
                return several(self);
            }
            for _ in 0..count {
                one(self);
                self.columns = self.columns.wrapping_add(self.step);
                self.factors = self.factors.wrapping_add(1);
                self.sums = self.sums.wrapping_add(1);
            }
        }
    }
}

/// Panics if `columns` is too short for `count` columns of `rows` rows, `step` rows apart.
#[inline]
pub(super) fn check<E>(columns: &[E], step: usize, count: usize, rows: usize) {
    let last = count.saturating_sub(1).checked_mul(step);
    let end = last.and_then(|last| last.checked_add(rows));
    assert!(count == 0 || end.is_some_and(|end| end <= columns.len()), "columns too short");
}
