use samebits_tensor_core::ops::{GridParams, GridSampleGridGrad, GridSampleInputGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Op, Result, Tensor, ops};

use super::{FLOATS, with_float};
use crate::grid_sample::GridSample;

pub(super) fn register_all() {
    register(Kernel::portable(
        "taps",
        FLOATS,
        "each output takes its taps in row-major order",
        |op: &ops::GridSample, ()| {
            let (input, grid) = (op.input.contiguous()?, op.grid.contiguous()?);
            let sample = sampling(ops::GridSample::NAME, input.shape(), grid.shape(), op.params)?;
            let (planes, points) = (&input.shape()[..2], &grid.shape()[1..grid.rank() - 1]);
            let mut out = Tensor::scratch(&[planes, points].concat(), input.dtype())?;
            with_float!(input.dtype(), T => {
                sample.forward::<T>(input.as_slice()?, grid.as_slice()?, out.as_mut_slice()?)?;
            });
            Ok(out)
        },
    ));
    register(Kernel::portable(
        "exact",
        FLOATS,
        "f32: the sum is exact and rounded once; f64: added in ascending order of the taps",
        |op: &GridSampleInputGrad, ()| {
            let (grad, grid) = (op.grad.contiguous()?, op.grid.contiguous()?);
            let sample =
                sampling(GridSampleInputGrad::NAME, &op.input_shape, grid.shape(), op.params)?;
            let mut out = Tensor::scratch(&op.input_shape, grad.dtype())?;
            with_float!(grad.dtype(), T => {
                sample.input_backward::<T>(
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
        "each point adds up its channels in ascending order",
        |op: &GridSampleGridGrad, ()| {
            let (grad, grid) = (op.grad.contiguous()?, op.grid.contiguous()?);
            let input = op.input.contiguous()?;
            let sample =
                sampling(GridSampleGridGrad::NAME, input.shape(), grid.shape(), op.params)?;
            let mut out = Tensor::scratch(grid.shape(), grid.dtype())?;
            with_float!(grad.dtype(), T => {
                sample.grid_backward::<T>(
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

fn sampling(
    op: &'static str,
    input: &[usize],
    grid: &[usize],
    params: GridParams,
) -> Result<GridSample> {
    let points = grid[1..grid.len() - 1].iter().product();
    let (size, GridParams { mode, padding, align_corners }) = (&input[2..], params);
    Ok(GridSample::new(op, input[0], input[1], size, points, mode, padding, align_corners)?)
}
