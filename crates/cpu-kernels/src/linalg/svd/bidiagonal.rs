//! The reduction to a bidiagonal matrix by reflections from both sides.

use samebits_numerics::reduce::LANES;
use samebits_numerics::simd::Kernel;

use crate::arch::columns::{ColumnPasses, MULTIPLE, TOGETHER};
use crate::linalg::qr::tiles::reflection;
use crate::linalg::{NEGLIGIBLE, dot};
use crate::parallel::chunks_mut;

/// The number of columns of which a group's sum of multiples consists.
pub(super) const GROUP: usize = 32;

/// The number of elements that a thread takes at a time at least.
const GRAIN: usize = 1 << 15;

/// Turns `a`, columns of `rows` elements and some zeros, into the vectors of the reflections from the
/// left, each with a 1 on the diagonal. Writes the vectors of those from the right, each with a 1 right
/// of the diagonal, and the bidiagonal matrix.
pub(super) struct Bidiagonalize<'a> {
    pub(super) rows: usize,
    pub(super) a: &'a mut [f64],
    /// One vector less than there are columns, of as many elements.
    pub(super) rights: &'a mut [f64],
    pub(super) left_taus: &'a mut [f64],
    pub(super) right_taus: &'a mut [f64],
    pub(super) diagonal: &'a mut [f64],
    /// As many elements as the diagonal; the last one is zero.
    pub(super) above: &'a mut [f64],
    /// Two columns.
    pub(super) updates: &'a mut [f64],
    /// A column for each group of columns.
    pub(super) sums: &'a mut [f64],
    /// Four elements for each column.
    pub(super) shares: &'a mut [f64],
}

impl Kernel for Bidiagonalize<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Bidiagonalize { rows, a, rights, left_taus, right_taus, .. } = self;
        let Bidiagonalize { diagonal, above, updates, sums, shares, .. } = self;
        let passes = ColumnPasses::new();
        let (n, step) = (diagonal.len(), updates.len() / 2);
        let (mut update, mut total) = updates.split_at_mut(step);
        let (shares, row) = shares.split_at_mut(n);
        let (row, factors) = row.split_at_mut(n);
        let (factors, _) = factors.as_chunks_mut::<2>();
        update.fill(0.0);
        factors.fill([0.0; 2]);
        for k in 0..n {
            let (done, later) = a.split_at_mut((k + 1) * step);
            let (before, column) = done.split_at_mut(k * step);
            // Before the first reflection both vectors are zero.
            let previous = if k == 0 { &*update } else { &before[(k - 1) * step..] };
            let first = k / LANES * LANES;
            passes.update(column, first, [previous, update, update], &factors[k..=k], &mut [0.0]);
            left_taus[k] = reflection(&mut column[k..rows], NEGLIGIBLE);
            diagonal[k] = std::mem::replace(&mut column[k], 1.0);
            column[..k].fill(0.0);
            let (column, next) = (&*column, k + 1);
            if next == n {
                above[k] = 0.0;
                break;
            }

            let group = Group { passes, k, first, tau: left_taus[k], previous, update, column };
            let (later_row, later_shares) = (&mut row[next..], &mut shares[next..]);
            let later_factors = &mut factors[next..];
            let below = next / MULTIPLE * MULTIPLE;
            let total_below = &mut total[below..];
            if n - next <= GROUP {
                let sums = &mut sums[..step];
                group.run(later, sums, later_row, later_shares, later_factors);
            } else {
                chunks_mut(later, GROUP * step)
                    .zip(chunks_mut(sums, step))
                    .zip(chunks_mut(later_row, GROUP).zip(chunks_mut(later_shares, GROUP)))
                    .zip(chunks_mut(later_factors, GROUP))
                    .at_least(GRAIN.div_ceil(GROUP * step))
                    .for_each(|(((columns, sums), (row, shares)), factors)| {
                        group.run(columns, sums, row, shares, factors);
                    });
            }
            total_below.fill(0.0);
            for sums in sums.chunks_exact(step).take((n - next).div_ceil(GROUP)) {
                for (total, &sum) in total_below.iter_mut().zip(&sums[below..]) {
                    *total += sum;
                }
            }

            let row = &mut row[next..];
            let head = row[0];
            let tau = reflection(row, NEGLIGIBLE);
            right_taus[k] = tau;
            above[k] = std::mem::replace(&mut row[0], 1.0);
            if tau == 0.0 {
                row.fill(0.0);
                total_below.fill(0.0);
            } else {
                // The vector of the reflection is the row, less `above` at its head, divided by its
                // head.
                let divisor = head - above[k];
                let share = dot(&shares[next..], row);
                let (column, next) = (&column[below..], &later[below..step]);
                for ((x, &v), &c) in total_below.iter_mut().zip(column).zip(next) {
                    let sum = (-above[k]).mul_add(c, *x) / divisor;
                    *x = tau * (-share).mul_add(v, sum);
                }
                total_below[..k + 1 - below].fill(0.0);
            }
            rights[k * (n - 1)..][k..n - 1].copy_from_slice(row);
            for (factors, &x) in factors[next..].iter_mut().zip(&*row) {
                factors[1] = -x;
            }
            std::mem::swap(&mut update, &mut total);
        }
    }
}

/// A step over a group of columns right of column `k`.
struct Group<'a> {
    passes: ColumnPasses,
    k: usize,
    /// The first row that is read.
    first: usize,
    /// The factor of the reflection of this step.
    tau: f64,
    /// The vector of the left reflection before, of which columns still lack their multiples.
    previous: &'a [f64],
    /// The sums of the right reflection before, likewise.
    update: &'a [f64],
    /// The vector of the reflection of this step.
    column: &'a [f64],
}

impl Group<'_> {
    /// Adds to each column its multiples of the vectors of the step before. Writes what the reflection
    /// subtracts, row `k` after that, and the sums of the row's multiples of the columns.
    #[inline]
    fn run(
        &self,
        columns: &mut [f64],
        sums: &mut [f64],
        row: &mut [f64],
        shares: &mut [f64],
        factors: &mut [[f64; 2]],
    ) {
        let &Group { passes, k, first, tau, previous, update, column } = self;
        let below = (k + 1) / MULTIPLE * MULTIPLE;
        sums[below..].fill(0.0);
        let some = columns.chunks_mut(TOGETHER * column.len());
        let outs = row.chunks_mut(TOGETHER).zip(shares.chunks_mut(TOGETHER));
        for ((columns, factors), (row, shares)) in some.zip(factors.chunks_mut(TOGETHER)).zip(outs)
        {
            passes.update(columns, first, [previous, update, column], factors, shares);
            for (i, share) in shares.iter_mut().enumerate() {
                *share *= tau;
                factors[i][0] = -*share;
                row[i] = columns[i * column.len() + k] - *share;
            }
            passes.combine(columns, below, row, sums);
        }
    }
}
