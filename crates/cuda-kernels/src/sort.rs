//! Sorting and selection: `sort`, `topk`, `kthvalue`, `median`, `unique`, `nonzero`.
//!
//! # Determinism
//!
//! Portable. NaN is larger than every number and all NaNs are equal; −0 equals +0. Equal elements
//! keep their order, also in a descending sort, so each element has one place, whatever the
//! algorithm. Here short lines are merged in tiles of 1024 elements, and longer ones are sorted by
//! the digits of their keys, from the lowest one up; a few elements of a long line are found by
//! their digits. Values are moved and keep their bits; only a median that is NaN is the canonical
//! NaN.
//!
//! # Examples
//!
//! ```
//! use samebits_cuda_kernels::{Device, sort};
//! # if !samebits_cuda_kernels::is_available() {
//! #     return Ok(());
//! # }
//! let device = Device::new(0)?;
//! let x = device.upload(&[2.0f32, f32::NAN, 1.0, 2.0])?;
//! let (_, indices) = sort::sort(&device, &x, [1, 4, 1], true)?;
//! assert_eq!(device.download(&indices)?, [1, 0, 3, 2]);
//! # Ok::<(), samebits_cuda_kernels::CudaError>(())
//! ```

use crate::launch::declared::sort::RawTake;
use crate::launch::kernels::sort as kernels;
use crate::launch::{Buffer, Launch};

use crate::counts::starts;
pub use crate::device::Sortable;
use crate::device::{Device, Float, Word, expect_len, product};
use crate::error::{CudaError, Result};

mod select;
mod sorted;
mod unique;

use select::{Wanted, short_enough};
pub(crate) use sorted::Sorted;
pub use unique::{Unique, UniqueRows, unique, unique_rows};

/// Values, and the original index of each.
pub type Found<T> = (Buffer<T>, Buffer<i64>);

/// Sorts every line, ascending or descending, and returns the original index of each element.
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns two of the same.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for lines longer than 2^32 − 1.
pub fn sort<T: Sortable>(
    device: &Device,
    x: &Buffer<T>,
    shape: [usize; 3],
    descending: bool,
) -> Result<Found<T>> {
    find(device, "sort", x, shape, descending, Wanted::First(shape[1]))
}

/// Finds the `k` largest or smallest elements of every line: the first `k` of [`sort`].
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns two of `[outer, k, inner]`.
///
/// # Errors
///
/// As [`sort`]; [`CudaError::InvalidArgument`] if `k` exceeds `n`.
pub fn topk<T: Sortable>(
    device: &Device,
    x: &Buffer<T>,
    shape: [usize; 3],
    k: usize,
    largest: bool,
) -> Result<Found<T>> {
    let op = "topk";
    if k > shape[1] {
        let message = format!("k must not exceed the dimension's size of {}, got {k}", shape[1]);
        return Err(CudaError::invalid(op, message));
    }
    find(device, op, x, shape, largest, Wanted::First(k))
}

/// Finds the `k`-th smallest element of every line, counted from 1: element `k − 1` of [`sort`].
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns two of `[outer, 1, inner]`.
///
/// # Errors
///
/// As [`sort`]; [`CudaError::InvalidArgument`] if `k` is not in `1..=n`.
pub fn kthvalue<T: Sortable>(
    device: &Device,
    x: &Buffer<T>,
    shape: [usize; 3],
    k: usize,
) -> Result<Found<T>> {
    let op = "kthvalue";
    if k == 0 || k > shape[1] {
        let message = format!("k must be from 1 to the dimension's size of {}, got {k}", shape[1]);
        return Err(CudaError::invalid(op, message));
    }
    find(device, op, x, shape, false, Wanted::Place(k - 1))
}

/// Finds the median of every line (of two middle elements, the lower one) and its index. If a line
/// contains NaN, the result is the canonical NaN and the index of the first NaN; with `ignore_nan`,
/// only if all elements are NaN.
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns two of `[outer, 1, inner]`.
///
/// # Errors
///
/// As [`sort`]; [`CudaError::InvalidArgument`] if there are lines, but they are empty.
pub fn median<T: Sortable + Float>(
    device: &Device,
    x: &Buffer<T>,
    shape: [usize; 3],
    ignore_nan: bool,
) -> Result<Found<T>> {
    let op = "median";
    let [outer, n, inner] = shape;
    expect_len(op, "the input", x, product(op, &shape)?)?;
    let lines = product(op, &[outer, inner])?;
    let (mut values, mut indices) =
        (device.uninitialised(op, lines)?, device.uninitialised(op, lines)?);
    if lines == 0 {
        return Ok((values, indices));
    }
    if n == 0 {
        return Err(CudaError::invalid(op, "no elements have no median"));
    }
    let wanted = if ignore_nan { Wanted::NanMedian } else { Wanted::Median };
    if wanted.is_few_of(n) {
        let dense = select::dense_lines(device, x, shape)?;
        let picks =
            select::picks(device, op, dense.as_ref().unwrap_or(x), [lines, n], false, wanted)?;
        kernels::SelectMedian {
            values: &mut values,
            indices: &mut indices,
            input: x,
            places: &picks,
            p: RawTake::new(shape, 1, 0, 1),
        }
        .threads(device, op, lines)?;
        return Ok((values, indices));
    }
    let sorted = Sorted::new(device, op, x, shape, false)?;
    kernels::SortMedian {
        values: &mut values,
        indices: &mut indices,
        input: x,
        keys: &sorted.keys,
        places: &sorted.places,
        p: RawTake::new(shape, 1, 0, sorted.stride),
        ignore_nan: u32::from(ignore_nan),
    }
    .threads(device, op, lines)?;
    Ok((values, indices))
}

