//! Softmax and the negative log-likelihood.

use super::{expect_dtype, expect_float, expect_shape};
use crate::geometry::Split;
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
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![dim];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the input", &self.x)?;
        Split::new(Self::NAME, self.x.shape(), self.dim)
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
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![grad, y];
    crate::parameters![dim];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the result", &self.y, self.grad.dtype())?;
        expect_shape(Self::NAME, "the result", &self.y, self.grad.shape())?;
        Split::new(Self::NAME, self.y.shape(), self.dim)
    }
}

/// `exp(x − max) / Σ exp(x − max)`, with the differences, exponentials and sum of [`LogSoftmax`].
#[derive(Clone, Debug)]
pub struct Softmax {
    /// The scores.
    pub x: Tensor,
    /// The dimension of the classes.
    pub dim: usize,
}

impl Op for Softmax {
    const NAME: &'static str = "softmax";
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![dim];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the input", &self.x)?;
        Split::new(Self::NAME, self.x.shape(), self.dim)
    }
}

/// The gradient of the result `y` of [`Softmax`]: `g − y · Σ g` with `g = grad · y` rounded, the sum
/// rounded and then one fma.
#[derive(Clone, Debug)]
pub struct SoftmaxGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// The result of the forward pass.
    pub y: Tensor,
    /// The dimension of the classes.
    pub dim: usize,
}

impl Op for SoftmaxGrad {
    const NAME: &'static str = Softmax::NAME;
    const PASS: crate::Pass = crate::Pass::Backward;
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![grad, y];
    crate::parameters![dim];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the result", &self.y, self.grad.dtype())?;
        expect_shape(Self::NAME, "the result", &self.y, self.grad.shape())?;
        Split::new(Self::NAME, self.y.shape(), self.dim)
    }
}

/// The binary cross entropy of each logit: `x · (1 − target) − log_sigmoid(x)`, where an infinite
/// `x` times 0 is 0. At −∞ it is `∞ · target`, where ∞ times 0 is 0. Each operation is rounded; see
/// [`Ramp`](super::Ramp) for the logarithm.
#[derive(Clone, Debug)]
pub struct LogitLoss {
    /// The logits.
    pub x: Tensor,
    /// The probabilities, in the shape of the logits.
    pub target: Tensor,
}

impl Op for LogitLoss {
    const NAME: &'static str = "binary_cross_entropy_with_logits";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![x, target];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)?;
        expect_dtype(Self::NAME, "the target", &self.target, self.x.dtype())?;
        expect_shape(Self::NAME, "the target", &self.target, self.x.shape())
    }
}

/// The gradient of [`LogitLoss`], added to the gradient of `x` found so far: that, plus
/// `grad · (1 − target)`, plus `−grad · sigmoid(−x)`. Each operation is rounded.
#[derive(Clone, Debug)]
pub struct LogitLossGrad {
    /// The gradient of the losses.
    pub grad: Tensor,
    /// As in the forward pass.
    pub x: Tensor,
    /// As in the forward pass.
    pub target: Tensor,
    /// The gradient of `x` found so far, if any.
    pub found: Option<Tensor>,
}

impl Op for LogitLossGrad {
    const NAME: &'static str = LogitLoss::NAME;
    const PASS: crate::Pass = crate::Pass::Backward;
    type Plan = ();
    type Output = Tensor;

    crate::inputs![grad, x, target, found];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)?;
        let (grad, target) = (Some(&self.grad), Some(&self.target));
        for (what, other) in
            [("the gradient", grad), ("the target", target), ("the sum", self.found.as_ref())]
        {
            let Some(other) = other else { continue };
            expect_dtype(Self::NAME, what, other, self.x.dtype())?;
            expect_shape(Self::NAME, what, other, self.x.shape())?;
        }
        Ok(())
    }
}

/// The reduction of the losses of single samples to the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// None: each loss is returned.
    None,
    /// The mean, weighted if the loss has weights of classes.
    #[default]
    Mean,
    /// The sum.
    Sum,
}

/// The negative log-likelihood of the target classes.
///
/// With the losses `l[i] = −weight[target[i]] · log_probs[i, target[i]]`, or +0 if the target is
/// ignored, the result is `l` itself, each rounded once; `Σ l`; or `Σ l / Σ w` with the weights of
/// the same targets. Products and sums are those of f64, the sums over the contract's fixed tree in
/// row-major order of the targets, and the result is rounded once. The mean over nothing is NaN.
#[derive(Clone, Debug)]
pub struct NllLoss {
    /// `[n, classes, ..]`
    pub log_probs: Tensor,
    /// `[n, ..]`, i64: a class, or `ignore_index`.
    pub target: Tensor,
    /// `[classes]`; all 1 if missing.
    pub weight: Option<Tensor>,
    /// A target that contributes no loss.
    pub ignore_index: i64,
    /// The reduction of the losses.
    pub reduction: Reduction,
}

