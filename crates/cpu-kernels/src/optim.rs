//! Optimiser steps, one pass over memory each.
//!
//! # Determinism
//!
//! `Portable`: each element is independent, in the order of operations that
//! [`SgdStep`](samebits_tensor_core::ops::SgdStep) and
//! [`AdamStep`](samebits_tensor_core::ops::AdamStep) define.

use samebits_numerics::math::f64::powi;
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::ops::{AdamParams, SgdParams};

use crate::arch::stream;
use crate::error::{Result, expect_len};
use crate::float::Float;
use crate::memory;
use crate::parallel::{CHUNK, LINE, chunks_mut, even};
use samebits_numerics::fpenv;

/// Computes a step of stochastic gradient descent; `velocity` is `None` in the first step. Without momentum
/// nothing is written to `new_velocity`, which may be empty.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn sgd_step<T: Float>(
    params: &SgdParams,
    param: &[T],
    grad: &[T],
    velocity: Option<&[T]>,
    new_param: &mut [T],
    new_velocity: &mut [T],
) -> Result<()> {
    const OP: &str = "sgd_step";
    let n = param.len();
    expect_len(OP, "grad", grad.len(), n)?;
    expect_len(OP, "velocity", velocity.map_or(n, <[T]>::len), n)?;
    expect_len(OP, "new_param", new_param.len(), n)?;
    let scratch = || Scratch::new(OP, n);
    let size = even(n, CHUNK, LINE);
    if params.momentum == 0.0 {
        let outputs = chunks_mut(new_param, size).enumerate();
        return outputs.try_for_each_with(scratch, |scratch, (i, new_param)| {
            let range = i * size..i * size + new_param.len();
            scratch.written([new_param], |[new_param]| {
                let (param, grad) = (&param[range.clone()], &grad[range]);
                simd::dispatch(Descent { params, param, grad, new_param });
            });
            Ok(())
        });
    }
    expect_len(OP, "new_velocity", new_velocity.len(), n)?;
    let outputs = chunks_mut(new_param, size).zip(chunks_mut(new_velocity, size));
    outputs.enumerate().try_for_each_with(scratch, |scratch, (i, (new_param, new_velocity))| {
        let range = i * size..i * size + new_param.len();
        scratch.written([new_param, new_velocity], |[new_param, new_velocity]| {
            simd::dispatch(Sgd {
                params,
                param: &param[range.clone()],
                grad: &grad[range.clone()],
                velocity: velocity.map(|v| &v[range]),
                new_param,
                new_velocity,
            });
        });
        Ok(())
    })
}

/// Bytes of a result from which it does not stay in a cache until the next step: the last cache of a
/// server holds hundreds of MB.
const STREAMED: usize = 1 << 26;

/// Memory for the results of a chunk that are then streamed, if they are large.
struct Scratch<T>(Option<Vec<T>>);

impl<T: Float> Scratch<T> {
    /// Returns scratch memory for up to three results of `n` elements.
    fn new(op: &'static str, n: usize) -> Result<Scratch<T>> {
        let is_large = n >= STREAMED / size_of::<T>();
        Ok(Scratch(is_large.then(|| memory::zeroed(op, 3 * CHUNK)).transpose()?))
    }

    /// Calls `f`, which writes all elements of the results of a chunk.
    fn written<const N: usize>(&mut self, results: [&mut [T]; N], f: impl FnOnce([&mut [T]; N])) {
        let Some(scratch) = &mut self.0 else { return f(results) };
        let mut parts = scratch.chunks_exact_mut(CHUNK);
        let mut parts = results.each_ref().map(|result| {
            let part = parts.next().expect("there are at most three results");
            &mut part[..result.len()]
        });
        f(parts.each_mut().map(|part| &mut **part));
        for (part, result) in parts.into_iter().zip(results) {
            stream(part, result);
        }
    }
}

/// Computes a step of Adam; steps count from 1.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if the slices differ in length;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn adam_step<T: Float>(
    params: &AdamParams,
    step: u64,
    param: &[T],
    grad: &[T],
    mean: &[T],
    square: &[T],
    new_param: &mut [T],
    new_mean: &mut [T],
    new_square: &mut [T],
) -> Result<()> {
    let n = param.len();
    for (what, len) in [
        ("grad", grad.len()),
        ("mean", mean.len()),
        ("square", square.len()),
        ("new_param", new_param.len()),
        ("new_mean", new_mean.len()),
        ("new_square", new_square.len()),
    ] {
        expect_len("adam_step", what, len, n)?;
    }
    let constants = fpenv::ieee(|| AdamConstants::new(params, step));
    let size = even(n, CHUNK, LINE);
    let outputs = chunks_mut(new_param, size)
        .zip(chunks_mut(new_mean, size))
        .zip(chunks_mut(new_square, size));
    let scratch = || Scratch::new("adam_step", n);
    outputs.enumerate().try_for_each_with(
        scratch,
        |scratch, (i, ((param_to, mean_to), square_to))| {
            let range = i * size..i * size + param_to.len();
            scratch.written([param_to, mean_to, square_to], |[new_param, new_mean, new_square]| {
                simd::dispatch(Adam {
                    constants,
                    param: &param[range.clone()],
                    grad: &grad[range.clone()],
                    mean: &mean[range.clone()],
                    square: &square[range],
                    new_param,
                    new_mean,
                    new_square,
                });
            });
            Ok(())
        },
    )
}

