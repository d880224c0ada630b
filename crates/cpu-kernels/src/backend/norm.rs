use samebits_tensor_core::geometry::{Batch, Groups, Rows};
use samebits_tensor_core::ops::{
    BatchNorm, BatchNormGrad, BatchNormInference, GroupNorm, GroupNormGrad, LayerNorm,
    LayerNormGrad, RmsNorm, RmsNormGrad,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Result, Tensor};

use super::{Element, FLOATS, filled, with_float};
use crate::norm::{self, Scaled};

const TREE: &str =
    "statistics run in f64 over a tree that depends on the length alone; the rest is elementwise";

pub(super) fn register_all() {
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &BatchNorm, &shape| with_float!(op.input.dtype(), T => batch_norm::<T>(op, shape)),
    ));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &BatchNormGrad, &shape| with_float!(op.input.dtype(), T => batch_norm_grad::<T>(op, shape)),
    ));
    register(Kernel::portable(
        "each",
        FLOATS,
        "each element is its own fixed sequence of correctly rounded operations",
        |op: &BatchNormInference, &shape| with_float!(op.input.dtype(), T => batch_norm_inference::<T>(op, shape)),
    ));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &GroupNorm, &shape| with_float!(op.input.dtype(), T => group_norm::<T>(op, shape)),
    ));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &GroupNormGrad, &shape| with_float!(op.input.dtype(), T => group_norm_grad::<T>(op, shape)),
    ));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &LayerNorm, &rows| with_float!(op.input.dtype(), T => layer_norm::<T>(op, rows)),
    ));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &LayerNormGrad, _| with_float!(op.input.dtype(), T => layer_norm_grad::<T>(op)),
    ));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &RmsNorm, &rows| with_float!(op.input.dtype(), T => rms_norm::<T>(op, rows)),
    ));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &RmsNormGrad, &rows| with_float!(op.input.dtype(), T => rms_norm_grad::<T>(op, rows)),
    ));
}

fn batch_norm<T: Element>(
    op: &BatchNorm,
    shape: Batch,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let x = op.input.contiguous()?;
    let (weight, bias) = (op.weight.contiguous()?, op.bias.contiguous()?);
    let mut out = Tensor::scratch(x.shape(), x.dtype())?;
    let moment = || Tensor::scratch(&[shape.channels], x.dtype());
    let (mut mean, mut var, mut rstd) = (moment()?, moment()?, moment()?);
    norm::batch_norm::<T>(
        x.as_slice()?,
        shape,
        weight.as_slice()?,
        bias.as_slice()?,
        op.eps,
        out.as_mut_slice()?,
        [mean.as_mut_slice()?, var.as_mut_slice()?, rstd.as_mut_slice()?],
    )?;
    Ok((out, mean, var, rstd))
}

fn batch_norm_grad<T: Element>(
    op: &BatchNormGrad,
    shape: Batch,
) -> Result<(Tensor, Tensor, Tensor)> {
    let x = op.input.contiguous()?;
    let grad = op.grad.contiguous()?;
    let (mean, rstd) = (op.mean.contiguous()?, op.rstd.contiguous()?);
    let weight = op.weight.contiguous()?;
    let mut grad_x = Tensor::scratch(x.shape(), x.dtype())?;
    let (grad_weight, grad_bias) = norm::batch_norm_backward(
        grad.as_slice::<T>()?,
        x.as_slice()?,
        shape,
        [mean.as_slice()?, rstd.as_slice()?],
        weight.as_slice()?,
        op.eps,
        grad_x.as_mut_slice()?,
    )?;
    let channels = |values: &[T]| Tensor::from_slice(values, &[shape.channels]);
    Ok((grad_x, channels(&grad_weight)?, channels(&grad_bias)?))
}

fn batch_norm_inference<T: Element>(op: &BatchNormInference, shape: Batch) -> Result<Tensor> {
    let x = op.input.contiguous()?;
    let given = op.mean.to_vec::<T>()?.into_iter().zip(op.var.to_vec::<T>()?);
    let statistics: Vec<_> = given
        .map(|(mean, var)| {
            let var: f64 = var.into();
            let rstd = T::from_f64(1.0 / (var + op.eps).sqrt());
            Scaled { mean, rstd, scale: T::ONE }
        })
        .collect();
    let (weight, bias) = (op.weight.contiguous()?, op.bias.contiguous()?);
    filled(x.shape(), |out| {
        norm::batch_normalize(
            x.as_slice()?,
            shape,
            &statistics,
            weight.as_slice()?,
            bias.as_slice()?,
            out,
        )?;
        Ok(())
    })
}

fn group_norm<T: Element>(op: &GroupNorm, shape: Groups) -> Result<(Tensor, Tensor, Tensor)> {
    let x = op.input.contiguous()?;
    let weight = op.weight.as_ref().map(Tensor::contiguous).transpose()?;
    let bias = op.bias.as_ref().map(Tensor::contiguous).transpose()?;
    let mut out = Tensor::scratch(x.shape(), x.dtype())?;
    let mut mean = Tensor::scratch(&[shape.rows()], x.dtype())?;
    let mut rstd = Tensor::scratch(&[shape.rows()], x.dtype())?;
    norm::group_norm::<T>(
        x.as_slice()?,
        shape,
        weight.as_ref().map(Tensor::as_slice).transpose()?,
        bias.as_ref().map(Tensor::as_slice).transpose()?,
        op.eps,
        out.as_mut_slice()?,
        [mean.as_mut_slice()?, rstd.as_mut_slice()?],
    )?;
    Ok((out, mean, rstd))
}

