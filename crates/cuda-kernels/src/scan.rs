//! Running sums, products, logarithms of sums and extrema, and their gradients.
//!
//! # Determinism
//!
//! Portable. Elements are combined in f64 and each result is rounded once. The dimension is cut
//! into tiles of 1024 elements and each tile into runs of 32; element `i` is `carry + (before +
//! local)`, where `local` adds up its run from +0 to `i`, `before` the runs of its tile before that
//! one, and `carry` the tiles before it, each in ascending order. A product starts from 1. A
//! logarithm of sums combines pairs `(m, s)`, which stand for `s * exp(m)`, from `(-inf, 1)`. Of
//! equal extrema the first is taken, so they have no order to keep.

use crate::launch::Buffer;
use bytemuck::{Pod, Zeroable};

use crate::device::{Device, Float, expect_len, of, product};
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
    x: &Buffer<T>,
    shape: [usize; 3],
    kind: Scan,
) -> Result<Buffer<T>> {
    let op = if kind == Scan::Product { "cumprod" } else { "cumsum" };
    let raw = RawScan {
        kind: u32::from(kind == Scan::Product),
        reverse: u32::from(kind == Scan::SumFromEnd),
        ..RawScan::new(shape)
    };
    let mut out = output(device, op, &[("the input", x)], shape)?;
    if raw.is_empty() {
        return Ok(out);
    }
    let carries =
        Tiles { totals: ["scan_totals_f32", "scan_totals_f64"], carries: "scan_carries", words: 1 }
            .carries(device, op, x, &raw)?;
    device
        .kernel(op, FAMILY, of::<T>(["scan_finish_f32", "scan_finish_f64"]))?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .read(&carries)
        .value(&raw)
        .grid((raw.grid(op)?, 1, 1), (32, 1, 1))?;
    Ok(out)
}

/// The logarithm of the sum of the exponentials of each element and all before it.
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
    let carries = Tiles {
        totals: ["logcumsumexp_totals_f32", "logcumsumexp_totals_f64"],
        carries: "logcumsumexp_carries",
        words: 2,
    }
    .carries(device, op, x, &raw)?;
    device
        .kernel(op, FAMILY, of::<T>(["logcumsumexp_finish_f32", "logcumsumexp_finish_f64"]))?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .read(&carries)
        .value(&raw)
        .grid((raw.grid(op)?, 1, 1), (32, 1, 1))?;
    Ok(out)
}

/// The largest (or smallest) of each element and all before it, and its index along the middle
/// dimension: the first of equal ones; NaN is both the largest and the smallest.
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
    let carries = Tiles {
        totals: ["cumextreme_totals_f32", "cumextreme_totals_f64"],
        carries: "cumextreme_carries",
        words: 2,
    }
    .carries(device, op, x, &raw)?;
    device
        .kernel(op, FAMILY, of::<T>(["cumextreme_finish_f32", "cumextreme_finish_f64"]))?
        .on(device.stream())
        .write(&mut values)
        .write(&mut indices)
        .read(x)
        .read(&carries)
        .value(&raw)
        .grid((raw.grid(op)?, 1, 1), (32, 1, 1))?;
    Ok((values, indices))
}

/// The gradient of a running product.
///
/// # Shapes
///
/// `x` and `grad`: `[outer, n, inner]`; returns the same.
///
/// # Determinism
///
/// Portable. With `P[j]` the product of the elements up to `j`, in f64, element `i` is the sum of
/// `grad[j] · P[j] / x[i]` over `j >= i`, added from the last `j` down in f64 and rounded once. From
/// the first zero on, `P` leaves that zero out; elements after it get 0. One thread walks a line.
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
    device
        .kernel(op, FAMILY, of::<T>(["cumprod_grad_f32", "cumprod_grad_f64"]))?
        .on(device.stream())
        .write(&mut out)
        .write(&mut products)
        .read(x)
        .read(grad)
        .value(&raw)
        .threads(raw.lines(), device.block())?;
    Ok(out)
}

