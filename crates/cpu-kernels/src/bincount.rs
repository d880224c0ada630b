//! Histograms: `bincount` and `histc`.

use crate::error::{Error, Result, expect_len};
use crate::scatter::Sums;
use crate::scatter::{Adder, Atomic, Rows, index_add_to};
use crate::{Float, memory, parallel};
use samebits_numerics::fpenv;
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::DType;
use samebits_tensor_core::geometry::bin_edges;

/// The number of values per task of a count.
const PIECE: usize = 1 << 15;

/// Returns the number of bins that [`bincount`] needs: one more than the largest value, and at
/// least `min_length`.
///
/// # Errors
///
/// [`Error::Argument`] if a value is negative.
pub fn bincount_len(values: &[i64], min_length: usize) -> Result<usize> {
    let (low, high) = parallel::chunks(values, PIECE).reduce(
        (0, -1),
        |piece| piece.iter().fold((0, -1), |(low, high): (i64, i64), &x| (low.min(x), high.max(x))),
        |a, b| (a.0.min(b.0), a.1.max(b.1)),
    );
    if low < 0 {
        return Err(Error::argument("bincount", format!("values must not be negative, got {low}")));
    }
    usize::try_from(high.saturating_add(1))
        .map(|bins| bins.max(min_length))
        .map_err(|_| Error::argument("bincount", format!("value {high} is too large")))
}

/// Counts the occurrences of each value.
///
/// # Shapes
///
/// `values` (n), each below `out.len()`; `out` (bins), see [`bincount_len`]; overwritten.
///
/// # Determinism
///
/// Portable: integers.
///
/// # Errors
///
/// [`Error::IndexOutOfRange`] or [`Error::OutOfMemory`]; then nothing is written.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::bincount::{bincount, bincount_len};
///
/// let values = [1, 3, 1];
/// let mut counts = vec![0; bincount_len(&values, 0)?];
/// bincount(&mut counts, &values)?;
/// assert_eq!(counts, [0, 2, 0, 1]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.bincount`.
pub fn bincount(out: &mut [i64], values: &[i64]) -> Result<()> {
    const OP: &str = "bincount";
    crate::scatter::check(OP, values, out.len())?;
    let bins = out.len();
    // One table per piece; if there are many bins, few pieces.
    let piece = PIECE.max(4 * bins);
    let count = |values: &[i64], counts: &mut [i64]| {
        values.iter().for_each(|&value| counts[value as usize] += 1);
    };
    if values.len() <= piece {
        out.fill(0);
        count(values, out);
        return Ok(());
    }
    let tables = parallel::chunks(values, piece).try_collect(OP, |values| {
        let mut counts = memory::zeroed::<i64>(OP, bins)?;
        count(values, &mut counts);
        Ok(counts)
    })?;
    out.fill(0);
    for table in tables {
        out.iter_mut().zip(table).for_each(|(sum, count)| *sum += count);
    }
    Ok(())
}

/// Computes the sum of the weights of each value.
///
/// # Shapes
///
/// `values` and `weights` (n), `out` (bins); overwritten.
///
/// # Determinism
///
/// Portable: an irregular sum; see [`scatter`](crate::scatter).
///
/// # Errors
///
/// [`Error::Length`] if the slices differ in length; [`Error::IndexOutOfRange`].
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::bincount::bincount_weighted;
///
/// let mut sums = [0.0f32; 2];
/// bincount_weighted(&mut sums, &[1, 0, 1], &[1e30, 2.0, -1e30])?;
/// assert_eq!(sums, [2.0, 0.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.bincount` with `weights`.
pub fn bincount_weighted<T: Sums>(out: &mut [T], values: &[i64], weights: &[T]) -> Result<()> {
    const OP: &str = "bincount";
    expect_len(OP, "weights", weights.len(), values.len())?;
    index_add_to(OP, out, true, [1, out.len(), 1], values, weights, T::ONE)
}

