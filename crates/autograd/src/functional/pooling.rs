use samebits_macros::named;
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::ops::{AvgPool, AvgPoolGrad, MaxPool, PoolParams};
use samebits_tensor_core::{Error, Result};

mod adaptive;
mod fractional;
mod indexed;
mod unpool;

pub use adaptive::{
    adaptive_avg_pool, adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d,
    adaptive_max_pool, adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d,
};
pub use fractional::{
    fractional_max_pool, fractional_max_pool2d, fractional_max_pool3d, fractional_samples,
    fractional_samples_with,
};
pub use unpool::{max_unpool, max_unpool1d, max_unpool2d, max_unpool3d};

use super::elementwise::{pow_scalar, times};
use super::spatial::{batched, batched_with_indices, by_dims};
use crate::{Tensor, run};
use indexed::{Windows, sum_by_index};

/// The largest element of each window, and its index in the flattened spatial dimensions.
///
/// # Shapes
///
/// `input` is `[n, channels, ..]` or `[channels, ..]`.
///
/// # Errors
///
/// The parameters do not fit the shape.
#[named]
#[track_caller]
pub fn max_pool(input: &Tensor, params: &PoolParams) -> Result<(Tensor, Tensor)> {
    batched_with_indices(input, params.kernel.len(), |input| {
        let op = MaxPool { input: input.value().clone(), params: params.clone() };
        let (value, indices) = run(&op)?;
        let indices = Tensor::from(indices);
        let (saved, input_shape) = (indices.clone(), input.shape().to_vec());
        let windows = Windows::Moving(params.clone());
        let result = Tensor::computed(value, &[input], move |grad| {
            Ok(vec![Some(sum_by_index(grad, &saved, &input_shape, &windows)?)])
        });
        Ok((result, indices))
    })
}

/// The mean of each window.
///
/// # Shapes
///
/// `input` is `[n, channels, ..]` or `[channels, ..]`.
///
/// # Errors
///
/// The parameters do not fit the shape.
#[named]
#[track_caller]
pub fn avg_pool(
    input: &Tensor,
    params: &PoolParams,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    batched(input, params.kernel.len(), |input| {
        averaged(input, params, count_include_pad, divisor_override)
    })
}

/// The p-norm of each window: the p-th root of the sum of the p-th powers.
///
/// # Shapes
///
/// `input` is `[n, channels, ..]` or `[channels, ..]`.
///
/// # Determinism
///
/// The powers are averaged by [`avg_pool`], the mean's size is multiplied with the number of
/// elements of a window and the p-th root taken, each operation rounded. As in PyTorch, a window
/// that hangs over the end counts as if it were full, and a sum below 0, which odd powers allow,
/// has the root NaN.
///
/// # Errors
///
/// `norm` is 0, the parameters do not fit the shape, or padding or dilation is asked for.
#[named]
#[track_caller]
pub fn lp_pool(input: &Tensor, norm: f64, params: &PoolParams) -> Result<Tensor> {
    let op = "lp_pool";
    if norm == 0.0 || params.padding.iter().any(|&padding| padding != 0) {
        return Err(Error::invalid(
            op,
            format!("expected a norm other than 0 and no padding, got {norm} and {params:?}"),
        ));
    }
    let count = numel(op, &params.kernel)? as f64;
    let mean = avg_pool(&pow_scalar(input, norm)?, params, true, None)?;
    pow_scalar(&times(&mean, count)?, 1.0 / norm)
}

by_dims! {
    lp_pool(input: &Tensor, norm: f64, params: &PoolParams) -> Tensor, dims: params.kernel.len();
    lp_pool1d: 1, "one dimension";
    lp_pool2d: 2, "two dimensions";
    lp_pool3d: 3, "three dimensions";
}

by_dims! {
    max_pool(input: &Tensor, params: &PoolParams) -> (Tensor, Tensor), dims: params.kernel.len();
    max_pool1d: 1, "one dimension";
    max_pool2d: 2, "two dimensions";
    max_pool3d: 3, "three dimensions";
}

by_dims! {
    avg_pool(
        input: &Tensor,
        params: &PoolParams,
        count_include_pad: bool,
        divisor_override: Option<i64>
    ) -> Tensor, dims: params.kernel.len();
    avg_pool1d: 1, "one dimension";
    avg_pool2d: 2, "two dimensions";
    avg_pool3d: 3, "three dimensions";
}

#[track_caller]
fn averaged(
    input: &Tensor,
    params: &PoolParams,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    let op = AvgPool {
        input: input.value().clone(),
        params: params.clone(),
        count_include_pad,
        divisor_override,
    };
    let value = run(&op)?;
    let (input_shape, params) = (input.shape().to_vec(), params.clone());
    Ok(Tensor::computed(value, &[input], move |grad| {
        let value = run(&AvgPoolGrad {
            grad: grad.value().clone(),
            input_shape: input_shape.clone(),
            params: params.clone(),
            count_include_pad,
            divisor_override,
        })?;
        // Averaging is linear: the derivative of its gradient is averaging again.
        let params = params.clone();
        Ok(vec![Some(Tensor::computed(value, &[grad], move |outer| {
            Ok(vec![Some(averaged(outer, &params, count_include_pad, divisor_override)?)])
        }))])
    }))
}
