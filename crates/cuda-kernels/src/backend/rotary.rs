use samebits_tensor_core::Tensor;
use samebits_tensor_core::geometry::Rotation;
use samebits_tensor_core::ops::RotaryEmbedding;
use samebits_tensor_core::registry::register;

use super::{EACH, FLOATS, Real, Tensors, on, portable, with_float};
use crate::rotary::{Tables, rotary_embedding};

pub(super) fn register_all() {
    register(portable(
        "each",
        FLOATS,
        EACH,
        |op: &RotaryEmbedding, &rotation| with_float!(op.x.dtype(), T => rotate::<T>(op, rotation)),
    ));
}

fn rotate<T: Real>(op: &RotaryEmbedding, rotation: Rotation) -> Tensors<Tensor> {
    on(op, |gpu| {
        let x = gpu.input::<T>(&op.x)?;
        let (cos, sin) = (gpu.input::<T>(&op.cos)?, gpu.input::<T>(&op.sin)?);
        let tables = Tables { cos: &cos, sin: &sin, interleaved: op.interleaved };
        let rows = op.x.numel() / rotation.width;
        gpu.tensor(rotary_embedding(gpu.device, &x, rows, tables, rotation)?, op.x.shape())
    })
}
