use samebits_tensor_core::ops::{AvgPool, AvgPoolGrad, MaxPool, MaxPoolGrad, PoolParams};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{Op, Tensor};

use super::{ARRIVAL, F32, FLOATS, Failure, Real, Tensors, atomic, on, portable, with_float};
use crate::Variant;
use crate::error::CudaError;
use crate::pooling::{self, AvgOptions, Window};

const WINDOWS: &str = "each output walks its window in row-major order";
const GATHER: &str = "each input takes its contributions in ascending output index";

pub(super) fn register_all() {
    register(portable(
        "windows",
        FLOATS,
        WINDOWS,
        |op: &MaxPool| with_float!(op.input.dtype(), T => max_pool::<T>(op)),
    ));
    register(atomic(F32, ARRIVAL, |op| max_pool_grad::<f32>(op, Variant::Atomic)));
    register(portable(
        "gather",
        FLOATS,
        GATHER,
        |op: &MaxPoolGrad| with_float!(op.grad.dtype(), T => max_pool_grad::<T>(op, Variant::Deterministic)),
    ));
    register(portable(
        "windows",
        FLOATS,
        WINDOWS,
        |op: &AvgPool| with_float!(op.input.dtype(), T => avg_pool::<T>(op)),
    ));
    register(atomic(F32, ARRIVAL, |op| avg_pool_grad::<f32>(op, Variant::Atomic)));
    register(portable(
        "gather",
        FLOATS,
        GATHER,
        |op: &AvgPoolGrad| with_float!(op.grad.dtype(), T => avg_pool_grad::<T>(op, Variant::Deterministic)),
    ));
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
