//! The gradients of query, key and value.

use std::ops::Range;

use samebits_numerics::memory::{OutOfMemory, product};
use samebits_numerics::simd;
use samebits_tensor_core::geometry::AttentionSizes;

use super::products::{InPlace, Panels, columns_of, pack, packed_len, rows_by_columns};
use super::sums::{Sums, buffer_len};
use super::{
    ATTENTION, Call, Number, Upstream, expect_matrices, finite, narrow, single, thin, weigh, whole,
};
use crate::arch::{Offsets, TileFns, TileMut};
use crate::error::{Result, expect_len, expect_size};
use crate::gemm::scratch::Scratch;
use crate::gemm::{K_BLOCK, even_parts};
use crate::{memory, parallel};

/// The number of queries, and of keys, of a block of scores: the sums over both run in blocks of
/// this length, so a block of scores holds whole chains. The widths of tiles divide it.
const BLOCK: usize = K_BLOCK;
/// The largest number of tiles of queries whose products read keys in place.
const PARTS: usize = 2;

/// The number of multiplications of a matrix of scores that take as long as one element of other
/// work.
const PRODUCTS_OF_ELEMENT: usize = 16;

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
    if single::suits_gradients(call, &upstream) {
        return single::gradients(call, upstream, [of_query, of_key, of_value]);
    }
    let products =
        [count, queries, keys, width + features].into_iter().fold(1, usize::saturating_mul);
    let work = products / PRODUCTS_OF_ELEMENT;
    let outs = [(of_query, queries * width), (of_key, keys * width), (of_value, keys * features)];
    if narrow::suits(call) {
        let plan = narrow::Gradients::new(call);
        return parallel::try_parts(ATTENTION, count, work, outs, |matrix, outs| {
            T::with_scratch(|scratch| plan.run(call, upstream, matrix, outs, scratch))
        });
    }
    if thin::suits_gradients(call, &upstream) {
        return parallel::try_parts(ATTENTION, count, work, outs, |matrix, outs| {
            T::with_scratch(|scratch| thin::gradients(call, upstream, matrix, outs, scratch))
        });
    }
    let plan = Plan::<T>::new(call.sizes);
    parallel::try_parts(ATTENTION, count, work, outs, |matrix, outs| {
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
    /// The number of keys whose columns and gradients are held: those of a block if there is one block
    /// of queries, so that each is needed once.
    held: usize,
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
    /// The gradients in whole tiles, where these do not fit into the results.
    of_query: &'a mut [T],
    of_key: &'a mut [T],
    of_value: &'a mut [T],
}

impl<T: Number> Plan<T> {
    fn new(sizes: AttentionSizes) -> Plan<T> {
        let AttentionSizes { queries, keys, width, features, .. } = sizes;
        let kernels = T::kernels(simd::level());
        let scores = kernels.fitting(queries.min(BLOCK), keys.min(BLOCK));
        let wide = columns_of(kernels, queries.min(keys).min(BLOCK), width);
        let featured = columns_of(kernels, keys.min(BLOCK), features);
        let stride = keys.min(BLOCK).next_multiple_of(scores.columns()) + 64 / size_of::<T>();
        let most = wide.max_rows().max(featured.max_rows());
        Plan {
            sizes,
            scores,
            wide,
            featured,
            held: if queries <= BLOCK { keys.min(BLOCK) } else { keys },
            stride,
            steps: Offsets::linear(K_BLOCK, scores.columns()),
            by_query: InPlace::new(most, stride, 1, K_BLOCK),
            by_key: InPlace::new(most, 1, stride, K_BLOCK),
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
            packed_len(self.held, width, tile),
            packed_len(self.held, features, tile),
            packed_len(width, self.held, wide),
            packed_len(width, block, wide),
            packed_len(features, block, featured),
            product(&[block, width.max(features).min(K_BLOCK)]),
            product(&[block, self.stride]),
            product(&[block, self.stride]),
            Some(whole::<T>(keys.min(BLOCK))),
            buffer_len(self.wide, block, width),
            buffer_len(self.wide, self.held, width),
            buffer_len(self.featured, self.held, features),
        ];
        let [a, b, c, d, e, f, g, h, i, j, k, l] = scratch.source.parts(lens)?;
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
        let AttentionSizes { queries, keys, width, .. } = self.sizes;
        let kept = &mut memory::filled(ATTENTION, call.kept_len(keys.min(BLOCK)), 0)?;
        let buffers = &mut self.buffers(scratch, kept).map_err(memory::named(ATTENTION))?;
        if self.held == keys {
            self.hold(call, (matrix, 0..keys), buffers);
        }
        let finite_keys: Vec<bool> = (0..keys)
            .step_by(BLOCK)
            .map(|key| {
                let block = key..keys.min(key + BLOCK);
                call.causal.is_some() && finite(&call.key, matrix, block)
            })
            .collect();
        for first in (0..queries).step_by(BLOCK) {
            let rows = first..queries.min(first + BLOCK);
            let of_query = &mut of_query[first * width..rows.end * width];
            let outs = [&mut *of_query, &mut *of_key, &mut *of_value];
            self.block(call, upstream, (matrix, rows), &finite_keys, buffers, outs);
        }
        Ok(())
    }

    /// Packs some keys and values of a matrix.
    fn hold(
        &self,
        call: &Call<'_, T>,
        (matrix, keys): (usize, Range<usize>),
        buffers: &mut Buffers<'_, T>,
    ) {
        let AttentionSizes { width, features, .. } = self.sizes;
        let (tile, count) = (self.scores.columns(), keys.len());
        for (source, steps, columns) in [
            (&call.key, width, &mut *buffers.key_columns),
            (&call.value, features, &mut *buffers.value_columns),
        ] {
            let columns = &mut columns[..count.next_multiple_of(tile) * steps];
            pack(source.rows(matrix, keys.start), count, steps, tile, columns);
        }
        if !self.keys_in_place(call, matrix) {
            let columns = self.wide.columns();
            let steps = &mut buffers.key_steps[..count * width.next_multiple_of(columns)];
            pack(call.key.columns(matrix, keys.start), width, count, columns, steps);
        }
    }

    /// Returns true if keys are read in place as steps of a product: too few tiles repay a copy.
    fn keys_in_place(&self, call: &Call<'_, T>, matrix: usize) -> bool {
        let tiles = self.wide;
        self.sizes.queries <= PARTS * tiles.max_rows()
            && call.key.fits_tiles(matrix, 1, tiles.columns())
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
        [of_query, of_key, of_value]: [&mut [T]; 3],
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
        for (block, first_key) in (0..keys).step_by(BLOCK).enumerate() {
            let count = BLOCK.min(keys - first_key);
            // The place of the block among the keys that are held.
            let at = if self.held == keys { first_key } else { 0 };
            let hidden = first_key >= call.seen(queries.end - 1);
            let skipped = hidden && finite_rows && finite_keys[block];
            if self.held < keys && !skipped {
                self.hold(call, (matrix, first_key..first_key + count), buffers);
            }
            let (begun, last) = (first > 0, queries.end == self.sizes.queries);
            let [of_value, of_key] = [
                (self.featured, features, &mut *of_value, &mut *buffers.of_value),
                (self.wide, width, &mut *of_key, &mut *buffers.of_key),
            ]
            .map(|(tiles, columns, out, buffer)| {
                let len = buffer_len(tiles, 1, columns).unwrap_or(0);
                let out = &mut out[first_key * columns..][..count * columns];
                let buffer = &mut buffer[at * len..][..count * len];
                Sums { tiles, out, columns, buffer, begun, last }
            });
            let of_query = Sums {
                tiles: self.wide,
                out: &mut *of_query,
                columns: width,
                buffer: &mut *buffers.of_query,
                begun: first_key > 0,
                last: first_key + count == keys,
            };
            if skipped {
                // The sums of the block are +0.
                [of_query, of_key, of_value].into_iter().for_each(Sums::add_zero);
                continue;
            }
            let wanted =
                |part: &Range<usize>, key: usize| first_key + key < call.seen(first + part.end - 1);
            let tile = self.scores.columns();
            let panels = |steps: usize| at * steps..(at + count.next_multiple_of(tile)) * steps;
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
            simd::dispatch(weigh::Backward {
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
            let [of_grads, of_queries] = [
                (&buffers.grad_steps[grad_steps.clone()], self.featured),
                (&buffers.query_steps[query_steps.clone()], self.wide),
            ]
            .map(|(data, tiles)| Panels::packed(data, rows, tiles.columns()));
            let tile = self.wide.columns();
            let of_keys = if self.keys_in_place(call, matrix) {
                let data = call.key.from(matrix, first_key - at);
                Panels::in_place(data, (width, tile), (self.held, call.key.strides[0]))
            } else {
                let held = if self.held == keys { keys } else { count };
                let data = &buffers.key_steps[..held * width.next_multiple_of(tile)];
                Panels::packed(data, held, tile)
            };
            of_value.add((buffers.weights, 1, &self.by_key), (of_grads, 0), |_| 0..rows);
            of_key.add((buffers.scores, 1, &self.by_key), (of_queries, 0), |_| 0..rows);
            let scores = (&*buffers.scores, self.stride, &self.by_query);
            of_query.add(scores, (of_keys, at), |_| 0..count);
        }
    }
}
