//! The averages of the values.

use std::ops::Range;

use samebits_numerics::memory::OutOfMemory;
use samebits_numerics::simd;
use samebits_tensor_core::geometry::AttentionSizes;

use super::products::{
    InPlace, Panels, block_in_place, columns_of, pack, packed_len, rows_by_columns, rows_by_lanes,
};
use super::strips::{Divide, Strip, in_parallel, strips};
use super::weigh::{self, rows_together};
use super::{ATTENTION, Call, Groups, Number, finite, has_negative_zero, narrow, single, thin};
use crate::arch::{Finish, Offsets, TileFns, TileMut};
use crate::error::{Result, expect_size};
use crate::gemm::scratch::Scratch;
use crate::gemm::{K_BLOCK, Row, even_parts};
use crate::{memory, parallel};

/// The largest number of bytes of a strip: a usual second-level cache. In smaller strips, long keys and
/// values are read more often from a further one.
const STRIP_BYTES: usize = 1 << 20;
/// The number of bytes of keys and values that are packed before they are used.
const PACKED_BYTES: usize = 1 << 20;
/// The number of queries of a strip, if it is not too large.
const STRIP_ROWS: usize = 64;
/// The number of copied elements that justifies the hand-over to another thread.
const COPIES: usize = 1 << 16;
/// The largest number of queries whose products read keys in place, if tiles can: more repay a copy
/// in the order of the tiles.
const FEW: usize = 8;
/// The largest number of tiles of queries whose products read values in place.
const PARTS: usize = 2;

/// Computes attention: the averages of the values, count by queries by features; the largest score
/// of each query; and the sum of its exponentials.
///
/// # Determinism
///
/// See the [module](super). Memory beside the results is that of keys and values of a few matrices, and
/// a strip of scores for each thread. Keys that the causal mask excludes are left out if this changes no bit:
/// if their values are finite, only a −0 could become +0, and a strip with a −0 is computed again
/// with all keys.
///
/// # Errors
///
/// [`Error`](crate::Error) if an argument does not have the sizes, or memory runs out.
pub fn attention<T: Number>(
    call: &Call<'_, T>,
    out: &mut [T],
    largest: &mut [T],
    sums: &mut [T],
) -> Result<()> {
    let AttentionSizes { count, queries, keys, width, features } = call.sizes;
    call.check()?;
    expect_size(ATTENTION, "out", out.len(), &[count, queries, features])?;
    expect_size(ATTENTION, "largest", largest.len(), &[count, queries])?;
    expect_size(ATTENTION, "sums", sums.len(), &[count, queries])?;
    if count == 0 || queries == 0 {
        return Ok(());
    }
    if single::suits(call) {
        single::averages(call, out, largest, sums);
        return Ok(());
    }
    if narrow::suits(call) {
        let plan = narrow::Plan::new(call);
        let strips = &mut strips(call.sizes, plan.rows, out, largest, sums)?;
        return in_parallel(call.sizes, plan.rows, strips, |strip| {
            T::with_scratch(|scratch| plan.run(call, strip, scratch))
        });
    }
    if thin::suits(call) {
        return thin::averages(call, out, largest, sums);
    }
    let plan = Plan::<T>::new(call.sizes);
    let groups = Groups::new(call)?;
    let too_large = memory::named(ATTENTION);
    let (of_keys, of_values) = (plan.scores.columns(), plan.averages.columns());
    // Each matrix has keys of its own and one strip, which packs what it needs by itself.
    let alone = queries <= plan.rows && groups.first.len() == count;
    let keys_in_place = queries <= FEW && call.key.in_tiles(0, of_keys);
    let keys_by_lanes = !keys_in_place && (alone || thin::by_rows(call, queries));
    let few_parts = queries <= PARTS * plan.averages.max_rows();
    let values_in_place = few_parts && call.value.in_tiles(1, of_values);
    let len = |unpacked: bool, lanes, steps, width| match unpacked {
        true => Some(0),
        false => packed_len(lanes, steps, width),
    };
    let key_len = len(keys_in_place || keys_by_lanes, keys, width, of_keys);
    let value_len = len(values_in_place || alone, features, keys, of_values);
    let Some((key_len, value_len)) = key_len.zip(value_len) else {
        return Err(too_large(OutOfMemory { bytes: usize::MAX }));
    };
    let finite_from = match call.causal {
        Some(_) if call.seen(0) < keys => parallel::items(0..groups.first.len())
            .at_least(COPIES / (keys * features).max(1))
            .collect(ATTENTION, |group| finite_from(call, groups.first[group]))?,
        _ => Vec::new(),
    };
    let strips = &mut strips(call.sizes, plan.rows, out, largest, sums)?;
    let strips_of_matrix = queries.div_ceil(plan.rows);
    let key_step = if keys_in_place { call.key.strides[1] } else { of_keys };
    let tables = Tables::new(&plan, key_step);
    let together = groups_together::<T>(key_len.saturating_add(value_len)).min(groups.first.len());
    T::with_scratch(|scratch| {
        let Scratch { a, b, .. } = scratch;
        let named = |error| memory::named(ATTENTION)(error);
        let packed_keys = a.slice(&[together, key_len]).map_err(named)?;
        let packed_values = b.slice(&[together, value_len]).map_err(named)?;
        let mut strips = &mut strips[..];
        for (batch, matrices) in groups.first.chunks(together).enumerate() {
            if key_len > 0 {
                let packed =
                    parallel::chunks_mut(&mut packed_keys[..matrices.len() * key_len], key_len);
                packed.at_least(COPIES / key_len).enumerate().for_each(|(i, out)| {
                    pack(call.key.rows(matrices[i], 0), keys, width, of_keys, out);
                });
            }
            if value_len > 0 {
                let packed = parallel::chunks_mut(
                    &mut packed_values[..matrices.len() * value_len],
                    value_len,
                );
                packed.at_least(COPIES / value_len).enumerate().for_each(|(i, out)| {
                    pack(call.value.columns(matrices[i], 0), features, keys, of_values, out);
                });
            }
            let first = batch * together;
            let end = groups.first.get(first + together).copied().unwrap_or(count);
            let (now, later) = strips.split_at_mut((end - matrices[0]) * strips_of_matrix);
            strips = later;
            let (packed_keys, packed_values) = (&*packed_keys, &*packed_values);
            in_parallel(call.sizes, plan.rows, now, |strip| {
                let (matrix, group) = (strip.matrix, groups.of[strip.matrix]);
                let operands = Operands {
                    keys: if keys_in_place {
                        let data = call.key.from(matrix, 0);
                        Some(Panels::in_place(data, (keys, of_keys), (width, key_step)))
                    } else if keys_by_lanes {
                        None
                    } else {
                        let data = &packed_keys[(group - first) * key_len..][..key_len];
                        Some(Panels::packed(data, width, of_keys))
                    },
                    values: if few_parts && call.value.fits_tiles(matrix, 1, of_values) {
                        let steps = (keys, call.value.strides[0]);
                        let data = call.value.from(matrix, 0);
                        Some(Panels::in_place(data, (features, of_values), steps))
                    } else if alone {
                        None
                    } else {
                        let data = &packed_values[(group - first) * value_len..][..value_len];
                        Some(Panels::packed(data, keys, of_values))
                    },
                    finite_from: finite_from.get(group).copied().unwrap_or(0),
                };
                T::with_scratch(|scratch| plan.run(call, strip, operands, &tables, scratch))
            })?;
        }
        Ok(())
    })
}

