use samebits_tensor_core::layout::outer_dim_inner;
use samebits_tensor_core::ops::{LogSoftmax, LogSoftmaxGrad, NllLoss, NllLossGrad, Reduction};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Op, Tensor};

use super::{ARRIVAL, F32, Tensors, atomic, on, portable};
use crate::Variant;
use crate::loss;

const ROWS: &str = "each row is its own; its sum runs in f64 over a tree of its length alone";

pub(super) fn register_all() {
    register(portable("rows", F32, ROWS, |op: &LogSoftmax| {
        on(op, |gpu| {
            let shape = outer_dim_inner(LogSoftmax::NAME, op.x.shape(), op.dim)?.into();
            let out = loss::log_softmax(gpu.device, &*gpu.input(&op.x)?, shape)?;
            gpu.tensor(out, op.x.shape())
        })
    }));
    register(portable("rows", F32, ROWS, |op: &LogSoftmaxGrad| {
        on(op, |gpu| {
            let shape = outer_dim_inner(LogSoftmaxGrad::NAME, op.y.shape(), op.dim)?.into();
            let (grad, y) = (gpu.input(&op.grad)?, gpu.input(&op.y)?);
            gpu.tensor(loss::log_softmax_grad(gpu.device, &grad, &y, shape)?, op.y.shape())
        })
    }));
    register(Kernel {
        applies: |op: &NllLoss| is_plain(op.log_probs.rank(), op.weight.is_some(), op.reduction),
        ..atomic(F32, ARRIVAL, |op| nll_loss(op, Variant::Atomic))
    });
    register(Kernel {
        applies: |op: &NllLoss| is_plain(op.log_probs.rank(), op.weight.is_some(), op.reduction),
        ..portable("tree", F32, ROWS, |op| nll_loss(op, Variant::Deterministic))
    });
    register(Kernel {
        applies: |op: &NllLossGrad| {
            is_plain(op.input_shape.len(), op.weight.is_some(), op.reduction)
        },
        ..portable("each", F32, "each element is written by itself", |op: &NllLossGrad| {
            on(op, |gpu| {
                let shape = [op.input_shape[0], op.input_shape[1]];
                let (grad, target) = (gpu.input(&op.grad)?, gpu.input(&op.target)?);
                gpu.tensor(loss::nll_loss_grad(gpu.device, &grad, &target, shape)?, &shape)
            })
        })
    });
}

/// Whether a loss is the mean over samples that all count the same.
fn is_plain(rank: usize, weighted: bool, reduction: Reduction) -> bool {
    rank == 2 && !weighted && reduction == Reduction::Mean
}

fn nll_loss(op: &NllLoss, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (log_probs, target) = (gpu.input(&op.log_probs)?, gpu.input(&op.target)?);
        let shape = [op.log_probs.shape()[0], op.log_probs.shape()[1]];
        gpu.tensor(loss::nll_loss(gpu.device, &log_probs, &target, shape, variant)?, &[])
    })
}
