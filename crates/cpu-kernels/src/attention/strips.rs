//! Strips of queries, and the last step of their averages.

use samebits_numerics::simd::Kernel;
use samebits_tensor_core::geometry::AttentionSizes;

use super::{ATTENTION, Number};
use crate::error::Result;
use crate::gemm::Real;
use crate::{memory, parallel};

/// The number of multiplications that justifies the hand-over to another thread.
const PRODUCTS: usize = 1 << 18;

/// A strip of queries of one matrix, and the places of its results.
pub(super) struct Strip<'a, T> {
    pub(super) matrix: usize,
    pub(super) first: usize,
    pub(super) out: &'a mut [T],
    pub(super) largest: &'a mut [T],
    pub(super) sums: &'a mut [T],
}

/// Cuts the results into strips of `rows` queries.
pub(super) fn strips<'a, T>(
    sizes: AttentionSizes,
    rows: usize,
    mut out: &'a mut [T],
    mut largest: &'a mut [T],
    mut sums: &'a mut [T],
) -> Result<Vec<Option<Strip<'a, T>>>> {
    let AttentionSizes { count, queries, features, .. } = sizes;
    let all = memory::volume(ATTENTION, &[count, queries.div_ceil(rows)])?;
    let mut strips = memory::with_capacity(ATTENTION, all)?;
    for matrix in 0..count {
        for first in (0..queries).step_by(rows) {
            let rows = rows.min(queries - first);
            let split = |from: &mut &'a mut [T], len| {
                let (now, later) = std::mem::take(from).split_at_mut(len);
                *from = later;
                now
            };
            strips.push(Some(Strip {
                matrix,
                first,
                out: split(&mut out, rows * features),
                largest: split(&mut largest, rows),
                sums: split(&mut sums, rows),
            }));
        }
    }
    Ok(strips)
}

/// The number of queries whose products take as long as reading keys and values.
const READ: usize = 4;

/// Computes strips of `rows` queries; a thread takes as many as justify the hand-over.
pub(super) fn in_parallel<T: Number>(
    sizes: AttentionSizes,
    rows: usize,
    strips: &mut [Option<Strip<'_, T>>],
    run: impl Fn(Strip<'_, T>) -> Result<()> + Sync + Send,
) -> Result<()> {
    let AttentionSizes { queries, keys, width, features, .. } = sizes;
    // Keys and values that few queries read take as long as the products of some.
    let rows = rows.min(queries).max(READ);
    let products = rows.saturating_mul(keys).saturating_mul(width + features);
    let few = PRODUCTS / products.max(1);
    parallel::tasks(strips).at_least(few).at_most(1).try_for_each(run)
}

/// Divides averages by the sums of their weights; returns true if one is zero before.
pub(super) struct Divide<'a, T> {
    pub(super) found: &'a [T],
    pub(super) stride: usize,
    pub(super) features: usize,
    pub(super) sums: &'a [T],
    pub(super) out: &'a mut [T],
}

impl<T: Number> Kernel for Divide<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let mut zero = false;
        let rows = self.found.chunks_exact(self.stride).zip(self.sums);
        for ((found, &sum), out) in rows.zip(self.out.chunks_exact_mut(self.features)) {
            for (out, &found) in out.iter_mut().zip(found) {
                zero |= found == T::ZERO;
                *out = Real::canonical(found / sum);
            }
        }
        zero
    }
}
