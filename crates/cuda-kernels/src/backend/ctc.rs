use samebits_tensor_core::Tensor;
use samebits_tensor_core::ops::{CtcBatch, CtcLoss, CtcLossGrad, Reduction};
use samebits_tensor_core::registry::register;

use super::{ARRIVAL, F32, FLOATS, Real, Tensors, atomic, on, portable, with_float};
use crate::Variant;
use crate::ctc::{self, Batch};

const SEQUENCES: &str = "each sequence is its own fixed sequence of f64 operations";

pub(super) fn register_all() {
    register(portable(
        "sequences",
        FLOATS,
        SEQUENCES,
        |op: &CtcLoss, plan| with_float!(op.log_probs.dtype(), T => loss::<T>(op, plan)),
    ));
    register(atomic(F32, ARRIVAL, |op, plan| gradient::<f32>(op, plan, Variant::Atomic)));
    register(portable(
        "sequences",
        FLOATS,
        SEQUENCES,
        |op: &CtcLossGrad, plan| with_float!(op.log_probs.dtype(), T => gradient::<T>(op, plan, Variant::Deterministic)),
    ));
}

fn loss<T: Real>(op: &CtcLoss, plan: &CtcBatch) -> Tensors<Tensor> {
    on(op, |gpu| {
        let log_probs = gpu.input::<T>(&op.log_probs)?;
        let labels = gpu.input(&op.targets.labels)?;
        let batch = Batch {
            log_probs: &log_probs,
            shape: plan.shape,
            labels: &labels,
            count: op.targets.labels.numel(),
            starts: &plan.starts,
            target_lengths: &op.targets.target_lengths,
            input_lengths: &op.targets.input_lengths,
            blank: op.targets.blank,
        };
        let out = ctc::ctc_loss(gpu.device, batch, op.reduction, op.zero_infinity)?;
        gpu.tensor(out, if op.reduction == Reduction::None { &plan.shape[1..2] } else { &[] })
    })
}

fn gradient<T: Real>(op: &CtcLossGrad, plan: &CtcBatch, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, log_probs) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.log_probs)?);
        let labels = gpu.input(&op.targets.labels)?;
        let batch = Batch {
            log_probs: &log_probs,
            shape: plan.shape,
            labels: &labels,
            count: op.targets.labels.numel(),
            starts: &plan.starts,
            target_lengths: &op.targets.target_lengths,
            input_lengths: &op.targets.input_lengths,
            blank: op.targets.blank,
        };
        let (reduction, zero_infinity) = (op.reduction, op.zero_infinity);
        let out = ctc::ctc_loss_grad(gpu.device, &grad, batch, reduction, zero_infinity, variant)?;
        gpu.tensor(out, &plan.shape)
    })
}
