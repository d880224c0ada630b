//! The gradients over few keys.

use std::ops::Range;

use samebits_numerics::memory::{OutOfMemory, product};
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::geometry::AttentionSizes;

use super::{Hidden, exponentials, tiles_of_scores};
use crate::arch::{Finish, TileFns, TileMut};
use crate::attention::products::{
    InPlace, Pairs, Panels, are_few, block_in_place, columns_of, pack,
};
use crate::attention::sums::{Sums, buffer_len};
use crate::attention::{ATTENTION, Call, Matrices, Number, Upstream, finite, has_negative_zero};
use crate::error::Result;
use crate::gemm::scratch::Scratch;
use crate::gemm::{K_BLOCK, even_parts};
use crate::memory;

/// The tiles and tables of the gradients of a call.
pub(in crate::attention) struct Gradients<T: 'static> {
    sizes: AttentionSizes,
    /// The tiles of scores: rows are keys, columns are queries.
    scores: &'static TileFns<T>,
    /// The tiles of the gradient of the query: columns are the width.
    of_query: &'static TileFns<T>,
    /// The tiles of the gradient of the key: columns are the width.
    of_key: &'static TileFns<T>,
    /// The tiles of the gradient of the value: columns are the features.
    of_value: &'static TileFns<T>,
    /// The distance between keys in a block of scores.
    stride: usize,
    keys: InPlace,
    values: InPlace,
    /// A block of scores with queries as rows, for sums over keys.
    by_query: InPlace,
    /// A block of scores with keys as rows, for sums over queries.
    by_key: InPlace,
}

/// The buffers of one matrix.
struct Buffers<'a, T> {
    /// A block of queries or gradients as columns of scores.
    columns: &'a mut [T],
    /// Rows as steps of a product, if they cannot be read in place.
    steps: &'a mut [T],
    /// The weights and the gradients of the scores of a block.
    weights: &'a mut [T],
    scores: &'a mut [T],
    buffer: &'a mut [T],
    /// The gradients in whole tiles, where these do not fit into the results.
    of_query: &'a mut [T],
    of_key: &'a mut [T],
    of_value: &'a mut [T],
}

