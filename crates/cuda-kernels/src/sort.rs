//! Sorting and selection: `sort`, `topk`, `kthvalue`, `median`, `unique`, `nonzero`.
//!
//! # Determinism
//!
//! Portable. NaN is larger than every number and all NaNs are equal; −0 equals +0. Equal elements
//! keep their order, also when sorting downwards: each element has one place, whatever the
//! algorithm. Here it is a stable merge sort: tiles of 1024 elements, then runs merged pair by
//! pair. Values are moved and keep their bits; only a median that NaN decides is the canonical
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
//!
//! # References
//!
//! O. Green, R. McColl, D. Bader, "GPU Merge Path: A GPU Merging Algorithm", ICS 2012.

use crate::launch::Buffer;
use bytemuck::{Pod, Zeroable};

use crate::device::{Device, Float, Word, expect_len, of, product};
use crate::error::{CudaError, Result};
use crate::reduce::grid;
use crate::segments::scan;

mod unique;

pub use unique::{Unique, UniqueRows, unique, unique_rows};

const FAMILY: &str = "sort";
/// Elements that one block sorts, and how many threads it has.
const TILE: usize = 1024;
const THREADS: u32 = 256;

/// A type with a sort order: f32, f64 or i64.
pub trait Sortable: Word {
    /// An unsigned integer as wide as the type.
    #[doc(hidden)]
    type Key: Word;
    /// 0, 1 or 2.
    #[doc(hidden)]
    const KIND: usize;
}

impl Sortable for f32 {
    type Key = u32;
    const KIND: usize = 0;
}

impl Sortable for f64 {
    type Key = u64;
    const KIND: usize = 1;
}

impl Sortable for i64 {
    type Key = u64;
    const KIND: usize = 2;
}

/// Values, and where each was.
pub type Found<T> = (Buffer<T>, Buffer<i64>);

/// Sorts every line, upwards or downwards, and says where each element was.
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
    select(device, "sort", x, shape, descending, 0, shape[1])
}

/// The `k` largest or smallest elements of every line: the first `k` of [`sort`].
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
    select(device, op, x, shape, largest, 0, k)
}

/// The `k`-th smallest element of every line, counted from 1: element `k − 1` of [`sort`].
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
    select(device, op, x, shape, false, k - 1, 1)
}

/// The median of every line, the lower one of two, and where it is. If there is a NaN, the
/// canonical NaN and where the first is; with `ignore_nan` only if all are.
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns two of `[outer, 1, inner]`.
///
/// # Errors
///
/// As [`sort`]; [`CudaError::InvalidArgument`] if there are lines and they are empty.
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
    let sorted = Sorted::new(device, op, x, shape, false, n)?;
    device
        .kernel(op, FAMILY, of::<T>(["sort_median_f32", "sort_median_f64"]))?
        .on(device.stream())
        .write(&mut values)
        .write(&mut indices)
        .read(x)
        .read(&sorted.keys)
        .read(&sorted.places)
        .value(&RawTake::new(shape, 1, 0, sorted.stride))
        .value(&u32::from(ignore_nan))
        .threads(lines, device.block())?;
    Ok((values, indices))
}

/// A type whose elements can be told from zero.
pub trait Countable: Word {
    /// The kernel that does it.
    #[doc(hidden)]
    const FLAGS: &'static str;
}

impl Countable for u8 {
    const FLAGS: &'static str = "nonzero_flags_u8";
}

impl Countable for f32 {
    const FLAGS: &'static str = "nonzero_flags_f32";
}

impl Countable for f64 {
    const FLAGS: &'static str = "nonzero_flags_f64";
}

impl Countable for i64 {
    const FLAGS: &'static str = "nonzero_flags_i64";
}

/// The positions of the elements that are not zero, in row-major order, and how many there are.
/// NaN is not zero. Waits for the device, because the result decides its own length.
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
    device
        .kernel(op, FAMILY, T::FLAGS)?
        .on(device.stream())
        .write(&mut flags)
        .read(x)
        .value(&(n as u64))
        .threads(n + 1, device.block())?;
    let before = scan(device, op, &flags, n + 1)?;
    let count = device.element(&before, n)? as usize;
    let sizes: Vec<u64> = shape.iter().map(|&size| size as u64).collect();
    let sizes = device.upload(&sizes)?;
    let mut out = device.uninitialised(op, product(op, &[count, shape.len()])?)?;
    device
        .kernel(op, FAMILY, "nonzero_positions")?
        .on(device.stream())
        .write(&mut out)
        .read(&flags)
        .read(&before)
        .read(&sizes)
        .value(&(shape.len() as u64))
        .value(&(n as u64))
        .threads(n, device.block())?;
    Ok((out, count))
}

/// `k` elements of every line from sorted place `first` on.
fn select<T: Sortable>(
    device: &Device,
    op: &'static str,
    x: &Buffer<T>,
    shape: [usize; 3],
    descending: bool,
    first: usize,
    k: usize,
) -> Result<Found<T>> {
    let [outer, _, inner] = shape;
    expect_len(op, "the input", x, product(op, &shape)?)?;
    let count = product(op, &[outer, k, inner])?;
    let (mut values, mut indices) =
        (device.uninitialised(op, count)?, device.uninitialised(op, count)?);
    if count == 0 {
        return Ok((values, indices));
    }
    let sorted = Sorted::new(device, op, x, shape, descending, first + k)?;
    device
        .kernel(op, FAMILY, bits::<T>(["sort_take_b32", "sort_take_b64"]))?
        .on(device.stream())
        .write(&mut values)
        .write(&mut indices)
        .read(x)
        .read(&sorted.places)
        .value(&RawTake::new(shape, k, first, sorted.stride))
        .threads(count, device.block())?;
    Ok((values, indices))
}

