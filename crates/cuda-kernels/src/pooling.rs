//! Pooling over windows of one to three dimensions, forward and backward.
//!
//! Tensors are treated as planes (batch times channels). Indices of maxima are positions in their
//! plane. [`scatter`](crate::scatter::scatter) with one slab per plane is `max_unpool`.
//!
//! # Determinism
//!
//! A maximum is the first largest element of its window in row-major order; NaN counts as the
//! largest. An average adds its window in row-major order in f64 from +0, divides in f64 and rounds
//! once. A gradient element adds the outputs whose windows cover it in ascending output index, each
//! by one fma from +0; the weight is 1 for a maximum, and 1 divided by the divisor (rounded) for an
//! average.

use crate::launch::declared::pooling::RawPool;
use crate::launch::kernels::{pooling as kernels, scatter};
use crate::launch::{Buffer, Launch};

use crate::Variant;
use crate::device::{Device, Float, expect_len, narrow, plane_threads};
use crate::error::Result;
use crate::segments::{Order, Segments};

pub(crate) mod adaptive;

pub use adaptive::{
    adaptive_avg_pool, adaptive_avg_pool_grad, adaptive_max_pool, fractional_max_pool,
};
pub use samebits_tensor_core::geometry::{
    AdaptiveAxis, AdaptivePool, Average, FractionalAxis, FractionalPool, Pool, PoolAxis, PoolParams,
};

/// Computes the largest element of each window, and its position in its plane.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn max_pool<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    pool: &Pool,
) -> Result<(Buffer<T>, Buffer<i64>)> {
    let (op, n_in, n) = (pool.op(), pool.input_len(), pool.output_len());
    expect_len(op, "the input", x, n_in)?;
    let mut out = device.uninitialised(op, n)?;
    let mut indices = device.uninitialised(op, n)?;
    kernels::MaxPool { out: &mut out, indices: &mut indices, input: x, p: RawPool::new(pool)? }
        .threads(device, op, plane_threads(op, pool.planes(), pool.output_plane())?)?;
    Ok((out, indices))
}

/// Computes the gradient of [`max_pool`].
///
/// # Determinism
///
/// Deterministic: each input position examines the windows that cover it, in ascending output
/// index. An index outside its window contributes nothing. Atomic: float additions in the order of
/// arrival.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn max_pool_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    indices: &Buffer<i64>,
    pool: &Pool,
    variant: Variant,
) -> Result<Buffer<T>> {
    let (op, n_in, n) = (pool.op(), pool.input_len(), pool.output_len());
    expect_len(op, "the gradient", grad, n)?;
    expect_len(op, "the indices", indices, n)?;
    if variant == Variant::Atomic {
        return pool_indices_grad(device, grad, indices, pool.planes(), n_in, variant);
    }
    let mut out = device.uninitialised(op, n_in)?;
    kernels::MaxPoolGrad { grad_in: &mut out, grad, indices, p: RawPool::new(pool)? }.threads(
        device,
        op,
        plane_threads(op, pool.planes(), pool.input_plane())?,
    )?;
    Ok(out)
}

/// Computes the gradient of `max_unpool`, and of every gradient of a maximum pooling: each element
/// is the element of `grad` at its index; −1 names none and gives +0.
///
/// # Shapes
///
/// `grad` and `indices`: `planes` planes each; returns one element per index.
///
/// # Determinism
///
/// Portable: each element is copied.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length); [`CudaError::IndexOutOfRange`](crate::CudaError::IndexOutOfRange) at the next synchronisation.
pub fn max_unpool_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    indices: &Buffer<i64>,
    planes: usize,
) -> Result<Buffer<T>> {
    let op = "max_unpool";
    let (n, n_out) = (indices.len(), grad.len());
    let (in_plane, out_plane) = (n / planes.max(1), n_out / planes.max(1));
    expect_len(op, "the indices", indices, in_plane * planes)?;
    expect_len(op, "the gradient", grad, out_plane * planes)?;
    let mut out = device.uninitialised::<T>(op, n)?;
    let mut reports = device.reports();
    kernels::UnpoolGrad {
        grad_in: &mut out,
        grad,
        indices,
        n,
        in_plane,
        out_plane,
        status: reports.noted(),
    }
    .threads(device, op, in_plane * planes)?;
    reports.collect(device, op, indices, out_plane)?;
    Ok(out)
}

