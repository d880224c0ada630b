use samebits_tensor_core::Tensor;
use samebits_tensor_core::ops::{
    self, GridMode, GridPadding, GridParams, GridSampleGridGrad, GridSampleInputGrad,
};
use samebits_tensor_core::registry::register;

use super::index::EXACT;
use super::{ARRIVAL, F32, F64, FLOATS, Failure, Real, Tensors, atomic, on, portable, with_float};
use crate::Variant;
use crate::grid_sample::{self, GridSample};

pub(super) fn register_all() {
    register(portable(
        "taps",
        FLOATS,
        "each output takes its taps in row-major order",
        |op: &ops::GridSample, ()| with_float!(op.input.dtype(), T => forward::<T>(op)),
    ));
    register(atomic(F32, ARRIVAL, |op, _| input_grad::<f32>(op, Variant::Atomic)));
    register(portable("exact", F32, EXACT, |op: &GridSampleInputGrad, ()| {
        input_grad::<f32>(op, Variant::Deterministic)
    }));
    register(portable(
        "ascending",
        F64,
        "added in ascending order of the taps",
        |op: &GridSampleInputGrad, ()| input_grad::<f64>(op, Variant::Deterministic),
    ));
    register(portable(
        "points",
        FLOATS,
        "each point adds up its channels in ascending order",
        |op: &GridSampleGridGrad, ()| with_float!(op.input.dtype(), T => grid_grad::<T>(op)),
    ));
}

fn forward<T: Real>(op: &ops::GridSample) -> Tensors<Tensor> {
    on(op, |gpu| {
        let sample = sampling(op.input.shape(), op.grid.shape(), op.params)?;
        let (input, grid) = (gpu.input::<T>(&op.input)?, gpu.input(&op.grid)?);
        let (planes, points) = (&op.input.shape()[..2], points(op.grid.shape()));
        let out = sample.forward(gpu.device, &input, &grid)?;
        gpu.tensor(out, &[planes, points].concat())
    })
}

fn input_grad<T: Real>(op: &GridSampleInputGrad, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let sample = sampling(&op.input_shape, op.grid.shape(), op.params)?;
        let (grad, grid) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.grid)?);
        gpu.tensor(sample.input_grad(gpu.device, &grad, &grid, variant)?, &op.input_shape)
    })
}

fn grid_grad<T: Real>(op: &GridSampleGridGrad) -> Tensors<Tensor> {
    on(op, |gpu| {
        let sample = sampling(op.input.shape(), op.grid.shape(), op.params)?;
        let (grad, input) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.input)?);
        let out = sample.grid_grad(gpu.device, &grad, &input, &*gpu.input(&op.grid)?)?;
        gpu.tensor(out, op.grid.shape())
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
