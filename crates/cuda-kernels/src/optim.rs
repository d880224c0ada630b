//! Optimiser steps: one pass over memory each, from the old values to new ones.

use std::marker::PhantomData;

use crate::launch::kernels::optim as kernels;
use crate::launch::{Buffer, Launch, Table};
use samebits_numerics::math::f64::powi;

use crate::device::{Device, Float, Word, expect_len};
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
        kind: settings.kind(velocity.is_some()),
    }
    .fours(device, op, n)?;
    Ok((new_param, has_momentum.then_some(new_velocity)))
}

impl Sgd {
    /// Returns the `kind` of a kernel.
    fn kind(&self, has_velocity: bool) -> u32 {
        u32::from(self.weight_decay != 0.0)
            | u32::from(self.momentum != 0.0) << 1
            | u32::from(has_velocity) << 2
            | u32::from(self.nesterov) << 3
    }
}

/// A parameter, its velocity if it has one, and its gradient.
pub type SgdTensors<'a, T> = (&'a Buffer<T>, Option<&'a Buffer<T>>, &'a Buffer<T>);

/// A new parameter and, with momentum, its new velocity.
pub type SgdStepped<T> = (Buffer<T>, Option<Buffer<T>>);

/// Makes the steps of [`sgd_step`] for several parameters: those with a velocity in one launch, and those
/// without in another.
///
/// # Determinism
///
/// As [`sgd_step`].
///
/// # Errors
///
/// As [`sgd_step`].
pub fn sgd_step_all<T: Float>(
    device: &Device,
    settings: &Sgd,
    tensors: &[SgdTensors<'_, T>],
) -> Result<Vec<SgdStepped<T>>> {
    let op = "sgd_step";
    let has_momentum = settings.momentum != 0.0;
    let mut stepped = Vec::new();
    let [mut first, mut later] = [(); 2].map(|()| Table::new(device.block()));
    for &(param, velocity, grad) in tensors {
        let n = param.len();
        if let Some(velocity) = velocity {
            expect_len(op, "the velocity", velocity, n)?;
        }
        expect_len(op, "the gradient", grad, n)?;
        let new_velocity = device.uninitialised(op, if has_momentum { n } else { 0 })?;
        let mut new = [device.uninitialised(op, n)?, new_velocity];
        let table = if velocity.is_some() { &mut later } else { &mut first };
        // Without a velocity the kernel reads none.
        table.push(n, &mut new, &[param, velocity.unwrap_or(param), grad]);
        let [new_param, new_velocity] = new;
        stepped.push((new_param, has_momentum.then_some(new_velocity)));
    }
    for (table, has_velocity) in [(&first, false), (&later, true)] {
        table.launch(device, op, |rows, count, [grid, block]| {
            kernels::SgdAll {
                rows,
                count,
                decay: T::from_f64(settings.weight_decay),
                momentum: T::from_f64(settings.momentum),
                fresh: T::from_f64(1.0 - settings.dampening),
                rate: T::from_f64(-settings.lr),
                kind: settings.kind(has_velocity),
            }
            .grid(device, op, grid, block)
        })?;
    }
    Ok(stepped)
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
    let constants = Constants::<T>::of(op, settings, step)?;
    let n = expect_like(op, [param, mean, square, grad])?;
    let fresh = || device.uninitialised(op, n);
    let [mut new_param, mut new_mean, mut new_square] = [fresh()?, fresh()?, fresh()?];
    let Constants { keep, decay, beta1, fresh1, beta2, fresh2, root, eps, rate } = constants;
    kernels::Adam {
        new_param: &mut new_param,
        new_mean: &mut new_mean,
        new_square: &mut new_square,
        param,
        mean,
        square,
        grad,
        n,
        keep,
        decay,
        beta1,
        fresh1,
        beta2,
        fresh2,
        root,
        eps,
        rate,
    }
    .fours(device, op, n)?;
    Ok([new_param, new_mean, new_square])
}

/// Makes the steps of [`adam_step`] for several parameters, each with its mean, mean square and gradient,
/// in one launch.
///
/// # Determinism
///
/// As [`adam_step`].
///
/// # Errors
///
/// As [`adam_step`].
pub fn adam_step_all<T: Float>(
    device: &Device,
    settings: &Adam,
    step: u64,
    tensors: &[[&Buffer<T>; 4]],
) -> Result<Vec<[Buffer<T>; 3]>> {
    let op = "adam_step";
    let constants = Constants::<T>::of(op, settings, step)?;
    let (mut table, mut stepped) = (Table::new(device.block()), Vec::new());
    for &tensors in tensors {
        let n = expect_like(op, tensors)?;
        let fresh = || device.uninitialised(op, n);
        let mut new = [fresh()?, fresh()?, fresh()?];
        table.push(n, &mut new, &tensors);
        stepped.push(new);
    }
    let Constants { keep, decay, beta1, fresh1, beta2, fresh2, root, eps, rate } = constants;
    table.launch(device, op, |rows, count, [grid, block]| {
        kernels::AdamAll { rows, count, keep, decay, beta1, fresh1, beta2, fresh2, root, eps, rate }
            .grid(device, op, grid, block)
    })?;
    Ok(stepped)
}

/// Computes `x · scale + shift` for each element of several tensors in one launch, with two roundings.
///
/// # Errors
///
/// [`CudaError::OutOfMemory`] or [`CudaError::Driver`].
pub fn affine_all<T: Float>(
    device: &Device,
    tensors: &[&Buffer<T>],
    scale: T,
    shift: T,
) -> Result<Vec<Buffer<T>>> {
    let op = "affine";
    let (table, all) = one_of_each(device, op, tensors)?;
    table.launch(device, op, |rows, count, [grid, block]| {
        kernels::AffineAll { rows, count, scale, shift }.grid(device, op, grid, block)
    })?;
    Ok(all)
}

/// Converts several tensors in one launch, from a half to f32 or from f32 to a half.
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] for other types; [`CudaError::OutOfMemory`] or [`CudaError::Driver`].
pub fn cast_all<T: Word, R: Word>(
    device: &Device,
    tensors: &[&Buffer<T>],
) -> Result<Vec<Buffer<R>>> {
    let op = "cast";
    let (table, all) = one_of_each(device, op, tensors)?;
    table.launch(device, op, |rows, count, [grid, block]| {
        kernels::CastAll::<T, R> { rows, count, t: PhantomData, r: PhantomData }
            .grid(device, op, grid, block)
    })?;
    Ok(all)
}

