//! Attention over few keys: the lanes of vectors are queries, so that they are full however few keys
//! there are, and the maxima and sums of many queries go through the keys together.
//!
//! What a causal mask hides is left out where that changes no bit: whole vectors of scores, and the
//! products of weights of +0 with finite numbers.

mod backward;

use std::array;
use std::ops::Range;

use samebits_numerics::reduce::LANES;
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::geometry::AttentionSizes;

use super::products::{InPlace, Pairs, Panels, are_few, block_in_place, columns_of, pack};
use super::strips::{Divide, Strip};
use super::{ATTENTION, Call, Number, finite, has_negative_zero, vector, whole};
use crate::arch::{Finish, Kernels, TileFns, TileMut};
use crate::error::Result;
use crate::gemm::scratch::Scratch;
use crate::gemm::{K_BLOCK, Real, even_parts};
use crate::memory;

pub(super) use backward::Gradients;

/// The largest number of keys.
const KEYS: usize = 64;
/// The number of queries whose scores are computed together.
const ROWS: usize = 64;
/// The number of queries whose sums go through the keys together.
const SUMS: usize = 8;

/// Returns true if lanes should be queries.
pub(super) fn suits<T: Number>(call: &Call<'_, T>) -> bool {
    let AttentionSizes { queries, keys, width, features, .. } = call.sizes;
    let plain = !call.is_masked() && call.dropout.is_none();
    plain && width > 0 && features > 0 && (1..=KEYS).contains(&keys) && keys <= 4 * queries
}

/// The tiles and tables of the averages of a call.
pub(super) struct Plan<T: 'static> {
    sizes: AttentionSizes,
    /// The tiles of scores: rows are keys, columns are queries.
    scores: &'static TileFns<T>,
    averages: &'static TileFns<T>,
    /// The number of queries of a strip.
    pub(super) rows: usize,
    /// The distance between keys in a strip.
    stride: usize,
    /// The distance between rows of averages.
    out_stride: usize,
    key_parts: Vec<Range<usize>>,
    keys: InPlace,
    /// The weights of a strip, as rows of a product.
    weights: InPlace,
}

impl<T: Number> Plan<T> {
    pub(super) fn new(call: &Call<'_, T>) -> Plan<T> {
        let sizes = call.sizes;
        let AttentionSizes { queries, keys, width, features, .. } = sizes;
        let kernels = T::kernels(simd::level());
        let rows = queries.min(ROWS);
        let scores = tiles_of_scores(kernels, keys, rows, call.causal);
        let averages = columns_of(kernels, rows, features);
        let stride = rows.next_multiple_of(scores.columns()).next_multiple_of(SUMS);
        let [key_stride, step_stride] = call.key.strides;
        let most = keys.min(scores.max_rows());
        Plan {
            sizes,
            scores,
            averages,
            rows,
            stride,
            out_stride: features.next_multiple_of(averages.columns()),
            key_parts: even_parts(keys, scores.max_rows()).collect(),
            keys: InPlace::new(most, key_stride, step_stride, width.min(K_BLOCK)),
            weights: InPlace::new(rows.min(averages.max_rows()), 1, stride, keys),
        }
    }

