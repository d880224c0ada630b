//! Elementwise losses, composed of elementwise operations.

use samebits_macros::named;
use samebits_tensor_core::ops::{Bowl, CompareKind, LogitLoss, LogitLossGrad, Reduce, ReduceKind};
use samebits_tensor_core::{Error, Result};

use super::{Reduction, expect_shape, reduced};
use crate::functional::elementwise::{
    Steps, Symbol, add, affine, compare, div, exp, formula, log, log_sigmoid, mul, neg,
    scalar_like, sigmoid, sub, wanted, weigh, where_,
};
use crate::functional::support::masked_fill;
use crate::{Tensor, is_recording, run, untracked};

/// Computes the squared error `(input − target)²`.
///
/// # Shapes
///
/// `input` and `target` have the same shape.
///
/// # Errors
///
/// The shapes differ.
#[named]
#[track_caller]
pub fn mse_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    expect_shape("mse_loss", "the target", target, input.shape())?;
    let losses = formula([input, target], |f, [x, t]| {
        let d = f.sub(x, t);
        f.square(d)
    })?;
    reduced(&losses, reduction)
}

/// Computes the absolute error `|input − target|`; its gradient is 0 if they are equal.
///
/// # Shapes
///
/// `input` and `target` have the same shape.
///
/// # Errors
///
/// The shapes differ.
#[named]
#[track_caller]
pub fn l1_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    expect_shape("l1_loss", "the target", target, input.shape())?;
    reduced(&formula([input, target], distance)?, reduction)
}

/// Computes `d² / (2 · beta)` if `d < beta`, else `d − beta / 2`, where `d = |input − target|`.
///
/// # Shapes
///
/// `input` and `target` have the same shape.
///
/// # Errors
///
/// The shapes differ, or `beta` is negative or not finite.
#[named]
#[track_caller]
pub fn smooth_l1_loss(
    input: &Tensor,
    target: &Tensor,
    beta: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    const OP: &str = "smooth_l1_loss";
    if !(beta >= 0.0 && beta.is_finite()) {
        return Err(Error::invalid(OP, format!("beta must be finite and at least 0, got {beta}")));
    }
    expect_shape(OP, "the target", target, input.shape())?;
    if beta == 0.0 {
        return reduced(&formula([input, target], distance)?, reduction);
    }
    let bowl = Bowl { bound: beta, scale: 0.5 / beta, shift: -0.5 * beta, slope: 1.0 };
    reduced(&formula([input, target], |f, _| f.known(&bowl.steps()))?, reduction)
}

/// Computes `d² / 2` if `d < delta`, else `delta · (d − delta / 2)`, where `d = |input − target|`.
///
/// # Shapes
///
/// `input` and `target` have the same shape.
///
/// # Errors
///
/// The shapes differ, or `delta` is not positive and finite.
#[named]
#[track_caller]
pub fn huber_loss(
    input: &Tensor,
    target: &Tensor,
    delta: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    const OP: &str = "huber_loss";
    if !(delta > 0.0 && delta.is_finite()) {
        return Err(Error::invalid(OP, format!("delta must be finite and positive, got {delta}")));
    }
    expect_shape(OP, "the target", target, input.shape())?;
    let bowl = Bowl { bound: delta, scale: 0.5, shift: -0.5 * delta, slope: delta };
    reduced(&formula([input, target], |f, _| f.known(&bowl.steps()))?, reduction)
}

/// Writes `|x − t|`.
fn distance(f: &mut Steps, [x, t]: [Symbol; 2]) -> Symbol {
    let d = f.sub(x, t);
    f.abs(d)
}

