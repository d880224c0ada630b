//! Dropout. Each function has two forms. The plain form draws from the generator in force. The form
//! `_with` draws from a given generator, which does not advance on error. If `p` is 0 or the input
//! is empty, both return the input: they draw nothing and need no seed.

use samebits_macros::named;
use samebits_rng::{Draw, Generator};
use samebits_tensor_core::ops::{Cast, Dropout};
use samebits_tensor_core::{Error, Op, Result};

use super::elementwise::{add, affine, mul, times};
use super::spatial::batched;
use crate::scope::with_generator_if;
use crate::{Tensor, run};

/// Sets each element to zero with probability `p` and scales the others by `1 / (1 − p)`. It does
/// so in evaluation, too; the layer [`Dropout`](crate::nn::Dropout) drops only in training.
/// PyTorch's default `p` is 0.5. With a `p` of 0 the function returns `x`, draws nothing and needs
/// no seed.
///
/// # Errors
///
/// `p` is not in `[0, 1]`, or this thread was not seeded (see
/// [`with_default`](samebits_tensor_core::random::with_default)).
#[named]
#[track_caller]
pub fn dropout(x: &Tensor, p: f64) -> Result<Tensor> {
    with_generator_if(drops(x, p), "dropout", x.device(), |generator| dropout_with(x, p, generator))
}

/// Applies [`dropout`] with numbers from `generator`, which advances by a quarter of the number of
/// elements, rounded up.
///
/// # Errors
///
/// As [`dropout`].
#[named]
#[track_caller]
pub fn dropout_with(x: &Tensor, p: f64, generator: &mut Generator) -> Result<Tensor> {
    let op = Dropout { x: x.value().clone(), p, generator: generator.clone() };
    if !drops(x, p) {
        op.plan()?;
        return Ok(x.clone());
    }
    let (value, mask) = run(&op)?;
    generator.advance(Draw::blocks_u32(x.numel()));
    let dtype = x.dtype();
    Ok(Tensor::computed(value, &[x], move |grad| {
        let mask = Tensor::from(run(&Cast { x: mask.clone(), to: dtype })?);
        let scale = if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
        Ok(vec![Some(times(&mul(grad, &mask)?, scale)?)])
    }))
}

/// Applies [`dropout`] to whole channels: each row of `[n, channels, length]` is kept or dropped.
///
/// # Shapes
///
/// `x` is `[n, channels, length]` or `[channels, length]`.
///
/// # Errors
///
/// `x` has another number of dimensions; else as [`dropout`].
#[named]
#[track_caller]
pub fn dropout1d(x: &Tensor, p: f64) -> Result<Tensor> {
    with_generator_if(drops(x, p), "dropout1d", x.device(), |generator| {
        dropout1d_with(x, p, generator)
    })
}

/// Applies [`dropout1d`] with numbers from `generator`, which advances by a quarter of the number
/// of rows, rounded up.
///
/// # Errors
///
/// As [`dropout1d`].
#[named]
#[track_caller]
pub fn dropout1d_with(x: &Tensor, p: f64, generator: &mut Generator) -> Result<Tensor> {
    expect_rank("dropout1d_with", x, 2, 3)?;
    batched(x, 1, |x| feature_dropout(x, p, generator))
}

/// Applies [`dropout`] to whole channels: each plane of `[n, channels, height, width]` is kept or
/// dropped.
///
/// # Shapes
///
/// `x` is `[n, channels, height, width]`, or `[n, channels, length]` as in PyTorch: three
/// dimensions do not mean an image without a batch.
///
/// # Errors
///
/// `x` has another number of dimensions; else as [`dropout`].
#[named]
#[track_caller]
pub fn dropout2d(x: &Tensor, p: f64) -> Result<Tensor> {
    with_generator_if(drops(x, p), "dropout2d", x.device(), |generator| {
        dropout2d_with(x, p, generator)
    })
}

/// Applies [`dropout2d`] with numbers from `generator`, which advances by a quarter of the number
/// of planes, rounded up.
///
/// # Errors
///
/// As [`dropout2d`].
#[named]
#[track_caller]
pub fn dropout2d_with(x: &Tensor, p: f64, generator: &mut Generator) -> Result<Tensor> {
    expect_rank("dropout2d_with", x, 3, 4)?;
    feature_dropout(x, p, generator)
}

/// Applies [`dropout`] to whole channels: each volume of `[n, channels, depth, height, width]` is
/// kept or dropped.
///
/// # Shapes
///
/// `x` is `[n, channels, depth, height, width]` or `[channels, depth, height, width]`.
///
/// # Errors
///
/// `x` has another number of dimensions; else as [`dropout`].
#[named]
#[track_caller]
pub fn dropout3d(x: &Tensor, p: f64) -> Result<Tensor> {
    with_generator_if(drops(x, p), "dropout3d", x.device(), |generator| {
        dropout3d_with(x, p, generator)
    })
}

