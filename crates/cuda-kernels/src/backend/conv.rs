use samebits_tensor_core::geometry::{ConvPass, Convolution};
use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvWeightGrad};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Tensor};

use super::{F32, FLOATS, Tensors, atomic, on, portable};
use crate::Variant;
use crate::conv;
use crate::conv_algorithms::Algorithm;

const CHAIN: &str = "each element is a chain of fma in ascending k within blocks of a fixed length";

/// Registers the convolutions. Below the size at which the tuner races algorithms, the heuristic
/// chooses one.
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

fn forward(op: &Conv, plan: &Convolution) -> Tensors<Tensor> {
    if op.input.dtype() == DType::F32 {
        return forward_by(op, plan, Algorithm::likely(plan, ConvPass::Forward));
    }
    on(op, |gpu| {
        let (input, weight) = (gpu.input::<f64>(&op.input)?, gpu.input(&op.weight)?);
        let bias = op.bias.as_ref().map(|bias| gpu.input(bias)).transpose()?;
        let out = conv::forward(gpu.device, plan, &input, &weight, bias.as_deref())?;
        gpu.tensor(out, &plan.output_shape())
    })
}

fn input_grad(op: &ConvInputGrad, plan: &Convolution) -> Tensors<Tensor> {
    if op.grad.dtype() == DType::F32 {
        return input_grad_by(op, plan, Algorithm::likely(plan, ConvPass::InputGrad));
    }
    on(op, |gpu| {
        let (grad, weight) = (gpu.input::<f64>(&op.grad)?, gpu.input(&op.weight)?);
        gpu.tensor(conv::input_grad(gpu.device, plan, &grad, &weight, None)?, &op.input_shape)
    })
}

fn weight_grad(op: &ConvWeightGrad, plan: &Convolution) -> Tensors<Tensor> {
    if op.grad.dtype() == DType::F32 {
        return weight_grad_by(op, plan, Algorithm::likely(plan, ConvPass::WeightGrad));
    }
    on(op, |gpu| {
        let (grad, input) = (gpu.input::<f64>(&op.grad)?, gpu.input(&op.input)?);
        let out = conv::weight_grad(gpu.device, plan, &grad, &input, Variant::Deterministic)?;
        gpu.tensor(out, &op.weight_shape)
    })
}

fn weight_grad_atomic(op: &ConvWeightGrad, plan: &Convolution) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, input) = (gpu.input::<f32>(&op.grad)?, gpu.input(&op.input)?);
        let out = conv::weight_grad(gpu.device, plan, &grad, &input, Variant::Atomic)?;
        gpu.tensor(out, &op.weight_shape)
    })
}

/// Computes the f32 convolution by one of the algorithms.
pub(super) fn forward_by(op: &Conv, plan: &Convolution, algorithm: Algorithm) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (input, weight) = (gpu.input::<f32>(&op.input)?, gpu.input(&op.weight)?);
        let bias = op.bias.as_ref().map(|bias| gpu.input(bias)).transpose()?;
        let out = algorithm.forward(gpu.device, plan, &input, &weight, bias.as_deref())?;
        gpu.tensor(out, &plan.output_shape())
    })
}

/// Computes its gradient with respect to the input.
pub(super) fn input_grad_by(
    op: &ConvInputGrad,
    plan: &Convolution,
    algorithm: Algorithm,
) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, weight) = (gpu.input::<f32>(&op.grad)?, gpu.input(&op.weight)?);
        let out = algorithm.input_grad(gpu.device, plan, &grad, &weight, None)?;
        gpu.tensor(out, &op.input_shape)
    })
}

/// Computes its gradient with respect to the weight.
pub(super) fn weight_grad_by(
    op: &ConvWeightGrad,
    plan: &Convolution,
    algorithm: Algorithm,
) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, input) = (gpu.input::<f32>(&op.grad)?, gpu.input(&op.input)?);
        gpu.tensor(algorithm.weight_grad(gpu.device, plan, &grad, &input)?, &op.weight_shape)
    })
}
