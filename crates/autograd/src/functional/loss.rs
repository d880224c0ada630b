use samebits_tensor_core::ops::{LogSoftmax, LogSoftmaxGrad, NllLoss, NllLossGrad};
use samebits_tensor_core::{Result, Tensor};

use super::elementwise::{exp, mul, sub};
use super::once;
use super::reduce::sum;
use crate::{Var, is_recording, run};

/// `x − log Σ exp(x)` along `dim`.
///
/// # Errors
///
/// There is no such dimension.
#[track_caller]
pub fn log_softmax(x: &Var, dim: usize) -> Result<Var> {
    let value = run(&LogSoftmax { x: x.value().clone(), dim })?;
    let (saved, result) = (x.clone(), value.clone());
    Ok(Var::computed(value, &[x], move |grad| {
        if !is_recording() {
            let op = LogSoftmaxGrad { grad: grad.value().clone(), y: result.clone(), dim };
            return Ok(vec![Some(Var::constant(run(&op)?))]);
        }
        let probabilities = softmax(&saved, dim)?;
        Ok(vec![Some(sub(grad, &mul(&probabilities, &sum(grad, &[dim])?)?)?)])
    }))
}

/// `exp(x) / Σ exp(x)` along `dim`, computed as the exponential of [`log_softmax`].
///
/// # Errors
///
/// There is no such dimension.
#[track_caller]
pub fn softmax(x: &Var, dim: usize) -> Result<Var> {
    exp(&log_softmax(x, dim)?)
}

/// The mean negative log-likelihood of the target classes.
///
/// # Shapes
///
/// `log_probs` is `[n, classes]`, `target` `[n]` of type i64.
///
/// # Errors
///
/// The shapes do not go together, or a target is not a class.
#[track_caller]
pub fn nll_loss(log_probs: &Var, target: &Tensor) -> Result<Var> {
    let value = run(&NllLoss { log_probs: log_probs.value().clone(), target: target.clone() })?;
    let (target, classes) = (target.clone(), log_probs.shape()[1]);
    Ok(Var::computed(value, &[log_probs], move |grad| {
        let op = NllLossGrad { grad: grad.value().clone(), target: target.clone(), classes };
        Ok(vec![Some(once("nll_loss", run(&op)?, &[grad]))])
    }))
}

/// [`nll_loss`] of [`log_softmax`].
///
/// # Errors
///
/// As [`nll_loss`].
#[track_caller]
pub fn cross_entropy(logits: &Var, target: &Tensor) -> Result<Var> {
    nll_loss(&log_softmax(logits, 1)?, target)
}
