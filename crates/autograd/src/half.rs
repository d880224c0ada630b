//! Half precision: f16 and bf16.
//!
//! A function of halves is that of f32, between exact conversions of its arguments and one rounding
//! of each result. Its gradient follows by the same rule, since conversions are differentiable.
//! `#[named]` puts the conversions around the functions of [`functional`](crate::functional).

use std::borrow::Borrow;

use samebits_tensor_core::{DType, Error, Result};

use crate::Tensor;
use crate::autocast::{autocast_dtype, with_autocast};
use crate::functional::to_dtype;

/// Functions that compare or move elements and compute nothing: they take halves as they are.
const MOVING: &[&str] = &[
    "allclose",
    "broadcast_tensors",
    "cat",
    "chunk",
    "diag",
    "diag_embed",
    "diagonal",
    "dstack",
    "embedding",
    "embedding_with",
    "eq",
    "equal",
    "expand",
    "expand_as",
    "flatten",
    "flip",
    "full_like",
    "gather",
    "ge",
    "gt",
    "hstack",
    "index",
    "index_copy",
    "index_fill",
    "index_select",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "movedim",
    "narrow",
    "ne",
    "nonzero",
    "ones_like",
    "permute",
    "repeat",
    "repeat_interleave",
    "repeat_interleave_n",
    "reshape",
    "roll",
    "rot90",
    "scatter",
    "scatter_value",
    "select",
    "split",
    "squeeze",
    "stack",
    "t",
    "take",
    "take_along_dim",
    "tensor_split",
    "tile",
    "to_dtype",
    "transpose",
    "tril",
    "triu",
    "unbind",
    "unflatten",
    "unpad_sequence",
    "unsqueeze",
    "vstack",
    "where_",
    "zeros_like",
];

/// Functions with kernels of halves, which widen while they read: they take halves as they are.
const FUSED: &[&str] = &["bmm", "linear", "matmul", "mm", "mv"];

/// Functions that draw in the form of a tensor. Floats of halves are refused, because a rounded number
/// could be the bound that the range excludes; integers are cast once.
const DRAWING: &[&str] = &[
    "rand_like",
    "rand_like_with",
    "randint_like",
    "randint_like_with",
    "randn_like",
    "randn_like_with",
];

/// Functions that [`autocast`](crate::autocast()) computes in half precision.
const LOW: &[&str] = &[
    "addmm",
    "baddbmm",
    "bmm",
    "conv",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_same",
    "conv_transpose",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "einsum",
    "gru",
    "gru_packed",
    "linear",
    "lstm",
    "lstm_packed",
    "matmul",
    "mm",
    "mv",
    "rnn_relu",
    "rnn_relu_packed",
    "rnn_tanh",
    "rnn_tanh_packed",
    "scaled_dot_product_attention",
    "scaled_dot_product_attention_with",
    "tensordot",
];

/// Functions that [`autocast`](crate::autocast()) computes in f32, with results of f32.
const HIGH: &[&str] = &[
    "batch_norm",
    "batch_norm_inference",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cdist",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "cross_entropy_probabilities",
    "cross_entropy_with",
    "ctc_loss",
    "cumprod",
    "cumsum",
    "exp",
    "expm1",
    "gaussian_nll_loss",
    "group_norm",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "logsumexp",
    "margin_ranking_loss",
    "mean",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "nll_loss_with",
    "norm",
    "pairwise_distance",
    "poisson_nll_loss",
    "pow",
    "pow_scalar",
    "prod",
    "reciprocal",
    "rms_norm",
    "rsqrt",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "std",
    "sum",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "var",
    "var_mean",
];

/// The float types among the arguments of a call.
#[derive(Default)]
pub(crate) struct Types {
    first: Option<DType>,
    other: Option<DType>,
}

/// The conversions around a function that computes in f32.
pub(crate) struct Rule {
    /// The type to which arguments of f32 are rounded first.
    low: Option<DType>,
    /// The type to which results are rounded.
    result: DType,
    /// True if arguments are not widened.
    fused: bool,
}

impl Types {
    /// Notes the type of an argument.
    #[inline]
    pub(crate) fn note(&mut self, x: &Tensor) {
        let dtype = x.dtype();
        if !dtype.is_float() || self.first == Some(dtype) {
            return;
        }
        match self.first {
            None => self.first = Some(dtype),
            // An f64 among the arguments outlasts others: it is never rounded.
            Some(_) if self.other == Some(DType::F64) => {}
            Some(_) => self.other = Some(dtype),
        }
    }

    /// Returns the conversions around a call of the function `op`, if it needs any.
    #[inline]
    pub(crate) fn rule(&self, op: &'static str) -> Result<Option<Rule>> {
        let autocast = autocast_dtype();
        match (self.first, self.other) {
            (Some(DType::F32 | DType::F64) | None, None) if autocast.is_none() => Ok(None),
            (first, other) => rule(op, first, other, autocast),
        }
    }
}

