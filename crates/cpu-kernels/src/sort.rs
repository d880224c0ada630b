//! Sorting and selection: `sort`, `topk`, `kthvalue`, `median`, `unique`.
//!
//! # The order
//!
//! NaN is larger than every number and all NaNs are equal; `-0` equals `+0`. Equal elements keep
//! their order (the first index comes first), also in a descending sort. So each element has one
//! place, and every algorithm gives the same result. Values are moved and keep their bits; only a
//! median that is NaN is the canonical NaN.
//!
//! # Layouts
//!
//! Tensors are contiguous slices of shape (outer, dim, inner), sorted along `dim`.

mod lines;
mod short;

use crate::error::{Error, Result, expect_size};
use crate::{Float, memory, parallel};
use lines::{Pair, Wanted, arrange, sort_pairs};
use samebits_numerics::fpenv;

pub use lines::{Rank, Sortable};

/// Sorts every line, ascending or descending, and returns the original index of each element.
///
/// # Shapes
///
/// `input`, `values` and `indices` (outer, dim, inner).
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// [`Error::Length`] if a slice does not have the shape; [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// let (mut values, mut indices) = ([0.0f32; 4], [0; 4]);
/// let input = [2.0, f32::NAN, 1.0, 2.0];
/// samebits_cpu_kernels::sort::sort(&input, [1, 4, 1], true, &mut values, &mut indices)?;
/// assert_eq!(indices, [1, 0, 3, 2]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.sort` with `stable=True`.
pub fn sort<T: Sortable>(
    input: &[T],
    shape: [usize; 3],
    descending: bool,
    values: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    let all = Wanted::First { count: shape[1], descending };
    select("sort", input, shape, shape[1], values, indices, all)
}

/// Finds the `k` largest or smallest elements of every line, in sorted order.
///
/// # Shapes
///
/// `input` (outer, dim, inner), `values` and `indices` (outer, k, inner).
///
/// # Determinism
///
/// Portable: see the [module](self). The elements are the first `k` of [`sort`].
///
/// # Errors
///
/// As [`sort`]; [`Error::Argument`] if `k` exceeds the dimension.
///
/// # References
///
/// `torch.topk`.
pub fn topk<T: Sortable>(
    input: &[T],
    shape: [usize; 3],
    k: usize,
    largest: bool,
    values: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    if k > shape[1] {
        let message = format!("k must not exceed the dimension's size of {}, got {k}", shape[1]);
        return Err(Error::argument("topk", message));
    }
    let first = Wanted::First { count: k, descending: largest };
    select("topk", input, shape, k, values, indices, first)
}

/// Finds the `k`-th smallest element of every line (counted from 1), and its index.
///
/// # Shapes
///
/// `input` (outer, dim, inner), `values` and `indices` (outer, 1, inner).
///
/// # Determinism
///
/// Portable: element `k - 1` of an ascending [`sort`].
///
/// # Errors
///
/// As [`sort`]; [`Error::Argument`] if `k` is not in `1..=dim`.
///
/// # References
///
/// `torch.kthvalue`.
pub fn kthvalue<T: Sortable>(
    input: &[T],
    shape: [usize; 3],
    k: usize,
    values: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    if k == 0 || k > shape[1] {
        let message = format!("k must be from 1 to the dimension's size of {}, got {k}", shape[1]);
        return Err(Error::argument("kthvalue", message));
    }
    select("kthvalue", input, shape, 1, values, indices, Wanted::Place(k - 1))
}

/// Finds the median of every line, and its index: of two middle elements, the lower one. If a line
/// contains NaN, the result is the canonical NaN and the index of the first NaN.
///
/// # Shapes
///
/// `input` (outer, dim, inner), `values` and `indices` (outer, 1, inner).
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// As [`sort`]; [`Error::Argument`] if the dimension is empty and there are lines.
///
/// # References
///
/// `torch.median`.
pub fn median<T: Sortable + Float>(
    input: &[T],
    shape: [usize; 3],
    values: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    median_of("median", input, shape, values, indices, |line, nans| match nans {
        0 => (line - 1) / 2,
        // NaNs sort last, and the first of them comes first.
        nans => line - nans,
    })
}

/// Finds the median of the elements of every line that are not NaN, and its index. If all are NaN,
/// the result is the canonical NaN and index 0.
///
/// # Shapes
///
/// As [`median`].
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// As [`median`].
///
/// # References
///
/// `torch.nanmedian`.
pub fn nanmedian<T: Sortable + Float>(
    input: &[T],
    shape: [usize; 3],
    values: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    median_of("nanmedian", input, shape, values, indices, |line, nans| {
        (line - nans).saturating_sub(1) / 2
    })
}

fn median_of<T: Sortable + Float>(
    op: &'static str,
    input: &[T],
    shape: [usize; 3],
    values: &mut [T],
    indices: &mut [i64],
    place: fn(usize, usize) -> usize,
) -> Result<()> {
    if shape[1] == 0 && shape[0] > 0 && shape[2] > 0 {
        return Err(Error::argument(op, "no elements have no median"));
    }
    select(op, input, shape, 1, values, indices, Wanted::Median(place))?;
    values.iter_mut().for_each(|x| *x = x.canonical());
    Ok(())
}

