//! Convolutions by the vendor's library, if it is present and the call has no bias.

use samebits_tensor_core::geometry::Convolution;
use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvWeightGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Determinism, Op, Tensor};

use super::{FLOATS, Real, Tensors, on, portable, with_float};
use crate::cudnn;

const SHOWN: &str = "an algorithm that cuDNN calls deterministic and that repeated its bits";

pub(super) fn register_all() {
    register(Kernel {
        applies: |op: &Conv, plan| op.bias.is_none() && applies(plan),
        ..run_to_run(|op: &Conv, plan| with_float!(op.input.dtype(), T => forward::<T>(op, plan)))
    });
    register(Kernel {
        applies: |_: &ConvInputGrad, plan| applies(plan),
        ..run_to_run(
            |op: &ConvInputGrad, plan| with_float!(op.grad.dtype(), T => input_grad::<T>(op, plan)),
        )
    });
    register(Kernel {
        applies: |_: &ConvWeightGrad, plan| applies(plan),
        ..run_to_run(
            |op: &ConvWeightGrad, plan| with_float!(op.grad.dtype(), T => weight_grad::<T>(op, plan)),
        )
    });
}

const fn run_to_run<O: Op>(run: fn(&O, &O::Plan) -> Tensors<O::Output>) -> Kernel<O> {
    let mut kernel = portable("cudnn", FLOATS, SHOWN, run);
    kernel.level = Determinism::RunToRun;
    kernel
}

fn applies(plan: &Convolution) -> bool {
    cudnn::find().is_ok() && cudnn::Convolution::new(plan).is_ok()
}

fn forward<T: Real>(op: &Conv, plan: &Convolution) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (input, weight) = (gpu.input::<T>(&op.input)?, gpu.input(&op.weight)?);
        let out = cudnn::Convolution::new(plan)?.forward(gpu.device, &input, &weight)?;
        gpu.tensor(out, &plan.output_shape())
    })
}

fn input_grad<T: Real>(op: &ConvInputGrad, plan: &Convolution) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, weight) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.weight)?);
        let out = cudnn::Convolution::new(plan)?.input_grad(gpu.device, &grad, &weight)?;
        gpu.tensor(out, &op.input_shape)
    })
}

fn weight_grad<T: Real>(op: &ConvWeightGrad, plan: &Convolution) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, input) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.input)?);
        let out = cudnn::Convolution::new(plan)?.weight_grad(gpu.device, &grad, &input)?;
        gpu.tensor(out, &op.weight_shape)
    })
}
