use samebits_tensor_core::Tensor;
use samebits_tensor_core::geometry::Sampling;
use samebits_tensor_core::ops::{GridSample, GridSampleGridGrad, GridSampleInputGrad};
use samebits_tensor_core::registry::register;

use super::index::EXACT;
use super::{F32, F64, FLOATS, Real, Tensors, on, portable, with_float};
use crate::Variant;
use crate::grid_sample::{grid_sample, grid_sample_grid_grad, grid_sample_input_grad};

pub(super) fn register_all() {
    register(portable(
        "taps",
        FLOATS,
        "each output adds its taps in row-major order",
        |op: &GridSample, plan| with_float!(op.input.dtype(), T => forward::<T>(op, plan)),
    ));
    // The atomic form took longer on an H200, so no tensor is given to it.
    register(portable("exact", F32, EXACT, |op: &GridSampleInputGrad, plan| {
        input_grad::<f32>(op, plan)
    }));
    register(portable(
        "ascending",
        F64,
        "added in ascending order of the taps",
        |op: &GridSampleInputGrad, plan| input_grad::<f64>(op, plan),
    ));
    register(portable(
        "points",
        FLOATS,
        "each point adds its channels in ascending order",
        |op: &GridSampleGridGrad, plan| with_float!(op.input.dtype(), T => grid_grad::<T>(op, plan)),
    ));
}

fn forward<T: Real>(op: &GridSample, sampling: &Sampling) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (input, grid) = (gpu.input::<T>(&op.input)?, gpu.input(&op.grid)?);
        let out = grid_sample(gpu.device, sampling, &input, &grid)?;
        gpu.tensor(out, sampling.output_shape())
    })
}

fn input_grad<T: Real>(op: &GridSampleInputGrad, sampling: &Sampling) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, grid) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.grid)?);
        let variant = Variant::Deterministic;
        let out = grid_sample_input_grad(gpu.device, sampling, &grad, &grid, variant)?;
        gpu.tensor(out, &op.input_shape)
    })
}

fn grid_grad<T: Real>(op: &GridSampleGridGrad, sampling: &Sampling) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad, input) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.input)?);
        let grid = gpu.input(&op.grid)?;
        let out = grid_sample_grid_grad(gpu.device, sampling, &grad, &input, &grid)?;
        gpu.tensor(out, op.grid.shape())
    })
}