impl<T: Number> Gradients<T> {
    pub(in crate::attention) fn new(call: &Call<'_, T>) -> Gradients<T> {
        let sizes = call.sizes;
        let AttentionSizes { queries, keys, width, features, .. } = sizes;
        let kernels = T::kernels(simd::level());
        let rows = queries.min(K_BLOCK);
        let scores = tiles_of_scores(kernels, keys, rows, call.causal);
        let of_query = columns_of(kernels, rows, width);
        let of_key = columns_of(kernels, keys, width);
        let of_value = columns_of(kernels, keys, features);
        // Keys that are a power of two apart would compete for the same cache lines.
        let stride = rows.next_multiple_of(scores.columns()) + 64 / size_of::<T>();
        let in_place = |matrices: &Matrices<'_, T>, steps: usize| {
            let [row, step] = matrices.strides;
            InPlace::new(keys.min(scores.max_rows()), row, step, steps.min(K_BLOCK))
        };
        let most = keys.min(of_key.max_rows().max(of_value.max_rows()));
        Gradients {
            sizes,
            scores,
            of_query,
            of_key,
            of_value,
            stride,
            keys: in_place(&call.key, width),
            values: in_place(&call.value, features),
            by_query: InPlace::new(rows.min(of_query.max_rows()), 1, stride, keys),
            by_key: InPlace::new(most, stride, 1, rows),
        }
    }

    fn buffers<'s>(&self, scratch: &'s mut Scratch<T>) -> Result<Buffers<'s, T>, OutOfMemory> {
        let AttentionSizes { queries, keys, width, features, .. } = self.sizes;
        let rows = queries.min(K_BLOCK);
        let tiles = [
            (rows, self.of_key, width),
            (rows, self.of_value, features),
            (keys, self.of_query, width),
        ];
        let steps = tiles.into_iter().try_fold(0, |most: usize, (steps, tiles, columns)| {
            let columns = columns.checked_next_multiple_of(tiles.columns())?;
            Some(most.max(product(&[steps, columns])?))
        });
        let lens = [
            product(&[rows.next_multiple_of(self.scores.columns()), width.max(features)]),
            steps,
            product(&[keys, self.stride]),
            product(&[keys, self.stride]),
            product(&[2, keys, self.stride]),
            buffer_len(self.of_query, rows, width),
            buffer_len(self.of_key, keys, width),
            buffer_len(self.of_value, keys, features),
        ];
        let [columns, steps, weights, scores, buffer, of_query, of_key, of_value] =
            scratch.source.parts(lens)?;
        Ok(Buffers { columns, steps, weights, scores, buffer, of_query, of_key, of_value })
    }

    /// Computes the gradients of one matrix.
    pub(in crate::attention) fn run(
        &self,
        call: &Call<'_, T>,
        upstream: Upstream<'_, T>,
        matrix: usize,
        [of_query, of_key, of_value]: [&mut [T]; 3],
        scratch: &mut Scratch<T>,
    ) -> Result<()> {
        let AttentionSizes { queries, width, .. } = self.sizes;
        let buffers = &mut self.buffers(scratch).map_err(memory::named(ATTENTION))?;
        for first in (0..queries).step_by(K_BLOCK) {
            let rows = first..queries.min(first + K_BLOCK);
            let of_query = &mut of_query[first * width..rows.end * width];
            let outs = [&mut *of_query, &mut *of_key, &mut *of_value];
            self.block(call, upstream, (matrix, rows), buffers, outs);
        }
        Ok(())
    }

    /// Adds the shares of a block of queries to the gradients of keys and values, and computes the
    /// gradients of the queries.
    fn block(
        &self,
        call: &Call<'_, T>,
        upstream: Upstream<'_, T>,
        (matrix, queries): (usize, Range<usize>),
        buffers: &mut Buffers<'_, T>,
        [of_query, of_key, of_value]: [&mut [T]; 3],
    ) {
        let AttentionSizes { keys, width, features, .. } = self.sizes;
        let (begun, last) = (queries.start > 0, queries.end == self.sizes.queries);
        let (first, rows) = (queries.start, queries.len());
        let tile = self.scores.columns();
        let hidden = Hidden { first, causal: call.causal };
        for (source, rows_of, in_place, total, out) in [
            (&call.query, &call.key, &self.keys, width, &mut *buffers.weights),
            (&upstream.grad, &call.value, &self.values, features, &mut *buffers.scores),
        ] {
            let neighbours = source.strides[1] == 1 && rows_of.strides[1] == 1;
            if neighbours && are_few(keys, rows, total) {
                simd::dispatch(Pairs {
                    row: |key| rows_of.row(matrix, key),
                    column: |query| source.row(matrix, first + query),
                    counts: (keys, rows),
                    out,
                    stride: self.stride,
                });
                continue;
            }
            let columns = &mut buffers.columns[..rows.next_multiple_of(tile) * total];
            pack(source.rows(matrix, first), rows, total, tile, columns);
            let panels = Panels::packed(columns, total, tile);
            let parts: Vec<_> = even_parts(keys, self.scores.max_rows()).collect();
            let mut to = TileMut::from_slice(out, keys, self.stride);
            let [row_stride, step_stride] = rows_of.strides;
            let data = rows_of.from(matrix, 0);
            for step in (0..total).step_by(K_BLOCK) {
                let k = K_BLOCK.min(total - step);
                let a = (&data[step * step_stride..], row_stride, in_place);
                let finish = Finish { add: step > 0, last: false };
                let panels = (panels, step);
                block_in_place(self.scores, a, &parts, panels, &mut to, finish, |keys, query| {
                    if hidden.hides(keys, query..query + tile) { 0..0 } else { 0..k }
                });
            }
        }
        let results = matrix * self.sizes.queries + first;
        simd::dispatch(Weigh {
            weights: buffers.weights,
            scores: buffers.scores,
            buffer: buffers.buffer,
            stride: self.stride,
            hidden,
            largest: &upstream.largest[results..][..rows],
            shared: &upstream.shared[results..][..rows],
        });
        let panels = [
            (&upstream.grad, &*buffers.weights, self.of_value, features),
            (&call.query, &*buffers.scores, self.of_key, width),
        ];
        let sums = [(of_value, &mut *buffers.of_value), (of_key, &mut *buffers.of_key)];
        for ((source, scores, tiles, columns), (out, buffer)) in panels.into_iter().zip(sums) {
            let panels = steps(source, (matrix, first), (rows, columns), tiles, buffers.steps);
            let scores = (scores, self.stride, &self.by_key);
            let sums = Sums { tiles, out, columns, buffer, begun, last };
            // A sum that begins with +0 is +0 after products of +0 with finite numbers.
            let most = hidden.before(keys - 1, rows);
            let from_first = !finite(source, matrix, first..first + most);
            let before = |keys: &Range<usize>| {
                if from_first { 0 } else { hidden.before(keys.start, rows) }
            };
            sums.add(scores, (panels, 0), |keys| before(keys)..rows);
        }
        let (tiles, columns) = (self.of_query, width);
        let panels = steps(&call.key, (matrix, 0), (keys, columns), tiles, buffers.steps);
        let scores = (&*buffers.scores, 1, &self.by_query);
        let (out, buffer) = (of_query, &mut *buffers.of_query);
        let mut all = call.causal.is_none() || !finite(&call.key, matrix, call.seen(first)..keys);
        loop {
            let (out, buffer) = (&mut *out, &mut *buffer);
            let sums = Sums { tiles, out, columns, buffer, begun: false, last: true };
            sums.add(scores, (panels, 0), |rows| {
                0..if all { keys } else { call.seen(first + rows.end - 1) }
            });
            // The products that were left out may turn −0 into +0.
            if all || !has_negative_zero(out, columns, columns) {
                return;
            }
            all = true;
        }
    }
}

