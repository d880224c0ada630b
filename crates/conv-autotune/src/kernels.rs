//! Kernels that run what the tuner of the operation's device chooses.

use samebits_numerics::memory::product;
use samebits_tensor_core::device::DeviceKind;
use samebits_tensor_core::ops::{Conv, ConvInputGrad, ConvWeightGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Determinism, Error, Op, Result, Tensor};

use crate::{ConvCall, Problem as _, process};

/// One variant per level and pass: which algorithms may race depends on the level. To be
/// registered before the algorithm that every call can fall back on.
pub(crate) fn register_all(device: DeviceKind) {
    use Determinism::{NotGuaranteed, Portable, RunToRun};
    register(tuned(device, NotGuaranteed, |op, ()| forward(op, NotGuaranteed)));
    register(tuned(device, RunToRun, |op, ()| forward(op, RunToRun)));
    register(tuned(device, Portable, |op, ()| forward(op, Portable)));
    register(tuned(device, NotGuaranteed, |op, ()| input(op, NotGuaranteed)));
    register(tuned(device, RunToRun, |op, ()| input(op, RunToRun)));
    register(tuned(device, Portable, |op, ()| input(op, Portable)));
    register(tuned(device, NotGuaranteed, |op, ()| weight(op, NotGuaranteed)));
    register(tuned(device, RunToRun, |op, ()| weight(op, RunToRun)));
    register(tuned(device, Portable, |op, ()| weight(op, Portable)));
}

fn tuned<O: Convolve>(
    device: DeviceKind,
    level: Determinism,
    run: fn(&O, &O::Plan) -> Result<Tensor>,
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
        applies: |op, _| op.products().is_some_and(|products| products >= WORTH_A_RACE),
        run,
    }
}

/// Below this many products a race would take longer than it could ever save.
const WORTH_A_RACE: usize = 1 << 22;

trait Convolve: Op<Output = Tensor> {
    /// The number of products, or none if the shapes do not fit.
    fn products(&self) -> Option<usize>;
}

impl Convolve for Conv {
    fn products(&self) -> Option<usize> {
        let output = self.params.output_shape(Self::NAME, self.input.shape(), self.weight.shape());
        count(&output.ok()?, self.weight.shape())
    }
}

impl Convolve for ConvInputGrad {
    fn products(&self) -> Option<usize> {
        count(self.grad.shape(), self.weight.shape())
    }
}

impl Convolve for ConvWeightGrad {
    fn products(&self) -> Option<usize> {
        count(self.grad.shape(), &self.weight_shape)
    }
}

fn count(output: &[usize], weight: &[usize]) -> Option<usize> {
    product(output)?.checked_mul(product(weight.get(1..)?)?)
}

fn forward(op: &Conv, level: Determinism) -> Result<Tensor> {
    let bias = op.bias.as_ref().map(Tensor::contiguous).transpose()?;
    let (input, weight) = (op.input.contiguous()?, op.weight.contiguous()?);
    run(Conv::NAME, ConvCall::Forward(Conv { input, weight, bias, ..op.clone() }), level)
}

fn input(op: &ConvInputGrad, level: Determinism) -> Result<Tensor> {
    let (grad, weight) = (op.grad.contiguous()?, op.weight.contiguous()?);
    let call = ConvCall::DataGradient(ConvInputGrad { grad, weight, ..op.clone() });
    run(ConvInputGrad::NAME, call, level)
}

fn weight(op: &ConvWeightGrad, level: Determinism) -> Result<Tensor> {
    let (grad, input) = (op.grad.contiguous()?, op.input.contiguous()?);
    let call = ConvCall::WeightGradient(ConvWeightGrad { grad, input, ..op.clone() });
    run(ConvWeightGrad::NAME, call, level)
}

fn run(op: &'static str, call: ConvCall, level: Determinism) -> Result<Tensor> {
    let device = call.device();
    let run = || process::tuner(device)?.run(&call, level);
    run().map_err(|error| match ConvCall::missing_memory(&error) {
        Some(bytes) => Error::OutOfMemory { op, device, bytes },
        None => Error::invalid(op, error.to_string()),
    })
}
