//! Convolutions by the vendor's library, if it is present and the call has no bias.

use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvParams, ConvWeightGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Determinism, Op, Tensor};

use super::{FLOATS, Failure, Real, Tensors, on, portable, with_float};
use crate::conv::Params;
use crate::cudnn::{self, Convolution};

const SHOWN: &str = "an algorithm that cuDNN calls deterministic and that repeated its bits";

pub(super) fn register_all() {
    register(Kernel {
        applies: |op: &Conv, ()| {
            op.bias.is_none() && applies(op.input.shape(), op.weight.shape(), &op.params)
        },
        ..run_to_run(|op: &Conv, ()| with_float!(op.input.dtype(), T => forward::<T>(op)))
    });
    register(Kernel {
        applies: |op: &ConvInputGrad, ()| applies(&op.input_shape, op.weight.shape(), &op.params),
        ..run_to_run(
            |op: &ConvInputGrad, ()| with_float!(op.grad.dtype(), T => input_grad::<T>(op)),
        )
    });
    register(Kernel {
        applies: |op: &ConvWeightGrad, ()| applies(op.input.shape(), &op.weight_shape, &op.params),
        ..run_to_run(
            |op: &ConvWeightGrad, ()| with_float!(op.grad.dtype(), T => weight_grad::<T>(op)),
        )
    });
}

const fn run_to_run<O: Op>(run: fn(&O, &O::Plan) -> Tensors<O::Output>) -> Kernel<O> {
    let mut kernel = portable("cudnn", FLOATS, SHOWN, run);
    kernel.level = Determinism::RunToRun;
    kernel
}

fn applies(input: &[usize], weight: &[usize], params: &ConvParams) -> bool {
    cudnn::find().is_ok() && convolution(input, weight, params).is_ok()
}

fn forward<T: Real>(op: &Conv) -> Tensors<Tensor> {
    on(op, |gpu| {
        let conv = convolution(op.input.shape(), op.weight.shape(), &op.params)?;
        let (input, weight) = (gpu.input::<T>(&op.input)?, gpu.input(&op.weight)?);
        let out = conv.forward(gpu.device, &input, &weight)?;
        let shape = op.params.output_shape(Conv::NAME, op.input.shape(), op.weight.shape())?;
        gpu.tensor(out, &shape)
    })
}

fn input_grad<T: Real>(op: &ConvInputGrad) -> Tensors<Tensor> {
    on(op, |gpu| {
        let conv = convolution(&op.input_shape, op.weight.shape(), &op.params)?;
        let (grad, weight) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.weight)?);
        gpu.tensor(conv.input_grad(gpu.device, &grad, &weight)?, &op.input_shape)
    })
}

fn weight_grad<T: Real>(op: &ConvWeightGrad) -> Tensors<Tensor> {
    on(op, |gpu| {
        let conv = convolution(op.input.shape(), &op.weight_shape, &op.params)?;
        let (grad, input) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.input)?);
        gpu.tensor(conv.weight_grad(gpu.device, &grad, &input)?, &op.weight_shape)
    })
}

fn convolution(
    input: &[usize],
    weight: &[usize],
    params: &ConvParams,
) -> Result<Convolution, Failure> {
    let ConvParams { stride, padding, dilation, groups } = params.clone();
    Ok(Convolution::new(input, weight, &Params { stride, padding, dilation, groups })?)
}
