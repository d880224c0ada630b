//! Batch, group, layer and root mean square normalisation.
//!
//! # Determinism
//!
//! Portable. Statistics run in f64 over the contract's fixed tree, in the logical order of their
//! elements, and are rounded to f32 once. Each function documents the operations on single
//! elements, with `h = fma(x, scale, −mean) · rstd`, with mean and rstd those
//! of the elements times `scale`: a power of two, 1 for ordinary numbers
//! ([`samebits_numerics::reduce::Normal`]).

mod groups;

use crate::launch::declared::norm::RawBatch;
use crate::launch::kernels::norm as kernels;
use crate::launch::{Buffer, Launch};

use crate::device::{Device, Float, expect_len, plane_threads, product};
use crate::error::Result;
use crate::reduce::{BLOCK, COLUMN_BLOCK, Terms, column_grid, sums};
use samebits_numerics::reduce::LANES;

pub use groups::{group_norm, group_norm_grad};
pub use samebits_tensor_core::geometry::{Batch, Groups};

/// Mean, biased variance, and `1 / sqrt(variance + eps)`.
#[derive(Debug)]
pub struct Statistics<T> {
    /// The mean.
    pub mean: Buffer<T>,
    /// The biased variance.
    pub variance: Buffer<T>,
    /// `1 / sqrt(variance + eps)`, from the unrounded variance.
    pub rstd: Buffer<T>,
    /// What [`batch_normalize`] takes.
    pub scaled: Scaled<T>,
}

/// Statistics of each channel for [`batch_normalize`]: mean and rstd of the scaled elements, and the scale.
#[derive(Debug)]
pub struct Scaled<T>(Buffer<T>);

/// The gradients of a normalisation.
#[derive(Debug)]
pub struct Gradients<T> {
    /// The gradient with respect to the input.
    pub input: Buffer<T>,
    /// The gradient with respect to the weight.
    pub weight: Buffer<T>,
    /// The gradient with respect to the bias.
    pub bias: Buffer<T>,
}

/// Computes the statistics of each channel.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn batch_statistics<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    shape: Batch,
    eps: f64,
) -> Result<Statistics<T>> {
    let op = "batch_norm";
    expect_len(op, "the input", x, shape.elements(op)?)?;
    let (p, channels) = (shape.raw(), shape.channels);
    let means = channel_sums(device, op, x, shape, (shape.n * shape.spatial) as f64)?;
    let (blocks, warps) = shape.blocks(op)?;
    let mut squares = device.uninitialised(op, product(op, &[channels, blocks])?)?;
    kernels::ChannelSquares { out: &mut squares, input: x, mean: &means, p, blocks }
        .threads(device, op, warps)?;
    let mut mean = device.uninitialised(op, channels)?;
    let mut variance = device.uninitialised(op, channels)?;
    let mut rstd = device.uninitialised(op, channels)?;
    let mut scaled = device.uninitialised(op, product(op, &[channels, 3])?)?;
    kernels::BatchStatistics {
        mean: &mut mean,
        variance: &mut variance,
        rstd: &mut rstd,
        scaled: &mut scaled,
        input: x,
        means: &means,
        squares: &squares,
        p,
        blocks,
        eps,
    }
    .threads(device, op, product(op, &[channels, 32])?)?;
    Ok(Statistics { mean, variance, rstd, scaled: Scaled(scaled) })
}

/// Computes the sum of each channel over the tree, divided by `count`, in f64.
pub(crate) fn channel_sums<T: Float>(
    device: &Device,
    op: &'static str,
    x: &Buffer<T>,
    shape: Batch,
    count: f64,
) -> Result<Buffer<f64>> {
    let (channels, (blocks, warps)) = (shape.channels, shape.blocks(op)?);
    let mut partials = device.uninitialised(op, product(op, &[channels, blocks])?)?;
    kernels::ChannelSums { out: &mut partials, input: x, p: shape.raw(), blocks }
        .threads(device, op, warps)?;
    let mut sums = device.uninitialised(op, channels)?;
    kernels::ChannelMeans { out: &mut sums, partials: &partials, rows: channels, blocks, count }
        .threads(device, op, product(op, &[channels, 32])?)?;
    Ok(sums)
}

