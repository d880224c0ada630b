//! Pooling over windows of one, two or three dimensions, forward and backward.
//!
//! # Layouts
//!
//! Tensors are contiguous, and are treated as `planes` planes (batch times channels) of one, two or
//! three dimensions each. Indices of maxima are positions in their plane, as in PyTorch.
//!
//! # What is computed
//!
//! - A maximum is the first largest element of its window in row-major order. NaN counts as the
//!   largest, so the result is the first NaN, in canonical form. Padding is never the maximum.
//! - An average adds the elements of its window in row-major order in f64, from `+0`, divides by
//!   the divisor in f64 and rounds once. Padding is skipped, not added.
//! - A gradient element starts from `+0` and adds the contributions of the outputs whose windows
//!   cover it in ascending output index, each by one `mul_add(gradient, weight, sum)`. The weight
//!   is 1 for a maximum, and 1 divided by the divisor (rounded) for an average.
//!
//! Planes and rows are distributed to threads; the order above does not depend on it.

mod adaptive;
mod avg;
mod fractional;
mod lanes;
mod max;
mod unpool;

pub use adaptive::{adaptive_avg_pool, adaptive_avg_pool_backward, adaptive_max_pool};
pub use avg::{avg_pool, avg_pool_backward};
pub use fractional::fractional_max_pool;
pub use max::{max_pool, max_pool_backward};
pub use unpool::{max_unpool, max_unpool_backward};

pub use samebits_tensor_core::geometry::{
    AdaptiveAxis, AdaptivePool, Average, FractionalAxis, FractionalPool, Pool, PoolAxis, PoolParams,
};
