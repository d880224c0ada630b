use samebits_rng::{Draw, Generator};
use samebits_tensor_core::ops::{Dropout, Normal, Uniform};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Tensor};

use super::{FLOATS, Real, Tensors, on, portable, with_float};
use crate::random;

const ADDRESSED: &str = "each element is a function of seed, stream and its logical index";

pub(super) fn register_all() {
    register(portable("philox", FLOATS, ADDRESSED, |op: &Uniform, ()| {
        on(op, |gpu| {
            let (draw, n) = (draw(&op.generator), op.shape.iter().product());
            if op.dtype == DType::F32 {
                let (low, high) = (op.low as f32, op.high as f32);
                gpu.tensor(random::uniform(gpu.device, &draw, n, low, high)?, &op.shape)
            } else {
                gpu.tensor(random::uniform(gpu.device, &draw, n, op.low, op.high)?, &op.shape)
            }
        })
    }));
    register(portable(
        "philox",
        FLOATS,
        ADDRESSED,
        |op: &Normal, ()| with_float!(op.dtype, T => normal::<T>(op)),
    ));
    register(portable(
        "philox",
        FLOATS,
        ADDRESSED,
        |op: &Dropout, ()| with_float!(op.x.dtype(), T => dropout::<T>(op)),
    ));
}

fn normal<T: Real>(op: &Normal) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (draw, n) = (draw(&op.generator), op.shape.iter().product());
        let (mean, std) = (T::from_f64(op.mean), T::from_f64(op.std));
        gpu.tensor(random::normal(gpu.device, &draw, n, mean, std)?, &op.shape)
    })
}

fn dropout<T: Real>(op: &Dropout) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let draw = draw(&op.generator);
        let x = gpu.input::<T>(&op.x)?;
        let (out, mask) = random::dropout(gpu.device, &draw, &x, op.p)?;
        let shape = op.x.shape();
        Ok((gpu.tensor(out, shape)?, gpu.typed(mask, shape, DType::Bool)?))
    })
}

pub(super) fn draw(generator: &Generator) -> Draw {
    Draw::new(generator.seed(), generator.stream(), generator.offset())
}
