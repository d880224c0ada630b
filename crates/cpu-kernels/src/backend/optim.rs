use samebits_tensor_core::ops::{AdamStep, SgdStep};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Result, Tensor};

use super::{Element, FLOATS, with_float};
use crate::optim;

const EACH: &str = "each element is its own fixed sequence of correctly rounded operations";

pub(super) fn register_all() {
    register(Kernel::portable(
        "fused",
        FLOATS,
        EACH,
        |op: &SgdStep, ()| with_float!(op.param.dtype(), T => sgd_step::<T>(op)),
    ));
    register(Kernel::portable(
        "fused",
        FLOATS,
        EACH,
        |op: &AdamStep, ()| with_float!(op.param.dtype(), T => adam_step::<T>(op)),
    ));
}

fn sgd_step<T: Element>(op: &SgdStep) -> Result<(Tensor, Option<Tensor>)> {
    let (param, grad) = (op.param.contiguous()?, op.grad.contiguous()?);
    let velocity = op.velocity.as_ref().map(Tensor::contiguous).transpose()?;
    let mut new_param = Tensor::scratch(param.shape(), param.dtype())?;
    let scratch = || Tensor::scratch(param.shape(), param.dtype());
    let mut new_velocity = (op.params.momentum != 0.0).then(scratch).transpose()?;
    optim::sgd_step::<T>(
        &op.params,
        param.as_slice()?,
        grad.as_slice()?,
        velocity.as_ref().map(Tensor::as_slice).transpose()?,
        new_param.as_mut_slice()?,
        new_velocity.as_mut().map(Tensor::as_mut_slice).transpose()?.unwrap_or_default(),
    )?;
    Ok((new_param, new_velocity))
}

fn adam_step<T: Element>(op: &AdamStep) -> Result<(Tensor, Tensor, Tensor)> {
    let (param, grad) = (op.param.contiguous()?, op.grad.contiguous()?);
    let (mean, square) = (op.mean.contiguous()?, op.square.contiguous()?);
    let scratch = || Tensor::scratch(param.shape(), param.dtype());
    let (mut new_param, mut new_mean, mut new_square) = (scratch()?, scratch()?, scratch()?);
    optim::adam_step::<T>(
        &op.params,
        op.step,
        param.as_slice()?,
        grad.as_slice()?,
        mean.as_slice()?,
        square.as_slice()?,
        new_param.as_mut_slice()?,
        new_mean.as_mut_slice()?,
        new_square.as_mut_slice()?,
    )?;
    Ok((new_param, new_mean, new_square))
}
