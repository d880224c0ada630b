use samebits_tensor_core::ops::{
    BatchNorm, BatchNormGrad, BatchNormInference, LayerNorm, LayerNormGrad,
};
use samebits_tensor_core::{Result, Tensor};

use super::once;
use crate::{Var, run};

/// The statistics of a batch, per channel.
#[derive(Clone, Debug)]
pub struct BatchStatistics {
    /// The mean.
    pub mean: Tensor,
    /// The biased variance.
    pub var: Tensor,
    /// The number of values they were taken over.
    pub count: usize,
}

/// Batch normalisation with the batch's own statistics.
///
/// # Shapes
///
/// `input` is `[n, channels, ..]`, `weight` and `bias` `[channels]`.
///
/// # Errors
///
/// The shapes do not go together, or there is only one value per channel.
#[track_caller]
pub fn batch_norm(
    input: &Var,
    weight: &Var,
    bias: &Var,
    eps: f64,
) -> Result<(Var, BatchStatistics)> {
    let (value, mean, var, rstd) = run(&BatchNorm {
        input: input.value().clone(),
        weight: weight.value().clone(),
        bias: bias.value().clone(),
        eps,
    })?;
    let statistics = BatchStatistics {
        mean: mean.clone(),
        var,
        count: input.value().numel() / input.shape()[1].max(1),
    };
    let (x, w) = (input.value().clone(), weight.value().clone());
    let result = Var::computed(value, &[input, weight, bias], move |grad| {
        let (grad_x, grad_weight, grad_bias) = run(&BatchNormGrad {
            grad: grad.value().clone(),
            input: x.clone(),
            weight: w.clone(),
            mean: mean.clone(),
            rstd: rstd.clone(),
        })?;
        let grads = [grad_x, grad_weight, grad_bias];
        Ok(grads.into_iter().map(|value| Some(once("batch_norm", value, &[grad]))).collect())
    });
    Ok((result, statistics))
}

/// Batch normalisation with given statistics; differentiable in nothing.
///
/// # Errors
///
/// The shapes do not go together.
#[track_caller]
pub fn batch_norm_inference(
    input: &Var,
    weight: &Var,
    bias: &Var,
    mean: &Tensor,
    var: &Tensor,
    eps: f64,
) -> Result<Var> {
    let value = run(&BatchNormInference {
        input: input.value().clone(),
        weight: weight.value().clone(),
        bias: bias.value().clone(),
        mean: mean.clone(),
        var: var.clone(),
        eps,
    })?;
    Ok(once("batch_norm_inference", value, &[input, weight, bias]))
}

/// Layer normalisation over the last dimensions, those of `weight`.
///
/// # Errors
///
/// The shapes do not go together.
#[track_caller]
pub fn layer_norm(input: &Var, weight: &Var, bias: &Var, eps: f64) -> Result<Var> {
    let (value, mean, rstd) = run(&LayerNorm {
        input: input.value().clone(),
        weight: weight.value().clone(),
        bias: bias.value().clone(),
        eps,
    })?;
    let (x, w) = (input.value().clone(), weight.value().clone());
    Ok(Var::computed(value, &[input, weight, bias], move |grad| {
        let (grad_x, grad_weight, grad_bias) = run(&LayerNormGrad {
            grad: grad.value().clone(),
            input: x.clone(),
            weight: w.clone(),
            mean: mean.clone(),
            rstd: rstd.clone(),
        })?;
        let grads = [grad_x, grad_weight, grad_bias];
        Ok(grads.into_iter().map(|value| Some(once("layer_norm", value, &[grad]))).collect())
    }))
}