/// Returns rows of a matrix as steps of a product: in place, or packed.
fn steps<'a, T: Number>(
    source: &Matrices<'a, T>,
    (matrix, first): (usize, usize),
    (rows, columns): (usize, usize),
    tiles: &TileFns<T>,
    packed: &'a mut [T],
) -> Panels<'a, T> {
    let tile = tiles.columns();
    if source.fits_tiles(matrix, 1, tile) {
        let steps = (rows, source.strides[0]);
        return Panels::in_place(source.from(matrix, first), (columns, tile), steps);
    }
    let packed = &mut packed[..rows * columns.next_multiple_of(tile)];
    pack(source.columns(matrix, first), columns, rows, tile, packed);
    Panels::packed(packed, rows, tile)
}

/// Turns the scores of a block, keys by queries, into weights, and the gradients of the weights into
/// those of the scores.
struct Weigh<'a, T> {
    weights: &'a mut [T],
    scores: &'a mut [T],
    /// Twice as many elements as `weights` has.
    buffer: &'a mut [T],
    stride: usize,
    hidden: Hidden,
    largest: &'a [T],
    shared: &'a [T],
}

impl<T: Number> Kernel for Weigh<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Weigh { weights, scores, buffer, stride, hidden, largest, shared } = self;
        let queries = largest.len();
        let start = |key| hidden.vectors_before::<T>(key, queries);
        exponentials(weights, stride, largest, buffer, start);
        let rows = weights.chunks_exact_mut(stride).zip(scores.chunks_exact_mut(stride));
        for (key, (weights, scores)) in rows.enumerate() {
            let (start, hidden) = (start(key), hidden.before(key, queries));
            weights[..hidden].fill(T::ZERO);
            let products = scores[start..].iter_mut().zip(&weights[start..queries]);
            for ((score, &weight), &shared) in products.zip(&shared[start..]) {
                *score = weight * (*score - shared);
            }
            scores[..hidden].fill(T::ZERO);
        }
    }
}
