//! Sums into, and assignments to, indexed places: `index_add`, `scatter_add`, `scatter_reduce`,
//! `scatter`, `index_put` and related functions.
//!
//! # What a sum is
//!
//! For f32, each output is the *exact* sum of its old value and of all addends sent to it, rounded
//! once; see [`samebits_numerics::exact`] for infinities, NaN and zeros. An addend is one f32: with
//! a factor `alpha`, it is the product rounded to f32. So the order of the addends cannot matter,
//! and every schedule gives the same bits. Every output is rounded, even one without addends: `-0`
//! becomes `+0` and NaN becomes canonical.
//!
//! For f64, each output is its old value plus its addends in ascending source order, each
//! addition rounded.
//!
//! # Duplicate assignments
//!
//! If several sources are assigned to one output, the one with the highest index is kept, as in a
//! sequential loop.
//!
//! # Layouts
//!
//! Tensors are contiguous slices of shape (outer, dim, inner): `dim` is the dimension that the
//! index addresses, `outer` and `inner` are the products of the dimensions before and after it.
//!
//! # Fast variants
//!
//! Functions ending in `_fast` add with float atomics: the result is valid, but its bits depend on
//! the schedule.

mod addends;
pub(crate) mod ascending;
mod destinations;
mod distinct;
pub(crate) mod exact;
mod fast;
pub mod integer;
mod reduce;
mod segments;
mod start;
mod sums;

pub use fast::{index_add_fast, put_add_fast, scatter_add_fast};
pub use reduce::{Reduce, index_reduce, scatter_reduce, scatter_reduce_fast};
pub use sums::Sums;

pub(crate) use fast::{Adder, Atomic, Exact};
pub(crate) use reduce::fold;

pub(crate) use addends::{Addends, Stored, picked, rows};
pub(crate) use destinations::{Checked, Destinations, Elements, Rows, Slabs, check, first_invalid};
pub(crate) use exact::Rest;

use crate::error::{Result, expect_len, expect_size};
use crate::{memory, parallel};

/// Adds `alpha` times each slice of `source` to the slice of `out` that `index` names.
///
/// # Shapes
///
/// `out` (outer, dim, inner), `index` (n), `source` (outer, n, inner).
///
/// # Determinism
///
/// Portable: see the [module](self). The addend is `alpha * source`, rounded.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice does not have the given shape;
/// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange), and then `out` is unchanged;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory), and then the content of `out` is meaningless.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::scatter::index_add;
///
/// let mut out = [0.0f32; 4];
/// // (outer, dim, inner) = (1, 2, 2): two rows of two.
/// index_add(&mut out, [1, 2, 2], &[1, 0, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 10.0)?;
/// assert_eq!(out, [30.0, 40.0, 60.0, 80.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.Tensor.index_add_`.
pub fn index_add<T: Sums>(
    out: &mut [T],
    shape: [usize; 3],
    index: &[i64],
    source: &[T],
    alpha: T,
) -> Result<()> {
    index_add_to("index_add", out, false, shape, index, source, alpha)
}

/// Computes [`index_add`]. The content of a `fresh` output is ignored.
pub(crate) fn index_add_to<T: Sums>(
    op: &'static str,
    out: &mut [T],
    fresh: bool,
    [outer, dim, inner]: [usize; 3],
    index: &[i64],
    source: &[T],
    alpha: T,
) -> Result<()> {
    expect_size(op, "out", out.len(), &[outer, dim, inner])?;
    expect_size(op, "source", source.len(), &[outer, index.len(), inner])?;
    check(op, index, dim)?;
    if out.is_empty() {
        return Ok(());
    }
    if distinct::add(op, out, fresh, (index, dim, inner), source, alpha)? {
        return Ok(());
    }
    let add_wide = |out: &mut [T], width, destinations: &dyn Destinations, source: &[T]| {
        if alpha == T::ONE {
            return T::add_rows(out, fresh, width, destinations, &rows(source, width));
        }
        let place = |i: usize| i * width;
        let addends = Stored { data: source, place, dense: width == 1, form: |_, x| alpha * x };
        T::add_rows(out, fresh, width, destinations, &addends)
    };
    let add = |out: &mut [T], destinations: &dyn Destinations, source: &[T]| {
        add_wide(out, inner, destinations, source)
    };
    let together = outer.min(ABREAST / inner);
    let steps = index.len().max(dim) * inner;
    let turned = steps.saturating_mul(together);
    if together > 1 && together * inner >= ABREAST / 2 && (FEW..=TURNED).contains(&turned) {
        let destinations = Rows { op, index, size: dim, base: 0 };
        let chunks = parallel::chunks_mut(out, together * dim * inner).enumerate();
        return chunks.try_for_each_with(
            || {
                let buffer = |steps: usize| memory::filled(op, steps * inner * together, T::ZERO);
                Ok([buffer(dim)?, buffer(index.len())?])
            },
            |[sums, addends], (chunk, out)| {
                let slabs = out.len() / (dim * inner);
                let (from, to) = (index.len() * inner, dim * inner);
                let (addends, sums) = (&mut addends[..from * slabs], &mut sums[..to * slabs]);
                let source = &source[chunk * together * from..][..from * slabs];
                T::transpose(source, from, (slabs, from), addends, slabs);
                if !fresh {
                    T::transpose(out, to, (slabs, to), sums, slabs);
                }
                add_wide(sums, slabs * inner, &destinations, addends)?;
                T::transpose(sums, slabs, (to, slabs), out, to);
                Ok(())
            },
        );
    }
    if outer > 1 && dim * inner <= SMALL_SLAB && !index.is_empty() {
        return add(out, &Slabs { op, index, size: dim, count: outer }, source);
    }
    let slab = index.len() * inner;
    for (o, out) in out.chunks_mut(dim * inner).enumerate() {
        let destinations = Rows { op, index, size: dim, base: 0 };
        add(out, &destinations, &source[o * slab..(o + 1) * slab])?;
    }
    Ok(())
}

