//! The gradients of query, key and value.

use std::ops::Range;

use samebits_numerics::memory::{OutOfMemory, product};
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::geometry::AttentionSizes;

use super::products::{InPlace, Panels, block_in_place, pack, packed_len, rows_by_columns};
use super::{ATTENTION, Call, Matrices, Number, expect_matrices, finite, whole};
use crate::arch::{Offsets, TileFns, TileMut};
use crate::error::{Result, expect_len, expect_size};
use crate::gemm::scratch::Scratch;
use crate::gemm::{K_BLOCK, Real, even_parts};
use crate::{memory, parallel};

/// The number of queries, and of keys, of a block of scores: the sums over both run in blocks of
/// this length, so a block of scores holds whole chains. The widths of tiles divide it.
const BLOCK: usize = K_BLOCK;

/// The gradients and numbers of the forward pass that [`attention_backward`] needs.
#[derive(Clone, Copy, Debug)]
pub struct Upstream<'a, T> {
    /// The gradient of the averages, divided by the sums; queries by features.
    pub grad: Matrices<'a, T>,
    /// The sum of `grad` times the averages of each query.
    pub shared: &'a [T],
    /// The largest score of each query.
    pub largest: &'a [T],
}

/// Computes the gradients of query, key and value, each with the sizes of its matrices.
///
/// # Determinism
///
/// See the [module](super). The scores are computed again in blocks of 256 queries by 256 keys,
/// the blocks of all three sums. Blocks that the causal mask hides entirely are left out if all
/// numbers in them are finite: their sums are +0, which is added all the same.
///
/// # Errors
///
/// [`Error`](crate::Error) if an argument does not have the sizes, or memory runs out.
pub fn attention_backward<T: Number>(
    call: &Call<'_, T>,
    upstream: Upstream<'_, T>,
    [of_query, of_key, of_value]: [&mut [T]; 3],
) -> Result<()> {
    let AttentionSizes { count, queries, keys, width, features } = call.sizes;
    call.check()?;
    expect_matrices("grad", &upstream.grad, count, [queries, features])?;
    expect_len(ATTENTION, "shared", upstream.shared.len(), count * queries)?;
    expect_len(ATTENTION, "largest", upstream.largest.len(), count * queries)?;
    expect_size(ATTENTION, "the gradient of the query", of_query.len(), &[count, queries, width])?;
    expect_size(ATTENTION, "the gradient of the key", of_key.len(), &[count, keys, width])?;
    expect_size(ATTENTION, "the gradient of the value", of_value.len(), &[count, keys, features])?;
    if queries == 0 || keys == 0 {
        for out in [of_query, of_key, of_value] {
            out.fill(T::ZERO);
        }
        return Ok(());
    }
    let plan = Plan::<T>::new(call.sizes);
    let outs = [(of_query, queries * width), (of_key, keys * width), (of_value, keys * features)];
    parallel::try_parts(ATTENTION, count, usize::MAX, outs, |matrix, outs| {
        T::with_scratch(|scratch| plan.run(call, upstream, matrix, outs, scratch))
    })
}

struct Plan<T: 'static> {
    sizes: AttentionSizes,
    /// The tiles of scores: columns are keys.
    scores: &'static TileFns<T>,
    /// The tiles of gradients of query and key: columns are the width.
    wide: &'static TileFns<T>,
    /// The tiles of gradients of the value: columns are the features.
    featured: &'static TileFns<T>,
    /// The distance between rows of a block of scores.
    stride: usize,
    steps: Offsets,
    /// A block of scores with queries as rows, for sums over keys.
    by_query: InPlace,
    /// A block of scores with keys as rows, for sums over queries.
    by_key: InPlace,
}

