use samebits_tensor_core::ops::{Pad, PadGrad};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Element, Op, Result, Tensor};

use super::{FLOATS, with_float};
use crate::padding::{PadMode, Padding};

pub(super) fn register_all() {
    register(Kernel::portable(
        "copy",
        &DType::ALL,
        "each element is copied",
        |op: &Pad, ()| match op.input.dtype() {
            DType::F32 => pad(op, op.value as f32),
            DType::F64 => pad(op, op.value),
            DType::I64 => pad(op, op.value as i64),
            DType::Bool => pad(op, u8::from(op.value != 0.0)),
            DType::U8 | _ => pad(op, op.value as u8),
        },
    ));
    register(Kernel::portable(
        "gather",
        FLOATS,
        "each input takes its contributions in ascending output index",
        |op: &PadGrad, ()| {
            let grad = op.grad.contiguous()?;
            let padding = padding(PadGrad::NAME, &op.input_shape, &op.pads, op.mode)?;
            let mut out = Tensor::scratch(&op.input_shape, grad.dtype())?;
            with_float!(grad.dtype(), T => {
                padding.backward::<T>(grad.as_slice()?, out.as_mut_slice()?)?;
            });
            Ok(out)
        },
    ));
}

fn pad<T: Element>(op: &Pad, value: T) -> Result<Tensor> {
    let input = op.input.contiguous()?;
    let padding = padding(Pad::NAME, input.shape(), &op.pads, op.mode)?;
    let mut out = Tensor::scratch(&op.output_shape()?, input.dtype())?;
    padding.forward(input.as_slice::<T>()?, value, out.as_mut_slice()?)?;
    Ok(out)
}

fn padding(op: &'static str, input: &[usize], pads: &[[i64; 2]], mode: PadMode) -> Result<Padding> {
    let (outer, size) = input.split_at(input.len() - pads.len());
    Ok(Padding::new(op, outer.iter().product(), size, pads, mode)?)
}
