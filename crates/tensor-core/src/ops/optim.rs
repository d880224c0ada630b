//! Optimiser steps: one operation per parameter, so that a step is one pass over memory.

use super::{expect_dtype, expect_float, expect_shape};
use crate::{Op, Result, Tensor};

/// The settings of stochastic gradient descent.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SgdParams {
    /// The learning rate.
    pub lr: f64,
    /// The share of the last step that is kept; 0 disables momentum.
    pub momentum: f64,
    /// Dampening: the momentum adds `(1 - dampening) * gradient`.
    pub dampening: f64,
    /// The share of the parameter that is added to its gradient.
    pub weight_decay: f64,
    /// If true, uses Nesterov's form of momentum.
    pub nesterov: bool,
}

/// A step of stochastic gradient descent. Returns the new parameter and the new momentum.
///
/// With every constant rounded to the element type first: `g = fma(decay, p, g)` if decay is not
/// 0; `v = fma(1 − dampening, g, momentum · v)`, or `g` in the first step; `d = fma(momentum, v,
/// g)` for Nesterov, else `v` (or `g` without momentum); `p = fma(−lr, d, p)`.
#[derive(Clone, Debug)]
pub struct SgdStep {
    /// The parameter.
    pub param: Tensor,
    /// Its gradient.
    pub grad: Tensor,
    /// The momentum of the last step, if there was one.
    pub velocity: Option<Tensor>,
    /// The settings.
    pub params: SgdParams,
}

impl Op for SgdStep {
    const NAME: &'static str = "sgd_step";
    type Plan = ();
    type Output = (Tensor, Option<Tensor>);

    crate::inputs![param, grad, velocity];
    crate::parameters![params];

    fn plan(&self) -> Result<()> {
        check_like(Self::NAME, &self.inputs())
    }
}

/// The settings of Adam.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AdamParams {
    /// The learning rate.
    pub lr: f64,
    /// The decay rate of the mean gradient.
    pub beta1: f64,
    /// The decay rate of the mean squared gradient.
    pub beta2: f64,
    /// The constant added to the root.
    pub eps: f64,
    /// The decay of the parameter in each step.
    pub weight_decay: f64,
    /// True if the decay is subtracted from the parameter (AdamW) instead of added to the gradient.
    pub decoupled: bool,
}

/// A step of Adam. Returns the new parameter, mean and mean square.
///
/// With every constant computed in f64 and rounded to the element type first: `p = p · (1 − lr ·
/// decay)` if decoupled, else `g = fma(decay, p, g)`; `m = fma(1 − β1, g, β1 · m)`;
/// `v = fma((1 − β2) · g, g, β2 · v)`; `p = fma(−lr / (1 − β1^t), m / (sqrt(v) / sqrt(1 − β2^t) +
/// eps), p)`. Powers are repeated products.
#[derive(Clone, Debug)]
pub struct AdamStep {
    /// The parameter.
    pub param: Tensor,
    /// Its gradient.
    pub grad: Tensor,
    /// The mean gradient.
    pub mean: Tensor,
    /// The mean squared gradient.
    pub square: Tensor,
    /// The number of this step, counted from 1.
    pub step: u64,
    /// The settings.
    pub params: AdamParams,
}

impl Op for AdamStep {
    const NAME: &'static str = "adam_step";
    type Plan = ();
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![param, grad, mean, square];
    crate::parameters![step, params];

    fn plan(&self) -> Result<()> {
        check_like(Self::NAME, &self.inputs())
    }
}

fn check_like(op: &'static str, tensors: &[&Tensor]) -> Result<()> {
    let param = tensors[0];
    expect_float(op, "the parameter", param)?;
    for tensor in &tensors[1..] {
        expect_dtype(op, "the gradient or state", tensor, param.dtype())?;
        expect_shape(op, "the gradient or state", tensor, param.shape())?;
    }
    Ok(())
}