/// The number of short lines that are worth vectors.
const SEVERAL: usize = 8;

/// Writes the `k` elements of each line that `wanted` names, in their order.
fn select<T: Sortable>(
    op: &'static str,
    input: &[T],
    shape: [usize; 3],
    k: usize,
    values: &mut [T],
    indices: &mut [i64],
    wanted: Wanted,
) -> Result<()> {
    let [outer, dim, inner] = shape;
    expect_size(op, "input", input.len(), &shape)?;
    expect_size(op, "values", values.len(), &[outer, k, inner])?;
    expect_size(op, "indices", indices.len(), &[outer, k, inner])?;
    if values.is_empty() {
        return Ok(());
    }
    if dim <= short::SHORT && outer * inner >= SEVERAL {
        return short::select(input, shape, k, values, indices, wanted);
    }
    lines::select(op, input, shape, k, values, indices, wanted)
}

/// The distinct elements of a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Unique<T> {
    /// The distinct elements; of equal ones, the first.
    pub values: Vec<T>,
    /// The position in `values` of each element of the input.
    pub inverse: Vec<i64>,
    /// The number of occurrences of each value.
    pub counts: Vec<i64>,
}

/// Returns the distinct elements of `input` in ascending order. `-0` equals `+0`; every NaN is
/// distinct.
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// let unique = samebits_cpu_kernels::sort::unique(&[3, 1, 3])?;
/// assert_eq!(unique.values, [1, 3]);
/// assert_eq!(unique.inverse, [1, 0, 1]);
/// assert_eq!(unique.counts, [1, 2]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.unique`.
pub fn unique<T: Sortable>(input: &[T]) -> Result<Unique<T>> {
    let mut inverse = memory::zeroed("unique", input.len())?;
    let (values, counts) = unique_to(input, false, &mut inverse)?;
    Ok(Unique { values, inverse, counts })
}

/// Computes [`unique`], or [`unique_consecutive`] on request: returns the values and their counts.
pub(crate) fn unique_to<T: Sortable>(
    input: &[T],
    consecutive: bool,
    inverse: &mut [i64],
) -> Result<(Vec<T>, Vec<i64>)> {
    const OP: &str = "unique";
    if consecutive {
        let order = |i: usize| (input[i].key(), i);
        return fpenv::ieee(|| group("unique_consecutive", input, order, inverse));
    }
    let (least, most) = fpenv::ieee(|| {
        let keys = input.iter().map(|x| x.key());
        keys.fold((u64::MAX, 0), |(least, most), key| (u64::min(least, key), u64::max(most, key)))
    });
    let range = most.wrapping_sub(least);
    let elements = input.len() as u64;
    let places = elements.saturating_mul(SPARSE).min(SPARSE_PLACES).max(elements);
    let is_countable = T::of_key(least).is_some() && elements <= u64::from(u32::MAX);
    if is_countable && range < places {
        return counted(input, least, most, inverse);
    }
    fpenv::ieee(|| {
        if range > u64::from(u32::MAX) || input.len() > 1 << 32 {
            let mut pairs: Vec<u128> = Vec::new();
            let all = Wanted::First { count: input.len(), descending: false };
            arrange(OP, input, all, &mut pairs)?;
            let order = |i: usize| (pairs[i].key(), pairs[i].index());
            return group(OP, input, order, inverse);
        }
        // Differences of keys fit half of a pair of half the size.
        let pairs = input.iter().enumerate().map(|(i, x)| Pair::new(x.key() - least, i));
        let mut pairs: Vec<u64> = memory::collected(OP, pairs)?;
        sort_pairs(&mut pairs);
        group(OP, input, |i| (pairs[i].key() + least, pairs[i].index()), inverse)
    })
}

/// How many times as many places as elements a table of counts has at most, and how many places if these
/// are more than elements: 32 MiB.
const SPARSE: u64 = 8;
const SPARSE_PLACES: u64 = 1 << 23;

/// Computes [`unique`] by counting each key from `least` to `most`, if each has one value and there are less
/// than 2^32 elements.
fn counted<T: Sortable>(
    input: &[T],
    least: u64,
    most: u64,
    inverse: &mut [i64],
) -> Result<(Vec<T>, Vec<i64>)> {
    const OP: &str = "unique";
    let mut table: Vec<u32> = memory::zeroed(OP, (most - least) as usize + 1)?;
    input.iter().for_each(|x| table[(x.key() - least) as usize] += 1);
    let distinct = table.iter().filter(|&&count| count > 0).count();
    let mut values = memory::with_capacity(OP, distinct)?;
    let mut counts = memory::with_capacity(OP, distinct)?;
    for (offset, place) in table.iter_mut().enumerate() {
        if *place > 0 {
            values.extend(T::of_key(least + offset as u64));
            counts.push(i64::from(std::mem::replace(place, counts.len() as u32)));
        }
    }
    parallel::pieces(inverse, |start, inverse| {
        for (place, x) in inverse.iter_mut().zip(&input[start..]) {
            *place = i64::from(table[(x.key() - least) as usize]);
        }
    });
    Ok((values, counts))
}

