mod rms;

pub use rms::rms_norm;

use samebits_macros::named;
use samebits_tensor_core::ops::{
    BatchNorm, BatchNormGrad, BatchNormInference, GroupNorm, GroupNormGrad, LayerNorm,
    LayerNormGrad, PadMode, PoolParams,
};
use samebits_tensor_core::{DType, Error, Result};

use super::broadcast::expand;
use super::broadcast::sum_to;
use super::distance::scaled;
use super::elementwise::pow_scalar;
use super::elementwise::{
    add, affine, div, mul, neg, reciprocal, scalar_like, sqrt, square, sub, times, wanted,
};
use super::padding::pad;
use super::pooling::avg_pool;
use super::reduce::mean;
use super::shape::reshape;
use super::to_dtype;
use crate::half::{Narrow, widen};
use crate::{Tensor, is_recording, run};

/// The statistics of a batch, per channel.
#[derive(Clone, Debug)]
pub struct BatchStatistics {
    /// The mean.
    pub mean: Tensor,
    /// The biased variance.
    pub var: Tensor,
    /// The number of values behind each statistic.
    pub count: usize,
}

impl BatchStatistics {
    /// Moves running statistics towards these: `running · (1 − momentum) + batch · momentum`, each
    /// operation rounded. The variance is first scaled to be unbiased. Running statistics of half
    /// precision are rounded once more, at the end.
    ///
    /// # Errors
    ///
    /// The running statistics have another shape or type, or `momentum` is not in `[0, 1]`.
    pub fn update(
        &self,
        running_mean: &mut Tensor,
        running_var: &mut Tensor,
        momentum: f64,
    ) -> Result<()> {
        if !(0.0..=1.0).contains(&momentum) {
            let message = format!("momentum should be in [0, 1], got {momentum}");
            return Err(Error::invalid("batch_norm", message));
        }
        let blend = |running: &Tensor, batch: &Tensor| -> Result<Tensor> {
            let kept = times(&widen(running)?, 1.0 - momentum)?;
            add(&kept, &times(batch, momentum)?)?.narrow(running.dtype())
        };
        let n = self.count as f64;
        let unbiased = times(&self.var, n / (n - 1.0))?;
        let (new_mean, new_var) =
            (blend(running_mean, &self.mean)?, blend(running_var, &unbiased)?);
        (*running_mean, *running_var) = (new_mean, new_var);
        Ok(())
    }
}

/// Statistics of a batch stay in f32.
impl Narrow for BatchStatistics {
    fn narrow(self, _: DType) -> Result<BatchStatistics> {
        Ok(self)
    }
}

/// Normalises a batch with its own statistics. A missing weight counts as 1, a missing bias as 0.
///
/// # Shapes
///
/// `input` is `[n, channels, ..]`, `weight` and `bias` `[channels]`.
///
/// # Determinism
///
/// Portable: the statistics of a channel in f64 over the tree of the sum, mean and `1 / √(var + eps)` rounded.
/// A channel whose standard deviation is outside 2^-50 to 2^50 (2^-450 to 2^450 at f64) is first
/// multiplied with a power of two, and its gradient last: values and gradients are right at any magnitude.
/// The power changes bits only where a number in between would leave the range.
///
/// # Errors
///
/// The shapes do not match, there is only one value per channel, or `eps` is below 0.
#[named]
#[track_caller]
pub fn batch_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, BatchStatistics)> {
    let channels = input.value().size("batch_norm", 1)?;
    expect_several("batch_norm", input, input.numel() / channels.max(1))?;
    batch_norm_of(input, weight, bias, eps)
}

/// Normalises a batch with given statistics, which receive gradients like any other input.
///
/// # Errors
///
/// The shapes do not match.
#[named]
#[track_caller]
pub fn batch_norm_inference(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    mean: &Tensor,
    var: &Tensor,
    eps: f64,
) -> Result<Tensor> {
    let channels = input.value().size("batch_norm_inference", 1)?;
    let (weight, bias) = parameters(input, &[channels], weight, bias)?;
    let value = run(&BatchNormInference {
        input: input.value().clone(),
        weight: weight.value().clone(),
        bias: bias.value().clone(),
        mean: mean.value().clone(),
        var: var.value().clone(),
        eps,
    })?;
    let inputs = [input, &weight, &bias, mean, var];
    let (x, w, m, v) = (input.clone(), weight.clone(), mean.clone(), var.clone());
    Ok(Tensor::computed(value, &inputs, move |grad| {
        let rank = x.shape().len();
        let each = rstd(&v, eps)?;
        let rstd = per_channel(&each, rank)?;
        let normal = mul(&sub(&x, &per_channel(&m, rank)?)?, &rstd)?;
        let grad_x = mul(grad, &mul(&per_channel(&w, rank)?, &rstd)?)?;
        let grad_weight = sum_per_channel(&mul(grad, &normal)?)?;
        let grad_mean = wanted(&m, || neg(&sum_per_channel(&grad_x)?))?;
        let grad_var = wanted(&v, || times(&mul(&grad_weight, &mul(&w, &square(&each)?)?)?, -0.5))?;
        let grad_bias = sum_per_channel(grad)?;
        Ok(vec![Some(grad_x), Some(grad_weight), Some(grad_bias), grad_mean, grad_var])
    }))
}

