use samebits_tensor_core::Tensor;
use samebits_tensor_core::ops::{
    self, GridMode, GridPadding, GridParams, GridSampleGridGrad, GridSampleInputGrad,
};
use samebits_tensor_core::registry::register;

use super::{ARRIVAL, F32, Failure, Tensors, atomic, on, portable};
use crate::Variant;
use crate::grid_sample::{self, GridSample};

pub(super) fn register_all() {
    register(portable(
        "taps",
        F32,
        "each output takes its taps in row-major order",
        |op: &ops::GridSample| {
            on(op, |gpu| {
                let sample = sampling(op.input.shape(), op.grid.shape(), op.params)?;
                let (input, grid) = (gpu.input(&op.input)?, gpu.input(&op.grid)?);
                let (planes, points) = (&op.input.shape()[..2], points(op.grid.shape()));
                let out = sample.forward(gpu.device, &input, &grid)?;
                gpu.tensor(out, &[planes, points].concat())
            })
        },
    ));
    register(atomic(F32, ARRIVAL, |op| input_grad(op, Variant::Atomic)));
    register(portable(
        "exact",
        F32,
        "the sum is exact and rounded once",
        |op: &GridSampleInputGrad| input_grad(op, Variant::Deterministic),
    ));
    register(portable(
        "points",
        F32,
        "each point adds up its channels in ascending order",
        |op: &GridSampleGridGrad| {
            on(op, |gpu| {
                let sample = sampling(op.input.shape(), op.grid.shape(), op.params)?;
                let (grad, input) = (gpu.input(&op.grad)?, gpu.input(&op.input)?);
                let out = sample.grid_grad(gpu.device, &grad, &input, &*gpu.input(&op.grid)?)?;
                gpu.tensor(out, op.grid.shape())
            })
        },
    ));
}

fn input_grad(op: &GridSampleInputGrad, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let sample = sampling(&op.input_shape, op.grid.shape(), op.params)?;
        let (grad, grid) = (gpu.input(&op.grad)?, gpu.input(&op.grid)?);
        gpu.tensor(sample.input_grad(gpu.device, &grad, &grid, variant)?, &op.input_shape)
    })
}

fn sampling(
    input: &[usize],
    grid: &[usize],
    GridParams { mode, padding, align_corners }: GridParams,
) -> Result<GridSample, Failure> {
    let mode = match mode {
        GridMode::Nearest => grid_sample::GridMode::Nearest,
        GridMode::Linear => grid_sample::GridMode::Linear,
        GridMode::Cubic => grid_sample::GridMode::Cubic,
    };
    let padding = match padding {
        GridPadding::Zeros => grid_sample::GridPadding::Zeros,
        GridPadding::Border => grid_sample::GridPadding::Border,
        GridPadding::Reflection => grid_sample::GridPadding::Reflection,
    };
    let points = points(grid).iter().product();
    let (batch, channels, size) = (input[0], input[1], &input[2..]);
    Ok(GridSample::new(batch, channels, size, points, mode, padding, align_corners)?)
}

/// The dimensions of the points of a grid.
fn points(grid: &[usize]) -> &[usize] {
    &grid[1..grid.len() - 1]
}