/// Returns the elements of `input` that differ from the one before.
///
/// # Determinism
///
/// Portable.
///
/// # Errors
///
/// [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// let unique = samebits_cpu_kernels::sort::unique_consecutive(&[3, 3, 1, 3])?;
/// assert_eq!(unique.values, [3, 1, 3]);
/// assert_eq!(unique.counts, [2, 1, 1]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.unique_consecutive`.
pub fn unique_consecutive<T: Sortable>(input: &[T]) -> Result<Unique<T>> {
    let mut inverse = memory::zeroed("unique_consecutive", input.len())?;
    let (values, counts) = unique_to(input, true, &mut inverse)?;
    Ok(Unique { values, inverse, counts })
}

/// The distinct rows of a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueRows {
    /// The positions of the distinct rows; of equal ones, the first.
    pub rows: Vec<usize>,
    /// The position in `rows` of each row of the input.
    pub inverse: Vec<i64>,
    /// The number of occurrences of each row.
    pub counts: Vec<i64>,
}

/// Returns the distinct rows of `input` in ascending lexicographic order or, with `consecutive`,
/// the rows that differ from the row before. `-0` equals `+0`; a row with a NaN is distinct.
///
/// # Shapes
///
/// `input` is (rows, width).
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// [`Error::Length`] if `input` does not have the shape; [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// let input = [3, 1, 2, 9, 3, 1];
/// let unique = samebits_cpu_kernels::sort::unique_rows(&input, [3, 2], false)?;
/// assert_eq!(unique.rows, [1, 0]);
/// assert_eq!(unique.inverse, [1, 0, 1]);
/// assert_eq!(unique.counts, [1, 2]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.unique` with a dimension.
pub fn unique_rows<T: Sortable>(
    input: &[T],
    [rows, width]: [usize; 2],
    consecutive: bool,
) -> Result<UniqueRows> {
    const OP: &str = "unique_dim";
    expect_size(OP, "input", input.len(), &[rows, width])?;
    let row = |i: usize| &input[i * width..][..width];
    if consecutive {
        return fpenv::ieee(|| group_rows(row, rows, 0..rows));
    }
    let mut keys = memory::zeroed::<u64>(OP, input.len())?;
    parallel::pieces(&mut keys, |start, keys| {
        for (key, x) in keys.iter_mut().zip(&input[start..]) {
            *key = x.key();
        }
    });
    // Rows with equal keys are ordered by their position.
    let places = (0..rows).map(|i| (&keys[i * width..][..width], i));
    let mut order = memory::collected(OP, places)?;
    parallel::sort_unstable(&mut order);
    fpenv::ieee(|| group_rows(row, rows, order.into_iter().map(|(_, i)| i)))
}

fn group_rows<'a, T: Sortable + 'a>(
    row: impl Fn(usize) -> &'a [T],
    rows: usize,
    order: impl Iterator<Item = usize>,
) -> Result<UniqueRows> {
    const OP: &str = "unique_dim";
    let mut unique =
        UniqueRows { rows: Vec::new(), inverse: memory::zeroed(OP, rows)?, counts: Vec::new() };
    for i in order {
        let same = |&last: &usize| row(last).iter().zip(row(i)).all(|(a, b)| a.same(*b));
        match unique.counts.last_mut() {
            Some(count) if unique.rows.last().is_some_and(same) => *count += 1,
            _ => {
                memory::reserve(OP, &mut unique.rows, 1)?;
                memory::reserve(OP, &mut unique.counts, 1)?;
                unique.rows.push(i);
                unique.counts.push(1);
            }
        }
        unique.inverse[i] = unique.rows.len() as i64 - 1;
    }
    Ok(unique)
}

/// Groups the elements of `input` in an order, given by the key and the position of the element in each
/// place. Returns the first element of each group, and their numbers of elements. Elements are compared by
/// their keys, which lie in this order, while the elements may lie anywhere.
fn group<T: Sortable>(
    op: &'static str,
    input: &[T],
    order: impl Fn(usize) -> (u64, usize),
    inverse: &mut [i64],
) -> Result<(Vec<T>, Vec<i64>)> {
    // Only a NaN is not the same as itself; all have one key.
    let nan = input.iter().find(|x| !x.same(**x)).map(|x| x.key());
    let begins = |i: usize| {
        let key = order(i).0;
        i == 0 || key != order(i - 1).0 || Some(key) == nan
    };
    let distinct = (0..input.len()).filter(|&i| begins(i)).count();
    let mut values = memory::with_capacity(op, distinct)?;
    let mut counts: Vec<i64> = memory::with_capacity(op, distinct)?;
    let mut first = 0;
    for i in 0..input.len() {
        let at = order(i).1;
        if begins(i) {
            if i > 0 {
                counts.push((i - first) as i64);
            }
            values.push(input[at]);
            first = i;
        }
        inverse[at] = values.len() as i64 - 1;
    }
    if !input.is_empty() {
        counts.push((input.len() - first) as i64);
    }
    Ok((values, counts))
}
