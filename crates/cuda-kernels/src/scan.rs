//! Running sums, products, logarithms of sums and extrema, and their gradients.
//!
//! # Determinism
//!
//! Portable. Elements are combined in f64 and each result is rounded once. The dimension is cut
//! into tiles of 1024 elements, and each tile into runs of 32. Element `i` is
//! `carry + (before + local)`: `local` adds its run from +0 up to `i`, `before` adds the earlier
//! runs of its tile, and `carry` adds the earlier tiles, each in ascending order. A product starts
//! from 1. A logarithm of sums combines pairs `(m, s)`, which represent `s * exp(m)`, from
//! `(-inf, 1)`. Of equal extrema the first is taken, so their order of evaluation does not matter.

use crate::launch::declared::scan::RawScan;
use crate::launch::kernels::scan as kernels;
use crate::launch::{Buffer, Launch};

use crate::device::{Device, Float, Number, expect_len, product};
use crate::error::Result;
use crate::reduce::grid;

const TILE: usize = 1024;
/// The threads of a block that combines the totals of a line.
const CARRY_THREADS: u32 = 128;
/// The length of dense lines from which on a warp takes a tile, and not a thread.
const STAGED: usize = 128;
/// The number of tiles up to which each adds up the totals before it.
const FOLDED: usize = 16;

/// The computation of [`scan`] for each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// The sum of it and all before it.
    Sum,
    /// The sum of it and all after it: the gradient of [`Scan::Sum`].
    SumFromEnd,
    /// The product of it and all before it.
    Product,
}

impl Scan {
    fn op(self) -> &'static str {
        if self == Scan::Product { "cumprod" } else { "cumsum" }
    }
}

/// Computes a running sum or product along the middle dimension.
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
    x: &Buffer<T>,
    shape: [usize; 3],
    kind: Scan,
) -> Result<Buffer<T>> {
    let (op, raw) = (kind.op(), RawScan::of(shape, kind));
    let mut out = output(device, op, &[("the input", x)], shape)?;
    if raw.is_empty() {
        return Ok(out);
    }
    let tiles = (raw.grid(op)?, 1, 1);
    let mut carries = device.uninitialised(op, raw.tiles(op)?)?;
    if raw.tiles > 1 {
        kernels::ScanTotals { totals: &mut carries, input: x, p: raw }.grid(
            device,
            op,
            tiles,
            (32, 1, 1),
        )?;
    }
    if raw.carried == 1 {
        kernels::ScanCarries { totals: &mut carries, p: raw }.grid(
            device,
            op,
            (grid(op, raw.lines())?, 1, 1),
            (CARRY_THREADS, 1, 1),
        )?;
    }
    kernels::ScanFinish { out: &mut out, input: x, carries: &carries, p: raw }.grid(
        device,
        op,
        tiles,
        (32, 1, 1),
    )?;
    Ok(out)
}

/// Computes [`scan`] of integers, which wrap around, so that any order gives the same result.
///
/// # Shapes
///
/// As [`scan`].
///
/// # Errors
///
/// As [`scan`].
pub fn integers(
    device: &Device,
    x: &Buffer<i64>,
    shape: [usize; 3],
    kind: Scan,
) -> Result<Buffer<i64>> {
    let (op, raw) = (kind.op(), RawScan::of(shape, kind));
    let mut out = output(device, op, &[("the input", x)], shape)?;
    if raw.is_empty() {
        return Ok(out);
    }
    let tiles = (raw.grid(op)?, 1, 1);
    let mut carries = device.uninitialised(op, raw.tiles(op)?)?;
    if raw.tiles > 1 {
        kernels::IntegerScanTotals { totals: &mut carries, input: x, p: raw }.grid(
            device,
            op,
            tiles,
            (32, 1, 1),
        )?;
    }
    if raw.carried == 1 {
        kernels::IntegerScanCarries { totals: &mut carries, p: raw }.grid(
            device,
            op,
            (grid(op, raw.lines())?, 1, 1),
            (CARRY_THREADS, 1, 1),
        )?;
    }
    kernels::IntegerScanFinish { out: &mut out, input: x, carries: &carries, p: raw }.grid(
        device,
        op,
        tiles,
        (32, 1, 1),
    )?;
    Ok(out)
}

