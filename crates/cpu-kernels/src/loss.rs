//! Softmax and the negative log-likelihood on rows.
//!
//! # Determinism
//!
//! `Portable`. Each row is on its own; its sum of exponentials runs in f64 over the contract's
//! fixed tree.

use crate::error::{Error, Result};
use samebits_numerics::extrema;
use samebits_numerics::math;
use samebits_numerics::reduce;
use samebits_numerics::simd::{self, Kernel};

use crate::parallel::rows;

/// `out = (x − max) − log Σ exp(x − max)` along each row of `width` elements.
///
/// `x − max` is rounded to f32, its exponential is the correctly rounded f32 one, the sum is the
/// f64 tree rounded to f32, and the logarithm is the correctly rounded f32 one.
pub fn log_softmax(x: &[f32], width: usize, out: &mut [f32]) {
    rows(width, out, |start, piece| {
        simd::dispatch(Forward { x: &x[start..start + piece.len()], width, out: piece });
    });
}

/// `out = grad − exp(y) · Σ grad` along each row, the sum rounded to f32, then one fma.
pub fn log_softmax_backward(grad: &[f32], y: &[f32], width: usize, out: &mut [f32]) {
    rows(width, out, |start, piece| {
        let range = start..start + piece.len();
        simd::dispatch(Backward { grad: &grad[range.clone()], y: &y[range], width, out: piece });
    });
}

/// `−Σ log_probs[i, target[i]] / n` over the f64 tree, not yet rounded.
///
/// # Errors
///
/// [`Error::IndexOutOfRange`] if a target is not a class.
pub fn nll_loss<T: Copy + Into<f64>>(
    log_probs: &[T],
    classes: usize,
    target: &[i64],
) -> Result<f64> {
    check_targets(classes, target)?;
    let sum = reduce::sum_by(target.len(), |i| log_probs[i * classes + target[i] as usize].into());
    Ok(-sum / target.len() as f64)
}

/// The gradient of [`nll_loss`]: `scale` at each target, +0 elsewhere.
///
/// # Errors
///
/// [`Error::IndexOutOfRange`] if a target is not a class.
pub fn nll_loss_backward<T: Copy + Default>(
    scale: T,
    classes: usize,
    target: &[i64],
    out: &mut [T],
) -> Result<()> {
    check_targets(classes, target)?;
    out.fill(T::default());
    for (row, &class) in out.chunks_exact_mut(classes.max(1)).zip(target) {
        row[class as usize] = scale;
    }
    Ok(())
}

fn check_targets(classes: usize, target: &[i64]) -> Result<()> {
    let valid = |&class: &i64| usize::try_from(class).is_ok_and(|class| class < classes);
    match target.iter().position(|class| !valid(class)) {
        Some(position) => Err(Error::IndexOutOfRange {
            op: "nll_loss",
            position,
            index: target[position],
            size: classes,
        }),
        None => Ok(()),
    }
}

struct Forward<'a> {
    x: &'a [f32],
    width: usize,
    out: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let mut exps = vec![0.0; self.width];
        for (x, out) in self.x.chunks_exact(self.width).zip(self.out.chunks_exact_mut(self.width)) {
            let max = extrema::max(x).expect("a row has elements");
            for ((out, exp), &x) in out.iter_mut().zip(&mut exps).zip(x) {
                *out = x - max;
                *exp = math::exp(*out);
            }
            let log_sum = math::log(reduce::sum_of(&exps, f64::from) as f32);
            for out in out {
                *out = samebits_numerics::nan::canonical(*out - log_sum);
            }
        }
    }
}

struct Backward<'a> {
    grad: &'a [f32],
    y: &'a [f32],
    width: usize,
    out: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let rows = self.grad.chunks_exact(self.width).zip(self.y.chunks_exact(self.width));
        for ((grad, y), out) in rows.zip(self.out.chunks_exact_mut(self.width)) {
            let sum = -(reduce::sum_of(grad, f64::from) as f32);
            for ((out, &grad), &y) in out.iter_mut().zip(grad).zip(y) {
                *out = samebits_numerics::nan::canonical(math::exp(y).mul_add(sum, grad));
            }
        }
    }
}
