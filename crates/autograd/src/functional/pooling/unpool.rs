use samebits_macros::named;
use samebits_tensor_core::ops::{MaxUnpool, PoolParams};
use samebits_tensor_core::{Error, Result};

use super::indexed::{Windows, pick_by_index};
use crate::functional::index::last_writers;
use crate::functional::shape::reshape;
use crate::functional::spatial::{batched, by_dims, expect_dims};
use crate::functional::support::masked;
use crate::{Tensor, run};

/// Computes the partial inverse of [`max_pool`](super::max_pool) with `params`: writes each element
/// to its index, in a tensor of zeros. If several elements have one index, the last is kept and
/// receives the gradient; the others get 0.
///
/// # Shapes
///
/// `input` and `indices` are `[n, channels, ..]` or `[channels, ..]`. The result has `output_size`,
/// or else the smallest size that the pooling maps to the input's.
///
/// # Errors
///
/// The shapes do not match, an index is outside the result, or `output_size` is a stride or more
/// away from that smallest size.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
/// use samebits_tensor_core::ops::PoolParams;
///
/// let params = PoolParams::square(1, 2);
/// let x = Tensor::from_slice(&[1.0f32, 3.0, 4.0, 2.0], &[1, 1, 4])?;
/// let (y, indices) = functional::max_pool1d(&x, &params)?;
/// let back = functional::max_unpool1d(&y, &indices, &params, None)?;
/// assert_eq!(back.to_vec::<f32>()?, [0.0, 3.0, 4.0, 0.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[named]
#[track_caller]
pub fn max_unpool(
    input: &Tensor,
    indices: &Tensor,
    params: &PoolParams,
    output_size: Option<&[usize]>,
) -> Result<Tensor> {
    let dims = params.kernel.len();
    let size = unpooled_size(input.shape(), params, output_size)?;
    let batch_of_one = input.shape().len() == dims + 1;
    batched(input, dims, |input| {
        let indices = if batch_of_one { indices.unsqueeze(0)? } else { indices.clone() };
        let value = run(&MaxUnpool {
            input: input.value().clone(),
            indices: indices.value().clone(),
            output_size: size,
        })?;
        Ok(Tensor::computed(value, &[input], move |grad| {
            let by_plane = |shape: &[usize]| {
                let (outer, plane) = shape.split_at(2);
                [outer, &[plane.iter().product()]].concat()
            };
            let flat = reshape(&indices, by_plane(indices.shape()))?;
            let kept = last_writers(&by_plane(grad.shape()), 2, &flat)?;
            // The windows that the indices come from are unknown.
            let picked = pick_by_index(grad, &indices, &Windows::Adaptive)?;
            Ok(vec![Some(masked(&reshape(&kept, indices.shape())?, &picked)?)])
        }))
    })
}

by_dims! {
    max_unpool(
        input: &Tensor,
        indices: &Tensor,
        params: &PoolParams,
        output_size: Option<&[usize]>
    ) -> Tensor, dims: params.kernel.len();
    max_unpool1d: 1, "one dimension";
    max_unpool2d: 2, "two dimensions";
    max_unpool3d: 3, "three dimensions";
}

fn unpooled_size(
    input: &[usize],
    params: &PoolParams,
    output_size: Option<&[usize]>,
) -> Result<Vec<usize>> {
    let op = "max_unpool";
    let dims = params.kernel.len();
    expect_dims(op, params.stride.len(), dims)?;
    expect_dims(op, params.padding.len(), dims)?;
    let Some(first) = input.len().checked_sub(dims).filter(|first| (1..=2).contains(first)) else {
        return Err(Error::invalid(
            op,
            format!("shape {input:?} does not have {dims} spatial dimensions"),
        ));
    };
    let smallest = (0..dims)
        .map(|d| {
            let size = input[first + d].checked_sub(1)?.checked_mul(params.stride[d])?;
            size.checked_add(params.kernel[d])?.checked_sub(params.padding[d].checked_mul(2)?)
        })
        .collect::<Option<Vec<usize>>>();
    let Some(smallest) = smallest else {
        return Err(Error::invalid(
            op,
            format!("shape {input:?} cannot be the result of a pooling with {params:?}"),
        ));
    };
    let Some(given) = output_size else { return Ok(smallest) };
    let near = |d: usize| smallest[d].abs_diff(given[d]) < params.stride[d];
    if given.len() != dims || !(0..dims).all(near) {
        return Err(Error::invalid(
            op,
            format!(
                "output size {given:?} is a stride {:?} or more away from {smallest:?}",
                params.stride
            ),
        ));
    }
    Ok(given.to_vec())
}
