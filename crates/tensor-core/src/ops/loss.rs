//! Softmax and the negative log-likelihood.

use super::{expect_dtype, expect_float, expect_shape};
use crate::{DType, Error, Op, Result, Tensor};

/// `x − log Σ exp(x)` along one dimension.
#[derive(Clone, Debug)]
pub struct LogSoftmax {
    /// The scores.
    pub x: Tensor,
    /// The dimension of the classes.
    pub dim: usize,
}

impl Op for LogSoftmax {
    const NAME: &'static str = "log_softmax";
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.x]
    }

    fn check(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)?;
        self.x.size(Self::NAME, self.dim).map(|_| ())
    }
}

/// The gradient of [`LogSoftmax`]: `grad − exp(y) · Σ grad`.
#[derive(Clone, Debug)]
pub struct LogSoftmaxGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// The result of the forward pass.
    pub y: Tensor,
    /// The dimension of the classes.
    pub dim: usize,
}

impl Op for LogSoftmaxGrad {
    const NAME: &'static str = "log_softmax";
    const PASS: crate::Pass = crate::Pass::Backward;
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.grad, &self.y]
    }

    fn check(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the result", &self.y, self.grad.dtype())?;
        expect_shape(Self::NAME, "the result", &self.y, self.grad.shape())?;
        self.y.size(Self::NAME, self.dim).map(|_| ())
    }
}

/// The mean negative log-likelihood of the target classes: `−Σ log_probs[i, target[i]] / n`, the
/// sum over the contract's fixed tree in f64, rounded once.
#[derive(Clone, Debug)]
pub struct NllLoss {
    /// `[n, classes]`
    pub log_probs: Tensor,
    /// `[n]`, i64, each below the number of classes.
    pub target: Tensor,
}

impl Op for NllLoss {
    const NAME: &'static str = "nll_loss";
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.log_probs, &self.target]
    }

    fn check(&self) -> Result<()> {
        expect_float(Self::NAME, "the log-probabilities", &self.log_probs)?;
        check_target(Self::NAME, self.log_probs.shape(), &self.target)
    }
}

/// The gradient of [`NllLoss`] with respect to the log-probabilities.
#[derive(Clone, Debug)]
pub struct NllLossGrad {
    /// The gradient of the loss, a scalar.
    pub grad: Tensor,
    /// As in the forward pass.
    pub target: Tensor,
    /// The number of classes.
    pub classes: usize,
}

impl Op for NllLossGrad {
    const NAME: &'static str = "nll_loss";
    const PASS: crate::Pass = crate::Pass::Backward;
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.grad, &self.target]
    }

    fn check(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, &[])?;
        check_target(Self::NAME, &[self.target.numel(), self.classes], &self.target)
    }
}

fn check_target(op: &'static str, log_probs: &[usize], target: &Tensor) -> Result<()> {
    expect_dtype(op, "the target", target, DType::I64)?;
    let [n, _] = log_probs else {
        return Err(Error::invalid(op, format!("expected shape [n, classes], got {log_probs:?}")));
    };
    if *n == 0 {
        return Err(Error::invalid(op, "the mean over no samples is not defined"));
    }
    expect_shape(op, "the target", target, &[*n])
}
