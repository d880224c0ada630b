//! Reductions other than the sum, into indexed places.

use super::ascending::{Entry, Order, Visitor, visit_rows};
use super::fast::{Adder, Atomic, Exact};
use super::{Destinations, Rows, check, elements, rows};
use crate::error::{Result, expect_len, expect_size};
use crate::scatter::Sums;
use crate::{Float, memory, parallel};
use samebits_numerics::extrema::{max2, min2};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

pub use samebits_tensor_core::ops::ScatterReduceKind as Reduce;

/// Reduces the elements of `source` into the elements of `out` that their indices name.
///
/// With `include_self` the old value comes first, as one more element. Without it, the reduction
/// replaces the old value, but an output that receives no element keeps it.
///
/// # Shapes
///
/// `out` (outer, dim, inner), `index` and `source` (outer, n, inner).
///
/// # Determinism
///
/// Portable: see the [module](super) and [`Reduce`].
///
/// # Errors
///
/// As [`index_add`](super::index_add).
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::scatter::{Reduce, scatter_reduce};
///
/// let mut out = [10.0f32, 20.0, 30.0];
/// scatter_reduce(&mut out, [1, 3, 1], &[0, 0, 2], &[1.0, 2.0, 3.0], Reduce::Mean, false)?;
/// assert_eq!(out, [1.5, 20.0, 3.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.Tensor.scatter_reduce_`.
pub fn scatter_reduce<T: Sums>(
    out: &mut [T],
    shape: [usize; 3],
    index: &[i64],
    source: &[T],
    reduce: Reduce,
    include_self: bool,
) -> Result<()> {
    const OP: &str = "scatter_reduce";
    expect_len(OP, "source", source.len(), index.len())?;
    let elements = elements(OP, "out", out.len(), shape, index)?;
    reduce_rows::<T, Exact>(out, 1, &elements, source, reduce, include_self)
}

/// Computes [`scatter_reduce`] with float atomics for sums and means.
///
/// # Shapes
///
/// As [`scatter_reduce`].
///
/// # Determinism
///
/// Not guaranteed: the bits of sums and means depend on the schedule.
///
/// # Errors
///
/// As [`scatter_reduce`].
pub fn scatter_reduce_fast(
    out: &mut [f32],
    shape: [usize; 3],
    index: &[i64],
    source: &[f32],
    reduce: Reduce,
    include_self: bool,
) -> Result<()> {
    const OP: &str = "scatter_reduce";
    expect_len(OP, "source", source.len(), index.len())?;
    let elements = elements(OP, "out", out.len(), shape, index)?;
    reduce_rows::<f32, Atomic>(out, 1, &elements, source, reduce, include_self)
}

/// Reduces each slice of `source` into the slice of `out` that `index` names; see
/// [`scatter_reduce`].
///
/// # Shapes
///
/// `out` (outer, dim, inner), `index` (n), `source` (outer, n, inner).
///
/// # Determinism
///
/// Portable: see the [module](super) and [`Reduce`].
///
/// # Errors
///
/// As [`index_add`](super::index_add).
///
/// # References
///
/// `torch.Tensor.index_reduce_`.
pub fn index_reduce<T: Sums>(
    out: &mut [T],
    [outer, dim, inner]: [usize; 3],
    index: &[i64],
    source: &[T],
    reduce: Reduce,
    include_self: bool,
) -> Result<()> {
    const OP: &str = "index_reduce";
    expect_size(OP, "out", out.len(), &[outer, dim, inner])?;
    expect_size(OP, "source", source.len(), &[outer, index.len(), inner])?;
    check(OP, index, dim)?;
    if out.is_empty() {
        return Ok(());
    }
    let slab = index.len() * inner;
    for (o, out) in out.chunks_mut(dim * inner).enumerate() {
        let source = &source[o * slab..(o + 1) * slab];
        let rows = Rows { op: OP, index, size: dim, base: 0 };
        reduce_rows::<T, Exact>(out, inner, &rows, source, reduce, include_self)?;
    }
    Ok(())
}

fn reduce_rows<T: Float, A: Adder<T>>(
    out: &mut [T],
    width: usize,
    destinations: &dyn Destinations,
    values: &[T],
    reduce: Reduce,
    include_self: bool,
) -> Result<()> {
    if !include_self {
        forget(out, width, destinations, reduce)?;
    }
    match reduce {
        Reduce::Sum => A::add_rows(out, false, width, destinations, &rows(values, width)),
        Reduce::Mean => {
            A::add_rows(out, false, width, destinations, &rows(values, width))?;
            divide_by_counts(out, width, destinations, include_self)
        }
        Reduce::Prod | Reduce::Amax | Reduce::Amin => {
            fold_rows(out, width, destinations, values, reduce)
        }
    }
}

