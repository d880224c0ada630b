//! The gradients of query, key and value.

use std::ops::Range;

use parking_lot::Mutex;
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
    let threads = parallel::threads();
    if count < 2 * threads && !count.is_multiple_of(threads) && queries.min(keys) > BLOCK {
        let plan = Plan::<T>::new(call.sizes, BLOCK);
        return plan.by_diagonals(call, upstream, outs.map(|(out, _)| out));
    }
    let held = if queries <= BLOCK { keys.min(BLOCK) } else { keys };
    let plan = Plan::<T>::new(call.sizes, held);
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
    /// The number of keys whose columns are held: those of a block if they are not needed by the next
    /// block of queries.
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
}

/// Rows of a gradient, and as many rows of whole tiles if these do not fit there.
struct Part<'a, T> {
    out: &'a mut [T],
    buffer: &'a mut [T],
}

/// A block of queries and a block of keys.
struct Pair<'a> {
    matrix: usize,
    queries: Range<usize>,
    keys: Range<usize>,
    /// The place of the keys among those that are held.
    at: usize,
    /// For each block of keys, true if the causal mask may leave it out.
    finite_keys: &'a [bool],
    finite_queries: bool,
}

/// Cuts rows of `len` elements, of `count` matrices, and their buffers into blocks of [`BLOCK`] rows.
fn blocks<'a, T>(
    out: &'a mut [T],
    buffer: &'a mut [T],
    (count, rows): (usize, usize),
    [len, buffer_len]: [usize; 2],
) -> Result<Vec<Mutex<Part<'a, T>>>> {
    let mut blocks = memory::with_capacity(ATTENTION, count * rows.div_ceil(BLOCK))?;
    let (mut out, mut buffer) = (out, buffer);
    for _ in 0..count {
        for first in (0..rows).step_by(BLOCK) {
            let rows = BLOCK.min(rows - first);
            let part = Part {
                out: out.split_off_mut(..rows * len).expect("all rows"),
                buffer: buffer.split_off_mut(..rows * buffer_len).expect("all rows"),
            };
            blocks.push(Mutex::new(part));
        }
    }
    Ok(blocks)
}

