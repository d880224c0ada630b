//! Connectionist temporal classification.
//!
//! # Determinism
//!
//! Portable: the recursions run in f64 in the order that `samebits-cpu-kernels` documents, one
//! block per sequence; the gradient of a class adds the posteriors of its states in ascending
//! order. With [`Variant::Atomic`] the gradient adds them with float atomics instead, in the order
//! of arrival: it visits every state once, not once per class.

use crate::launch::declared::ctc::RawCtc;
use crate::launch::kernels::ctc as kernels;
use crate::launch::{Buffer, Launch};

use crate::Variant;
use crate::device::{Device, Float, expect_len, product};
use crate::error::{CudaError, Result};
use crate::loss::Reduction;
use crate::reduce::{Terms, finish, grid, sums};

/// The number of threads that process the states of a sequence.
const THREADS: u32 = 128;

/// A batch of sequences and their labels.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a, T> {
    /// The log-probabilities, `shape = [steps, n, classes]`.
    pub log_probs: &'a Buffer<T>,
    /// The shape of the log-probabilities.
    pub shape: [usize; 3],
    /// The labels of all sequences.
    pub labels: &'a Buffer<i64>,
    /// The total number of labels.
    pub count: usize,
    /// The start of each sequence in `labels`.
    pub starts: &'a [usize],
    /// The number of labels of each sequence.
    pub target_lengths: &'a [usize],
    /// The number of valid steps of each sequence.
    pub input_lengths: &'a [usize],
    /// The class that stands for no label.
    pub blank: usize,
}

/// Computes the negative log-likelihood of each sequence, or their sum, or the mean of the losses
/// divided by their numbers of labels.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] if the lengths do not fit together;
/// [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn ctc_loss<T: Float>(
    device: &Device,
    batch: Batch<'_, T>,
    reduction: Reduction,
    zero_infinity: bool,
) -> Result<Buffer<T>> {
    let op = "ctc_loss";
    let n = batch.shape[1];
    let run = Run::new(device, op, &batch)?;
    let mean = reduction == Reduction::Mean;
    let kind = u32::from(zero_infinity) | u32::from(mean) << 1;
    let mut losses = device.uninitialised::<f64>(op, n)?;
    kernels::CtcLosses {
        losses: &mut losses,
        likelihood: &run.likelihood,
        lengths: &run.lengths,
        n,
        kind,
    }
    .threads(device, op, n)?;
    if reduction == Reduction::None {
        return finish(device, op, &losses, n, 1.0);
    }
    let sum = sums(device, op, &losses, [1, n, 1], Terms::Plain)?;
    finish(device, op, &sum, 1, if mean { n as f64 } else { 1.0 })
}

/// Computes the gradient of [`ctc_loss`]: `exp(log_probs) − posterior`, scaled by `grad`, which has
/// one element, or one per sequence without a reduction.
///
/// # Errors
///
/// As [`ctc_loss`]; [`CudaError::InvalidArgument`] for [`Variant::Atomic`] of f64.
pub fn ctc_loss_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    batch: Batch<'_, T>,
    reduction: Reduction,
    zero_infinity: bool,
    variant: Variant,
) -> Result<Buffer<T>> {
    let op = "ctc_loss";
    let n = batch.shape[1];
    let each = reduction == Reduction::None;
    expect_len(op, "the gradient", grad, if each { n } else { 1 })?;
    let mut run = Run::new(device, op, &batch)?;
    let blocks = grid(op, n)?;
    let mut beta = device.uninitialised::<f64>(op, product(op, &[n, 2, run.states()])?)?;
    kernels::CtcPosterior {
        alpha: &mut run.alpha,
        beta: &mut beta,
        likelihood: &run.likelihood,
        log_probs: batch.log_probs,
        labels: batch.labels,
        lengths: &run.lengths,
        p: run.raw,
    }
    .grid(device, op, (blocks, 1, 1), (THREADS, 1, 1))?;
    let elements = product(op, &batch.shape)?;
    let mean = reduction == Reduction::Mean;
    let kind = u32::from(zero_infinity) | u32::from(mean) << 1 | u32::from(each) << 2;
    let mut out = device.uninitialised(op, elements)?;
    if variant == Variant::Atomic {
        kernels::CtcGradStart {
            out: &mut out,
            grad,
            likelihood: &run.likelihood,
            log_probs: batch.log_probs,
            labels: batch.labels,
            lengths: &run.lengths,
            p: run.raw,
            kind,
        }
        .threads(device, op, elements)?;
        kernels::CtcGradAtomic {
            out: &mut out,
            grad,
            posterior: &run.alpha,
            likelihood: &run.likelihood,
            labels: batch.labels,
            lengths: &run.lengths,
            p: run.raw,
            kind,
        }
        .threads(device, op, product(op, &[n, batch.shape[0], run.states()])?)?;
        return Ok(out);
    }
    kernels::CtcGrad {
        out: &mut out,
        grad,
        posterior: &run.alpha,
        likelihood: &run.likelihood,
        log_probs: batch.log_probs,
        labels: batch.labels,
        lengths: &run.lengths,
        p: run.raw,
        kind,
    }
    .threads(device, op, elements)?;
    Ok(out)
}

