//! Connectionist temporal classification.

use samebits_macros::named;
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{CtcLoss, CtcLossGrad, CtcTargets, Reduction};

use crate::functional::{Lengths, once, reshape};
use crate::{Tensor, run};

/// What [`ctc_loss`] can be told; the default is PyTorch's.
#[derive(Clone, Copy, Debug, Default)]
pub struct CtcOptions {
    /// The class that stands for no label.
    pub blank: usize,
    /// How the losses are put together; the mean is that of the losses divided by their target
    /// lengths.
    pub reduction: Reduction,
    /// Whether an infinite loss counts as 0.
    pub zero_infinity: bool,
}

/// The negative log-likelihood of label sequences under all their alignments to longer inputs.
///
/// # Shapes
///
/// `log_probs` is `[steps, n, classes]`, `targets` (i64) `[n, s]`, padded at the end of each row,
/// or all labels one after the other. A single sequence may come as `[steps, classes]` and
/// `[s]`. There are `n` lengths of each kind, numbers or a tensor of them. The result is `[n]` (or `[]`) without a reduction, else without dimensions.
///
/// # Determinism
///
/// Portable: every sequence is a written order of f64 operations, rounded once. The
/// gradient is PyTorch's, `exp(log_probs) − posterior`: that with respect to log-probabilities
/// which [`log_softmax`](super::log_softmax) made.
///
/// # Errors
///
/// Lengths that do not fit the shapes, a label or a blank that is not a class.
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
        Ok(vec![Some(once("ctc_loss", value, &[grad, &x]))])
    }))
}
