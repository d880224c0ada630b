//! Histograms: `bincount` with and without weights, `histc`.

use crate::launch::kernels::bincount as kernels;
use crate::launch::{Buffer, Launch};
use samebits_numerics::memory::OutOfMemory;
use samebits_tensor_core::DType;
use samebits_tensor_core::geometry::bin_edges;

use crate::Variant;
use crate::device::{Device, Float, expect_len, product};
use crate::error::{CudaError, Result};
use crate::reduce::{extreme, grid};
use crate::scatter::{Rows, Summed};
use crate::segments::{ACCUMULATOR, check_addends, round};

/// The number of values per block.
const CHUNK: usize = 4096;
/// The largest number of bins whose exact accumulators fit into a block's shared memory.
pub(crate) const SHARED_BINS: usize = 256;
/// The largest number of bins that a block counts in shared memory, and the number of values that
/// it then takes.
const COUNTED: usize = 4096;
const COUNTED_CHUNK: usize = 16384;

/// Returns the number of bins that [`bincount`] needs: one more than the largest value, and at
/// least `min_length`. Waits for the device.
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if a value is negative.
pub fn bincount_len(device: &Device, values: &Buffer<i64>, min_length: usize) -> Result<usize> {
    let op = "bincount";
    let mut range = device.upload(&[u64::MAX, 0])?;
    let n = values.len();
    kernels::Range { range: &mut range, values, n }.grid(
        device,
        op,
        (grid(op, n.div_ceil(CHUNK))?, 1, 1),
        (device.block(), 1, 1),
    )?;
    let range = device.download(&range)?;
    let [low, high] = [range[0], range[1]].map(|key| (key ^ (1 << 63)) as i64);
    if low < 0 {
        return Err(CudaError::invalid(op, format!("values must not be negative, got {low}")));
    }
    let bins = usize::try_from(high.saturating_add(1))
        .map_err(|_| CudaError::invalid(op, format!("value {high} is too large")))?;
    Ok(bins.max(min_length))
}

/// Counts the occurrences of each value.
///
/// # Determinism
///
/// Portable: integers.
///
/// # Errors
///
/// [`CudaError::IndexOutOfRange`] at the next synchronisation if a value is not below `bins`.
pub fn bincount(device: &Device, values: &Buffer<i64>, bins: usize) -> Result<Buffer<i64>> {
    let op = "bincount";
    let mut counts = device.zeros_for::<i64>(op, bins)?;
    let mut reports = device.reports();
    let n = values.len();
    let (into, status) = (&mut counts, reports.noted());
    if bins <= COUNTED {
        let blocks = grid(op, n.div_ceil(COUNTED_CHUNK))?;
        kernels::BincountShared { counts: into, values, n, bins, status }.grid(
            device,
            op,
            (blocks, 1, 1),
            (device.block(), 1, 1),
        )?;
    } else {
        kernels::Bincount { counts: into, values, n, bins, status }.threads(device, op, n)?;
    }
    reports.collect(device, op, values, bins)?;
    Ok(counts)
}

/// Computes the sum of the weights of each value.
///
/// # Shapes
///
/// `values` and `weights: [n]`; returns `[bins]`.
///
/// # Determinism
///
/// Deterministic: exact sums, rounded once; up to 256 bins are first summed exactly in each block's
/// shared memory. Atomic: float additions in the order of arrival.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn bincount_weighted(
    device: &Device,
    values: &Buffer<i64>,
    weights: &Buffer<f32>,
    bins: usize,
    variant: Variant,
) -> Result<Buffer<f32>> {
    let op = "bincount";
    let n = values.len();
    expect_len(op, "the weights", weights, n)?;
    let mut out = device.uninitialised::<f32>(op, bins)?;
    let mut reports = device.reports();
    if variant == Variant::Deterministic && bins <= SHARED_BINS {
        check_addends(op, n)?;
        let mut sums = device.zeros_for::<u64>(op, product(op, &[bins, ACCUMULATOR])?)?;
        kernels::BincountWeighted {
            acc: &mut sums,
            values,
            weights,
            n,
            bins,
            status: reports.noted(),
        }
        .grid(device, op, (grid(op, n.div_ceil(CHUNK))?, 1, 1), (device.block(), 1, 1))?;
        round(device, op, &mut out, &sums, bins, false)?;
    } else {
        let rows = Rows { outer: 1, size: bins, n, inner: 1 };
        let how = (variant, true);
        f32::add_rows(device, op, &mut out, values, weights, rows, 1.0, how, reports.noted())?;
    }
    reports.collect(device, op, values, bins)?;
    Ok(out)
}

/// Counts the elements in each of `bins` bins of equal width from `low` to `high`, both included.
/// Elements outside and NaN are not counted. If `low` equals `high`, the smallest and the largest
/// element replace them (which waits for the device); if these are equal too, the limits are one
/// less and one more.
///
/// # Determinism
///
/// Portable: the bin of `x` is `floor((x − low) · bins / (high − low))` in real numbers, without
/// any rounding (see [`bin_edges`]); `x = high` is in the last bin. The counts are integers.
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if there are no bins, or the limits are not finite or not in
/// order.
pub fn histc<T: Float>(
    device: &Device,
    values: &Buffer<T>,
    bins: usize,
    low: T,
    high: T,
) -> Result<Buffer<T>> {
    let op = "histc";
    if bins == 0 {
        return Err(CudaError::invalid(op, "at least one bin is needed"));
    }
    let n = values.len();
    let (mut low, mut high) = (low, high);
    if low == high && n > 0 {
        let (smallest, _) = extreme(device, values, [1, n, 1], true)?;
        let (largest, _) = extreme(device, values, [1, n, 1], false)?;
        (low, high) = (device.download(&smallest)?[0], device.download(&largest)?[0]);
    }
    if low == high {
        (low, high) = (low - T::from_f64(1.0), high - T::from_f64(-1.0));
    }
    if !(T::is_finite(low) && T::is_finite(high) && low < high) {
        return Err(CudaError::invalid(op, format!("no finite range from {low:?} to {high:?}")));
    }
    let mut counts = device.zeros_for::<u64>(op, bins)?;
    let dtype = if T::WIDE { DType::F64 } else { DType::F32 };
    let edges = bin_edges(low.into(), high.into(), bins, dtype);
    let edges = edges.map_err(|OutOfMemory { bytes }| {
        CudaError::invalid(op, format!("the host has no memory left for {bytes} bytes of edges"))
    })?;
    let edges: Vec<T> = edges.into_iter().map(T::from_f64).collect();
    let edges = &device.upload(&edges)?;
    let part = T::from_f64(if T::is_finite(high - low) { 1.0 } else { 0.5 });
    let into = &mut counts;
    if bins <= COUNTED {
        let blocks = grid(op, n.div_ceil(COUNTED_CHUNK))?;
        kernels::HistcShared { counts: into, values, n, edges, low, high, part, bins }.grid(
            device,
            op,
            (blocks, 1, 1),
            (device.block(), 1, 1),
        )?;
    } else {
        kernels::Histc { counts: into, values, n, edges, low, high, part, bins }
            .threads(device, op, n)?;
    }
    let mut out = device.uninitialised::<T>(op, bins)?;
    kernels::HistcFinish { out: &mut out, counts: &counts, n: bins }.threads(device, op, bins)?;
    Ok(out)
}
