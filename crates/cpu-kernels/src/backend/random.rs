use samebits_rng::{Draw, Generator};
use samebits_tensor_core::ops::{Dropout, Normal, Uniform};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Error, Op, Result, Tensor};

use super::{FLOATS, filled};

const ADDRESSED: &str = "each element is a function of seed, stream and its logical index";

pub(super) fn register_all() {
    register(Kernel::portable("philox", FLOATS, ADDRESSED, |op: &Uniform, ()| {
        let draw = draw(&op.generator);
        let failed = |error: samebits_rng::Error| Error::invalid(Uniform::NAME, error.to_string());
        match op.dtype {
            DType::F32 => filled(&op.shape, |out| {
                draw.uniform_f32(0, out, op.low as f32, op.high as f32).map_err(failed)
            }),
            _ => filled(&op.shape, |out| draw.uniform_f64(0, out, op.low, op.high).map_err(failed)),
        }
    }));
    register(Kernel::portable("philox", FLOATS, ADDRESSED, |op: &Normal, ()| {
        let draw = draw(&op.generator);
        let failed = |error: samebits_rng::Error| Error::invalid(Normal::NAME, error.to_string());
        match op.dtype {
            DType::F32 => filled(&op.shape, |out| {
                draw.normal_f32(0, out, op.mean as f32, op.std as f32).map_err(failed)
            }),
            _ => filled(&op.shape, |out| draw.normal_f64(0, out, op.mean, op.std).map_err(failed)),
        }
    }));
    register(Kernel::portable("philox", FLOATS, ADDRESSED, dropout));
}

fn dropout(op: &Dropout, (): &()) -> Result<(Tensor, Tensor)> {
    let draw = draw(&op.generator);
    let failed = |error: samebits_rng::Error| Error::invalid(Dropout::NAME, error.to_string());
    let x = op.x.contiguous()?;
    let mut out = Tensor::scratch(x.shape(), x.dtype())?;
    let mut mask = Tensor::scratch(x.shape(), DType::Bool)?;
    let kept = mask.as_mut_slice()?;
    if x.dtype() == DType::F32 {
        draw.dropout(0, x.as_slice()?, op.p, out.as_mut_slice()?, kept).map_err(failed)?;
        return Ok((out, mask));
    }
    draw.dropout_mask(0, op.p, kept).map_err(failed)?;
    let scale = if op.p == 1.0 { 0.0 } else { 1.0 / (1.0 - op.p) };
    let values = out.as_mut_slice::<f64>()?;
    for ((out, &x), &keep) in values.iter_mut().zip(x.as_slice::<f64>()?).zip(&*kept) {
        *out = if keep != 0 { samebits_numerics::nan::canonical(x * scale) } else { 0.0 };
    }
    Ok((out, mask))
}

pub(super) fn draw(generator: &Generator) -> Draw {
    Draw::new(generator.seed(), generator.stream(), generator.offset())
}
