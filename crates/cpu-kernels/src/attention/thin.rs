//! Attention of few queries: keys and values are read where they lie, because too few queries repay a
//! copy in the order of tiles.

use samebits_numerics::memory::product;
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::geometry::AttentionSizes;

use super::weigh::{self, rows_together};
use super::{ATTENTION, Call, Matrices, Number, Upstream, whole};
use crate::error::Result;
use crate::gemm::scratch::Scratch;
use crate::gemm::{K_BLOCK, Real, Row};
use crate::{memory, parallel};

/// The largest number of queries.
const QUERIES: usize = 3;

/// The largest number of keys whose averages are computed here: tiles read more values sooner.
const KEYS: usize = 64;

/// The number of multiplications that justifies the hand-over to another thread.
const PRODUCTS: usize = 1 << 18;

/// Returns true if keys are read row by row for so many queries.
pub(super) fn by_rows<T>(call: &Call<'_, T>, queries: usize) -> bool {
    queries <= QUERIES && call.key.strides[1] == 1
}

/// Returns true if the averages are computed here.
pub(super) fn suits<T: Number>(call: &Call<'_, T>) -> bool {
    let AttentionSizes { queries, keys, width, features, .. } = call.sizes;
    let dense = by_rows(call, queries) && call.value.strides[1] == 1;
    dense && (1..=KEYS).contains(&keys) && width > 0 && features > 0
}

/// Returns true if the gradients are computed here. No number of queries or keys is 0.
pub(super) fn suits_gradients<T: Number>(call: &Call<'_, T>, upstream: &Upstream<'_, T>) -> bool {
    let AttentionSizes { queries, width, features, .. } = call.sizes;
    let others = [&call.query, &call.value, &upstream.grad];
    let dense = by_rows(call, queries) && others.iter().all(|x| x.strides[1] == 1);
    dense && width > 0 && features > 0
}

/// Computes the averages. No size is 0.
pub(super) fn averages<T: Number>(
    call: &Call<'_, T>,
    out: &mut [T],
    largest: &mut [T],
    sums: &mut [T],
) -> Result<()> {
    let AttentionSizes { keys, width, features, .. } = call.sizes;
    let rows = (PRODUCTS / keys.saturating_mul(width + features)).max(1);
    let out = parallel::chunks_mut(out, rows * features);
    let results = parallel::chunks_mut(largest, rows).zip(parallel::chunks_mut(sums, rows));
    out.zip(results).enumerate().try_for_each(|(task, (out, (largest, sums)))| {
        T::with_scratch(|scratch| {
            let named = |error| memory::named(ATTENTION)(error);
            let (together, longest) = rows_together::<T>(keys);
            let scores = scratch.source.slice(&[together, longest]).map_err(named)?;
            let buffer = scratch.b.slice(&[2, together, longest]).map_err(named)?;
            let kept = &mut memory::filled(ATTENTION, call.kept_len(keys), 0)?;
            let first = task * rows;
            simd::dispatch(Averages { call, first, out, largest, sums, scores, buffer, kept });
            Ok(())
        })
    })
}

struct Averages<'a, T> {
    call: &'a Call<'a, T>,
    /// The number of the first query of all matrices.
    first: usize,
    out: &'a mut [T],
    largest: &'a mut [T],
    sums: &'a mut [T],
    /// Room for the scores of as many rows as go together.
    scores: &'a mut [T],
    /// Twice as many elements as `scores` has.
    buffer: &'a mut [T],
    /// Other than 0 for the keys that dropout keeps, for one query at a time.
    kept: &'a mut [u8],
}

impl<T: Number> Kernel for Averages<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Averages { call, first, out, largest, sums, scores, buffer, kept } = self;
        let AttentionSizes { queries, keys, width, features, .. } = call.sizes;
        let (together, stride) = rows_together::<T>(keys);
        let groups = out.chunks_mut(together * features);
        let results = largest.chunks_mut(together).zip(sums.chunks_mut(together));
        for (first, (out, (largest, sums))) in (first..).step_by(together).zip(groups.zip(results))
        {
            let scores = &mut scores[..sums.len() * stride];
            for (number, scores) in (first..).zip(scores.chunks_exact_mut(stride)) {
                let (matrix, query) = (number / queries, number % queries);
                let (a, b) = (call.query.rows(matrix, query), call.key.rows(matrix, 0));
                Row { a, b, k: width, out: &mut scores[..call.seen(query)] }.run();
            }
            weigh::Forward {
                call,
                first,
                largest,
                sums: &mut *sums,
                scores: &mut *scores,
                stride,
                buffer: &mut *buffer,
                used: keys,
                kept: &mut *kept,
            }
            .run();
            let rows = out.chunks_exact_mut(features).zip(scores.chunks_exact(stride).zip(sums));
            for (number, (out, (scores, sum))) in (first..).zip(rows) {
                let (rows, matrix) = (&call.value, number / queries);
                let steps = [0, 1];
                simd::dispatch_inside(Combine {
                    rows,
                    matrix,
                    count: keys,
                    factors: scores,
                    steps,
                    out: &mut *out,
                });
                for out in out {
                    *out = Real::canonical(*out / *sum);
                }
            }
        }
    }
}

