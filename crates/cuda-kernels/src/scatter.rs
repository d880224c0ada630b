//! Writes to, and sums into, computed places.
//!
//! A tensor is viewed along one dimension, as [`Rows`]: `outer` slabs of `size` rows of `inner`
//! elements. `index_*` operations have one index per row of the source, `scatter_*` and [`gather`]
//! one per element.
//!
//! # Examples
//!
//! ```
//! use samebits_cuda_kernels::scatter::{Rows, index_add};
//! use samebits_cuda_kernels::{Device, Variant};
//! # if !samebits_cuda_kernels::is_available() {
//! #     return Ok(());
//! # }
//! let device = Device::new(0)?;
//! let mut out = device.zeros::<f32>(2)?;
//! let index = device.upload(&[1i64, 0, 1, 1])?;
//! let source = device.upload(&[1e30f32, 5.0, 1.0, -1e30])?;
//! let rows = Rows { outer: 1, size: 2, n: 4, inner: 1 };
//! index_add(&device, &mut out, &index, &source, rows, 1.0, Variant::Deterministic)?;
//! assert_eq!(device.download(&out)?, [5.0, 1.0]);
//! # Ok::<(), samebits_cuda_kernels::CudaError>(())
//! ```

use crate::launch::declared::scatter::{Old, RawRows, RawSegments};
use crate::launch::kernels::scatter as kernels;
use crate::launch::{Buffer, Launch};

use crate::Variant;
use crate::device::{Device, Number, Reports, Word, expect_len, product};
use crate::error::{CudaError, Result};
use crate::segments::{ACCUMULATOR, LongSegments, Order, Segments, check_addends, deposits, round};

mod reduce;

pub use reduce::{ScatterReduceKind, scatter_reduce};

/// A tensor viewed along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The product of the dimensions before.
    pub outer: usize,
    /// The size of the dimension in the tensor that the index addresses.
    pub size: usize,
    /// The size of the dimension in the other tensor.
    pub n: usize,
    /// The product of the dimensions after.
    pub inner: usize,
}

impl Rows {
    pub(crate) fn source(&self, op: &'static str) -> Result<usize> {
        product(op, &[self.outer, self.n, self.inner])
    }

    pub(crate) fn target(&self, op: &'static str) -> Result<usize> {
        product(op, &[self.outer, self.size, self.inner])
    }

    /// Returns one long row of all targets, for elements with one place each.
    fn flat(&self, op: &'static str) -> Result<Rows> {
        Ok(Rows { outer: 1, size: self.target(op)?, n: self.source(op)?, inner: 1 })
    }

    fn raw(&self) -> RawRows {
        RawRows { outer: self.outer, size: self.size, n: self.n, inner: self.inner }
    }
}

/// Adds `alpha` times row `i` of the source to row `index[i]` of `out`.
///
/// # Shapes
///
/// `out: [outer, size, inner]`, `source: [outer, n, inner]`, `index: [n]`.
///
/// # Determinism
///
/// Deterministic: each addend is `alpha · source`, rounded once. For f32 the sum of the old element
/// and its addends is exact and rounded once, even without addends: −0 becomes +0. For f64 the
/// addends are added in ascending source order. For i64 the sum wraps around.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for [`Variant::Atomic`] of f64 or i64;
/// [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn index_add<T: Summed>(
    device: &Device,
    out: &mut Buffer<T>,
    index: &Buffer<i64>,
    source: &Buffer<T>,
    rows: Rows,
    alpha: T,
    variant: Variant,
) -> Result<()> {
    let op = "index_add";
    let (from, to) = (rows.source(op)?, rows.target(op)?);
    expect_len(op, "the target", out, to)?;
    expect_len(op, "the source", source, from)?;
    expect_len(op, "the index", index, rows.n)?;
    check_alone(device, op, index, rows)?;
    let mut reports = device.reports();
    let how = (variant, false);
    T::add_rows(device, op, out, index, source, rows, alpha, how, reports.noted())?;
    reports.collect(device, op, index, rows.size)
}

/// A type with irregular sums: f32, f64 or i64.
pub trait Summed: Number {
    /// Adds rows to the rows that their indices name, or with `anew` to +0 instead of the old elements.
    /// Negative indices name no row.
    #[doc(hidden)]
    fn add_rows(
        device: &Device,
        op: &'static str,
        out: &mut Buffer<Self>,
        index: &Buffer<i64>,
        source: &Buffer<Self>,
        rows: Rows,
        alpha: Self,
        how: (Variant, bool),
        report: &mut Buffer<u64>,
    ) -> Result<()>;

