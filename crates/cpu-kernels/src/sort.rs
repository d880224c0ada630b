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

use crate::error::{Error, Result, expect_size};
use crate::{Float, memory, parallel};
use samebits_numerics::extrema::Ordered;
use samebits_numerics::fpenv;

/// The number of elements of a line from which several threads sort it together.
const LONG: usize = 1 << 16;

/// A type with a sort order.
pub trait Sortable: Copy + Send + Sync {
    /// Returns a key that sorts ascending as the values do.
    fn key(self) -> u64;

    /// Returns the value of a key, for a type in which each key has one value.
    fn of_key(_key: u64) -> Option<Self> {
        None
    }

    /// Returns true if [`unique`] treats the values as equal. Unlike in a sort, a NaN does not
    /// equal another NaN.
    fn same(self, other: Self) -> bool;
}

impl Sortable for f32 {
    #[inline(always)]
    fn key(self) -> u64 {
        self.sort_key().into()
    }

    fn same(self, other: f32) -> bool {
        self == other
    }
}

impl Sortable for f64 {
    #[inline(always)]
    fn key(self) -> u64 {
        self.sort_key()
    }

    fn same(self, other: f64) -> bool {
        self == other
    }
}

impl Sortable for i64 {
    #[inline(always)]
    fn key(self) -> u64 {
        self as u64 ^ (1 << 63)
    }

    fn of_key(key: u64) -> Option<i64> {
        Some((key ^ 1 << 63) as i64)
    }

    fn same(self, other: i64) -> bool {
        self == other
    }
}

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
    select("sort", input, shape, shape[1], values, indices, |line, read| {
        let mut order = Order::of("sort", line, read, descending)?;
        order.sort();
        Ok(order)
    })
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
    select("topk", input, shape, k, values, indices, |line, read| {
        Order::first_of("topk", line, read, largest, k)
    })
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
    select("kthvalue", input, shape, 1, values, indices, |line, read| {
        let mut order = Order::of("kthvalue", line, read, false)?;
        order.nth(k - 1);
        Ok(order)
    })
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
    nth: impl Fn(usize, usize) -> usize + Sync,
) -> Result<()> {
    if shape[1] == 0 && shape[0] > 0 && shape[2] > 0 {
        return Err(Error::argument(op, "no elements have no median"));
    }
    select(op, input, shape, 1, values, indices, |line, read| {
        let nans = (0..line).filter(|&i| Ordered::is_nan(read(i))).count();
        let mut order = Order::of(op, line, read, false)?;
        order.nth(nth(line, nans));
        Ok(order)
    })?;
    values.iter_mut().for_each(|x| *x = x.canonical());
    Ok(())
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
    if let Some(unique) = counted(input)? {
        return Ok(unique);
    }
    fpenv::ieee(|| {
        let mut order = Order::of("unique", input.len(), |i| input[i], false)?;
        order.sort();
        group("unique", input, (0..input.len()).map(|place| order.index(place)))
    })
}

