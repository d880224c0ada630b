//! Scaled dot-product attention with memory that grows with the sequence, not with its square.

use bytemuck::Zeroable;
use samebits_rng::Draw;
use samebits_tensor_core::geometry::AttentionSizes;

use crate::Variant;
use crate::device::{Device, Float, expect_len, product};
use crate::error::{CudaError, Result};
use crate::launch::declared::attention::RawAttention;
use crate::launch::declared::random::RawDraw;
use crate::launch::kernels::{attention as kernels, attention_grad as grad_kernels};
use crate::launch::{Buffer, Launch};
use crate::matmul::Matrix;
use crate::random::below;
use crate::reduce::grid;

const ATTENTION: &str = "scaled_dot_product_attention";

/// The number of weights whose sum is one number of the next level of the tree.
const TREE_BLOCK: usize = 4096;

/// The threads of a block.
const THREADS: (u32, u32, u32) = (256, 1, 1);

/// The arguments of an attention; all have as many matrices as the sizes say.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a, T> {
    /// The sizes.
    pub sizes: AttentionSizes,
    /// The scaled queries, queries by width.
    pub query: Matrix<'a, T>,
    /// Keys by width.
    pub key: Matrix<'a, T>,
    /// Keys by features.
    pub value: Matrix<'a, T>,
    /// Numbers to add to the scores, queries by keys; −∞ excludes a key.
    pub added: Option<Matrix<'a, T>>,
    /// Other than 0 for excluded keys, queries by keys.
    pub hidden: Option<Matrix<'a, u8>>,
    /// Excludes keys after `i + offset` for query `i`.
    pub causal: Option<usize>,
    /// Drops weights after they are summed, if there is one.
    pub dropout: Option<Dropout<'a>>,
}

/// Drops weight number i, in row-major order of matrices, queries and keys, as [`Draw::dropout`] drops
/// element i.
#[derive(Clone, Copy, Debug)]
pub struct Dropout<'a> {
    /// The draw.
    pub draw: &'a Draw,
    /// The probability of dropping a weight.
    pub p: f64,
}

/// The averages of an attention, count by queries by features, and for each query the largest score
/// and the sum of the exponentials.
#[derive(Debug)]
pub struct Averages<T> {
    /// The averages.
    pub out: Buffer<T>,
    /// The largest scores.
    pub largest: Buffer<T>,
    /// The sums.
    pub sums: Buffer<T>,
}

/// The gradients and numbers of the forward pass that [`attention_grad`] needs.
#[derive(Clone, Copy, Debug)]
pub struct Upstream<'a, T> {
    /// The gradient of the averages, divided by the sums; queries by features.
    pub grad: Matrix<'a, T>,
    /// The sum of `grad` times the averages of each query.
    pub shared: &'a Buffer<T>,
    /// The largest score of each query.
    pub largest: &'a Buffer<T>,
}

/// A call whose arguments have been checked.
struct Checked<'a, T> {
    call: Call<'a, T>,
    starts: Buffer<u64>,
    /// An argument that is not read without a mask of truth values.
    none: Buffer<u8>,
    raw: RawAttention,
}