/// Computes [`bincount_weighted`] with float atomics.
///
/// # Shapes
///
/// As [`bincount_weighted`].
///
/// # Determinism
///
/// Not guaranteed: the bits depend on the schedule.
///
/// # Errors
///
/// As [`bincount_weighted`].
pub fn bincount_weighted_fast(out: &mut [f32], values: &[i64], weights: &[f32]) -> Result<()> {
    const OP: &str = "bincount";
    expect_len(OP, "weights", weights.len(), values.len())?;
    let rows = Rows { op: OP, index: values, size: out.len(), base: 0 };
    Atomic::add_rows(out, true, 1, &rows, &crate::scatter::rows(weights, 1))
}

/// Counts the elements in each of `out.len()` bins of equal width from `low` to `high`, both
/// included. Elements outside and NaN are not counted. If `low` equals `high`, the smallest and the
/// largest element replace them; if these are equal too, the limits are one less and one more.
///
/// # Determinism
///
/// Portable: the bin of `x` is `floor((x - low) * bins / (high - low))` in real numbers, without
/// any rounding (see [`bin_edges`]); `x = high` is in the last bin. The counts are integers.
///
/// # Errors
///
/// [`Error::Argument`] if there are no bins, or the limits are not finite or not in order;
/// [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// let mut counts = [0.0f32; 4];
/// samebits_cpu_kernels::bincount::histc(&mut counts, &[1.0, 2.0, 1.0], 0.0, 3.0)?;
/// assert_eq!(counts, [0.0, 2.0, 1.0, 0.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.histc`.
pub fn histc<T: Float>(out: &mut [T], values: &[T], low: T, high: T) -> Result<()> {
    fpenv::ieee(|| count(out, values, low, high))
}

fn count<T: Float>(out: &mut [T], values: &[T], low: T, high: T) -> Result<()> {
    const OP: &str = "histc";
    let bins = out.len();
    if bins == 0 {
        return Err(Error::argument(OP, "at least one bin is needed"));
    }
    let (mut low, mut high) = (low, high);
    if low == high && !values.is_empty() {
        let smallest = samebits_numerics::extrema::min(values).unwrap_or(low);
        let largest = samebits_numerics::extrema::max(values).unwrap_or(high);
        (low, high) = (smallest, largest);
    }
    if low == high {
        (low, high) = (low - T::ONE, high + T::ONE);
    }
    let finite = |x: T| x > T::LOWEST && x < T::HIGHEST;
    if !(finite(low) && finite(high) && low < high) {
        return Err(Error::argument(OP, format!("no finite range from {low:?} to {high:?}")));
    }
    let dtype = if T::WIDE { DType::F64 } else { DType::F32 };
    let edges = bin_edges(low.into(), high.into(), bins, dtype).map_err(memory::named(OP))?;
    let edges = &memory::collected::<T>(OP, edges.into_iter().map(T::from_f64))?;
    let tables = parallel::chunks(values, PIECE.max(4 * bins)).try_collect(OP, |values| {
        let mut counts = memory::zeroed(OP, bins)?;
        simd::dispatch(Bins { values, low, high, edges, counts: &mut counts });
        Ok(counts)
    })?;
    for (bin, out) in out.iter_mut().enumerate() {
        let count: u64 = tables.iter().map(|table| table[bin]).sum();
        *out = T::from_f64(count as f64);
    }
    Ok(())
}

struct Bins<'a, T> {
    values: &'a [T],
    low: T,
    high: T,
    edges: &'a [T],
    counts: &'a mut [u64],
}

impl<T: Float> Kernel for Bins<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Bins { values, low, high, edges, counts } = self;
        let last = counts.len() - 1;
        let scale = T::from_usize(counts.len());
        // Halves everything if the range is not a finite number.
        let part = T::from_f64(if high - low < T::HIGHEST { 1.0 } else { 0.5 });
        let (first, range) = (low * part, high * part - low * part);
        for &x in values {
            if x >= low && x <= high {
                // Each operation is rounded, so the result may be a neighbour of the bin.
                let near: f64 = ((x * part - first) / range * scale).into();
                let mut bin = (near as usize).min(last);
                while x < edges[bin] {
                    bin -= 1;
                }
                while bin < last && x >= edges[bin + 1] {
                    bin += 1;
                }
                counts[bin] += 1;
            }
        }
    }
}
