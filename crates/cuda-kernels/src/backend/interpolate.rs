use samebits_tensor_core::Tensor;
use samebits_tensor_core::ops::{Interpolate, InterpolateGrad, InterpolateMode};
use samebits_tensor_core::registry::register;

use super::{ARRIVAL, F32, FLOATS, Failure, Gpu, Real, Tensors, atomic, on, portable, with_float};
use crate::Variant;
use crate::interpolate;

pub(super) fn register_all() {
    register(portable(
        "taps",
        FLOATS,
        "each output takes its inputs in ascending order",
        |op: &Interpolate, ()| with_float!(op.input.dtype(), T => forward::<T>(op)),
    ));
    register(atomic(F32, ARRIVAL, |op, _| backward::<f32>(op, Variant::Atomic)));
    register(portable(
        "gather",
        FLOATS,
        "each input takes its contributions in ascending output index",
        |op: &InterpolateGrad, ()| with_float!(op.grad.dtype(), T => backward::<T>(op, Variant::Deterministic)),
    ));
}

fn forward<T: Real>(op: &Interpolate) -> Tensors<Tensor> {
    on(op, |gpu| {
        let resize = resize::<T>(&gpu, op.input.shape(), &op.output_size, &op.scales, op.mode)?;
        let out = resize.forward(gpu.device, &*gpu.input(&op.input)?)?;
        gpu.tensor(out, &[&op.input.shape()[..2], &op.output_size].concat())
    })
}

fn backward<T: Real>(op: &InterpolateGrad, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let size = &op.grad.shape()[2..];
        let resize = resize::<T>(&gpu, &op.input_shape, size, &op.scales, op.mode)?;
        let out = resize.backward(gpu.device, &*gpu.input(&op.grad)?, variant)?;
        gpu.tensor(out, &op.input_shape)
    })
}

fn resize<T: Real>(
    gpu: &Gpu<'_>,
    input: &[usize],
    output: &[usize],
    scales: &[Option<f64>],
    mode: InterpolateMode,
) -> Result<interpolate::Interpolate<T>, Failure> {
    use interpolate::InterpolateMode as Mode;
    let mode = match mode {
        InterpolateMode::Nearest => Mode::Nearest,
        InterpolateMode::NearestExact => Mode::NearestExact,
        InterpolateMode::Linear { align_corners } => Mode::Linear { align_corners },
        InterpolateMode::Cubic { align_corners } => Mode::Cubic { align_corners },
        InterpolateMode::LinearAntialias { align_corners } => {
            Mode::LinearAntialias { align_corners }
        }
        InterpolateMode::CubicAntialias { align_corners } => Mode::CubicAntialias { align_corners },
    };
    let (planes, size) = input.split_at(2);
    let planes = planes.iter().product();
    Ok(interpolate::Interpolate::new(gpu.device, planes, size, output, scales, mode)?)
}
