//! Pooling to an output of a given size.

use crate::launch::declared::pooling::{RawAdaptive, RawFractional};
use crate::launch::kernels::pooling as kernels;
use crate::launch::{Buffer, Launch};

use super::{AdaptivePool, FractionalPool};
use crate::Variant;
use crate::device::{Device, Float, expect_len, narrow, plane_threads};
use crate::error::Result;

/// Computes the average of each window.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn adaptive_avg_pool<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    pool: &AdaptivePool,
) -> Result<Buffer<T>> {
    let (op, n_in, n) = (pool.op(), pool.input_len(), pool.output_len());
    expect_len(op, "the input", x, n_in)?;
    let mut out = device.uninitialised(op, n)?;
    kernels::AdaptiveAvgPool { out: &mut out, input: x, p: RawAdaptive::new(pool)? }.threads(
        device,
        op,
        plane_threads(op, pool.planes(), pool.output_plane())?,
    )?;
    Ok(out)
}

/// Computes the gradient of [`adaptive_avg_pool`].
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn adaptive_avg_pool_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    pool: &AdaptivePool,
    variant: Variant,
) -> Result<Buffer<T>> {
    let (op, n_in, n) = (pool.op(), pool.input_len(), pool.output_len());
    expect_len(op, "the gradient", grad, n)?;
    let mut out = device.sums_for::<T>(op, n_in, variant)?;
    let p = RawAdaptive::new(pool)?;
    match variant {
        Variant::Deterministic => {
            let threads = plane_threads(op, pool.planes(), pool.input_plane())?;
            kernels::AdaptiveAvgPoolGrad { grad_in: &mut out, grad, p }
                .threads(device, op, threads)?;
        }
        Variant::Atomic => {
            kernels::AdaptiveAvgPoolGradAtomic { grad_in: &mut out, grad, p }
                .threads(device, op, n)?;
        }
    }
    Ok(out)
}

/// Computes the largest element of each window, and its position in its plane. Its gradient is
/// [`pool_indices_grad`](super::pool_indices_grad).
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn adaptive_max_pool<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    pool: &AdaptivePool,
) -> Result<(Buffer<T>, Buffer<i64>)> {
    let (op, n_in, n) = (pool.op(), pool.input_len(), pool.output_len());
    expect_len(op, "the input", x, n_in)?;
    let mut out = device.uninitialised(op, n)?;
    let mut indices = device.uninitialised(op, n)?;
    kernels::AdaptiveMaxPool {
        out: &mut out,
        indices: &mut indices,
        input: x,
        p: RawAdaptive::new(pool)?,
    }
    .threads(device, op, plane_threads(op, pool.planes(), pool.output_plane())?)?;
    Ok((out, indices))
}

/// Computes the largest element of each of `output` windows of size `kernel`, whose positions
/// depend on one sample in `[0, 1)` per plane and dimension. Its gradient is
/// [`pool_indices_grad`](super::pool_indices_grad).
///
/// # Shapes
///
/// `samples: [planes, dimensions]`, in PyTorch's order: (W, H) or (D, H, W).
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length); [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) for a size of 2^31 or more.
///
/// # References
///
/// B. Graham, *Fractional Max-Pooling*, 2014.
pub fn fractional_max_pool<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    samples: &Buffer<T>,
    pool: &FractionalPool,
) -> Result<(Buffer<T>, Buffer<i64>)> {
    let (op, n) = (pool.op(), pool.output_len());
    let raw = RawFractional {
        planes: pool.planes(),
        input: narrow(op, "input", pool.input())?,
        output: narrow(op, "output", pool.output())?,
        kernel: narrow(op, "kernel", pool.axes().map(|axis| axis.kernel))?,
        dims: pool.dims() as u32,
    };
    expect_len(op, "the input", x, pool.input_len())?;
    expect_len(op, "the samples", samples, pool.samples_len())?;
    let mut out = device.uninitialised(op, n)?;
    let mut indices = device.uninitialised(op, n)?;
    kernels::FractionalMaxPool { out: &mut out, indices: &mut indices, input: x, samples, p: raw }
        .threads(device, op, n)?;
    Ok((out, indices))
}

impl RawAdaptive {
    fn new(pool: &AdaptivePool) -> Result<RawAdaptive> {
        Ok(RawAdaptive {
            planes: pool.planes(),
            input: narrow(pool.op(), "input", pool.input())?,
            output: narrow(pool.op(), "output", pool.output())?,
        })
    }
}
