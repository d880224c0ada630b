use samebits_rng::Draw;
use samebits_tensor_core::layout::numel;

use crate::ops::{Normal, Uniform};
use crate::{DType, Device, Generator, Result, Tensor, dispatch, random};

/// A tensor of uniform numbers in [0, 1), drawn from this thread's default generator.
///
/// # Errors
///
/// Nobody seeded this thread; see [`random::with_default`].
#[track_caller]
pub fn rand(shape: &[usize]) -> Result<Tensor> {
    let generator = take("rand", Draw::blocks_u32(shape.iter().product()))?;
    let (dtype, device) = (DType::F32, Device::Cpu);
    dispatch(&Uniform { shape: shape.to_vec(), dtype, device, low: 0.0, high: 1.0, generator })
}

/// A tensor of standard normal numbers, drawn from this thread's default generator.
///
/// # Errors
///
/// As [`rand`].
#[track_caller]
pub fn randn(shape: &[usize]) -> Result<Tensor> {
    let generator = take("randn", Draw::blocks_u32(shape.iter().product()))?;
    let (dtype, device) = (DType::F32, Device::Cpu);
    dispatch(&Normal { shape: shape.to_vec(), dtype, device, mean: 0.0, std: 1.0, generator })
}

/// A random order of `0..n`, drawn from this thread's default generator.
///
/// # Errors
///
/// As [`rand`]; no machine can address `n` numbers.
pub fn randperm(n: usize) -> Result<Tensor> {
    numel("randperm", &[n])?;
    let mut order = Tensor::scratch(&[n], DType::I64);
    let numbers = order.as_mut_slice()?;
    random::with_default("randperm", Device::Cpu, |generator| generator.fill_permutation(numbers))?;
    Ok(order)
}

/// The default generator where it stands; moves it on by `blocks`.
fn take(op: &'static str, blocks: u64) -> Result<Generator> {
    random::with_default(op, Device::Cpu, |generator| {
        let here = generator.clone();
        generator.advance(blocks);
        here
    })
}
