use samebits_tensor_core::geometry::Rotation;
use samebits_tensor_core::ops::RotaryEmbedding;
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Result, Tensor};

use super::{Element, FLOATS, with_float};
use crate::rotary::{Tables, rotary_embedding};

pub(super) fn register_all() {
    register(Kernel::portable(
        "each",
        FLOATS,
        "each element is its own fixed sequence of correctly rounded operations",
        |op: &RotaryEmbedding, &rotation| with_float!(op.x.dtype(), T => rotate::<T>(op, rotation)),
    ));
}

fn rotate<T: Element>(op: &RotaryEmbedding, rotation: Rotation) -> Result<Tensor> {
    let (x, cos, sin) = (op.x.contiguous()?, op.cos.contiguous()?, op.sin.contiguous()?);
    let tables =
        Tables { cos: cos.as_slice::<T>()?, sin: sin.as_slice()?, interleaved: op.interleaved };
    let mut out = Tensor::scratch(op.x.shape(), T::DTYPE)?;
    rotary_embedding(x.as_slice()?, tables, rotation, out.as_mut_slice()?)?;
    Ok(out)
}
