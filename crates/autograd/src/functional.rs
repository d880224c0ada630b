//! The differentiable operations, under PyTorch's names.
//!
//! Each runs an operation of [`samebits_tensor_core::ops`] and records how to differentiate it.
//! Backward passes are built from the same functions, so most gradients can be differentiated
//! again.

mod arrange;
mod attention;
mod bincount;
mod broadcast;
mod cast;
mod compare;
mod conv;
mod distance;
mod dropout;
mod einsum;
mod elementwise;
mod embedding;
mod grid;
mod grid_sample;
mod index;
mod interpolate;
mod join;
mod lengths;
mod like;
mod linalg;
mod linear;
mod loss;
mod methods;
mod norm;
mod padding;
mod pooling;
mod products;
mod random;
mod recurrent;
mod reduce;
mod repeat;
mod rotary;
mod scalar;
mod scan;
mod scatter;
mod search;
mod sequences;
mod shape;
mod slice;
mod sort;
mod spatial;
mod statistics;
mod support;
mod windows;

pub use arrange::{
    chunk, diag, diag_embed, diagonal, flip, movedim, repeat, roll, rot90, t, trace, tril, triu,
};
pub(crate) use attention::{Attention, Masks};
pub use attention::{
    AttentionOptions, scaled_dot_product_attention, scaled_dot_product_attention_with,
};
pub use bincount::{bincount, bincount_n, histc};
pub use broadcast::{expand, sum};
pub use cast::to_dtype;
pub use compare::{
    Operand, allclose, eq, equal, ge, gt, isclose, isfinite, isinf, isnan, le, logical_and,
    logical_not, logical_or, logical_xor, lt, ne,
};
pub(crate) use conv::same_padding;
pub use conv::{
    conv, conv_same, conv_transpose, conv_transpose1d, conv_transpose2d, conv_transpose3d, conv1d,
    conv2d, conv3d,
};
pub use distance::{cosine_similarity, norm, normalize, pairwise_distance};
pub use dropout::{
    alpha_dropout, alpha_dropout_with, dropout, dropout_with, dropout1d, dropout1d_with, dropout2d,
    dropout2d_with, dropout3d, dropout3d_with, feature_alpha_dropout, feature_alpha_dropout_with,
};
pub use einsum::einsum;
pub(crate) use elementwise::{Steps, Symbol, formula_of_values};
pub use elementwise::{
    abs, add, addcdiv, addcmul, affine, ceil, celu, clamp, clamp_max, clamp_min, cos, div, elu,
    erf, exp, exp2, expm1, floor, floor_divide, frac, gelu, gelu_tanh, glu, hardshrink,
    hardsigmoid, hardswish, hardtanh, leaky_relu, lerp, log, log_sigmoid, log1p, log2, log10,
    logaddexp, logit, maximum, minimum, mish, mul, nan_to_num, neg, pow, pow_scalar, prelu,
    reciprocal, relu, relu6, remainder, round, rrelu, rrelu_with, rsqrt, selu, sigmoid, sign, silu,
    sin, softplus, softshrink, softsign, sqrt, square, sub, tanh, tanhshrink, threshold, trunc,
    where_,
};
pub use embedding::{BagOptions, embedding, embedding_bag, embedding_renorm, embedding_with};
pub use grid::{meshgrid, one_hot, tril_indices, triu_indices};
pub use grid_sample::{affine_grid, grid_sample};
pub use index::{
    IndexTensor, gather, index, index_add, index_copy, index_fill, index_put, index_select,
    masked_scatter, masked_select, nonzero, put, scatter, scatter_add, scatter_value, take,
};
pub use interpolate::{Resize, interpolate, interpolate_area, pixel_shuffle, pixel_unshuffle};
pub use join::{
    block_diag, broadcast_tensors, cartesian_prod, dstack, expand_as, hstack, tensor_split, tile,
    unbind, vstack,
};
pub use lengths::Lengths;
pub use like::{full_like, ones_like, zeros_like};
pub use linalg::{pca_lowrank, pca_lowrank_with, qr, svd, svd_lowrank, svd_lowrank_with};
pub use linear::{addmm, baddbmm, bmm, linear, matmul};
pub use loss::{
    BatchReduction, ClassLoss, CtcOptions, Reduction, binary_cross_entropy,
    binary_cross_entropy_with_logits, cosine_embedding_loss, cross_entropy,
    cross_entropy_probabilities, cross_entropy_with, ctc_loss, gaussian_nll_loss,
    hinge_embedding_loss, huber_loss, kl_div, l1_loss, log_softmax, margin_ranking_loss, mse_loss,
    multi_margin_loss, multilabel_margin_loss, multilabel_soft_margin_loss, nll_loss,
    nll_loss_with, poisson_nll_loss, smooth_l1_loss, soft_margin_loss, softmax, softmin,
    triplet_margin_loss, triplet_margin_with_distance_loss,
};
pub use norm::{
    BatchStatistics, batch_norm, batch_norm_inference, group_norm, instance_norm, layer_norm,
    local_response_norm, rms_norm,
};
pub use padding::pad;
pub use pooling::{
    adaptive_avg_pool, adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d,
    adaptive_max_pool, adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d, avg_pool,
    avg_pool1d, avg_pool2d, avg_pool3d, fractional_max_pool, fractional_max_pool2d,
    fractional_max_pool3d, fractional_samples, fractional_samples_with, lp_pool, lp_pool1d,
    lp_pool2d, lp_pool3d, max_pool, max_pool1d, max_pool2d, max_pool3d, max_unpool, max_unpool1d,
    max_unpool2d, max_unpool3d,
};
pub use products::{cdist, dot, kron, mm, mv, outer, tensordot};
pub(crate) use random::refused;
pub use random::{
    RandomOptions, bernoulli, bernoulli_with, multinomial, multinomial_with, normal, normal_scalar,
    normal_scalar_with, normal_with, rand, rand_like, rand_like_with, rand_with, randint,
    randint_like, randint_like_with, randint_with, randn, randn_like, randn_like_with, randn_with,
    randperm, randperm_with,
};
pub use recurrent::{
    PackedSequence, Stack, Weights, gru, gru_packed, lstm, lstm_packed, pack_padded_sequence,
    pad_packed_sequence, rnn_relu, rnn_relu_packed, rnn_tanh, rnn_tanh_packed,
};
pub use reduce::{
    all, amax, amin, any, argmax, argmin, logsumexp, max, mean, min, prod, var, var_mean,
};
pub use repeat::{repeat_interleave, repeat_interleave_n, repeat_interleave_to};
pub use rotary::rotary_embedding;
pub use scan::{cummax, cummin, cumprod, cumsum, logcumsumexp};
pub use scatter::{index_reduce, scatter_reduce};
pub use search::{bucketize, isin, searchsorted, take_along_dim};
pub use sequences::{PaddingSide, pack_sequence, pad_sequence, unpack_sequence, unpad_sequence};
pub use shape::{
    cat, flatten, narrow, permute, reshape, split, squeeze, stack, transpose, unflatten, unsqueeze,
};
pub use slice::{At, Ellipsis, NewAxis, Position, Positions, i, select};
pub use sort::{
    argsort, kthvalue, median, median_dim, nanmedian, nanmedian_dim, sort, topk, unique,
    unique_consecutive, unique_consecutive_dim, unique_dim,
};

