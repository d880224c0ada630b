//! Softmax and the negative log-likelihood on rows.
//!
//! # Determinism
//!
//! `Portable`. Rows are independent of each other; the sum of exponentials of a row runs in f64
//! over the contract's fixed tree.

use crate::error::{Error, Result, expect_countable, expect_len, expect_size};
use samebits_numerics::fpenv;
use samebits_numerics::reduce::{self, Accumulator, BLOCK};
use samebits_numerics::simd::{self, Aligned, Kernel};

use crate::elementwise::Elementary;
use crate::quotient::divide_each;
use crate::reduce::columns::sums_of;
use crate::reduce::{maxima_of_rows, sums_of_rows};
use crate::{memory, parallel};

mod columns;
mod runs;
mod strips;

pub use columns::{
    log_softmax_along, log_softmax_along_backward, softmax_along, softmax_along_backward,
};

/// Computes `out = (x − max) − log Σ exp(x − max)` along each row of `width` elements.
///
/// `x − max` is rounded to the element type, and its exponential is that of the type. The sum runs
/// over the f64 tree and is rounded to the type, and the logarithm is that of the type.
///
/// # Errors
///
/// [`Error::Length`] if the slices differ in length or are not whole rows; [`Error::OutOfMemory`].
pub fn log_softmax<T: Elementary>(x: &[T], width: usize, out: &mut [T]) -> Result<()> {
    forward(x, width, false, out)
}

/// Computes `exp(x − max) / Σ exp(x − max)` along each row, with the differences, exponentials and sums of
/// [`log_softmax`].
///
/// # Errors
///
/// As [`log_softmax`].
pub fn softmax<T: Elementary>(x: &[T], width: usize, out: &mut [T]) -> Result<()> {
    forward(x, width, true, out)
}

/// Computes [`softmax`] if `exp`, and otherwise its logarithms.
fn forward<T: Elementary>(x: &[T], width: usize, exp: bool, out: &mut [T]) -> Result<()> {
    check_rows(&[("x", x)], width, out)?;
    // Several short rows go through each step together, so that the steps use whole vectors.
    let size = (TOGETHER / width.max(1)).max(1) * width;
    parallel::try_costly_rows(cost::<T>(), width, out, |start, out| {
        let x = &x[start..start + out.len()];
        if strips::are_turned(out.len() / width, width) {
            return strips::rows(x, width, exp, out);
        }
        let mut maxima = memory::filled(SOFTMAX, size / width, T::ZERO)?;
        let mut sums = memory::zeroed(SOFTMAX, size / width)?;
        let (maxima, sums) = (&mut maxima, &mut sums);
        simd::dispatch(Forward { exp, x, width, out, maxima, sums });
        Ok(())
    })
}

/// Computes `out = grad − exp(y) · Σ grad` along each row: the sum is rounded to the element type,
/// then one fma follows.
///
/// # Errors
///
/// As [`log_softmax`].
pub fn log_softmax_backward<T: Elementary>(
    grad: &[T],
    y: &[T],
    width: usize,
    out: &mut [T],
) -> Result<()> {
    check_rows(&[("grad", grad), ("y", y)], width, out)?;
    parallel::try_costly_rows(cost::<T>(), width, out, |start, out| {
        let range = start..start + out.len();
        simd::dispatch(Backward { grad: &grad[range.clone()], y: &y[range], width, out });
        Ok(())
    })
}

/// Computes `out = g − y · Σ g` along each row, with `g = grad · y` rounded: the sum is rounded to
/// the element type, then one fma follows.
///
/// # Errors
///
/// As [`log_softmax`].
pub fn softmax_backward<T: Elementary>(
    grad: &[T],
    y: &[T],
    width: usize,
    out: &mut [T],
) -> Result<()> {
    check_rows(&[("grad", grad), ("y", y)], width, out)?;
    parallel::try_costly_rows(cost::<T>(), width, out, |start, out| {
        let range = start..start + out.len();
        let sums = &mut memory::zeroed(SOFTMAX, out.len() / width)?;
        simd::dispatch(OfSoftmax { grad: &grad[range.clone()], y: &y[range], width, sums, out });
        Ok(())
    })
}

/// Returns how many simple elements take as long as one with its exponential.
fn cost<T>() -> usize {
    if size_of::<T>() == 4 { 4 } else { 8 }
}

