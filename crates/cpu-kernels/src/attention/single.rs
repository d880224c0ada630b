//! Attention over one key: the weight is 1 unless the score is infinite or NaN, so nothing is packed,
//! and the chains of several queries run side by side.

use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::geometry::AttentionSizes;

use super::products::{CHAINS, chains};
use super::{ATTENTION, Call, Matrices, Number, Upstream};
use crate::error::Result;
use crate::gemm::{K_BLOCK, Real};
use crate::{memory, parallel};

/// The number of elements of queries and results that justifies the hand-over to another thread.
const TASK: usize = 1 << 15;

/// Returns true if the averages are computed here.
pub(super) fn suits<T: Number>(call: &Call<'_, T>) -> bool {
    let AttentionSizes { keys, width, features, .. } = call.sizes;
    let dense = [&call.query, &call.key, &call.value].iter().all(|x| x.strides[1] == 1);
    let plain = !call.is_masked() && call.dropout.is_none();
    plain && dense && keys == 1 && width > 0 && features > 0
}

/// Returns true if the gradients are computed here: their sums over the queries have one block.
pub(super) fn suits_gradients<T: Number>(call: &Call<'_, T>, upstream: &Upstream<'_, T>) -> bool {
    suits(call) && call.sizes.queries <= K_BLOCK && upstream.grad.strides[1] == 1
}

/// Returns the number of matrices of a task.
fn matrices_of_task(sizes: AttentionSizes) -> usize {
    let AttentionSizes { queries, width, features, .. } = sizes;
    (TASK / queries.saturating_mul(width + features).max(1)).max(1)
}

/// Computes the averages. No size is 0.
pub(super) fn averages<T: Number>(
    call: &Call<'_, T>,
    out: &mut [T],
    largest: &mut [T],
    sums: &mut [T],
) {
    let AttentionSizes { queries, features, .. } = call.sizes;
    let rows = matrices_of_task(call.sizes) * queries;
    let out = parallel::chunks_mut(out, rows * features);
    let results = parallel::chunks_mut(largest, rows).zip(parallel::chunks_mut(sums, rows));
    out.zip(results).enumerate().for_each(|(task, (out, (largest, sums)))| {
        simd::dispatch(Averages { call, first: task * rows, out, largest, sums });
    });
}

/// Computes the gradients. No size is 0.
pub(super) fn gradients<T: Number>(
    call: &Call<'_, T>,
    upstream: Upstream<'_, T>,
    [of_query, of_key, of_value]: [&mut [T]; 3],
) -> Result<()> {
    let AttentionSizes { queries, width, features, .. } = call.sizes;
    let matrices = matrices_of_task(call.sizes);
    let rows = matrices * queries;
    let of_query = parallel::chunks_mut(of_query, rows * width);
    let of_key = parallel::chunks_mut(of_key, matrices * width);
    let of_value = parallel::chunks_mut(of_value, matrices * features);
    let outs = of_query.zip(of_key.zip(of_value)).enumerate();
    outs.try_for_each(|(task, (of_query, (of_key, of_value)))| {
        let first = task * rows;
        let rows = of_query.len() / width;
        T::with_scratch(|scratch| {
            let weights = scratch.a.slice(&[rows, 2]).map_err(memory::named(ATTENTION))?;
            let outs = [of_query, of_key, of_value];
            simd::dispatch(Gradients { call, upstream, first, weights, outs });
            Ok(())
        })
    })
}

/// The rows of matrices, one after the other.
#[derive(Clone, Copy)]
struct Rows<'a, T> {
    matrices: Matrices<'a, T>,
    /// The number of rows of a matrix; 1 repeats the only row of each for all queries.
    queries: usize,
    repeats: bool,
}

impl<'a, T: Number> Rows<'a, T> {
    #[inline(always)]
    fn row(&self, number: usize) -> &'a [T] {
        let row = if self.repeats { 0 } else { number % self.queries };
        let from = self.matrices.from(number / self.queries, row);
        &from[..self.matrices.sizes[1]]
    }

    /// Returns rows from `first` on, and the last one again for those after `end`.
    #[inline(always)]
    fn group(&self, first: usize, end: usize) -> [&'a [T]; CHAINS] {
        std::array::from_fn(|i| self.row((first + i).min(end - 1)))
    }
}

