//! Connectionist temporal classification: forward and backward recursions.
//!
//! The labels of a sequence, with a blank before, between and after them, are its states
//! `s = 0, 1, ..`. With `x[t, s]` the log-probability of the label of state `s` at step `t`:
//!
//! ```text
//! alpha[0, s] = x[0, s]                            for s < 2, else -inf
//! alpha[t, s] = log3(alpha[t-1, s], alpha[t-1, s-1], alpha[t-1, s-2]) + x[t, s]
//! beta[T-1, s] = 0                                 for the last two states, else -inf
//! beta[t, s]  = log3(beta[t+1, s] + x[t+1, s], beta[t+1, s+1] + x[t+1, s+1],
//!                    beta[t+1, s+2] + x[t+1, s+2])
//! ll          = log3(alpha[T-1, S-1], alpha[T-1, S-2], -inf)
//! log3(a, b, c) = m + log((exp(a - m) + exp(b - m)) + exp(c - m)),  m = max(a, b, c), or 0
//!                                                                   if that is -inf
//! ```
//!
//! The third argument is -inf if the skip is not allowed: the later of the two states is a blank,
//! or has the label of the earlier one.
//!
//! # Determinism
//!
//! `Portable`. Everything is computed in f64, in the order written above; sequences are independent
//! of each other. The gradient of class `c` at step `t` is `(exp(x) - sum) * g`; `sum` starts from
//! +0 and adds `exp((alpha[t, s] + beta[t, s]) - ll)` of the states with label `c`, ascending. The
//! gradient is rounded once.
//!
//! # References
//!
//! A. Graves, S. Fernández, F. Gomez and J. Schmidhuber, *Connectionist Temporal Classification*,
//! ICML 2006.

use samebits_numerics::math;
use samebits_numerics::simd::{self, Kernel};

use crate::elementwise::Elementary;
use crate::error::{Error, Result, expect_countable, expect_len, expect_size};
use crate::{memory, parallel};

/// A batch of sequences and their labels.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a, T> {
    /// (steps, n, classes) log-probabilities.
    pub log_probs: &'a [T],
    /// The number of sequences.
    pub n: usize,
    /// The number of classes.
    pub classes: usize,
    /// The labels of all sequences.
    pub labels: &'a [i64],
    /// The start of each sequence in `labels`.
    pub starts: &'a [usize],
    /// The number of labels of each sequence.
    pub target_lengths: &'a [usize],
    /// The number of valid steps of each sequence.
    pub input_lengths: &'a [usize],
    /// The class that stands for no label.
    pub blank: usize,
}

/// Returns the negative log-likelihood of each sequence, not yet rounded: `+inf` if its labels do
/// not fit into its steps.
///
/// # Errors
///
/// [`Error::IndexOutOfRange`] if a label or the blank is not a class; [`Error::Length`] if a slice
/// has the wrong length; [`Error::Argument`] if a sequence claims more labels or steps than there
/// are; [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::ctc::{Batch, ctc_loss};
///
/// // Two steps, one label: it is emitted at the first step, the second or both.
/// let half = 0.5f64.ln();
/// let batch = Batch {
///     log_probs: &[half; 4],
///     n: 1,
///     classes: 2,
///     labels: &[1],
///     starts: &[0],
///     target_lengths: &[1],
///     input_lengths: &[2],
///     blank: 0,
/// };
/// assert!((ctc_loss(batch)?[0] - -0.75f64.ln()).abs() < 1e-15);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
pub fn ctc_loss<T: Elementary>(batch: Batch<'_, T>) -> Result<Vec<f64>> {
    batch.check()?;
    parallel::try_each(OP, batch.n, batch.log_probs.len(), |i| {
        let states = States::new(&batch, i)?;
        let mut alpha = [states.row()?, states.row()?];
        let mut emitted = states.row()?;
        for t in 0..batch.input_lengths[i] {
            let [previous, next] = &mut alpha;
            states.forward(t, &mut emitted, previous, next);
            alpha.swap(0, 1);
        }
        Ok(-states.likelihood(batch.input_lengths[i], &alpha[0]))
    })
}

/// Computes the gradient with respect to the log-probabilities: `(exp(log_prob) − posterior) ·
/// scale`, and +0 after the end of a sequence. `scale[i]` is the gradient of the loss of sequence
/// `i`. For an infinite loss the result is NaN, or +0 with `zero_infinity`.
///
/// # Errors
///
/// As [`ctc_loss`].
pub fn ctc_loss_backward<T: Elementary>(
    batch: Batch<'_, T>,
    scale: &[f64],
    zero_infinity: bool,
    out: &mut [T],
) -> Result<()> {
    batch.check()?;
    expect_len(OP, "scale", scale.len(), batch.n)?;
    expect_len(OP, "out", out.len(), batch.log_probs.len())?;
    let grads = parallel::try_each(OP, batch.n, batch.log_probs.len(), |i| {
        gradient(&States::new(&batch, i)?, batch.input_lengths[i], scale[i], zero_infinity)
    })?;
    out.fill(T::ZERO);
    for (i, grad) in grads.iter().enumerate() {
        for (t, row) in grad.chunks_exact(batch.classes).enumerate() {
            out[(t * batch.n + i) * batch.classes..][..batch.classes].copy_from_slice(row);
        }
    }
    Ok(())
}

