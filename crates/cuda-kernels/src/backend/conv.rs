use samebits_tensor_core::Tensor;
use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvParams, ConvWeightGrad};
use samebits_tensor_core::registry::register;

use super::{F32, FLOATS, Failure, Real, Tensors, atomic, on, portable, with_float};
use crate::Variant;
use crate::conv::{Convolution, Params};

const CHAIN: &str = "each element is a chain of fma in ascending k within blocks of a fixed length";

pub(super) fn register_all() {
    register(portable(
        "implicit_gemm",
        FLOATS,
        CHAIN,
        |op: &Conv| with_float!(op.input.dtype(), T => forward::<T>(op)),
    ));
    register(portable(
        "implicit_gemm",
        FLOATS,
        CHAIN,
        |op: &ConvInputGrad| with_float!(op.grad.dtype(), T => input_grad::<T>(op)),
    ));
    register(atomic(F32, "partial sums are added in the order in which blocks arrive", |op| {
        weight_grad::<f32>(op, Variant::Atomic)
    }));
    register(portable(
        "implicit_gemm",
        FLOATS,
        CHAIN,
        |op: &ConvWeightGrad| with_float!(op.grad.dtype(), T => weight_grad::<T>(op, Variant::Deterministic)),
    ));
}

fn forward<T: Real>(op: &Conv) -> Tensors<Tensor> {
    on(op, |gpu| {
        let conv = convolution(op.input.shape(), op.weight.shape(), &op.params)?;
        let (input, weight) = (gpu.input::<T>(&op.input)?, gpu.input(&op.weight)?);
        let bias = op.bias.as_ref().map(|bias| gpu.input(bias)).transpose()?;
        let out = conv.forward(gpu.device, &input, &weight, bias.as_deref())?;
        gpu.tensor(out, conv.output_shape())
    })
}

fn input_grad<T: Real>(op: &ConvInputGrad) -> Tensors<Tensor> {
    on(op, |gpu| {
        let conv = convolution(&op.input_shape, op.weight.shape(), &op.params)?;
        let (grad, weight) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.weight)?);
        gpu.tensor(conv.input_grad(gpu.device, &grad, &weight, None)?, &op.input_shape)
    })
}

fn weight_grad<T: Real>(op: &ConvWeightGrad, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let conv = convolution(op.input.shape(), &op.weight_shape, &op.params)?;
        let (grad, input) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.input)?);
        gpu.tensor(conv.weight_grad(gpu.device, &grad, &input, variant)?, &op.weight_shape)
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