fn check_rows<T>(inputs: &[(&'static str, &[T])], width: usize, out: &[T]) -> Result<()> {
    for (what, input) in inputs {
        expect_len(SOFTMAX, what, input.len(), out.len())?;
    }
    let rows = out.len().checked_div(width).unwrap_or(0);
    expect_size(SOFTMAX, "out", out.len(), &[rows, width])
}

const SOFTMAX: &str = "log_softmax";
const NLL: &str = "nll_loss";

/// The targets of a classification, and their weights.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a, T> {
    /// The class of each position, in the order (sample, inner).
    pub classes: &'a [i64],
    /// The number of classes.
    pub count: usize,
    /// The number of positions of a sample.
    pub inner: usize,
    /// The weight of each class; 1 if missing.
    pub weight: Option<&'a [T]>,
    /// A class that is ignored.
    pub ignore_index: i64,
}

impl<T: Copy + Into<f64>> Targets<'_, T> {
    /// Checks the number of positions and weights, and every class.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if the positions are not whole samples or there is not one weight per
    /// class; [`Error::Argument`] if the number of log-probabilities overflows;
    /// [`Error::IndexOutOfRange`] for the first target that is neither a class nor ignored.
    pub fn check(&self) -> Result<()> {
        let samples = self.samples();
        expect_size(NLL, "classes", self.classes.len(), &[samples, self.inner])?;
        expect_countable(NLL, &[samples, self.count, self.inner])?;
        if let Some(weight) = self.weight {
            expect_len(NLL, "weight", weight.len(), self.count)?;
        }
        let &Targets { classes, count, ignore_index, .. } = self;
        if simd::dispatch(AreClasses { classes, count, ignore_index }) {
            return Ok(());
        }
        let valid = |class: &i64| *class == ignore_index || (*class as u64) < count as u64;
        match classes.iter().position(|class| !valid(class)) {
            Some(position) => Err(Error::IndexOutOfRange {
                op: NLL,
                position,
                index: self.classes[position],
                size: self.count,
            }),
            None => Ok(()),
        }
    }

    /// Computes [`check`](Targets::check), and checks that there is a log-probability for each
    /// class.
    fn check_with(&self, what: &'static str, log_probs: usize) -> Result<()> {
        self.check()?;
        expect_size(NLL, what, log_probs, &[self.samples(), self.count, self.inner])
    }

    fn samples(&self) -> usize {
        self.classes.len().checked_div(self.inner).unwrap_or(0)
    }

    /// Returns the sum of the weights of all positions, over the f64 tree.
    fn total_weight(&self) -> f64 {
        if self.weight.is_some() {
            let weight = |i: usize| self.class(i).map_or(0.0, |class| self.weight(class));
            return fpenv::ieee(|| reduce::sum_by(self.classes.len(), weight));
        }
        // A count is the same in any order.
        self.classes.iter().filter(|&&class| class != self.ignore_index).count() as f64
    }

    /// Returns the class of position `i`, unless it is ignored.
    fn class(&self, i: usize) -> Option<usize> {
        (self.classes[i] != self.ignore_index).then(|| self.classes[i] as usize)
    }

    /// Returns the weight of a class.
    fn weight(&self, class: usize) -> f64 {
        self.weight.map_or(1.0, |weight| weight[class].into())
    }

    /// Returns each position from number `first` on with its class and the index of the log-probability of
    /// that, unless the position is ignored.
    fn places(
        &self,
        first: usize,
    ) -> impl Iterator<Item = (usize, Option<(usize, usize)>)> + use<'_, T> {
        let size = self.count * self.inner;
        let inner = self.inner.max(1);
        let (mut start, mut column) = (first / inner * size, first % inner);
        (first..self.classes.len()).map(move |i| {
            let place = self.class(i).map(|class| (class, start + class * inner + column));
            column += 1;
            if column == inner {
                (start, column) = (start + size, 0);
            }
            (i, place)
        })
    }

    /// Returns `weight · log_prob` at the place of a class.
    fn term(&self, log_probs: &[T], (class, place): (usize, usize)) -> f64 {
        self.weight(class) * log_probs[place].into()
    }
}

/// Arguments of a kernel that returns true if all classes are in `0..count` or are ignored.
struct AreClasses<'a> {
    classes: &'a [i64],
    count: usize,
    ignore_index: i64,
}

impl Kernel for AreClasses<'_> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let AreClasses { classes, count, ignore_index } = self;
        let valid = |class: i64| (class == ignore_index) | ((class as u64) < count as u64);
        classes.iter().fold(true, |all, &class| all & valid(class))
    }
}

impl<T: Elementary> Targets<'_, T> {
    /// Returns the gradient of the log-probability of the class of position `i`.
    fn gradient(&self, grad: &impl Fn(usize) -> T, divisor: f64, i: usize, class: usize) -> T {
        let value = -(grad(i).into() * self.weight(class)) / divisor;
        T::from_f64(value).canonical()
    }
}

