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
        let (param, grad) = (gpu.input::<T>(&op.param)?, gpu.input(&op.grad)?);
        let velocity = op.velocity.as_ref().map(|velocity| gpu.input(velocity)).transpose()?;
        let (param, velocity) =
            sgd_step(gpu.device, &settings, &param, velocity.as_deref(), &grad)?;
        let shape = op.param.shape();
        let velocity = velocity.map(|velocity| gpu.tensor(velocity, shape));
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
        let (param, grad) = (gpu.input::<T>(&op.param)?, gpu.input(&op.grad)?);
        let (mean, square) = (gpu.input(&op.mean)?, gpu.input(&op.square)?);
        let old = [&*param, &*mean, &*square];
        let [param, mean, square] = adam_step(gpu.device, &settings, op.step, old, &grad)?;
        let shape = op.param.shape();
        Ok((gpu.tensor(param, shape)?, gpu.tensor(mean, shape)?, gpu.tensor(square, shape)?))
    })
}