/// Returns the number of groups of matrices that are packed before their strips are computed: a few,
/// so that what is packed stays in a cache, and enough for all threads.
fn groups_together<T>(packed: usize) -> usize {
    match packed.saturating_mul(size_of::<T>()) {
        0 => usize::MAX,
        bytes => (PACKED_BYTES / bytes).max(parallel::threads()),
    }
}

/// Returns the number of the first keys after which all values are finite.
fn finite_from<T: Number>(call: &Call<'_, T>, matrix: usize) -> usize {
    let (keys, value) = (call.sizes.keys, &call.value);
    // All at once, since most values are finite.
    if finite(value, matrix, 0..keys) {
        return 0;
    }
    (0..keys).rev().find(|&key| !finite(value, matrix, key..key + 1)).map_or(0, |key| key + 1)
}

struct Plan<T: 'static> {
    sizes: AttentionSizes,
    scores: &'static TileFns<T>,
    averages: &'static TileFns<T>,
    /// The number of queries of a strip.
    rows: usize,
    /// The distance between rows of a strip.
    stride: usize,
    /// The distance between rows of averages.
    out_stride: usize,
}

struct Tables {
    /// The steps of keys.
    steps: Offsets,
    /// The strip, as rows of a product.
    strip: InPlace,
}

impl Tables {
    fn new<T: Number>(plan: &Plan<T>, key_step: usize) -> Tables {
        let most = plan.averages.max_rows().min(plan.sizes.queries);
        Tables {
            steps: Offsets::linear(plan.sizes.width.min(K_BLOCK), key_step),
            strip: InPlace::new(most, plan.stride, 1, K_BLOCK),
        }
    }
}

/// The keys and values of a matrix.
#[derive(Clone, Copy)]
struct Operands<'a, T> {
    /// The keys in tiles; without, they are read row by row, or packed tile by tile.
    keys: Option<Panels<'a, T>>,
    /// The values in tiles; without, they are packed.
    values: Option<Panels<'a, T>>,
    /// From this key on all values are finite.
    finite_from: usize,
}

