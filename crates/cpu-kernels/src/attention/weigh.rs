//! Scores turned into weights, and the gradients of weights into those of scores.

use samebits_numerics::extrema;
use samebits_numerics::reduce;
use samebits_numerics::simd::Kernel;

use super::{Call, Number, whole};
use crate::gemm::Real;

/// Replaces the scores of some queries with exponentials, and finds the largest score and the sum of
/// each.
pub(super) struct Forward<'a, T> {
    pub(super) call: &'a Call<'a, T>,
    /// The number of the first query of all matrices.
    pub(super) first: usize,
    pub(super) largest: &'a mut [T],
    pub(super) sums: &'a mut [T],
    pub(super) scores: &'a mut [T],
    pub(super) stride: usize,
    /// Twice as many elements as rows together have.
    pub(super) buffer: &'a mut [T],
    /// The number of keys of which the exponentials are used.
    pub(super) used: usize,
    /// Other than 0 for the keys that dropout keeps, for one query at a time.
    pub(super) kept: &'a mut [u8],
}

impl<T: Number> Kernel for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Forward { call, first, largest, sums, scores, stride, buffer, used, kept } = self;
        let queries = call.sizes.queries;
        let (together, longest) = rows_together::<T>(call.sizes.keys);
        let (differences, exponentials) = buffer.split_at_mut(together * longest);
        let results = largest.chunks_mut(together).zip(sums.chunks_mut(together));
        for ((group, scores), (largest, sums)) in
            scores.chunks_mut(together * stride).enumerate().zip(results)
        {
            let first = first + group * together;
            let mut end = 0;
            for ((number, scores), largest) in
                (first..).zip(scores.chunks_exact_mut(stride)).zip(&mut *largest)
            {
                let (matrix, query) = (number / queries, number % queries);
                let seen = call.seen(query);
                let scores = &mut scores[..whole::<T>(seen)];
                call.mask(matrix, query, 0, &mut scores[..seen]);
                scores[seen..].fill(T::LOWEST);
                *largest = extrema::max(scores).unwrap_or(T::LOWEST);
                let differences = &mut differences[end..][..scores.len()];
                for (difference, &score) in differences.iter_mut().zip(&*scores) {
                    *difference = score - *largest;
                }
                end += scores.len();
            }
            if together > 1 {
                T::exp_each(&differences[..end], &mut exponentials[..end]);
            } else {
                T::exp_each(&differences[..end], &mut scores[..end]);
            }
            let mut start = 0;
            let results = largest.iter().zip(sums);
            for ((number, scores), (&largest, sum)) in
                (first..).zip(scores.chunks_exact_mut(stride)).zip(results)
            {
                let (matrix, query) = (number / queries, number % queries);
                let seen = call.seen(query);
                let (scores, rest) = scores.split_at_mut(whole::<T>(seen));
                if together > 1 {
                    scores.copy_from_slice(&exponentials[start..][..scores.len()]);
                }
                start += scores.len();
                if let Some(rest) = rest.get_mut(..used.saturating_sub(scores.len())) {
                    rest.fill(T::ZERO);
                }
                scores[seen..].fill(T::ZERO);
                call.clear_spoilt((matrix, query, 0), largest, &mut scores[..seen]);
                // Zeros at the end leave the bits of a sum.
                let total = T::from_f64(reduce::sum_of(scores, |x: T| x.into()));
                *sum = if total == T::ZERO { T::ONE } else { Real::canonical(total) };
                let scores = &mut scores[..seen];
                let kept = &mut kept[..call.kept_len(seen)];
                call.keep((matrix, query, 0), kept);
                call.drop_some(kept, scores);
            }
        }
    }
}

/// Returns the number of rows whose exponentials are computed together, since short ones do not fill
/// the blocks of that function; and the most elements of a row.
pub(super) fn rows_together<T>(keys: usize) -> (usize, usize) {
    const TOGETHER: usize = 512;
    /// A multiple of the elements of a block.
    const BLOCKS: usize = 128;
    let longest = whole::<T>(keys).max(1);
    let whole_blocks = longest.is_multiple_of(BLOCKS);
    (if whole_blocks { 1 } else { (TOGETHER / longest).max(1) }, longest)
}

/// Turns the scores of a block into weights, and the gradients of the weights into those of the
/// scores.
pub(super) struct Backward<'a, T> {
    pub(super) call: &'a Call<'a, T>,
    /// The matrix, the first query and the first key.
    pub(super) place: (usize, usize, usize),
    /// The number of keys.
    pub(super) count: usize,
    pub(super) largest: &'a [T],
    pub(super) shared: &'a [T],
    pub(super) weights: &'a mut [T],
    pub(super) scores: &'a mut [T],
    pub(super) stride: usize,
    pub(super) differences: &'a mut [T],
    /// Other than 0 for the keys that dropout keeps, for one query at a time.
    pub(super) kept: &'a mut [u8],
}

impl<T: Number> Kernel for Backward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Backward { call, count, stride, differences, kept, .. } = self;
        let (matrix, first, key) = self.place;
        let rows = self.weights.chunks_exact_mut(stride).zip(self.scores.chunks_exact_mut(stride));
        let numbers = self.largest.iter().zip(self.shared);
        for ((row, (weights, scores)), (&largest, &shared)) in rows.enumerate().zip(numbers) {
            let query = first + row;
            let seen = call.seen(query).saturating_sub(key).min(count);
            let all = whole::<T>(seen);
            let (weights, rest) = weights.split_at_mut(all);
            rest.iter_mut().take(count.saturating_sub(all)).for_each(|weight| *weight = T::ZERO);
            let (scores, rest) = scores.split_at_mut(all);
            rest.iter_mut().take(count.saturating_sub(all)).for_each(|score| *score = T::ZERO);
            call.mask(matrix, query, key, &mut weights[..seen]);
            call.exponentials((matrix, query, key), largest, (weights, seen), differences);
            let kept = &mut kept[..call.kept_len(seen)];
            call.keep((matrix, query, key), kept);
            call.drop_some(kept, &mut scores[..seen]);
            for (score, &weight) in scores.iter_mut().zip(&*weights) {
                *score = weight * (*score - shared);
            }
            let (scores, rest) = scores.split_at_mut(seen);
            rest.fill(T::ZERO);
            call.clear(matrix, query, key, scores);
            call.drop_some(kept, &mut weights[..seen]);
        }
    }
}