/// The results of the forward recursion.
struct Run {
    raw: RawCtc,
    /// For each sequence: its start, its number of labels, its number of steps.
    lengths: Buffer<u64>,
    alpha: Buffer<f64>,
    likelihood: Buffer<f64>,
}

impl Run {
    fn new<T: Float>(device: &Device, op: &'static str, batch: &Batch<'_, T>) -> Result<Run> {
        let [steps, n, classes] = batch.shape;
        batch.check(op)?;
        let longest = batch.target_lengths.iter().copied().max().unwrap_or(0);
        let raw = RawCtc { steps, n, classes, states: 2 * longest + 1, blank: batch.blank };
        let lists = [batch.starts, batch.target_lengths, batch.input_lengths];
        let lengths: Vec<u64> = lists.concat().into_iter().map(|x| x as u64).collect();
        let lengths = device.upload(&lengths)?;
        let checked = product(op, &[n, longest])?;
        if checked > 0 {
            let mut reports = device.reports();
            kernels::CtcCheck {
                labels: batch.labels,
                lengths: &lengths,
                p: raw,
                status: reports.noted(),
            }
            .threads(device, op, checked)?;
            reports.collect(device, op, batch.labels, classes)?;
        }
        let size = product(op, &[n, steps, raw.states])?;
        let mut alpha = device.uninitialised(op, size)?;
        let mut likelihood = device.uninitialised(op, n)?;
        kernels::CtcAlpha {
            alpha: &mut alpha,
            likelihood: &mut likelihood,
            log_probs: batch.log_probs,
            labels: batch.labels,
            lengths: &lengths,
            p: raw,
        }
        .grid(device, op, (grid(op, n)?, 1, 1), (THREADS, 1, 1))?;
        Ok(Run { raw, lengths, alpha, likelihood })
    }

    fn states(&self) -> usize {
        self.raw.states
    }
}

impl<T> Batch<'_, T> {
    fn check(&self, op: &'static str) -> Result<()> {
        let [steps, n, classes] = self.shape;
        expect_len(op, "the log-probabilities", self.log_probs, product(op, &self.shape)?)?;
        expect_len(op, "the labels", self.labels, self.count)?;
        let lists = [self.starts, self.target_lengths, self.input_lengths];
        let ends = self.starts.iter().zip(self.target_lengths);
        let fits = lists.iter().all(|list| list.len() == n)
            && self.blank < classes
            && self.input_lengths.iter().all(|&length| length <= steps)
            && ends.into_iter().all(|(start, length)| {
                start.checked_add(*length).is_some_and(|end| end <= self.count)
            });
        if fits {
            return Ok(());
        }
        Err(CudaError::invalid(
            op,
            format!(
                "starts {:?}, target lengths {:?}, input lengths {:?} and blank {} do not \
                 fit {:?} and {} labels",
                self.starts,
                self.target_lengths,
                self.input_lengths,
                self.blank,
                self.shape,
                self.count
            ),
        ))
    }
}
