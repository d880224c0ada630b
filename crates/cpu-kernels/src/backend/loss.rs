use samebits_tensor_core::geometry::Split;
use samebits_tensor_core::ops::{
    CrossEntropyGrad, LogSoftmax, LogSoftmaxGrad, NllLoss, NllLossGrad, Reduction, Softmax,
    SoftmaxGrad,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Result, Tensor};

use super::{Element, FLOATS, filled, with_float};
use crate::loss::{self, Targets};

const ROWS: &str =
    "rows are independent; each sum runs in f64 over a tree that depends on the length alone";

pub(super) fn register_all() {
    register(Kernel::portable("rows", FLOATS, ROWS, |op: &LogSoftmax, split| {
        with_float!(op.x.dtype(), T => {
            let x = op.x.contiguous()?;
            filled(x.shape(), |out: &mut [T]| {
                Ok(loss::log_softmax_along(x.as_slice()?, *split, out)?)
            })
        })
    }));
    register(Kernel::portable("rows", FLOATS, ROWS, |op: &LogSoftmaxGrad, split| {
        with_float!(op.grad.dtype(), T => {
            let (grad, y) = (op.grad.contiguous()?, op.y.contiguous()?);
            filled(y.shape(), |out: &mut [T]| {
                let (grad, y) = (grad.as_slice()?, y.as_slice()?);
                Ok(loss::log_softmax_along_backward(grad, y, *split, out)?)
            })
        })
    }));
    register(Kernel::portable("rows", FLOATS, ROWS, |op: &Softmax, split| {
        with_float!(op.x.dtype(), T => {
            let x = op.x.contiguous()?;
            filled(x.shape(), |out: &mut [T]| {
                Ok(loss::softmax_along(x.as_slice()?, *split, out)?)
            })
        })
    }));
    register(Kernel::portable("rows", FLOATS, ROWS, |op: &SoftmaxGrad, split| {
        with_float!(op.grad.dtype(), T => {
            let (grad, y) = (op.grad.contiguous()?, op.y.contiguous()?);
            filled(y.shape(), |out: &mut [T]| {
                let (grad, y) = (grad.as_slice()?, y.as_slice()?);
                Ok(loss::softmax_along_backward(grad, y, *split, out)?)
            })
        })
    }));
    register(Kernel::portable(
        "tree",
        FLOATS,
        "each loss is one f64 product; \
         their sum runs in f64 over a tree that depends on their number alone",
        |op: &NllLoss, &split| with_float!(op.log_probs.dtype(), T => nll_loss::<T>(op, split)),
    ));
    register(Kernel::portable(
        "each",
        FLOATS,
        "each element is written independently",
        |op: &NllLossGrad, &split| with_float!(op.grad.dtype(), T => nll_loss_grad::<T>(op, split)),
    ));
    register(Kernel::portable(
        "rows",
        FLOATS,
        ROWS,
        |op: &CrossEntropyGrad, &split| with_float!(op.grad.dtype(), T => cross_entropy_grad::<T>(op, split)),
    ));
}

fn nll_loss<T: Element>(op: &NllLoss, split: Split) -> Result<Tensor> {
    let (x, target) = (op.log_probs.contiguous()?, op.target.contiguous()?);
    let weight = op.weight.as_ref().map(Tensor::contiguous).transpose()?;
    let targets = targets(split, &target, weight.as_ref(), op.ignore_index)?;
    let x = x.as_slice::<T>()?;
    if op.reduction == Reduction::None {
        return filled(target.shape(), |out| Ok(loss::nll_loss(x, targets, out)?));
    }
    let (sum, weight) = loss::nll_loss_sums(x, targets)?;
    let value = if op.reduction == Reduction::Mean { sum / weight } else { sum };
    Ok(Tensor::scalar(T::from_f64(value).canonical()))
}

fn nll_loss_grad<T: Element>(op: &NllLossGrad, split: Split) -> Result<Tensor> {
    let (grad, target) = (op.grad.contiguous()?, op.target.contiguous()?);
    let weight = op.weight.as_ref().map(Tensor::contiguous).transpose()?;
    let targets = targets(split, &target, weight.as_ref(), op.ignore_index)?;
    let (grad, divisor) = upstream(grad.as_slice::<T>()?, op.reduction, targets)?;
    filled(&op.input_shape, |out| Ok(loss::nll_loss_backward(grad, divisor, targets, out)?))
}

fn cross_entropy_grad<T: Element>(op: &CrossEntropyGrad, split: Split) -> Result<Tensor> {
    let (grad, target) = (op.grad.contiguous()?, op.target.contiguous()?);
    let weight = op.weight.as_ref().map(Tensor::contiguous).transpose()?;
    let y = op.log_probs.contiguous()?;
    let targets = targets(split, &target, weight.as_ref(), op.ignore_index)?;
    let (grad, divisor) = upstream(grad.as_slice::<T>()?, op.reduction, targets)?;
    filled(y.shape(), |out| {
        Ok(loss::cross_entropy_backward(grad, divisor, targets, y.as_slice()?, out)?)
    })
}

/// Returns the gradient of the loss at each position, and its divisor.
fn upstream<T: Element>(
    grad: &[T],
    reduction: Reduction,
    targets: Targets<'_, T>,
) -> Result<(impl Fn(usize) -> T + Sync + Send, f64)> {
    let divisor = match reduction {
        Reduction::Mean => loss::weights(targets)?,
        _ => 1.0,
    };
    let each = reduction == Reduction::None;
    Ok((move |i: usize| grad[if each { i } else { 0 }], divisor))
}

fn targets<'a, T: Element>(
    split: Split,
    target: &'a Tensor,
    weight: Option<&'a Tensor>,
    ignore_index: i64,
) -> Result<Targets<'a, T>> {
    Ok(Targets {
        classes: target.as_slice()?,
        count: split.size,
        inner: split.inner,
        weight: weight.map(Tensor::as_slice).transpose()?,
        ignore_index,
    })
}
