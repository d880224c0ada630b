use samebits_tensor_core::geometry::Padding;
use samebits_tensor_core::ops::{Pad, PadGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Element, Result, Tensor};

use super::{FLOATS, with_bits, with_float};
use crate::padding;

pub(super) fn register_all() {
    register(Kernel::portable("copy", &DType::ALL, "each element is copied", |op: &Pad, plan| {
        let dtype = op.input.dtype();
        let value = Tensor::full(&[1], op.value, dtype)?;
        with_bits!(dtype, T => pad::<T>(op, plan, value.as_slice()?[0]))
    }));
    register(Kernel::portable(
        "gather",
        FLOATS,
        "each input adds its contributions in ascending output index",
        |op: &PadGrad, plan| {
            let grad = op.grad.contiguous()?;
            let mut out = Tensor::scratch(&op.input_shape, grad.dtype())?;
            with_float!(grad.dtype(), T => {
                padding::pad_backward::<T>(plan, grad.as_slice()?, out.as_mut_slice()?)?;
            });
            Ok(out)
        },
    ));
}

fn pad<T: Element>(op: &Pad, plan: &Padding, value: T) -> Result<Tensor> {
    let input = op.input.contiguous()?;
    let mut out = Tensor::scratch(plan.output_shape(), input.dtype())?;
    padding::pad(plan, input.as_slice::<T>()?, value, out.as_mut_slice()?)?;
    Ok(out)
}