pub use statistics::{corrcoef, count_nonzero, cov, diff, nanmean, nansum, quantile, std};
pub use support::masked_fill;
pub use windows::{Windows, channel_shuffle, fold, unfold, windows};

use std::borrow::Borrow;

use samebits_rng::Draw;
use samebits_tensor_core::ops::Cast;
use samebits_tensor_core::{DType, Error, Result, Tensor as Value};

use crate::tensor::with_recording;
use crate::{Tensor, run};

/// Returns a gradient that cannot be differentiated again: doing so is an error, not a silent zero.
fn once_differentiable(op: &'static str, value: Value, inputs: &[&Tensor]) -> Tensor {
    Tensor::computed(value, inputs, move |_| {
        Err(Error::invalid(op, "this gradient cannot be differentiated again"))
    })
}

/// Returns a result without a gradient: asking for one is an error, not a silent zero.
fn constant(op: &'static str, value: Value, inputs: &[&Tensor]) -> Tensor {
    Tensor::computed(value, inputs, move |_| Err(Error::invalid(op, "this result has no gradient")))
}

/// Returns the number of generator blocks that `n` random numbers of type `dtype` take.
pub(crate) fn blocks(dtype: DType, n: usize) -> u64 {
    match dtype {
        DType::F64 => Draw::blocks_u64(n),
        _ => Draw::blocks_u32(n),
    }
}

/// Returns the gradient `value` of a fused operation, which can be differentiated once more.
/// `composed` computes it from differentiable operations; its arguments are variables with the
/// values of `inputs`.
fn twice_differentiable(
    op: &'static str,
    value: Value,
    inputs: &[&Tensor],
    composed: impl Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + 'static,
) -> Tensor {
    let saved: Vec<Tensor> = inputs.iter().map(|&x| x.clone()).collect();
    Tensor::computed(value, inputs, move |outer| {
        let fresh: Vec<Tensor> = saved.iter().map(|x| x.detach().leaf(true)).collect();
        let value = with_recording(true, || composed(&fresh))?;
        let grads = value.backward_from(outer.detach(), false)?;
        let sources: Vec<&Tensor> = saved.iter().chain([outer]).collect();
        let grad = |x: &Tensor| {
            grads.of(x).map(|grad| once_differentiable(op, grad.value().clone(), &sources))
        };
        Ok(fresh.iter().map(grad).collect())
    })
}

/// Returns the only element as f64.
fn wide(x: &Tensor) -> Result<f64> {
    run(&Cast { x: x.value().clone(), to: DType::F64 })?.item()
}

/// Returns references to the tensors that a list owns or borrows.
fn each(tensors: &[impl Borrow<Tensor>]) -> Vec<&Tensor> {
    tensors.iter().map(Borrow::borrow).collect()
}

/// Returns zeros on the device of `like`: one stored zero, broadcast. Kernels that add to it need
/// not read it.
fn zeros_of(shape: &[usize], dtype: DType, like: &Tensor) -> Result<Tensor> {
    Tensor::zeros(&[], dtype)?.to(like.device())?.expand(shape)
}

/// Returns a function that makes zeros like `x`, without keeping `x` itself.
fn zeros_for(x: &Tensor) -> impl Fn() -> Result<Tensor> + Send + Sync + 'static {
    let (shape, dtype, device) = (x.shape().to_vec(), x.dtype(), x.device());
    move || Tensor::zeros(&[], dtype)?.to(device)?.expand(&shape)
}