/// Computes `−weight · (target · log(input) + (1 − target) · log(1 − input))`, with each logarithm
/// at least −100, as in PyTorch.
///
/// # Shapes
///
/// `input` and `target` have the same shape; `weight` broadcasts to it.
///
/// # Determinism
///
/// `(target − 1) · log1p(−input) − target · log(input)`, each operation rounded; the gradient is
/// `grad · (input − target) / max((1 − input) · input, 1e-12)`.
///
/// # Errors
///
/// The shapes do not match, or an input is not in `[0, 1]`.
#[named]
#[track_caller]
pub fn binary_cross_entropy(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    const OP: &str = "binary_cross_entropy";
    expect_shape(OP, "the target", target, input.shape())?;
    check_probabilities(OP, input)?;
    // Logarithms, at least −100.
    let floor = |f: &mut Steps, x: Symbol| {
        let least = f.number(-100.0);
        f.maximum(x, least)
    };
    let logs = move |f: &mut Steps, x: Symbol| {
        let rest = f.neg(x);
        let miss = f.log1p(rest);
        let miss = floor(f, miss);
        let hit = f.log(x);
        (miss, floor(f, hit))
    };
    let value = formula([&input.detach(), &target.detach()], |f, [x, t]| {
        let (miss, hit) = logs(f, x);
        let rest = f.affine(t, 1.0, -1.0);
        let (missed, hit) = (f.mul(rest, miss), f.mul(t, hit));
        f.sub(missed, hit)
    })?;
    let (x, t) = (input.clone(), target.clone());
    let losses = Tensor::computed(value.into(), &[input, target], move |grad| {
        let of_input = || {
            formula([grad, &x, &t], |f, [grad, x, t]| {
                let rest = f.affine(x, -1.0, 1.0);
                let (spread, least) = (f.mul(rest, x), f.number(1e-12));
                let spread = f.maximum(spread, least);
                let d = f.sub(x, t);
                let product = f.mul(grad, d);
                f.div(product, spread)
            })
        };
        let of_target = || {
            formula([grad, &x], |f, [grad, x]| {
                let (miss, hit) = logs(f, x);
                let slope = f.sub(miss, hit);
                f.mul(grad, slope)
            })
        };
        Ok(vec![wanted(&x, of_input)?, wanted(&t, of_target)?])
    });
    reduced(&weighted(OP, &losses, weight)?, reduction)
}

/// Computes [`binary_cross_entropy`] of the sigmoid of the input, without overflow for any logit:
/// `(1 − target) · input − (1 + (pos_weight − 1) · target) · log_sigmoid(input)`. At infinite
/// logits the loss is the limit: +∞, or 0 if the target agrees.
///
/// # Shapes
///
/// `input` and `target` have the same shape; `weight` and `pos_weight` broadcast to it.
///
/// # Errors
///
/// The shapes do not match.
#[named]
#[track_caller]
pub fn binary_cross_entropy_with_logits(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    const OP: &str = "binary_cross_entropy_with_logits";
    expect_shape(OP, "the target", target, input.shape())?;
    if pos_weight.is_none() && !target.requires_grad() {
        return reduced(&weighted(OP, &logit_losses(input, target)?, weight)?, reduction);
    }
    let mut share = log_sigmoid(input)?;
    let mut hit = target.detach();
    if let Some(pos_weight) = pos_weight {
        let extra = affine(pos_weight, 1.0, -1.0)?;
        let factor = affine(&mul(&extra, target)?, 1.0, 1.0)?;
        share = mul(&factor, &share)?;
        hit = mul(&pos_weight.detach(), &hit)?;
        expect_shape(OP, "pos_weight times the target", &share, input.shape())?;
    }
    let losses = sub(&weigh(input, &affine(target, -1.0, 1.0)?)?, &share)?;
    // ∞ − ∞ is not a number; the gradient is right.
    let lowest = compare(CompareKind::Eq, input, f64::NEG_INFINITY)?;
    let limit = weigh(&scalar_like(input, f64::INFINITY)?, &hit)?;
    let value = where_(&lowest, &limit, &losses.detach())?.value().clone();
    let losses = Tensor::computed(value, &[&losses], |grad| Ok(vec![Some(grad.clone())]));
    reduced(&weighted(OP, &losses, weight)?, reduction)
}