/// Returns the gradient of one sequence: `steps` rows of all classes.
fn gradient<T: Elementary>(
    states: &States<'_, T>,
    steps: usize,
    scale: f64,
    zero_infinity: bool,
) -> Result<Vec<T>> {
    let mut emitted = states.row()?;
    let width = emitted.len();
    // The alpha of every step; row t + 1 belongs to step t.
    let rows = memory::volume(OP, &[steps + 1, width])?;
    let mut alpha = memory::filled(OP, rows, f64::NEG_INFINITY)?;
    for t in 0..steps {
        let (before, after) = alpha.split_at_mut((t + 1) * width);
        states.forward(t, &mut emitted, &before[t * width..], &mut after[..width]);
    }
    let likelihood = states.likelihood(steps, &alpha[steps * width..]);
    let mut out = memory::filled(OP, steps * states.classes, T::ZERO)?;
    if likelihood == f64::NEG_INFINITY {
        if !zero_infinity {
            out.fill(T::from_f64(f64::NAN).canonical());
        }
        return Ok(out);
    }
    let mut beta = [states.row()?, states.row()?];
    let mut posterior = memory::zeroed(OP, states.label.len())?;
    let mut sums = memory::zeroed(OP, states.classes)?;
    for t in (0..steps).rev() {
        let [following, now] = &mut beta;
        states.backward(t, steps, following, now);
        simd::dispatch(Posterior {
            alpha: &alpha[(t + 1) * width + PAD..],
            beta: now,
            likelihood,
            out: &mut posterior,
        });
        sums.fill(0.0);
        for (&label, &share) in states.label.iter().zip(&posterior) {
            sums[label] += share;
        }
        let to = &mut out[t * states.classes..][..states.classes];
        simd::dispatch(Difference { log_probs: states.at(t), sums: &sums, scale, out: to });
        beta.swap(0, 1);
    }
    Ok(out)
}

const OP: &str = "ctc_loss";

/// The number of dummy states at the start of a row of alpha and at the end of a row of beta.
const PAD: usize = 2;

/// The states of one sequence.
struct States<'a, T> {
    log_probs: &'a [T],
    /// The number of elements from one step to the next.
    stride: usize,
    classes: usize,
    /// The class of each state.
    label: Vec<usize>,
    /// 0 if a state can follow the one two before it, else -inf; two more at the end.
    skip: Vec<f64>,
}

impl<'a, T: Elementary> States<'a, T> {
    fn new(batch: &Batch<'a, T>, i: usize) -> Result<Self> {
        let labels = &batch.labels[batch.starts[i]..][..batch.target_lengths[i]];
        let mut label = memory::filled(OP, 2 * labels.len() + 1, batch.blank)?;
        let mut skip = memory::filled(OP, label.len() + PAD, f64::NEG_INFINITY)?;
        for (k, &class) in labels.iter().enumerate() {
            label[2 * k + 1] = class as usize;
            if k > 0 && class != labels[k - 1] {
                skip[2 * k + 1] = 0.0;
            }
        }
        let (classes, n) = (batch.classes, batch.n);
        let log_probs = batch.log_probs.get(i * classes..).unwrap_or(&[]);
        Ok(States { log_probs, stride: n * classes, classes, label, skip })
    }

    /// Returns a row of states, all of them unreachable.
    fn row(&self) -> Result<Vec<f64>> {
        memory::filled(OP, self.label.len() + PAD, f64::NEG_INFINITY)
    }

    /// Returns the log-probabilities of step `t`.
    fn at(&self, t: usize) -> &[T] {
        &self.log_probs[t * self.stride..][..self.classes]
    }

    /// Computes alpha of step `t` from the step before. `emitted` is scratch space.
    fn forward(&self, t: usize, emitted: &mut [f64], previous: &[f64], next: &mut [f64]) {
        let x = self.at(t);
        let emitted = &mut emitted[..self.label.len()];
        for (emitted, &label) in emitted.iter_mut().zip(&self.label) {
            *emitted = x[label].into();
        }
        next[..PAD].fill(f64::NEG_INFINITY);
        if t == 0 {
            next[PAD..].fill(f64::NEG_INFINITY);
            let begin = emitted.len().min(2);
            next[PAD..PAD + begin].copy_from_slice(&emitted[..begin]);
            return;
        }
        let skip = &self.skip[..emitted.len()];
        simd::dispatch(Forward { previous, skip, emitted, next: &mut next[PAD..] });
    }