/// Prepares given statistics for [`batch_normalize`]: rstd is `1 / sqrt(variance + eps)` in f64, rounded
/// once, and the scale is 1.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn given_statistics<T: Float>(
    device: &Device,
    mean: &Buffer<T>,
    variance: &Buffer<T>,
    eps: f64,
) -> Result<Scaled<T>> {
    let op = "batch_norm_inference";
    let n = variance.len();
    expect_len(op, "the mean", mean, n)?;
    let mut scaled = device.uninitialised(op, product(op, &[n, 3])?)?;
    kernels::GivenStatistics { scaled: &mut scaled, mean, variance, n, eps }
        .threads(device, op, n)?;
    Ok(Scaled(scaled))
}

/// Computes `fma(h, weight, bias)` per channel.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn batch_normalize<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    shape: Batch,
    Scaled(scaled): &Scaled<T>,
    weight: &Buffer<T>,
    bias: &Buffer<T>,
) -> Result<Buffer<T>> {
    let op = "batch_norm";
    let elements = shape.elements(op)?;
    expect_len(op, "the input", x, elements)?;
    expect_len(op, "the statistics", scaled, product(op, &[shape.channels, 3])?)?;
    for (what, buffer) in [("the weight", weight), ("the bias", bias)] {
        expect_len(op, what, buffer, shape.channels)?;
    }
    let mut out = device.uninitialised(op, elements)?;
    kernels::BatchNormalize { out: &mut out, input: x, scaled, weight, bias, p: shape.raw() }
        .threads(device, op, shape.sample_threads(op)?)?;
    Ok(out)
}

/// Computes the gradients of batch normalisation.
///
/// The bias gradient is `Σ g` and the weight gradient `Σ g · h` (the product in f64), each rounded once.
/// The input gradient is `fma(−h, Σgh / m, g − Σg / m) · (weight · rstd) · scale`, with both quotients
/// computed in f64 and rounded once. Mean and rstd are those of the unscaled elements.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn batch_norm_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    x: &Buffer<T>,
    shape: Batch,
    [mean, rstd]: [&Buffer<T>; 2],
    weight: &Buffer<T>,
    eps: f64,
) -> Result<Gradients<T>> {
    let op = "batch_norm";
    let elements = shape.elements(op)?;
    expect_len(op, "the gradient", grad, elements)?;
    expect_len(op, "the input", x, elements)?;
    for (what, buffer) in [("the mean", mean), ("rstd", rstd), ("the weight", weight)] {
        expect_len(op, what, buffer, shape.channels)?;
    }
    let (channels, (blocks, warps)) = (shape.channels, shape.blocks(op)?);
    let mut partials = device.uninitialised(op, product(op, &[channels, 2, blocks])?)?;
    let p = shape.raw();
    let mut scaled = device.uninitialised(op, product(op, &[channels, 3])?)?;
    kernels::BatchNormBlocks {
        partials: &mut partials,
        scaled: &mut scaled,
        grad,
        input: x,
        mean,
        rstd,
        p,
        blocks,
        eps,
    }
    .threads(device, op, warps)?;
    let mut sums = device.uninitialised::<f64>(op, product(op, &[channels, 2])?)?;
    let mut weight_grad = device.uninitialised(op, channels)?;
    let mut bias_grad = device.uninitialised(op, channels)?;
    kernels::BatchNormSums {
        sums: &mut sums,
        weight_grad: &mut weight_grad,
        bias_grad: &mut bias_grad,
        partials: &partials,
        channels,
        blocks,
    }
    .threads(device, op, product(op, &[channels, 32])?)?;
    let mut input = device.uninitialised(op, elements)?;
    kernels::BatchNormInputGrad {
        out: &mut input,
        grad,
        input: x,
        scaled: &scaled,
        weight,
        sums: &sums,
        p,
    }
    .threads(device, op, shape.sample_threads(op)?)?;
    Ok(Gradients { input, weight: weight_grad, bias: bias_grad })
}