/// Returns the losses of [`binary_cross_entropy_with_logits`] at a target that is constant.
#[track_caller]
fn logit_losses(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    let op = LogitLoss { x: input.value().clone(), target: target.value().clone() };
    let value = run(&op)?;
    let (x, target) = (input.clone(), target.detach());
    Ok(Tensor::computed_onto(value, input, move |grad, found| {
        if !is_recording() {
            return untracked(&LogitLossGrad {
                grad: grad.value().clone(),
                x: x.value().clone(),
                target: target.value().clone(),
                found: found.map(|found| found.value().clone()),
            });
        }
        let mut sum = mul(grad, &affine(&target, -1.0, 1.0)?)?;
        if let Some(found) = found {
            sum = add(&found, &sum)?;
        }
        add(&sum, &mul(&neg(grad)?, &sigmoid(&neg(&x)?)?)?)
    }))
}

/// The reduction of [`kl_div`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchReduction {
    /// A reduction as in the other losses.
    Of(Reduction),
    /// The sum divided by the size of the first dimension: the mathematical mean.
    BatchMean,
}

/// Computes the Kullback–Leibler divergence `target · (log(target) − input)` of log-probabilities
/// from probabilities; it is +0 if the target is 0. With `log_target` the target is a logarithm,
/// too: `exp(target) · (target − input)`.
///
/// # Shapes
///
/// `input` and `target` have the same shape.
///
/// # Errors
///
/// The shapes differ, or a batch mean is asked for a tensor without dimensions.
#[named]
#[track_caller]
pub fn kl_div(
    input: &Tensor,
    target: &Tensor,
    reduction: BatchReduction,
    log_target: bool,
) -> Result<Tensor> {
    const OP: &str = "kl_div";
    expect_shape(OP, "the target", target, input.shape())?;
    let losses = if log_target {
        let nothing = compare(CompareKind::Eq, target, f64::NEG_INFINITY)?;
        mul(&exp(target)?, &masked_fill(&sub(target, input)?, &nothing, 0.0)?)?
    } else {
        let nothing = compare(CompareKind::Eq, target, 0.0)?;
        // Do not take the logarithm of 0 even if its value is unused: its gradient would be NaN.
        let argument = where_(&nothing, &scalar_like(target, 1.0)?, target)?;
        sub(&mul(target, &log(&argument)?)?, &weigh(input, target)?)?
    };
    match reduction {
        BatchReduction::Of(reduction) => reduced(&losses, reduction),
        BatchReduction::BatchMean => {
            let Some(&n) = input.shape().first() else {
                return Err(Error::invalid(OP, "a batch mean needs a first dimension, got []"));
            };
            let n = scalar_like(&losses, n as f64)?;
            div(&losses.sum_all()?, &n)
        }
    }
}

/// Multiplies losses by a weight that broadcasts to them.
#[track_caller]
pub(super) fn weighted(
    op: &'static str,
    losses: &Tensor,
    weight: Option<&Tensor>,
) -> Result<Tensor> {
    let Some(weight) = weight else { return Ok(losses.clone()) };
    let product = mul(losses, weight)?;
    expect_shape(op, "the weight times the loss", &product, losses.shape())?;
    Ok(product)
}

#[track_caller]
fn check_probabilities(op: &'static str, x: &Tensor) -> Result<()> {
    let [low, high] = [ReduceKind::Amin, ReduceKind::Amax].map(|kind| extreme(kind, x));
    if low?.is_none_or(|low| low >= 0.0) && high?.is_none_or(|high| high <= 1.0) {
        return Ok(());
    }
    Err(Error::invalid(
        op,
        "every input must be in [0, 1]; for logits use `binary_cross_entropy_with_logits`",
    ))
}

/// Returns the smallest or largest element, or `None` if there are none.
#[track_caller]
pub(super) fn extreme(kind: ReduceKind, x: &Tensor) -> Result<Option<f64>> {
    if x.numel() == 0 {
        return Ok(None);
    }
    let dims = (0..x.rank()).collect();
    let extreme = untracked(&Reduce { kind, x: x.value().clone(), dims })?;
    crate::functional::wide(&extreme).map(Some)
}