/// Normalises each channel of each sample with its own statistics. Also returns their means over
/// the batch, for running statistics. To normalise with running statistics, use
/// [`batch_norm_inference`].
///
/// # Shapes
///
/// `input` is `[n, channels, ..]` with at least one spatial dimension, `weight` and `bias`
/// `[channels]`.
///
/// # Determinism
///
/// As [`batch_norm`], of each channel of each sample.
///
/// # Errors
///
/// The shapes do not match, there is only one value per channel, or `eps` is below 0.
#[named]
#[track_caller]
pub fn instance_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, BatchStatistics)> {
    let op = "instance_norm";
    let [n, channels, size @ ..] = input.shape() else {
        return Err(Error::invalid(
            op,
            format!("expected [n, channels, ..], got shape {:?}", input.shape()),
        ));
    };
    let (n, channels, size) = (*n, *channels, size.iter().product::<usize>());
    let (weight, bias) = parameters(input, &[channels], weight, bias)?;
    expect_several(op, input, if n * channels == 0 { 0 } else { size })?;
    // Treat every channel of every sample as a channel of a single sample.
    let each = |x: &Tensor| reshape(&expand(x, &[n, channels])?, [n * channels]);
    let rows = reshape(input, [1, n * channels, size])?;
    let (y, rows) = batch_norm_of(&rows, Some(&each(&weight)?), Some(&each(&bias)?), eps)?;
    let over_batch = |x: Tensor| -> Result<Tensor> {
        mean(&x.reshape([n, channels])?, [0], true)?.reshape([channels])
    };
    let statistics =
        BatchStatistics { mean: over_batch(rows.mean)?, var: over_batch(rows.var)?, count: size };
    Ok((reshape(&y, input.shape())?, statistics))
}

/// Normalises each group of channels of each sample with its own statistics.
///
/// # Shapes
///
/// `input` is `[n, channels, ..]`, `weight` and `bias` `[channels]`.
///
/// # Determinism
///
/// `h · weight + bias`, both roundings, where `h` is the result of [`batch_norm`] without weight
/// and bias for a channel that holds the group. Without a weight there is no product, without a bias no sum.
///
/// # Errors
///
/// The shapes do not match, `groups` does not divide the channels, there is a single sample with one
/// value per group, or `eps` is below 0.
#[named]
#[track_caller]
pub fn group_norm(
    input: &Tensor,
    groups: usize,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    let value = |x: &Tensor| x.value().clone();
    let (y, mean, rstd) = run(&GroupNorm {
        input: input.value().clone(),
        weight: weight.map(value),
        bias: bias.map(value),
        groups,
        eps,
    })?;
    let inputs: Vec<&Tensor> = [input].into_iter().chain(weight).chain(bias).collect();
    let (x, w, is_moved) = (input.clone(), weight.cloned(), bias.is_some());
    Ok(Tensor::computed(y, &inputs, move |grad| {
        let (grad_x, products) = if is_recording() {
            group_norm_grads(grad, &x, w.as_ref(), groups, eps)?
        } else {
            let (grad_x, products) = run(&GroupNormGrad {
                grad: grad.value().clone(),
                input: x.value().clone(),
                weight: w.as_ref().map(value),
                mean: mean.clone(),
                rstd: rstd.clone(),
                groups,
                eps,
            })?;
            (grad_x.into(), products.map(Tensor::from))
        };
        let mut grads = vec![Some(grad_x)];
        if let Some(products) = products {
            grads.push(Some(sum_per_channel(&products)?));
        }
        if is_moved {
            grads.push(Some(sum_per_channel(grad)?));
        }
        Ok(grads)
    }))
}

