use samebits_tensor_core::ops::{
    AdaptiveAvgPool, AdaptiveAvgPoolGrad, AdaptiveMaxPool, AdaptiveMaxPoolGrad, AvgPool,
    AvgPoolGrad, FractionalMaxPool, FractionalMaxPoolGrad, MaxPool, MaxPoolGrad, MaxUnpool,
    MaxUnpoolGrad,
};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{Op, Tensor};

use super::{ARRIVAL, F32, FLOATS, Real, Tensors, atomic, on, portable, with_float};
use crate::Variant;
use crate::pooling::{self, AdaptivePool, Average, FractionalPool, Pool};
use crate::scatter::{Rows, scatter};

const WINDOWS: &str = "each output reads its window in row-major order";
const GATHER: &str = "each input adds its contributions in ascending output index";

pub(super) fn register_all() {
    register(portable(
        "windows",
        FLOATS,
        WINDOWS,
        |op: &MaxPool, plan| with_float!(op.input.dtype(), T => max_pool::<T>(op, plan)),
    ));
    register(portable(
        "gather",
        FLOATS,
        GATHER,
        |op: &MaxPoolGrad, plan| with_float!(op.grad.dtype(), T => max_pool_grad::<T>(op, plan, Variant::Deterministic)),
    ));
    register(portable(
        "windows",
        FLOATS,
        WINDOWS,
        |op: &AvgPool, plan| with_float!(op.input.dtype(), T => avg_pool::<T>(op, plan)),
    ));
    register(portable(
        "gather",
        FLOATS,
        GATHER,
        |op: &AvgPoolGrad, plan| with_float!(op.grad.dtype(), T => avg_pool_grad::<T>(op, plan, Variant::Deterministic)),
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
        |op: &AdaptiveAvgPool, plan| with_float!(op.input.dtype(), T => adaptive_avg_pool::<T>(op, plan)),
    ));
    // The atomic form took twice the time on an H200, so no tensor is given to it.
    register(portable(
        "gather",
        FLOATS,
        GATHER,
        |op: &AdaptiveAvgPoolGrad, plan| with_float!(op.grad.dtype(), T => adaptive_avg_pool_grad::<T>(op, plan)),
    ));
    register(portable(
        "windows",
        FLOATS,
        WINDOWS,
        |op: &AdaptiveMaxPool, plan| with_float!(op.input.dtype(), T => adaptive_max_pool::<T>(op, plan)),
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
        |op: &FractionalMaxPool, plan| with_float!(op.input.dtype(), T => fractional_max_pool::<T>(op, plan)),
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
    const LAST: &str = "if several elements have one index, the last one is kept";
    register(portable(
        "planes",
        FLOATS,
        LAST,
        |op: &MaxUnpool, plan| with_float!(op.input.dtype(), T => max_unpool::<T>(op, plan)),
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

fn max_pool<T: Real>(op: &MaxPool, pool: &Pool) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let input = gpu.input::<T>(&op.input)?;
        let (out, indices) = pooling::max_pool(gpu.device, &input, pool)?;
        let shape = pool.output_shape();
        Ok((gpu.tensor(out, shape)?, gpu.tensor(indices, shape)?))
    })
}

fn max_pool_grad<T: Real>(op: &MaxPoolGrad, pool: &Pool, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, indices) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.indices)?);
        let out = pooling::max_pool_grad(gpu.device, &grad, &indices, pool, variant)?;
        gpu.tensor(out, &op.input_shape)
    })
}

fn avg_pool<T: Real>(op: &AvgPool, average: &Average) -> Tensors<Tensor> {
    on(op, |gpu| {
        let input = gpu.input::<T>(&op.input)?;
        let out = pooling::avg_pool(gpu.device, &input, average)?;
        gpu.tensor(out, average.pool().output_shape())
    })
}

fn avg_pool_grad<T: Real>(
    op: &AvgPoolGrad,
    average: &Average,
    variant: Variant,
) -> Tensors<Tensor> {
    on(op, |gpu| {
        let grad = gpu.input::<T>(&op.grad)?;
        let out = pooling::avg_pool_grad(gpu.device, &grad, average, variant)?;
        gpu.tensor(out, &op.input_shape)
    })
}

fn adaptive_avg_pool<T: Real>(op: &AdaptiveAvgPool, pool: &AdaptivePool) -> Tensors<Tensor> {
    on(op, |gpu| {
        let input = gpu.input::<T>(&op.input)?;
        let out = pooling::adaptive_avg_pool(gpu.device, &input, pool)?;
        gpu.tensor(out, pool.output_shape())
    })
}

fn adaptive_avg_pool_grad<T: Real>(
    op: &AdaptiveAvgPoolGrad,
    pool: &AdaptivePool,
) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, variant) = (gpu.input::<T>(&op.grad)?, Variant::Deterministic);
        let out = pooling::adaptive_avg_pool_grad(gpu.device, &grad, pool, variant)?;
        gpu.tensor(out, &op.input_shape)
    })
}

fn adaptive_max_pool<T: Real>(
    op: &AdaptiveMaxPool,
    pool: &AdaptivePool,
) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let input = gpu.input::<T>(&op.input)?;
        let (out, indices) = pooling::adaptive_max_pool(gpu.device, &input, pool)?;
        let shape = pool.output_shape();
        Ok((gpu.tensor(out, shape)?, gpu.tensor(indices, shape)?))
    })
}

fn fractional_max_pool<T: Real>(
    op: &FractionalMaxPool,
    pool: &FractionalPool,
) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let (input, samples) = (gpu.input::<T>(&op.input)?, gpu.input(&op.samples)?);
        let (out, indices) = pooling::fractional_max_pool(gpu.device, &input, &samples, pool)?;
        let shape = pool.output_shape();
        Ok((gpu.tensor(out, shape)?, gpu.tensor(indices, shape)?))
    })
}

fn max_unpool<T: Real>(op: &MaxUnpool, shape: &[usize]) -> Tensors<Tensor> {
    on(op, |gpu| {
        let outer: usize = shape[..2].iter().product();
        let size = shape[2..].iter().product();
        let n = op.input.shape()[2..].iter().product();
        let (input, indices) = (gpu.input::<T>(&op.input)?, gpu.input(&op.indices)?);
        let mut out = gpu.device.zeros::<T>(outer * size)?;
        let rows = Rows { outer, size, n, inner: 1 };
        scatter(gpu.device, &mut out, &indices, &input, rows)?;
        gpu.tensor(out, shape)
    })
}

/// Computes the gradient of any pooling that returns one index per output.
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