impl<T: Number> Plan<T> {
    fn new(sizes: AttentionSizes, held: usize) -> Plan<T> {
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
            held,
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
    ) -> Result<(Buffers<'s, T>, [&'s mut [T]; 3]), OutOfMemory> {
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
        let buffers = Buffers {
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
        };
        Ok((buffers, [j, k, l]))
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
        let (mut buffers, [query_sums, key_sums, value_sums]) =
            self.buffers(scratch, kept).map_err(memory::named(ATTENTION))?;
        let buffers = &mut buffers;
        if self.held == keys {
            self.hold(call, (matrix, 0..keys), buffers);
        }
        let finite_keys = &self.finite_keys(call, matrix)[..];
        let [key_len, value_len] = self.buffer_rows();
        for first in (0..queries).step_by(BLOCK) {
            let queries = first..queries.min(first + BLOCK);
            let finite_queries = self.pack_queries(call, upstream, (matrix, &queries), buffers);
            for first_key in (0..keys).step_by(BLOCK) {
                let keys = first_key..keys.min(first_key + BLOCK);
                // The place of the block among the keys that are held.
                let at = if self.held == self.sizes.keys { first_key } else { 0 };
                let rows = |len: usize| keys.start * len..keys.end * len;
                let held = |len: usize| at * len..(at + keys.len()) * len;
                let outs = [
                    Part {
                        out: &mut of_query[queries.start * width..queries.end * width],
                        buffer: &mut *query_sums,
                    },
                    Part { out: &mut of_key[rows(width)], buffer: &mut key_sums[held(key_len)] },
                    Part {
                        out: &mut of_value[rows(features)],
                        buffer: &mut value_sums[held(value_len)],
                    },
                ];
                let queries = queries.clone();
                let pair = Pair { matrix, queries, keys, at, finite_keys, finite_queries };
                self.pair(call, upstream, pair, buffers, outs);
            }
        }
        Ok(())
    }

    /// Computes the gradients of few matrices on all threads: pairs of blocks on one diagonal have no
    /// block in common, and each block meets the others in ascending order.
    fn by_diagonals(
        &self,
        call: &Call<'_, T>,
        upstream: Upstream<'_, T>,
        [of_query, of_key, of_value]: [&mut [T]; 3],
    ) -> Result<()> {
        let AttentionSizes { count, queries, keys, width, features } = self.sizes;
        let [key_len, value_len] = self.buffer_rows();
        let buffer = |rows: usize, len: usize| {
            let len = memory::volume(ATTENTION, &[count, rows, len])?;
            memory::zeroed::<T>(ATTENTION, len)
        };
        let mut buffers =
            [buffer(queries, key_len)?, buffer(keys, key_len)?, buffer(keys, value_len)?];
        let [query_sums, key_sums, value_sums] = &mut buffers;
        let of_query = blocks(of_query, query_sums, (count, queries), [width, key_len])?;
        let of_key = blocks(of_key, key_sums, (count, keys), [width, key_len])?;
        let of_value = blocks(of_value, value_sums, (count, keys), [features, value_len])?;
        let mut finite_keys = memory::with_capacity(ATTENTION, count)?;
        finite_keys.extend((0..count).map(|matrix| self.finite_keys(call, matrix)));
        let (down, across) = (queries.div_ceil(BLOCK), keys.div_ceil(BLOCK));
        for diagonal in 0..down + across - 1 {
            let first = (diagonal + 1).saturating_sub(across);
            let several = (diagonal + 1).min(down) - first;
            parallel::items(0..count * several).at_most(1).try_for_each(|task| {
                let (matrix, query) = (task / several, first + task % several);
                let key = diagonal - query;
                let block =
                    |block: usize, size: usize| block * BLOCK..size.min((block + 1) * BLOCK);
                let (queries, keys) = (block(query, queries), block(key, keys));
                let kept = &mut memory::filled(ATTENTION, call.kept_len(keys.len()), 0)?;
                let mut query_part = of_query[matrix * down + query].lock();
                let mut key_part = of_key[matrix * across + key].lock();
                let mut value_part = of_value[matrix * across + key].lock();
                let outs = [&mut query_part, &mut key_part, &mut value_part].map(|part| {
                    let Part { out, buffer } = &mut **part;
                    Part { out, buffer }
                });
                T::with_scratch(|scratch| {
                    let (mut buffers, _) =
                        self.buffers(scratch, kept).map_err(memory::named(ATTENTION))?;
                    let buffers = &mut buffers;
                    let finite_queries =
                        self.pack_queries(call, upstream, (matrix, &queries), buffers);
                    let finite_keys = &finite_keys[matrix][..];
                    let pair = Pair { matrix, queries, keys, at: 0, finite_keys, finite_queries };
                    self.pair(call, upstream, pair, buffers, outs);
                    Ok(())
                })
            })?;
        }
        Ok(())
    }

    /// Returns for each block of keys if the causal mask may leave it out.
    fn finite_keys(&self, call: &Call<'_, T>, matrix: usize) -> Vec<bool> {
        let keys = self.sizes.keys;
        let blocks = (0..keys).step_by(BLOCK).map(|key| key..keys.min(key + BLOCK));
        let is_finite = |block| call.causal.is_some() && finite(&call.key, matrix, block);
        blocks.map(is_finite).collect()
    }

    /// Returns the numbers of elements of the buffers for a row of the gradients of query or key, and
    /// of value.
    fn buffer_rows(&self) -> [usize; 2] {
        let AttentionSizes { width, features, .. } = self.sizes;
        [(self.wide, width), (self.featured, features)]
            .map(|(tiles, columns)| buffer_len(tiles, 1, columns).unwrap_or(0))
    }

    /// Packs a block of queries and its gradients as steps; returns true if the causal mask may leave
    /// it out.
    fn pack_queries(
        &self,
        call: &Call<'_, T>,
        upstream: Upstream<'_, T>,
        (matrix, queries): (usize, &Range<usize>),
        buffers: &mut Buffers<'_, T>,
    ) -> bool {
        let AttentionSizes { width, features, .. } = self.sizes;
        let (rows, first) = (queries.len(), queries.start);
        let (wide, featured) = (self.wide.columns(), self.featured.columns());
        // The last block may have fewer rows than the buffers.
        let steps = &mut buffers.query_steps[..rows * width.next_multiple_of(wide)];
        pack(call.query.columns(matrix, first), width, rows, wide, steps);
        let steps = &mut buffers.grad_steps[..rows * features.next_multiple_of(featured)];
        pack(upstream.grad.columns(matrix, first), features, rows, featured, steps);
        call.causal.is_some()
            && finite(&call.query, matrix, queries.clone())
            && finite(&upstream.grad, matrix, queries.clone())
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

    /// Adds the shares of a pair of blocks to the gradients of its queries, keys and values.
    fn pair(
        &self,
        call: &Call<'_, T>,
        upstream: Upstream<'_, T>,
        Pair { matrix, queries, keys, at, finite_keys, finite_queries }: Pair<'_>,
        buffers: &mut Buffers<'_, T>,
        [of_query, of_key, of_value]: [Part<'_, T>; 3],
    ) {
        let AttentionSizes { width, features, .. } = self.sizes;
        let (rows, first) = (queries.len(), queries.start);
        let (count, first_key) = (keys.len(), keys.start);
        let (wide, featured) = (self.wide.columns(), self.featured.columns());
        let query_steps = 0..rows * width.next_multiple_of(wide);
        let grad_steps = 0..rows * features.next_multiple_of(featured);
        let score_parts: Vec<_> = even_parts(rows, self.scores.max_rows()).collect();
        let hidden = first_key >= call.seen(queries.end - 1);
        let skipped = hidden && finite_queries && finite_keys[first_key / BLOCK];
        if self.held < self.sizes.keys && !skipped {
            self.hold(call, (matrix, keys.clone()), buffers);
        }
        let sums = |tiles, columns, Part { out, buffer }, begun, last| Sums {
            tiles,
            out,
            columns,
            buffer,
            begun,
            last,
        };
        let (begun, last) = (first > 0, queries.end == self.sizes.queries);
        let of_value = sums(self.featured, features, of_value, begun, last);
        let of_key = sums(self.wide, width, of_key, begun, last);
        let (begun, last) = (first_key > 0, keys.end == self.sizes.keys);
        let of_query = sums(self.wide, width, of_query, begun, last);
        if skipped {
            // The sums of the block are +0.
            [of_query, of_key, of_value].into_iter().for_each(Sums::add_zero);
            return;
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
            let held = if self.held == self.sizes.keys { self.held } else { count };
            let data = &buffers.key_steps[..held * width.next_multiple_of(tile)];
            Panels::packed(data, held, tile)
        };
        of_value.add((buffers.weights, 1, &self.by_key), (of_grads, 0), |_| 0..rows);
        of_key.add((buffers.scores, 1, &self.by_key), (of_queries, 0), |_| 0..rows);
        let scores = (&*buffers.scores, self.stride, &self.by_query);
        of_query.add(scores, (of_keys, at), |_| 0..count);
    }
}
