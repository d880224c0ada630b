//! Margin losses: 0 once a score or distance is beyond the margin.

use samebits_macros::named;
use samebits_tensor_core::ops::CompareKind;
use samebits_tensor_core::{DType, Error, Result};

use super::pointwise::weighted;
use super::{Reduction, expect_rank, expect_shape, reduced};
use crate::Tensor;
use crate::functional::distance::scaled;
use crate::functional::elementwise::{
    add, affine, clamp_min, compare, div, log_sigmoid, minimum, mul, neg, scalar_like, sqrt,
    square, sub, weigh, where_,
};
use crate::functional::{
    amax, cumsum, gather, index_select, logical_and, logical_not, mean, one_hot, pairwise_distance,
    reshape, squeeze, sum, to_dtype, unsqueeze, zeros_like,
};

/// Computes the hinge embedding loss: `input` if the target is 1, `max(margin − input, 0)` if it is
/// −1. PyTorch's default margin is 1.
///
/// # Shapes
///
/// `input` and `target` have the same shape.
///
/// # Errors
///
/// The shapes differ.
///
/// # References
///
/// `torch.nn.functional.hinge_embedding_loss`.
#[named]
#[track_caller]
pub fn hinge_embedding_loss(
    input: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    expect_shape("hinge_embedding_loss", "the target", target, input.shape())?;
    let far = clamp_min(&affine(input, -1.0, margin)?, 0.0)?;
    reduced(&by_sign(target, input, &far)?, reduction)
}

/// Computes `max(−target · (a − b) + margin, 0)`: a target of 1 asks for a larger `a`, −1 for a
/// larger `b`. PyTorch's default margin is 0.
///
/// # Shapes
///
/// `a`, `b` and `target` broadcast and have equally many dimensions.
///
/// # Errors
///
/// The shapes do not match.
///
/// # References
///
/// `torch.nn.functional.margin_ranking_loss`.
#[named]
#[track_caller]
pub fn margin_ranking_loss(
    a: &Tensor,
    b: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    const OP: &str = "margin_ranking_loss";
    expect_rank(OP, "the second input", b, a)?;
    expect_rank(OP, "the target", target, a)?;
    let wrong = mul(&neg(target)?, &sub(a, b)?)?;
    reduced(&clamp_min(&affine(&wrong, 1.0, margin)?, 0.0)?, reduction)
}

/// Computes `1 − cos` of the angle between vectors if the target is 1, and `max(cos − margin, 0)`
/// if it is −1. The squares of both norms are increased by 1e-12. PyTorch's default margin is 0.
///
/// # Shapes
///
/// `a` and `b` are `[n, d]` and `target` `[n]`, or `[d]` and `[]`.
///
/// # Errors
///
/// The shapes do not match.
///
/// # References
///
/// `torch.nn.functional.cosine_embedding_loss`.
#[named]
#[track_caller]
pub fn cosine_embedding_loss(
    a: &Tensor,
    b: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    const OP: &str = "cosine_embedding_loss";
    expect_shape(OP, "the second input", b, a.shape())?;
    let ([outer @ .., _], 1..=2) = (a.shape(), a.rank()) else {
        let message = format!("expected shape [n, d] or [d], got {:?}", a.shape());
        return Err(Error::invalid(OP, message));
    };
    expect_shape(OP, "the target", target, outer)?;
    const EPS: f64 = 1e-12;
    let dot = |x: &Tensor, y: &Tensor| sum(&mul(x, y)?, -1, false);
    let last = [outer.len()];
    // The scales are powers of two, so the cosine is unchanged.
    let (a, scale_a) = scaled(a, &last, EPS.sqrt())?;
    let (b, scale_b) = scaled(b, &last, EPS.sqrt())?;
    let square = |x: &Tensor, scale: &Tensor| {
        let eps = div(&div(&scalar_like(x, EPS)?, scale)?, scale)?;
        add(&dot(x, x)?, &squeeze(&eps, last)?)
    };
    let across = dot(&a, &b)?;
    let squares = mul(&square(&a, &scale_a)?, &square(&b, &scale_b)?)?;
    let cos = div(&across, &sqrt(&squares)?)?;
    let apart = clamp_min(&affine(&cos, 1.0, -margin)?, 0.0)?;
    reduced(&by_sign(target, &affine(&cos, -1.0, 1.0)?, &apart)?, reduction)
}

