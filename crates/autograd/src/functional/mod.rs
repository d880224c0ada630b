//! The differentiable operations, under PyTorch's names.
//!
//! Each runs an operation of [`samebits_tensor_core::ops`] and remembers how to differentiate it.
//! Backward passes are built from the same functions, so that most gradients can be
//! differentiated again.

mod conv;
mod elementwise;
mod index;
mod linear;
mod loss;
mod norm;
mod pooling;
mod random;
mod reduce;
mod shape;

pub use conv::{conv, conv1d, conv2d, conv3d};
pub use elementwise::{
    abs, add, affine, clamp, cos, div, elu, erf, exp, exp2, expm1, gelu, gelu_tanh, hardtanh,
    leaky_relu, log, log_sigmoid, log1p, log2, log10, maximum, minimum, mul, neg, pow, pow_scalar,
    reciprocal, relu, relu6, rsqrt, sigmoid, sign, silu, sin, softplus, sqrt, square, sub, tanh,
    where_,
};
pub use index::{embedding, index_add, index_select};
pub use linear::{linear, matmul};
pub use loss::{cross_entropy, log_softmax, nll_loss, softmax};
pub use norm::{BatchStatistics, batch_norm, batch_norm_inference, layer_norm};
pub use pooling::{avg_pool, max_pool};
pub use random::dropout;
pub use reduce::{mean, sum};
pub use shape::{expand, flatten_from, permute, reshape, transpose};

use samebits_tensor_core::{Error, Tensor};

use crate::Var;

/// A gradient that cannot be differentiated again: doing so is an error, not a silent zero.
fn once(op: &'static str, value: Tensor, inputs: &[&Var]) -> Var {
    Var::computed(value, inputs, move |_| {
        Err(Error::invalid(op, "this gradient cannot be differentiated again"))
    })
}
