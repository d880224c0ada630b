use samebits_macros::named;
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{AvgPool, AvgPoolGrad, MaxPool, PoolParams};

mod adaptive;
mod fractional;
mod indexed;
mod power;
mod unpool;

pub use adaptive::{
    adaptive_avg_pool, adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d,
    adaptive_max_pool, adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d,
};
pub use fractional::{
    fractional_max_pool, fractional_max_pool2d, fractional_max_pool3d, fractional_samples,
    fractional_samples_with,
};
pub use power::lp_pool;
pub use unpool::{max_unpool, max_unpool1d, max_unpool2d, max_unpool3d};

use super::spatial::{batched, batched_with_indices, by_dims};
use crate::{Tensor, run};
use indexed::{Windows, sum_by_index};

/// Returns the largest element of each window, and its index in the flattened spatial dimensions.
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

/// Returns the mean of each window.
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