fn group_norm_grad<T: Element>(
    op: &GroupNormGrad,
    shape: Groups,
) -> Result<(Tensor, Option<Tensor>)> {
    let (grad, x) = (op.grad.contiguous()?, op.input.contiguous()?);
    let weight = op.weight.as_ref().map(Tensor::contiguous).transpose()?;
    let (mean, rstd) = (op.mean.contiguous()?, op.rstd.contiguous()?);
    let mut grad_x = Tensor::scratch(x.shape(), x.dtype())?;
    let products = weight.is_some().then(|| Tensor::scratch(x.shape(), x.dtype()));
    let mut products = products.transpose()?;
    norm::group_norm_backward::<T>(
        [grad.as_slice()?, x.as_slice()?],
        shape,
        weight.as_ref().map(Tensor::as_slice).transpose()?,
        [mean.as_slice()?, rstd.as_slice()?],
        op.eps,
        grad_x.as_mut_slice()?,
        products.as_mut().map(Tensor::as_mut_slice).transpose()?,
    )?;
    Ok((grad_x, products))
}

fn layer_norm<T: Element>(op: &LayerNorm, rows: Rows) -> Result<(Tensor, Tensor, Tensor)> {
    let x = op.input.contiguous()?;
    let (weight, bias) = (op.weight.contiguous()?, op.bias.contiguous()?);
    let mut out = Tensor::scratch(x.shape(), x.dtype())?;
    let mut mean = Tensor::scratch(&[rows.count], x.dtype())?;
    let mut rstd = Tensor::scratch(&[rows.count], x.dtype())?;
    norm::layer_norm::<T>(
        x.as_slice()?,
        weight.as_slice()?,
        bias.as_slice()?,
        op.eps,
        out.as_mut_slice()?,
        mean.as_mut_slice()?,
        rstd.as_mut_slice()?,
    )?;
    Ok((out, mean, rstd))
}

fn layer_norm_grad<T: Element>(op: &LayerNormGrad) -> Result<(Tensor, Tensor, Tensor)> {
    let (grad, x) = (op.grad.contiguous()?, op.input.contiguous()?);
    let weight = op.weight.contiguous()?;
    let (mean, rstd) = (op.mean.contiguous()?, op.rstd.contiguous()?);
    let mut grad_x = Tensor::scratch(x.shape(), x.dtype())?;
    let (grad_weight, grad_bias) = norm::layer_norm_backward(
        grad.as_slice::<T>()?,
        x.as_slice()?,
        weight.as_slice()?,
        [mean.as_slice()?, rstd.as_slice()?],
        op.eps,
        grad_x.as_mut_slice()?,
    )?;
    let like_weight = |values: &[T]| Tensor::from_slice(values, op.weight.shape());
    Ok((grad_x, like_weight(&grad_weight)?, like_weight(&grad_bias)?))
}

fn rms_norm<T: Element>(op: &RmsNorm, rows: Rows) -> Result<(Tensor, Tensor, Tensor)> {
    let x = op.input.contiguous()?;
    let weight = op.weight.as_ref().map(Tensor::contiguous).transpose()?;
    let mut out = Tensor::scratch(x.shape(), x.dtype())?;
    let mut factor = Tensor::scratch(&[rows.count], x.dtype())?;
    let mut rstd = Tensor::scratch(&[rows.count], x.dtype())?;
    norm::rms_norm::<T>(
        x.as_slice()?,
        rows.width,
        weight.as_ref().map(Tensor::as_slice).transpose()?,
        op.eps,
        out.as_mut_slice()?,
        [factor.as_mut_slice()?, rstd.as_mut_slice()?],
    )?;
    Ok((out, factor, rstd))
}

fn rms_norm_grad<T: Element>(op: &RmsNormGrad, rows: Rows) -> Result<(Tensor, Option<Tensor>)> {
    let (grad, x) = (op.grad.contiguous()?, op.input.contiguous()?);
    let weight = op.weight.as_ref().map(Tensor::contiguous).transpose()?;
    let (factor, rstd) = (op.factor.contiguous()?, op.rstd.contiguous()?);
    let mut grad_x = Tensor::scratch(x.shape(), x.dtype())?;
    let grad_weight = norm::rms_norm_backward(
        grad.as_slice::<T>()?,
        x.as_slice()?,
        rows.width,
        weight.as_ref().map(Tensor::as_slice).transpose()?,
        [factor.as_slice()?, rstd.as_slice()?],
        x.rank() == op.normalized_shape.len(),
        grad_x.as_mut_slice()?,
    )?;
    let like_weight = |values: Vec<T>| Tensor::from_slice(&values, &op.normalized_shape);
    Ok((grad_x, grad_weight.map(like_weight).transpose()?))
}