/// Normalises each row: `fma(h, weight, bias)`. Returns the result, and the mean and rstd of each unscaled
/// row.
///
/// # Shapes
///
/// `x: [rows, width]`, `weight` and `bias: [width]`.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn layer_norm<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    [rows, width]: [usize; 2],
    weight: &Buffer<T>,
    bias: &Buffer<T>,
    eps: f64,
) -> Result<(Buffer<T>, Buffer<T>, Buffer<T>)> {
    let op = "layer_norm";
    let elements = product(op, &[rows, width])?;
    expect_len(op, "the input", x, elements)?;
    expect_len(op, "the weight", weight, width)?;
    expect_len(op, "the bias", bias, width)?;
    let mut out = device.uninitialised(op, elements)?;
    let mut mean = device.uninitialised(op, rows)?;
    let mut rstd = device.uninitialised(op, rows)?;
    kernels::LayerNorm {
        out: &mut out,
        mean: &mut mean,
        rstd: &mut rstd,
        input: x,
        weight,
        bias,
        rows,
        width,
        eps,
    }
    .threads(device, op, product(op, &[rows, 32])?)?;
    Ok((out, mean, rstd))
}

/// Computes the gradients of layer normalisation: as [`batch_norm_grad`], with the row's sums taken
/// over `g · weight` (rounded to f32), and the weight and bias gradients summed down the rows.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn layer_norm_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    x: &Buffer<T>,
    [rows, width]: [usize; 2],
    weight: &Buffer<T>,
    [mean, rstd]: [&Buffer<T>; 2],
    eps: f64,
) -> Result<Gradients<T>> {
    let op = "layer_norm";
    let elements = product(op, &[rows, width])?;
    expect_len(op, "the gradient", grad, elements)?;
    expect_len(op, "the input", x, elements)?;
    expect_len(op, "the weight", weight, width)?;
    expect_len(op, "the mean", mean, rows)?;
    expect_len(op, "rstd", rstd, rows)?;
    let mut input = device.uninitialised(op, elements)?;
    let mut scaled = device.uninitialised(op, product(op, &[rows, 3])?)?;
    kernels::LayerNormInputGrad {
        out: &mut input,
        scaled: &mut scaled,
        grad,
        input: x,
        weight,
        mean,
        rstd,
        rows,
        width,
        eps,
    }
    .threads(device, op, product(op, &[rows, 32])?)?;
    let mut weight_grad = device.uninitialised(op, width)?;
    let mut bias_grad = device.uninitialised(op, width)?;
    let blocks = rows.div_ceil(BLOCK);
    let mut partials = device.uninitialised::<f64>(op, product(op, &[2, blocks, width])?)?;
    kernels::LayerNormColumns {
        partials: &mut partials,
        grad,
        input: x,
        scaled: &scaled,
        rows,
        width,
        blocks,
    }
    .grid(device, op, column_grid(op, blocks, width)?, COLUMN_BLOCK)?;
    let sums = match blocks {
        1 => partials,
        _ => sums(device, op, &partials, [2, blocks, width], Terms::Plain)?,
    };
    kernels::LayerNormWeightGrad {
        weight_grad: &mut weight_grad,
        bias_grad: &mut bias_grad,
        sums: &sums,
        width,
    }
    .threads(device, op, width)?;
    Ok(Gradients { input, weight: weight_grad, bias: bias_grad })
}

/// Divides each row by the root of its mean square. Returns the result, and for each row the power of two
/// that it is multiplied with and the reciprocal of the root.
///
/// [`RmsNorm`](samebits_tensor_core::ops::RmsNorm) has the order of the operations.
///
/// # Shapes
///
/// `x: [rows, width]`, `weight: [width]`.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn rms_norm<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    [rows, width]: [usize; 2],
    weight: Option<&Buffer<T>>,
    eps: f64,
) -> Result<(Buffer<T>, Buffer<T>, Buffer<T>)> {
    let op = "rms_norm";
    let elements = product(op, &[rows, width])?;
    expect_len(op, "the input", x, elements)?;
    if let Some(weight) = weight {
        expect_len(op, "the weight", weight, width)?;
    }
    let mut out = device.uninitialised(op, elements)?;
    let mut factor = device.uninitialised(op, rows)?;
    let mut rstd = device.uninitialised(op, rows)?;
    kernels::RmsNorm {
        out: &mut out,
        factor: &mut factor,
        rstd: &mut rstd,
        input: x,
        // Without a weight the kernel reads none.
        weight: weight.unwrap_or(x),
        weighted: weight.is_some().into(),
        rows,
        width,
        eps,
    }
    .threads(device, op, product(op, &[rows, 32])?)?;
    Ok((out, factor, rstd))
}