/// Returns what [`GroupNormGrad`] computes, built from operations that can be differentiated again.
fn group_norm_grads(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    groups: usize,
    eps: f64,
) -> Result<(Tensor, Option<Tensor>)> {
    let (n, channels) = (x.shape()[0], x.shape()[1]);
    let spatial = x.shape()[2..].iter().product();
    let in_groups = |x: &Tensor, n, spatial| reshape(x, [n, groups, channels / groups, spatial]);
    let ones = Tensor::ones(&[channels], x.dtype())?.to(x.device())?;
    let each = in_groups(weight.unwrap_or(&ones), 1, 1)?;
    let (rows, grads) = (in_groups(x, n, spatial)?, in_groups(grad, n, spatial)?);
    let (grad_x, _) = composed(&grads, &rows, &each, &[2, 3], eps)?;
    let products = || mul(grad, &group_norm(x, groups, None, None, eps)?);
    Ok((reshape(&grad_x, x.shape())?, weight.map(|_| products()).transpose()?))
}

/// Normalises over the last dimensions, those of `normalized_shape`. A missing weight counts as 1,
/// a missing bias as 0.
///
/// # Shapes
///
/// `input` is `[.., normalized_shape..]`, `weight` and `bias` have the normalised shape.
///
/// # Determinism
///
/// As [`batch_norm`], of each row.
///
/// # Errors
///
/// The shapes do not match.
#[named]
#[track_caller]
pub fn layer_norm(
    input: &Tensor,
    normalized_shape: &[usize],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    let (weight, bias) = parameters(input, normalized_shape, weight, bias)?;
    let (value, mean, rstd) = run(&LayerNorm {
        input: input.value().clone(),
        weight: weight.value().clone(),
        bias: bias.value().clone(),
        eps,
    })?;
    let (x, w) = (input.clone(), weight.clone());
    Ok(Tensor::computed(value, &[input, &weight, &bias], move |grad| {
        if is_recording() {
            let rank = x.shape().len();
            let over: Vec<usize> = (rank - w.shape().len()..rank).collect();
            let (grad_x, grad_normal) = composed(grad, &x, &w, &over, eps)?;
            return Ok(vec![
                Some(grad_x),
                Some(sum_to(&grad_normal, w.shape())?),
                Some(sum_to(grad, w.shape())?),
            ]);
        }
        let (grad_x, grad_weight, grad_bias) = run(&LayerNormGrad {
            grad: grad.value().clone(),
            input: x.value().clone(),
            weight: w.value().clone(),
            mean: mean.clone(),
            rstd: rstd.clone(),
            eps,
        })?;
        Ok([grad_x, grad_weight, grad_bias].map(|grad| Some(Tensor::from(grad))).into())
    }))
}

/// Computes [`batch_norm`], and also accepts a single value per channel.
#[track_caller]
fn batch_norm_of(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, BatchStatistics)> {
    let channels = input.value().size("batch_norm", 1)?;
    let (weight, bias) = parameters(input, &[channels], weight, bias)?;
    let (value, mean, var, rstd) = run(&BatchNorm {
        input: input.value().clone(),
        weight: weight.value().clone(),
        bias: bias.value().clone(),
        eps,
    })?;
    let count = input.numel() / channels.max(1);
    let statistics = BatchStatistics { mean: Tensor::from(&mean), var: var.into(), count };
    let (x, w) = (input.clone(), weight.clone());
    let result = Tensor::computed(value, &[input, &weight, &bias], move |grad| {
        if is_recording() {
            let rank = x.shape().len();
            let over: Vec<usize> = (0..rank).filter(|&dim| dim != 1).collect();
            let (grad_x, grad_normal) = composed(grad, &x, &per_channel(&w, rank)?, &over, eps)?;
            return Ok(vec![
                Some(grad_x),
                Some(sum_per_channel(&grad_normal)?),
                Some(sum_per_channel(grad)?),
            ]);
        }
        let (grad_x, grad_weight, grad_bias) = run(&BatchNormGrad {
            grad: grad.value().clone(),
            input: x.value().clone(),
            weight: w.value().clone(),
            mean: mean.clone(),
            rstd: rstd.clone(),
            eps,
        })?;
        Ok([grad_x, grad_weight, grad_bias].map(|grad| Some(Tensor::from(grad))).into())
    });
    Ok((result, statistics))
}

/// Returns the gradient of the input of a normalisation over dimensions `over`, and the incoming
/// gradient times the normalised input, built from operations that can be differentiated again. A power
/// of two scales the deviations before they are squared; ordinary numbers keep their bits.
fn composed(
    grad: &Tensor,
    x: &Tensor,
    weight: &Tensor,
    over: &[usize],
    eps: f64,
) -> Result<(Tensor, Tensor)> {
    let (centred, scale) = scaled(&sub(x, &mean(x, over, true)?)?, over, eps.sqrt())?;
    let eps = div(&div(&scalar_like(&scale, eps)?, &scale)?, &scale)?;
    let std = sqrt(&add(&mean(&square(&centred)?, over, true)?, &eps)?)?;
    let normal = div(&centred, &std)?;
    let weighted = mul(grad, weight)?;
    let dot = mean(&mul(&weighted, &normal)?, over, true)?;
    let across = sub(&sub(&weighted, &mean(&weighted, over, true)?)?, &mul(&normal, &dot)?)?;
    Ok((div(&div(&across, &std)?, &scale)?, mul(grad, &normal)?))
}

