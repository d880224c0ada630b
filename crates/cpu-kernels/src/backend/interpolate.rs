use samebits_tensor_core::Tensor;
use samebits_tensor_core::ops::{Interpolate, InterpolateGrad};
use samebits_tensor_core::registry::{Kernel, register};

use super::{FLOATS, with_float};
use crate::interpolate::{interpolate, interpolate_backward};

pub(super) fn register_all() {
    register(Kernel::portable(
        "taps",
        FLOATS,
        "each output adds its inputs in ascending order",
        |op: &Interpolate, resize| {
            let input = op.input.contiguous()?;
            let mut out = Tensor::scratch(resize.output_shape(), input.dtype())?;
            with_float!(input.dtype(), T => {
                interpolate::<T>(resize, input.as_slice()?, out.as_mut_slice()?)?;
            });
            Ok(out)
        },
    ));
    register(Kernel::portable(
        "gather",
        FLOATS,
        "each input adds its contributions in ascending output index",
        |op: &InterpolateGrad, resize| {
            let grad = op.grad.contiguous()?;
            let mut out = Tensor::scratch(&op.input_shape, grad.dtype())?;
            with_float!(grad.dtype(), T => {
                interpolate_backward::<T>(resize, grad.as_slice()?, out.as_mut_slice()?)?;
            });
            Ok(out)
        },
    ));
}