/// A step without momentum.
struct Descent<'a, T> {
    params: &'a SgdParams,
    param: &'a [T],
    grad: &'a [T],
    new_param: &'a mut [T],
}

impl<T: Float> Kernel for Descent<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let n = self.param.len();
        let (grad, new_param) = (&self.grad[..n], &mut self.new_param[..n]);
        let lr = T::from_f64(-self.params.lr);
        let decayed = decayed(self.params, self.param, grad);
        for i in 0..n {
            new_param[i] = lr.mul_add(decayed(i), self.param[i]).canonical();
        }
    }
}

/// Returns the gradient of each element with its share of the parameter.
#[inline(always)]
fn decayed<T: Float>(params: &SgdParams, param: &[T], grad: &[T]) -> impl Fn(usize) -> T {
    let decay = T::from_f64(params.weight_decay);
    let decays = params.weight_decay != 0.0;
    move |i| if decays { decay.mul_add(param[i], grad[i]) } else { grad[i] }
}

/// A step with momentum.
struct Sgd<'a, T> {
    params: &'a SgdParams,
    param: &'a [T],
    grad: &'a [T],
    velocity: Option<&'a [T]>,
    new_param: &'a mut [T],
    new_velocity: &'a mut [T],
}

impl<T: Float> Kernel for Sgd<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let momentum = T::from_f64(self.params.momentum);
        let fresh = T::from_f64(1.0 - self.params.dampening);
        let lr = T::from_f64(-self.params.lr);
        let results = self.new_param.chunks_mut(NEAR).zip(self.new_velocity.chunks_mut(NEAR));
        for (number, (new_param, new_velocity)) in results.enumerate() {
            let n = new_param.len();
            let range = number * NEAR..number * NEAR + n;
            let new_velocity = &mut new_velocity[..n];
            let (param, grad) = (&self.param[range.clone()], &self.grad[range.clone()]);
            let decayed = decayed(self.params, param, grad);
            match self.velocity {
                Some(velocity) => {
                    let velocity = &velocity[range];
                    for i in 0..n {
                        new_velocity[i] =
                            fresh.mul_add(decayed(i), momentum * velocity[i]).canonical();
                    }
                }
                None => {
                    for i in 0..n {
                        new_velocity[i] = decayed(i).canonical();
                    }
                }
            }
            for i in 0..n {
                let direction = if self.params.nesterov {
                    momentum.mul_add(new_velocity[i], decayed(i))
                } else {
                    new_velocity[i]
                };
                new_param[i] = lr.mul_add(direction, param[i]).canonical();
            }
        }
    }
}

/// Elements whose velocities are still in the first cache when the parameters are computed.
const NEAR: usize = 512;

#[derive(Clone, Copy)]
struct AdamConstants<T> {
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

impl<T: Float> AdamConstants<T> {
    fn new(params: &AdamParams, step: u64) -> AdamConstants<T> {
        let (keep, decay) = if params.decoupled {
            (1.0 - params.lr * params.weight_decay, 0.0)
        } else {
            (1.0, params.weight_decay)
        };
        AdamConstants {
            keep: T::from_f64(keep),
            decay: T::from_f64(decay),
            beta1: T::from_f64(params.beta1),
            fresh1: T::from_f64(1.0 - params.beta1),
            beta2: T::from_f64(params.beta2),
            fresh2: T::from_f64(1.0 - params.beta2),
            root: T::from_f64((1.0 - powi(params.beta2, step)).sqrt()),
            eps: T::from_f64(params.eps),
            rate: T::from_f64(-params.lr / (1.0 - powi(params.beta1, step))),
        }
    }
}

struct Adam<'a, T> {
    constants: AdamConstants<T>,
    param: &'a [T],
    grad: &'a [T],
    mean: &'a [T],
    square: &'a [T],
    new_param: &'a mut [T],
    new_mean: &'a mut [T],
    new_square: &'a mut [T],
}

impl<T: Float> Kernel for Adam<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let c = self.constants;
        let n = self.param.len();
        let (grad, mean, square) = (&self.grad[..n], &self.mean[..n], &self.square[..n]);
        let new_param = &mut self.new_param[..n];
        let (new_mean, new_square) = (&mut self.new_mean[..n], &mut self.new_square[..n]);
        for i in 0..n {
            // With a decay of 0 the fma returns the gradient itself, unless the parameter is
            // infinite or NaN, in which case training has already failed.
            let p = self.param[i] * c.keep;
            let g = c.decay.mul_add(self.param[i], grad[i]);
            let m = c.fresh1.mul_add(g, c.beta1 * mean[i]);
            let v = (c.fresh2 * g).mul_add(g, c.beta2 * square[i]);
            new_param[i] = c.rate.mul_add(m / (v.sqrt() / c.root + c.eps), p).canonical();
            new_mean[i] = m.canonical();
            new_square[i] = v.canonical();
        }
    }
}