    /// Combines elements that have one index each, for [`scatter_reduce`].
    #[doc(hidden)]
    fn reduce(
        device: &Device,
        op: &'static str,
        out: &mut Buffer<Self>,
        index: &Buffer<i64>,
        source: &Buffer<Self>,
        rows: Rows,
        kind: (ScatterReduceKind, bool, Variant),
    ) -> Result<()>;
}

/// Adds the sources of each row exactly.
#[expect(clippy::too_many_arguments, reason = "they are those of the operation")]
fn sum_rows(
    device: &Device,
    op: &'static str,
    out: &mut Buffer<f32>,
    source: &Buffer<f32>,
    segments: &Segments,
    rows: Rows,
    alpha: f32,
    old: Old,
) -> Result<()> {
    let Segments { positions, ends, counts, .. } = segments;
    let mut long = LongSegments::new::<f32>(device, op, segments)?;
    kernels::IndexAddF32Rows {
        out,
        source,
        positions,
        ends,
        counts,
        cursor: &mut long.cursor,
        long_rows: &mut long.rows,
        firsts: &mut long.firsts,
        p: rows.raw(),
        alpha,
        old: old as u32,
    }
    .threads(device, op, rows.target(op)?)?;
    let outputs = RawSegments {
        columns: product(op, &[rows.outer, rows.inner])?,
        inner: rows.inner,
        plane: rows.size,
        image_step: 0,
        place_step: rows.inner,
        slab_step: product(op, &[rows.size, rows.inner])?,
    };
    long.sum(device, op, out, outputs, old == Old::Added, |acc, threads| {
        kernels::IndexAddPieces {
            acc,
            source,
            positions,
            ends,
            counts,
            cursor: &long.cursor,
            long_rows: &long.rows,
            firsts: &long.firsts,
            p: rows.raw(),
            alpha,
        }
        .threads(device, op, threads)
    })
}

impl Summed for f32 {
    fn add_rows(
        device: &Device,
        op: &'static str,
        out: &mut Buffer<f32>,
        index: &Buffer<i64>,
        source: &Buffer<f32>,
        rows: Rows,
        alpha: f32,
        (variant, anew): (Variant, bool),
        report: &mut Buffer<u64>,
    ) -> Result<()> {
        let (from, to) = (rows.source(op)?, rows.target(op)?);
        match variant {
            Variant::Atomic => {
                if anew {
                    out.set(op, 0)?;
                }
                kernels::IndexAddAtomic { out, source, index, p: rows.raw(), alpha, status: report }
                    .threads(device, op, from)
            }
            Variant::Deterministic if deposits(rows.n, rows.size, rows.inner) => {
                check_addends(op, rows.n)?;
                let mut sums = device.zeros_for::<u64>(op, product(op, &[to, ACCUMULATOR])?)?;
                kernels::IndexAddDeposit {
                    acc: &mut sums,
                    source,
                    index,
                    p: rows.raw(),
                    alpha,
                    status: report,
                }
                .threads(device, op, from)?;
                round(device, op, out, &sums, to, !anew)
            }
            Variant::Deterministic => {
                let sizes = [rows.n, rows.size];
                let segments = Segments::new(device, op, index, sizes, Order::Any, report)?;
                let old = if anew { Old::None } else { Old::Added };
                sum_rows(device, op, out, source, &segments, rows, alpha, old)
            }
        }
    }

    fn reduce(
        device: &Device,
        op: &'static str,
        out: &mut Buffer<f32>,
        index: &Buffer<i64>,
        source: &Buffer<f32>,
        rows: Rows,
        kind: (ScatterReduceKind, bool, Variant),
    ) -> Result<()> {
        reduce::f32(device, op, out, index, source, rows, kind)
    }
}

impl Summed for f64 {
    fn add_rows(
        device: &Device,
        op: &'static str,
        out: &mut Buffer<f64>,
        index: &Buffer<i64>,
        source: &Buffer<f64>,
        rows: Rows,
        alpha: f64,
        (variant, anew): (Variant, bool),
        report: &mut Buffer<u64>,
    ) -> Result<()> {
        only_deterministic(op, variant)?;
        let sizes = [rows.n, rows.size];
        let segments = Segments::new(device, op, index, sizes, Order::Source, report)?;
        kernels::IndexAddF64Rows {
            out,
            source,
            positions: &segments.positions,
            ends: &segments.ends,
            counts: &segments.counts,
            p: rows.raw(),
            alpha,
            old: if anew { Old::None } else { Old::Added } as u32,
        }
        .threads(device, op, rows.target(op)?)
    }