    /// Computes beta of step `t` from the step after.
    fn backward(&self, t: usize, steps: usize, following: &mut [f64], now: &mut [f64]) {
        let states = self.label.len();
        now.fill(f64::NEG_INFINITY);
        if t + 1 == steps {
            now[states.saturating_sub(2)..states].fill(0.0);
            return;
        }
        let x = self.at(t + 1);
        for (beta, &label) in following.iter_mut().zip(&self.label) {
            *beta += x[label].into();
        }
        simd::dispatch(Backward { following, skip: &self.skip[PAD..], now: &mut now[..states] });
    }

    /// Returns the log-likelihood from alpha after all steps.
    fn likelihood(&self, steps: usize, alpha: &[f64]) -> f64 {
        let states = self.label.len();
        if steps == 0 {
            // Without steps, only an empty label sequence is possible.
            return if states == 1 { 0.0 } else { f64::NEG_INFINITY };
        }
        // If there is a single state, the other operand lies in the padding.
        log3(alpha[PAD + states - 1], alpha[PAD + states - 2], f64::NEG_INFINITY)
    }
}

impl<T> Batch<'_, T> {
    fn check(&self) -> Result<()> {
        expect_len(OP, "starts", self.starts.len(), self.n)?;
        expect_len(OP, "target_lengths", self.target_lengths.len(), self.n)?;
        expect_len(OP, "input_lengths", self.input_lengths.len(), self.n)?;
        expect_countable(OP, &[self.n, self.classes])?;
        let steps = self.log_probs.len().checked_div(self.n * self.classes).unwrap_or(0);
        expect_size(OP, "log_probs", self.log_probs.len(), &[steps, self.n, self.classes])?;
        if self.n > 0 && self.blank >= self.classes {
            let message = format!("blank {} is not one of {} classes", self.blank, self.classes);
            return Err(Error::argument(OP, message));
        }
        if let Some(&length) = self.input_lengths.iter().find(|&&length| length > steps) {
            let message = format!("an input length of {length}, but there are {steps} steps");
            return Err(Error::argument(OP, message));
        }
        for (&start, &length) in self.starts.iter().zip(self.target_lengths) {
            let end = start.saturating_add(length);
            let Some(labels) = self.labels.get(start..end) else {
                let message =
                    format!("labels {start} to {end}, but there are {}", self.labels.len());
                return Err(Error::argument(OP, message));
            };
            let valid = |&class: &i64| usize::try_from(class).is_ok_and(|c| c < self.classes);
            if let Some(position) = labels.iter().position(|class| !valid(class)) {
                return Err(Error::IndexOutOfRange {
                    op: OP,
                    position: start + position,
                    index: labels[position],
                    size: self.classes,
                });
            }
        }
        Ok(())
    }
}

#[inline(always)]
fn log3(a: f64, b: f64, c: f64) -> f64 {
    let m = if b > a { b } else { a };
    let m = if c > m { c } else { m };
    let m = if m == f64::NEG_INFINITY { 0.0 } else { m };
    let sum = math::f64::exp(a - m) + math::f64::exp(b - m) + math::f64::exp(c - m);
    m + math::f64::log(sum)
}

struct Forward<'a> {
    previous: &'a [f64],
    skip: &'a [f64],
    emitted: &'a [f64],
    next: &'a mut [f64],
}

impl Kernel for Forward<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let states = self.emitted.len();
        let (a, b) = (&self.previous[PAD..][..states], &self.previous[1..][..states]);
        let (c, skip) = (&self.previous[..states], &self.skip[..states]);
        let next = &mut self.next[..states];
        for s in 0..states {
            next[s] = log3(a[s], b[s], c[s] + skip[s]) + self.emitted[s];
        }
    }
}

struct Backward<'a> {
    /// The beta of the step after, plus the log-probabilities of that step.
    following: &'a [f64],
    /// The `skip` of the state two further on.
    skip: &'a [f64],
    now: &'a mut [f64],
}

impl Kernel for Backward<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let states = self.now.len();
        let (a, b) = (&self.following[..states], &self.following[1..][..states]);
        let (c, skip) = (&self.following[PAD..][..states], &self.skip[..states]);
        for s in 0..states {
            self.now[s] = log3(a[s], b[s], c[s] + skip[s]);
        }
    }
}

struct Posterior<'a> {
    alpha: &'a [f64],
    beta: &'a [f64],
    likelihood: f64,
    out: &'a mut [f64],
}

impl Kernel for Posterior<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for ((out, &alpha), &beta) in self.out.iter_mut().zip(self.alpha).zip(self.beta) {
            *out = math::f64::exp((alpha + beta) - self.likelihood);
        }
    }
}

struct Difference<'a, T> {
    log_probs: &'a [T],
    sums: &'a [f64],
    scale: f64,
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Difference<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for ((out, &x), &sum) in self.out.iter_mut().zip(self.log_probs).zip(self.sums) {
            *out = T::from_f64((math::f64::exp(x.into()) - sum) * self.scale).canonical();
        }
    }
}