impl<'a, T: Float> Checked<'a, T> {
    fn new(
        device: &Device,
        call: &Call<'a, T>,
        grad: Option<Matrix<'_, T>>,
    ) -> Result<Checked<'a, T>> {
        let AttentionSizes { count, queries, keys, width, features } = call.sizes;
        let mut starts = Vec::new();
        let mut strides = Vec::new();
        for (what, matrix, rows, columns) in [
            ("the query", Some(call.query), queries, width),
            ("the key", Some(call.key), keys, width),
            ("the value", Some(call.value), keys, features),
            ("the gradient", grad, queries, features),
            ("the mask of numbers", call.added, queries, keys),
        ] {
            push(what, matrix, [count, rows, columns], &mut starts, &mut strides)?;
        }
        let hidden = ("the mask of truth values", call.hidden);
        push(hidden.0, hidden.1, [count, queries, keys], &mut starts, &mut strides)?;
        let seen = call.causal.map_or(keys, |offset| offset.saturating_add(1).min(keys));
        let [
            (query_row, query_column),
            (key_row, key_column),
            (value_row, value_column),
            (grad_row, grad_column),
            (added_row, added_column),
            (hidden_row, hidden_column),
        ] = strides[..]
        else {
            return Err(CudaError::invalid(ATTENTION, "expected the strides of six matrices"));
        };
        let dropout = call.dropout;
        let (last, any) = dropout.map_or(Ok((0, 0)), |dropout| below(ATTENTION, dropout.p))?;
        let draw = dropout.map(|dropout| RawDraw::new(dropout.draw));
        let RawDraw { seed, stream, first } = draw.unwrap_or(RawDraw::zeroed());
        if dropout.is_some() {
            product(ATTENTION, &[count, queries, keys])?;
        }
        let raw = RawAttention {
            count,
            queries,
            keys,
            width,
            features,
            seen,
            has_added: usize::from(call.added.is_some()),
            has_hidden: usize::from(call.hidden.is_some()),
            query_row,
            query_column,
            key_row,
            key_column,
            value_row,
            value_column,
            grad_row,
            grad_column,
            added_row,
            added_column,
            hidden_row,
            hidden_column,
            dropout: usize::from(dropout.is_some()),
            seed,
            stream,
            first,
            last: last as usize,
            any: any as usize,
            scale: dropout.map_or(1.0, |Dropout { p, .. }| match p {
                1.0 => 0.0,
                p => 1.0 / (1.0 - p),
            }),
        };
        let (starts, none) = (device.upload(&starts)?, device.zeros_for(ATTENTION, 1)?);
        Ok(Checked { call: *call, starts, none, raw })
    }

    /// Returns the masks, or arguments in their place that are not read.
    fn masks(&self) -> (&Buffer<T>, &Buffer<u8>) {
        let added = self.call.added.map_or(self.call.query.data, |added| added.data);
        (added, self.call.hidden.map_or(&self.none, |hidden| hidden.data))
    }

    /// Returns the number of blocks of threads of which each computes a tile of `rows` rows by
    /// `columns` columns.
    fn blocks(&self, rows: usize, columns: usize) -> Result<usize> {
        let side = side::<T>();
        product(ATTENTION, &[self.raw.count, rows.div_ceil(side), columns.div_ceil(side)])
    }
}

/// Returns the number of rows, and of columns, of a block of threads.
fn side<T: Float>() -> usize {
    if T::WIDE { 32 } else { 64 }
}

fn push<T>(
    what: &str,
    matrix: Option<Matrix<'_, T>>,
    [count, rows, columns]: [usize; 3],
    starts: &mut Vec<u64>,
    strides: &mut Vec<(usize, usize)>,
) -> Result<()> {
    let Some(matrix) = matrix else {
        starts.resize(starts.len() + count, 0);
        strides.push((0, 0));
        return Ok(());
    };
    if matrix.offsets.len() != count {
        let message = format!("expected {count} matrices of {what}, got {}", matrix.offsets.len());
        return Err(CudaError::invalid(ATTENTION, message));
    }
    matrix.check(ATTENTION, what, rows, columns)?;
    starts.extend(matrix.offsets.iter().map(|&start| start as u64));
    strides.push((matrix.row, matrix.column));
    Ok(())
}

