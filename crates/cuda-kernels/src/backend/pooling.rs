use samebits_tensor_core::ops::{
    AdaptiveAvgPool, AdaptiveAvgPoolGrad, AdaptiveMaxPool, AdaptiveMaxPoolGrad, AvgPool,
    AvgPoolGrad, FractionalMaxPool, FractionalMaxPoolGrad, MaxPool, MaxPoolGrad, MaxUnpool,
    MaxUnpoolGrad, PoolParams,
};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{Op, Tensor};

use super::{ARRIVAL, F32, FLOATS, Failure, Real, Tensors, atomic, on, portable, with_float};
use crate::Variant;
use crate::error::CudaError;
use crate::pooling::{self, Adaptive, AvgOptions, Window};
use crate::scatter::{Rows, scatter};

const WINDOWS: &str = "each output walks its window in row-major order";
const GATHER: &str = "each input takes its contributions in ascending output index";

pub(super) fn register_all() {
    register(portable(
        "windows",
        FLOATS,
        WINDOWS,
        |op: &MaxPool, ()| with_float!(op.input.dtype(), T => max_pool::<T>(op)),
    ));
    register(atomic(F32, ARRIVAL, |op, _| max_pool_grad::<f32>(op, Variant::Atomic)));
    register(portable(
        "gather",
        FLOATS,
        GATHER,
        |op: &MaxPoolGrad, ()| with_float!(op.grad.dtype(), T => max_pool_grad::<T>(op, Variant::Deterministic)),
    ));
    register(portable(
        "windows",
        FLOATS,
        WINDOWS,
        |op: &AvgPool, ()| with_float!(op.input.dtype(), T => avg_pool::<T>(op)),
    ));
    register(atomic(F32, ARRIVAL, |op, _| avg_pool_grad::<f32>(op, Variant::Atomic)));
    register(portable(
        "gather",
        FLOATS,
        GATHER,
        |op: &AvgPoolGrad, ()| with_float!(op.grad.dtype(), T => avg_pool_grad::<T>(op, Variant::Deterministic)),
    ));
    register_adaptive();
    register_fractional();
    register_unpool();
}

fn register_adaptive() {
    register(portable(
        "windows",
        FLOATS,
        WINDOWS,
        |op: &AdaptiveAvgPool, ()| with_float!(op.input.dtype(), T => adaptive_avg_pool::<T>(op)),
    ));
    register(atomic(F32, ARRIVAL, |op, _| adaptive_avg_pool_grad::<f32>(op, Variant::Atomic)));
    register(portable("gather", FLOATS, GATHER, |op: &AdaptiveAvgPoolGrad, ()| {
        with_float!(op.grad.dtype(), T => {
            adaptive_avg_pool_grad::<T>(op, Variant::Deterministic)
        })
    }));
    register(portable(
        "windows",
        FLOATS,
        WINDOWS,
        |op: &AdaptiveMaxPool, ()| with_float!(op.input.dtype(), T => adaptive_max_pool::<T>(op)),
    ));
    register(atomic(F32, ARRIVAL, |op: &AdaptiveMaxPoolGrad, ()| {
        indexed_grad::<f32, _>(op, &op.grad, &op.indices, &op.input_shape, Variant::Atomic)
    }));
    register(portable("gather", FLOATS, GATHER, |op: &AdaptiveMaxPoolGrad, ()| {
        let (grad, indices, shape) = (&op.grad, &op.indices, &op.input_shape);
        with_float!(grad.dtype(), T => {
            indexed_grad::<T, _>(op, grad, indices, shape, Variant::Deterministic)
        })
    }));
}

fn register_fractional() {
    register(portable(
        "windows",
        FLOATS,
        WINDOWS,
        |op: &FractionalMaxPool, ()| with_float!(op.input.dtype(), T => fractional_max_pool::<T>(op)),
    ));
    register(atomic(F32, ARRIVAL, |op: &FractionalMaxPoolGrad, ()| {
        indexed_grad::<f32, _>(op, &op.grad, &op.indices, &op.input_shape, Variant::Atomic)
    }));
    register(portable("gather", FLOATS, GATHER, |op: &FractionalMaxPoolGrad, ()| {
        let (grad, indices, shape) = (&op.grad, &op.indices, &op.input_shape);
        with_float!(grad.dtype(), T => {
            indexed_grad::<T, _>(op, grad, indices, shape, Variant::Deterministic)
        })
    }));
}

fn register_unpool() {
    const LAST: &str = "of several elements with one index the last one wins";
    register(portable(
        "planes",
        FLOATS,
        LAST,
        |op: &MaxUnpool, ()| with_float!(op.input.dtype(), T => max_unpool::<T>(op)),
    ));
    register(portable("copy", FLOATS, "each element is copied", |op: &MaxUnpoolGrad, ()| {
        on(op, |gpu| {
            let planes = op.indices.shape()[..2].iter().product();
            with_float!(op.grad.dtype(), T => {
                let (grad, indices) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.indices)?);
                let out = pooling::max_unpool_grad(gpu.device, &grad, &indices, planes)?;
                gpu.tensor(out, op.indices.shape())
            })
        })
    }));
}

fn max_pool<T: Real>(op: &MaxPool) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let shape = op.params.output_shape(MaxPool::NAME, op.input.shape())?;
        let window = window(op.input.shape(), &op.params)?;
        let input = gpu.input::<T>(&op.input)?;
        let (out, indices) = pooling::max_pool(gpu.device, &input, &window)?;
        Ok((gpu.tensor(out, &shape)?, gpu.tensor(indices, &shape)?))
    })
}