/// The buffers of one matrix.
struct Buffers<'a, T> {
    /// Keys and values as columns of scores, `[panel][step][width of a tile]`.
    key_columns: &'a mut [T],
    value_columns: &'a mut [T],
    /// Keys as steps of the gradient of the query.
    key_steps: &'a mut [T],
    /// A block of queries and its gradients, as steps of the gradients of key and value.
    query_steps: &'a mut [T],
    grad_steps: &'a mut [T],
    /// The rows of a block of queries or gradients.
    rows: &'a mut [T],
    /// The weights and the gradients of the scores of a block.
    weights: &'a mut [T],
    scores: &'a mut [T],
    differences: &'a mut [T],
    /// Other than 0 for the keys of a row that dropout keeps.
    kept: &'a mut [u8],
    /// The gradients, in whole tiles.
    of_query: &'a mut [T],
    of_key: &'a mut [T],
    of_value: &'a mut [T],
}

impl<T: Number> Plan<T> {
    fn new(sizes: AttentionSizes) -> Plan<T> {
        let AttentionSizes { queries, keys, width, features, .. } = sizes;
        let kernels = T::kernels(simd::level());
        let scores = kernels.fitting(queries.min(BLOCK), keys.min(BLOCK));
        let wide = kernels.fitting(queries.min(keys).min(BLOCK), width.max(1));
        let featured = kernels.fitting(keys.min(BLOCK), features.max(1));
        let stride = keys.min(BLOCK).next_multiple_of(scores.columns()) + 64 / size_of::<T>();
        let most = wide.max_rows().max(featured.max_rows());
        Plan {
            sizes,
            scores,
            wide,
            featured,
            stride,
            steps: Offsets::linear(K_BLOCK, scores.columns()),
            by_query: InPlace::new(most, stride, 1),
            by_key: InPlace::new(most, 1, stride),
        }
    }

