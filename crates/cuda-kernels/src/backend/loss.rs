use samebits_tensor_core::Tensor;
use samebits_tensor_core::geometry::Split;
use samebits_tensor_core::ops::{
    CrossEntropyGrad, LogSoftmax, LogSoftmaxGrad, NllLoss, NllLossGrad, Reduction, Softmax,
    SoftmaxGrad,
};
use samebits_tensor_core::registry::register;

use super::memory::Input;
use super::{FLOATS, Failure, Gpu, Real, Tensors, on, portable, with_float};
use crate::Variant;
use crate::loss::{self, Targets};

const ROWS: &str =
    "rows are independent; each sum runs in f64 over a tree that depends on the length alone";

pub(super) fn register_all() {
    register(portable(
        "rows",
        FLOATS,
        ROWS,
        |op: &LogSoftmax, &split| with_float!(op.x.dtype(), T => log_softmax::<T>(op, split)),
    ));
    register(portable(
        "rows",
        FLOATS,
        ROWS,
        |op: &LogSoftmaxGrad, &split| with_float!(op.grad.dtype(), T => log_softmax_grad::<T>(op, split)),
    ));
    register(portable(
        "rows",
        FLOATS,
        ROWS,
        |op: &Softmax, &split| with_float!(op.x.dtype(), T => softmax::<T>(op, split)),
    ));
    register(portable(
        "rows",
        FLOATS,
        ROWS,
        |op: &SoftmaxGrad, &split| with_float!(op.grad.dtype(), T => softmax_grad::<T>(op, split)),
    ));
    register(portable(
        "tree",
        FLOATS,
        "each loss is one f64 product; \
         their sum runs in f64 over a tree that depends on their number alone",
        |op: &NllLoss, &split| with_float!(op.log_probs.dtype(), T => nll_loss::<T>(op, split, Variant::Deterministic)),
    ));
    register(portable(
        "each",
        FLOATS,
        "each element is written independently",
        |op: &NllLossGrad, &split| with_float!(op.grad.dtype(), T => nll_loss_grad::<T>(op, split)),
    ));
    register(portable(
        "rows",
        FLOATS,
        ROWS,
        |op: &CrossEntropyGrad, &split| with_float!(op.grad.dtype(), T => cross_entropy_grad::<T>(op, split)),
    ));
}

fn log_softmax<T: Real>(op: &LogSoftmax, split: Split) -> Tensors<Tensor> {
    on(op, |gpu| {
        let x = gpu.input::<T>(&op.x)?;
        gpu.tensor(loss::log_softmax(gpu.device, &x, split.into())?, op.x.shape())
    })
}

fn softmax<T: Real>(op: &Softmax, split: Split) -> Tensors<Tensor> {
    on(op, |gpu| {
        let x = gpu.input::<T>(&op.x)?;
        gpu.tensor(loss::softmax(gpu.device, &x, split.into())?, op.x.shape())
    })
}

fn log_softmax_grad<T: Real>(op: &LogSoftmaxGrad, split: Split) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, y) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.y)?);
        gpu.tensor(loss::log_softmax_grad(gpu.device, &grad, &y, split.into())?, op.y.shape())
    })
}

fn softmax_grad<T: Real>(op: &SoftmaxGrad, split: Split) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, y) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.y)?);
        let out = loss::softmax_grad(gpu.device, &grad, &y, split.into())?;
        gpu.tensor(out, op.y.shape())
    })
}

/// The targets of a loss and the weights of the classes, on the device.
struct Given<T> {
    classes: Input<i64>,
    weight: Option<Input<T>>,
}

impl<T: Real> Given<T> {
    fn new(gpu: &Gpu<'_>, target: &Tensor, weight: Option<&Tensor>) -> Result<Given<T>, Failure> {
        let weight = weight.map(|weight| gpu.input(weight)).transpose()?;
        Ok(Given { classes: gpu.input(target)?, weight })
    }

    fn targets(&self, split: Split, ignore_index: i64) -> Targets<'_, T> {
        let (classes, weight) = (&*self.classes, self.weight.as_deref());
        Targets { classes, shape: split.into(), weight, ignore_index }
    }
}

fn nll_loss<T: Real>(op: &NllLoss, split: Split, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let log_probs = gpu.input::<T>(&op.log_probs)?;
        let given = Given::new(&gpu, &op.target, op.weight.as_ref())?;
        let targets = given.targets(split, op.ignore_index);
        let reduction = op.reduction;
        let out = loss::nll_loss(gpu.device, &log_probs, targets, reduction, variant)?;
        let each = reduction == Reduction::None;
        gpu.tensor(out, if each { op.target.shape() } else { &[] })
    })
}

fn nll_loss_grad<T: Real>(op: &NllLossGrad, split: Split) -> Tensors<Tensor> {
    on(op, |gpu| {
        let grad = gpu.input::<T>(&op.grad)?;
        let given = Given::new(&gpu, &op.target, op.weight.as_ref())?;
        let targets = given.targets(split, op.ignore_index);
        let out = loss::nll_loss_grad(gpu.device, &grad, targets, op.reduction)?;
        gpu.tensor(out, &op.input_shape)
    })
}

fn cross_entropy_grad<T: Real>(op: &CrossEntropyGrad, split: Split) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, log_probs) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.log_probs)?);
        let given = Given::new(&gpu, &op.target, op.weight.as_ref())?;
        let targets = given.targets(split, op.ignore_index);
        let out = loss::cross_entropy_grad(gpu.device, &grad, &log_probs, targets, op.reduction)?;
        gpu.tensor(out, op.log_probs.shape())
    })
}