/// Applies [`dropout3d`] with numbers from `generator`, which advances by a quarter of the number
/// of volumes, rounded up.
///
/// # Errors
///
/// As [`dropout3d`].
#[named]
#[track_caller]
pub fn dropout3d_with(x: &Tensor, p: f64, generator: &mut Generator) -> Result<Tensor> {
    expect_rank("dropout3d_with", x, 4, 5)?;
    batched(x, 3, |x| feature_dropout(x, p, generator))
}

/// Sets each element to the negative limit of SELU with probability `p`, then scales and shifts all
/// elements to preserve mean and variance. Use it in networks with SELU. A `p` of 0 behaves as in
/// [`dropout`].
///
/// # Determinism
///
/// `x · m + s`, both roundings, with m and s formed in the element type. For a kept element they
/// are `a` and `α · a · p`, for a dropped one 0 and `α · a · p − α · a`, where
/// `a = 1 / √((α² · p + 1) · (1 − p))`. With `p` = 1 everything is zero.
///
/// # Errors
///
/// As [`dropout`].
///
/// # References
///
/// G. Klambauer et al., *Self-Normalizing Neural Networks*, 2017; `torch.nn.functional`.
#[named]
#[track_caller]
pub fn alpha_dropout(x: &Tensor, p: f64) -> Result<Tensor> {
    with_generator_if(drops(x, p), "alpha_dropout", x.device(), |generator| {
        alpha_dropout_with(x, p, generator)
    })
}

/// Applies [`alpha_dropout`] with numbers from `generator`, which advances by a quarter of the
/// number of elements, rounded up.
///
/// # Errors
///
/// As [`alpha_dropout`].
#[named]
#[track_caller]
pub fn alpha_dropout_with(x: &Tensor, p: f64, generator: &mut Generator) -> Result<Tensor> {
    let shape = x.shape().to_vec();
    masked_to_alpha(x, &shape, p, generator)
}

/// Applies [`alpha_dropout`] to whole channels: all elements of each `[n, channels]` are kept or
/// dropped.
///
/// # Errors
///
/// There are fewer than two dimensions; else as [`dropout`].
#[named]
#[track_caller]
pub fn feature_alpha_dropout(x: &Tensor, p: f64) -> Result<Tensor> {
    with_generator_if(drops(x, p), "feature_alpha_dropout", x.device(), |generator| {
        feature_alpha_dropout_with(x, p, generator)
    })
}

/// Applies [`feature_alpha_dropout`] with numbers from `generator`, which advances by a quarter of
/// the number of channels, rounded up.
///
/// # Errors
///
/// As [`feature_alpha_dropout`].
#[named]
#[track_caller]
pub fn feature_alpha_dropout_with(x: &Tensor, p: f64, generator: &mut Generator) -> Result<Tensor> {
    expect_rank("feature_alpha_dropout_with", x, 2, usize::MAX)?;
    masked_to_alpha(x, &channels_of(x), p, generator)
}

#[track_caller]
fn feature_dropout(x: &Tensor, p: f64, generator: &mut Generator) -> Result<Tensor> {
    if !drops(x, p) {
        return dropout_with(x, p, generator);
    }
    let ones = Tensor::ones(&channels_of(x), x.dtype())?.to(x.device())?;
    mul(x, &dropout_with(&ones, p, generator)?)
}

/// Returns whether elements may be dropped.
fn drops(x: &Tensor, p: f64) -> bool {
    p != 0.0 && x.numel() != 0
}

#[track_caller]
fn masked_to_alpha(
    x: &Tensor,
    mask: &[usize],
    p: f64,
    generator: &mut Generator,
) -> Result<Tensor> {
    const ALPHA: f64 = 1.758_099_340_847_376_6;
    if !drops(x, p) {
        return dropout_with(x, p, generator);
    }
    let ones = Tensor::ones(mask, x.dtype())?.to(x.device())?;
    let (_, kept) = run(&Dropout { x: ones.into(), p, generator: generator.clone() })?;
    let kept = Tensor::from(run(&Cast { x: kept, to: x.dtype() })?);
    generator.advance(Draw::blocks_u32(kept.numel()));
    if p == 1.0 {
        return mul(x, &kept);
    }
    let a = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
    let shift = affine(&affine(&kept, 1.0, -1.0)?, ALPHA * a, ALPHA * a * p)?;
    add(&mul(x, &times(&kept, a)?)?, &shift)
}

/// Returns the shape `[n, channels, 1, ..]`.
fn channels_of(x: &Tensor) -> Vec<usize> {
    x.shape().iter().enumerate().map(|(dim, &size)| if dim < 2 { size } else { 1 }).collect()
}

fn expect_rank(op: &'static str, x: &Tensor, low: usize, high: usize) -> Result<()> {
    if (low..=high).contains(&x.shape().len()) {
        return Ok(());
    }
    let expected = match high {
        usize::MAX => format!("at least {low}"),
        _ => format!("{low} or {high}"),
    };
    Err(Error::invalid(op, format!("expected {expected} dimensions, got shape {:?}", x.shape())))
}
