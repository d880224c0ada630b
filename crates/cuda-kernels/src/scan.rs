//! Running sums and products: `cumsum`, `cumprod` and the gradient of the former.
//!
//! # Determinism
//!
//! Portable. Elements are combined in f64 and each result is rounded once. The dimension is cut
//! into tiles of 1024 elements and each tile into runs of 32; element `i` is `carry + (before +
//! local)`, where `local` adds up its run from +0 to `i`, `before` the runs of its tile before that
//! one, and `carry` the tiles before it, each in ascending order. A product starts from 1.

use bytemuck::{Pod, Zeroable};
use cudarc::driver::CudaSlice;

use crate::device::{Device, Float, expect_len, product};
use crate::error::Result;
use crate::reduce::grid;

const FAMILY: &str = "scan";
const TILE: usize = 1024;

/// What [`scan`] computes for each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// The sum of it and all before it.
    Sum,
    /// The sum of it and all after it: the gradient of [`Scan::Sum`].
    SumFromEnd,
    /// The product of it and all before it.
    Product,
}

/// A running sum or product along the middle dimension.
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns the same.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn scan<T: Float>(
    device: &Device,
    x: &CudaSlice<T>,
    [outer, n, inner]: [usize; 3],
    kind: Scan,
) -> Result<CudaSlice<T>> {
    let op = if kind == Scan::Product { "cumprod" } else { "cumsum" };
    let elements = product(op, &[outer, n, inner])?;
    expect_len(op, "the input", x, elements)?;
    let mut out = device.uninitialised(op, elements)?;
    if elements == 0 {
        return Ok(out);
    }
    let tiles = n.div_ceil(TILE);
    let raw = RawScan {
        outer: outer as u64,
        n: n as u64,
        inner: inner as u64,
        tiles: tiles as u64,
        product: u32::from(kind == Scan::Product),
        reverse: u32::from(kind == Scan::SumFromEnd),
    };
    let lines = outer * inner;
    let blocks = grid(op, product(op, &[lines, tiles])?)?;
    let mut carries = device.uninitialised::<f64>(op, lines * tiles)?;
    device
        .kernel(op, FAMILY, ["scan_totals_f32", "scan_totals_f64"][T::WIDE as usize])?
        .on(device.stream())
        .write(&mut carries)
        .read(x)
        .value(&raw)
        .grid((blocks, 1, 1), (32, 1, 1))?;
    device
        .kernel(op, FAMILY, "scan_carries")?
        .on(device.stream())
        .write(&mut carries)
        .value(&raw)
        .threads(lines, device.block())?;
    device
        .kernel(op, FAMILY, ["scan_finish_f32", "scan_finish_f64"][T::WIDE as usize])?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .read(&carries)
        .value(&raw)
        .grid((blocks, 1, 1), (32, 1, 1))?;
    Ok(out)
}

/// `SbScan` of the kernels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawScan {
    outer: u64,
    n: u64,
    inner: u64,
    tiles: u64,
    product: u32,
    reverse: u32,
}