    fn buffers<'s>(
        &self,
        scratch: &'s mut Scratch<T>,
        kept: &'s mut [u8],
    ) -> Result<Buffers<'s, T>, OutOfMemory> {
        let AttentionSizes { queries, keys, width, features, .. } = self.sizes;
        let (block, tile) = (queries.min(BLOCK), self.scores.columns());
        let (wide, featured) = (self.wide.columns(), self.featured.columns());
        let lens = [
            packed_len(keys, width, tile),
            packed_len(keys, features, tile),
            packed_len(width, keys, wide),
            packed_len(width, block, wide),
            packed_len(features, block, featured),
            product(&[block, width.max(features).min(K_BLOCK)]),
            product(&[block, self.stride]),
            product(&[block, self.stride]),
            Some(whole::<T>(keys.min(BLOCK))),
            product(&[block, width.next_multiple_of(wide)]),
            product(&[keys, width.next_multiple_of(wide)]),
            product(&[keys, features.next_multiple_of(featured)]),
        ];
        // Each buffer starts on a cache line.
        let line = 64 / size_of::<T>();
        let mut all = 0usize;
        for len in lens {
            let len = len.and_then(|len| len.checked_next_multiple_of(line));
            let sum = len.and_then(|len| all.checked_add(len));
            all = sum.ok_or(OutOfMemory { bytes: usize::MAX })?;
        }
        let mut rest = scratch.source.slice(&[all])?;
        let [a, b, c, d, e, f, g, h, i, j, k, l] = lens.map(|len| {
            let len = len.unwrap_or(0);
            let (now, later) = std::mem::take(&mut rest).split_at_mut(len.next_multiple_of(line));
            rest = later;
            &mut now[..len]
        });
        Ok(Buffers {
            key_columns: a,
            value_columns: b,
            key_steps: c,
            query_steps: d,
            grad_steps: e,
            rows: f,
            weights: g,
            scores: h,
            differences: i,
            kept,
            of_query: j,
            of_key: k,
            of_value: l,
        })
    }

    /// Computes the gradients of one matrix.
    fn run(
        &self,
        call: &Call<'_, T>,
        upstream: Upstream<'_, T>,
        matrix: usize,
        [of_query, of_key, of_value]: [&mut [T]; 3],
        scratch: &mut Scratch<T>,
    ) -> Result<()> {
        let AttentionSizes { queries, keys, width, features, .. } = self.sizes;
        let kept = &mut memory::filled(ATTENTION, call.kept_len(keys.min(BLOCK)), 0)?;
        let buffers = &mut self.buffers(scratch, kept).map_err(memory::named(ATTENTION))?;
        let tile = self.scores.columns();
        pack(call.key.rows(matrix, 0), keys, width, tile, buffers.key_columns);
        pack(call.value.rows(matrix, 0), keys, features, tile, buffers.value_columns);
        let columns = self.wide.columns();
        pack(call.key.columns(matrix, 0), width, keys, columns, buffers.key_steps);
        let finite_keys: Vec<bool> = (0..keys)
            .step_by(BLOCK)
            .map(|key| finite(&call.key, matrix, key..keys.min(key + BLOCK)))
            .collect();
        for first in (0..queries).step_by(BLOCK) {
            let rows = first..queries.min(first + BLOCK);
            let of_query = &mut of_query[first * width..rows.end * width];
            self.block(call, upstream, (matrix, rows), &finite_keys, buffers, of_query);
        }
        copy(buffers.of_key, width, self.wide.columns(), of_key);
        copy(buffers.of_value, features, self.featured.columns(), of_value);
        Ok(())
    }

    /// Adds the shares of a block of queries to the gradients of keys and values, and computes the
    /// gradients of the queries.
    fn block(
        &self,
        call: &Call<'_, T>,
        upstream: Upstream<'_, T>,
        (matrix, queries): (usize, Range<usize>),
        finite_keys: &[bool],
        buffers: &mut Buffers<'_, T>,
        of_query: &mut [T],
    ) {
        let AttentionSizes { keys, width, features, .. } = self.sizes;
        let rows = queries.len();
        let first = queries.start;
        let finite_rows = call.causal.is_some()
            && finite(&call.query, matrix, queries.clone())
            && finite(&upstream.grad, matrix, queries.clone());
        let (wide, featured) = (self.wide.columns(), self.featured.columns());
        // The last block may have fewer rows than the buffers.
        let query_steps = 0..rows * width.next_multiple_of(wide);
        let grad_steps = 0..rows * features.next_multiple_of(featured);
        let steps = &mut buffers.query_steps[query_steps.clone()];
        pack(call.query.columns(matrix, first), width, rows, wide, steps);
        let steps = &mut buffers.grad_steps[grad_steps.clone()];
        pack(upstream.grad.columns(matrix, first), features, rows, featured, steps);
        let score_parts: Vec<_> = even_parts(rows, self.scores.max_rows()).collect();
        let query_parts: Vec<_> = even_parts(rows, self.wide.max_rows()).collect();
        let (wide, featured) = (width.next_multiple_of(wide), features.next_multiple_of(featured));
        for (block, first_key) in (0..keys).step_by(BLOCK).enumerate() {
            let count = BLOCK.min(keys - first_key);
            let hidden = first_key >= call.seen(queries.end - 1);
            if hidden && finite_rows && finite_keys[block] {
                // The sums of the block are +0, which turns −0 into +0.
                let tile = first_key * wide..(first_key + count) * wide;
                add_zero(&mut buffers.of_key[tile], first > 0);
                let tile = first_key * featured..(first_key + count) * featured;
                add_zero(&mut buffers.of_value[tile], first > 0);
                add_zero(&mut buffers.of_query[..rows * wide], first_key > 0);
                continue;
            }
            let wanted =
                |part: &Range<usize>, key: usize| first_key + key < call.seen(first + part.end - 1);
            let tile = self.scores.columns();
            let panels = |steps: usize| {
                first_key * steps..(first_key + count.next_multiple_of(tile)) * steps
            };
            for (source, columns, steps, out) in [
                (&call.query, &*buffers.key_columns, width, &mut *buffers.weights),
                (&upstream.grad, &*buffers.value_columns, features, &mut *buffers.scores),
            ] {
                if steps == 0 {
                    out.fill(T::ZERO);
                    continue;
                }
                let columns = Panels::packed(&columns[panels(steps)], steps, tile);
                let mut to = TileMut::from_slice(out, rows, self.stride);
                rows_by_columns(
                    self.scores,
                    source.rows(matrix, first),
                    &score_parts,
                    columns,
                    &self.steps,
                    buffers.rows,
                    &mut to,
                    wanted,
                );
            }
            let results = matrix * self.sizes.queries + first;
            simd::dispatch(Weigh {
                call,
                place: (matrix, first, first_key),
                count,
                largest: &upstream.largest[results..][..rows],
                shared: &upstream.shared[results..][..rows],
                weights: &mut buffers.weights[..rows * self.stride],
                scores: &mut buffers.scores[..rows * self.stride],
                stride: self.stride,
                differences: buffers.differences,
                kept: buffers.kept,
            });
            let [of_grads, of_queries, of_keys] = [
                (&buffers.grad_steps[grad_steps.clone()], rows, self.featured),
                (&buffers.query_steps[query_steps.clone()], rows, self.wide),
                (&buffers.key_steps[..], keys, self.wide),
            ]
            .map(|(data, steps, tiles)| Panels::packed(data, steps, tiles.columns()));
            let key_parts = |tiles: &TileFns<T>| -> Vec<Range<usize>> {
                even_parts(count, tiles.max_rows()).collect()
            };
            if features > 0 {
                block_in_place(
                    self.featured,
                    (buffers.weights, 1, &self.by_key),
                    &key_parts(self.featured),
                    (of_grads, 0, rows),
                    &mut TileMut::from_slice(buffers.of_value, keys, featured),
                    first_key,
                    first > 0,
                );
            }
            if width > 0 {
                block_in_place(
                    self.wide,
                    (buffers.scores, 1, &self.by_key),
                    &key_parts(self.wide),
                    (of_queries, 0, rows),
                    &mut TileMut::from_slice(buffers.of_key, keys, wide),
                    first_key,
                    first > 0,
                );
                block_in_place(
                    self.wide,
                    (buffers.scores, self.stride, &self.by_query),
                    &query_parts,
                    (of_keys, first_key, count),
                    &mut TileMut::from_slice(buffers.of_query, rows, wide),
                    0,
                    first_key > 0,
                );
            }
        }
        copy(buffers.of_query, width, self.wide.columns(), of_query);
    }
}