/// Sets each output that receives an element to the neutral value of the reduction.
fn forget<T: Float>(
    out: &mut [T],
    width: usize,
    destinations: &dyn Destinations,
    reduce: Reduce,
) -> Result<()> {
    let identity = match reduce {
        Reduce::Sum | Reduce::Mean => T::ZERO,
        Reduce::Prod => T::ONE,
        Reduce::Amax => T::LOWEST,
        Reduce::Amin => T::HIGHEST,
    };
    let n = destinations.count();
    if width == 0 || out.is_empty() {
        return destinations.check(0..n);
    }
    if n <= FEW || n < out.len() / width / 4 {
        destinations.check(0..n)?;
        return Order::batches(destinations, 0..n, |_, rows| {
            rows.iter().for_each(|&row| out[row * width..][..width].fill(identity));
            Ok(())
        });
    }
    // Marks first: unlike values, they have no order, and they are smaller.
    let marks = memory::collected(
        destinations.op(),
        (0..out.len() / width).map(|_| AtomicBool::new(false)),
    )?;
    parallel::items(0..n.div_ceil(PIECE)).try_for_each(|piece| {
        let first = piece * PIECE;
        Order::batches(destinations, first..n.min(first + PIECE), |_, rows| {
            rows.iter().for_each(|&row| marks[row].store(true, Ordering::Relaxed));
            Ok(())
        })
    })?;
    parallel::rows(width, out, |start, rows| {
        for (row, mark) in rows.chunks_exact_mut(width).zip(&marks[start / width..]) {
            if mark.load(Ordering::Relaxed) {
                row.fill(identity);
            }
        }
    });
    Ok(())
}

/// The number of sources whose outputs one thread sets.
const FEW: usize = 1 << 12;
/// The number of sources that one thread marks at a time.
const PIECE: usize = 1 << 15;

/// Divides each sum by the number of its elements.
fn divide_by_counts<T: Float>(
    out: &mut [T],
    width: usize,
    destinations: &dyn Destinations,
    include_self: bool,
) -> Result<()> {
    // Counts in f64, which is exact; every count used as a divisor is at least one.
    let mut counts = memory::zeroed(destinations.op(), out.len() / width.max(1))?;
    count(&mut counts, destinations)?;
    parallel::rows(width, out, |start, rows| {
        for (row, &count) in rows.chunks_exact_mut(width).zip(&counts[start / width..]) {
            let count = if include_self { count + 1.0 } else { count.max(1.0) };
            let divisor = T::from_f64(count);
            row.iter_mut().for_each(|x| *x = (*x / divisor).canonical());
        }
    });
    Ok(())
}

/// Adds the number of sources sent to each output.
fn count(counts: &mut [f64], destinations: &dyn Destinations) -> Result<()> {
    fold(counts, 1, destinations, |_, _| 1.0, |old, one| old + one)
}

fn fold_rows<T: Float>(
    out: &mut [T],
    width: usize,
    destinations: &dyn Destinations,
    values: &[T],
    reduce: Reduce,
) -> Result<()> {
    let source = |i: usize, j: usize| values[i * width + j];
    match reduce {
        Reduce::Prod => fold(out, width, destinations, source, |old, new| (old * new).canonical()),
        Reduce::Amax => fold(out, width, destinations, source, max2),
        Reduce::Amin => fold(out, width, destinations, source, min2),
        Reduce::Sum | Reduce::Mean => unreachable!("sums are added"),
    }
}

/// Replaces each output by `step(output, source)` for its sources in ascending order.
pub(crate) fn fold<T: Copy + Send>(
    out: &mut [T],
    width: usize,
    destinations: &dyn Destinations,
    source: impl Fn(usize, usize) -> T + Sync,
    step: impl Fn(T, T) -> T + Sync,
) -> Result<()> {
    visit_rows(out, width, destinations, &Fold { source, step, width, element: PhantomData })
}

struct Fold<S, F, T> {
    source: S,
    step: F,
    width: usize,
    element: PhantomData<fn() -> T>,
}

impl<T, S, F> Visitor for Fold<S, F, T>
where
    T: Copy + Send,
    S: Fn(usize, usize) -> T + Sync,
    F: Fn(T, T) -> T + Sync,
{
    type Element = T;
    type State = ();

    #[inline(always)]
    fn start(&self, _: &mut [T]) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn visit(&self, (): &mut (), out: &mut [T], base: usize, entries: &[Entry]) -> Result<()> {
        for entry in entries {
            let (row, source) = (entry.row as usize, base + entry.packed as usize);
            for (j, x) in out[row * self.width..][..self.width].iter_mut().enumerate() {
                *x = (self.step)(*x, (self.source)(source, j));
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn finish(&self, (): (), _: &mut [T]) -> Result<()> {
        Ok(())
    }
}
