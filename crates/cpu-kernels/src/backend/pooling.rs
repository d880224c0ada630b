use samebits_tensor_core::ops::{
    AdaptiveAvgPool, AdaptiveAvgPoolGrad, AdaptiveMaxPool, AdaptiveMaxPoolGrad, AvgPool,
    AvgPoolGrad, FractionalMaxPool, FractionalMaxPoolGrad, MaxPool, MaxPoolGrad, MaxUnpool,
    MaxUnpoolGrad, PoolParams,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Op, Result, Tensor};

use super::{FLOATS, with_float};
use crate::pooling::{self, Adaptive, AvgOptions, Fractional, Geometry};

const WINDOWS: &str = "each output walks its window in row-major order";
const GATHER: &str = "each input takes its contributions in ascending output index";

pub(super) fn register_all() {
    register(Kernel::portable("windows", FLOATS, WINDOWS, |op: &MaxPool, ()| {
        let input = op.input.contiguous()?;
        let geometry = geometry(MaxPool::NAME, input.shape(), &op.params)?;
        let shape = op.params.output_shape(MaxPool::NAME, input.shape())?;
        let mut out = Tensor::scratch(&shape, input.dtype())?;
        let mut indices = Tensor::scratch(&shape, DType::I64)?;
        with_float!(input.dtype(), T => pooling::max_pool::<T>(
            &geometry,
            input.as_slice()?,
            out.as_mut_slice()?,
            indices.as_mut_slice()?,
        )?);
        Ok((out, indices))
    }));
    register(Kernel::portable("gather", FLOATS, GATHER, |op: &MaxPoolGrad, ()| {
        indexed_grad(MaxPoolGrad::NAME, &op.grad, &op.indices, &op.input_shape)
    }));
    register(Kernel::portable("windows", FLOATS, WINDOWS, |op: &AvgPool, ()| {
        let input = op.input.contiguous()?;
        let geometry = geometry(AvgPool::NAME, input.shape(), &op.params)?;
        let shape = op.params.output_shape(AvgPool::NAME, input.shape())?;
        let options = options(op.count_include_pad, op.divisor_override);
        let mut out = Tensor::scratch(&shape, input.dtype())?;
        with_float!(input.dtype(), T => pooling::avg_pool::<T>(
            &geometry,
            options,
            input.as_slice()?,
            out.as_mut_slice()?,
        )?);
        Ok(out)
    }));
    register(Kernel::portable("gather", FLOATS, GATHER, |op: &AvgPoolGrad, ()| {
        let grad = op.grad.contiguous()?;
        let geometry = geometry(AvgPoolGrad::NAME, &op.input_shape, &op.params)?;
        let options = options(op.count_include_pad, op.divisor_override);
        let mut out = Tensor::scratch(&op.input_shape, grad.dtype())?;
        with_float!(grad.dtype(), T => pooling::avg_pool_backward::<T>(
            &geometry,
            options,
            grad.as_slice()?,
            out.as_mut_slice()?,
        )?);
        Ok(out)
    }));
    register_adaptive();
    register_fractional();
    register_unpool();
}

fn register_adaptive() {
    register(Kernel::portable("windows", FLOATS, WINDOWS, |op: &AdaptiveAvgPool, ()| {
        let input = op.input.contiguous()?;
        let (sizes, shape) = adaptive(AdaptiveAvgPool::NAME, input.shape(), &op.output_size)?;
        let mut out = Tensor::scratch(&shape, input.dtype())?;
        with_float!(input.dtype(), T => pooling::adaptive_avg_pool::<T>(
            &sizes,
            input.as_slice()?,
            out.as_mut_slice()?,
        )?);
        Ok(out)
    }));
    register(Kernel::portable("gather", FLOATS, GATHER, |op: &AdaptiveAvgPoolGrad, ()| {
        let grad = op.grad.contiguous()?;
        let (sizes, _) = adaptive(AdaptiveAvgPoolGrad::NAME, &op.input_shape, &grad.shape()[2..])?;
        let mut out = Tensor::scratch(&op.input_shape, grad.dtype())?;
        with_float!(grad.dtype(), T => pooling::adaptive_avg_pool_backward::<T>(
            &sizes,
            grad.as_slice()?,
            out.as_mut_slice()?,
        )?);
        Ok(out)
    }));
    register(Kernel::portable("windows", FLOATS, WINDOWS, |op: &AdaptiveMaxPool, ()| {
        let input = op.input.contiguous()?;
        let (sizes, shape) = adaptive(AdaptiveMaxPool::NAME, input.shape(), &op.output_size)?;
        let mut out = Tensor::scratch(&shape, input.dtype())?;
        let mut indices = Tensor::scratch(&shape, DType::I64)?;
        with_float!(input.dtype(), T => pooling::adaptive_max_pool::<T>(
            &sizes,
            input.as_slice()?,
            out.as_mut_slice()?,
            indices.as_mut_slice()?,
        )?);
        Ok((out, indices))
    }));
    register(Kernel::portable("gather", FLOATS, GATHER, |op: &AdaptiveMaxPoolGrad, ()| {
        indexed_grad(AdaptiveMaxPoolGrad::NAME, &op.grad, &op.indices, &op.input_shape)
    }));
}

