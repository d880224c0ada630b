//! Pooling, padding, resizing and sampling of images.

use samebits::functional::{self as f, Resize};
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Generator, Result};

use super::{Calls, graded, small};
use crate::fuzz::Draw;

/// Draws the shape of a batch of images with `dims` spatial dimensions.
fn image(d: &mut Draw, dims: usize) -> Vec<usize> {
    let mut shape = vec![d.between(0, 3), d.between(0, 3)];
    shape.extend((0..dims).map(|_| d.between(1, 24 / dims.pow(2))));
    if d.chance(20) {
        let at = 2 + d.below(dims);
        shape[at] = 0;
    }
    shape
}

/// Draws windows that usually fit.
fn windows(d: &mut Draw, dims: usize) -> PoolParams {
    let mut params = PoolParams::square(dims, 1);
    for dim in 0..dims {
        let kernel = d.between(1, 4);
        params.kernel[dim] = kernel;
        params.stride[dim] = d.between(1, 3);
        params.padding[dim] = d.below(kernel / 2 + 1);
        params.dilation[dim] = if d.chance(3) { 2 } else { 1 };
    }
    params.kernel = d.counts(&params.kernel);
    params.stride = d.counts(&params.stride);
    params.padding = d.counts(&params.padding);
    params.dilation = d.counts(&params.dilation);
    params.ceil_mode = d.flag();
    params
}

/// Draws a gradient of a result of this shape, if it can be computed.
fn grad(d: &mut Draw, shape: Result<Vec<usize>>, dtype: DType) -> Value {
    let shape = shape.ok().filter(|shape| small(shape)).unwrap_or_else(|| d.any_shape());
    d.tensor(&shape, dtype)
}

pub(super) fn add(calls: &mut Calls) {
    pooling(calls);
    adaptive(calls);
    functions(calls);
    padding(calls);
    resizing(calls);
    sampling(calls);
}

fn pooling(calls: &mut Calls) {
    calls.op("max_pool", |d| {
        let (dims, dtype) = (d.between(1, 3), d.float());
        let shape = image(d, dims);
        Ok(MaxPool { input: d.tensor(&shape, dtype), params: windows(d, dims) })
    });
    calls.op("max_pool_grad", |d| {
        let (dims, dtype) = (d.between(1, 3), d.float());
        let (shape, params) = (image(d, dims), windows(d, dims));
        let grad = grad(d, params.output_shape("max_pool", &shape), dtype);
        let indices = d.indices(grad.shape(), shape[2..].iter().product());
        Ok(MaxPoolGrad { grad, indices, input_shape: d.counts(&shape), params })
    });
    calls.op("avg_pool", |d| {
        let (dims, dtype) = (d.between(1, 3), d.float());
        let shape = image(d, dims);
        Ok(AvgPool {
            input: d.tensor(&shape, dtype),
            params: windows(d, dims),
            count_include_pad: d.flag(),
            divisor_override: d.flag().then(|| d.int(3)),
        })
    });
    calls.op("avg_pool_grad", |d| {
        let (dims, dtype) = (d.between(1, 3), d.float());
        let (shape, params) = (image(d, dims), windows(d, dims));
        Ok(AvgPoolGrad {
            grad: grad(d, params.output_shape("avg_pool", &shape), dtype),
            input_shape: d.counts(&shape),
            params,
            count_include_pad: d.flag(),
            divisor_override: d.flag().then(|| d.int(3)),
        })
    });
    calls.op("max_unpool", |d| {
        let (dims, dtype) = (d.between(1, 3), d.float());
        let (shape, size) = (image(d, dims), image(d, dims)[2..].to_vec());
        Ok(MaxUnpool {
            input: d.tensor(&shape, dtype),
            indices: d.indices(&shape, size.iter().product()),
            output_size: d.counts(&size),
        })
    });
    calls.op("max_unpool_grad", |d| {
        let (dims, dtype) = (d.between(1, 3), d.float());
        let (shape, mut pooled) = (image(d, dims), image(d, dims));
        pooled[..2].copy_from_slice(&shape[..2]);
        Ok(MaxUnpoolGrad {
            grad: d.tensor(&shape, dtype),
            indices: d.indices(&pooled, shape[2..].iter().product()),
        })
    });
}

