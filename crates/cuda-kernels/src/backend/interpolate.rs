use samebits_tensor_core::Tensor;
use samebits_tensor_core::geometry::Resize;
use samebits_tensor_core::ops::{Interpolate, InterpolateGrad};
use samebits_tensor_core::registry::register;

use super::{FLOATS, Real, Tensors, on, portable, with_float};
use crate::Variant;
use crate::interpolate::{interpolate, interpolate_grad};

pub(super) fn register_all() {
    register(portable(
        "taps",
        FLOATS,
        "each output adds its inputs in ascending order",
        |op: &Interpolate, resize| with_float!(op.input.dtype(), T => forward::<T>(op, resize)),
    ));
    register(portable(
        "gather",
        FLOATS,
        "each input adds its contributions in ascending output index",
        |op: &InterpolateGrad, resize| with_float!(op.grad.dtype(), T => backward::<T>(op, resize, Variant::Deterministic)),
    ));
}

fn forward<T: Real>(op: &Interpolate, resize: &Resize) -> Tensors<Tensor> {
    on(op, |gpu| {
        let out = interpolate::<T>(gpu.device, &*gpu.input(&op.input)?, resize)?;
        gpu.tensor(out, resize.output_shape())
    })
}

fn backward<T: Real>(op: &InterpolateGrad, resize: &Resize, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let out = interpolate_grad::<T>(gpu.device, &*gpu.input(&op.grad)?, resize, variant)?;
        gpu.tensor(out, &op.input_shape)
    })
}