/// Computes attention.
///
/// # Determinism
///
/// Portable, with the bits of the composition under *Attention* in `docs/book/numerics.md`. One pass
/// finds the largest scores, the next computes the scores again, their exponentials, the sums and the
/// averages, in tiles that depend on sizes alone.
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if a matrix reaches outside its buffer or the batches differ.
pub fn attention<T: Float>(device: &Device, call: &Call<'_, T>) -> Result<Averages<T>> {
    let checked = Checked::new(device, call, None)?;
    let AttentionSizes { count, queries, keys, features, .. } = call.sizes;
    let rows = product(ATTENTION, &[count, queries])?;
    let mut averages = Averages {
        out: device.uninitialised(ATTENTION, product(ATTENTION, &[rows, features])?)?,
        largest: device.uninitialised(ATTENTION, rows)?,
        sums: device.uninitialised(ATTENTION, rows)?,
    };
    let (query, key, value) = (call.query.data, call.key.data, call.value.data);
    let ((added, hidden), starts, p) = (checked.masks(), &checked.starts, checked.raw);
    let blocks = (grid(ATTENTION, checked.blocks(queries, 1)?)?, 1, 1);
    let Averages { out, largest, sums } = &mut averages;
    kernels::AttentionLargest { largest, query, key, value, added, hidden, starts, p }
        .grid(device, ATTENTION, blocks, THREADS)?;
    let blocks = checked.blocks(queries, features.max(1))?;
    let partials = product(ATTENTION, &[blocks, side::<T>(), keys.div_ceil(TREE_BLOCK)])?;
    let partials = &mut device.uninitialised(ATTENTION, partials)?;
    let blocks = (grid(ATTENTION, blocks)?, 1, 1);
    kernels::AttentionAverage {
        out,
        sums,
        partials,
        largest,
        query,
        key,
        value,
        added,
        hidden,
        starts,
        p,
    }
    .grid(device, ATTENTION, blocks, THREADS)?;
    Ok(averages)
}

/// Computes the gradients of query, key and value, each with the sizes of its matrices.
///
/// # Determinism
///
/// Deterministic: as [`attention`]; one pass computes the gradients of keys and values, the next those
/// of the queries. Atomic, for f32 only: one pass, in which shares of the gradients of the queries are
/// added by float atomics in the order of arrival.
///
/// # Errors
///
/// As [`attention`], and [`CudaError::Length`].
pub fn attention_grad<T: Float>(
    device: &Device,
    call: &Call<'_, T>,
    upstream: Upstream<'_, T>,
    variant: Variant,
) -> Result<[Buffer<T>; 3]> {
    let checked = Checked::new(device, call, Some(upstream.grad))?;
    let AttentionSizes { count, queries, keys, width, features } = call.sizes;
    let rows = product(ATTENTION, &[count, queries])?;
    expect_len(ATTENTION, "the shared gradient", upstream.shared, rows)?;
    expect_len(ATTENTION, "the largest scores", upstream.largest, rows)?;
    let lens = [[count, queries, width], [count, keys, width], [count, keys, features]];
    let empty = queries == 0 || keys == 0;
    let buffer = |place: usize, clear: bool| {
        let len = product(ATTENTION, &lens[place])?;
        if empty || clear {
            device.zeros_for(ATTENTION, len)
        } else {
            device.uninitialised(ATTENTION, len)
        }
    };
    let atomic = variant == Variant::Atomic;
    let mut outs = [buffer(0, atomic)?, buffer(1, false)?, buffer(2, false)?];
    if empty {
        return Ok(outs);
    }
    let (query, key, value) = (call.query.data, call.key.data, call.value.data);
    let ((added, hidden), starts, p) = (checked.masks(), &checked.starts, checked.raw);
    let Upstream { grad, shared, largest } = upstream;
    let grad = grad.data;
    let blocks = (grid(ATTENTION, checked.blocks(keys, width.max(features))?)?, 1, 1);
    let [of_query, of_key, of_value] = &mut outs;
    if atomic {
        grad_kernels::AttentionGradsAtomic {
            of_query,
            of_key,
            of_value,
            grad,
            shared,
            largest,
            query,
            key,
            value,
            added,
            hidden,
            starts,
            p,
        }
        .grid(device, ATTENTION, blocks, THREADS)?;
        return Ok(outs);
    }
    grad_kernels::AttentionKeys {
        of_key,
        of_value,
        grad,
        shared,
        largest,
        query,
        key,
        value,
        added,
        hidden,
        starts,
        p,
    }
    .grid(device, ATTENTION, blocks, THREADS)?;
    let blocks = (grid(ATTENTION, checked.blocks(queries, width)?)?, 1, 1);
    grad_kernels::AttentionQueries {
        of_query,
        grad,
        shared,
        largest,
        query,
        key,
        value,
        added,
        hidden,
        starts,
        p,
    }
    .grid(device, ATTENTION, blocks, THREADS)?;
    Ok(outs)
}