/// Computes `log(1 + exp(−target · input))` without overflow.
///
/// # Shapes
///
/// `input` and `target` have the same shape.
///
/// # Errors
///
/// The shapes differ.
///
/// # References
///
/// `torch.nn.functional.soft_margin_loss`.
#[named]
#[track_caller]
pub fn soft_margin_loss(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
    expect_shape("soft_margin_loss", "the target", target, input.shape())?;
    reduced(&neg(&log_sigmoid(&mul(target, input)?)?)?, reduction)
}

/// Computes, for each sample, the mean over the classes of
/// `−weight · (target · log_sigmoid(input) + (1 − target) · log_sigmoid(−input))`.
///
/// # Shapes
///
/// `input` and `target` are `[.., classes]`; `weight` broadcasts to them. The losses have the
/// dimensions before the classes.
///
/// # Errors
///
/// The shapes do not match.
///
/// # References
///
/// `torch.nn.functional.multilabel_soft_margin_loss`.
#[named]
#[track_caller]
pub fn multilabel_soft_margin_loss(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    const OP: &str = "multilabel_soft_margin_loss";
    expect_shape(OP, "the target", target, input.shape())?;
    let is = weigh(&log_sigmoid(input)?, target)?;
    let is_not = weigh(&log_sigmoid(&neg(input)?)?, &affine(target, -1.0, 1.0)?)?;
    let losses = weighted(OP, &neg(&add(&is, &is_not)?)?, weight)?;
    reduced(&mean(&losses, -1, false)?, reduction)
}

/// Computes, for each sample, the mean over the classes of
/// `weight[target] · max(margin − input[target] + input, 0)^p`, with 0 for the target itself.
/// PyTorch's defaults are a `p` of 1, a margin of 1 and no weight.
///
/// # Shapes
///
/// `input` is `[n, classes]` and `target` `[n]` of type i64, or `[classes]` and `[]`; `weight` is
/// `[classes]`.
///
/// # Errors
///
/// The shapes do not match, a target is not a class, or `p` is neither 1 nor 2.
///
/// # References
///
/// `torch.nn.functional.multi_margin_loss`.
#[named]
#[track_caller]
pub fn multi_margin_loss(
    input: &Tensor,
    target: &Tensor,
    p: u32,
    margin: f64,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    const OP: &str = "multi_margin_loss";
    if !(1..=2).contains(&p) {
        return Err(Error::invalid(OP, format!("p must be 1 or 2, got {p}")));
    }
    if let [classes] = *input.shape() {
        let batch = reshape(input, [1, classes])?;
        expect_shape(OP, "the target", target, &[])?;
        let target = reshape(target, [1])?;
        let losses = multi_margin_loss(&batch, &target, p, margin, weight, Reduction::None)?;
        return reduced(&reshape(&losses, ())?, reduction);
    }
    let [n, classes] = *input.shape() else {
        let message = format!("expected shape [n, classes] or [classes], got {:?}", input.shape());
        return Err(Error::invalid(OP, message));
    };
    expect_shape(OP, "the target", target, &[n])?;
    let own = gather(input, 1, &unsqueeze(target, 1)?)?;
    let mut losses = clamp_min(&affine(&sub(input, &own)?, 1.0, margin)?, 0.0)?;
    if p == 2 {
        losses = square(&losses)?;
    }
    if let Some(weight) = weight {
        expect_shape(OP, "the weight", weight, &[classes])?;
        losses = mul(&losses, &unsqueeze(&index_select(weight, 0, target)?, 1)?)?;
    }
    let others = where_(&one_hot(target, classes)?.ne(0)?, &zeros_like(&losses)?, &losses)?;
    reduced(&mean(&others, 1, false)?, reduction)
}