    /// Computes a strip of averages.
    pub(super) fn run(
        &self,
        call: &Call<'_, T>,
        strip: Strip<'_, T>,
        scratch: &mut Scratch<T>,
    ) -> Result<()> {
        let AttentionSizes { keys, width, features, .. } = self.sizes;
        let named = |error| memory::named(ATTENTION)(error);
        let Scratch { a, b, tile, source, wide } = scratch;
        let Strip { matrix, first, out, largest, sums } = strip;
        let rows = sums.len();
        let columns = self.scores.columns();
        let queries = a.slice(&[rows.next_multiple_of(columns), width]).map_err(named)?;
        let scores = source.slice(&[keys, self.stride]).map_err(named)?;
        let buffer = b.slice(&[2, keys, self.stride]).map_err(named)?;
        let found = tile.slice(&[rows, self.out_stride]).map_err(named)?;
        let hidden = Hidden { first, causal: call.causal };
        let neighbours = call.query.strides[1] == 1 && call.key.strides[1] == 1;
        if neighbours && are_few(keys, rows, width) {
            simd::dispatch(Pairs {
                row: |key| call.key.row(matrix, key),
                column: |query| call.query.row(matrix, first + query),
                counts: (keys, rows),
                out: &mut *scores,
                stride: self.stride,
            });
        } else {
            pack(call.query.rows(matrix, first), rows, width, columns, queries);
            let panels = Panels::packed(queries, width, columns);
            let mut to = TileMut::from_slice(scores, keys, self.stride);
            let [key_stride, step_stride] = call.key.strides;
            for step in (0..width).step_by(K_BLOCK) {
                let k = K_BLOCK.min(width - step);
                let keys =
                    (&call.key.from(matrix, 0)[step * step_stride..], key_stride, &self.keys);
                let finish = Finish { add: step > 0, last: false };
                let (parts, panels) = (&self.key_parts, (panels, step));
                block_in_place(self.scores, keys, parts, panels, &mut to, finish, |keys, query| {
                    if hidden.hides(keys, query..query + columns) { 0..0 } else { 0..k }
                });
            }
        }
        simd::dispatch(Weigh {
            scores,
            buffer,
            stride: self.stride,
            hidden,
            largest,
            sums: &mut *sums,
        });
        let columns = self.averages.columns();
        let values = if call.value.fits_tiles(matrix, 1, columns) {
            let steps = (keys, call.value.strides[0]);
            Panels::in_place(call.value.from(matrix, 0), (features, columns), steps)
        } else {
            let packed = wide.slice(&[self.out_stride, keys]).map_err(named)?;
            pack(call.value.columns(matrix, 0), features, keys, columns, packed);
            Panels::packed(packed, keys, columns)
        };
        let parts: Vec<_> = even_parts(rows, self.averages.max_rows()).collect();
        let seen = |rows: &Range<usize>| call.seen(first + rows.end - 1);
        let mut all = call.causal.is_none() || !finite(&call.value, matrix, seen(&parts[0])..keys);
        loop {
            let mut to = TileMut::from_slice(found, rows, self.out_stride);
            let weights = (&*scores, 1, &self.weights);
            let finish = Finish { add: false, last: false };
            let used = |rows: &Range<usize>, _| 0..if all { keys } else { seen(rows) };
            block_in_place(self.averages, weights, &parts, (values, 0), &mut to, finish, used);
            let zero = simd::dispatch(Divide {
                found: &*found,
                stride: self.out_stride,
                features,
                sums: &*sums,
                out: &mut *out,
            });
            if all || !zero || !has_negative_zero(found, self.out_stride, features) {
                return Ok(());
            }
            // The products that were left out may turn −0 into +0.
            all = true;
        }
    }
}

/// The queries that do not see a key.
#[derive(Clone, Copy)]
struct Hidden {
    /// The first query.
    first: usize,
    causal: Option<usize>,
}

impl Hidden {
    /// Returns the number of queries from the first one on, at most `all`, that do not see a key.
    #[inline(always)]
    fn before(self, key: usize, all: usize) -> usize {
        let Hidden { first, causal } = self;
        causal.map_or(0, |offset| key.saturating_sub(offset).saturating_sub(first).min(all))
    }

    /// Returns as [`before`](Self::before), less those that share a vector with one that sees the key.
    #[inline(always)]
    fn vectors_before<T>(self, key: usize, all: usize) -> usize {
        let before = self.before(key, all);
        before - before % vector::<T>()
    }

    /// Returns how many of [`SUMS`] queries from number `at` on do not see a key: the first ones.
    #[inline(always)]
    fn among(self, key: usize, at: usize) -> usize {
        self.before(key, at + SUMS).saturating_sub(at)
    }

    /// Returns true if none of some queries, counted from the first one, sees one of some keys.
    fn hides(self, keys: &Range<usize>, queries: Range<usize>) -> bool {
        self.before(keys.start, queries.end) == queries.end
    }
}

/// Returns the tiles of scores, whose rows are keys and whose columns are queries: narrow ones if a causal
/// mask hides tiles.
fn tiles_of_scores<T: Number>(
    kernels: &Kernels<T>,
    keys: usize,
    queries: usize,
    causal: Option<usize>,
) -> &'static TileFns<T> {
    match causal {
        Some(_) if keys > kernels.lanes() => kernels.with_vectors(1),
        _ => kernels.fitting(keys, queries),
    }
}

/// Replaces scores, keys by queries, with exponentials, and finds the largest score and the sum of
/// each query.
struct Weigh<'a, T> {
    scores: &'a mut [T],
    /// Twice as many elements as `scores` has.
    buffer: &'a mut [T],
    stride: usize,
    hidden: Hidden,
    largest: &'a mut [T],
    sums: &'a mut [T],
}