/// Computes the negative log-likelihood at each position: the product in f64, rounded once.
///
/// # Errors
///
/// As [`Targets::check`]; [`Error::Length`] if a slice has the wrong length.
pub fn nll_loss<T: Elementary>(
    log_probs: &[T],
    targets: Targets<'_, T>,
    out: &mut [T],
) -> Result<()> {
    targets.check_with("log_probs", log_probs.len())?;
    expect_len(NLL, "out", out.len(), targets.classes.len())?;
    parallel::pieces(out, |start, out| {
        for ((_, place), out) in targets.places(start).zip(out) {
            let loss = place.map_or(0.0, |place| -targets.term(log_probs, place));
            *out = T::from_f64(loss).canonical();
        }
    });
    Ok(())
}

/// Returns the sum of the losses and the sum of the weights, over the f64 tree, not yet rounded.
///
/// # Errors
///
/// As [`nll_loss`].
pub fn nll_loss_sums<T: Elementary>(
    log_probs: &[T],
    targets: Targets<'_, T>,
) -> Result<(f64, f64)> {
    targets.check_with("log_probs", log_probs.len())?;
    let mut sum = [0.0];
    sums_of(NLL, targets.classes.len(), &mut sum, |_, block, out| {
        let (mut sum, mut terms) = (Accumulator::new(), [0.0; 256]);
        let first = block * BLOCK;
        let mut places = targets.places(first);
        let classes = &targets.classes[first..];
        for some in classes[..classes.len().min(BLOCK)].chunks(terms.len()) {
            let terms = &mut terms[..some.len()];
            for (term, (_, place)) in terms.iter_mut().zip(&mut places) {
                *term = place.map_or(0.0, |place| targets.term(log_probs, place));
            }
            sum.push_slice(terms, |term| term);
        }
        out[0] = sum.finish();
    })?;
    Ok((-sum[0], targets.total_weight()))
}

/// Returns the sum of the weights of all positions, over the f64 tree.
///
/// # Errors
///
/// As [`Targets::check`].
pub fn weights<T: Elementary>(targets: Targets<'_, T>) -> Result<f64> {
    targets.check()?;
    Ok(targets.total_weight())
}

/// Computes the gradient of the losses: `−grad(i) · weight / divisor` at each target, in f64 and
/// rounded once; +0 elsewhere.
///
/// # Errors
///
/// As [`nll_loss`].
pub fn nll_loss_backward<T: Elementary>(
    grad: impl Fn(usize) -> T + Sync + Send,
    divisor: f64,
    targets: Targets<'_, T>,
    out: &mut [T],
) -> Result<()> {
    targets.check_with("out", out.len())?;
    // The elements of a sample, which contain the places of all its positions.
    let sample = targets.count * targets.inner;
    parallel::rows(sample, out, |start, piece| {
        piece.fill(T::ZERO);
        let positions = piece.len() / targets.count;
        for (i, place) in targets.places(start / targets.count).take(positions) {
            if let Some((class, place)) = place {
                piece[place - start] = targets.gradient(&grad, divisor, i, class);
            }
        }
    });
    Ok(())
}

/// Computes [`log_softmax_backward`] of the result of [`nll_loss_backward`] for rows of classes,
/// from the log-probabilities `y`, row by row.
///
/// # Errors
///
/// As [`nll_loss`]; [`Error::Argument`] if the targets have inner positions.
pub fn cross_entropy_backward<T: Elementary>(
    grad: impl Fn(usize) -> T + Sync + Send,
    divisor: f64,
    targets: Targets<'_, T>,
    y: &[T],
    out: &mut [T],
) -> Result<()> {
    targets.check_with("y", y.len())?;
    expect_len(NLL, "out", out.len(), y.len())?;
    if targets.inner != 1 {
        let message = format!("expected 1 position per sample, got {}", targets.inner);
        return Err(Error::argument(NLL, message));
    }
    let width = targets.count;
    parallel::rows(width, out, |start, piece| {
        let rows = y[start..][..piece.len()].chunks_exact(width);
        for (row, (y, out)) in rows.zip(piece.chunks_exact_mut(width)).enumerate() {
            let i = start / width + row;
            let value = |class| (class, targets.gradient(&grad, divisor, i, class));
            let target = targets.class(i).map(value);
            simd::dispatch(BackwardAt { target, y, out });
        }
    });
    Ok(())
}

/// The number of elements of rows handled together, if the rows are shorter.
const TOGETHER: usize = 1024;

struct Forward<'a, T> {
    /// Computes softmax, and not its logarithms.
    exp: bool,
    x: &'a [T],
    width: usize,
    out: &'a mut [T],
    /// Scratch memory for the rows that go through each step together.
    maxima: &'a mut [T],
    sums: &'a mut [f64],
}

