use samebits_tensor_core::ops::{Pad, PadGrad, PadMode};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Op, Tensor};

use super::{ARRIVAL, F32, FLOATS, Failure, Real, Tensors, atomic, on, portable, with_float};
use crate::Variant;
use crate::device::Word;
use crate::error::CudaError;
use crate::padding::{self, Padding};

pub(super) fn register_all() {
    register(portable("copy", &DType::ALL, "each element is copied", |op: &Pad, ()| {
        match op.input.dtype() {
            DType::F32 => pad(op, op.value as f32),
            DType::F64 => pad(op, op.value),
            DType::I64 => pad(op, op.value as i64),
            DType::Bool => pad(op, u8::from(op.value != 0.0)),
            _ => pad(op, op.value as u8),
        }
    }));
    register(atomic(F32, ARRIVAL, |op, _| pad_grad::<f32>(op, Variant::Atomic)));
    register(portable(
        "gather",
        FLOATS,
        "each input takes its contributions in ascending output index",
        |op: &PadGrad, ()| with_float!(op.grad.dtype(), T => pad_grad::<T>(op, Variant::Deterministic)),
    ));
}

fn pad<T: Word>(op: &Pad, value: T) -> Tensors<Tensor> {
    on(op, |gpu| {
        let padding = padding(Pad::NAME, op.input.shape(), &op.pads, op.mode)?;
        let out = padding::pad(gpu.device, &*gpu.input::<T>(&op.input)?, &padding, value)?;
        gpu.typed(out, &op.output_shape()?, op.input.dtype())
    })
}

fn pad_grad<T: Real>(op: &PadGrad, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let padding = padding(PadGrad::NAME, &op.input_shape, &op.pads, op.mode)?;
        let grad = gpu.input::<T>(&op.grad)?;
        let out = padding::pad_grad(gpu.device, &grad, &padding, variant)?;
        gpu.tensor(out, &op.input_shape)
    })
}

fn padding(
    op: &'static str,
    input: &[usize],
    pads: &[[i64; 2]],
    mode: PadMode,
) -> Result<Padding, Failure> {
    let (outer, size) = input.split_at(input.len() - pads.len());
    let mut amounts = Vec::with_capacity(pads.len());
    for &[before, after] in pads {
        let (Ok(before), Ok(after)) = (before.try_into(), after.try_into()) else {
            let message = format!("padding by {before} and {after} does not fit 32 bits");
            return Err(CudaError::invalid(op, message).into());
        };
        amounts.push((before, after));
    }
    let mode = match mode {
        PadMode::Constant => padding::PadMode::Constant,
        PadMode::Reflect => padding::PadMode::Reflect,
        PadMode::Replicate => padding::PadMode::Replicate,
        PadMode::Circular => padding::PadMode::Circular,
    };
    Ok(Padding::new(outer.iter().product(), size, &amounts, mode)?)
}
