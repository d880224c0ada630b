use samebits_tensor_core::Tensor;
use samebits_tensor_core::geometry::{Batch, Groups, Rows};
use samebits_tensor_core::ops::{
    BatchNorm, BatchNormGrad, BatchNormInference, GroupNorm, GroupNormGrad, LayerNorm,
    LayerNormGrad, RmsNorm, RmsNormGrad,
};
use samebits_tensor_core::registry::register;

use super::{EACH, FLOATS, Failure, Gpu, Real, Tensors, on, portable, with_float};
use crate::launch::Buffer;
use crate::norm::{self, Gradients};

const TREE: &str =
    "statistics run in f64 over a tree that depends on the length alone; the rest is elementwise";

pub(super) fn register_all() {
    register(portable(
        "tree",
        FLOATS,
        TREE,
        |op: &BatchNorm, &shape| with_float!(op.input.dtype(), T => batch_norm::<T>(op, shape)),
    ));
    register(portable(
        "tree",
        FLOATS,
        TREE,
        |op: &BatchNormGrad, &shape| with_float!(op.input.dtype(), T => batch_norm_grad::<T>(op, shape)),
    ));
    register(portable(
        "each",
        FLOATS,
        EACH,
        |op: &BatchNormInference, &shape| with_float!(op.input.dtype(), T => batch_norm_inference::<T>(op, shape)),
    ));
    register(portable(
        "tree",
        FLOATS,
        TREE,
        |op: &GroupNorm, &shape| with_float!(op.input.dtype(), T => group_norm::<T>(op, shape)),
    ));
    register(portable(
        "tree",
        FLOATS,
        TREE,
        |op: &GroupNormGrad, &shape| with_float!(op.input.dtype(), T => group_norm_grad::<T>(op, shape)),
    ));
    register(portable(
        "tree",
        FLOATS,
        TREE,
        |op: &LayerNorm, &rows| with_float!(op.input.dtype(), T => layer_norm::<T>(op, rows)),
    ));
    register(portable(
        "tree",
        FLOATS,
        TREE,
        |op: &LayerNormGrad, &rows| with_float!(op.input.dtype(), T => layer_norm_grad::<T>(op, rows)),
    ));
    register(portable(
        "tree",
        FLOATS,
        TREE,
        |op: &RmsNorm, &rows| with_float!(op.input.dtype(), T => rms_norm::<T>(op, rows)),
    ));
    register(portable(
        "tree",
        FLOATS,
        TREE,
        |op: &RmsNormGrad, &rows| with_float!(op.input.dtype(), T => rms_norm_grad::<T>(op, rows)),
    ));
}

fn batch_norm<T: Real>(op: &BatchNorm, shape: Batch) -> Tensors<(Tensor, Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let x = gpu.input::<T>(&op.input)?;
        let (weight, bias) = (gpu.input(&op.weight)?, gpu.input(&op.bias)?);
        let found = norm::batch_statistics(gpu.device, &x, shape, op.eps)?;
        let out = norm::batch_normalize(gpu.device, &x, shape, &found.scaled, &weight, &bias)?;
        let channels = [shape.channels];
        Ok((
            gpu.tensor(out, op.input.shape())?,
            gpu.tensor(found.mean, &channels)?,
            gpu.tensor(found.variance, &channels)?,
            gpu.tensor(found.rstd, &channels)?,
        ))
    })
}

fn batch_norm_grad<T: Real>(op: &BatchNormGrad, shape: Batch) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let (grad, x) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.input)?);
        let (mean, rstd) = (gpu.input(&op.mean)?, gpu.input(&op.rstd)?);
        let weight = gpu.input(&op.weight)?;
        let statistics: [&Buffer<T>; 2] = [&mean, &rstd];
        let found =
            norm::batch_norm_grad(gpu.device, &grad, &x, shape, statistics, &weight, op.eps)?;
        gradients(&gpu, found, &op.input, &op.weight)
    })
}

fn batch_norm_inference<T: Real>(op: &BatchNormInference, shape: Batch) -> Tensors<Tensor> {
    on(op, |gpu| {
        let x = gpu.input::<T>(&op.input)?;
        let (mean, var) = (gpu.input(&op.mean)?, gpu.input(&op.var)?);
        let (weight, bias) = (gpu.input(&op.weight)?, gpu.input(&op.bias)?);
        let given = norm::given_statistics(gpu.device, &mean, &var, op.eps)?;
        let out = norm::batch_normalize(gpu.device, &x, shape, &given, &weight, &bias)?;
        gpu.tensor(out, op.input.shape())
    })
}

