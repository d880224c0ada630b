use samebits_conv_autotune::ConvPass;
use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvParams, ConvWeightGrad};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Tensor};

use super::{F32, FLOATS, Failure, Tensors, atomic, on, portable};
use crate::Variant;
use crate::conv::{Convolution, Params};
use crate::conv_algorithms::Algorithm;

const CHAIN: &str = "each element is a chain of fma in ascending k within blocks of a fixed length";

/// Below the size at which the tuner races algorithms, the heuristic chooses one.
pub(super) fn register_all() {
    register(portable("heuristic", FLOATS, CHAIN, forward));
    register(portable("heuristic", FLOATS, CHAIN, input_grad));
    register(atomic(
        F32,
        "partial sums are added in the order in which blocks arrive",
        weight_grad_atomic,
    ));
    register(portable("heuristic", FLOATS, CHAIN, weight_grad));
}

fn forward(op: &Conv, (): &()) -> Tensors<Tensor> {
    if op.input.dtype() == DType::F32 {
        return on(op, |_| {
            let conv = convolution(op.input.shape(), op.weight.shape(), &op.params)?;
            Ok(forward_by(op, conv.likely(ConvPass::Forward))?)
        });
    }
    on(op, |gpu| {
        let conv = convolution(op.input.shape(), op.weight.shape(), &op.params)?;
        let (input, weight) = (gpu.input::<f64>(&op.input)?, gpu.input(&op.weight)?);
        let bias = op.bias.as_ref().map(|bias| gpu.input(bias)).transpose()?;
        let out = conv.forward(gpu.device, &input, &weight, bias.as_deref())?;
        gpu.tensor(out, conv.output_shape())
    })
}

fn input_grad(op: &ConvInputGrad, (): &()) -> Tensors<Tensor> {
    if op.grad.dtype() == DType::F32 {
        return on(op, |_| {
            let conv = convolution(&op.input_shape, op.weight.shape(), &op.params)?;
            Ok(input_grad_by(op, conv.likely(ConvPass::DataGradient))?)
        });
    }
    on(op, |gpu| {
        let conv = convolution(&op.input_shape, op.weight.shape(), &op.params)?;
        let (grad, weight) = (gpu.input::<f64>(&op.grad)?, gpu.input(&op.weight)?);
        gpu.tensor(conv.input_grad(gpu.device, &grad, &weight, None)?, &op.input_shape)
    })
}

fn weight_grad(op: &ConvWeightGrad, (): &()) -> Tensors<Tensor> {
    if op.grad.dtype() == DType::F32 {
        return on(op, |_| {
            let conv = convolution(op.input.shape(), &op.weight_shape, &op.params)?;
            Ok(weight_grad_by(op, conv.likely(ConvPass::WeightGradient))?)
        });
    }
    on(op, |gpu| {
        let conv = convolution(op.input.shape(), &op.weight_shape, &op.params)?;
        let (grad, input) = (gpu.input::<f64>(&op.grad)?, gpu.input(&op.input)?);
        let out = conv.weight_grad(gpu.device, &grad, &input, Variant::Deterministic)?;
        gpu.tensor(out, &op.weight_shape)
    })
}

fn weight_grad_atomic(op: &ConvWeightGrad, (): &()) -> Tensors<Tensor> {
    on(op, |gpu| {
        let conv = convolution(op.input.shape(), &op.weight_shape, &op.params)?;
        let (grad, input) = (gpu.input::<f32>(&op.grad)?, gpu.input(&op.input)?);
        let out = conv.weight_grad(gpu.device, &grad, &input, Variant::Atomic)?;
        gpu.tensor(out, &op.weight_shape)
    })
}

/// The f32 convolution by one of the algorithms.
pub(super) fn forward_by(op: &Conv, algorithm: Algorithm) -> Tensors<Tensor> {
    on(op, |gpu| {
        let conv = convolution(op.input.shape(), op.weight.shape(), &op.params)?;
        let (input, weight) = (gpu.input::<f32>(&op.input)?, gpu.input(&op.weight)?);
        let bias = op.bias.as_ref().map(|bias| gpu.input(bias)).transpose()?;
        let out = conv.forward_by(algorithm, gpu.device, &input, &weight, bias.as_deref())?;
        gpu.tensor(out, conv.output_shape())
    })
}

/// Its gradient with respect to the input.
pub(super) fn input_grad_by(op: &ConvInputGrad, algorithm: Algorithm) -> Tensors<Tensor> {
    on(op, |gpu| {
        let conv = convolution(&op.input_shape, op.weight.shape(), &op.params)?;
        let (grad, weight) = (gpu.input::<f32>(&op.grad)?, gpu.input(&op.weight)?);
        let out = conv.input_grad_by(algorithm, gpu.device, &grad, &weight, None)?;
        gpu.tensor(out, &op.input_shape)
    })
}

/// Its gradient with respect to the weights.
pub(super) fn weight_grad_by(op: &ConvWeightGrad, algorithm: Algorithm) -> Tensors<Tensor> {
    on(op, |gpu| {
        let conv = convolution(op.input.shape(), &op.weight_shape, &op.params)?;
        let (grad, input) = (gpu.input::<f32>(&op.grad)?, gpu.input(&op.input)?);
        gpu.tensor(conv.weight_grad_by(algorithm, gpu.device, &grad, &input)?, &op.weight_shape)
    })
}

pub(super) fn convolution(
    input: &[usize],
    weight: &[usize],
    params: &ConvParams,
) -> Result<Convolution, Failure> {
    let ConvParams { stride, padding, dilation, groups } = params.clone();
    Ok(Convolution::new(input, weight, &Params { stride, padding, dilation, groups })?)
}
