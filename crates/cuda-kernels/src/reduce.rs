//! Reductions along one dimension: sums over the contract's fixed tree, and extrema.
//!
//! A tensor is seen as `[outer, n, inner]` and reduced over `n`.
//!
//! # Determinism
//!
//! Sums run in f64 over the tree of [`samebits_numerics::reduce`], whose shape depends on `n`
//! alone, and are rounded once. Of equal extrema the first index wins; NaN wins over all.

use bytemuck::{Pod, Zeroable};
use cudarc::driver::CudaSlice;

use crate::Variant;
use crate::device::{Device, Float, expect_len, of, product};
use crate::error::{CudaError, Result};

const FAMILY: &str = "reduce";
/// Terms of a block of the tree.
const BLOCK: usize = samebits_numerics::reduce::BLOCK;

/// What to do with the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// Rounds it.
    Sum,
    /// Divides it by `n` in f64 and rounds.
    Mean,
    /// The sum of the squares, which are exact for f32 and rounded to f64 otherwise.
    Squares,
}

/// Sums over the middle dimension.
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns `[outer, inner]`.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn sum<T: Float>(
    device: &Device,
    x: &CudaSlice<T>,
    [outer, n, inner]: [usize; 3],
    kind: Sum,
) -> Result<CudaSlice<T>> {
    let op = "sum";
    let wide = sums(device, op, x, [outer, n, inner], kind == Sum::Squares)?;
    let divisor = if kind == Sum::Mean { n as f64 } else { 1.0 };
    finish(device, op, &wide, outer * inner, divisor)
}

/// Divides f64 numbers and rounds them.
pub(crate) fn finish<T: Float>(
    device: &Device,
    op: &'static str,
    wide: &CudaSlice<f64>,
    n: usize,
    divisor: f64,
) -> Result<CudaSlice<T>> {
    let mut out = device.uninitialised(op, n)?;
    device
        .kernel(op, FAMILY, of::<T>(["finish_f32", "finish_f64"]))?
        .on(device.stream())
        .write(&mut out)
        .read(wide)
        .value(&(n as u64))
        .value(&divisor)
        .threads(n, device.block())?;
    Ok(out)
}

/// The sums in f64, before the rounding.
pub(crate) fn sums<T: Float>(
    device: &Device,
    op: &'static str,
    x: &CudaSlice<T>,
    [outer, n, inner]: [usize; 3],
    squares: bool,
) -> Result<CudaSlice<f64>> {
    expect_len(op, "the input", x, product(op, &[outer, n, inner])?)?;
    let wide = T::WIDE as usize;
    if n == 0 {
        return device.zeros_for(op, product(op, &[outer, inner])?);
    }
    let blocks = n.div_ceil(BLOCK);
    let raw = RawReduce::new(outer, n, inner, blocks);
    let outputs = product(op, &[outer, blocks, inner])?;
    let mut out = device.uninitialised::<f64>(op, outputs)?;
    if blocks == 1 && inner >= 32 && !squares {
        let name = ["sum_columns_f32", "sum_columns_f64"][wide];
        let grid = grid(op, product(op, &[outer, inner.div_ceil(32)])?)?;
        device
            .kernel(op, FAMILY, name)?
            .on(device.stream())
            .write(&mut out)
            .read(x)
            .value(&raw)
            .grid((grid, 1, 1), (32, 32, 1))?;
        return Ok(out);
    }
    let names = match squares {
        false => ["sum_blocks_f32", "sum_blocks_f64"],
        true => ["sum_squares_blocks_f32", "sum_squares_blocks_f64"],
    };
    device
        .kernel(op, FAMILY, names[wide])?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .value(&raw)
        .threads(product(op, &[outputs, 32])?, device.block())?;
    if blocks == 1 { Ok(out) } else { sums(device, op, &out, [outer, blocks, inner], false) }
}

/// Sums f32 with float atomics, one addition per element.
///
/// # Shapes
///
/// As [`sum`].
///
/// # Determinism
///
/// Not guaranteed: the bits depend on the schedule.
///
/// # Errors
///
/// As [`sum`].
pub fn sum_atomic(
    device: &Device,
    x: &CudaSlice<f32>,
    [outer, n, inner]: [usize; 3],
) -> Result<CudaSlice<f32>> {
    let op = "sum";
    let elements = product(op, &[outer, n, inner])?;
    expect_len(op, "the input", x, elements)?;
    let mut out = device.zeros_for(op, product(op, &[outer, inner])?)?;
    device
        .kernel(op, FAMILY, "sum_f32_atomic")?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .value(&RawReduce::new(outer, n, inner, 1))
        .threads(elements, device.block())?;
    Ok(out)
}

/// [`sum`] or [`sum_atomic`].
///
/// # Errors
///
/// As [`sum`].
pub fn sum_with(
    device: &Device,
    x: &CudaSlice<f32>,
    shape: [usize; 3],
    variant: Variant,
) -> Result<CudaSlice<f32>> {
    match variant {
        Variant::Deterministic => sum(device, x, shape, Sum::Sum),
        Variant::Atomic => sum_atomic(device, x, shape),
    }
}

/// The largest (or, with `minimum`, the smallest) elements over the middle dimension and their
/// indices along it.
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns two of `[outer, inner]`.
///
/// # Errors
///
/// [`CudaError::Length`], and [`CudaError::InvalidArgument`] if `n` is 0.
pub fn extreme<T: Float>(
    device: &Device,
    x: &CudaSlice<T>,
    [outer, n, inner]: [usize; 3],
    minimum: bool,
) -> Result<(CudaSlice<T>, CudaSlice<i64>)> {
    let op = if minimum { "amin" } else { "amax" };
    if n == 0 {
        return Err(CudaError::invalid(op, "there are no elements to choose from"));
    }
    expect_len(op, "the input", x, product(op, &[outer, n, inner])?)?;
    let outputs = product(op, &[outer, inner])?;
    let mut values = device.uninitialised(op, outputs)?;
    let mut indices = device.uninitialised(op, outputs)?;
    device
        .kernel(op, FAMILY, ["extreme_f32", "extreme_f64"][T::WIDE as usize])?
        .on(device.stream())
        .write(&mut values)
        .write(&mut indices)
        .read(x)
        .value(&RawReduce::new(outer, n, inner, 1))
        .value(&u32::from(minimum))
        .threads(product(op, &[outputs, 32])?, device.block())?;
    Ok((values, indices))
}

/// A grid of this many blocks.
pub(crate) fn grid(op: &'static str, blocks: usize) -> Result<u32> {
    u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32).ok_or_else(|| {
        CudaError::invalid(op, format!("{blocks} blocks are more than a grid takes"))
    })
}

/// `SbReduce` of the kernels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawReduce {
    outer: u64,
    n: u64,
    inner: u64,
    blocks: u64,
}

impl RawReduce {
    fn new(outer: usize, n: usize, inner: usize, blocks: usize) -> RawReduce {
        RawReduce { outer: outer as u64, n: n as u64, inner: inner as u64, blocks: blocks as u64 }
    }
}