/// Computes the gradient of any maximum pooling, from the indices alone; −1 names no position.
///
/// # Shapes
///
/// `grad` and `indices`: `planes` planes; returns `n_in` elements in the same number of planes.
///
/// # Determinism
///
/// Deterministic: ascending output index from +0. Atomic: float additions in the order of
/// arrival.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length); [`CudaError::IndexOutOfRange`](crate::CudaError::IndexOutOfRange) at the next synchronisation.
pub fn pool_indices_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    indices: &Buffer<i64>,
    planes: usize,
    n_in: usize,
    variant: Variant,
) -> Result<Buffer<T>> {
    let op = "max_pool";
    let n = grad.len();
    expect_len(op, "the indices", indices, n)?;
    let (out_plane, in_plane) = (n / planes.max(1), n_in / planes.max(1));
    expect_len(op, "the gradient", grad, out_plane * planes)?;
    let mut out = device.sums_for::<T>(op, n_in, variant)?;
    let mut reports = device.reports();
    if variant == Variant::Atomic {
        kernels::MaxPoolGradAtomic {
            grad_in: &mut out,
            grad,
            indices,
            n,
            out_plane,
            in_plane,
            status: reports.noted(),
        }
        .threads(device, op, n)?;
        reports.collect(device, op, indices, in_plane)?;
        return Ok(out);
    }
    let mut keys = device.uninitialised::<i64>(op, n)?;
    kernels::PoolKeys { keys: &mut keys, indices, n, out_plane, in_plane, status: reports.noted() }
        .threads(device, op, n)?;
    reports.collect(device, op, indices, in_plane)?;
    let order = Order::Source;
    let segments = Segments::new(device, op, &keys, [n, n_in], order, reports.ignored())?;
    scatter::OrderedSumRows {
        out: &mut out,
        source: grad,
        positions: &segments.positions,
        ends: &segments.ends,
        counts: &segments.counts,
        size: n_in,
    }
    .threads(device, op, n_in)?;
    Ok(out)
}

/// Computes the average of each window.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length); [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) for a size of 2^31 or more.
pub fn avg_pool<T: Float>(device: &Device, x: &Buffer<T>, average: &Average) -> Result<Buffer<T>> {
    let pool = average.pool();
    let (op, n_in, n) = (pool.op(), pool.input_len(), pool.output_len());
    expect_len(op, "the input", x, n_in)?;
    let mut out = device.uninitialised(op, n)?;
    kernels::AvgPool { out: &mut out, input: x, p: RawPool::averaging(average)? }.threads(
        device,
        op,
        plane_threads(op, pool.planes(), pool.output_plane())?,
    )?;
    Ok(out)
}

/// Computes the gradient of [`avg_pool`].
///
/// # Errors
///
/// As [`avg_pool`].
pub fn avg_pool_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    average: &Average,
    variant: Variant,
) -> Result<Buffer<T>> {
    let pool = average.pool();
    let (op, n_in, n) = (pool.op(), pool.input_len(), pool.output_len());
    expect_len(op, "the gradient", grad, n)?;
    let mut out = device.sums_for::<T>(op, n_in, variant)?;
    let p = RawPool::averaging(average)?;
    match variant {
        Variant::Deterministic => {
            let threads = plane_threads(op, pool.planes(), pool.input_plane())?;
            kernels::AvgPoolGrad { grad_in: &mut out, grad, p }.threads(device, op, threads)?;
        }
        Variant::Atomic => {
            kernels::AvgPoolGradAtomic { grad_in: &mut out, grad, p }.threads(device, op, n)?;
        }
    }
    Ok(out)
}

impl RawPool {
    fn new(pool: &Pool) -> Result<RawPool> {
        let (op, axes) = (pool.op(), pool.axes());
        Ok(RawPool {
            planes: pool.planes(),
            input: narrow(op, "input", pool.input())?,
            output: narrow(op, "output", pool.output())?,
            kernel: narrow(op, "kernel", axes.map(|axis| axis.kernel))?,
            stride: narrow(op, "stride", axes.map(|axis| axis.stride))?,
            padding: narrow(op, "padding", axes.map(|axis| axis.padding))?,
            dilation: narrow(op, "dilation", axes.map(|axis| axis.dilation))?,
            include_pad: 0,
            fixed: 0,
        })
    }

    fn averaging(average: &Average) -> Result<RawPool> {
        let pool = average.pool();
        let [fixed] = narrow(pool.op(), "divisor", [average.divisor_override().unwrap_or(0)])?;
        let include_pad = u32::from(average.count_include_pad());
        Ok(RawPool { include_pad, fixed, ..RawPool::new(pool)? })
    }
}
