use samebits_tensor_core::ops::{
    AdaptiveAvgPool, AdaptiveAvgPoolGrad, AdaptiveMaxPool, AdaptiveMaxPoolGrad, AvgPool,
    AvgPoolGrad, FractionalMaxPool, FractionalMaxPoolGrad, MaxPool, MaxPoolGrad, MaxUnpool,
    MaxUnpoolGrad,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Op, Result, Tensor};

use super::{FLOATS, with_float};
use crate::pooling;

const WINDOWS: &str = "each output reads its window in row-major order";
const GATHER: &str = "each input adds its contributions in ascending output index";

pub(super) fn register_all() {
    register(Kernel::portable("windows", FLOATS, WINDOWS, |op: &MaxPool, pool| {
        let input = op.input.contiguous()?;
        let mut out = Tensor::scratch(pool.output_shape(), input.dtype())?;
        let mut indices = Tensor::scratch(pool.output_shape(), DType::I64)?;
        with_float!(input.dtype(), T => pooling::max_pool::<T>(
            pool,
            input.as_slice()?,
            out.as_mut_slice()?,
            indices.as_mut_slice()?,
        )?);
        Ok((out, indices))
    }));
    register(Kernel::portable("gather", FLOATS, GATHER, |op: &MaxPoolGrad, _| {
        indexed_grad(MaxPoolGrad::NAME, &op.grad, &op.indices, &op.input_shape)
    }));
    register(Kernel::portable("windows", FLOATS, WINDOWS, |op: &AvgPool, average| {
        let input = op.input.contiguous()?;
        let mut out = Tensor::scratch(average.pool().output_shape(), input.dtype())?;
        with_float!(input.dtype(), T => {
            pooling::avg_pool::<T>(average, input.as_slice()?, out.as_mut_slice()?)?;
        });
        Ok(out)
    }));
    register(Kernel::portable("gather", FLOATS, GATHER, |op: &AvgPoolGrad, average| {
        let grad = op.grad.contiguous()?;
        let mut out = Tensor::scratch(&op.input_shape, grad.dtype())?;
        with_float!(grad.dtype(), T => {
            pooling::avg_pool_backward::<T>(average, grad.as_slice()?, out.as_mut_slice()?)?;
        });
        Ok(out)
    }));
    register_adaptive();
    register_fractional();
    register_unpool();
}

fn register_adaptive() {
    register(Kernel::portable("windows", FLOATS, WINDOWS, |op: &AdaptiveAvgPool, pool| {
        let input = op.input.contiguous()?;
        let mut out = Tensor::scratch(pool.output_shape(), input.dtype())?;
        with_float!(input.dtype(), T => {
            pooling::adaptive_avg_pool::<T>(pool, input.as_slice()?, out.as_mut_slice()?)?;
        });
        Ok(out)
    }));
    register(Kernel::portable("gather", FLOATS, GATHER, |op: &AdaptiveAvgPoolGrad, pool| {
        let grad = op.grad.contiguous()?;
        let mut out = Tensor::scratch(&op.input_shape, grad.dtype())?;
        with_float!(grad.dtype(), T => {
            pooling::adaptive_avg_pool_backward::<T>(pool, grad.as_slice()?, out.as_mut_slice()?)?;
        });
        Ok(out)
    }));
    register(Kernel::portable("windows", FLOATS, WINDOWS, |op: &AdaptiveMaxPool, pool| {
        let input = op.input.contiguous()?;
        let mut out = Tensor::scratch(pool.output_shape(), input.dtype())?;
        let mut indices = Tensor::scratch(pool.output_shape(), DType::I64)?;
        with_float!(input.dtype(), T => pooling::adaptive_max_pool::<T>(
            pool,
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
    register(Kernel::portable("windows", FLOATS, WINDOWS, |op: &FractionalMaxPool, pool| {
        let (input, samples) = (op.input.contiguous()?, op.samples.contiguous()?);
        let mut out = Tensor::scratch(pool.output_shape(), input.dtype())?;
        let mut indices = Tensor::scratch(pool.output_shape(), DType::I64)?;
        with_float!(input.dtype(), T => pooling::fractional_max_pool::<T>(
            pool,
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
    const LAST: &str = "if several elements have one index, the last one is kept";
    register(Kernel::portable("planes", FLOATS, LAST, |op: &MaxUnpool, shape| {
        let (input, indices) = (op.input.contiguous()?, op.indices.contiguous()?);
        let mut out = Tensor::scratch(shape, input.dtype())?;
        with_float!(input.dtype(), T => pooling::max_unpool::<T>(
            MaxUnpool::NAME,
            shape[..2].iter().product(),
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

/// Returns the gradient of any pooling that returns one index per output.
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