/// The gradient of [`cumprod_grad`], given that of its result, `outer`: those of its `grad` and of
/// its `x`.
///
/// # Shapes
///
/// `x`, `grad` and `outer`: `[outer, n, inner]`; returns two of the same.
///
/// # Determinism
///
/// Portable. With `P[k]` the product of the elements up to `k`, all in f64 along each line:
///
/// ```text
/// ascending:   t[k] = t[k - 1] * x[k] + P[k - 1] * outer[k]              # from t = 0, P = 1
/// descending:  S = S * x[k + 1] + T * outer[k + 1];  T = T * x[k + 1] + grad[k]    # from S = T = 0
/// ```
///
/// Element `k` of the gradient of `grad` is `t[k]`, that of `x` is `T * t[k - 1] + S * P[k - 1]`, each
/// rounded once. One thread walks a line.
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
    device
        .kernel(op, FAMILY, of::<T>(["cumprod_grad_grad_f32", "cumprod_grad_grad_f64"]))?
        .on(device.stream())
        .write(&mut of_grad)
        .write(&mut of_x)
        .write(&mut tangents)
        .write(&mut products)
        .read(x)
        .read(grad)
        .read(outer)
        .value(&raw)
        .threads(raw.lines(), device.block())?;
    Ok((of_grad, of_x))
}

/// The gradient of [`logcumsumexp`], whose result is `y`.
///
/// # Shapes
///
/// `x`, `y` and `grad`: `[outer, n, inner]`; returns the same.
///
/// # Determinism
///
/// Portable. A pair `(m, s)` stands for the sum of `grad[j] · exp(−y[j])` over `j >= i` as
/// `s · exp(m)`, from the last element down in f64; element `i` is `s · exp(m + x[i])`, rounded once.
/// One thread walks a line.
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
    device
        .kernel(op, FAMILY, of::<T>(["logcumsumexp_grad_f32", "logcumsumexp_grad_f64"]))?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .read(y)
        .read(grad)
        .value(&raw)
        .threads(raw.lines(), device.block())?;
    Ok(out)
}

/// The kernels before the last one of a scan.
struct Tiles {
    totals: [&'static str; 2],
    carries: &'static str,
    /// Words of 64 bits of a total.
    words: usize,
}

impl Tiles {
    /// What comes before each tile.
    fn carries<T: Float>(
        &self,
        device: &Device,
        op: &'static str,
        x: &Buffer<T>,
        raw: &RawScan,
    ) -> Result<Buffer<f64>> {
        let totals = product(op, &[raw.lines(), raw.tiles as usize, self.words])?;
        let mut carries = device.uninitialised::<f64>(op, totals)?;
        device
            .kernel(op, FAMILY, of::<T>(self.totals))?
            .on(device.stream())
            .write(&mut carries)
            .read(x)
            .value(raw)
            .grid((raw.grid(op)?, 1, 1), (32, 1, 1))?;
        device
            .kernel(op, FAMILY, self.carries)?
            .on(device.stream())
            .write(&mut carries)
            .value(raw)
            .threads(raw.lines(), device.block())?;
        Ok(carries)
    }
}

/// A buffer for the result, after a check of the inputs' lengths.
fn output<T: Float>(
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

/// `SbScan` of the kernels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawScan {
    outer: u64,
    n: u64,
    inner: u64,
    tiles: u64,
    kind: u32,
    reverse: u32,
}

impl RawScan {
    fn new([outer, n, inner]: [usize; 3]) -> RawScan {
        RawScan {
            outer: outer as u64,
            n: n as u64,
            inner: inner as u64,
            tiles: n.div_ceil(TILE) as u64,
            kind: 0,
            reverse: 0,
        }
    }

    fn lines(&self) -> usize {
        (self.outer * self.inner) as usize
    }

    fn is_empty(&self) -> bool {
        self.outer == 0 || self.n == 0 || self.inner == 0
    }

    /// A block for each tile.
    fn grid(&self, op: &'static str) -> Result<u32> {
        grid(op, product(op, &[self.lines(), self.tiles as usize])?)
    }
}
