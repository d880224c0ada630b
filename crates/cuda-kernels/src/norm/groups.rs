//! Normalisation of groups of channels.

use samebits_tensor_core::geometry::{Batch, Groups};

use super::{Scaled, Statistics, batch_statistics};
use crate::device::{Device, Float, expect_len, plane_threads, product};
use crate::error::Result;
use crate::launch::declared::group_norm::RawGroups;
use crate::launch::kernels::group_norm as kernels;
use crate::launch::{Buffer, Launch};
use crate::reduce::BLOCK;

const OP: &str = "group_norm";

/// Normalises each group of each sample: `(h + 0) · weight + bias`, each operation rounded. A missing weight
/// counts as 1, a missing bias as −0. Returns the result, and the mean and rstd of each unscaled row.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn group_norm<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    shape: Groups,
    weight: Option<&Buffer<T>>,
    bias: Option<&Buffer<T>>,
    eps: f64,
) -> Result<(Buffer<T>, Buffer<T>, Buffer<T>)> {
    let Counts { rows, width, channels, elements } = Counts::new(shape)?;
    expect_len(OP, "the input", x, elements)?;
    for (what, buffer) in [("the weight", weight), ("the bias", bias)] {
        if let Some(buffer) = buffer {
            expect_len(OP, what, buffer, channels)?;
        }
    }
    let batch = Batch { n: 1, channels: rows, spatial: width };
    let Statistics { mean, rstd, scaled: Scaled(scaled), .. } =
        batch_statistics(device, x, batch, eps)?;
    let mut out = device.uninitialised(OP, elements)?;
    kernels::GroupNormalize {
        out: &mut out,
        input: x,
        scaled: &scaled,
        // What is missing is not read.
        weight: weight.unwrap_or(x),
        bias: bias.unwrap_or(x),
        p: raw(shape, weight.is_some(), bias.is_some()),
    }
    .threads(device, OP, plane_threads(OP, shape.n, product(OP, &[shape.groups, width])?)?)?;
    Ok((out, mean, rstd))
}

/// Computes the gradient of the input of [`group_norm`], and, if there is a weight, the gradient times
/// `h + 0`, rounded, whose sums over samples and positions are the gradient of the weight.
///
/// With `g` the gradient times the weight, rounded, the gradient of the input is that of
/// [`batch_norm_grad`](super::batch_norm_grad) with a weight of 1 for a channel that holds the group.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn group_norm_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    x: &Buffer<T>,
    shape: Groups,
    weight: Option<&Buffer<T>>,
    [mean, rstd]: [&Buffer<T>; 2],
    eps: f64,
) -> Result<(Buffer<T>, Option<Buffer<T>>)> {
    let Counts { rows, width, channels, elements } = Counts::new(shape)?;
    expect_len(OP, "the gradient", grad, elements)?;
    expect_len(OP, "the input", x, elements)?;
    expect_len(OP, "the mean", mean, rows)?;
    expect_len(OP, "rstd", rstd, rows)?;
    if let Some(weight) = weight {
        expect_len(OP, "the weight", weight, channels)?;
    }
    let p = raw(shape, weight.is_some(), false);
    // Without a weight the kernels read none.
    let factor = weight.unwrap_or(x);
    let blocks = width.div_ceil(BLOCK);
    let mut partials = device.uninitialised(OP, product(OP, &[rows, 2, blocks])?)?;
    let mut scaled = device.uninitialised(OP, product(OP, &[rows, 3])?)?;
    kernels::GroupNormBlocks {
        partials: &mut partials,
        scaled: &mut scaled,
        grad,
        input: x,
        weight: factor,
        mean,
        rstd,
        p,
        blocks,
        eps,
    }
    .threads(device, OP, product(OP, &[rows, blocks, 32])?)?;
    let mut means = device.uninitialised(OP, product(OP, &[rows, 2])?)?;
    kernels::GroupNormMeans { means: &mut means, partials: &partials, rows, blocks, width }
        .threads(device, OP, product(OP, &[rows, 2, 32])?)?;
    let mut out = device.uninitialised(OP, elements)?;
    let mut products = device.uninitialised(OP, if weight.is_some() { elements } else { 0 })?;
    kernels::GroupNormInputGrad {
        out: &mut out,
        products: &mut products,
        grad,
        input: x,
        scaled: &scaled,
        weight: factor,
        means: &means,
        p,
    }
    .threads(device, OP, plane_threads(OP, shape.n, product(OP, &[shape.groups, width])?)?)?;
    Ok((out, weight.map(|_| products)))
}

/// Checked products of the sizes.
struct Counts {
    rows: usize,
    width: usize,
    channels: usize,
    elements: usize,
}

impl Counts {
    fn new(Groups { n, groups, channels, spatial }: Groups) -> Result<Counts> {
        Ok(Counts {
            rows: product(OP, &[n, groups])?,
            width: product(OP, &[channels, spatial])?,
            channels: product(OP, &[groups, channels])?,
            elements: product(OP, &[n, groups, channels, spatial])?,
        })
    }
}

fn raw(Groups { n, groups, channels, spatial }: Groups, weighted: bool, biased: bool) -> RawGroups {
    let (weighted, biased) = (weighted.into(), biased.into());
    RawGroups { n, groups, channels, spatial, weighted, biased }
}
