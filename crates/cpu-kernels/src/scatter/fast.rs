//! Sums with float atomics: any thread adds to any output, in any order.

use super::{Addends, Checked, Destinations, check, elements, rows, wrapped};
use crate::error::{Result, expect_len, expect_size};
use crate::{Float, memory, parallel};
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of sources per task.
const PIECE: usize = 1 << 14;

/// Computes [`index_add`](super::index_add) with float atomics.
///
/// # Shapes
///
/// As [`index_add`](super::index_add).
///
/// # Determinism
///
/// Not guaranteed: the bits depend on the schedule.
///
/// # Errors
///
/// As [`index_add`](super::index_add).
pub fn index_add_fast(
    out: &mut [f32],
    [outer, dim, inner]: [usize; 3],
    index: &[i64],
    source: &[f32],
    alpha: f32,
) -> Result<()> {
    const OP: &str = "index_add";
    expect_size(OP, "out", out.len(), &[outer, dim, inner])?;
    expect_size(OP, "source", source.len(), &[outer, index.len(), inner])?;
    check(OP, index, dim)?;
    if out.is_empty() || index.is_empty() {
        return Ok(());
    }
    let sums = atomics(OP, out)?;
    let rows = (PIECE / inner).max(1);
    for (o, source) in source.chunks(index.len() * inner).enumerate() {
        let sums = &sums[o * dim * inner..];
        let pieces = parallel::chunks(source, rows * inner).zip(parallel::chunks(index, rows));
        pieces.for_each(|(source, index)| {
            for (row, &i) in source.chunks_exact(inner).zip(index) {
                let sums = &sums[i as usize * inner..][..inner];
                for (sum, &x) in sums.iter().zip(row) {
                    atomic_add(sum, alpha * x);
                }
            }
        });
    }
    write_back(out, sums);
    Ok(())
}

/// Computes [`scatter_add`](super::scatter_add) with float atomics.
///
/// # Shapes
///
/// As [`scatter_add`](super::scatter_add).
///
/// # Determinism
///
/// Not guaranteed: the bits depend on the schedule.
///
/// # Errors
///
/// As [`scatter_add`](super::scatter_add).
pub fn scatter_add_fast(
    out: &mut [f32],
    shape: [usize; 3],
    index: &[i64],
    source: &[f32],
) -> Result<()> {
    const OP: &str = "scatter_add";
    expect_len(OP, "source", source.len(), index.len())?;
    let destinations = elements(OP, "out", out.len(), shape, index)?;
    check(OP, index, shape[1])?;
    add_rows(out, 1, &destinations, &rows(source, 1))
}

/// Computes [`put_add`](super::put_add) with float atomics.
///
/// # Shapes
///
/// As [`put_add`](super::put_add).
///
/// # Determinism
///
/// Not guaranteed: the bits depend on the schedule.
///
/// # Errors
///
/// As [`put_add`](super::put_add).
pub fn put_add_fast(
    out: &mut [f32],
    [size, width]: [usize; 2],
    index: &[i64],
    values: &[f32],
) -> Result<()> {
    const OP: &str = "index_put";
    expect_size(OP, "out", out.len(), &[size, width])?;
    expect_size(OP, "values", values.len(), &[index.len(), width])?;
    let places = wrapped(OP, index, size)?;
    add_rows(out, width, &Checked(OP, &places), &rows(values, width))
}

/// A way to add rows to indexed rows.
pub(crate) trait Adder<T: Float> {
    /// Adds as [`Sums::add_rows`](super::Sums::add_rows).
    fn add_rows(
        out: &mut [T],
        fresh: bool,
        width: usize,
        destinations: &dyn Destinations,
        addends: &impl Addends<T>,
    ) -> Result<()>;
}

/// The sum that the [parent](super) defines.
pub(crate) struct Exact;

impl<T: super::Sums> Adder<T> for Exact {
    fn add_rows(
        out: &mut [T],
        fresh: bool,
        width: usize,
        destinations: &dyn Destinations,
        addends: &impl Addends<T>,
    ) -> Result<()> {
        T::add_rows(out, fresh, width, destinations, addends)
    }
}

/// The sum by float atomics.
pub(crate) struct Atomic;

impl Adder<f32> for Atomic {
    fn add_rows(
        out: &mut [f32],
        fresh: bool,
        width: usize,
        destinations: &dyn Destinations,
        addends: &impl Addends<f32>,
    ) -> Result<()> {
        if fresh {
            out.fill(0.0);
        }
        add_rows(out, width, destinations, addends)
    }
}

fn add_rows(
    out: &mut [f32],
    width: usize,
    destinations: &dyn Destinations,
    addends: &impl Addends<f32>,
) -> Result<()> {
    let n = destinations.count();
    let piece = (PIECE / width.max(1)).max(1);
    let sums = atomics(destinations.op(), out)?;
    parallel::items(0..n.div_ceil(piece)).try_for_each(|number| {
        let start = number * piece;
        let mut rows = vec![0; piece.min(n - start)];
        destinations.fill(start, &mut rows)?;
        for (offset, row) in rows.into_iter().enumerate() {
            let source = start + offset;
            let sums = &sums[row * width..][..width];
            for (sum, &x) in sums.iter().zip(addends.row(source, 0, width)) {
                atomic_add(sum, addends.form(source, x));
            }
        }
        Ok(())
    })?;
    write_back(out, sums);
    Ok(())
}

fn atomics(op: &'static str, out: &[f32]) -> Result<Vec<AtomicU32>> {
    memory::collected(op, out.iter().map(|x| AtomicU32::new(x.to_bits())))
}

fn write_back(out: &mut [f32], sums: Vec<AtomicU32>) {
    for (x, sum) in out.iter_mut().zip(sums) {
        *x = f32::from_bits(sum.into_inner());
    }
}

#[inline(always)]
fn atomic_add(sum: &AtomicU32, x: f32) {
    let mut old = sum.load(Ordering::Relaxed);
    loop {
        let new = (f32::from_bits(old) + x).to_bits();
        match sum.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(found) => old = found,
        }
    }
}
