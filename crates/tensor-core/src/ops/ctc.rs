//! Connectionist temporal classification.

use super::{Reduction, expect_dtype, expect_float, expect_shape};
use crate::{DType, Error, Op, Result, Tensor};

/// The label sequences of a batch, and the lengths of inputs and labels.
#[derive(Clone, Debug)]
pub struct CtcTargets {
    /// i64: `[n, s]`, with each row padded at its end, or all sequences one after the other.
    pub labels: Tensor,
    /// The number of valid steps of each sequence.
    pub input_lengths: Vec<usize>,
    /// The number of labels of each sequence.
    pub target_lengths: Vec<usize>,
    /// The class that stands for no label.
    pub blank: usize,
}

/// The sizes of a batch of label sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtcBatch {
    /// The shape `[steps, n, classes]` of the log-probabilities.
    pub shape: [usize; 3],
    /// The start of each sequence in the flattened labels.
    pub starts: Vec<usize>,
}

impl CtcTargets {
    /// Returns the start of each sequence in the flattened labels.
    fn starts(&self) -> Vec<usize> {
        if let &[n, width] = self.labels.shape() {
            return (0..n).map(|i| i * width).collect();
        }
        let mut next = 0;
        self.target_lengths
            .iter()
            .map(|length| {
                let start = next;
                next += length;
                start
            })
            .collect()
    }

    fn check(&self, op: &'static str, log_probs: &Tensor) -> Result<CtcBatch> {
        expect_float(op, "the log-probabilities", log_probs)?;
        expect_dtype(op, "the targets", &self.labels, DType::I64)?;
        let &[steps, n, classes] = log_probs.shape() else {
            return Err(Error::invalid(
                op,
                format!(
                    "expected log-probabilities of shape [steps, n, classes], got {:?}",
                    log_probs.shape()
                ),
            ));
        };
        if self.blank >= classes {
            return Err(Error::invalid(
                op,
                format!("blank is {}, but there are {classes} classes", self.blank),
            ));
        }
        for (what, lengths) in
            [("input_lengths", &self.input_lengths), ("target_lengths", &self.target_lengths)]
        {
            if lengths.len() != n {
                return Err(Error::invalid(
                    op,
                    format!("{what} has {} entries for a batch of {n}", lengths.len()),
                ));
            }
        }
        if let Some(long) = self.input_lengths.iter().find(|&&length| length > steps) {
            return Err(Error::invalid(
                op,
                format!("an input length of {long} exceeds the {steps} steps"),
            ));
        }
        self.check_labels(op, n)?;
        Ok(CtcBatch { shape: [steps, n, classes], starts: self.starts() })
    }

    fn check_labels(&self, op: &'static str, n: usize) -> Result<()> {
        match *self.labels.shape() {
            [rows, width] => {
                if rows != n {
                    return Err(Error::invalid(
                        op,
                        format!("targets have {rows} rows for a batch of {n}"),
                    ));
                }
                if let Some(long) = self.target_lengths.iter().find(|&&length| length > width) {
                    return Err(Error::invalid(
                        op,
                        format!("a target length of {long} exceeds the {width} labels of a row"),
                    ));
                }
                Ok(())
            }
            [count] => {
                let total =
                    self.target_lengths.iter().try_fold(0usize, |sum, &l| sum.checked_add(l));
                if total != Some(count) {
                    return Err(Error::invalid(
                        op,
                        format!("target lengths {:?} for {count} labels", self.target_lengths),
                    ));
                }
                Ok(())
            }
            _ => Err(Error::invalid(
                op,
                format!(
                    "expected targets of shape [n, s] or [labels], got {:?}",
                    self.labels.shape()
                ),
            )),
        }
    }
}

/// The negative log-likelihood of label sequences under all their alignments.
///
/// All steps are computed in f64 and the result is rounded once; `cpu_kernels::ctc` documents the
/// order. The mean first divides each loss by its target length (at least 1).
#[derive(Clone, Debug)]
pub struct CtcLoss {
    /// `[steps, n, classes]`
    pub log_probs: Tensor,
    /// The labels.
    pub targets: CtcTargets,
    /// The reduction of the losses.
    pub reduction: Reduction,
    /// Treats infinite losses (target longer than input) as 0.
    pub zero_infinity: bool,
}

impl Op for CtcLoss {
    const NAME: &'static str = "ctc_loss";
    type Plan = CtcBatch;
    type Output = Tensor;

    crate::inputs![log_probs, targets.labels];
    crate::parameters![
        targets.input_lengths,
        targets.target_lengths,
        targets.blank,
        reduction,
        zero_infinity
    ];

    fn plan(&self) -> Result<CtcBatch> {
        self.targets.check(Self::NAME, &self.log_probs)
    }
}

/// The gradient of [`CtcLoss`] as PyTorch defines it: `exp(log_probs) − posterior`. This is the
/// gradient with respect to log-probabilities that come from a softmax.
#[derive(Clone, Debug)]
pub struct CtcLossGrad {
    /// The gradient of the loss: `[n]` without a reduction, else a scalar.
    pub grad: Tensor,
    /// As in the forward pass.
    pub log_probs: Tensor,
    /// As in the forward pass.
    pub targets: CtcTargets,
    /// As in the forward pass.
    pub reduction: Reduction,
    /// As in the forward pass.
    pub zero_infinity: bool,
}

impl Op for CtcLossGrad {
    const NAME: &'static str = "ctc_loss";
    const PASS: crate::Pass = crate::Pass::Backward;
    type Plan = CtcBatch;
    type Output = Tensor;

    crate::inputs![grad, log_probs, targets.labels];
    crate::parameters![
        targets.input_lengths,
        targets.target_lengths,
        targets.blank,
        reduction,
        zero_infinity
    ];

    fn plan(&self) -> Result<CtcBatch> {
        let batch = self.targets.check(Self::NAME, &self.log_probs)?;
        expect_dtype(Self::NAME, "the gradient", &self.grad, self.log_probs.dtype())?;
        let n = &batch.shape[1..2];
        let shape = if self.reduction == Reduction::None { n } else { &[] };
        expect_shape(Self::NAME, "the gradient", &self.grad, shape)?;
        Ok(batch)
    }
}
