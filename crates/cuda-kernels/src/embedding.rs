//! Rows of a table: `embedding`, `embedding_bag` and their gradients. The forward pass of
//! `embedding` is [`index_select`](crate::scatter::index_select).

use crate::launch::declared::embedding::RawBags;
use crate::launch::declared::scatter::RawSegments;
use crate::launch::kernels::{embedding as kernels, scatter};
use crate::launch::{Buffer, Launch};

use samebits_tensor_core::geometry::BagBounds;

use crate::Variant;
use crate::device::{Device, Float, expect_len, product};
use crate::error::{CudaError, Result};
use crate::scatter::{Rows, Summed};
use crate::segments::{LongSegments, Order, Segments};

/// Computes the gradient of a table.
///
/// Row `r` is the sum of the gradients of the places that hold `r`; with `scale_grad_by_freq` it is
/// then divided by their number. The row `padding_idx` gets no gradient.
///
/// # Shapes
///
/// `grad: [n, width]`, `index: [n]`; returns `[rows, width]`.
///
/// # Determinism
///
/// Deterministic: for f32 the sum is exact and rounded once; for f64 the gradients are added in
/// ascending order of places. Atomic, for f32 only: float additions in the order of arrival.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for [`Variant::Atomic`] of f64;
/// [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn embedding_grad<T: Summed + Float>(
    device: &Device,
    grad: &Buffer<T>,
    index: &Buffer<i64>,
    [rows, width]: [usize; 2],
    padding_idx: Option<usize>,
    scale_grad_by_freq: bool,
    variant: Variant,
) -> Result<Buffer<T>> {
    let op = "embedding";
    let n = index.len();
    expect_len(op, "the gradient", grad, product(op, &[n, width])?)?;
    let mut out = device.uninitialised::<T>(op, product(op, &[rows, width])?)?;
    let keys = keys(device, op, index, rows, padding_idx)?;
    let mut reports = device.reports();
    let shape = Rows { outer: 1, size: rows, n, inner: width };
    let one = T::from_f64(1.0);
    let how = (variant, true);
    T::add_rows(device, op, &mut out, &keys, grad, shape, one, how, reports.ignored())?;
    if scale_grad_by_freq {
        by_count(device, op, &mut out, &keys, [n, rows, width], reports.ignored())?;
    }
    Ok(out)
}

pub use samebits_tensor_core::ops::BagMode;

/// Rows of a table, grouped into bags.
#[derive(Debug)]
pub struct Bags {
    keys: Buffer<i64>,
    starts: Buffer<u64>,
    rows: usize,
    count: usize,
    places: usize,
}

impl Bags {
    /// Checks and returns bags over the rows `index` of a table of `rows` rows. Places that hold
    /// `padding_idx`, and those after the last bag, belong to no bag.
    ///
    /// # Errors
    ///
    /// [`CudaError::Length`] if the bags have more or fewer places than the index;
    /// [`CudaError::InvalidArgument`] if there are 2^32 bags or more;
    /// [`CudaError::IndexOutOfRange`] at the next synchronisation.
    pub fn new(
        device: &Device,
        op: &'static str,
        rows: usize,
        index: &Buffer<i64>,
        bounds: &BagBounds,
        padding_idx: Option<usize>,
    ) -> Result<Bags> {
        let (count, places) = (bounds.len(), bounds.total());
        expect_len(op, "the index", index, places)?;
        if u32::try_from(count).is_err() {
            return Err(CudaError::invalid(op, "more than 2^32 - 1 bags"));
        }
        let keys = keys_of(device, op, index, places, rows, padding_idx)?;
        let starts = device.upload(bounds.bounds())?;
        Ok(Bags { keys, starts, rows, count, places })
    }

    /// Returns the number of bags.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of places, including those that hold the padding row.
    pub fn places(&self) -> usize {
        self.places
    }

    fn raw(&self, width: usize, mean: bool, weighted: bool) -> RawBags {
        RawBags {
            rows: self.rows,
            width,
            bags: self.count,
            places: self.places,
            mean: u32::from(mean),
            weighted: u32::from(weighted),
        }
    }
}

/// Computes one row per bag. An empty bag gives +0.
///
/// # Shapes
///
/// `table: [rows, width]`, `weights: [places]` for [`BagMode::Sum`] only; returns
/// `[bags, width]`.
///
/// # Determinism
///
/// Portable: rows are added in ascending order of places in f64 from +0 (each times its weight,
/// rounded to f64), divided by their number in f64 for a mean, and rounded once.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for weights with a mean, and for
/// [`BagMode::Max`].
pub fn embedding_bag<T: Float>(
    device: &Device,
    table: &Buffer<T>,
    width: usize,
    bags: &Bags,
    mode: BagMode,
    weights: Option<&Buffer<T>>,
) -> Result<Buffer<T>> {
    let op = "embedding_bag";
    expect_len(op, "the table", table, product(op, &[bags.rows, width])?)?;
    check_weights(op, bags, mode, weights)?;
    let n = product(op, &[bags.count, width])?;
    let mut out = device.uninitialised(op, n)?;
    kernels::EmbeddingBag {
        out: &mut out,
        table,
        keys: &bags.keys,
        starts: &bags.starts,
        weights: weights.unwrap_or(table),
        p: bags.raw(width, mode == BagMode::Mean, weights.is_some()),
    }
    .threads(device, op, n)?;
    Ok(out)
}