    fn reduce(
        device: &Device,
        op: &'static str,
        out: &mut Buffer<f64>,
        index: &Buffer<i64>,
        source: &Buffer<f64>,
        rows: Rows,
        kind: (ScatterReduceKind, bool, Variant),
    ) -> Result<()> {
        reduce::f64(device, op, out, index, source, rows, kind)
    }
}

impl Summed for i64 {
    fn add_rows(
        device: &Device,
        op: &'static str,
        out: &mut Buffer<i64>,
        index: &Buffer<i64>,
        source: &Buffer<i64>,
        rows: Rows,
        alpha: i64,
        (variant, anew): (Variant, bool),
        report: &mut Buffer<u64>,
    ) -> Result<()> {
        only_deterministic(op, variant)?;
        if anew {
            out.set(op, 0)?;
        }
        kernels::IndexAdd { out, source, index, p: rows.raw(), alpha, status: report }.threads(
            device,
            op,
            rows.source(op)?,
        )
    }

    fn reduce(
        device: &Device,
        op: &'static str,
        out: &mut Buffer<i64>,
        index: &Buffer<i64>,
        source: &Buffer<i64>,
        rows: Rows,
        kind: (ScatterReduceKind, bool, Variant),
    ) -> Result<()> {
        reduce::i64(device, op, out, index, source, rows, kind)
    }
}

/// Returns an error for an atomic form that does not exist.
fn only_deterministic(op: &'static str, variant: Variant) -> Result<()> {
    match variant {
        Variant::Atomic => Err(CudaError::not_atomic(op)),
        Variant::Deterministic => Ok(()),
    }
}

/// Adds each source element to the place that its index names.
///
/// # Shapes
///
/// `out: [outer, size, inner]`, `source` and `index: [outer, n, inner]`.
///
/// # Determinism
///
/// As [`index_add`].
///
/// # Errors
///
/// As [`index_add`].
pub fn scatter_add<T: Summed>(
    device: &Device,
    out: &mut Buffer<T>,
    index: &Buffer<i64>,
    source: &Buffer<T>,
    rows: Rows,
    variant: Variant,
) -> Result<()> {
    scatter_reduce(device, out, index, source, rows, ScatterReduceKind::Sum, true, variant)
}

/// Copies row `i` of the source to row `index[i]` of `out`.
///
/// # Shapes
///
/// As [`index_add`].
///
/// # Determinism
///
/// Deterministic: of the rows that go to one place, the one with the highest source index is kept.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn index_copy<T: Word>(
    device: &Device,
    out: &mut Buffer<T>,
    index: &Buffer<i64>,
    source: &Buffer<T>,
    rows: Rows,
) -> Result<()> {
    let op = "index_copy";
    let (from, to) = (rows.source(op)?, rows.target(op)?);
    expect_len(op, "the target", out, to)?;
    expect_len(op, "the source", source, from)?;
    expect_len(op, "the index", index, rows.n)?;
    check_alone(device, op, index, rows)?;
    if from == 0 {
        return Ok(());
    }
    let mut reports = device.reports();
    copy_winners(device, op, out, index, source, rows, reports.noted())?;
    reports.collect(device, op, index, rows.size)
}

/// Writes each source element to the place that its index names. With `outer = inner = 1` this
/// is `put`, and `max_unpool` on each plane.
///
/// # Shapes
///
/// `out: [outer, size, inner]`, `source` and `index: [outer, n, inner]`.
///
/// # Determinism
///
/// Of the elements that go to one place, the one with the highest source position is kept.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn scatter<T: Word>(
    device: &Device,
    out: &mut Buffer<T>,
    index: &Buffer<i64>,
    source: &Buffer<T>,
    rows: Rows,
) -> Result<()> {
    let op = "scatter";
    let (from, to) = (rows.source(op)?, rows.target(op)?);
    expect_len(op, "the target", out, to)?;
    expect_len(op, "the source", source, from)?;
    expect_len(op, "the index", index, from)?;
    if from == 0 {
        return Ok(());
    }
    let mut reports = device.reports();
    let places = flat_places(device, op, index, rows, &mut reports)?;
    copy_winners(device, op, out, &places, source, rows.flat(op)?, reports.ignored())
}

/// Reports an index out of range if rows have no elements, so that no other kernel checks the
/// index.
fn check_alone(device: &Device, op: &'static str, index: &Buffer<i64>, rows: Rows) -> Result<()> {
    if rows.outer * rows.inner > 0 {
        return Ok(());
    }
    let flat = Rows { outer: 1, inner: 1, ..rows };
    flat_places(device, op, index, flat, &mut device.reports()).map(|_| ())
}