/// Computes the logarithm of the sum of the exponentials of each element and all before it.
///
/// # Shapes
///
/// As [`scan`].
///
/// # Errors
///
/// As [`scan`].
pub fn logcumsumexp<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    shape: [usize; 3],
) -> Result<Buffer<T>> {
    let op = "logcumsumexp";
    let raw = RawScan::new(shape);
    let mut out = output(device, op, &[("the input", x)], shape)?;
    if raw.is_empty() {
        return Ok(out);
    }
    let tiles = (raw.grid(op)?, 1, 1);
    let mut carries = device.uninitialised(op, raw.tiles(op)?)?;
    if raw.tiles > 1 {
        kernels::LogcumsumexpTotals { totals: &mut carries, input: x, p: raw }.grid(
            device,
            op,
            tiles,
            (32, 1, 1),
        )?;
    }
    if raw.carried == 1 {
        kernels::LogcumsumexpCarries { totals: &mut carries, p: raw }.grid(
            device,
            op,
            (grid(op, raw.lines())?, 1, 1),
            (CARRY_THREADS, 1, 1),
        )?;
    }
    kernels::LogcumsumexpFinish { out: &mut out, input: x, carries: &carries, p: raw }.grid(
        device,
        op,
        tiles,
        (32, 1, 1),
    )?;
    Ok(out)
}

/// Computes the largest (or smallest) of each element and all before it, and its index along the
/// middle dimension. Of equal elements the first is taken; NaN counts as both the largest and the
/// smallest.
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns two of the same.
///
/// # Errors
///
/// As [`scan`].
pub fn cumextreme<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    shape: [usize; 3],
    largest: bool,
) -> Result<(Buffer<T>, Buffer<i64>)> {
    let op = if largest { "cummax" } else { "cummin" };
    let raw = RawScan { kind: u32::from(!largest), ..RawScan::new(shape) };
    let mut values = output(device, op, &[("the input", x)], shape)?;
    let mut indices = device.uninitialised(op, values.len())?;
    if raw.is_empty() {
        return Ok((values, indices));
    }
    let tiles = (raw.grid(op)?, 1, 1);
    let mut carries = device.uninitialised(op, raw.tiles(op)?)?;
    if raw.tiles > 1 {
        kernels::CumextremeTotals { totals: &mut carries, input: x, p: raw }.grid(
            device,
            op,
            tiles,
            (32, 1, 1),
        )?;
    }
    if raw.carried == 1 {
        kernels::CumextremeCarries { totals: &mut carries, p: raw }.grid(
            device,
            op,
            (grid(op, raw.lines())?, 1, 1),
            (CARRY_THREADS, 1, 1),
        )?;
    }
    kernels::CumextremeFinish {
        values: &mut values,
        indices: &mut indices,
        input: x,
        carries: &carries,
        p: raw,
    }
    .grid(device, op, tiles, (32, 1, 1))?;
    Ok((values, indices))
}

/// Computes the gradient of a running product.
///
/// # Shapes
///
/// `x` and `grad`: `[outer, n, inner]`; returns the same.
///
/// # Determinism
///
/// Portable. Let `P[j]` be the product of the elements up to `j`, in f64. Element `i` is the sum of
/// `grad[j] · P[j] / x[i]` over `j >= i`, added from the last `j` down in f64 and rounded once.
/// From the first zero on, `P` leaves that zero out; elements after it get 0. One thread computes
/// one line.
///
/// # Errors
///
/// As [`scan`].
pub fn cumprod_grad<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    grad: &Buffer<T>,
    shape: [usize; 3],
) -> Result<Buffer<T>> {
    let op = "cumprod";
    let raw = RawScan::new(shape);
    let mut out = output(device, op, &[("the input", x), ("the gradient", grad)], shape)?;
    if raw.is_empty() {
        return Ok(out);
    }
    let mut products = device.uninitialised::<f64>(op, out.len())?;
    kernels::CumprodGrad { grad_in: &mut out, products: &mut products, input: x, grad, p: raw }
        .threads(device, op, raw.lines())?;
    Ok(out)
}

