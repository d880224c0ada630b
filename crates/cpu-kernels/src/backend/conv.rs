use samebits_tensor_core::geometry::Convolution;
use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvWeightGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Result, Tensor};

use super::{Element, FLOATS, filled, with_float};
use crate::conv;
use crate::conv_algorithms::{Algorithm, ConvPass};

const CHAIN: &str = "each element is a chain of fma in ascending k within blocks of a fixed length";

pub(super) fn register_all() {
    register(Kernel::portable("implicit_gemm", FLOATS, CHAIN, |op: &Conv, plan| {
        let (input, weight) = (op.input.contiguous()?, op.weight.contiguous()?);
        let bias = op.bias.as_ref().map(Tensor::contiguous).transpose()?;
        if by_channel(input.dtype(), plan, ConvPass::Forward) {
            return filled(&plan.output_shape(), |out| {
                let bias = bias.as_ref().map(Tensor::as_slice).transpose()?;
                let (input, weight) = (input.as_slice()?, weight.as_slice()?);
                Ok(Algorithm::Depthwise.forward(plan, input, weight, bias, out)?)
            });
        }
        with_float!(input.dtype(), T => filled(&plan.output_shape(), |out| {
            let bias = bias.as_ref().map(Tensor::as_slice).transpose()?;
            Ok(conv::forward::<T>(plan, input.as_slice()?, weight.as_slice()?, bias, out)?)
        }))
    }));
    register(Kernel::portable("implicit_gemm", FLOATS, CHAIN, |op: &ConvInputGrad, plan| {
        let (grad, weight) = (op.grad.contiguous()?, op.weight.contiguous()?);
        if by_channel(grad.dtype(), plan, ConvPass::InputGrad) {
            return filled(&op.input_shape, |out| {
                let (grad, weight) = (grad.as_slice()?, weight.as_slice()?);
                Ok(Algorithm::Depthwise.input_grad(plan, grad, weight, out)?)
            });
        }
        with_float!(grad.dtype(), T => filled(&op.input_shape, |out| {
            Ok(conv::input_grad::<T>(plan, grad.as_slice()?, weight.as_slice()?, out)?)
        }))
    }));
    register(Kernel::fast(
        "unordered",
        FLOATS,
        "partial sums are merged in the order in which threads finish",
        |op: &ConvWeightGrad, plan| {
            with_float!(op.grad.dtype(), T => {
                weight_grad::<T>(op, plan, conv::weight_grad_unordered)
            })
        },
    ));
    register(Kernel::portable(
        "implicit_gemm",
        FLOATS,
        CHAIN,
        |op: &ConvWeightGrad, plan| with_float!(op.grad.dtype(), T => weight_grad::<T>(op, plan, conv::weight_grad)),
    ));
}

/// Returns true if the pass has a channel of its own for each group and is faster that way, with the
/// same bits.
fn by_channel(dtype: DType, plan: &Convolution, pass: ConvPass) -> bool {
    let (algorithm, other) = (Algorithm::Depthwise, Algorithm::ImplicitGemm);
    dtype == DType::F32
        && algorithm.applies(plan, pass)
        && algorithm.estimate(plan, pass) < other.estimate(plan, pass)
}

/// One of the two ways to sum up a weight gradient.
type WeightGrad<T> = fn(&Convolution, &[T], &[T], &mut [T]) -> crate::Result<()>;

fn weight_grad<T: Element>(
    op: &ConvWeightGrad,
    plan: &Convolution,
    compute: WeightGrad<T>,
) -> Result<Tensor> {
    let (grad, input) = (op.grad.contiguous()?, op.input.contiguous()?);
    if by_channel(grad.dtype(), plan, ConvPass::WeightGrad) {
        return filled(&op.weight_shape, |out| {
            let (input, grad) = (input.as_slice()?, grad.as_slice()?);
            Ok(Algorithm::Depthwise.weight_grad(plan, input, grad, out)?)
        });
    }
    filled(&op.weight_shape, |out| Ok(compute(plan, input.as_slice()?, grad.as_slice()?, out)?))
}
