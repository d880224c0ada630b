//! Reductions to places that an index says.

use crate::launch::Buffer;

use super::{FAMILY, Rows, Summed, flat_places, only_deterministic};
use crate::Variant;
use crate::device::{self, Device, expect_len};
use crate::error::{CudaError, Result};
use crate::segments::Segments;

/// How [`scatter_reduce`] combines the elements that go to one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterReduce {
    /// The exact sum, rounded once; of f64, the sum in ascending source order.
    Sum,
    /// The sum as above, divided by the number of elements, rounded again.
    Mean,
    /// The product in ascending source order, each step rounded.
    Prod,
    /// The largest: NaN before all numbers, the first of equal ones.
    Amax,
    /// The smallest: NaN before all numbers, the first of equal ones.
    Amin,
}

/// Combines each source element with what else goes to the place that its index names, and with
/// the old element if `include_self`. A place that no index names keeps its old element.
///
/// # Shapes
///
/// `out: [outer, size, inner]`, `source` and `index: [outer, n, inner]`.
///
/// # Determinism
///
/// See [`ScatterReduce`]. [`Variant::Atomic`] exists for f32, for sums with `include_self` and for
/// products; the other reductions are order-independent and have one form.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for [`Variant::Atomic`] of f64;
/// [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn scatter_reduce<T: Summed>(
    device: &Device,
    out: &mut Buffer<T>,
    index: &Buffer<i64>,
    source: &Buffer<T>,
    rows: Rows,
    reduce: ScatterReduce,
    include_self: bool,
    variant: Variant,
) -> Result<()> {
    let op = match reduce {
        ScatterReduce::Sum if include_self => "scatter_add",
        _ => "scatter_reduce",
    };
    let (from, to) = (rows.source(op)?, rows.target(op)?);
    expect_len(op, "the target", out, to)?;
    expect_len(op, "the source", source, from)?;
    expect_len(op, "the index", index, from)?;
    let mut reports = device.reports();
    let atomic = variant == Variant::Atomic && include_self;
    if atomic && reduce == ScatterReduce::Sum {
        let kernel = device::atomic::<T>(op, "scatter_add_f32_atomic")?;
        device
            .kernel(op, FAMILY, kernel)?
            .on(device.stream())
            .write(out)
            .read(source)
            .read(index)
            .value(&rows.raw())
            .write(reports.noted())
            .threads(from, device.block())?;
        return reports.collect(device, op, index, rows.size as u64);
    }
    let places = flat_places(device, op, index, rows, &mut reports)?;
    let kind = (reduce, include_self, variant);
    T::reduce(device, op, out, &places, source, [from, to], kind, reports.ignored())
}

/// [`scatter_reduce`] of elements with places in one long row.
pub(super) fn f32(
    device: &Device,
    op: &'static str,
    out: &mut Buffer<f32>,
    places: &Buffer<i64>,
    source: &Buffer<f32>,
    [from, to]: [usize; 2],
    (reduce, include_self, variant): (ScatterReduce, bool, Variant),
    ignored: &mut Buffer<u64>,
) -> Result<()> {
    let atomic = variant == Variant::Atomic && include_self;
    let with_old = u32::from(include_self);
    let flat = Rows { outer: 1, size: to, n: from, inner: 1 };
    match reduce {
        ScatterReduce::Sum if include_self => {
            let variant = Variant::Deterministic;
            f32::add_rows(device, op, out, places, source, flat, 1.0, variant, ignored)
        }
        ScatterReduce::Sum | ScatterReduce::Mean => {
            let segments = Segments::new(device, op, places, from, to, ignored)?;
            device
                .kernel(op, FAMILY, "index_add_f32_rows")?
                .on(device.stream())
                .write(out)
                .read(source)
                .segments(&segments)
                .value(&flat.raw())
                .value(&1.0f32)
                .value(&with_old)
                .threads(to, device.block())?;
            if reduce == ScatterReduce::Sum {
                return Ok(());
            }
            device
                .kernel(op, FAMILY, "reduce_mean_f32")?
                .on(device.stream())
                .write(out)
                .read(&segments.counts)
                .value(&(to as u64))
                .value(&with_old)
                .threads(to, device.block())
        }
        ScatterReduce::Prod if atomic => device
            .kernel(op, FAMILY, "reduce_prod_f32_atomic")?
            .on(device.stream())
            .write(out)
            .read(source)
            .read(places)
            .value(&(from as u64))
            .value(&(to as u64))
            .write(ignored)
            .threads(from, device.block()),
        ScatterReduce::Prod => {
            let mut segments = Segments::new(device, op, places, from, to, ignored)?;
            segments.sort(device, op)?;
            device
                .kernel(op, FAMILY, "reduce_prod_f32_rows")?
                .on(device.stream())
                .write(out)
                .read(source)
                .segments(&segments)
                .value(&(to as u64))
                .value(&with_old)
                .threads(to, device.block())
        }
        ScatterReduce::Amax | ScatterReduce::Amin => {
            if u32::try_from(from).is_err() {
                return Err(CudaError::invalid(op, "more than 2^32 - 1 source elements"));
            }
            let minimum = u32::from(reduce == ScatterReduce::Amin);
            let mut best = device.zeros_for::<u64>(op, to)?;
            device
                .kernel(op, FAMILY, "reduce_extreme_f32")?
                .on(device.stream())
                .write(&mut best)
                .read(source)
                .read(places)
                .value(&(from as u64))
                .value(&(to as u64))
                .value(&minimum)
                .write(ignored)
                .threads(from, device.block())?;
            device
                .kernel(op, FAMILY, "reduce_extreme_f32_finish")?
                .on(device.stream())
                .write(out)
                .read(&best)
                .read(source)
                .value(&(to as u64))
                .value(&minimum)
                .value(&with_old)
                .threads(to, device.block())
        }
    }
}

/// [`f32`] for the other type: every place takes its elements in ascending order.
pub(super) fn f64(
    device: &Device,
    op: &'static str,
    out: &mut Buffer<f64>,
    places: &Buffer<i64>,
    source: &Buffer<f64>,
    [from, to]: [usize; 2],
    (reduce, include_self, variant): (ScatterReduce, bool, Variant),
    ignored: &mut Buffer<u64>,
) -> Result<()> {
    only_deterministic(op, variant)?;
    let mut segments = Segments::new(device, op, places, from, to, ignored)?;
    segments.sort(device, op)?;
    device
        .kernel(op, FAMILY, "reduce_f64_rows")?
        .on(device.stream())
        .write(out)
        .read(source)
        .segments(&segments)
        .value(&(to as u64))
        .value(&(reduce as u32))
        .value(&u32::from(include_self))
        .threads(to, device.block())
}