/// The number of elements of slabs whose sums run side by side, since one index serves them all.
const ABREAST: usize = 16;
/// The number of elements from which it pays to turn such slabs, and up to which they are.
const FEW: usize = 1 << 10;
const TURNED: usize = 1 << 22;

/// The number of elements up to which slabs of the output share a call.
const SMALL_SLAB: usize = 1 << 12;

/// Adds each element of `source` to the element of `out` that its index names.
///
/// # Shapes
///
/// `out` (outer, dim, inner), `index` and `source` (outer, n, inner). If an index tensor is smaller
/// than `out` in the other dimensions, the caller must expand it.
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// As [`index_add`].
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::scatter::scatter_add;
///
/// let mut out = [1.0f32, 0.0, 0.0];
/// scatter_add(&mut out, [1, 3, 1], &[0, 2, 0], &[1e30, 5.0, -1e30])?;
/// assert_eq!(out, [1.0, 0.0, 5.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.Tensor.scatter_add_`.
pub fn scatter_add<T: Sums>(
    out: &mut [T],
    shape: [usize; 3],
    index: &[i64],
    source: &[T],
) -> Result<()> {
    scatter_add_to(out, false, shape, index, source)
}

/// Computes [`scatter_add`]. The content of a `fresh` output is ignored.
pub(crate) fn scatter_add_to<T: Sums>(
    out: &mut [T],
    fresh: bool,
    shape: [usize; 3],
    index: &[i64],
    source: &[T],
) -> Result<()> {
    const OP: &str = "scatter_add";
    expect_len(OP, "source", source.len(), index.len())?;
    let elements = elements(OP, "out", out.len(), shape, index)?;
    T::add_rows(out, fresh, 1, &elements, &rows(source, 1))
}

/// Adds each row of `values` to the row of `out` that its linear index names: `index_put` and `put`
/// with `accumulate`.
///
/// # Shapes
///
/// `out` (rows, width), `index` (n), `values` (n, width). The caller combines several index tensors
/// into one linear index; for `put`, `width` is 1. Negative indices count from the end.
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// As [`index_add`].
///
/// # References
///
/// `torch.Tensor.index_put_`, `torch.Tensor.put_`.
pub fn put_add<T: Sums>(
    out: &mut [T],
    shape: [usize; 2],
    index: &[i64],
    values: &[T],
) -> Result<()> {
    put_add_to(out, false, shape, index, values)
}

/// Computes [`put_add`]. The content of a `fresh` output is ignored.
pub(crate) fn put_add_to<T: Sums>(
    out: &mut [T],
    fresh: bool,
    [rows, width]: [usize; 2],
    index: &[i64],
    values: &[T],
) -> Result<()> {
    const OP: &str = "index_put";
    expect_size(OP, "out", out.len(), &[rows, width])?;
    expect_size(OP, "values", values.len(), &[index.len(), width])?;
    let places = wrapped(OP, index, rows)?;
    T::add_rows(out, fresh, width, &Checked(OP, &places), &addends::rows(values, width))
}

/// Returns the places of indices from `-size` to `size - 1`; negative ones count from the end.
pub(crate) fn wrapped(op: &'static str, index: &[i64], size: usize) -> Result<Vec<usize>> {
    let wrap = |(position, &index): (usize, &i64)| {
        let place = if index < 0 { index.wrapping_add_unsigned(size as u64) } else { index };
        if (place as u64) < size as u64 {
            Ok(place as usize)
        } else {
            Err(crate::Error::IndexOutOfRange { op, position, index, size })
        }
    };
    let mut places = memory::with_capacity(op, index.len())?;
    for pair in index.iter().enumerate() {
        places.push(wrap(pair)?);
    }
    Ok(places)
}

/// Checks the lengths of a tensor and of an index of elements along its middle dimension, and
/// returns the destinations.
pub(crate) fn elements<'a>(
    op: &'static str,
    what: &'static str,
    len: usize,
    [outer, size, inner]: [usize; 3],
    index: &'a [i64],
) -> Result<Elements<'a>> {
    expect_size(op, what, len, &[outer, size, inner])?;
    let lines = memory::product(&[outer, inner]).unwrap_or(usize::MAX);
    let n = index.len().checked_div(lines).unwrap_or(0);
    expect_size(op, "index", index.len(), &[n, lines])?;
    Ok(Elements { op, index, n, size, inner })
}
