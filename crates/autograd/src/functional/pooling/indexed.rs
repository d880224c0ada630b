//! Sums and picks by index: the gradients of maximum pooling and of its inverse, of any order.

use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{
    AdaptiveMaxPoolGrad, FractionalMaxPoolGrad, MaxPoolGrad, MaxUnpoolGrad, PoolParams,
};

use crate::{Tensor, run};

/// What is known of the windows that some indices come from.
#[derive(Clone, Debug)]
pub(super) enum Windows {
    /// They move in even steps.
    Moving(PoolParams),
    /// They cover the input evenly.
    Adaptive,
    /// They are at pseudo-random places.
    Fractional,
}

/// The gradient of a maximum pooling: each element of `grad` is added where its index says.
#[track_caller]
pub(super) fn sum_by_index(
    grad: &Tensor,
    indices: &Tensor,
    input_shape: &[usize],
    windows: &Windows,
) -> Result<Tensor> {
    let (value, saved) = (grad.value().clone(), indices.clone());
    let indices = indices.value().clone();
    let input_shape = input_shape.to_vec();
    let sums = match windows.clone() {
        Windows::Moving(params) => run(&MaxPoolGrad { grad: value, indices, input_shape, params })?,
        Windows::Adaptive => run(&AdaptiveMaxPoolGrad { grad: value, indices, input_shape })?,
        Windows::Fractional => run(&FractionalMaxPoolGrad { grad: value, indices, input_shape })?,
    };
    let windows = windows.clone();
    Ok(Tensor::computed(sums, &[grad], move |outer| {
        Ok(vec![Some(pick_by_index(outer, &saved, &windows)?)])
    }))
}

/// The gradient of the inverse of a maximum pooling: the elements of `x` that the indices name.
#[track_caller]
pub(super) fn pick_by_index(x: &Tensor, indices: &Tensor, windows: &Windows) -> Result<Tensor> {
    let value = run(&MaxUnpoolGrad { grad: x.value().clone(), indices: indices.value().clone() })?;
    let (shape, indices, windows) = (x.shape().to_vec(), indices.clone(), windows.clone());
    Ok(Tensor::computed(value, &[x], move |outer| {
        Ok(vec![Some(sum_by_index(outer, &indices, &shape, &windows)?)])
    }))
}
