//! Sums and selections by index: the gradients, of any order, of max pooling and its inverse.

use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{
    AdaptiveMaxPoolGrad, FractionalMaxPoolGrad, MaxPoolGrad, MaxUnpoolGrad, PoolParams,
};

use crate::{Tensor, run};

/// The kind of windows that some indices come from.
#[derive(Clone, Debug)]
pub(super) enum Windows {
    /// Windows at even steps.
    Moving(PoolParams),
    /// Windows that cover the input evenly.
    Adaptive,
    /// Windows at pseudo-random positions.
    Fractional,
}

/// Returns the gradient of max pooling: adds each element of `grad` at its index.
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

/// Returns the gradient of the inverse of max pooling: the elements of `x` at the indices.
#[track_caller]
pub(super) fn pick_by_index(x: &Tensor, indices: &Tensor, windows: &Windows) -> Result<Tensor> {
    let value = run(&MaxUnpoolGrad { grad: x.value().clone(), indices: indices.value().clone() })?;
    let (shape, indices, windows) = (x.shape().to_vec(), indices.clone(), windows.clone());
    Ok(Tensor::computed(value, &[x], move |outer| {
        Ok(vec![Some(sum_by_index(outer, &indices, &shape, &windows)?)])
    }))
}
