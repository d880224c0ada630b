use samebits_tensor_core::geometry::Padding;
use samebits_tensor_core::ops::{Pad, PadGrad};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Tensor};

use super::{FLOATS, Real, Tensors, on, portable, with_float, with_word};
use crate::Variant;
use crate::device::Word;
use crate::padding;

pub(super) fn register_all() {
    register(portable("copy", &DType::ALL, "each element is copied", |op: &Pad, plan| {
        let dtype = op.input.dtype();
        let value = Tensor::full(&[1], op.value, dtype)?.to_bytes()?;
        with_word!(dtype, T => pad::<T>(op, plan, bytemuck::pod_read_unaligned(&value)))
    }));
    register(portable(
        "gather",
        FLOATS,
        "each input adds its contributions in ascending output index",
        |op: &PadGrad, plan| with_float!(op.grad.dtype(), T => pad_grad::<T>(op, plan, Variant::Deterministic)),
    ));
}

fn pad<T: Word>(op: &Pad, plan: &Padding, value: T) -> Tensors<Tensor> {
    on(op, |gpu| {
        let out = padding::pad(gpu.device, &*gpu.input::<T>(&op.input)?, plan, value)?;
        gpu.typed(out, plan.output_shape(), op.input.dtype())
    })
}

fn pad_grad<T: Real>(op: &PadGrad, plan: &Padding, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let grad = gpu.input::<T>(&op.grad)?;
        gpu.tensor(padding::pad_grad(gpu.device, &grad, plan, variant)?, &op.input_shape)
    })
}