/// Returns a buffer for the result of each tensor, as long as that, and the table of both.
fn one_of_each<'a, T, R: Word>(
    device: &Device,
    op: &'static str,
    tensors: &[&'a Buffer<T>],
) -> Result<(Table<'a>, Vec<Buffer<R>>)> {
    let (mut table, mut all) = (Table::new(device.block()), Vec::new());
    for &x in tensors {
        let mut out = [device.uninitialised(op, x.len())?];
        table.push(x.len(), &mut out, &[x]);
        all.extend(out);
    }
    Ok((table, all))
}

/// Returns the length of a parameter, if its mean, mean square and gradient have the same.
fn expect_like<T>(op: &'static str, tensors: [&Buffer<T>; 4]) -> Result<usize> {
    let [param, mean, square, grad] = tensors;
    let n = param.len();
    expect_len(op, "the mean", mean, n)?;
    expect_len(op, "the mean square", square, n)?;
    expect_len(op, "the gradient", grad, n)?;
    Ok(n)
}

/// The constants of a step of Adam.
struct Constants<T> {
    keep: T,
    decay: T,
    beta1: T,
    fresh1: T,
    beta2: T,
    fresh2: T,
    root: T,
    eps: T,
    rate: T,
}

impl<T: Float> Constants<T> {
    fn of(op: &'static str, settings: &Adam, step: u64) -> Result<Constants<T>> {
        if step == 0 {
            return Err(CudaError::invalid(op, "steps are counted from 1"));
        }
        let (keep, decay) = if settings.decoupled {
            (1.0 - settings.lr * settings.weight_decay, 0.0)
        } else {
            (1.0, settings.weight_decay)
        };
        Ok(Constants {
            keep: T::from_f64(keep),
            decay: T::from_f64(decay),
            beta1: T::from_f64(settings.beta1),
            fresh1: T::from_f64(1.0 - settings.beta1),
            beta2: T::from_f64(settings.beta2),
            fresh2: T::from_f64(1.0 - settings.beta2),
            root: T::from_f64((1.0 - powi(settings.beta2, step)).sqrt()),
            eps: T::from_f64(settings.eps),
            rate: T::from_f64(-settings.lr / (1.0 - powi(settings.beta1, step))),
        })
    }
}