/// Computes the gradients of [`rms_norm`] with respect to input and, if there is one, weight. The weight's
/// gradient is a sum down the rows; but if `alone`, the only row itself.
///
/// [`RmsNormGrad`](samebits_tensor_core::ops::RmsNormGrad) has the order of the operations.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn rms_norm_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    x: &Buffer<T>,
    [rows, width]: [usize; 2],
    weight: Option<&Buffer<T>>,
    [factor, rstd]: [&Buffer<T>; 2],
    alone: bool,
) -> Result<(Buffer<T>, Option<Buffer<T>>)> {
    let op = "rms_norm";
    let elements = product(op, &[rows, width])?;
    expect_len(op, "the gradient", grad, elements)?;
    expect_len(op, "the input", x, elements)?;
    expect_len(op, "the factor", factor, rows)?;
    expect_len(op, "rstd", rstd, rows)?;
    let mut out = device.uninitialised(op, elements)?;
    kernels::RmsNormInputGrad {
        out: &mut out,
        grad,
        input: x,
        weight: weight.unwrap_or(x),
        weighted: weight.is_some().into(),
        factor,
        rstd,
        rows,
        width,
    }
    .threads(device, op, product(op, &[rows, 32])?)?;
    let Some(weight) = weight else { return Ok((out, None)) };
    expect_len(op, "the weight", weight, width)?;
    let blocks = rows.div_ceil(BLOCK);
    let lanes = product(op, &[blocks, LANES])?.min(rows);
    let mut sums = device.uninitialised::<f64>(op, product(op, &[lanes, width])?)?;
    kernels::RmsNormLanes {
        out: &mut sums,
        grad,
        input: x,
        factor,
        rstd,
        rows,
        width,
        start: if alone { -0.0 } else { 0.0 },
    }
    .grid(
        device,
        op,
        column_grid(op, lanes.div_ceil(COLUMN_BLOCK.1 as usize), width)?,
        COLUMN_BLOCK,
    )?;
    if lanes > 1 {
        let count = product(op, &[blocks, width])?;
        let mut halves = device.uninitialised(op, count)?;
        kernels::RmsNormHalves { out: &mut halves, lanes: &sums, rows, width, blocks }
            .threads(device, op, count)?;
        sums = halves;
    }
    if blocks > 1 {
        sums = self::sums(device, op, &sums, [1, blocks, width], Terms::Plain)?;
    }
    let mut weight_grad = device.uninitialised(op, width)?;
    kernels::RmsNormWeightGrad { out: &mut weight_grad, sums: &sums, width }
        .threads(device, op, width)?;
    Ok((out, Some(weight_grad)))
}

/// The numbers of elements, threads and blocks of a batch.
trait Counts {
    fn elements(self, op: &'static str) -> Result<usize>;

    /// Returns the number of threads of a kernel whose planes are the samples.
    fn sample_threads(self, op: &'static str) -> Result<usize>;

    /// Returns the number of blocks of a channel's tree, and the number of threads of the warps for
    /// all of them.
    fn blocks(self, op: &'static str) -> Result<(usize, usize)>;

    fn raw(self) -> RawBatch;
}

impl Counts for Batch {
    fn elements(self, op: &'static str) -> Result<usize> {
        product(op, &[self.n, self.channels, self.spatial])
    }

    fn sample_threads(self, op: &'static str) -> Result<usize> {
        plane_threads(op, self.n, product(op, &[self.channels, self.spatial])?)
    }

    fn blocks(self, op: &'static str) -> Result<(usize, usize)> {
        let blocks = product(op, &[self.n, self.spatial])?.div_ceil(BLOCK);
        Ok((blocks, product(op, &[self.channels, blocks, 32])?))
    }

    fn raw(self) -> RawBatch {
        RawBatch { n: self.n, channels: self.channels, spatial: self.spatial }
    }
}
