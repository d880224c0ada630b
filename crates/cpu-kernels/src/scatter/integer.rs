//! The same functions for integers: sums and products wrap around, so their order does not matter.

use super::{Checked, Destinations, Reduce, Rows, check, elements, fold, wrapped};
use crate::error::{Result, expect_len, expect_size};
use crate::integer::floor_divide;
use crate::{memory, parallel};

/// Adds `alpha` times each slice of `source` to the slice of `out` that `index` names.
///
/// # Shapes
///
/// `out` (outer, dim, inner), `index` (n), `source` (outer, n, inner).
///
/// # Determinism
///
/// Portable: integers wrap around.
///
/// # Errors
///
/// As [`scatter::index_add`](super::index_add).
pub fn index_add(
    out: &mut [i64],
    shape: [usize; 3],
    index: &[i64],
    source: &[i64],
    alpha: i64,
) -> Result<()> {
    slices("index_add", out, shape, index, source, |out, width, rows, source| {
        each(out, width, rows, source, alpha, i64::wrapping_add)
    })
}

/// Adds each element of `source` to the element of `out` that its index names.
///
/// # Shapes
///
/// `out` (outer, dim, inner), `index` and `source` (outer, n, inner).
///
/// # Determinism
///
/// Portable: integers wrap around.
///
/// # Errors
///
/// As [`scatter::index_add`](super::index_add).
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::scatter::integer::scatter_add;
///
/// let mut out = [i64::MAX, 0];
/// scatter_add(&mut out, [1, 2, 1], &[0, 1, 1], &[1, 2, 3])?;
/// assert_eq!(out, [i64::MIN, 5]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
pub fn scatter_add(
    out: &mut [i64],
    shape: [usize; 3],
    index: &[i64],
    source: &[i64],
) -> Result<()> {
    const OP: &str = "scatter_add";
    expect_len(OP, "source", source.len(), index.len())?;
    let elements = elements(OP, "out", out.len(), shape, index)?;
    each(out, 1, &elements, source, 1, i64::wrapping_add)
}

/// Adds each row of `values` to the row of `out` that its linear index names.
///
/// # Shapes
///
/// `out` (rows, width), `index` (n), `values` (n, width). Negative indices count from the end.
///
/// # Determinism
///
/// Portable: integers wrap around.
///
/// # Errors
///
/// As [`scatter::index_add`](super::index_add).
pub fn put_add(
    out: &mut [i64],
    [rows, width]: [usize; 2],
    index: &[i64],
    values: &[i64],
) -> Result<()> {
    const OP: &str = "index_put";
    expect_size(OP, "out", out.len(), &[rows, width])?;
    expect_size(OP, "values", values.len(), &[index.len(), width])?;
    let places = wrapped(OP, index, rows)?;
    each(out, width, &Checked(OP, &places), values, 1, i64::wrapping_add)
}

/// Reduces the elements of `source` into the elements of `out` that their indices name. A mean is
/// the sum, which wraps around, divided by the count and rounded down.
///
/// # Shapes
///
/// `out` (outer, dim, inner), `index` and `source` (outer, n, inner).
///
/// # Determinism
///
/// Portable: integers wrap around.
///
/// # Errors
///
/// As [`scatter::index_add`](super::index_add).
///
/// # References
///
/// `torch.Tensor.scatter_reduce_`.
pub fn scatter_reduce(
    out: &mut [i64],
    shape: [usize; 3],
    index: &[i64],
    source: &[i64],
    reduce: Reduce,
    include_self: bool,
) -> Result<()> {
    const OP: &str = "scatter_reduce";
    expect_len(OP, "source", source.len(), index.len())?;
    let elements = elements(OP, "out", out.len(), shape, index)?;
    reduce_rows(out, 1, &elements, source, reduce, include_self)
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
/// Portable: integers wrap around.
///
/// # Errors
///
/// As [`scatter::index_add`](super::index_add).
///
/// # References
///
/// `torch.Tensor.index_reduce_`.
pub fn index_reduce(
    out: &mut [i64],
    shape: [usize; 3],
    index: &[i64],
    source: &[i64],
    reduce: Reduce,
    include_self: bool,
) -> Result<()> {
    slices("index_reduce", out, shape, index, source, |out, width, rows, source| {
        reduce_rows(out, width, rows, source, reduce, include_self)
    })
}

/// Calls `f(out, inner, destinations, source)` for each of the outer slices.
fn slices(
    op: &'static str,
    out: &mut [i64],
    [outer, dim, inner]: [usize; 3],
    index: &[i64],
    source: &[i64],
    f: impl Fn(&mut [i64], usize, &Rows<'_>, &[i64]) -> Result<()>,
) -> Result<()> {
    expect_size(op, "out", out.len(), &[outer, dim, inner])?;
    expect_size(op, "source", source.len(), &[outer, index.len(), inner])?;
    check(op, index, dim)?;
    if out.is_empty() {
        return Ok(());
    }
    let slab = index.len() * inner;
    for (o, out) in out.chunks_mut(dim * inner).enumerate() {
        let rows = Rows { op, index, size: dim, base: 0 };
        f(out, inner, &rows, &source[o * slab..(o + 1) * slab])?;
    }
    Ok(())
}

/// A function that combines an output and one of its sources. It is a pointer, so that the loop
/// over the sources is compiled only once.
type Step = fn(i64, i64) -> i64;

fn each(
    out: &mut [i64],
    width: usize,
    destinations: &dyn Destinations,
    source: &[i64],
    factor: i64,
    step: Step,
) -> Result<()> {
    let source = |i: usize, j: usize| factor.wrapping_mul(source[i * width + j]);
    fold(out, width, destinations, source, step)
}

fn reduce_rows(
    out: &mut [i64],
    width: usize,
    destinations: &dyn Destinations,
    source: &[i64],
    reduce: Reduce,
    include_self: bool,
) -> Result<()> {
    let (identity, step): (Step, Step) = match reduce {
        Reduce::Sum | Reduce::Mean => (|_, _| 0, i64::wrapping_add),
        Reduce::Prod => (|_, _| 1, i64::wrapping_mul),
        Reduce::Amax => (|_, _| i64::MIN, i64::max),
        Reduce::Amin => (|_, _| i64::MAX, i64::min),
    };
    if !include_self {
        each(out, width, destinations, source, 1, identity)?;
    }
    each(out, width, destinations, source, 1, step)?;
    if reduce != Reduce::Mean {
        return Ok(());
    }
    let mut counts = memory::zeroed(destinations.op(), out.len() / width.max(1))?;
    each(&mut counts, 1, destinations, source, 1, |count, _| count + 1)?;
    parallel::rows(width, out, |start, rows| {
        for (row, &count) in rows.chunks_exact_mut(width).zip(&counts[start / width..]) {
            let count = if include_self { count + 1 } else { count.max(1) };
            row.iter_mut().for_each(|x| *x = floor_divide(*x, count));
        }
    });
    Ok(())
}
