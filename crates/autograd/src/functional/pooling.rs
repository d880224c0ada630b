use samebits_tensor_core::ops::{AvgPool, AvgPoolGrad, MaxPool, MaxPoolGrad, PoolParams};
use samebits_tensor_core::{Result, Tensor};

use super::once;
use crate::{Var, run};

/// The largest element of each window, and its index in the flattened spatial dimensions.
///
/// # Errors
///
/// The parameters do not fit the shape.
#[track_caller]
pub fn max_pool(input: &Var, params: &PoolParams) -> Result<(Var, Tensor)> {
    let (value, indices) = run(&MaxPool { input: input.value().clone(), params: params.clone() })?;
    let (saved, input_shape, params) = (indices.clone(), input.shape().to_vec(), params.clone());
    let result = Var::computed(value, &[input], move |grad| {
        let value = run(&MaxPoolGrad {
            grad: grad.value().clone(),
            indices: saved.clone(),
            input_shape: input_shape.clone(),
            params: params.clone(),
        })?;
        Ok(vec![Some(once("max_pool", value, &[grad]))])
    });
    Ok((result, indices))
}

/// The mean of each window.
///
/// # Errors
///
/// The parameters do not fit the shape.
#[track_caller]
pub fn avg_pool(
    input: &Var,
    params: &PoolParams,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Var> {
    let op = AvgPool {
        input: input.value().clone(),
        params: params.clone(),
        count_include_pad,
        divisor_override,
    };
    let value = run(&op)?;
    let (input_shape, params) = (input.shape().to_vec(), params.clone());
    Ok(Var::computed(value, &[input], move |grad| {
        let value = run(&AvgPoolGrad {
            grad: grad.value().clone(),
            input_shape: input_shape.clone(),
            params: params.clone(),
            count_include_pad,
            divisor_override,
        })?;
        // Averaging is linear: the derivative of its gradient is averaging again.
        let params = params.clone();
        Ok(vec![Some(Var::computed(value, &[grad], move |outer| {
            Ok(vec![Some(avg_pool(outer, &params, count_include_pad, divisor_override)?)])
        }))])
    }))
}
