use samebits_tensor_core::ops::{AvgPool, AvgPoolGrad, MaxPool, MaxPoolGrad, PoolParams};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Op, Result, Tensor};

use super::{FLOATS, with_float};
use crate::pooling::{self, AvgOptions, Geometry};

const WINDOWS: &str = "each output walks its window in row-major order";
const GATHER: &str = "each input takes its contributions in ascending output index";

pub(super) fn register_all() {
    register(Kernel::portable("windows", FLOATS, WINDOWS, |op: &MaxPool| {
        let input = op.input.contiguous()?;
        let geometry = geometry(MaxPool::NAME, input.shape(), &op.params)?;
        let shape = op.params.output_shape(MaxPool::NAME, input.shape())?;
        let mut out = Tensor::scratch(&shape, input.dtype());
        let mut indices = Tensor::scratch(&shape, DType::I64);
        with_float!(input.dtype(), T => pooling::max_pool::<T>(
            &geometry,
            input.as_slice()?,
            out.as_mut_slice()?,
            indices.as_mut_slice()?,
        )?);
        Ok((out, indices))
    }));
    register(Kernel::portable("gather", FLOATS, GATHER, |op: &MaxPoolGrad| {
        let (grad, indices) = (op.grad.contiguous()?, op.indices.contiguous()?);
        let mut out = Tensor::scratch(&op.input_shape, grad.dtype());
        let planes = op.input_shape[0] * op.input_shape[1];
        with_float!(grad.dtype(), T => pooling::max_pool_backward::<T>(
            MaxPoolGrad::NAME,
            planes,
            grad.as_slice()?,
            indices.as_slice()?,
            out.as_mut_slice()?,
        )?);
        Ok(out)
    }));
    register(Kernel::portable("windows", FLOATS, WINDOWS, |op: &AvgPool| {
        let input = op.input.contiguous()?;
        let geometry = geometry(AvgPool::NAME, input.shape(), &op.params)?;
        let shape = op.params.output_shape(AvgPool::NAME, input.shape())?;
        let options = options(op.count_include_pad, op.divisor_override);
        let mut out = Tensor::scratch(&shape, input.dtype());
        with_float!(input.dtype(), T => pooling::avg_pool::<T>(
            &geometry,
            options,
            input.as_slice()?,
            out.as_mut_slice()?,
        )?);
        Ok(out)
    }));
    register(Kernel::portable("gather", FLOATS, GATHER, |op: &AvgPoolGrad| {
        let grad = op.grad.contiguous()?;
        let geometry = geometry(AvgPoolGrad::NAME, &op.input_shape, &op.params)?;
        let options = options(op.count_include_pad, op.divisor_override);
        let mut out = Tensor::scratch(&op.input_shape, grad.dtype());
        with_float!(grad.dtype(), T => pooling::avg_pool_backward::<T>(
            &geometry,
            options,
            grad.as_slice()?,
            out.as_mut_slice()?,
        )?);
        Ok(out)
    }));
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
