mod ctc;
mod likelihood;
mod margin;
mod pointwise;

pub use ctc::{CtcOptions, ctc_loss};
pub use likelihood::{gaussian_nll_loss, poisson_nll_loss};
pub use margin::{
    cosine_embedding_loss, hinge_embedding_loss, margin_ranking_loss, multi_margin_loss,
    multilabel_margin_loss, multilabel_soft_margin_loss, soft_margin_loss, triplet_margin_loss,
    triplet_margin_with_distance_loss,
};
pub use pointwise::{
    BatchReduction, binary_cross_entropy, binary_cross_entropy_with_logits, huber_loss, kl_div,
    l1_loss, mse_loss, smooth_l1_loss,
};
pub use samebits_tensor_core::ops::Reduction;

use samebits_macros::named;
use samebits_tensor_core::ops::{
    CompareKind, CrossEntropyGrad, LogSoftmax, LogSoftmaxGrad, NllLoss, NllLossGrad, Softmax,
    SoftmaxGrad,
};
use samebits_tensor_core::{Error, Result, Tensor as Value};

use super::broadcast::sum;
use super::elementwise::{
    add, affine, compare, div, exp, mul, neg, scalar_like, sub, times, weigh, where_,
};
use super::full_like;
use super::shape::reshape;
use crate::dims::Dim;
use crate::{Tensor, is_recording, run, untracked};

/// Computes `x − log Σ exp(x)` along `dim`.
///
/// # Errors
///
/// There is no such dimension.
#[named]
#[track_caller]
pub fn log_softmax(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.dim("log_softmax", x.rank())?;
    if let Some(x) = super::scalar::lifted(x, dim)? {
        return reshape(&log_softmax(&x, 0)?, ());
    }
    let value = run(&LogSoftmax { x: x.value().clone(), dim })?;
    let (saved, result) = (x.clone(), value.clone());
    Ok(Tensor::computed(value, &[x], move |grad| {
        if !is_recording() {
            let op = LogSoftmaxGrad { grad: grad.value().clone(), y: result.clone(), dim };
            return Ok(vec![Some(untracked(&op)?)]);
        }
        Ok(vec![Some(log_softmax_gradient(grad, &saved, dim)?)])
    }))
}

/// Returns the gradient of [`log_softmax`] at `x`, which can be differentiated again.
fn log_softmax_gradient(grad: &Tensor, x: &Tensor, dim: usize) -> Result<Tensor> {
    minus_share(grad, &exp(&log_softmax(x, dim)?)?, dim)
}

/// Returns `grad − p · Σ grad`, with the sum along `dim`.
fn minus_share(grad: &Tensor, p: &Tensor, dim: usize) -> Result<Tensor> {
    sub(grad, &mul(p, &sum(grad, [dim], true)?)?)
}

/// Computes `exp(x − max) / Σ exp(x − max)` along `dim`.
///
/// # Errors
///
/// There is no such dimension.
#[named]
#[track_caller]
pub fn softmax(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.dim("softmax", x.rank())?;
    if let Some(x) = super::scalar::lifted(x, dim)? {
        return reshape(&softmax(&x, 0)?, ());
    }
    let value = run(&Softmax { x: x.value().clone(), dim })?;
    let (saved, y) = (x.clone(), value.clone());
    Ok(Tensor::computed(value, &[x], move |grad| {
        if !is_recording() {
            let op = SoftmaxGrad { grad: grad.value().clone(), y: y.clone(), dim };
            return Ok(vec![Some(untracked(&op)?)]);
        }
        let y = softmax(&saved, dim)?;
        Ok(vec![Some(minus_share(&mul(grad, &y)?, &y, dim)?)])
    }))
}

/// Computes the [`softmax`] of `−x`.
///
/// # Errors
///
/// There is no such dimension.
#[named]
#[track_caller]
pub fn softmin(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    softmax(&neg(x)?, dim)
}

/// Options of [`nll_loss_with`] and [`cross_entropy_with`], with PyTorch's defaults.
#[derive(Clone, Debug)]
pub struct ClassLoss<'a> {
    /// The weight of each class, `[classes]`; `None` means all 1.
    pub weight: Option<&'a Tensor>,
    /// A target class that is ignored.
    pub ignore_index: i64,
    /// The share of each target that is spread evenly over all classes, in `[0, 1]`.
    /// [`nll_loss_with`] requires 0.
    pub label_smoothing: f64,
    /// The reduction over all losses.
    pub reduction: Reduction,
}