impl NllLoss {
    /// Returns the mean with equal weights, ignoring targets of −100 as PyTorch does.
    pub fn mean(log_probs: Tensor, target: Tensor) -> NllLoss {
        NllLoss { log_probs, target, weight: None, ignore_index: -100, reduction: Reduction::Mean }
    }
}

impl Op for NllLoss {
    const NAME: &'static str = "nll_loss";
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![log_probs, target, weight];
    crate::parameters![ignore_index, reduction];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the log-probabilities", &self.log_probs)?;
        check_classes(
            Self::NAME,
            self.log_probs.shape(),
            self.log_probs.dtype(),
            &self.target,
            self.weight.as_ref(),
        )
    }
}

/// The gradient of [`NllLoss`] with respect to the log-probabilities: `−grad · weight` at each
/// target, for the mean divided by `Σ w`, computed in f64 and rounded once; +0 elsewhere.
#[derive(Clone, Debug)]
pub struct NllLossGrad {
    /// The gradient of the loss: of the targets' shape without a reduction, else a scalar.
    pub grad: Tensor,
    /// As in the forward pass.
    pub target: Tensor,
    /// As in the forward pass.
    pub weight: Option<Tensor>,
    /// As in the forward pass.
    pub ignore_index: i64,
    /// As in the forward pass.
    pub reduction: Reduction,
    /// The shape of the log-probabilities.
    pub input_shape: Vec<usize>,
}

impl Op for NllLossGrad {
    const NAME: &'static str = "nll_loss";
    const PASS: crate::Pass = crate::Pass::Backward;
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![grad, target, weight];
    crate::parameters![ignore_index, reduction, input_shape];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_gradient(Self::NAME, &self.grad, &self.target, self.reduction)?;
        let (shape, dtype) = (&self.input_shape, self.grad.dtype());
        check_classes(Self::NAME, shape, dtype, &self.target, self.weight.as_ref())
    }
}

/// The gradient of [`NllLoss`] of [`LogSoftmax`] along dimension 1 with respect to the scores. It
/// equals [`LogSoftmaxGrad`] of the result of [`NllLossGrad`], but stores neither.
#[derive(Clone, Debug)]
pub struct CrossEntropyGrad {
    /// The gradient of the loss: of the targets' shape without a reduction, else a scalar.
    pub grad: Tensor,
    /// `[n, classes]`: the log-probabilities of the forward pass.
    pub log_probs: Tensor,
    /// `[n]`: as in the forward pass.
    pub target: Tensor,
    /// As in the forward pass.
    pub weight: Option<Tensor>,
    /// As in the forward pass.
    pub ignore_index: i64,
    /// As in the forward pass.
    pub reduction: Reduction,
}

impl Op for CrossEntropyGrad {
    const NAME: &'static str = "cross_entropy";
    const PASS: crate::Pass = crate::Pass::Backward;
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![grad, log_probs, target, weight];
    crate::parameters![ignore_index, reduction];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the log-probabilities", &self.log_probs, self.grad.dtype())?;
        expect_gradient(Self::NAME, &self.grad, &self.target, self.reduction)?;
        let shape = self.log_probs.shape();
        if shape.len() != 2 {
            let message =
                format!("expected log-probabilities of shape [n, classes], got {shape:?}");
            return Err(Error::invalid(Self::NAME, message));
        }
        let (dtype, weight) = (self.grad.dtype(), self.weight.as_ref());
        check_classes(Self::NAME, shape, dtype, &self.target, weight)
    }
}

/// Checks that the gradient of a loss has the targets' shape, or is a scalar after a reduction.
fn expect_gradient(
    op: &'static str,
    grad: &Tensor,
    target: &Tensor,
    reduction: Reduction,
) -> Result<()> {
    let shape = match reduction {
        Reduction::None => target.shape(),
        _ => &[],
    };
    expect_shape(op, "the gradient", grad, shape)
}

/// Checks targets and weights for scores of shape `input`, which it splits at the classes.
fn check_classes(
    op: &'static str,
    input: &[usize],
    dtype: DType,
    target: &Tensor,
    weight: Option<&Tensor>,
) -> Result<Split> {
    expect_dtype(op, "the target", target, DType::I64)?;
    let [n, classes, inner @ ..] = input else {
        return Err(Error::invalid(
            op,
            format!("expected an input of shape [n, classes, ..], got {input:?}"),
        ));
    };
    let mut expected = vec![*n];
    expected.extend(inner);
    expect_shape(op, "the target", target, &expected)?;
    if let Some(weight) = weight {
        expect_dtype(op, "the weight", weight, dtype)?;
        expect_shape(op, "the weight", weight, &[*classes])?;
    }
    Split::new(op, input, 1)
}