fn max_pool_grad<T: Real>(op: &MaxPoolGrad, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let window = window(&op.input_shape, &op.params)?;
        let (grad, indices) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.indices)?);
        let out = pooling::max_pool_grad(gpu.device, &grad, &indices, &window, variant)?;
        gpu.tensor(out, &op.input_shape)
    })
}

fn avg_pool<T: Real>(op: &AvgPool) -> Tensors<Tensor> {
    on(op, |gpu| {
        let shape = op.params.output_shape(AvgPool::NAME, op.input.shape())?;
        let window = window(op.input.shape(), &op.params)?;
        let options = options(AvgPool::NAME, op.count_include_pad, op.divisor_override)?;
        let input = gpu.input::<T>(&op.input)?;
        gpu.tensor(pooling::avg_pool(gpu.device, &input, &window, options)?, &shape)
    })
}

fn avg_pool_grad<T: Real>(op: &AvgPoolGrad, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let window = window(&op.input_shape, &op.params)?;
        let options = options(AvgPoolGrad::NAME, op.count_include_pad, op.divisor_override)?;
        let grad = gpu.input::<T>(&op.grad)?;
        let out = pooling::avg_pool_grad(gpu.device, &grad, &window, options, variant)?;
        gpu.tensor(out, &op.input_shape)
    })
}

fn adaptive_avg_pool<T: Real>(op: &AdaptiveAvgPool) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (sizes, shape) = adaptive(op.input.shape(), &op.output_size)?;
        let input = gpu.input::<T>(&op.input)?;
        gpu.tensor(pooling::adaptive_avg_pool(gpu.device, &input, sizes)?, &shape)
    })
}

fn adaptive_avg_pool_grad<T: Real>(op: &AdaptiveAvgPoolGrad, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (sizes, _) = adaptive(&op.input_shape, &op.grad.shape()[2..])?;
        let grad = gpu.input::<T>(&op.grad)?;
        let out = pooling::adaptive_avg_pool_grad(gpu.device, &grad, sizes, variant)?;
        gpu.tensor(out, &op.input_shape)
    })
}

fn adaptive_max_pool<T: Real>(op: &AdaptiveMaxPool) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let (sizes, shape) = adaptive(op.input.shape(), &op.output_size)?;
        let input = gpu.input::<T>(&op.input)?;
        let (out, indices) = pooling::adaptive_max_pool(gpu.device, &input, sizes)?;
        Ok((gpu.tensor(out, &shape)?, gpu.tensor(indices, &shape)?))
    })
}

fn fractional_max_pool<T: Real>(op: &FractionalMaxPool) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let (planes, size) = op.input.shape().split_at(2);
        let shape = [planes, &op.output_size].concat();
        let (input, samples) = (gpu.input::<T>(&op.input)?, gpu.input(&op.samples)?);
        let planes = planes.iter().product();
        let sizes = [size, &op.output_size, &op.kernel];
        let (out, indices) =
            pooling::fractional_max_pool(gpu.device, &input, &samples, planes, sizes)?;
        Ok((gpu.tensor(out, &shape)?, gpu.tensor(indices, &shape)?))
    })
}

fn max_unpool<T: Real>(op: &MaxUnpool) -> Tensors<Tensor> {
    on(op, |gpu| {
        let planes = &op.input.shape()[..2];
        let shape = [planes, &op.output_size].concat();
        let outer: usize = planes.iter().product();
        let size = op.output_size.iter().product();
        let n = op.input.shape()[2..].iter().product();
        let (input, indices) = (gpu.input::<T>(&op.input)?, gpu.input(&op.indices)?);
        let mut out = gpu.device.zeros::<T>(outer * size)?;
        let rows = Rows { outer, size, n, inner: 1 };
        scatter(gpu.device, &mut out, &indices, &input, rows)?;
        gpu.tensor(out, &shape)
    })
}

/// The gradient of any pooling whose outputs have an index each.
fn indexed_grad<T: Real, O: Op>(
    op: &O,
    grad: &Tensor,
    indices: &Tensor,
    input_shape: &[usize],
    variant: Variant,
) -> Tensors<Tensor> {
    on(op, |gpu| {
        let planes = input_shape[..2].iter().product();
        let n_in = input_shape.iter().product();
        let (grad, indices) = (gpu.input::<T>(grad)?, gpu.input(indices)?);
        let out = pooling::pool_indices_grad(gpu.device, &grad, &indices, planes, n_in, variant)?;
        gpu.tensor(out, input_shape)
    })
}

/// The sizes of an adaptive pooling, and the shape of its result.
fn adaptive(input: &[usize], output_size: &[usize]) -> Result<(Adaptive, Vec<usize>), Failure> {
    let (planes, size) = input.split_at(2);
    let sizes = Adaptive::new(planes.iter().product(), size, output_size)?;
    Ok((sizes, [planes, output_size].concat()))
}

fn window(input: &[usize], params: &PoolParams) -> Result<Window, Failure> {
    Ok(Window::new(
        input[0] * input[1],
        &input[2..],
        &params.kernel,
        &params.stride,
        &params.padding,
        &params.dilation,
        params.ceil_mode,
    )?)
}

fn options(
    op: &'static str,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<AvgOptions, Failure> {
    let divisor_override = match divisor_override.map(i32::try_from) {
        None => None,
        Some(Ok(divisor)) => Some(divisor),
        Some(Err(_)) => {
            return Err(CudaError::invalid(op, "the divisor does not fit 32 bits").into());
        }
    };
    Ok(AvgOptions { count_include_pad, divisor_override })
}
