use samebits_macros::named;
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{AdaptiveAvgPool, AdaptiveAvgPoolGrad, AdaptiveMaxPool};

use super::indexed::{Windows, sum_by_index};
use crate::functional::spatial::{batched, batched_with_indices, by_dims};
use crate::{Tensor, run};

/// Averages windows for a given size of the result: output `o` of a dimension covers the inputs
/// from `floor(o · input / output)` to `ceil((o + 1) · input / output)`.
///
/// # Shapes
///
/// `input` is `[n, channels, ..]` or `[channels, ..]`; `output_size` has one entry per spatial
/// dimension.
///
/// # Errors
///
/// The output size does not match the shape, or a spatial dimension of the input is empty.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0], &[1, 1, 5])?;
/// let y = functional::adaptive_avg_pool1d(&x, &[2])?;
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[named]
#[track_caller]
pub fn adaptive_avg_pool(input: &Tensor, output_size: &[usize]) -> Result<Tensor> {
    batched(input, output_size.len(), |input| averaged(input, output_size))
}

/// Returns the largest element of each window of [`adaptive_avg_pool`], and its index in the
/// flattened spatial dimensions.
///
/// # Shapes
///
/// As [`adaptive_avg_pool`].
///
/// # Errors
///
/// As [`adaptive_avg_pool`].
#[named]
#[track_caller]
pub fn adaptive_max_pool(input: &Tensor, output_size: &[usize]) -> Result<(Tensor, Tensor)> {
    batched_with_indices(input, output_size.len(), |input| {
        let op =
            AdaptiveMaxPool { input: input.value().clone(), output_size: output_size.to_vec() };
        let (value, indices) = run(&op)?;
        let indices = Tensor::from(indices);
        let (saved, shape) = (indices.clone(), input.shape().to_vec());
        let result = Tensor::computed(value, &[input], move |grad| {
            Ok(vec![Some(sum_by_index(grad, &saved, &shape, &Windows::Adaptive)?)])
        });
        Ok((result, indices))
    })
}

by_dims! {
    adaptive_avg_pool(input: &Tensor, output_size: &[usize]) -> Tensor, dims: output_size.len();
    adaptive_avg_pool1d: 1, "one dimension";
    adaptive_avg_pool2d: 2, "two dimensions";
    adaptive_avg_pool3d: 3, "three dimensions";
}

by_dims! {
    adaptive_max_pool(input: &Tensor, output_size: &[usize]) -> (Tensor, Tensor), dims: output_size.len();
    adaptive_max_pool1d: 1, "one dimension";
    adaptive_max_pool2d: 2, "two dimensions";
    adaptive_max_pool3d: 3, "three dimensions";
}

#[track_caller]
fn averaged(input: &Tensor, output_size: &[usize]) -> Result<Tensor> {
    let op = AdaptiveAvgPool { input: input.value().clone(), output_size: output_size.to_vec() };
    let (value, shape) = (run(&op)?, input.shape().to_vec());
    Ok(Tensor::computed(value, &[input], move |grad| {
        let op = AdaptiveAvgPoolGrad { grad: grad.value().clone(), input_shape: shape.clone() };
        let output_size = grad.shape()[2..].to_vec();
        // Averaging is linear: the derivative of its gradient is averaging again.
        Ok(vec![Some(Tensor::computed(run(&op)?, &[grad], move |outer| {
            Ok(vec![Some(averaged(outer, &output_size)?)])
        }))])
    }))
}