impl<T: Elementary> Kernel for Forward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Forward { exp, x, width, out, maxima, sums } = self;
        let size = sums.len() * width;
        let mut differences = Aligned([T::ZERO; TOGETHER]);
        for (x, out) in x.chunks(size).zip(out.chunks_mut(size)) {
            let maxima = &mut maxima[..x.len() / width];
            let sums = &mut sums[..x.len() / width];
            maxima_of_rows(x, width, maxima);
            // Several rows, or a part of one.
            let pieces = x.chunks(TOGETHER).zip(out.chunks_mut(TOGETHER));
            for (piece, (x, out)) in pieces.enumerate() {
                let differences = &mut differences[..x.len()];
                let row = piece * TOGETHER / width;
                let rows = x.chunks(width).zip(differences.chunks_mut(width));
                for ((x, differences), &max) in rows.zip(&maxima[row..]) {
                    for (difference, &x) in differences.iter_mut().zip(x) {
                        *difference = x - max;
                    }
                }
                T::exp_each(differences, out);
            }
            sums_of_rows(out, width, sums);
            if exp {
                for (out, &sum) in out.chunks_exact_mut(width).zip(&*sums) {
                    divide_each(out, T::from_f64(sum));
                }
                continue;
            }
            let mut logs = Aligned([T::ZERO; TOGETHER]);
            let logs = &mut logs[..sums.len()];
            logs_of(sums, logs);
            let rows = x.chunks_exact(width).zip(out.chunks_exact_mut(width));
            for ((x, out), (&max, &log)) in rows.zip(maxima.iter().zip(&*logs)) {
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = ((x - max) - log).canonical();
                }
            }
        }
    }
}

/// Replaces elements by their exponentials.
fn exponentiate<T: Elementary>(elements: &mut [T]) {
    const SOME: usize = 256;
    let mut copy = [T::ZERO; SOME];
    for elements in elements.chunks_mut(SOME) {
        let copy = &mut copy[..elements.len()];
        copy.copy_from_slice(elements);
        T::exp_each(copy, elements);
    }
}

/// Computes the logarithms of sums, which are rounded first.
#[inline(always)]
fn logs_of<T: Elementary>(sums: &[f64], logs: &mut [T]) {
    const SOME: usize = 64;
    for (sums, logs) in sums.chunks(SOME).zip(logs.chunks_mut(SOME)) {
        let mut rounded = [T::ZERO; SOME];
        for (rounded, &sum) in rounded.iter_mut().zip(sums) {
            *rounded = T::from_f64(sum);
        }
        T::log_each(&rounded[..sums.len()], logs);
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
        sums_of_rows(self.grad, width, &mut sums);
        // Several short rows go through the exponential together.
        let size = (TOGETHER / width).max(1);
        let pieces = self.grad.chunks(size * width).zip(self.y.chunks(size * width));
        let outs = self.out.chunks_mut(size * width).zip(sums.chunks(size));
        for ((grad, y), (out, sums)) in pieces.zip(outs) {
            T::exp_each(y, out);
            let rows = grad.chunks_exact(width).zip(out.chunks_exact_mut(width));
            for ((grad, out), &sum) in rows.zip(sums) {
                let sum = -T::from_f64(sum);
                for (out, &grad) in out.iter_mut().zip(grad) {
                    *out = out.mul_add(sum, grad).canonical();
                }
            }
        }
    }
}

struct OfSoftmax<'a, T> {
    grad: &'a [T],
    y: &'a [T],
    width: usize,
    sums: &'a mut [f64],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for OfSoftmax<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let OfSoftmax { grad, y, width, sums, out } = self;
        // The products of some rows stay in a cache until they are used.
        let rows = (TOGETHER / width).max(1);
        let pieces = grad.chunks(rows * width).zip(y.chunks(rows * width));
        let outs = out.chunks_mut(rows * width).zip(sums.chunks_mut(rows));
        for ((grad, y), (out, sums)) in pieces.zip(outs) {
            for (out, (&grad, &y)) in out.iter_mut().zip(grad.iter().zip(y)) {
                *out = grad * y;
            }
            sums_of_rows(out, width, sums);
            let rows = y.chunks_exact(width).zip(out.chunks_exact_mut(width));
            for ((y, out), &sum) in rows.zip(&*sums) {
                let sum = -T::from_f64(sum);
                for (out, &y) in out.iter_mut().zip(y) {
                    *out = y.mul_add(sum, *out).canonical();
                }
            }
        }
    }
}

/// Computes [`Backward`] of a row whose gradient is +0 except at the target.
struct BackwardAt<'a, T> {
    target: Option<(usize, T)>,
    y: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for BackwardAt<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let value = self.target.map_or(T::ZERO, |(_, value)| value);
        // The sum over the tree, whose lanes start from +0.
        let sum = -T::from_f64(0.0 + value.into());
        T::exp_each(self.y, self.out);
        let target = self.target.map(|(at, value)| (at, self.out[at].mul_add(sum, value)));
        for out in &mut *self.out {
            *out = out.mul_add(sum, T::ZERO).canonical();
        }
        if let Some((at, value)) = target {
            self.out[at] = value.canonical();
        }
    }
}