impl<T: Number> Plan<T> {
    fn new(sizes: AttentionSizes) -> Plan<T> {
        let AttentionSizes { queries, keys, features, .. } = sizes;
        let kernels = T::kernels(simd::level());
        let most = queries.min(STRIP_ROWS);
        let scores = kernels.fitting(most, keys.max(1));
        let averages = columns_of(kernels, most, features);
        // Rows that are a power of two apart would compete for the same cache lines.
        let stride = keys.next_multiple_of(scores.columns()) + 64 / size_of::<T>();
        let fitting = STRIP_BYTES / size_of::<T>() / stride;
        let tile = scores.max_rows();
        let rows = (fitting.min(STRIP_ROWS) / tile * tile).max(tile);
        let out_stride = features.next_multiple_of(averages.columns());
        Plan { sizes, scores, averages, rows, stride, out_stride }
    }

    fn run(
        &self,
        call: &Call<'_, T>,
        strip: Strip<'_, T>,
        operands: Operands<'_, T>,
        tables: &Tables,
        scratch: &mut Scratch<T>,
    ) -> Result<()> {
        let AttentionSizes { keys, width, features, .. } = self.sizes;
        let named = |error| memory::named(ATTENTION)(error);
        let Scratch { a, b, tile, source, wide } = scratch;
        let (rows, first) = (strip.sums.len(), strip.first);
        let scores = source.slice(&[rows, self.stride]).map_err(named)?;
        let (together, longest) = rows_together::<T>(keys);
        let buffer = b.slice(&[2, together, longest]).map_err(named)?;
        let found = tile.slice(&[rows, self.out_stride]).map_err(named)?;
        let seen = call.seen(first + rows - 1);
        if width == 0 {
            scores.fill(T::ZERO);
        } else if keys > 0 && operands.keys.is_none() && thin::by_rows(call, rows) {
            for (row, scores) in scores.chunks_exact_mut(self.stride).enumerate() {
                let a = call.query.rows(strip.matrix, first + row);
                let b = call.key.rows(strip.matrix, 0);
                let out = &mut scores[..call.seen(first + row)];
                simd::dispatch(Row { a, b, k: width, out });
            }
        } else if keys > 0 {
            let packed = a.slice(&[rows, width.min(K_BLOCK)]).map_err(named)?;
            let parts: Vec<_> = even_parts(rows, self.scores.max_rows()).collect();
            let query = call.query.rows(strip.matrix, first);
            let mut to = TileMut::from_slice(scores, rows, self.stride);
            let wanted = |part: &Range<usize>, key: usize| key < call.seen(first + part.end - 1);
            let (tiles, steps) = (self.scores, &tables.steps);
            if let Some(panels) = operands.keys {
                rows_by_columns(tiles, query, &parts, panels, steps, packed, &mut to, wanted);
            } else {
                let panel = [width.min(K_BLOCK), tiles.columns()];
                let panel = wide.slice(&panel).map_err(named)?;
                let columns = (call.key.rows(strip.matrix, 0), seen, width);
                rows_by_lanes(
                    tiles,
                    query,
                    &parts,
                    columns,
                    steps,
                    (packed, panel),
                    &mut to,
                    wanted,
                );
            }
        }
        let mut used = if call.causal.is_some() { seen.max(operands.finite_from) } else { keys };
        let mut kept = memory::filled(ATTENTION, call.kept_len(keys), 0)?;
        simd::dispatch(weigh::Forward {
            call,
            first: strip.matrix * self.sizes.queries + first,
            largest: strip.largest,
            sums: &mut *strip.sums,
            scores,
            stride: self.stride,
            buffer,
            used,
            kept: &mut kept,
        });
        if features == 0 {
            return Ok(());
        }
        let parts: Vec<_> = even_parts(rows, self.averages.max_rows()).collect();
        let values = if let Some(values) = operands.values {
            values
        } else {
            let columns = self.averages.columns();
            let packed = wide.slice(&[self.out_stride, keys]).map_err(named)?;
            pack(call.value.columns(strip.matrix, 0), features, keys, columns, packed);
            Panels::packed(packed, keys, columns)
        };
        loop {
            if used == 0 {
                found.fill(T::ZERO);
            }
            let mut to = TileMut::from_slice(found, rows, self.out_stride);
            for key in (0..used).step_by(K_BLOCK) {
                let k = K_BLOCK.min(used - key);
                let strip = (&scores[key..], self.stride, &tables.strip);
                let finish = Finish { add: key > 0, last: false };
                let all = |_: &Range<usize>, _| 0..k;
                block_in_place(self.averages, strip, &parts, (values, key), &mut to, finish, all);
            }
            let zero = simd::dispatch(Divide {
                found,
                stride: self.out_stride,
                features,
                sums: strip.sums,
                out: strip.out,
            });
            if used == keys || !zero || !has_negative_zero(found, self.out_stride, features) {
                return Ok(());
            }
            // The products that were left out may turn −0 into +0.
            for row in scores.chunks_exact_mut(self.stride) {
                row[used..keys].fill(T::ZERO);
            }
            used = keys;
        }
    }
}
