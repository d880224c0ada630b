use samebits_tensor_core::ops::{Interpolate, InterpolateGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Op, Tensor};

use super::{FLOATS, with_float};
use crate::interpolate;

pub(super) fn register_all() {
    register(Kernel::portable(
        "taps",
        FLOATS,
        "each output takes its inputs in ascending order",
        |op: &Interpolate, ()| {
            let input = op.input.contiguous()?;
            let (planes, size) = input.shape().split_at(2);
            let mut out = Tensor::scratch(&[planes, &op.output_size].concat(), input.dtype())?;
            let planes = planes.iter().product();
            with_float!(input.dtype(), T => {
                interpolate::Interpolate::<T>::new(
                    Interpolate::NAME,
                    planes,
                    size,
                    &op.output_size,
                    &op.scales,
                    op.mode,
                )?
                .forward(input.as_slice()?, out.as_mut_slice()?)?;
            });
            Ok(out)
        },
    ));
    register(Kernel::portable(
        "gather",
        FLOATS,
        "each input takes its contributions in ascending output index",
        |op: &InterpolateGrad, ()| {
            let grad = op.grad.contiguous()?;
            let (planes, size) = op.input_shape.split_at(2);
            let mut out = Tensor::scratch(&op.input_shape, grad.dtype())?;
            with_float!(grad.dtype(), T => {
                interpolate::Interpolate::<T>::new(
                    InterpolateGrad::NAME,
                    planes.iter().product(),
                    size,
                    &grad.shape()[2..],
                    &op.scales,
                    op.mode,
                )?
                .backward(grad.as_slice()?, out.as_mut_slice()?)?;
            });
            Ok(out)
        },
    ));
}