/// Computes the largest element of each bag's columns and the row it came from, or +0 and −1 for an
/// empty bag.
///
/// # Shapes
///
/// `table: [rows, width]`; returns two of `[bags, width]`.
///
/// # Determinism
///
/// Portable: ties go to the first place, and NaN counts as the largest.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn embedding_bag_max<T: Float>(
    device: &Device,
    table: &Buffer<T>,
    width: usize,
    bags: &Bags,
) -> Result<(Buffer<T>, Buffer<i64>)> {
    let op = "embedding_bag";
    expect_len(op, "the table", table, product(op, &[bags.rows, width])?)?;
    let n = product(op, &[bags.count, width])?;
    let mut out = device.uninitialised(op, n)?;
    let mut rows = device.uninitialised(op, n)?;
    kernels::EmbeddingBagMax {
        out: &mut out,
        max_rows: &mut rows,
        table,
        keys: &bags.keys,
        starts: &bags.starts,
        p: bags.raw(width, false, false),
    }
    .threads(device, op, n)?;
    Ok((out, rows))
}

/// Computes the gradient of the table of [`embedding_bag`].
///
/// Row `r` is the sum of the bags' gradients over the places that hold it. A gradient is first
/// multiplied with the place's weight and rounded, if there are weights; for a mean, it is divided
/// by the bag's size and rounded. With `scale_grad_by_freq` the sum is then divided by the number
/// of places that hold `r`.
///
/// # Shapes
///
/// `grad: [bags, width]`; returns `[rows, width]`.
///
/// # Determinism
///
/// Deterministic: for f32 the sum is exact and rounded once; for f64 the gradients are added in
/// ascending order of places. Atomic, for f32 only: float additions in the order of arrival.
///
/// # Errors
///
/// As [`embedding_bag`].
pub fn embedding_bag_grad<T: Summed + Float>(
    device: &Device,
    grad: &Buffer<T>,
    width: usize,
    bags: &Bags,
    mode: BagMode,
    weights: Option<&Buffer<T>>,
    scale_grad_by_freq: bool,
    variant: Variant,
) -> Result<Buffer<T>> {
    let op = "embedding_bag";
    expect_len(op, "the gradient", grad, product(op, &[bags.count, width])?)?;
    check_weights(op, bags, mode, weights)?;
    let raw = bags.raw(width, mode == BagMode::Mean, weights.is_some());
    let (bag, factor) = places(device, op, bags, weights, raw)?;
    let n = product(op, &[bags.rows, width])?;
    let mut out = device.zeros_for::<T>(op, n)?;
    let mut reports = device.reports();
    if variant == Variant::Atomic {
        kernels::EmbeddingBagGradAtomic {
            out: &mut out,
            grad,
            bag: &bag,
            factor: &factor,
            keys: &bags.keys,
            p: raw,
        }
        .threads(device, op, product(op, &[bags.places, width])?)?;
    } else {
        let report = reports.ignored();
        let (sizes, order) = ([bags.places, bags.rows], Order::of_sums::<T>());
        let segments = Segments::new(device, op, &bags.keys, sizes, order, report)?;
        let mut long = LongSegments::new::<T>(device, op, &segments)?;
        let Segments { positions, ends, counts, .. } = &segments;
        let (bag, factor) = (&bag, &factor);
        kernels::EmbeddingBagGradRows {
            out: &mut out,
            grad,
            bag,
            factor,
            positions,
            ends,
            counts,
            cursor: &mut long.cursor,
            long_rows: &mut long.rows,
            firsts: &mut long.firsts,
            p: raw,
        }
        .threads(device, op, n)?;
        let outputs = RawSegments {
            columns: width,
            inner: width,
            plane: bags.rows,
            image_step: 0,
            place_step: width,
            slab_step: 0,
        };
        long.sum(device, op, &mut out, outputs, false, |acc, threads| {
            kernels::EmbeddingBagGradPieces {
                acc,
                grad,
                bag,
                factor,
                positions,
                ends,
                counts,
                cursor: &long.cursor,
                long_rows: &long.rows,
                firsts: &long.firsts,
                p: raw,
            }
            .threads(device, op, threads)
        })?;
    }
    if scale_grad_by_freq {
        let shape = [bags.places, bags.rows, width];
        by_count(device, op, &mut out, &bags.keys, shape, reports.ignored())?;
    }
    Ok(out)
}