impl<T: Number> Kernel for Weigh<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Weigh { scores, buffer, stride, hidden, largest, sums } = self;
        let queries = largest.len();
        for (at, largest) in (0..).step_by(SUMS).zip(largest.chunks_mut(SUMS)) {
            let mut best = [T::LOWEST; SUMS];
            for (key, scores) in scores.chunks_exact_mut(stride).enumerate() {
                let scores = lanes_from(scores, at);
                overwrite(scores, hidden.among(key, at), T::LOWEST);
                for (best, &score) in best.iter_mut().zip(&*scores) {
                    // NaN wins, and the first of equal scores.
                    let replaces = (score > *best) | score.is_nan();
                    *best = if replaces { score } else { *best };
                }
            }
            largest.copy_from_slice(&best.map(Real::canonical)[..largest.len()]);
        }
        let keys = scores.len() / stride;
        let start = |key| hidden.vectors_before::<T>(key, queries);
        exponentials(scores, stride, largest, buffer, start);
        for (at, sums) in (0..).step_by(SUMS).zip(sums.chunks_mut(SUMS)) {
            // Lane `l` of the tree of each query. Exponentials are no −0, so +0 need not be added.
            let mut lanes = [[0.0f64; SUMS]; LANES];
            for (key, scores) in scores.chunks_exact_mut(stride).enumerate() {
                let scores = lanes_from(scores, at);
                overwrite(scores, hidden.among(key, at), T::ZERO);
                // Whole arrays are read and written, else single elements are.
                let (terms, mut lane) = (scores.map(Into::into), lanes[key % LANES]);
                for i in 0..SUMS {
                    let term: f64 = terms[i];
                    lane[i] += term;
                }
                lanes[key % LANES] = lane;
            }
            for width in [16, 8, 4, 2, 1] {
                for l in 0..keys.saturating_sub(width).min(width) {
                    let (low, high) = lanes.split_at_mut(width);
                    for (low, &high) in low[l].iter_mut().zip(&high[l]) {
                        *low += high;
                    }
                }
            }
            for (sum, &total) in sums.iter_mut().zip(&lanes[0]) {
                let total = T::from_f64(total);
                *sum = if total == T::ZERO { T::ONE } else { Real::canonical(total) };
            }
        }
    }
}

/// Returns the scores of some queries from number `at` on.
#[inline(always)]
fn lanes_from<T>(scores: &mut [T], at: usize) -> &mut [T; SUMS] {
    scores[at..].first_chunk_mut().expect("the distance between keys is a multiple")
}

/// Replaces the first scores with a value.
#[inline(always)]
fn overwrite<T: Copy>(scores: &mut [T; SUMS], count: usize, value: T) {
    if count > 0 {
        for (i, score) in scores.iter_mut().enumerate() {
            *score = if i < count { value } else { *score };
        }
    }
}

/// Replaces scores, keys by queries, with `exp(score − largest)`, for the queries from `start(key)` on.
/// `buffer` has twice as many elements as `scores`.
#[inline(always)]
fn exponentials<T: Number>(
    scores: &mut [T],
    stride: usize,
    largest: &[T],
    buffer: &mut [T],
    start: impl Fn(usize) -> usize,
) {
    let queries = largest.len();
    let length = |key| whole::<T>(queries).min(stride) - start(key);
    let (differences, found) = buffer.split_at_mut(scores.len());
    // One row after the other, because the function works in blocks.
    let mut end = 0;
    for (key, scores) in scores.chunks_exact(stride).enumerate() {
        let start = start(key);
        let differences = &mut differences[end..][..length(key)];
        end += differences.len();
        let (now, rest) = differences.split_at_mut(queries - start);
        let (blocks, end) = now.as_chunks_mut::<SUMS>();
        let (scores, last_scores) = scores[start..queries].as_chunks::<SUMS>();
        let (largest, last) = largest[start..].as_chunks::<SUMS>();
        for ((differences, scores), largest) in blocks.iter_mut().zip(scores).zip(largest) {
            *differences = array::from_fn(|i| scores[i] - largest[i]);
        }
        for ((difference, &score), &best) in end.iter_mut().zip(last_scores).zip(last) {
            *difference = score - best;
        }
        rest.fill(T::ZERO);
    }
    if end == scores.len() {
        return T::exp_each(differences, scores);
    }
    let found = &mut found[..end];
    T::exp_each(&differences[..end], found);
    let (mut found, _) = found.as_chunks::<SUMS>();
    for (key, scores) in scores.chunks_exact_mut(stride).enumerate() {
        let (now, later) = found.split_at(length(key) / SUMS);
        let (scores, _) = scores[start(key)..].as_chunks_mut::<SUMS>();
        for (score, &found) in scores.iter_mut().zip(now) {
            *score = found;
        }
        found = later;
    }
}