impl Default for ClassLoss<'_> {
    fn default() -> Self {
        ClassLoss {
            weight: None,
            ignore_index: -100,
            label_smoothing: 0.0,
            reduction: Reduction::Mean,
        }
    }
}

/// Computes the mean negative log-likelihood of the target classes.
///
/// # Shapes
///
/// As [`nll_loss_with`].
///
/// # Errors
///
/// As [`nll_loss_with`].
#[named]
#[track_caller]
pub fn nll_loss(log_probs: &Tensor, target: &Tensor) -> Result<Tensor> {
    nll_loss_with(log_probs, target, &ClassLoss::default())
}

/// Computes the negative log-likelihood of the target classes.
///
/// # Shapes
///
/// `log_probs` is `[n, classes, ..]` and `target` `[n, ..]` of type i64, or `[classes]` and `[]`.
/// Without a reduction the result has the shape of `target`, else no dimensions.
///
/// # Determinism
///
/// See [`NllLoss`]: sums are taken in f64 over a fixed tree and rounded once. The mean is weighted;
/// the mean of no targets is NaN.
///
/// # Errors
///
/// The shapes do not match, a target is neither a class nor ignored, or `label_smoothing`
/// is not 0.
#[named]
#[track_caller]
pub fn nll_loss_with(
    log_probs: &Tensor,
    target: &Tensor,
    options: &ClassLoss<'_>,
) -> Result<Tensor> {
    const OP: &str = "nll_loss";
    if options.label_smoothing != 0.0 {
        return Err(Error::invalid(
            OP,
            format!(
                "label_smoothing is {}, but only `cross_entropy_with` supports it",
                options.label_smoothing
            ),
        ));
    }
    let shape = log_probs.shape();
    if let [classes] = *shape {
        // A single sample without a batch dimension.
        let batch = reshape(log_probs, [1, classes])?;
        let loss = nll_loss_with(&batch, &target.reshape([1])?, options)?;
        return reshape(&loss, ());
    }
    let classes = Classes::new(target, options);
    let value = classes.loss(log_probs.value())?;
    let input_shape = shape.to_vec();
    let inputs: Vec<&Tensor> = [log_probs].into_iter().chain(options.weight).collect();
    Ok(Tensor::computed(value, &inputs, move |grad| {
        Ok(vec![Some(classes.gradient(grad, &input_shape)?)])
    }))
}

/// The targets and options of a loss.
#[derive(Clone)]
struct Classes {
    target: Tensor,
    weight: Option<Tensor>,
    ignore_index: i64,
    reduction: Reduction,
}

impl Classes {
    fn new(target: &Tensor, options: &ClassLoss<'_>) -> Classes {
        Classes {
            target: target.clone(),
            weight: options.weight.cloned(),
            ignore_index: options.ignore_index,
            reduction: options.reduction,
        }
    }

    fn weight(&self) -> Option<Value> {
        self.weight.as_ref().map(|weight| weight.value().clone())
    }

    /// Returns the negative log-likelihood.
    #[track_caller]
    fn loss(&self, log_probs: &Value) -> Result<Value> {
        run(&NllLoss {
            log_probs: log_probs.clone(),
            target: self.target.value().clone(),
            weight: self.weight(),
            ignore_index: self.ignore_index,
            reduction: self.reduction,
        })
    }

    /// Returns the gradient of log-probabilities of shape `shape`, which can be differentiated
    /// again.
    fn gradient(&self, grad: &Tensor, shape: &[usize]) -> Result<Tensor> {
        self.expect_constant_weight()?;
        let value = run(&NllLossGrad {
            grad: grad.value().clone(),
            target: self.target.value().clone(),
            weight: self.weight(),
            ignore_index: self.ignore_index,
            reduction: self.reduction,
            input_shape: shape.to_vec(),
        })?;
        // The loss is linear: the derivative of its gradient is the loss again.
        let classes = self.clone();
        Ok(Tensor::computed(value, &[grad], move |outer| {
            let options = ClassLoss {
                weight: classes.weight.as_ref(),
                ignore_index: classes.ignore_index,
                label_smoothing: 0.0,
                reduction: classes.reduction,
            };
            Ok(vec![Some(nll_loss_with(outer, &classes.target, &options)?)])
        }))
    }

    fn expect_constant_weight(&self) -> Result<()> {
        if self.weight.as_ref().is_some_and(Tensor::requires_grad) {
            return Err(Error::invalid("nll_loss", "the weight has no gradient"));
        }
        Ok(())
    }
}

/// Computes the mean [`nll_loss`] of the [`log_softmax`] of `logits`.
///
/// # Errors
///
/// As [`cross_entropy_with`].
#[named]
#[track_caller]
pub fn cross_entropy(logits: &Tensor, target: &Tensor) -> Result<Tensor> {
    cross_entropy_with(logits, target, &ClassLoss::default())
}