/// Computes the gradient of the table of [`embedding_bag_max`].
///
/// # Shapes
///
/// `grad` and `max_rows: [bags, width]`; returns `[rows, width]`.
///
/// # Determinism
///
/// As [`embedding_bag_grad`].
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn embedding_bag_max_grad<T: Summed + Float>(
    device: &Device,
    grad: &Buffer<T>,
    max_rows: &Buffer<i64>,
    [rows, width]: [usize; 2],
    variant: Variant,
) -> Result<Buffer<T>> {
    let op = "embedding_bag";
    let n = grad.len();
    expect_len(op, "the rows of the maxima", max_rows, n)?;
    let size = product(op, &[rows, width])?;
    let mut out = device.uninitialised::<T>(op, size)?;
    let mut keys = device.uninitialised::<i64>(op, n)?;
    let mut reports = device.reports();
    kernels::BagMaxKeys { keys: &mut keys, max_rows, n, width, rows, status: reports.noted() }
        .threads(device, op, n)?;
    reports.collect(device, op, max_rows, rows)?;
    let shape = Rows { outer: 1, size, n, inner: 1 };
    let one = T::from_f64(1.0);
    let how = (variant, true);
    T::add_rows(device, op, &mut out, &keys, grad, shape, one, how, reports.ignored())?;
    Ok(out)
}

/// Computes the gradient of the weights of [`embedding_bag`]: the scalar product of the bag's
/// gradient and the place's row; +0 at padding.
///
/// # Shapes
///
/// `grad: [bags, width]`, `table: [rows, width]`; returns `[places]`.
///
/// # Determinism
///
/// Portable: products and sum in f64 over the contract's tree, rounded once.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn embedding_bag_weight_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    table: &Buffer<T>,
    width: usize,
    bags: &Bags,
    total: usize,
) -> Result<Buffer<T>> {
    let op = "embedding_bag_weights";
    expect_len(op, "the gradient", grad, product(op, &[bags.count, width])?)?;
    expect_len(op, "the table", table, product(op, &[bags.rows, width])?)?;
    let raw = bags.raw(width, false, false);
    let (bag, _) = places::<T>(device, op, bags, None, raw)?;
    let mut out = device.zeros_for::<T>(op, total.max(bags.places))?;
    kernels::EmbeddingBagWeightGrad {
        out: &mut out,
        grad,
        table,
        bag: &bag,
        keys: &bags.keys,
        p: raw,
    }
    .threads(device, op, product(op, &[bags.places, 32])?)?;
    Ok(out)
}

/// Returns the bag of each place, and the divisor or factor of the bag's gradient there.
fn places<T: Float>(
    device: &Device,
    op: &'static str,
    bags: &Bags,
    weights: Option<&Buffer<T>>,
    raw: RawBags,
) -> Result<(Buffer<u32>, Buffer<T>)> {
    let mut bag = device.zeros_for::<u32>(op, bags.places)?;
    let mut factor = device.zeros_for::<T>(op, bags.places)?;
    let none = device.zeros_for::<T>(op, 1)?;
    kernels::BagPlaces {
        bag: &mut bag,
        factor: &mut factor,
        keys: &bags.keys,
        starts: &bags.starts,
        weights: weights.unwrap_or(&none),
        p: raw,
    }
    .threads(device, op, bags.count)?;
    Ok((bag, factor))
}

/// Divides each row by the number of places that hold it.
fn by_count<T: Float>(
    device: &Device,
    op: &'static str,
    out: &mut Buffer<T>,
    keys: &Buffer<i64>,
    [n, rows, width]: [usize; 3],
    report: &mut Buffer<u64>,
) -> Result<()> {
    let mut counts = device.zeros_for::<u32>(op, rows)?;
    scatter::RowsCount { counts: &mut counts, index: keys, n, size: rows, status: report }
        .threads(device, op, n)?;
    kernels::EmbeddingByCount { out, counts: &counts, rows, width }.threads(
        device,
        op,
        rows * width,
    )
}

fn keys(
    device: &Device,
    op: &'static str,
    index: &Buffer<i64>,
    rows: usize,
    padding_idx: Option<usize>,
) -> Result<Buffer<i64>> {
    keys_of(device, op, index, index.len(), rows, padding_idx)
}

fn keys_of(
    device: &Device,
    op: &'static str,
    index: &Buffer<i64>,
    n: usize,
    rows: usize,
    padding_idx: Option<usize>,
) -> Result<Buffer<i64>> {
    let padding = padding_idx.unwrap_or(usize::MAX);
    let mut keys = device.uninitialised::<i64>(op, n)?;
    let mut reports = device.reports();
    kernels::EmbeddingKeys { keys: &mut keys, index, n, rows, padding, status: reports.noted() }
        .threads(device, op, n)?;
    reports.collect(device, op, index, rows)?;
    Ok(keys)
}

/// Checks a mode that adds, and its weights.
fn check_weights<T>(
    op: &'static str,
    bags: &Bags,
    mode: BagMode,
    weights: Option<&Buffer<T>>,
) -> Result<()> {
    match weights {
        _ if mode == BagMode::Max => {
            Err(CudaError::invalid(op, "maxima have functions of their own"))
        }
        Some(_) if mode != BagMode::Sum => {
            Err(CudaError::invalid(op, "per-sample weights are for the sum only"))
        }
        Some(weights) => expect_len(op, "the per-sample weights", weights, bags.places),
        None => Ok(()),
    }
}