fn adaptive(calls: &mut Calls) {
    /// Draws the shapes of an input and of a result.
    fn shapes(d: &mut Draw, least: usize) -> [Vec<usize>; 2] {
        let dims = d.between(least, 3);
        let (input, mut output) = (image(d, dims), image(d, dims));
        output[..2].copy_from_slice(&input[..2]);
        [input, output]
    }
    calls.op("adaptive_avg_pool", |d| {
        let ([input, output], dtype) = (shapes(d, 1), d.float());
        let output_size = d.counts(&output[2..]);
        Ok(AdaptiveAvgPool { input: d.tensor(&input, dtype), output_size })
    });
    calls.op("adaptive_avg_pool_grad", |d| {
        let ([input, output], dtype) = (shapes(d, 1), d.float());
        Ok(AdaptiveAvgPoolGrad { grad: d.tensor(&output, dtype), input_shape: d.counts(&input) })
    });
    calls.op("adaptive_max_pool", |d| {
        let ([input, output], dtype) = (shapes(d, 1), d.float());
        let output_size = d.counts(&output[2..]);
        Ok(AdaptiveMaxPool { input: d.tensor(&input, dtype), output_size })
    });
    calls.op("adaptive_max_pool_grad", |d| {
        let ([input, output], dtype) = (shapes(d, 1), d.float());
        Ok(AdaptiveMaxPoolGrad {
            grad: d.tensor(&output, dtype),
            indices: d.indices(&output, input[2..].iter().product()),
            input_shape: d.counts(&input),
        })
    });
    calls.op("fractional_max_pool", |d| {
        let (dims, dtype) = (d.between(2, 3), d.float());
        let shape = image(d, dims);
        let kernel: Vec<usize> = shape[2..].iter().map(|&n| d.between(1, n.clamp(1, 3))).collect();
        let output: Vec<usize> = shape[2..]
            .iter()
            .zip(&kernel)
            .map(|(&n, &kernel)| d.between(1, (n + 1).saturating_sub(kernel).max(1)))
            .collect();
        Ok(FractionalMaxPool {
            input: d.tensor(&shape, dtype),
            samples: d.tensor(&[shape[0], shape[1], dims], dtype),
            kernel: d.counts(&kernel),
            output_size: d.counts(&output),
        })
    });
    calls.op("fractional_max_pool_grad", |d| {
        let ([input, output], dtype) = (shapes(d, 2), d.float());
        Ok(FractionalMaxPoolGrad {
            grad: d.tensor(&output, dtype),
            indices: d.indices(&output, input[2..].iter().product()),
            input_shape: d.counts(&input),
        })
    });
}

fn functions(calls: &mut Calls) {
    calls.function("pooling", |d| {
        let (dims, dtype, which) = (d.between(1, 3), d.float(), d.below(7));
        let (shape, params) = (image(d, dims), windows(d, dims));
        let (size, other) = (d.counts(&shape[2..]), d.counts(&vec![2; dims]));
        let (p, divisor) = (d.real(2.0), d.flag().then(|| d.int(3)));
        let input = d.tensor(&shape, dtype);
        let mut generator = Generator::new(d.word());
        graded(d, vec![input], |x| match which {
            0 => Ok(f::max_pool(&x[0], &params)?.0),
            1 => f::avg_pool(&x[0], &params, true, divisor),
            2 => f::lp_pool(&x[0], p, &params),
            3 => f::adaptive_avg_pool(&x[0], &other),
            4 => Ok(f::adaptive_max_pool(&x[0], &other)?.0),
            5 => {
                let (pooled, indices) = f::max_pool(&x[0], &params)?;
                f::max_unpool(&pooled, &indices, &params, Some(&size))
            }
            _ => {
                let samples = f::fractional_samples_with(&x[0], dims, &mut generator)?;
                Ok(f::fractional_max_pool(&x[0], &other, &other, Some(&samples))?.0)
            }
        })
    });
}

fn padding(calls: &mut Calls) {
    const MODES: [PadMode; 4] =
        [PadMode::Constant, PadMode::Reflect, PadMode::Replicate, PadMode::Circular];
    /// Draws the pads of some dimensions.
    fn pads(d: &mut Draw, count: usize) -> Vec<[i64; 2]> {
        (0..count)
            .map(|_| {
                [(); 2].map(|()| {
                    let pad = d.below(5) as i64 - 1;
                    d.int(pad)
                })
            })
            .collect()
    }
    calls.op("pad", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let count = d.below(shape.len() + 1);
        let pads = pads(d, count);
        let input = d.tensor(&shape, dtype);
        Ok(Pad { input, pads, mode: d.pick(&MODES), value: d.real(0.5) })
    });
    calls.op("pad_grad", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let count = d.below(shape.len() + 1);
        let pads = pads(d, count);
        let mut padded = shape.clone();
        for (size, [before, after]) in padded[shape.len() - count..].iter_mut().rev().zip(&pads) {
            let sum = (*size as i64).checked_add(*before).and_then(|sum| sum.checked_add(*after));
            *size = sum.unwrap_or(0).clamp(0, 100) as usize;
        }
        let grad = d.tensor(&padded, dtype);
        Ok(PadGrad { grad, input_shape: d.counts(&shape), pads, mode: d.pick(&MODES) })
    });
    calls.function("padding", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let count = d.below(shape.len() + 1);
        let pads = pads(d, count).concat();
        let (mode, value) = (d.pick(&MODES), d.real(0.5));
        let input = d.tensor(&shape, dtype);
        graded(d, vec![input], |x| f::pad(&x[0], &pads, mode, value))
    });
}