/// Computes [`unique`] by counting each key, if the keys are close together and each has one value.
fn counted<T: Sortable>(input: &[T]) -> Result<Option<Unique<T>>> {
    const OP: &str = "unique";
    let least_and_most = |(least, most): (u64, u64), key: u64| (least.min(key), most.max(key));
    let (least, most) = input.iter().map(|x| x.key()).fold((u64::MAX, 0), least_and_most);
    if T::of_key(least).is_none() || most.wrapping_sub(least) >= input.len() as u64 {
        return Ok(None);
    }
    let mut table: Vec<i64> = memory::zeroed(OP, (most - least) as usize + 1)?;
    input.iter().for_each(|x| table[(x.key() - least) as usize] += 1);
    let distinct = table.iter().filter(|&&count| count > 0).count();
    let mut values = memory::with_capacity(OP, distinct)?;
    let mut counts = memory::with_capacity(OP, distinct)?;
    for (offset, place) in table.iter_mut().enumerate() {
        if *place > 0 {
            values.extend(T::of_key(least + offset as u64));
            counts.push(std::mem::replace(place, counts.len() as i64));
        }
    }
    let mut inverse = memory::zeroed(OP, input.len())?;
    parallel::pieces(&mut inverse, |start, inverse| {
        for (place, x) in inverse.iter_mut().zip(&input[start..]) {
            *place = table[(x.key() - least) as usize];
        }
    });
    Ok(Some(Unique { values, inverse, counts }))
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
    fpenv::ieee(|| group("unique_consecutive", input, 0..input.len()))
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

fn group<T: Sortable>(
    op: &'static str,
    input: &[T],
    order: impl Iterator<Item = usize>,
) -> Result<Unique<T>> {
    let inverse = memory::zeroed(op, input.len())?;
    let mut unique: Unique<T> = Unique { values: Vec::new(), inverse, counts: Vec::new() };
    for i in order {
        match (unique.values.last(), unique.counts.last_mut()) {
            (Some(last), Some(count)) if last.same(input[i]) => *count += 1,
            _ => {
                memory::reserve(op, &mut unique.values, 1)?;
                memory::reserve(op, &mut unique.counts, 1)?;
                unique.values.push(input[i]);
                unique.counts.push(1);
            }
        }
        unique.inverse[i] = unique.values.len() as i64 - 1;
    }
    Ok(unique)
}

/// The elements of a line as pairs of key and index. No two pairs are equal, so any sorting
/// algorithm gives the stable order.
enum Order {
    /// 32-bit keys of a line with 32-bit indices.
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
}

impl Order {
    fn of<T: Sortable>(
        op: &'static str,
        n: usize,
        read: impl Fn(usize) -> T,
        descending: bool,
    ) -> Result<Order> {
        if is_narrow::<T>(n) {
            let pairs = (0..n).map(narrow(read, descending));
            Ok(Order::Narrow(memory::collected(op, pairs)?))
        } else {
            let pairs = (0..n).map(wide(read, descending));
            Ok(Order::Wide(memory::collected(op, pairs)?))
        }
    }

    fn sort(&mut self) {
        match self {
            Order::Narrow(pairs) if pairs.len() >= LONG => parallel::sort_unstable(pairs),
            Order::Narrow(pairs) => pairs.sort_unstable(),
            Order::Wide(pairs) if pairs.len() >= LONG => parallel::sort_unstable(pairs),
            Order::Wide(pairs) => pairs.sort_unstable(),
        }
    }

    /// Returns the first `k` elements in order, for `k` of at least 1.
    fn first_of<T: Sortable>(
        op: &'static str,
        n: usize,
        read: impl Fn(usize) -> T,
        descending: bool,
        k: usize,
    ) -> Result<Order> {
        if is_narrow::<T>(n) {
            Ok(Order::Narrow(first(op, n, k, u64::MAX, narrow(read, descending))?))
        } else {
            Ok(Order::Wide(first(op, n, k, u128::MAX, wide(read, descending))?))
        }
    }

    /// Keeps only the element that sorting would put at `place`.
    fn nth(&mut self, place: usize) {
        match self {
            Order::Narrow(pairs) => *pairs = vec![*pairs.select_nth_unstable(place).1],
            Order::Wide(pairs) => *pairs = vec![*pairs.select_nth_unstable(place).1],
        }
    }

    fn index(&self, place: usize) -> usize {
        match self {
            Order::Narrow(pairs) => (pairs[place] & u64::from(u32::MAX)) as usize,
            Order::Wide(pairs) => pairs[place] as u64 as usize,
        }
    }
}

/// Returns true if the key and the index of a line's elements fit into 64 bits together.
fn is_narrow<T>(n: usize) -> bool {
    size_of::<T>() == 4 && n <= 1 << 32
}

fn narrow<T: Sortable>(read: impl Fn(usize) -> T, descending: bool) -> impl Fn(usize) -> u64 {
    let flip = if descending { u64::from(u32::MAX) } else { 0 };
    move |i| (read(i).key() ^ flip) << 32 | i as u64
}

fn wide<T: Sortable>(read: impl Fn(usize) -> T, descending: bool) -> impl Fn(usize) -> u128 {
    let flip = if descending { u64::MAX } else { 0 };
    move |i| u128::from(read(i).key() ^ flip) << 64 | i as u128
}

/// Returns the `k` smallest of `n` pairs in order; no pair may exceed `largest`.
///
/// It keeps only pairs that can still be among them: few, unless the line descends.
fn first<P: Ord + Copy>(
    op: &'static str,
    n: usize,
    k: usize,
    largest: P,
    pair: impl Fn(usize) -> P,
) -> Result<Vec<P>> {
    let room = n.min(k.saturating_mul(4).max(256));
    let mut kept = memory::with_capacity(op, room)?;
    let mut bound = largest;
    for pair in (0..n).map(pair) {
        if pair > bound {
            continue;
        }
        if kept.len() == room {
            bound = *kept.select_nth_unstable(k - 1).1;
            kept.truncate(k);
            if pair > bound {
                continue;
            }
        }
        kept.push(pair);
    }
    kept.sort_unstable();
    kept.truncate(k);
    Ok(kept)
}

/// Writes the first `k` elements of each line in the order that `arrange` returns.
fn select<T: Sortable>(
    op: &'static str,
    input: &[T],
    [outer, dim, inner]: [usize; 3],
    k: usize,
    values: &mut [T],
    indices: &mut [i64],
    arrange: impl Fn(usize, &dyn Fn(usize) -> T) -> Result<Order> + Sync + Send,
) -> Result<()> {
    expect_size(op, "input", input.len(), &[outer, dim, inner])?;
    expect_size(op, "values", values.len(), &[outer, k, inner])?;
    expect_size(op, "indices", indices.len(), &[outer, k, inner])?;
    if values.is_empty() {
        return Ok(());
    }
    parallel::chunks_mut(values, k * inner)
        .zip(parallel::chunks_mut(indices, k * inner))
        .zip(parallel::chunks(input, dim * inner))
        .try_for_each(|((values, indices), input)| {
            for j in 0..inner {
                let order = arrange(dim, &|i| input[i * inner + j])?;
                for place in 0..k {
                    let i = order.index(place);
                    values[place * inner + j] = input[i * inner + j];
                    indices[place * inner + j] = i as i64;
                }
            }
            Ok(())
        })
}
