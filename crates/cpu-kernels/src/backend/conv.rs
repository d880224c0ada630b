use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvParams, ConvWeightGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Error, Op, Result, Tensor};

use super::{Element, FLOATS, filled, with_float};
use crate::conv::{Convolution, Params};

const CHAIN: &str = "each element is a chain of fma in ascending k within blocks of a fixed length";

pub(super) fn register_all() {
    register(Kernel::portable("implicit_gemm", FLOATS, CHAIN, |op: &Conv, ()| {
        let (input, weight) = (op.input.contiguous()?, op.weight.contiguous()?);
        let bias = op.bias.as_ref().map(Tensor::contiguous).transpose()?;
        let conv = convolution(Conv::NAME, input.shape(), weight.shape(), &op.params)?;
        with_float!(input.dtype(), T => filled(&conv.output_shape(), |out| {
            let bias = bias.as_ref().map(Tensor::as_slice).transpose()?;
            conv.forward::<T>(input.as_slice()?, weight.as_slice()?, bias, out)
                .map_err(|error| refused(Conv::NAME, &error))
        }))
    }));
    register(Kernel::portable("implicit_gemm", FLOATS, CHAIN, |op: &ConvInputGrad, ()| {
        let (grad, weight) = (op.grad.contiguous()?, op.weight.contiguous()?);
        let conv = convolution(ConvInputGrad::NAME, &op.input_shape, weight.shape(), &op.params)?;
        with_float!(grad.dtype(), T => filled(&op.input_shape, |out| {
            conv.input_gradient::<T>(grad.as_slice()?, weight.as_slice()?, out)
                .map_err(|error| refused(ConvInputGrad::NAME, &error))
        }))
    }));
    register(Kernel::fast(
        "unordered",
        FLOATS,
        "partial sums are merged in the order in which threads finish",
        |op: &ConvWeightGrad, ()| {
            with_float!(op.grad.dtype(), T => {
                weight_gradient::<T>(op, Convolution::weight_gradient_unordered)
            })
        },
    ));
    register(Kernel::portable(
        "implicit_gemm",
        FLOATS,
        CHAIN,
        |op: &ConvWeightGrad, ()| with_float!(op.grad.dtype(), T => weight_gradient::<T>(op, Convolution::weight_gradient)),
    ));
}

/// One of the two ways to sum up a weight gradient.
type WeightGradient<T> =
    fn(&Convolution, &[T], &[T], &mut [T]) -> std::result::Result<(), crate::conv::Error>;

fn weight_gradient<T: Element>(op: &ConvWeightGrad, compute: WeightGradient<T>) -> Result<Tensor> {
    let (grad, input) = (op.grad.contiguous()?, op.input.contiguous()?);
    let conv = convolution(ConvWeightGrad::NAME, input.shape(), &op.weight_shape, &op.params)?;
    filled(&op.weight_shape, |out| {
        compute(&conv, input.as_slice()?, grad.as_slice()?, out)
            .map_err(|error| refused(ConvWeightGrad::NAME, &error))
    })
}

fn convolution(
    op: &'static str,
    input: &[usize],
    weight: &[usize],
    params: &ConvParams,
) -> Result<Convolution> {
    let params = Params {
        stride: params.stride.clone(),
        padding: params.padding.clone(),
        dilation: params.dilation.clone(),
        groups: params.groups,
    };
    Convolution::new(input, weight, &params).map_err(|error| refused(op, &error))
}

fn refused(op: &'static str, error: &crate::conv::Error) -> Error {
    match *error {
        crate::conv::Error::OutOfMemory { bytes, .. } => {
            crate::Error::OutOfMemory { op, bytes }.into()
        }
        _ => Error::invalid(op, error.to_string()),
    }
}
