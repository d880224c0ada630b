//! Sampling of an image or a volume at given points.
//!
//! # Shapes
//!
//! Input `[batch, channels, height, width]`, or with a depth before the height; grid
//! `[batch, points, 2 or 3]`: the coordinates x, y and possibly z of each point; output
//! `[batch, channels, points]`.
//!
//! # Determinism
//!
//! The positions and weights of a point's taps are computed in f64; a weight is then rounded to the
//! element type. Taps outside the input are skipped. An output starts from +0 and adds its taps in
//! row-major order, each by one `fma(input, weight, sum)`. The gradient of the input is a sum of
//! `gradient · weight`, rounded: exact for f32, in ascending order of the taps for f64. The
//! gradient of a coordinate is computed in f64, channels ascending and taps in row-major order, and
//! rounded once.

use crate::launch::declared::grid_sample::RawGrid;
use crate::launch::declared::scatter::RawSegments;
use crate::launch::kernels::grid_sample as kernels;
use crate::launch::{Buffer, Launch};

use crate::Variant;
use crate::device::{Device, Float, expect_len, narrow, product};
use crate::error::Result;
use crate::segments::{LongSegments, Order, Segments};

pub use samebits_tensor_core::geometry::{GridMode, GridPadding, GridParams, Sampling};

/// Samples `input` at the points of `grid`.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length);
/// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) for a size of 2^31 or more.
pub fn grid_sample<T: Float>(
    device: &Device,
    sampling: &Sampling,
    input: &Buffer<T>,
    grid: &Buffer<T>,
) -> Result<Buffer<T>> {
    let (op, raw) = (sampling.op(), RawGrid::new(sampling)?);
    let (n_in, n_grid, n) = (sampling.input_len(), sampling.grid_len(), sampling.output_len());
    expect_len(op, "the input", input, n_in)?;
    expect_len(op, "the grid", grid, n_grid)?;
    let taps = Taps::new(device, sampling, grid)?;
    let mut out = device.uninitialised(op, n)?;
    kernels::GridSample {
        out: &mut out,
        input,
        places: &taps.places,
        weights: &taps.weights,
        p: raw,
    }
    .threads(device, op, n)?;
    Ok(out)
}

/// Computes the gradient of [`grid_sample`] with respect to the input.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length);
/// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) for a size of 2^31 or more.
pub fn grid_sample_input_grad<T: Float>(
    device: &Device,
    sampling: &Sampling,
    grad: &Buffer<T>,
    grid: &Buffer<T>,
    variant: Variant,
) -> Result<Buffer<T>> {
    let (op, raw) = (sampling.op(), RawGrid::new(sampling)?);
    let (n_in, n_grid, n) = (sampling.input_len(), sampling.grid_len(), sampling.output_len());
    expect_len(op, "the gradient", grad, n)?;
    expect_len(op, "the grid", grid, n_grid)?;
    let taps = Taps::new(device, sampling, grid)?;
    let mut out = device.sums_for::<T>(op, n_in, variant)?;
    if variant == Variant::Atomic {
        kernels::GridInputGradAtomic {
            grad_in: &mut out,
            grad,
            places: &taps.places,
            weights: &taps.weights,
            p: raw,
        }
        .threads(device, op, n)?;
        return Ok(out);
    }
    let rows = product(op, &[sampling.batch(), sampling.plane()])?;
    let mut reports = device.reports();
    let count = taps.count;
    let order = Order::of_sums::<T>();
    let segments =
        Segments::new(device, op, &taps.places, [count, rows], order, reports.ignored())?;
    let mut long = LongSegments::new::<T>(device, op, &segments)?;
    let Segments { positions, ends, counts, .. } = &segments;
    let weights = &taps.weights;
    kernels::GridInputGradRows {
        grad_in: &mut out,
        grad,
        weights,
        positions,
        ends,
        counts,
        cursor: &mut long.cursor,
        long_rows: &mut long.rows,
        firsts: &mut long.firsts,
        p: raw,
    }
    .threads(device, op, n_in)?;
    let plane = sampling.plane();
    let outputs = RawSegments {
        columns: sampling.channels(),
        inner: 1,
        plane,
        image_step: product(op, &[sampling.channels(), plane])?,
        place_step: 1,
        slab_step: plane,
    };
    long.sum(device, op, &mut out, outputs, false, |acc, threads| {
        kernels::GridInputGradPieces {
            acc,
            grad,
            weights,
            positions,
            ends,
            counts,
            cursor: &long.cursor,
            long_rows: &long.rows,
            firsts: &long.firsts,
            p: raw,
        }
        .threads(device, op, threads)
    })?;
    Ok(out)
}

/// Computes the gradient of [`grid_sample`] with respect to the grid.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length);
/// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) for a size of 2^31 or more.
pub fn grid_sample_grid_grad<T: Float>(
    device: &Device,
    sampling: &Sampling,
    grad: &Buffer<T>,
    input: &Buffer<T>,
    grid: &Buffer<T>,
) -> Result<Buffer<T>> {
    let (op, raw) = (sampling.op(), RawGrid::new(sampling)?);
    let (n_in, n_grid, n) = (sampling.input_len(), sampling.grid_len(), sampling.output_len());
    expect_len(op, "the gradient", grad, n)?;
    expect_len(op, "the input", input, n_in)?;
    expect_len(op, "the grid", grid, n_grid)?;
    let mut out = device.uninitialised(op, n_grid)?;
    let points = sampling.batch() * sampling.points();
    kernels::GridGrad { grad_grid: &mut out, grad, input, grid, p: raw }
        .threads(device, op, points)?;
    Ok(out)
}

/// The positions and weights of the taps of all points.
#[derive(Debug)]
struct Taps<T> {
    count: usize,
    places: Buffer<i64>,
    weights: Buffer<T>,
}

impl<T: Float> Taps<T> {
    fn new(device: &Device, sampling: &Sampling, grid: &Buffer<T>) -> Result<Taps<T>> {
        let (op, points) = (sampling.op(), sampling.batch() * sampling.points());
        let count = product(op, &[points, sampling.most_taps()])?;
        let mut places = device.uninitialised(op, count)?;
        let mut weights = device.uninitialised(op, count)?;
        kernels::GridTaps {
            places: &mut places,
            weights: &mut weights,
            grid,
            p: RawGrid::new(sampling)?,
        }
        .threads(device, op, points)?;
        Ok(Taps { count, places, weights })
    }
}

impl RawGrid {
    fn new(sampling: &Sampling) -> Result<RawGrid> {
        let params = sampling.params();
        Ok(RawGrid {
            batch: sampling.batch(),
            channels: sampling.channels(),
            points: sampling.points(),
            input: narrow(sampling.op(), "input", sampling.input())?,
            dims: sampling.dims() as u32,
            mode: params.mode as u32,
            padding: params.padding as u32,
            align_corners: u32::from(params.align_corners),
            taps: sampling.most_taps() as u32,
        })
    }
}
