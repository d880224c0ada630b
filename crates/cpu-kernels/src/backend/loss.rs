use samebits_tensor_core::layout::outer_dim_inner;
use samebits_tensor_core::ops::{LogSoftmax, LogSoftmaxGrad, NllLoss, NllLossGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Op, Result, Tensor};

use super::{Element, FLOATS, filled, with_float};
use crate::loss;

const ROWS: &str = "each row is its own; its sum runs in f64 over a tree of its length alone";

pub(super) fn register_all() {
    register(Kernel::portable("rows", FLOATS, ROWS, |op: &LogSoftmax| {
        with_float!(op.x.dtype(), T => {
            along_last::<T>(&[&op.x], op.dim, |inputs, width, out| {
                loss::log_softmax(inputs[0], width, out);
            })
        })
    }));
    register(Kernel::portable("rows", FLOATS, ROWS, |op: &LogSoftmaxGrad| {
        with_float!(op.grad.dtype(), T => {
            along_last::<T>(&[&op.grad, &op.y], op.dim, |inputs, width, out| {
                loss::log_softmax_backward(inputs[0], inputs[1], width, out);
            })
        })
    }));
    register(Kernel::portable("tree", FLOATS, ROWS, |op: &NllLoss| {
        let (x, target) = (op.log_probs.contiguous()?, op.target.contiguous()?);
        let classes = x.size(NllLoss::NAME, 1)?;
        with_float!(x.dtype(), T => {
            let mean = loss::nll_loss(x.as_slice::<T>()?, classes, target.as_slice()?)?;
            Ok(Tensor::scalar(samebits_numerics::nan::canonical(mean as T)))
        })
    }));
    register(Kernel::portable(
        "each",
        FLOATS,
        "each element is written by itself",
        |op: &NllLossGrad| {
            let target = op.target.contiguous()?;
            with_float!(op.grad.dtype(), T => {
                let scale = -op.grad.item::<T>()? / target.numel() as T;
                let shape = [target.numel(), op.classes];
                filled(&shape, |out| {
                    let scale = samebits_numerics::nan::canonical(scale);
                    Ok(loss::nll_loss_backward(scale, op.classes, target.as_slice()?, out)?)
                })
            })
        },
    ));
}

/// Runs a row kernel along any dimension, by making that dimension the last.
fn along_last<T: Element>(
    inputs: &[&Tensor],
    dim: usize,
    kernel: impl FnOnce(&[&[T]], usize, &mut [T]),
) -> Result<Tensor> {
    let last = inputs[0].rank() - 1;
    let (_, width, _) = outer_dim_inner(LogSoftmax::NAME, inputs[0].shape(), dim)?;
    let dense = inputs
        .iter()
        .map(|x| x.transpose(dim, last)?.contiguous())
        .collect::<Result<Vec<Tensor>>>()?;
    let slices = dense.iter().map(Tensor::as_slice).collect::<Result<Vec<&[T]>>>()?;
    let out = filled(dense[0].shape(), |out| {
        kernel(&slices, width, out);
        Ok(())
    })?;
    out.transpose(dim, last)?.contiguous()
}