/// Computes the [`nll_loss_with`] of the [`log_softmax`] of `logits`, with label smoothing.
///
/// With a smoothing of ε over K classes, the loss of a sample is `(1 − ε) · nll + ε / K · even`,
/// where `even` is the sum of the weighted negative log-probabilities of all classes. The mean
/// divides both by the sum of the targets' weights.
///
/// # Shapes
///
/// `logits` is `[n, classes, ..]` and `target` `[n, ..]` of type i64, or `[classes]` and `[]`. A
/// float target holds probabilities: see [`cross_entropy_probabilities`].
///
/// # Errors
///
/// The shapes do not match, a target is neither a class nor ignored, or the smoothing is not in
/// `[0, 1]`.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let logits = Tensor::from_slice(&[0.0f32, 0.0, 5.0, 0.0], &[2, 2])?.set_requires_grad(true)?;
/// let target = Tensor::from_slice(&[1i64, -100], &[2])?;
/// let loss = functional::cross_entropy(&logits, &target)?;
/// assert_eq!(loss.item::<f32>()?, std::f32::consts::LN_2);
/// assert_eq!(loss.backward()?.of(&logits).unwrap().to_vec::<f32>()?, [0.5, -0.5, 0.0, 0.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[named]
#[track_caller]
pub fn cross_entropy_with(
    logits: &Tensor,
    target: &Tensor,
    options: &ClassLoss<'_>,
) -> Result<Tensor> {
    if target.dtype().is_float() {
        return cross_entropy_probabilities(logits, target, options);
    }
    let smoothing = check_smoothing(options)?;
    let dim = class_dim(logits)?;
    if smoothing == 0.0 && logits.rank() == 2 {
        return rows_of_classes(logits, Classes::new(target, options));
    }
    let log_probs = log_softmax(logits, dim)?;
    let plain = ClassLoss { label_smoothing: 0.0, ..options.clone() };
    let nll = nll_loss_with(&log_probs, target, &plain)?;
    if smoothing == 0.0 {
        return Ok(nll);
    }
    let classes = logits.shape()[dim];
    // An ignored sample has no share in the even part, either. The weights of the targets are the
    // losses of log-probabilities of −1.
    let each = ClassLoss { reduction: Reduction::None, ..plain.clone() };
    let minus_one = full_like(&log_probs.detach(), -1.0)?;
    let counted = ClassLoss { weight: None, ..each.clone() };
    let counts = nll_loss_with(&minus_one, target, &counted)?;
    let even = neg(&sum(&weighted(&log_probs, options.weight, dim)?, [dim], true)?)?;
    let ignored = compare(CompareKind::Eq, &counts, 0.0)?;
    let even = reshape(&even, counts.shape())?;
    let even = where_(&ignored, &scalar_like(&even, 0.0)?, &even)?;
    let even = match options.reduction {
        Reduction::None => even,
        Reduction::Sum => even.sum_all()?,
        Reduction::Mean => {
            div(&even.sum_all()?, &nll_loss_with(&minus_one, target, &each)?.sum_all()?)?
        }
    };
    add(&times(&nll, 1.0 - smoothing)?, &times(&even, smoothing / classes as f64)?)
}

/// Computes [`nll_loss_with`] of [`log_softmax`] of `[n, classes]`, whose gradient passes over
/// memory once.
#[track_caller]
fn rows_of_classes(logits: &Tensor, classes: Classes) -> Result<Tensor> {
    let log_probs = run(&LogSoftmax { x: logits.value().clone(), dim: 1 })?;
    let value = classes.loss(&log_probs)?;
    let (saved, weight) = (logits.clone(), classes.weight.clone());
    let inputs: Vec<&Tensor> = [logits].into_iter().chain(&weight).collect();
    Ok(Tensor::computed(value, &inputs, move |grad| {
        if is_recording() {
            let grad = classes.gradient(grad, saved.shape())?;
            return Ok(vec![Some(log_softmax_gradient(&grad, &saved, 1)?)]);
        }
        classes.expect_constant_weight()?;
        let grad = untracked(&CrossEntropyGrad {
            grad: grad.value().clone(),
            log_probs: log_probs.clone(),
            target: classes.target.value().clone(),
            weight: classes.weight(),
            ignore_index: classes.ignore_index,
            reduction: classes.reduction,
        })?;
        Ok(vec![Some(grad)])
    }))
}