#[cold]
fn rule(
    op: &'static str,
    first: Option<DType>,
    other: Option<DType>,
    autocast: Option<DType>,
) -> Result<Option<Rule>> {
    let Some(first) = first else { return Ok(None) };
    let types = || [Some(first), other].into_iter().flatten();
    let halves = types().any(DType::is_half);
    let is_among = |names: &[&str]| names.binary_search(&op).is_ok();
    if is_among(DRAWING) {
        return Ok(None);
    }
    // A copy of a mixed list takes the widest type, as any other function.
    if is_among(MOVING) && (autocast.is_none() || other.is_none() || op == "to_dtype") {
        return Ok(None);
    }
    let fused = is_among(FUSED);
    if autocast.is_some() && types().all(|dtype| dtype.is_half() || dtype == DType::F32) {
        if is_among(LOW) {
            return Ok(autocast.map(|low| Rule { low: Some(low), result: low, fused }));
        }
        // Of f32 alone too: products inside such a function are not rounded.
        if !halves || other.is_some() || is_among(HIGH) {
            return Ok(Some(Rule { low: None, result: DType::F32, fused: false }));
        }
    }
    match other {
        _ if !halves => Ok(None),
        None if fused => Ok(None),
        None => Ok(Some(Rule { low: None, result: first, fused })),
        Some(got) => Err(Error::DTypeMismatch { op, what: "the arguments", expected: first, got }),
    }
}

impl Rule {
    /// Returns an argument as the function computes with it.
    pub(crate) fn widen(&self, x: &Tensor) -> Result<Tensor> {
        match self.low {
            Some(low) if x.dtype().is_float() => {
                let x = to_dtype(x, low)?;
                if self.fused { Ok(x) } else { widen(&x) }
            }
            _ => widen(x),
        }
    }

    /// Returns [`widen`](Rule::widen) of each tensor.
    pub(crate) fn widen_all(&self, tensors: &[impl Borrow<Tensor>]) -> Result<Vec<Tensor>> {
        tensors.iter().map(|x| self.widen(x.borrow())).collect()
    }

    /// Runs the function: inside, nothing is rounded.
    #[track_caller]
    pub(crate) fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        with_autocast(None, f)
    }

    /// Rounds the results.
    pub(crate) fn narrow<R: Narrow>(&self, results: R) -> Result<R> {
        results.narrow(self.result)
    }
}

/// Returns `x` in f32 if it holds halves, else `x`.
pub(crate) fn widen(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_half() { to_dtype(x, DType::F32) } else { Ok(x.clone()) }
}

/// Returns `f(x)`, computed in f32 if `x` holds halves.
pub(crate) fn in_f32(x: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    match x.dtype() {
        half if half.is_half() => f(&widen(x)?)?.narrow(half),
        _ => f(x),
    }
}

/// An argument that holds tensors.
pub(crate) trait Holder: Sized {
    /// Calls `visit` with each tensor.
    fn each(&self, visit: &mut dyn FnMut(&Tensor));

    /// Returns a copy with each tensor replaced by the result of `change`.
    fn with_each(&self, change: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self>;
}

/// A result with tensors of f32, each of which is rounded once.
pub(crate) trait Narrow: Sized {
    /// Rounds to `half`.
    fn narrow(self, half: DType) -> Result<Self>;
}

impl Narrow for Tensor {
    fn narrow(self, half: DType) -> Result<Tensor> {
        if self.dtype() == DType::F32 { to_dtype(&self, half) } else { Ok(self) }
    }
}

impl Narrow for Vec<Tensor> {
    fn narrow(self, half: DType) -> Result<Vec<Tensor>> {
        self.into_iter().map(|x| x.narrow(half)).collect()
    }
}

impl<A: Narrow, B: Narrow> Narrow for (A, B) {
    fn narrow(self, half: DType) -> Result<(A, B)> {
        Ok((self.0.narrow(half)?, self.1.narrow(half)?))
    }
}

impl<A: Narrow, B: Narrow, C: Narrow> Narrow for (A, B, C) {
    fn narrow(self, half: DType) -> Result<(A, B, C)> {
        Ok((self.0.narrow(half)?, self.1.narrow(half)?, self.2.narrow(half)?))
    }
}

macro_rules! no_floats {
    ($($kind:ty),*) => {$(
        impl Narrow for $kind {
            fn narrow(self, _: DType) -> Result<$kind> {
                Ok(self)
            }
        }
    )*};
}
no_floats!(bool, usize, Vec<usize>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_disjoint() {
        for list in [MOVING, FUSED, DRAWING, LOW, HIGH] {
            assert!(list.is_sorted());
        }
        assert!(!LOW.iter().any(|name| HIGH.contains(name) || MOVING.contains(name)));
        assert!(!HIGH.iter().any(|name| MOVING.contains(name)));
        assert!(FUSED.iter().all(|name| LOW.contains(name)));
    }
}