fn resizing(calls: &mut Calls) {
    fn mode(d: &mut Draw) -> InterpolateMode {
        let align_corners = d.flag();
        d.pick(&[
            InterpolateMode::Nearest,
            InterpolateMode::NearestExact,
            InterpolateMode::Linear { align_corners },
            InterpolateMode::Cubic { align_corners },
            InterpolateMode::LinearAntialias { align_corners },
            InterpolateMode::CubicAntialias { align_corners },
        ])
    }
    /// Draws the shapes of an input and of a result, and their scales.
    fn sizes(d: &mut Draw) -> (Vec<usize>, Vec<usize>, Vec<Option<f64>>) {
        let dims = d.between(1, 3);
        let (input, mut output) = (image(d, dims), image(d, dims));
        output[..2].copy_from_slice(&input[..2]);
        let scales = (0..dims).map(|_| d.chance(3).then(|| d.real(1.7))).collect();
        (input, output, scales)
    }
    calls.op("interpolate", |d| {
        let ((input, output, scales), dtype) = (sizes(d), d.float());
        let output_size = d.counts(&output[2..]);
        Ok(Interpolate { input: d.tensor(&input, dtype), output_size, scales, mode: mode(d) })
    });
    calls.op("interpolate_grad", |d| {
        let ((input, output, scales), dtype) = (sizes(d), d.float());
        let input_shape = d.counts(&input);
        Ok(InterpolateGrad { grad: d.tensor(&output, dtype), input_shape, scales, mode: mode(d) })
    });
    calls.function("resizing", |d| {
        let ((input, output, _), dtype, mode) = (sizes(d), d.float(), mode(d));
        let (size, factor, which) = (d.counts(&output[2..]), d.count(2), d.below(6));
        let scale = d.real(1.5);
        let scales = vec![scale; size.len()];
        let x = d.tensor(&input, dtype);
        graded(d, vec![x], |x| match which {
            0 => f::interpolate(&x[0], Resize::Size(&size), mode),
            1 => f::interpolate(&x[0], Resize::Scale(&scales), mode),
            2 => f::interpolate(&x[0], Resize::RecomputedScale(&scales), mode),
            3 => f::interpolate_area(&x[0], Resize::Size(&size)),
            4 => f::pixel_shuffle(&x[0], factor),
            _ => f::pixel_unshuffle(&x[0], factor),
        })
    });
}

fn sampling(calls: &mut Calls) {
    fn params(d: &mut Draw) -> GridParams {
        GridParams {
            mode: d.pick(&[GridMode::Nearest, GridMode::Linear, GridMode::Cubic]),
            padding: d.pick(&[GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection]),
            align_corners: d.flag(),
        }
    }
    /// Draws the shapes of an input, a grid and a result.
    fn shapes(d: &mut Draw) -> [Vec<usize>; 3] {
        let dims = d.between(2, 3);
        let (input, mut output) = (image(d, dims), image(d, dims));
        output[..2].copy_from_slice(&input[..2]);
        let grid = [&input[..1], &output[2..], &[dims]].concat();
        [input, grid, output]
    }
    calls.op("grid_sample", |d| {
        let ([input, grid, _], dtype) = (shapes(d), d.float());
        let (input, grid) = (d.tensor(&input, dtype), d.tensor(&grid, dtype));
        Ok(GridSample { input, grid, params: params(d) })
    });
    calls.op("grid_sample_input", |d| {
        let ([input, grid, output], dtype) = (shapes(d), d.float());
        let (grad, grid) = (d.tensor(&output, dtype), d.tensor(&grid, dtype));
        Ok(GridSampleInputGrad { grad, grid, input_shape: d.counts(&input), params: params(d) })
    });
    calls.op("grid_sample_grid", |d| {
        let ([input, grid, output], dtype) = (shapes(d), d.float());
        let (grad, grid) = (d.tensor(&output, dtype), d.tensor(&grid, dtype));
        Ok(GridSampleGridGrad { grad, input: d.tensor(&input, dtype), grid, params: params(d) })
    });
    calls.function("sampling", |d| {
        let ([input, grid, _], dtype, params) = (shapes(d), d.float(), params(d));
        let arguments = vec![d.tensor(&input, dtype), d.tensor(&grid, dtype)];
        graded(d, arguments, |x| f::grid_sample(&x[0], &x[1], params))
    });
    calls.function("affine_grid", |d| {
        let dims = d.between(2, 3);
        let (shape, dtype, corners) = (image(d, dims), d.float(), d.flag());
        let (theta, size) = (d.tensor(&[shape[0], dims, dims + 1], dtype), d.counts(&shape));
        graded(d, vec![theta], |x| f::affine_grid(&x[0], &size, corners))
    });
}
