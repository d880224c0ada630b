use samebits_tensor_core::geometry::Padding;
use samebits_tensor_core::ops::{Pad, PadGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Element, Result, Tensor};

use super::{FLOATS, with_float};
use crate::padding;

pub(super) fn register_all() {
    register(Kernel::portable("copy", &DType::ALL, "each element is copied", |op: &Pad, plan| {
        match op.input.dtype() {
            DType::F32 => pad(op, plan, op.value as f32),
            DType::F64 => pad(op, plan, op.value),
            DType::I64 => pad(op, plan, op.value as i64),
            DType::Bool => pad(op, plan, u8::from(op.value != 0.0)),
            DType::U8 | _ => pad(op, plan, op.value as u8),
        }
    }));
    register(Kernel::portable(
        "gather",
        FLOATS,
        "each input takes its contributions in ascending output index",
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