fn register_fractional() {
    register(Kernel::portable("windows", FLOATS, WINDOWS, |op: &FractionalMaxPool, ()| {
        let (input, samples) = (op.input.contiguous()?, op.samples.contiguous()?);
        let (planes, size) = input.shape().split_at(2);
        let shape = [planes, &op.output_size].concat();
        let planes = planes.iter().product();
        let sizes =
            Fractional::new(FractionalMaxPool::NAME, planes, size, &op.output_size, &op.kernel)?;
        let mut out = Tensor::scratch(&shape, input.dtype())?;
        let mut indices = Tensor::scratch(&shape, DType::I64)?;
        with_float!(input.dtype(), T => pooling::fractional_max_pool::<T>(
            &sizes,
            input.as_slice()?,
            samples.as_slice()?,
            out.as_mut_slice()?,
            indices.as_mut_slice()?,
        )?);
        Ok((out, indices))
    }));
    register(Kernel::portable("gather", FLOATS, GATHER, |op: &FractionalMaxPoolGrad, ()| {
        indexed_grad(FractionalMaxPoolGrad::NAME, &op.grad, &op.indices, &op.input_shape)
    }));
}

fn register_unpool() {
    const LAST: &str = "of several elements with one index the last one wins";
    register(Kernel::portable("planes", FLOATS, LAST, |op: &MaxUnpool, ()| {
        let (input, indices) = (op.input.contiguous()?, op.indices.contiguous()?);
        let planes = &input.shape()[..2];
        let mut out = Tensor::scratch(&[planes, &op.output_size].concat(), input.dtype())?;
        with_float!(input.dtype(), T => pooling::max_unpool::<T>(
            MaxUnpool::NAME,
            planes.iter().product(),
            input.as_slice()?,
            indices.as_slice()?,
            out.as_mut_slice()?,
        )?);
        Ok(out)
    }));
    register(Kernel::portable(
        "copy",
        FLOATS,
        "each element is copied",
        |op: &MaxUnpoolGrad, ()| {
            let (grad, indices) = (op.grad.contiguous()?, op.indices.contiguous()?);
            let mut out = Tensor::scratch(indices.shape(), grad.dtype())?;
            with_float!(grad.dtype(), T => pooling::max_unpool_backward::<T>(
            MaxUnpoolGrad::NAME,
            indices.shape()[..2].iter().product(),
            grad.as_slice()?,
            indices.as_slice()?,
            out.as_mut_slice()?,
        )?);
            Ok(out)
        },
    ));
}

/// The gradient of any pooling whose outputs have an index each.
fn indexed_grad(
    op: &'static str,
    grad: &Tensor,
    indices: &Tensor,
    input_shape: &[usize],
) -> Result<Tensor> {
    let (grad, indices) = (grad.contiguous()?, indices.contiguous()?);
    let mut out = Tensor::scratch(input_shape, grad.dtype())?;
    let planes = input_shape[..2].iter().product();
    with_float!(grad.dtype(), T => pooling::max_pool_backward::<T>(
        op,
        planes,
        grad.as_slice()?,
        indices.as_slice()?,
        out.as_mut_slice()?,
    )?);
    Ok(out)
}

/// The sizes of an adaptive pooling, and the shape of its result.
fn adaptive(
    op: &'static str,
    input: &[usize],
    output_size: &[usize],
) -> Result<(Adaptive, Vec<usize>)> {
    let (planes, size) = input.split_at(2);
    let sizes = Adaptive::new(op, planes.iter().product(), size, output_size)?;
    Ok((sizes, [planes, output_size].concat()))
}

fn geometry(op: &'static str, input: &[usize], params: &PoolParams) -> Result<Geometry> {
    Ok(Geometry::new(
        op,
        input[0] * input[1],
        &input[2..],
        &params.kernel,
        &params.stride,
        &params.padding,
        &params.dilation,
        params.ceil_mode,
    )?)
}

fn options(count_include_pad: bool, divisor_override: Option<i64>) -> AvgOptions {
    AvgOptions { count_include_pad, divisor_override }
}
