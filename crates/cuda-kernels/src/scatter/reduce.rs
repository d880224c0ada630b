//! Reductions into indexed places.

use crate::launch::declared::scatter::Old;
use crate::launch::kernels::scatter as kernels;
use crate::launch::{Buffer, Launch};

use super::{Rows, Summed, flat_places, only_deterministic, sum_rows};
use crate::Variant;
use crate::device::{Device, expect_len};
use crate::error::{CudaError, Result};
use crate::segments::{Order, Segments};

pub use samebits_tensor_core::ops::ScatterReduceKind;

/// Combines each source element with the others for the place that its index names, and with the
/// old element if `include_self`. A place that no index names keeps its old element.
///
/// # Shapes
///
/// `out: [outer, size, inner]`, `source` and `index: [outer, n, inner]`.
///
/// # Determinism
///
/// See [`ScatterReduceKind`]; the sum of f64 is added in ascending source order, and that of i64 wraps
/// around. [`Variant::Atomic`] exists for f32, for sums with `include_self` and for
/// products; the other reductions are order-independent and have one form.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for [`Variant::Atomic`] of f64 or i64;
/// [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn scatter_reduce<T: Summed>(
    device: &Device,
    out: &mut Buffer<T>,
    index: &Buffer<i64>,
    source: &Buffer<T>,
    rows: Rows,
    reduce: ScatterReduceKind,
    include_self: bool,
    variant: Variant,
) -> Result<()> {
    let op = match reduce {
        ScatterReduceKind::Sum if include_self => "scatter_add",
        _ => "scatter_reduce",
    };
    let (from, to) = (rows.source(op)?, rows.target(op)?);
    expect_len(op, "the target", out, to)?;
    expect_len(op, "the source", source, from)?;
    expect_len(op, "the index", index, from)?;
    T::reduce(device, op, out, index, source, rows, (reduce, include_self, variant))
}

/// Computes [`scatter_reduce`] of f32.
pub(super) fn f32(
    device: &Device,
    op: &'static str,
    out: &mut Buffer<f32>,
    index: &Buffer<i64>,
    source: &Buffer<f32>,
    rows: Rows,
    (reduce, include_self, variant): (ScatterReduceKind, bool, Variant),
) -> Result<()> {
    let atomic = variant == Variant::Atomic && include_self;
    let with_old = u32::from(include_self);
    let mut reports = device.reports();
    if atomic && reduce == ScatterReduceKind::Sum {
        kernels::ScatterAddAtomic { out, source, index, p: rows.raw(), status: reports.noted() }
            .threads(device, op, rows.source(op)?)?;
        return reports.collect(device, op, index, rows.size);
    }
    let places = &flat_places(device, op, index, rows, &mut reports)?;
    let ignored = reports.ignored();
    let flat = rows.flat(op)?;
    let (from, to) = (flat.n, flat.size);
    match reduce {
        ScatterReduceKind::Sum if include_self => {
            let how = (Variant::Deterministic, false);
            f32::add_rows(device, op, out, places, source, flat, 1.0, how, ignored)
        }
        ScatterReduceKind::Sum | ScatterReduceKind::Mean => {
            let segments = Segments::new(device, op, places, [from, to], Order::Any, ignored)?;
            let old = if include_self { Old::Added } else { Old::Kept };
            sum_rows(device, op, out, source, &segments, flat, 1.0, old)?;
            if reduce == ScatterReduceKind::Sum {
                return Ok(());
            }
            kernels::ReduceMean { out, counts: &segments.counts, size: to, with_old }
                .threads(device, op, to)
        }
        ScatterReduceKind::Prod if atomic => kernels::ReduceProdAtomic {
            out,
            source,
            index: places,
            n: from,
            size: to,
            status: ignored,
        }
        .threads(device, op, from),
        ScatterReduceKind::Prod => {
            let segments = Segments::new(device, op, places, [from, to], Order::Source, ignored)?;
            kernels::ReduceProdRows {
                out,
                source,
                positions: &segments.positions,
                ends: &segments.ends,
                counts: &segments.counts,
                size: to,
                with_old,
            }
            .threads(device, op, to)
        }
        ScatterReduceKind::Amax | ScatterReduceKind::Amin => {
            if u32::try_from(from).is_err() {
                return Err(CudaError::invalid(op, "more than 2^32 - 1 source elements"));
            }
            let minimum = u32::from(reduce == ScatterReduceKind::Amin);
            let mut best = device.zeros_for::<u64>(op, to)?;
            kernels::ReduceExtreme {
                best: &mut best,
                source,
                index: places,
                n: from,
                size: to,
                minimum,
                status: ignored,
            }
            .threads(device, op, from)?;
            kernels::ReduceExtremeFinish { out, best: &best, source, size: to, minimum, with_old }
                .threads(device, op, to)
        }
    }
}

/// Computes [`scatter_reduce`] of f64: every place gathers its elements in ascending order.
pub(super) fn f64(
    device: &Device,
    op: &'static str,
    out: &mut Buffer<f64>,
    index: &Buffer<i64>,
    source: &Buffer<f64>,
    rows: Rows,
    (reduce, include_self, variant): (ScatterReduceKind, bool, Variant),
) -> Result<()> {
    only_deterministic(op, variant)?;
    let mut reports = device.reports();
    let places = flat_places(device, op, index, rows, &mut reports)?;
    let Rows { n, size, .. } = rows.flat(op)?;
    let segments = Segments::new(device, op, &places, [n, size], Order::Source, reports.ignored())?;
    kernels::ReduceRows {
        out,
        source,
        positions: &segments.positions,
        ends: &segments.ends,
        counts: &segments.counts,
        size,
        kind: reduce as u32,
        with_old: u32::from(include_self),
    }
    .threads(device, op, size)
}

/// Computes [`scatter_reduce`] of integers: every order gives the same result.
pub(super) fn i64(
    device: &Device,
    op: &'static str,
    out: &mut Buffer<i64>,
    index: &Buffer<i64>,
    source: &Buffer<i64>,
    rows: Rows,
    (reduce, include_self, variant): (ScatterReduceKind, bool, Variant),
) -> Result<()> {
    only_deterministic(op, variant)?;
    let mut reports = device.reports();
    let index = &flat_places(device, op, index, rows, &mut reports)?;
    let Rows { n, size, .. } = rows.flat(op)?;
    let with_old = u32::from(include_self);
    if reduce == ScatterReduceKind::Prod {
        let segments = Segments::new(device, op, index, [n, size], Order::Any, reports.ignored())?;
        let Segments { positions, ends, counts, .. } = &segments;
        return kernels::ReduceProdRows { out, source, positions, ends, counts, size, with_old }
            .threads(device, op, size);
    }
    let (kind, is_mean) = (reduce as u32, reduce == ScatterReduceKind::Mean);
    if include_self && !is_mean {
        return kernels::Reduce { out, source, index, n, size, kind }.threads(device, op, n);
    }
    if u32::try_from(n).is_err() {
        return Err(CudaError::invalid(op, "more than 2^32 - 1 source elements"));
    }
    let mut counts = device.zeros_for::<u32>(op, size)?;
    kernels::RowsCount { counts: &mut counts, index, n, size, status: reports.ignored() }
        .threads(device, op, n)?;
    if !include_self {
        kernels::ReduceStart { out, counts: &counts, size, kind }.threads(device, op, size)?;
    }
    kernels::Reduce { out, source, index, n, size, kind }.threads(device, op, n)?;
    if is_mean {
        kernels::ReduceMean { out, counts: &counts, size, with_old }.threads(device, op, size)?;
    }
    Ok(())
}