/// Computes the cross entropy with targets that are probabilities:
/// `−Σ weight · target · log_softmax` over the classes. The mean divides by the number of samples.
/// A target of 0 adds 0, even if the logit is −∞.
///
/// # Shapes
///
/// `logits` and `target` are `[n, classes, ..]` or `[classes]`.
///
/// # Errors
///
/// The shapes or types differ, the smoothing is not in `[0, 1]`, or `ignore_index` is a class,
/// which cannot apply to targets of probabilities.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let logits = Tensor::new([[0.0f32, 0.0]])?;
/// let target = Tensor::new([[0.25f32, 0.75]])?.set_requires_grad(true)?;
/// let loss = functional::cross_entropy(&logits, &target)?;
/// assert_eq!(loss.item::<f32>()?, std::f32::consts::LN_2);
/// let gradient = loss.backward()?.of(&target).unwrap().to_vec::<f32>()?;
/// assert_eq!(gradient, [std::f32::consts::LN_2; 2]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.cross_entropy` with class probabilities.
#[named]
#[track_caller]
pub fn cross_entropy_probabilities(
    logits: &Tensor,
    target: &Tensor,
    options: &ClassLoss<'_>,
) -> Result<Tensor> {
    const OP: &str = "cross_entropy";
    let smoothing = check_smoothing(options)?;
    let dim = class_dim(logits)?;
    if options.ignore_index >= 0 {
        let message =
            format!("ignore_index is {}, but the target holds probabilities", options.ignore_index);
        return Err(Error::invalid(OP, message));
    }
    if target.shape() != logits.shape() {
        let message = format!(
            "expected a target of classes of type i64, or of probabilities of shape {:?}; got {} of \
             shape {:?}",
            logits.shape(),
            target.dtype(),
            target.shape()
        );
        return Err(Error::invalid(OP, message));
    }
    let classes = logits.shape()[dim];
    let target = if smoothing == 0.0 {
        target.clone()
    } else {
        affine(target, 1.0 - smoothing, smoothing / classes as f64)?
    };
    let log_probs = weighted(&log_softmax(logits, dim)?, options.weight, dim)?;
    let losses = neg(&sum(&weigh(&log_probs, &target)?, [dim], true)?)?;
    let mut shape = logits.shape().to_vec();
    shape.remove(dim);
    reduced(&reshape(&losses, &shape)?, options.reduction)
}

/// Reduces losses.
#[track_caller]
pub(super) fn reduced(losses: &Tensor, reduction: Reduction) -> Result<Tensor> {
    match reduction {
        Reduction::None => Ok(losses.clone()),
        Reduction::Mean => losses.mean_all(),
        Reduction::Sum => losses.sum_all(),
    }
}

/// Checks for a shape.
pub(super) fn expect_shape(
    op: &'static str,
    what: &'static str,
    x: &Tensor,
    expected: &[usize],
) -> Result<()> {
    if x.shape() == expected {
        return Ok(());
    }
    Err(Error::ShapeMismatch { op, what, expected: expected.to_vec(), got: x.shape().to_vec() })
}

/// Checks that `x` has as many dimensions as `like`.
pub(super) fn expect_rank(op: &'static str, what: &str, x: &Tensor, like: &Tensor) -> Result<()> {
    if x.rank() == like.rank() {
        return Ok(());
    }
    let (shape, rank) = (x.shape(), like.rank());
    Err(Error::invalid(op, format!("expected {what} with {rank} dimensions, got shape {shape:?}")))
}

/// Returns the dimension of the classes.
fn class_dim(logits: &Tensor) -> Result<usize> {
    match logits.shape().len() {
        0 => Err(Error::invalid("cross_entropy", "expected shape [n, classes, ..], got []")),
        1 => Ok(0),
        _ => Ok(1),
    }
}

fn check_smoothing(options: &ClassLoss<'_>) -> Result<f64> {
    let smoothing = options.label_smoothing;
    if (0.0..=1.0).contains(&smoothing) {
        return Ok(smoothing);
    }
    Err(Error::invalid(
        "cross_entropy",
        format!("label_smoothing must be in [0, 1], got {smoothing}"),
    ))
}

/// Multiplies `x` by the weight of each class.
#[track_caller]
fn weighted(x: &Tensor, weight: Option<&Tensor>, dim: usize) -> Result<Tensor> {
    let Some(weight) = weight else { return Ok(x.clone()) };
    let classes = x.shape()[dim];
    expect_shape("cross_entropy", "the weight", weight, &[classes])?;
    let mut shape = vec![1; x.shape().len()];
    shape[dim] = classes;
    mul(x, &reshape(weight, &shape)?)
}