struct Averages<'a, T> {
    call: &'a Call<'a, T>,
    /// The number of the first query of all matrices.
    first: usize,
    out: &'a mut [T],
    largest: &'a mut [T],
    sums: &'a mut [T],
}

impl<T: Number> Kernel for Averages<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Averages { call, first, out, largest, sums } = self;
        let AttentionSizes { queries, features, .. } = call.sizes;
        let query = Rows { matrices: call.query, queries, repeats: false };
        let key = Rows { matrices: call.key, queries, repeats: true };
        let value = Rows { matrices: call.value, queries, repeats: true };
        let end = first + largest.len();
        let results = largest.chunks_mut(CHAINS).zip(sums.chunks_mut(CHAINS));
        for (at, (largest, sums)) in (first..).step_by(CHAINS).zip(results) {
            let scores = chains(query.group(at, end), key.group(at, end));
            for ((&score, largest), sum) in scores.iter().zip(largest).zip(sums) {
                *largest = Real::canonical(score);
                // e^(score - largest) is 1 or NaN.
                *sum = match score.finite() {
                    true => T::ONE,
                    false => Real::canonical(score - *largest),
                };
            }
        }
        for ((number, out), &sum) in (first..).zip(out.chunks_exact_mut(features)).zip(&*sums) {
            let value = value.row(number);
            if sum == T::ONE {
                for (out, &value) in out.iter_mut().zip(value) {
                    *out = Real::canonical(value.plus(T::ZERO));
                }
            } else {
                out.fill(sum);
            }
        }
    }
}

struct Gradients<'a, T> {
    call: &'a Call<'a, T>,
    upstream: Upstream<'a, T>,
    /// The number of the first query of all matrices.
    first: usize,
    /// Room for the weight of each query and the gradient of its score.
    weights: &'a mut [T],
    outs: [&'a mut [T]; 3],
}

impl<T: Number> Kernel for Gradients<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Gradients { call, upstream, first, weights, outs: [of_query, of_key, of_value] } = self;
        let AttentionSizes { queries, width, features, .. } = call.sizes;
        let query = Rows { matrices: call.query, queries, repeats: false };
        let key = Rows { matrices: call.key, queries, repeats: true };
        let value = Rows { matrices: call.value, queries, repeats: true };
        let grad = Rows { matrices: upstream.grad, queries, repeats: false };
        let rows = weights.len() / 2;
        let (weights, of_scores) = weights.split_at_mut(rows);
        let end = first + rows;
        let results = weights.chunks_mut(CHAINS).zip(of_scores.chunks_mut(CHAINS));
        for (at, (weights, of_scores)) in (first..).step_by(CHAINS).zip(results) {
            let scores = chains(query.group(at, end), key.group(at, end));
            let of_weights = chains(value.group(at, end), grad.group(at, end));
            for (i, (weight, of_score)) in weights.iter_mut().zip(of_scores).enumerate() {
                let difference = [scores[i] - upstream.largest[at + i]];
                *weight = T::ONE;
                if difference[0] != T::ZERO {
                    T::exp_each(&difference, std::slice::from_mut(weight));
                }
                *of_score = *weight * (of_weights[i] - upstream.shared[at + i]);
            }
        }
        for ((number, out), &of_score) in
            (first..).zip(of_query.chunks_exact_mut(width)).zip(&*of_scores)
        {
            for (out, &key) in out.iter_mut().zip(key.row(number)) {
                *out = Real::canonical(of_score.fma(key, T::ZERO));
            }
        }
        for (rows, factors, columns, out) in
            [(grad, &*weights, features, of_value), (query, &*of_scores, width, of_key)]
        {
            let matrices = out.chunks_exact_mut(columns).zip(factors.chunks_exact(queries));
            for (start, (out, factors)) in (first..).step_by(queries).zip(matrices) {
                out.fill(T::ZERO);
                for (number, &factor) in (start..).zip(factors) {
                    for (out, &x) in out.iter_mut().zip(rows.row(number)) {
                        *out = factor.fma(x, *out);
                    }
                }
                out.iter_mut().for_each(|out| *out = Real::canonical(*out));
            }
        }
    }
}
