//! Runs of elements of slabs with the parameters of their columns.

use std::ops::Range;

use samebits_numerics::simd::Aligned;

use crate::elementwise::Elementary;

/// The largest number of columns that are repeated to fill vectors.
pub(super) const NARROW: usize = 64;

/// Calls `f(elements, parameters)` for runs of the elements `first..first + count` of slabs, with as
/// many parameters of their columns, of which `all` has `inner` per slab. The elements are whole
/// rows or, if rows are wide, parts of rows.
#[inline(always)]
pub(super) fn runs<T: Elementary, const N: usize>(
    (first, count): (usize, usize),
    (size, inner): (usize, usize),
    all: [&[T]; N],
    mut f: impl FnMut(Range<usize>, [&[T]; N]),
) {
    let mut repeated = Aligned([[T::ZERO; NARROW]; N]);
    let mut done = 0;
    while done < count {
        let (row, column) = ((first + done) / inner, (first + done) % inner);
        let (slab, inside) = (row / size, row % size);
        let left = count - done;
        if inner > NARROW / 2 || column != 0 {
            let length = left.min(inner - column);
            let start = slab * inner + column;
            f(done..done + length, all.map(|all| &all[start..start + length]));
            done += length;
            continue;
        }
        let end = done + left.min((size - inside) * inner);
        let width = (NARROW / inner * inner).min(end - done);
        for (repeated, all) in repeated.iter_mut().zip(all) {
            let columns = &all[slab * inner..][..inner];
            for row in repeated[..width].chunks_exact_mut(inner) {
                row.copy_from_slice(columns);
            }
        }
        while done < end {
            let length = width.min(end - done);
            f(done..done + length, repeated.each_ref().map(|repeated| &repeated[..length]));
            done += length;
        }
    }
}