/// Adds +0 to a sum, or begins it.
fn add_zero<T: Number>(sums: &mut [T], begun: bool) {
    if begun {
        for sum in sums {
            *sum = sum.plus(T::ZERO);
        }
    } else {
        sums.fill(T::ZERO);
    }
}

/// Copies rows of `columns` elements out of rows of whole tiles of `tile` columns.
fn copy<T: Number>(from: &[T], columns: usize, tile: usize, out: &mut [T]) {
    if columns == 0 {
        return;
    }
    let rows = from.chunks_exact(columns.next_multiple_of(tile));
    for (from, out) in rows.zip(out.chunks_exact_mut(columns)) {
        for (out, &from) in out.iter_mut().zip(from) {
            *out = Real::canonical(from);
        }
    }
}

/// Turns the scores of a block into weights, and the gradients of the weights into those of the
/// scores.
struct Weigh<'a, T> {
    call: &'a Call<'a, T>,
    /// The matrix, the first query and the first key.
    place: (usize, usize, usize),
    /// The number of keys.
    count: usize,
    largest: &'a [T],
    shared: &'a [T],
    weights: &'a mut [T],
    scores: &'a mut [T],
    stride: usize,
    differences: &'a mut [T],
    /// Other than 0 for the keys that dropout keeps, for one query at a time.
    kept: &'a mut [u8],
}

impl<T: Number> Kernel for Weigh<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Weigh { call, count, stride, differences, kept, .. } = self;
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
