//! Kernels that run what the tuner of the operation's device chooses.

use samebits_tensor_core::device::DeviceKind;
use samebits_tensor_core::geometry::Convolution;
use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvWeightGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Determinism, Error, Op, Result, Tensor};

use crate::call::ConvOp;
use crate::{ConvCall, Problem as _, process};

/// Registers one variant per level and pass, since the level decides which algorithms may race. The
/// algorithm that every call can fall back on is registered after them.
pub(crate) fn register_all(device: DeviceKind) {
    register_pass::<Conv>(device);
    register_pass::<ConvInputGrad>(device);
    register_pass::<ConvWeightGrad>(device);
}

fn register_pass<O: Convolve>(device: DeviceKind) {
    use Determinism::{NotGuaranteed, Portable, RunToRun};
    register(tuned::<O>(device, NotGuaranteed, |op, plan| run(op, plan, NotGuaranteed)));
    register(tuned::<O>(device, RunToRun, |op, plan| run(op, plan, RunToRun)));
    register(tuned::<O>(device, Portable, |op, plan| run(op, plan, Portable)));
}

fn tuned<O: Convolve>(
    device: DeviceKind,
    level: Determinism,
    run: fn(&O, &Convolution) -> Result<Tensor>,
) -> Kernel<O> {
    let (variant, why) = match level {
        Determinism::NotGuaranteed => (
            "tuned-fastest",
            "the fastest algorithm of a race, if one was run, else the heuristic's",
        ),
        Determinism::RunToRun => (
            "tuned-recorded",
            "a recorded choice, or the heuristic's, among algorithms that repeat",
        ),
        _ => ("tuned-canonical", "whichever wins, all candidates have the bits of the definition"),
    };
    Kernel {
        variant,
        device,
        dtypes: &[DType::F32],
        level,
        why,
        applies: |_, plan| plan.sizes().products() >= WORTH_A_RACE,
        run,
    }
}

/// Below this many products a race would take longer than it could ever save.
const WORTH_A_RACE: usize = 1 << 22;

/// An operation that is a pass of a convolution.
trait Convolve: Op<Plan = Convolution, Output = Tensor> {
    /// Returns the operation on contiguous tensors.
    fn contiguous(&self) -> Result<ConvOp>;
}

impl Convolve for Conv {
    fn contiguous(&self) -> Result<ConvOp> {
        let bias = self.bias.as_ref().map(Tensor::contiguous).transpose()?;
        let (input, weight) = (self.input.contiguous()?, self.weight.contiguous()?);
        Ok(Conv { input, weight, bias, ..self.clone() }.into())
    }
}

impl Convolve for ConvInputGrad {
    fn contiguous(&self) -> Result<ConvOp> {
        let (grad, weight) = (self.grad.contiguous()?, self.weight.contiguous()?);
        Ok(ConvInputGrad { grad, weight, ..self.clone() }.into())
    }
}

impl Convolve for ConvWeightGrad {
    fn contiguous(&self) -> Result<ConvOp> {
        let (grad, input) = (self.grad.contiguous()?, self.input.contiguous()?);
        Ok(ConvWeightGrad { grad, input, ..self.clone() }.into())
    }
}

fn run<O: Convolve>(op: &O, plan: &Convolution, level: Determinism) -> Result<Tensor> {
    let call = ConvCall::planned(op.contiguous()?, plan);
    let device = call.device();
    let run = || process::tuner(device)?.run(&call, level);
    run().map_err(|error| match ConvCall::missing_memory(&error) {
        Some(bytes) => Error::OutOfMemory { op: O::NAME, device, bytes },
        None => Error::invalid(O::NAME, error.to_string()),
    })
}