/// Returns the place of each source element in one long row of all targets, from one index per
/// element.
fn flat_places(
    device: &Device,
    op: &'static str,
    index: &Buffer<i64>,
    rows: Rows,
    reports: &mut Reports<'_>,
) -> Result<Buffer<i64>> {
    let from = rows.source(op)?;
    let mut places = device.uninitialised::<i64>(op, from)?;
    kernels::ScatterKeys { keys: &mut places, index, p: rows.raw(), status: reports.noted() }
        .threads(device, op, from)?;
    reports.collect(device, op, index, rows.size)?;
    Ok(places)
}

/// Copies (or, to `accumulate`, adds) row `i` of `values` to the row of `out` that its linear index
/// names: `put` and `index_put`. Negative indices count from the end.
///
/// # Shapes
///
/// `out: [rows, width]`, `index: [n]`, `values: [n, width]`.
///
/// # Determinism
///
/// Writes: the highest source index is kept. Sums: as [`index_add`].
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn put(
    device: &Device,
    out: &mut Buffer<f32>,
    index: &Buffer<i64>,
    values: &Buffer<f32>,
    [rows, width]: [usize; 2],
    accumulate: bool,
    variant: Variant,
) -> Result<()> {
    let op = "index_put";
    let n = index.len();
    expect_len(op, "the target", out, product(op, &[rows, width])?)?;
    expect_len(op, "the values", values, product(op, &[n, width])?)?;
    let mut reports = device.reports();
    let mut places = device.uninitialised::<i64>(op, n)?;
    kernels::PutKeys { keys: &mut places, index, n, size: rows, status: reports.noted() }
        .threads(device, op, n)?;
    reports.collect(device, op, index, rows)?;
    let flat = Rows { outer: 1, size: rows, n, inner: width };
    if accumulate {
        let how = (variant, false);
        f32::add_rows(device, op, out, &places, values, flat, 1.0, how, reports.ignored())
    } else {
        copy_winners(device, op, out, &places, values, flat, reports.ignored())
    }
}

/// Copies the rows of `source` that `index` names.
///
/// # Shapes
///
/// `source: [outer, size, inner]`, `index: [n]`; returns `[outer, n, inner]`.
///
/// # Determinism
///
/// Copies bits.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn index_select<T: Word>(
    device: &Device,
    source: &Buffer<T>,
    index: &Buffer<i64>,
    rows: Rows,
) -> Result<Buffer<T>> {
    let op = "index_select";
    expect_len(op, "the index", index, rows.n)?;
    check_alone(device, op, index, rows)?;
    select(device, op, source, index, rows, |out, status, n| {
        kernels::IndexSelect { out, source, index, p: rows.raw(), status }.threads(device, op, n)
    })
}

/// Copies the elements of `source` that `index` names along the dimension.
///
/// # Shapes
///
/// `source: [outer, size, inner]`, `index: [outer, n, inner]`; returns the latter shape.
///
/// # Determinism
///
/// Copies bits.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn gather<T: Word>(
    device: &Device,
    source: &Buffer<T>,
    index: &Buffer<i64>,
    rows: Rows,
) -> Result<Buffer<T>> {
    let op = "gather";
    expect_len(op, "the index", index, rows.source(op)?)?;
    select(device, op, source, index, rows, |out, status, n| {
        kernels::Gather { out, source, index, p: rows.raw(), status }.threads(device, op, n)
    })
}

fn select<T: Word>(
    device: &Device,
    op: &'static str,
    source: &Buffer<T>,
    index: &Buffer<i64>,
    rows: Rows,
    launch: impl FnOnce(&mut Buffer<T>, &mut Buffer<u64>, usize) -> Result<()>,
) -> Result<Buffer<T>> {
    let (n, from) = (rows.source(op)?, rows.target(op)?);
    expect_len(op, "the source", source, from)?;
    let mut out = device.uninitialised(op, n)?;
    if n == 0 {
        return Ok(out);
    }
    let mut reports = device.reports();
    launch(&mut out, reports.noted(), n)?;
    reports.collect(device, op, index, rows.size)?;
    Ok(out)
}

fn copy_winners<T: Word>(
    device: &Device,
    op: &'static str,
    out: &mut Buffer<T>,
    index: &Buffer<i64>,
    source: &Buffer<T>,
    rows: Rows,
    report: &mut Buffer<u64>,
) -> Result<()> {
    let mut winner = device.zeros_for::<u64>(op, rows.size)?;
    kernels::IndexWinner { winner: &mut winner, index, n: rows.n, size: rows.size, status: report }
        .threads(device, op, rows.n)?;
    kernels::IndexCopy { out, source, winner: &winner, p: rows.raw() }.threads(
        device,
        op,
        rows.target(op)?,
    )
}
