//! Likelihoods of distributions whose parameters a model predicts.

use samebits_macros::named;
use samebits_tensor_core::ops::{CompareKind, ReduceKind};
use samebits_tensor_core::{Error, Result};

use super::pointwise::extreme;
use super::{Reduction, expect_shape, reduced};
use crate::Tensor;
use crate::functional::elementwise::{
    add, affine, clamp_min, compare, div, exp, log, mul, square, sub, times, where_,
};
use crate::functional::{full_like, unsqueeze, zeros_like};

/// Computes the negative log-likelihood of counts under a Poisson distribution:
/// `exp(input) − target · input`, or `input − target · log(input + eps)` if `log_input` is false.
/// With `full`, it adds Stirling's approximation of the logarithm of the factorial for targets
/// above 1. PyTorch's defaults are a `log_input`, not `full`, and 1e-8.
///
/// # Shapes
///
/// `input` and `target` have the same shape.
///
/// # Errors
///
/// The shapes differ.
///
/// # References
///
/// `torch.nn.functional.poisson_nll_loss`.
#[named]
#[track_caller]
pub fn poisson_nll_loss(
    input: &Tensor,
    target: &Tensor,
    log_input: bool,
    full: bool,
    eps: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    expect_shape("poisson_nll_loss", "the target", target, input.shape())?;
    let mut losses = if log_input {
        sub(&exp(input)?, &mul(target, input)?)?
    } else {
        sub(input, &mul(target, &log(&affine(input, 1.0, eps)?)?)?)?
    };
    if full {
        let many = compare(CompareKind::Gt, target, 1.0)?;
        // Keep targets outside the approximation's domain out of the logarithm.
        let t = where_(&many, target, &full_like(target, 1.0)?)?;
        let stirling = add(
            &sub(&mul(&t, &log(&t)?)?, &t)?,
            &times(&log(&times(&t, std::f64::consts::TAU)?)?, 0.5)?,
        )?;
        losses = add(&losses, &where_(&many, &stirling, &zeros_like(target)?)?)?;
    }
    reduced(&losses, reduction)
}

/// Computes the negative log-likelihood of targets under a normal distribution:
/// `(log(var) + (input − target)² / var) / 2`, with variances of at least `eps`. With `full`, it
/// adds `log(2π) / 2`. PyTorch's defaults are not `full`, and 1e-6.
///
/// The gradient of a variance is that of the formula, even if `eps` replaces the variance.
///
/// # Shapes
///
/// `input` and `target` have the same shape. `var` has it, too, or its last dimension has size 1 or
/// is missing.
///
/// # Errors
///
/// The shapes do not match, or a variance is negative.
///
/// # References
///
/// `torch.nn.functional.gaussian_nll_loss`.
#[named]
#[track_caller]
pub fn gaussian_nll_loss(
    input: &Tensor,
    target: &Tensor,
    var: &Tensor,
    full: bool,
    eps: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    const OP: &str = "gaussian_nll_loss";
    expect_shape(OP, "the target", target, input.shape())?;
    if !(eps > 0.0 && eps.is_finite()) {
        return Err(Error::invalid(OP, format!("eps must be finite and positive, got {eps}")));
    }
    let outer = input.shape().split_last().map(|(_, outer)| outer);
    let var = if var.shape() != input.shape() && outer == Some(var.shape()) {
        unsqueeze(var, -1)?
    } else {
        var.clone()
    };
    let one_for_all =
        var.shape().split_last().is_some_and(|(&last, rest)| last == 1 && outer == Some(rest));
    if !one_for_all {
        expect_shape(OP, "the variance", &var, input.shape())?;
    }
    if let Some(least) = extreme(ReduceKind::Amin, &var)?
        && least < 0.0
    {
        return Err(Error::invalid(OP, format!("variances must be at least 0, got {least}")));
    }
    let raised = clamp_min(&var.detach(), eps)?.value().clone();
    // The clamp is not part of the graph.
    let var = Tensor::computed(raised, &[&var], |grad| Ok(vec![Some(grad.clone())]));
    let distance = square(&sub(input, target)?)?;
    let mut losses = times(&add(&log(&var)?, &div(&distance, &var)?)?, 0.5)?;
    if full {
        losses = affine(&losses, 1.0, HALF_LN_TAU)?;
    }
    reduced(&losses, reduction)
}

/// log(2π) / 2
const HALF_LN_TAU: f64 = 0.91893853320467274178;
