use samebits_rng::Draw;
use samebits_tensor_core::layout::numel;

use crate::ops::{Normal, Uniform};
use crate::tensor_core::Tensor as Value;
use crate::{DType, Device, Error, Generator, Result, Tensor, dispatch, random};

/// A tensor of uniform numbers in [0, 1), drawn from this thread's default generator.
///
/// # Errors
///
/// Nobody seeded this thread (see [`random::with_default`]), or there is no memory for the numbers.
/// The generator then has not moved.
pub fn rand(shape: &[usize]) -> Result<Tensor> {
    draw("rand", shape, |generator| {
        let (shape, dtype, device) = (shape.to_vec(), DType::F32, Device::Cpu);
        dispatch(&Uniform { shape, dtype, device, low: 0.0, high: 1.0, generator })
    })
}

/// A tensor of standard normal numbers, drawn from this thread's default generator.
///
/// # Errors
///
/// As [`rand`].
pub fn randn(shape: &[usize]) -> Result<Tensor> {
    draw("randn", shape, |generator| {
        let (shape, dtype, device) = (shape.to_vec(), DType::F32, Device::Cpu);
        dispatch(&Normal { shape, dtype, device, mean: 0.0, std: 1.0, generator })
    })
}

/// A random order of `0..n`, drawn from this thread's default generator.
///
/// # Errors
///
/// As [`rand`].
pub fn randperm(n: usize) -> Result<Tensor> {
    let op = "randperm";
    numel(op, &[n])?;
    let mut order = Value::scratch(&[n], DType::I64).map_err(|error| error.called(op))?;
    let numbers = order.as_mut_slice()?;
    random::with_default(op, Device::Cpu, |generator| generator.fill_permutation(numbers))?
        .map_err(|error| match error {
            samebits_rng::Error::OutOfMemory { bytes, .. } => {
                Error::OutOfMemory { op, device: Device::Cpu, bytes }
            }
            other => Error::invalid(op, other.to_string()),
        })?;
    Ok(order.into())
}

/// What `run` makes of the default generator, which moves on by one number for each element.
fn draw(
    op: &'static str,
    shape: &[usize],
    run: impl FnOnce(Generator) -> Result<Value>,
) -> Result<Tensor> {
    let blocks = Draw::blocks_u32(numel(op, shape)?);
    random::with_default(op, Device::Cpu, |generator| {
        let drawn = run(generator.clone()).map_err(|error| error.called(op))?;
        generator.advance(blocks);
        Ok(drawn.into())
    })?
}
