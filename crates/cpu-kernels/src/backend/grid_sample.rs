use samebits_tensor_core::Tensor;
use samebits_tensor_core::ops::{GridSample, GridSampleGridGrad, GridSampleInputGrad};
use samebits_tensor_core::registry::{Kernel, register};

use super::{FLOATS, with_float};
use crate::grid_sample::{grid_sample, grid_sample_grid_backward, grid_sample_input_backward};

pub(super) fn register_all() {
    register(Kernel::portable(
        "taps",
        FLOATS,
        "each output adds its taps in row-major order",
        |op: &GridSample, sampling| {
            let (input, grid) = (op.input.contiguous()?, op.grid.contiguous()?);
            let mut out = Tensor::scratch(sampling.output_shape(), input.dtype())?;
            with_float!(input.dtype(), T => {
                grid_sample::<T>(sampling, input.as_slice()?, grid.as_slice()?, out.as_mut_slice()?)?;
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
            let input = op.input.contiguous()?;
            let mut out = Tensor::scratch(grid.shape(), grid.dtype())?;
            with_float!(grad.dtype(), T => {
                grid_sample_grid_backward::<T>(
                    sampling,
                    grad.as_slice()?,
                    input.as_slice()?,
                    grid.as_slice()?,
                    out.as_mut_slice()?,
                )?;
            });
            Ok(out)
        },
    ));
}
