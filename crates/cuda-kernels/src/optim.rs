//! Optimiser steps: one pass over memory each, from the old values to new ones.

use crate::launch::kernels::optim as kernels;
use crate::launch::{Buffer, Launch};
use samebits_numerics::math::f64::powi;

use crate::device::{Device, Float, expect_len};
use crate::error::{CudaError, Result};

/// The settings of stochastic gradient descent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    /// The learning rate.
    pub lr: f64,
    /// The share of the last step that is kept; 0 disables momentum.
    pub momentum: f64,
    /// Dampening: momentum adds `(1 - dampening) * gradient`.
    pub dampening: f64,
    /// The share of the parameter that is added to its gradient.
    pub weight_decay: f64,
    /// If true, uses Nesterov's form of momentum.
    pub nesterov: bool,
}

/// The settings of Adam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
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

/// Makes a step of stochastic gradient descent: returns the new parameter and, with momentum, the
/// new velocity. The first step has no velocity.
///
/// # Determinism
///
/// Portable. With every constant rounded to the element type first: `g = fma(decay, p, g)` if decay is not
/// 0; `v = fma(1 − dampening, g, momentum · v)`, or `g` in the first step or without momentum;
/// `d = fma(momentum, v, g)` for Nesterov, else `v`; `p = fma(−lr, d, p)`.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn sgd_step<T: Float>(
    device: &Device,
    settings: &Sgd,
    param: &Buffer<T>,
    velocity: Option<&Buffer<T>>,
    grad: &Buffer<T>,
) -> Result<(Buffer<T>, Option<Buffer<T>>)> {
    let op = "sgd_step";
    let n = param.len();
    if let Some(velocity) = velocity {
        expect_len(op, "the velocity", velocity, n)?;
    }
    expect_len(op, "the gradient", grad, n)?;
    let has_momentum = settings.momentum != 0.0;
    let mut new_param = device.uninitialised(op, n)?;
    let mut new_velocity = device.uninitialised(op, if has_momentum { n } else { 0 })?;
    let kind = u32::from(settings.weight_decay != 0.0)
        | u32::from(has_momentum) << 1
        | u32::from(velocity.is_some()) << 2
        | u32::from(settings.nesterov) << 3;
    kernels::Sgd {
        new_param: &mut new_param,
        new_velocity: &mut new_velocity,
        param,
        // Without a velocity the kernel reads none.
        velocity: velocity.unwrap_or(param),
        grad,
        n,
        decay: T::from_f64(settings.weight_decay),
        momentum: T::from_f64(settings.momentum),
        fresh: T::from_f64(1.0 - settings.dampening),
        rate: T::from_f64(-settings.lr),
        kind,
    }
    .fours(device, op, n)?;
    Ok((new_param, has_momentum.then_some(new_velocity)))
}

/// Makes a step of Adam: returns the new parameter, mean and mean square. Steps count from 1.
///
/// # Determinism
///
/// Portable. With every constant computed in f64 and rounded to the element type first: `p = p · (1 − lr ·
/// decay)` if decoupled, else `g = fma(decay, p, g)`; `m = fma(1 − β1, g, β1 · m)`;
/// `v = fma((1 − β2) · g, g, β2 · v)`; `p = fma(−lr / (1 − β1^t), m / (sqrt(v) / sqrt(1 − β2^t) +
/// eps), p)`. Powers are repeated products.
///
/// # Errors
///
/// [`CudaError::Length`], and [`CudaError::InvalidArgument`] for step 0.
pub fn adam_step<T: Float>(
    device: &Device,
    settings: &Adam,
    step: u64,
    [param, mean, square]: [&Buffer<T>; 3],
    grad: &Buffer<T>,
) -> Result<[Buffer<T>; 3]> {
    let op = "adam_step";
    if step == 0 {
        return Err(CudaError::invalid(op, "steps are counted from 1"));
    }
    let n = param.len();
    expect_len(op, "the mean", mean, n)?;
    expect_len(op, "the mean square", square, n)?;
    expect_len(op, "the gradient", grad, n)?;
    let fresh = || device.uninitialised(op, n);
    let [mut new_param, mut new_mean, mut new_square] = [fresh()?, fresh()?, fresh()?];
    let (keep, decay) = if settings.decoupled {
        (1.0 - settings.lr * settings.weight_decay, 0.0)
    } else {
        (1.0, settings.weight_decay)
    };
    kernels::Adam {
        new_param: &mut new_param,
        new_mean: &mut new_mean,
        new_square: &mut new_square,
        param,
        mean,
        square,
        grad,
        n,
        keep: T::from_f64(keep),
        decay: T::from_f64(decay),
        beta1: T::from_f64(settings.beta1),
        fresh1: T::from_f64(1.0 - settings.beta1),
        beta2: T::from_f64(settings.beta2),
        fresh2: T::from_f64(1.0 - settings.beta2),
        root: T::from_f64((1.0 - powi(settings.beta2, step)).sqrt()),
        eps: T::from_f64(settings.eps),
        rate: T::from_f64(-settings.lr / (1.0 - powi(settings.beta1, step))),
    }
    .fours(device, op, n)?;
    Ok([new_param, new_mean, new_square])
}
