use samebits_numerics::reduce;
use samebits_tensor_core::ops::{CtcBatch, CtcLoss, CtcLossGrad, CtcTargets, Reduction};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Op, Result, Tensor};

use super::{Element, FLOATS, filled, with_float};
use crate::ctc::{self, Batch};
use crate::memory;

const SEQUENCES: &str = "each sequence is its own fixed sequence of f64 operations";

pub(super) fn register_all() {
    // As fast as an unordered variant would be: no two sequences share an output.
    register(Kernel::portable(
        "sequences",
        FLOATS,
        SEQUENCES,
        |op: &CtcLoss, plan| with_float!(op.log_probs.dtype(), T => loss::<T>(op, plan)),
    ));
    register(Kernel::portable(
        "sequences",
        FLOATS,
        SEQUENCES,
        |op: &CtcLossGrad, plan| with_float!(op.log_probs.dtype(), T => gradient::<T>(op, plan)),
    ));
}

fn loss<T: Element>(op: &CtcLoss, plan: &CtcBatch) -> Result<Tensor> {
    let (log_probs, labels) = (op.log_probs.contiguous()?, op.targets.labels.contiguous()?);
    let mut losses = ctc::ctc_loss(batch::<T>(&log_probs, &labels, plan, &op.targets)?)?;
    for loss in &mut losses {
        if op.zero_infinity && *loss == f64::INFINITY {
            *loss = 0.0;
        }
    }
    let round = |x: f64| T::from_f64(x).canonical();
    let lengths = &op.targets.target_lengths;
    let n = losses.len();
    match op.reduction {
        Reduction::None => {
            let losses = memory::collected(CtcLoss::NAME, losses.into_iter().map(round))?;
            Tensor::from_slice(&losses, &[n])
        }
        Reduction::Sum => Ok(Tensor::scalar(round(reduce::sum(&losses)))),
        Reduction::Mean => {
            let sum = reduce::sum_by(n, |i| losses[i] / lengths[i].max(1) as f64);
            Ok(Tensor::scalar(round(sum / n as f64)))
        }
    }
}

fn gradient<T: Element>(op: &CtcLossGrad, plan: &CtcBatch) -> Result<Tensor> {
    let (log_probs, labels) = (op.log_probs.contiguous()?, op.targets.labels.contiguous()?);
    let grad = op.grad.contiguous()?;
    let grad = grad.as_slice::<T>()?;
    let lengths = &op.targets.target_lengths;
    let n = lengths.len();
    let scale = |i: usize| match op.reduction {
        Reduction::None => grad[i].into(),
        Reduction::Sum => grad[0].into(),
        Reduction::Mean => {
            let grad: f64 = grad[0].into();
            grad / (n as f64 * lengths[i].max(1) as f64)
        }
    };
    let scale = memory::collected(CtcLossGrad::NAME, (0..n).map(scale))?;
    let batch = batch::<T>(&log_probs, &labels, plan, &op.targets)?;
    filled(log_probs.shape(), |out| {
        Ok(ctc::ctc_loss_backward(batch, &scale, op.zero_infinity, out)?)
    })
}

fn batch<'a, T: Element>(
    log_probs: &'a Tensor,
    labels: &'a Tensor,
    plan: &'a CtcBatch,
    targets: &'a CtcTargets,
) -> Result<Batch<'a, T>> {
    Ok(Batch {
        log_probs: log_probs.as_slice()?,
        n: plan.shape[1],
        classes: plan.shape[2],
        labels: labels.as_slice()?,
        starts: &plan.starts,
        target_lengths: &targets.target_lengths,
        input_lengths: &targets.input_lengths,
        blank: targets.blank,
    })
}
