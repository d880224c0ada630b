use samebits_tensor_core::ops::{GridSample, GridSampleGridGrad, GridSampleInputGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Result, Tensor};

use super::{FLOATS, with_float};
use crate::grid_sample::{
    Images, grid_sample_input_backward, images_grid_backward, in_place, sample_images,
};
use samebits_tensor_core::Element;
use samebits_tensor_core::geometry::Sampling;

pub(super) fn register_all() {
    register(Kernel::portable(
        "taps",
        FLOATS,
        "each output adds its taps in row-major order",
        |op: &GridSample, sampling| {
            let (input, grid) = (arranged(&op.input, sampling)?, op.grid.contiguous()?);
            let mut out = Tensor::scratch(sampling.output_shape(), input.dtype())?;
            with_float!(input.dtype(), T => {
                sample_images(
                    sampling,
                    images::<T>(&input)?,
                    grid.as_slice()?,
                    out.as_mut_slice()?,
                )?;
            });
            Ok(out)
        },
    ));
    register(Kernel::portable(
        "exact",
        FLOATS,
        "f32: the sum is exact and rounded once; f64: added in ascending order of the taps",
        |op: &GridSampleInputGrad, sampling| {
            let (grad, grid) = (op.grad.contiguous()?, op.grid.contiguous()?);
            let mut out = Tensor::scratch(&op.input_shape, grad.dtype())?;
            with_float!(grad.dtype(), T => {
                grid_sample_input_backward::<T>(
                    sampling,
                    grad.as_slice()?,
                    grid.as_slice()?,
                    out.as_mut_slice()?,
                )?;
            });
            Ok(out)
        },
    ));
    register(Kernel::portable(
        "points",
        FLOATS,
        "each point adds its channels in ascending order",
        |op: &GridSampleGridGrad, sampling| {
            let (grad, grid) = (op.grad.contiguous()?, op.grid.contiguous()?);
            let input = arranged(&op.input, sampling)?;
            let mut out = Tensor::scratch(grid.shape(), grid.dtype())?;
            with_float!(grad.dtype(), T => {
                images_grid_backward(
                    sampling,
                    grad.as_slice()?,
                    images::<T>(&input)?,
                    grid.as_slice()?,
                    out.as_mut_slice()?,
                )?;
            });
            Ok(out)
        },
    ));
}

/// Returns the input in a layout that the kernels read: its own, if that costs less than a copy.
fn arranged(input: &Tensor, sampling: &Sampling) -> Result<Tensor> {
    if in_place(sampling, input.dtype().size()) { Ok(input.clone()) } else { input.contiguous() }
}

/// Returns the elements of an [`arranged`] input and their distances.
fn images<T: Element>(input: &Tensor) -> Result<Images<'_, T>> {
    let layout = input.layout();
    let data = input.storage_slice()?.get(layout.offset()..).unwrap_or_default();
    let mut strides = [0; 4];
    if let [image, channel, .., row, column] = *layout.strides() {
        strides = [image, channel, row, column];
    }
    Ok(Images { data, strides })
}
