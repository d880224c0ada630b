use samebits_tensor_core::ops::{AdamStep, SgdStep};
use samebits_tensor_core::registry::register;

use samebits_tensor_core::Tensor;

use super::{EACH, FLOATS, Real, Tensors, on, portable, with_float};
use crate::optim::{Adam, Sgd, adam_step, sgd_step};

pub(super) fn register_all() {
    register(portable(
        "fused",
        FLOATS,
        EACH,
        |op: &SgdStep, ()| with_float!(op.param.dtype(), T => sgd::<T>(op)),
    ));
    register(portable(
        "fused",
        FLOATS,
        EACH,
        |op: &AdamStep, ()| with_float!(op.param.dtype(), T => adam::<T>(op)),
    ));
}

fn sgd<T: Real>(op: &SgdStep) -> Tensors<(Tensor, Option<Tensor>)> {
    on(op, |gpu| {
        let settings = Sgd {
            lr: op.params.lr,
            momentum: op.params.momentum,
            dampening: op.params.dampening,
            weight_decay: op.params.weight_decay,
            nesterov: op.params.nesterov,
        };
        let mut param = gpu.copy::<T>(&op.param)?;
        let grad = gpu.input(&op.grad)?;
        let first = op.velocity.is_none();
        // In the first step the kernel writes the velocity without reading it.
        let mut velocity = match &op.velocity {
            Some(velocity) => gpu.copy(velocity)?,
            None => gpu.device.uninitialised("sgd_step", param.len())?,
        };
        sgd_step(gpu.device, &settings, &mut param, &mut velocity, &grad, first)?;
        let shape = op.param.shape();
        let velocity = (op.params.momentum != 0.0).then(|| gpu.tensor(velocity, shape));
        Ok((gpu.tensor(param, shape)?, velocity.transpose()?))
    })
}

fn adam<T: Real>(op: &AdamStep) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let settings = Adam {
            lr: op.params.lr,
            beta1: op.params.beta1,
            beta2: op.params.beta2,
            eps: op.params.eps,
            weight_decay: op.params.weight_decay,
            decoupled: op.params.decoupled,
        };
        let (mut param, grad) = (gpu.copy::<T>(&op.param)?, gpu.input(&op.grad)?);
        let (mut mean, mut square) = (gpu.copy(&op.mean)?, gpu.copy(&op.square)?);
        adam_step(gpu.device, &settings, op.step, &mut param, &mut mean, &mut square, &grad)?;
        let shape = op.param.shape();
        Ok((gpu.tensor(param, shape)?, gpu.tensor(mean, shape)?, gpu.tensor(square, shape)?))
    })
}