/// Computes, for each sample, the sum of `max(1 − (input[j] − input[k]), 0)` over its target
/// classes `j` and all other classes `k`, divided by the number of classes.
///
/// # Shapes
///
/// `input` and `target` are `[n, classes]` or `[classes]`. A row of `target`, of type i64, lists
/// classes and ends at a −1.
///
/// # Errors
///
/// The shapes differ, or a target is not a class.
///
/// # References
///
/// `torch.nn.functional.multilabel_margin_loss`.
#[doc(alias = "multi_label_margin_loss")]
#[named]
#[track_caller]
pub fn multilabel_margin_loss(
    input: &Tensor,
    target: &Tensor,
    reduction: Reduction,
) -> Result<Tensor> {
    const OP: &str = "multilabel_margin_loss";
    expect_shape(OP, "the target", target, input.shape())?;
    if let [classes] = *input.shape() {
        let [batch, target] = [reshape(input, [1, classes])?, reshape(target, [1, classes])?];
        let losses = multilabel_margin_loss(&batch, &target, Reduction::None)?;
        return reduced(&reshape(&losses, ())?, reduction);
    }
    let [_, classes] = *input.shape() else {
        let message = format!("expected shape [n, classes] or [classes], got {:?}", input.shape());
        return Err(Error::invalid(OP, message));
    };
    // The lists up to their ends; entries from the end on become class 0.
    let ended = cumsum(&to_dtype(&target.lt(0)?, DType::I64)?, 1)?;
    let listed = ended.eq(0)?;
    let list = where_(&listed, target, &scalar_like(target, 0.0)?)?;
    // Shape `[n, position, class]`.
    let place = unsqueeze(&listed, 2)?;
    let named = logical_and(&one_hot(&list, classes)?.ne(0)?, &place)?;
    let other = logical_not(&amax(&to_dtype(&named, DType::I64)?, 1, true)?.ne(0)?)?;
    let gap = sub(&unsqueeze(&gather(input, 1, &list)?, 2)?, &unsqueeze(input, 1)?)?;
    let each = clamp_min(&affine(&gap, -1.0, 1.0)?, 0.0)?;
    let counted = where_(&logical_and(&place, &other)?, &each, &zeros_like(&each)?)?;
    let losses = sum(&counted, [1, 2], false)?;
    reduced(&div(&losses, &scalar_like(&losses, classes as f64)?)?, reduction)
}

/// Computes `max(d(anchor, positive) − d(anchor, negative) + margin, 0)`, where `d` is
/// [`pairwise_distance`] with exponent `p` and `eps`. With `swap`, `d(positive, negative)` replaces
/// `d(anchor, negative)` if it is smaller. PyTorch's defaults are a margin of 1, 2, 1e-6 and no
/// swap.
///
/// # Shapes
///
/// All tensors are `[n, d]` or `[d]`.
///
/// # Errors
///
/// The shapes do not match.
///
/// # References
///
/// `torch.nn.functional.triplet_margin_loss`.
#[named]
#[track_caller]
pub fn triplet_margin_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    margin: f64,
    p: f64,
    eps: f64,
    swap: bool,
    reduction: Reduction,
) -> Result<Tensor> {
    let distance = |a: &Tensor, b: &Tensor| pairwise_distance(a, b, p, eps, false);
    let inputs = [anchor, positive, negative];
    triplets("triplet_margin_loss", inputs, distance, margin, swap, reduction)
}

/// Computes [`triplet_margin_loss`] with a custom distance.
///
/// # Errors
///
/// The shapes do not match; or errors of `distance`.
///
/// # References
///
/// `torch.nn.functional.triplet_margin_with_distance_loss`.
#[named]
#[track_caller]
pub fn triplet_margin_with_distance_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    distance: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    margin: f64,
    swap: bool,
    reduction: Reduction,
) -> Result<Tensor> {
    let inputs = [anchor, positive, negative];
    triplets("triplet_margin_with_distance_loss", inputs, distance, margin, swap, reduction)
}

#[track_caller]
fn triplets(
    op: &'static str,
    [anchor, positive, negative]: [&Tensor; 3],
    distance: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    margin: f64,
    swap: bool,
    reduction: Reduction,
) -> Result<Tensor> {
    expect_rank(op, "the positive", positive, anchor)?;
    expect_rank(op, "the negative", negative, anchor)?;
    let near = distance(anchor, positive)?;
    let mut far = distance(anchor, negative)?;
    if swap {
        far = minimum(&far, &distance(positive, negative)?)?;
    }
    reduced(&clamp_min(&affine(&sub(&near, &far)?, 1.0, margin)?, 0.0)?, reduction)
}

/// Returns `positive` if the target is 1, `negative` if it is −1, and their sum for any other
/// target, as in PyTorch's hinge embedding loss.
#[track_caller]
fn by_sign(target: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
    let zero = scalar_like(positive, 0.0)?;
    let is = |sign| compare(CompareKind::Eq, target, sign);
    add(&where_(&is(-1.0)?, &zero, positive)?, &where_(&is(1.0)?, &zero, negative)?)
}
