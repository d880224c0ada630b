use samebits_rng::{Draw, Generator};
use samebits_tensor_core::DType;
use samebits_tensor_core::ops::{Dropout, Normal, Uniform};
use samebits_tensor_core::registry::register;

use super::{F32, FLOATS, on, portable};
use crate::random;

const ADDRESSED: &str = "each element is a function of seed, stream and its logical index";

pub(super) fn register_all() {
    register(portable("philox", FLOATS, ADDRESSED, |op: &Uniform| {
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
    register(portable("philox", F32, ADDRESSED, |op: &Normal| {
        on(op, |gpu| {
            let (draw, n) = (draw(&op.generator), op.shape.iter().product());
            let (mean, std) = (op.mean as f32, op.std as f32);
            gpu.tensor(random::normal(gpu.device, &draw, n, mean, std)?, &op.shape)
        })
    }));
    register(portable("philox", F32, ADDRESSED, |op: &Dropout| {
        on(op, |gpu| {
            let draw = draw(&op.generator);
            let x = gpu.input(&op.x)?;
            let (out, mask) = random::dropout(gpu.device, &draw, &x, op.p)?;
            let shape = op.x.shape();
            Ok((gpu.tensor(out, shape)?, gpu.typed(mask, shape, DType::Bool)?))
        })
    }));
}

fn draw(generator: &Generator) -> Draw {
    Draw::new(generator.seed(), generator.stream(), generator.offset())
}