/// Returns the weight and the bias, with ones and zeros in place of missing ones.
fn parameters(
    input: &Tensor,
    shape: &[usize],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let dtype = if input.dtype().is_float() { input.dtype() } else { DType::F32 };
    Ok((
        match weight {
            Some(weight) => weight.clone(),
            None => Tensor::ones(shape, dtype)?.to(input.device())?,
        },
        match bias {
            Some(bias) => bias.clone(),
            None => Tensor::zeros(shape, dtype)?.to(input.device())?,
        },
    ))
}

/// Divides each element by a power of the mean square of its neighbours in `size` channels: `x / (k
/// + alpha · Σ x² / size)^beta`, where the sum reaches `size / 2` channels back and `(size − 1) / 2`
/// ahead, as far as there are channels. PyTorch's defaults are an `alpha` of 1e-4, a `beta` of 0.75
/// and a `k` of 1.
///
/// # Shapes
///
/// `input` and the result are `[n, channels, ..]`, with at least three dimensions.
///
/// # Determinism
///
/// Each operation is rounded: the squares, their mean as in [`avg_pool2d`](super::avg_pool2d), the
/// [`affine`] map, the power, the quotient.
///
/// # Errors
///
/// `input` has fewer than three dimensions, its type is not a float, or `size` is 0.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 2.0], &[1, 3, 1])?;
/// let y = functional::local_response_norm(&x, 2, 2.0, 1.0, 0.0)?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 0.4, 0.25]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.local_response_norm`.
#[named]
#[track_caller]
pub fn local_response_norm(
    input: &Tensor,
    size: usize,
    alpha: f64,
    beta: f64,
    k: f64,
) -> Result<Tensor> {
    const OP: &str = "local_response_norm";
    let [n, channels, rest @ ..] = input.shape() else {
        let message = format!("expected [n, channels, ..], got shape {:?}", input.shape());
        return Err(Error::invalid(OP, message));
    };
    if rest.is_empty() {
        let message = format!("expected at least three dimensions, got shape {:?}", input.shape());
        return Err(Error::invalid(OP, message));
    }
    if size == 0 {
        return Err(Error::invalid(OP, "expected a size of at least 1, got 0"));
    }
    if input.numel() == 0 {
        return Ok(input.clone());
    }
    let planes = [*n, 1, *channels, rest.iter().product()];
    let (back, ahead) = (size / 2, (size - 1) / 2);
    let squares = reshape(&square(input)?, planes)?;
    let squares = pad(&squares, &[0, 0, back as i64, ahead as i64], PadMode::Constant, 0.0)?;
    let window =
        PoolParams { kernel: vec![size, 1], stride: vec![1, 1], ..PoolParams::square(2, 1) };
    let means = reshape(&avg_pool(&squares, &window, true, None)?, input.shape())?;
    let divisor = pow_scalar(&affine(&means, alpha, k)?, beta)?;
    div(input, &divisor)
}

/// Reshapes `[channels]` to `[channels, 1, ..]`, to broadcast to tensors of `rank` dimensions.
fn per_channel(x: &Tensor, rank: usize) -> Result<Tensor> {
    reshape(x, [x.shape(), &vec![1; rank - 2]].concat())
}

/// Returns the sum of each channel.
fn sum_per_channel(x: &Tensor) -> Result<Tensor> {
    let channels = x.shape()[1];
    let sum = sum_to(x, &[&[channels], vec![1; x.shape().len() - 2].as_slice()].concat())?;
    reshape(&sum, [channels])
}

/// Returns `1 / √(var + eps)`, formed in f64 and rounded once, as in [`BatchNormInference`].
fn rstd(var: &Tensor, eps: f64) -> Result<Tensor> {
    let wide = to_dtype(var, DType::F64)?;
    to_dtype(&reciprocal(&sqrt(&affine(&wide, 1.0, eps)?)?)?, var.dtype())
}

fn expect_several(op: &'static str, input: &Tensor, count: usize) -> Result<()> {
    if count > 1 {
        return Ok(());
    }
    Err(Error::invalid(
        op,
        format!("needs more than 1 value per channel, got shape {:?}", input.shape()),
    ))
}