/// Computes the gradients of one matrix. No size is 0.
pub(super) fn gradients<T: Number>(
    call: &Call<'_, T>,
    upstream: Upstream<'_, T>,
    matrix: usize,
    outs: [&mut [T]; 3],
    scratch: &mut Scratch<T>,
) -> Result<()> {
    let AttentionSizes { queries, keys, .. } = call.sizes;
    let named = |error| memory::named(ATTENTION)(error);
    let stride = whole::<T>(keys);
    let scores = product(&[queries, stride]);
    let parts = scratch.source.parts([scores, scores, Some(stride)]).map_err(named)?;
    let kept = &mut memory::filled(ATTENTION, call.kept_len(keys), 0)?;
    simd::dispatch(Gradients { call, upstream, matrix, stride, parts, kept, outs });
    Ok(())
}

struct Gradients<'a, T> {
    call: &'a Call<'a, T>,
    upstream: Upstream<'a, T>,
    matrix: usize,
    /// The distance between the scores of queries.
    stride: usize,
    /// Room for the weights and the gradients of the scores of all queries, and for one row more.
    parts: [&'a mut [T]; 3],
    /// Other than 0 for the keys that dropout keeps, for one query at a time.
    kept: &'a mut [u8],
    outs: [&'a mut [T]; 3],
}

impl<T: Number> Kernel for Gradients<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Gradients { call, upstream, matrix, stride, parts, kept, outs } = self;
        let [of_query, of_key, of_value] = outs;
        let [weights, scores, differences] = parts;
        let AttentionSizes { queries, keys, width, features, .. } = call.sizes;
        for (a, b, k, out) in [
            (&call.query, &call.key, width, &mut *weights),
            (&upstream.grad, &call.value, features, &mut *scores),
        ] {
            for (query, out) in out.chunks_exact_mut(stride).enumerate() {
                let (a, b) = (a.rows(matrix, query), b.rows(matrix, 0));
                Row { a, b, k, out: &mut out[..call.seen(query)] }.run();
            }
        }
        let results = matrix * queries..(matrix + 1) * queries;
        weigh::Backward {
            call,
            place: (matrix, 0, 0),
            count: keys,
            largest: &upstream.largest[results.clone()],
            shared: &upstream.shared[results],
            weights: &mut *weights,
            scores: &mut *scores,
            stride,
            differences,
            kept,
        }
        .run();
        for (factors, steps, rows, count, out) in [
            (&*weights, [1, stride], &upstream.grad, queries, of_value),
            (&*scores, [1, stride], &call.query, queries, of_key),
            (&*scores, [stride, 1], &call.key, keys, of_query),
        ] {
            simd::dispatch_inside(Combine { rows, matrix, count, factors, steps, out });
        }
    }
}

/// Computes sums of `count` rows of a matrix times factors: for sum `s`, row `i` has the factor
/// `factors[s · steps[0] + i · steps[1]]`.
struct Combine<'a, T> {
    rows: &'a Matrices<'a, T>,
    matrix: usize,
    count: usize,
    factors: &'a [T],
    steps: [usize; 2],
    out: &'a mut [T],
}

impl<T: Number> Kernel for Combine<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Combine { rows, matrix, count, factors, steps, out } = self;
        for (s, out) in out.chunks_exact_mut(rows.sizes[1]).enumerate() {
            let factor = |i: usize| factors[s * steps[0] + i * steps[1]];
            combine(count, factor, |i| rows.row(matrix, i), out);
        }
    }
}

/// Computes the sum of rows times their factors: for each column a chain within blocks of rows.
#[inline(always)]
fn combine<'a, T: Number>(
    rows: usize,
    factor: impl Fn(usize) -> T,
    row: impl Fn(usize) -> &'a [T],
    out: &mut [T],
) {
    let width = out.len();
    let mut at = 0;
    // The last columns are computed again with those before them, so that vectors are full.
    while at < width {
        let left = width - at;
        let step = match width {
            64.. if left > 32 && size_of::<T>() == 4 => {
                some::<T, 64>(rows, &factor, &row, at.min(width - 64), out)
            }
            32.. if left > 16 => some::<T, 32>(rows, &factor, &row, at.min(width - 32), out),
            16.. if left > 8 => some::<T, 16>(rows, &factor, &row, at.min(width - 16), out),
            8.. if left > 4 => some::<T, 8>(rows, &factor, &row, at.min(width - 8), out),
            4.. if left > 1 => some::<T, 4>(rows, &factor, &row, at.min(width - 4), out),
            _ => some::<T, 1>(rows, &factor, &row, at, out),
        };
        at += step;
    }
}

/// Computes `N` columns of [`combine`] from column `at` on, and returns `N`.
#[inline(always)]
fn some<'a, T: Number, const N: usize>(
    rows: usize,
    factor: &impl Fn(usize) -> T,
    row: &impl Fn(usize) -> &'a [T],
    at: usize,
    out: &mut [T],
) -> usize {
    let mut totals = [T::ZERO; N];
    for block in (0..rows).step_by(K_BLOCK) {
        let mut sums = [T::ZERO; N];
        for i in block..rows.min(block + K_BLOCK) {
            let factor = factor(i);
            for (sum, &x) in sums.iter_mut().zip(&row(i)[at..at + N]) {
                *sum = factor.fma(x, *sum);
            }
        }
        for (total, sum) in totals.iter_mut().zip(sums) {
            *total = if block > 0 { total.plus(sum) } else { sum };
        }
    }
    for (out, total) in out[at..at + N].iter_mut().zip(totals) {
        *out = Real::canonical(total);
    }
    N
}