fn group_norm<T: Real>(op: &GroupNorm, shape: Groups) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let x = gpu.input::<T>(&op.input)?;
        let weight = op.weight.as_ref().map(|weight| gpu.input(weight)).transpose()?;
        let bias = op.bias.as_ref().map(|bias| gpu.input(bias)).transpose()?;
        let (weight, bias) = (weight.as_deref(), bias.as_deref());
        let (out, mean, rstd) = norm::group_norm(gpu.device, &x, shape, weight, bias, op.eps)?;
        let rows = [shape.rows()];
        Ok((gpu.tensor(out, op.input.shape())?, gpu.tensor(mean, &rows)?, gpu.tensor(rstd, &rows)?))
    })
}

fn group_norm_grad<T: Real>(
    op: &GroupNormGrad,
    shape: Groups,
) -> Tensors<(Tensor, Option<Tensor>)> {
    on(op, |gpu| {
        let (grad, x) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.input)?);
        let weight = op.weight.as_ref().map(|weight| gpu.input(weight)).transpose()?;
        let (mean, rstd) = (gpu.input(&op.mean)?, gpu.input(&op.rstd)?);
        let (weight, statistics) = (weight.as_deref(), [&*mean, &*rstd]);
        let (grad_x, products) =
            norm::group_norm_grad(gpu.device, &grad, &x, shape, weight, statistics, op.eps)?;
        let products = products.map(|all| gpu.tensor(all, op.input.shape())).transpose()?;
        Ok((gpu.tensor(grad_x, op.input.shape())?, products))
    })
}

fn layer_norm<T: Real>(op: &LayerNorm, rows: Rows) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let (weight, bias) = (gpu.input(&op.weight)?, gpu.input(&op.bias)?);
        let shape = [rows.count, rows.width];
        let x = gpu.input::<T>(&op.input)?;
        let (out, mean, rstd) = norm::layer_norm(gpu.device, &x, shape, &weight, &bias, op.eps)?;
        Ok((
            gpu.tensor(out, op.input.shape())?,
            gpu.tensor(mean, &shape[..1])?,
            gpu.tensor(rstd, &shape[..1])?,
        ))
    })
}

fn layer_norm_grad<T: Real>(op: &LayerNormGrad, rows: Rows) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let (grad, x) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.input)?);
        let (mean, rstd) = (gpu.input(&op.mean)?, gpu.input(&op.rstd)?);
        let weight = gpu.input(&op.weight)?;
        let shape = [rows.count, rows.width];
        let statistics: [&Buffer<T>; 2] = [&mean, &rstd];
        let found =
            norm::layer_norm_grad(gpu.device, &grad, &x, shape, &weight, statistics, op.eps)?;
        gradients(&gpu, found, &op.input, &op.weight)
    })
}

fn rms_norm<T: Real>(op: &RmsNorm, rows: Rows) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let x = gpu.input::<T>(&op.input)?;
        let weight = op.weight.as_ref().map(|weight| gpu.input(weight)).transpose()?;
        let shape = [rows.count, rows.width];
        let (out, factor, rstd) = norm::rms_norm(gpu.device, &x, shape, weight.as_deref(), op.eps)?;
        Ok((
            gpu.tensor(out, op.input.shape())?,
            gpu.tensor(factor, &shape[..1])?,
            gpu.tensor(rstd, &shape[..1])?,
        ))
    })
}

fn rms_norm_grad<T: Real>(op: &RmsNormGrad, rows: Rows) -> Tensors<(Tensor, Option<Tensor>)> {
    on(op, |gpu| {
        let (grad, x) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.input)?);
        let weight = op.weight.as_ref().map(|weight| gpu.input(weight)).transpose()?;
        let (factor, rstd) = (gpu.input(&op.factor)?, gpu.input(&op.rstd)?);
        let (weight, statistics) = (weight.as_deref(), [&*factor, &*rstd]);
        let (shape, row) = ([rows.count, rows.width], &op.normalized_shape);
        let alone = op.input.rank() == row.len();
        let (grad_x, grad_weight) =
            norm::rms_norm_grad(gpu.device, &grad, &x, shape, weight, statistics, alone)?;
        let grad_weight = grad_weight.map(|grad| gpu.tensor(grad, row)).transpose()?;
        Ok((gpu.tensor(grad_x, op.input.shape())?, grad_weight))
    })
}

fn gradients<T: Real>(
    gpu: &Gpu<'_>,
    found: Gradients<T>,
    input: &Tensor,
    weight: &Tensor,
) -> Result<(Tensor, Tensor, Tensor), Failure> {
    Ok((
        gpu.tensor(found.input, input.shape())?,
        gpu.tensor(found.weight, weight.shape())?,
        gpu.tensor(found.bias, weight.shape())?,
    ))
}