/// A type whose elements can be compared with zero.
pub trait Countable: Word {}
impl Countable for u8 {}
impl Countable for f32 {}
impl Countable for f64 {}
impl Countable for i64 {}

/// Finds the positions of the elements that are not zero, in row-major order, and their number. NaN
/// is not zero. Waits for the device, because the length of the result depends on the data.
///
/// # Shapes
///
/// `x` of the given shape; returns `[count, rank]`.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for more than 2^32 − 2 elements; those of
/// [`Device::synchronize`].
pub fn nonzero<T: Countable>(
    device: &Device,
    x: &Buffer<T>,
    shape: &[usize],
) -> Result<(Buffer<i64>, usize)> {
    let op = "nonzero";
    let n = product(op, shape)?;
    expect_len(op, "the input", x, n)?;
    if n == 0 {
        return Ok((device.uninitialised(op, 0)?, 0));
    }
    short_enough(op, n)?;
    let mut flags = device.uninitialised::<u32>(op, n + 1)?;
    kernels::NonzeroFlags { flags: &mut flags, input: x, n }.threads(device, op, n + 1)?;
    let before = starts(device, op, &flags, n + 1)?;
    let count = device.element(&before, n)? as usize;
    let sizes: Vec<u64> = shape.iter().map(|&size| size as u64).collect();
    let sizes = device.upload(&sizes)?;
    let mut out = device.uninitialised(op, product(op, &[count, shape.len()])?)?;
    kernels::NonzeroPositions {
        out: &mut out,
        flags: &flags,
        before: &before,
        shape: &sizes,
        rank: shape.len(),
        n,
    }
    .threads(device, op, n)?;
    Ok((out, count))
}

/// Finds the elements wanted of every line, which are no medians.
fn find<T: Sortable>(
    device: &Device,
    op: &'static str,
    x: &Buffer<T>,
    shape: [usize; 3],
    descending: bool,
    wanted: Wanted,
) -> Result<Found<T>> {
    let [outer, n, inner] = shape;
    expect_len(op, "the input", x, product(op, &shape)?)?;
    let (first, k) = match wanted {
        Wanted::First(k) => (0, k),
        Wanted::Place(place) => (place, 1),
        Wanted::Median | Wanted::NanMedian => unreachable!("medians have kernels of their own"),
    };
    let count = product(op, &[outer, k, inner])?;
    if inner == 1
        && k == n
        && count > 0
        && let Some(found) = sorted::rows(device, op, x, [outer, n], descending)?
    {
        return Ok(found);
    }
    let (mut values, mut indices) =
        (device.uninitialised(op, count)?, device.uninitialised(op, count)?);
    if count == 0 {
        return Ok((values, indices));
    }
    let (places, p) = if wanted.is_few_of(n) {
        let lines = outer * inner;
        let dense = select::dense_lines(device, x, shape)?;
        let dense = dense.as_ref().unwrap_or(x);
        let picks = select::picks(device, op, dense, [lines, n], descending, wanted)?;
        let places = match wanted {
            Wanted::First(2..) => {
                let shape = [lines, n, 1];
                Sorted::of(device, op, dense, shape, descending, Some((&picks, k)))?.places
            }
            _ => picks,
        };
        (places, RawTake::new(shape, k, 0, k))
    } else {
        let sorted = Sorted::new(device, op, x, shape, descending)?;
        (sorted.places, RawTake::new(shape, k, first, n))
    };
    kernels::SortTake { values: &mut values, indices: &mut indices, input: x, places: &places, p }
        .threads(device, op, count)?;
    Ok((values, indices))
}

impl RawTake {
    fn new([outer, source, inner]: [usize; 3], k: usize, first: usize, stride: usize) -> RawTake {
        RawTake { outer, source, inner, k, first, stride }
    }
}