/// The elements of every line in order, at least the first that are needed.
struct Sorted<T: Sortable> {
    keys: Buffer<T::Key>,
    places: Buffer<u32>,
    /// Places of each line.
    stride: usize,
}

impl<T: Sortable> Sorted<T> {
    /// Sorts lines that are not empty, as far as their first `needed` elements.
    fn new(
        device: &Device,
        op: &'static str,
        x: &Buffer<T>,
        [outer, source, inner]: [usize; 3],
        descending: bool,
        needed: usize,
    ) -> Result<Sorted<T>> {
        short_enough(op, source)?;
        let lines = product(op, &[outer, inner])?;
        let mut raw = RawSort {
            lines: lines as u64,
            n: 0,
            source: source as u64,
            inner: inner as u64,
            tiles: 0,
            per_tile: 0,
            descending: u32::from(descending),
            picked: 0,
        };
        let mut picks = device.uninitialised::<u32>(op, 0)?;
        let mut n = source;
        loop {
            let (tiles, per_tile) = (n.div_ceil(TILE), (TILE / n).max(1));
            (raw.n, raw.tiles, raw.per_tile) = (n as u64, tiles as u64, per_tile as u64);
            let blocks = grid(op, product(op, &[lines.div_ceil(per_tile), tiles])?)?;
            let mut keys = device.uninitialised::<T::Key>(op, lines * n)?;
            let mut places = device.uninitialised::<u32>(op, lines * n)?;
            device
                .kernel(
                    op,
                    FAMILY,
                    ["sort_tiles_f32", "sort_tiles_f64", "sort_tiles_i64"][T::KIND],
                )?
                .on(device.stream())
                .write(&mut keys)
                .write(&mut places)
                .read(x)
                .read(&picks)
                .value(&raw)
                .grid((blocks, 1, 1), (THREADS, 1, 1))?;
            let sorted = Sorted { keys, places, stride: n };
            if tiles == 1 {
                return Ok(sorted);
            }
            if needed > TILE / 2 {
                return sorted.merge(device, op, raw, blocks);
            }
            // What is not among the first of its tile is not among the first of its line.
            let kept = (tiles - 1) * needed + needed.min(n - (tiles - 1) * TILE);
            picks = device.uninitialised(op, lines * kept)?;
            device
                .kernel(op, FAMILY, "sort_keep")?
                .on(device.stream())
                .write(&mut picks)
                .read(&sorted.places)
                .value(&raw)
                .value(&(needed as u64))
                .value(&(kept as u64))
                .threads(lines * kept, device.block())?;
            (raw.picked, n) = (1, kept);
        }
    }

    /// Merges the tiles of every line.
    fn merge(
        self,
        device: &Device,
        op: &'static str,
        raw: RawSort,
        blocks: u32,
    ) -> Result<Sorted<T>> {
        let Sorted { mut keys, mut places, stride } = self;
        let mut other_keys = device.uninitialised::<T::Key>(op, keys.len())?;
        let mut other_places = device.uninitialised::<u32>(op, places.len())?;
        let mut run = TILE;
        while run < stride {
            device
                .kernel(op, FAMILY, bits::<T>(["sort_merge_b32", "sort_merge_b64"]))?
                .on(device.stream())
                .write(&mut other_keys)
                .write(&mut other_places)
                .read(&keys)
                .read(&places)
                .value(&raw)
                .value(&(run as u64))
                .grid((blocks, 1, 1), (THREADS, 1, 1))?;
            std::mem::swap(&mut keys, &mut other_keys);
            std::mem::swap(&mut places, &mut other_places);
            run *= 2;
        }
        Ok(Sorted { keys, places, stride })
    }
}

/// Of the kernels for 4 and 8 bytes, the one for `T`.
fn bits<T>(names: [&'static str; 2]) -> &'static str {
    names[usize::from(size_of::<T>() == 8)]
}

/// Places are 32 bits wide.
fn short_enough(op: &'static str, n: usize) -> Result<()> {
    if n < u32::MAX as usize {
        return Ok(());
    }
    Err(CudaError::invalid(op, format!("{n} is more than 2^32 - 2 elements")))
}

/// `SbSort` of the kernels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawSort {
    lines: u64,
    n: u64,
    source: u64,
    inner: u64,
    tiles: u64,
    per_tile: u64,
    descending: u32,
    picked: u32,
}

/// `SbTake` of the kernels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawTake {
    outer: u64,
    source: u64,
    inner: u64,
    k: u64,
    first: u64,
    stride: u64,
}

impl RawTake {
    fn new([outer, source, inner]: [usize; 3], k: usize, first: usize, stride: usize) -> RawTake {
        RawTake {
            outer: outer as u64,
            source: source as u64,
            inner: inner as u64,
            k: k as u64,
            first: first as u64,
            stride: stride as u64,
        }
    }
}
