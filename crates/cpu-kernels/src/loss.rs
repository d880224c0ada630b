//! Softmax and the negative log-likelihood on rows.
//!
//! # Determinism
//!
//! `Portable`. Each row is on its own; its sum of exponentials runs in f64 over the contract's
//! fixed tree.

use crate::error::{Error, Result};
use samebits_numerics::extrema;
use samebits_numerics::reduce;
use samebits_numerics::simd::{self, Kernel};

use crate::elementwise::Elementary;
use crate::parallel::rows;

/// `out = (x − max) − log Σ exp(x − max)` along each row of `width` elements.
///
/// `x − max` is rounded to the element type, its exponential is that type's, the sum is the f64
/// tree rounded to the type, and the logarithm is the type's.
pub fn log_softmax<T: Elementary>(x: &[T], width: usize, out: &mut [T]) {
    rows(width, out, |start, piece| {
        simd::dispatch(Forward { x: &x[start..start + piece.len()], width, out: piece });
    });
}

/// `out = grad − exp(y) · Σ grad` along each row, the sum rounded to the element type,
/// then one fma.
pub fn log_softmax_backward<T: Elementary>(grad: &[T], y: &[T], width: usize, out: &mut [T]) {
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

struct Forward<'a, T> {
    x: &'a [T],
    width: usize,
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Forward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let mut exps = vec![T::ZERO; self.width];
        for (x, out) in self.x.chunks_exact(self.width).zip(self.out.chunks_exact_mut(self.width)) {
            let max = extrema::max(x).expect("a row has elements");
            for ((out, exp), &x) in out.iter_mut().zip(&mut exps).zip(x) {
                *out = x - max;
                *exp = out.exp();
            }
            let log_sum = T::from_f64(reduce::sum_of(&exps, |x| x.into())).log();
            for out in out {
                *out = (*out - log_sum).canonical();
            }
        }
    }
}

struct Backward<'a, T> {
    grad: &'a [T],
    y: &'a [T],
    width: usize,
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Backward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let rows = self.grad.chunks_exact(self.width).zip(self.y.chunks_exact(self.width));
        for ((grad, y), out) in rows.zip(self.out.chunks_exact_mut(self.width)) {
            let sum = -T::from_f64(reduce::sum_of(grad, |x| x.into()));
            for ((out, &grad), &y) in out.iter_mut().zip(grad).zip(y) {
                *out = y.exp().mul_add(sum, grad).canonical();
            }
        }
    }
}
