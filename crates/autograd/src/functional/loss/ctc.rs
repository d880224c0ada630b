//! Connectionist temporal classification.

use samebits_macros::named;
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{CtcLoss, CtcLossGrad, CtcTargets, Reduction};

use crate::functional::{Lengths, once_differentiable, reshape};
use crate::{Tensor, run};

/// Options of [`ctc_loss`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct CtcOptions {
    /// The blank class.
    pub blank: usize,
    /// The reduction; the mean first divides each loss by its target's length.
    pub reduction: Reduction,
    /// Treats infinite losses (target longer than input) as 0.
    pub zero_infinity: bool,
}

/// Computes the negative log-likelihood of label sequences over all alignments to longer inputs.
///
/// # Shapes
///
/// `log_probs` is `[steps, n, classes]`. `targets` (i64) is `[n, s]`, padded at the end of each
/// row, or all labels concatenated. A single sequence may be `[steps, classes]` and `[s]`. Each
/// list of lengths has `n` entries, as numbers or a tensor. The result is `[n]` (or `[]`) without a
/// reduction, else without dimensions.
///
/// # Determinism
///
/// Portable: each sequence is a documented order of f64 operations, rounded once. The gradient is
/// PyTorch's, `exp(log_probs) − posterior`: it assumes log-probabilities made by
/// [`log_softmax`](super::log_softmax).
///
/// # Errors
///
/// A length does not fit the shapes, or a label or the blank is not a class.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
/// use samebits_tensor_core::DType;
///
/// let logits = Tensor::zeros(&[2, 1, 2], DType::F32)?.set_requires_grad(true)?;
/// let log_probs = functional::log_softmax(&logits, 2)?;
/// let targets = Tensor::from_slice(&[1i64], &[1, 1])?;
/// let loss = functional::ctc_loss(&log_probs, &targets, &[2], &[1], Default::default())?;
/// // Three of the four equally likely alignments emit the label.
/// assert_eq!(loss.item::<f32>()?, -0.75f32.ln());
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// A. Graves, S. Fernández, F. Gomez and J. Schmidhuber, *Connectionist Temporal Classification*,
/// ICML 2006.
#[named]
#[track_caller]
pub fn ctc_loss(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: impl Lengths,
    target_lengths: impl Lengths,
    options: CtcOptions,
) -> Result<Tensor> {
    let input_lengths = input_lengths.lengths("ctc_loss")?;
    let target_lengths = target_lengths.lengths("ctc_loss")?;
    if let [steps, classes] = *log_probs.shape() {
        let batch = reshape(log_probs, [steps, 1, classes])?;
        let loss = ctc_loss(&batch, targets, &input_lengths, &target_lengths, options)?;
        return reshape(&loss, ());
    }
    let targets = CtcTargets {
        labels: targets.value().clone(),
        input_lengths,
        target_lengths,
        blank: options.blank,
    };
    let CtcOptions { reduction, zero_infinity, .. } = options;
    let x = log_probs.clone();
    let value = run(&CtcLoss {
        log_probs: x.value().clone(),
        targets: targets.clone(),
        reduction,
        zero_infinity,
    })?;
    Ok(Tensor::computed(value, &[log_probs], move |grad| {
        let value = run(&CtcLossGrad {
            grad: grad.value().clone(),
            log_probs: x.value().clone(),
            targets: targets.clone(),
            reduction,
            zero_infinity,
        })?;
        Ok(vec![Some(once_differentiable("ctc_loss", value, &[grad, &x]))])
    }))
}
