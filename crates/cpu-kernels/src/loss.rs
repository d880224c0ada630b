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

/// The targets of a classification and what each counts.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a, T> {
    /// One class per position, in the order (sample, inner).
    pub classes: &'a [i64],
    /// The number of classes.
    pub count: usize,
    /// Positions of one sample.
    pub inner: usize,
    /// The weight of each class; 1 if missing.
    pub weight: Option<&'a [T]>,
    /// A class that does not count.
    pub ignore_index: i64,
}

impl<T: Copy + Into<f64>> Targets<'_, T> {
    /// Checks every class.
    ///
    /// # Errors
    ///
    /// [`Error::IndexOutOfRange`] for the first that is neither a class nor ignored.
    pub fn check(&self) -> Result<()> {
        let valid = |&class: &i64| {
            class == self.ignore_index
                || usize::try_from(class).is_ok_and(|class| class < self.count)
        };
        match self.classes.iter().position(|class| !valid(class)) {
            Some(position) => Err(Error::IndexOutOfRange {
                op: "nll_loss",
                position,
                index: self.classes[position],
                size: self.count,
            }),
            None => Ok(()),
        }
    }

    /// What position `i` counts.
    fn weight(&self, i: usize) -> f64 {
        match self.place(i) {
            None => 0.0,
            Some(_) => self.weight.map_or(1.0, |weight| weight[self.classes[i] as usize].into()),
        }
    }

    /// Where the log-probability of the target of position `i` lies, if it counts.
    fn place(&self, i: usize) -> Option<usize> {
        if self.classes[i] == self.ignore_index {
            return None;
        }
        let (sample, inner) = (i / self.inner, i % self.inner);
        Some((sample * self.count + self.classes[i] as usize) * self.inner + inner)
    }

    /// `weight · log_prob` at position `i`, if it counts.
    fn term(&self, log_probs: &[T], i: usize) -> Option<f64> {
        self.place(i).map(|place| self.weight(i) * log_probs[place].into())
    }
}

/// The negative log-likelihood at each position, the product of f64 rounded once.
///
/// # Errors
///
/// As [`Targets::check`].
pub fn nll_loss<T: Elementary>(
    log_probs: &[T],
    targets: Targets<'_, T>,
    out: &mut [T],
) -> Result<()> {
    targets.check()?;
    for (i, out) in out.iter_mut().enumerate() {
        *out = T::from_f64(targets.term(log_probs, i).map_or(0.0, |term| -term)).canonical();
    }
    Ok(())
}

/// The sum of the losses and that of the weights, over the f64 tree, not yet rounded.
///
/// # Errors
///
/// As [`Targets::check`].
pub fn nll_loss_sums<T: Elementary>(
    log_probs: &[T],
    targets: Targets<'_, T>,
) -> Result<(f64, f64)> {
    targets.check()?;
    let n = targets.classes.len();
    let sum = reduce::sum_by(n, |i| targets.term(log_probs, i).unwrap_or(0.0));
    Ok((-sum, weights(targets)?))
}

/// The sum of the weights of all positions, over the f64 tree.
///
/// # Errors
///
/// As [`Targets::check`].
pub fn weights<T: Elementary>(targets: Targets<'_, T>) -> Result<f64> {
    targets.check()?;
    Ok(reduce::sum_by(targets.classes.len(), |i| targets.weight(i)))
}

/// The gradient of the losses: `−grad(i) · weight / divisor` at each target, computed in f64 and
/// rounded once, +0 elsewhere.
///
/// # Errors
///
/// As [`Targets::check`].
pub fn nll_loss_backward<T: Elementary>(
    grad: impl Fn(usize) -> T,
    divisor: f64,
    targets: Targets<'_, T>,
    out: &mut [T],
) -> Result<()> {
    targets.check()?;
    out.fill(T::ZERO);
    for i in 0..targets.classes.len() {
        if let Some(place) = targets.place(i) {
            let value = -(grad(i).into() * targets.weight(i)) / divisor;
            out[place] = T::from_f64(value).canonical();
        }
    }
    Ok(())
}

/// Elements of rows that are handled together, if the rows are shorter.
const TOGETHER: usize = 1024;

struct Forward<'a, T> {
    x: &'a [T],
    width: usize,
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Forward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let width = self.width;
        // Short rows go through each step together, so that the steps are whole vectors.
        let size = (TOGETHER / width).max(1) * width;
        let mut exps = vec![T::ZERO; size];
        let mut maxima = vec![T::ZERO; size / width];
        let mut sums = vec![0.0; size / width];
        for (x, out) in self.x.chunks(size).zip(self.out.chunks_mut(size)) {
            let exps = &mut exps[..x.len()];
            let maxima = &mut maxima[..x.len() / width];
            let sums = &mut sums[..x.len() / width];
            extrema::max_rows(x, width, maxima);
            let rows = x.chunks_exact(width).zip(out.chunks_exact_mut(width));
            for ((x, out), &max) in rows.zip(&*maxima) {
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = x - max;
                }
            }
            for (exp, out) in exps.iter_mut().zip(&*out) {
                *exp = out.exp();
            }
            reduce::rows(exps, width, |_| |x: T| x.into(), sums);
            let logs = maxima;
            for (log, &sum) in logs.iter_mut().zip(&*sums) {
                *log = T::from_f64(sum).log();
            }
            for (out, &log) in out.chunks_exact_mut(width).zip(&*logs) {
                for out in out {
                    *out = (*out - log).canonical();
                }
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
        let width = self.width;
        let mut sums = vec![0.0; self.grad.len() / width];
        reduce::rows(self.grad, width, |_| |x: T| x.into(), &mut sums);
        let rows = self.grad.chunks_exact(width).zip(self.y.chunks_exact(width));
        for (((grad, y), out), sum) in rows.zip(self.out.chunks_exact_mut(width)).zip(sums) {
            let sum = -T::from_f64(sum);
            for ((out, &grad), &y) in out.iter_mut().zip(grad).zip(y) {
                *out = y.exp().mul_add(sum, grad).canonical();
            }
        }
    }
}