/// Computes the gradient of [`cumprod_grad`] with respect to its `grad` and its `x`; `outer` is the
/// gradient of its result.
///
/// # Shapes
///
/// `x`, `grad` and `outer`: `[outer, n, inner]`; returns two of the same.
///
/// # Determinism
///
/// Portable. Let `P[k]` be the product of the elements up to `k`. In f64, all along each line:
///
/// ```text
/// ascending:   t[k] = t[k - 1] * x[k] + P[k - 1] * outer[k]              # from t = 0, P = 1
/// descending:  S = S * x[k + 1] + T * outer[k + 1];  T = T * x[k + 1] + grad[k]    # from S = T = 0
/// ```
///
/// Element `k` of the gradient of `grad` is `t[k]`, that of `x` is `T * t[k - 1] + S * P[k - 1]`,
/// each rounded once. One thread computes one line.
///
/// # Errors
///
/// As [`scan`].
pub fn cumprod_grad_grad<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    grad: &Buffer<T>,
    outer: &Buffer<T>,
    shape: [usize; 3],
) -> Result<(Buffer<T>, Buffer<T>)> {
    let op = "cumprod_grad";
    let raw = RawScan::new(shape);
    let inputs = [("the input", x), ("the gradient", grad), ("the outer gradient", outer)];
    let mut of_grad = output(device, op, &inputs, shape)?;
    let mut of_x = device.uninitialised(op, of_grad.len())?;
    if raw.is_empty() {
        return Ok((of_grad, of_x));
    }
    let mut tangents = device.uninitialised::<f64>(op, of_grad.len())?;
    let mut products = device.uninitialised::<f64>(op, of_grad.len())?;
    kernels::CumprodGradGrad {
        grad_of_grad: &mut of_grad,
        grad_in: &mut of_x,
        tangents: &mut tangents,
        products: &mut products,
        input: x,
        grad,
        outer_grad: outer,
        p: raw,
    }
    .threads(device, op, raw.lines())?;
    Ok((of_grad, of_x))
}

/// Computes the gradient of [`logcumsumexp`], whose result is `y`.
///
/// # Shapes
///
/// `x`, `y` and `grad`: `[outer, n, inner]`; returns the same.
///
/// # Determinism
///
/// Portable. A pair `(m, s)` represents the sum of `grad[j] · exp(−y[j])` over `j >= i` as
/// `s · exp(m)`, from the last element down in f64; element `i` is `s · exp(m + x[i])`, rounded
/// once. One thread computes one line.
///
/// # Errors
///
/// As [`scan`].
pub fn logcumsumexp_grad<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    y: &Buffer<T>,
    grad: &Buffer<T>,
    shape: [usize; 3],
) -> Result<Buffer<T>> {
    let op = "logcumsumexp";
    let raw = RawScan::new(shape);
    let inputs = [("the input", x), ("the result", y), ("the gradient", grad)];
    let mut out = output(device, op, &inputs, shape)?;
    if raw.is_empty() {
        return Ok(out);
    }
    kernels::LogcumsumexpGrad { grad_in: &mut out, input: x, out: y, grad, p: raw }.threads(
        device,
        op,
        raw.lines(),
    )?;
    Ok(out)
}

/// Returns a buffer for the result, after a check of the inputs' lengths.
fn output<T: Number>(
    device: &Device,
    op: &'static str,
    inputs: &[(&'static str, &Buffer<T>)],
    shape: [usize; 3],
) -> Result<Buffer<T>> {
    let elements = product(op, &shape)?;
    for &(what, input) in inputs {
        expect_len(op, what, input, elements)?;
    }
    device.uninitialised(op, elements)
}

impl RawScan {
    fn new([outer, n, inner]: [usize; 3]) -> RawScan {
        let tiles = n.div_ceil(TILE);
        let staged = u32::from(inner == 1 && n >= STAGED);
        let carried = u32::from(tiles > FOLDED);
        RawScan { outer, n, inner, tiles, kind: 0, reverse: 0, staged, carried }
    }

    fn of(shape: [usize; 3], kind: Scan) -> RawScan {
        RawScan {
            kind: u32::from(kind == Scan::Product),
            reverse: u32::from(kind == Scan::SumFromEnd),
            ..RawScan::new(shape)
        }
    }

    fn lines(&self) -> usize {
        self.outer * self.inner
    }

    fn is_empty(&self) -> bool {
        self.outer == 0 || self.n == 0 || self.inner == 0
    }

    /// Returns the number of tiles of all lines.
    fn tiles(&self, op: &'static str) -> Result<usize> {
        product(op, &[self.lines(), self.tiles])
    }

    /// Returns the number of blocks: a warp or a thread for each tile.
    fn grid(&self, op: &'static str) -> Result<u32> {
        let tiles = self.tiles(op)?;
        grid(op, if self.staged == 1 { tiles } else { tiles.div_ceil(32) })
    }
}
