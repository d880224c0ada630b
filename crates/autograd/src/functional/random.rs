//! Random tensors. They require no gradient.
//!
//! Each function has two forms. The plain form draws from the generator in force: that of
//! [`nn::draw_from`](crate::nn::draw_from) or of training with a given generator, else this
//! thread's default generator of the device. The form `_with` takes a generator. On error the
//! generator does not advance.

mod options;

pub use options::RandomOptions;

use samebits_macros::named;
use samebits_numerics::memory;
use samebits_rng::Generator;
use samebits_tensor_core::layout::{broadcast, numel};
use samebits_tensor_core::ops::{CompareKind, Normal, Uniform};
use samebits_tensor_core::{DType, Device, Error, Result, Tensor as Value};

use super::elementwise::compare;
use super::reduce::has_any;
use super::{add, blocks, constant, mul, to_dtype};
use crate::scope::with_generator;
use crate::{Tensor, run};

/// Draws uniform f32 numbers in [0, 1), on the host.
///
/// # Errors
///
/// This thread was not seeded (see [`with_default`](samebits_tensor_core::random::with_default)),
/// or there is no memory for the numbers.
///
/// # Examples
///
/// ```
/// use samebits_autograd::functional;
/// use samebits_tensor_core::random::manual_seed;
///
/// manual_seed(7);
/// assert_eq!(functional::rand(&[2, 3])?.shape(), [2, 3]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
pub fn rand(shape: &[usize]) -> Result<Tensor> {
    with_generator("rand", Device::Cpu, |generator| rand_with(shape, generator))
}

/// Draws as [`rand`] does, from `generator`, which advances by a quarter of the number of elements,
/// rounded up.
///
/// # Errors
///
/// As [`rand`].
#[named]
pub fn rand_with(shape: &[usize], generator: &mut Generator) -> Result<Tensor> {
    uniform(shape, DType::F32, Device::Cpu, generator)
}

/// Draws uniform numbers in [0, 1) with the shape, type and device of `x`.
///
/// # Errors
///
/// The type is not a float; else as [`rand`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_tensor_core::random;
///
/// random::manual_seed(7);
/// let noise = Tensor::new([1.0f32, 2.0])?.rand_like()?;
/// assert!(noise.to_vec::<f32>()?.iter().all(|number| (0.0..1.0).contains(number)));
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
pub fn rand_like(x: &Tensor) -> Result<Tensor> {
    with_generator("rand_like", x.device(), |generator| rand_like_with(x, generator))
}

/// Draws as [`rand_like`] does, from `generator`, which advances as in [`rand_with`], or for f64 by
/// half of the number of elements.
///
/// # Errors
///
/// As [`rand_like`].
#[named]
pub fn rand_like_with(x: &Tensor, generator: &mut Generator) -> Result<Tensor> {
    expect_float("rand_like_with", "the input", x)?;
    uniform(x.shape(), x.dtype(), x.device(), generator)
}

/// Draws standard normal f32 numbers, on the host.
///
/// # Errors
///
/// As [`rand`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::functional;
/// use samebits_rng::Generator;
///
/// let noise = functional::randn_with(&[2, 3], &mut Generator::new(7))?;
/// assert_eq!(noise.shape(), [2, 3]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
pub fn randn(shape: &[usize]) -> Result<Tensor> {
    with_generator("randn", Device::Cpu, |generator| randn_with(shape, generator))
}

/// Draws as [`randn`] does, from `generator`, which advances as in [`rand_with`].
///
/// # Errors
///
/// As [`rand`].
#[named]
pub fn randn_with(shape: &[usize], generator: &mut Generator) -> Result<Tensor> {
    normals(shape, DType::F32, Device::Cpu, [0.0, 1.0], generator)
}

/// Draws standard normal numbers with the shape, type and device of `x`.
///
/// # Errors
///
/// As [`rand_like`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_tensor_core::random;
///
/// random::manual_seed(7);
/// let x = Tensor::new([1.0f32, 2.0])?;
/// let noisy = (&x + x.randn_like()?)?;
/// assert_eq!(noisy.shape(), [2]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
pub fn randn_like(x: &Tensor) -> Result<Tensor> {
    with_generator("randn_like", x.device(), |generator| randn_like_with(x, generator))
}

/// Draws as [`randn_like`] does, from `generator`, which advances as in [`rand_like_with`].
///
/// # Errors
///
/// As [`rand_like`].
#[named]
pub fn randn_like_with(x: &Tensor, generator: &mut Generator) -> Result<Tensor> {
    expect_float("randn_like_with", "the input", x)?;
    normals(x.shape(), x.dtype(), x.device(), [0.0, 1.0], generator)
}

/// Draws a random permutation of `0..n`.
///
/// # Errors
///
/// As [`rand`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::functional;
/// use samebits_rng::Generator;
///
/// let mut order = functional::randperm_with(4, &mut Generator::new(7))?.to_vec::<i64>()?;
/// order.sort();
/// assert_eq!(order, [0, 1, 2, 3]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
pub fn randperm(n: usize) -> Result<Tensor> {
    with_generator("randperm", Device::Cpu, |generator| randperm_with(n, generator))
}

/// Draws as [`randperm`] does, from `generator`, which advances as [`Generator::fill_permutation`]
/// states.
///
/// # Errors
///
/// As [`rand`].
#[named]
pub fn randperm_with(n: usize, generator: &mut Generator) -> Result<Tensor> {
    let op = "randperm_with";
    integers(op, &[n], |order| {
        generator.fill_permutation(order).map_err(|error| refused(op, error))
    })
}

/// Draws uniform integers in `low..high` of type `I64`, on the host.
///
/// # Errors
///
/// `low` is not below `high`; else as [`rand`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::functional;
/// use samebits_rng::Generator;
///
/// let dice = functional::randint_with(1, 7, &[10], &mut Generator::new(0))?;
/// assert!(dice.to_vec::<i64>()?.iter().all(|face| (1..7).contains(face)));
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
pub fn randint(low: i64, high: i64, shape: &[usize]) -> Result<Tensor> {
    with_generator("randint", Device::Cpu, |generator| randint_with(low, high, shape, generator))
}

/// Draws as [`randint`] does, from `generator`, which advances by half of the number of elements,
/// rounded up.
///
/// # Errors
///
/// As [`randint`].
#[named]
pub fn randint_with(
    low: i64,
    high: i64,
    shape: &[usize],
    generator: &mut Generator,
) -> Result<Tensor> {
    let op = "randint_with";
    if low >= high {
        return Err(Error::invalid(op, format!("expected low < high, got {low} and {high}")));
    }
    integers(op, shape, |out| {
        generator.fill_randint(out, low, high).map_err(|error| refused(op, error))
    })
}

/// Draws uniform integers in `low..high` with the shape, type and device of `x`, converted by
/// [`to_dtype`].
///
/// # Errors
///
/// As [`randint`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_tensor_core::random;
///
/// random::manual_seed(7);
/// let signs = Tensor::new([1.0f32, 2.0])?.randint_like(0, 2)?;
/// assert!(signs.to_vec::<f32>()?.iter().all(|&bit| bit == 0.0 || bit == 1.0));
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
pub fn randint_like(x: &Tensor, low: i64, high: i64) -> Result<Tensor> {
    with_generator("randint_like", x.device(), |generator| {
        randint_like_with(x, low, high, generator)
    })
}

/// Draws as [`randint_like`] does, from `generator`, which advances as in [`randint_with`].
///
/// # Errors
///
/// As [`randint`].
#[named]
pub fn randint_like_with(
    x: &Tensor,
    low: i64,
    high: i64,
    generator: &mut Generator,
) -> Result<Tensor> {
    moving(generator, |generator| {
        to_dtype(&randint_with(low, high, x.shape(), generator)?, x.dtype())?.to(x.device())
    })
}

/// Draws 1 with the probability in each element of `p`, else 0; the result has the type of `p`.
///
/// # Determinism
///
/// Portable. Element `i` is 1 if word `i` of the draw is below `p · 2^32`, with `p` rounded to f32.
///
/// # Errors
///
/// `p` is not a float, or a probability is not in `[0, 1]`; else as [`rand`]. Asking for a gradient
/// is an error (PyTorch returns 0).
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_tensor_core::random;
///
/// random::manual_seed(7);
/// let p = Tensor::new([0.0f32, 1.0, 0.5])?;
/// assert_eq!(p.bernoulli()?.to_vec::<f32>()?[..2], [0.0, 1.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.bernoulli`.
#[named]
pub fn bernoulli(p: &Tensor) -> Result<Tensor> {
    with_generator("bernoulli", p.device(), |generator| bernoulli_with(p, generator))
}

/// Draws as [`bernoulli`] does, from `generator`, which advances by a quarter of the number of
/// elements, rounded up.
///
/// # Errors
///
/// As [`bernoulli`].
#[named]
pub fn bernoulli_with(p: &Tensor, generator: &mut Generator) -> Result<Tensor> {
    let op = "bernoulli_with";
    expect_float(op, "the probabilities", p)?;
    let chances = to_dtype(&p.detach(), DType::F32)?.to_vec::<f32>()?;
    let mut events = memory::zeroed(p.numel()).map_err(Error::out_of_host_memory(op))?;
    moving(generator, |generator| {
        generator.fill_bernoulli_each(&chances, &mut events).map_err(|error| refused(op, error))?;
        let events = Tensor::from_bools(&events, p.shape())?;
        let value = to_dtype(&events, p.dtype())?.to(p.device())?;
        Ok(constant("bernoulli", value.into(), &[p]))
    })
}

/// Draws `num_samples` positions from each row of `weights`, with probabilities proportional to the
/// weights. Without replacement, each position occurs at most once. The result is of type `I64`.
///
/// # Shapes
///
/// `weights` is `[k]` or `[rows, k]`; the result is `[num_samples]` or `[rows, num_samples]`.
///
/// # Determinism
///
/// Portable: weights are rounded to f32 and rows are drawn in order. See
/// [`Draw::multinomial`](samebits_rng::Draw::multinomial) and its form without replacement.
///
/// # Errors
///
/// The weights are not floats, a weight is negative or not finite, a row has no positive weight
/// (without replacement, fewer than `num_samples`), or there are no weights or no samples; else as
/// [`rand`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_tensor_core::random;
///
/// random::manual_seed(7);
/// let weights = Tensor::new([[0.0f32, 3.0, 1.0], [1.0, 0.0, 0.0]])?;
/// let drawn = weights.multinomial(4, true)?;
/// assert_eq!(drawn.shape(), [2, 4]);
/// assert_eq!(drawn.i(1)?.to_vec::<i64>()?, [0, 0, 0, 0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.multinomial`.
#[named]
pub fn multinomial(weights: &Tensor, num_samples: usize, replacement: bool) -> Result<Tensor> {
    with_generator("multinomial", weights.device(), |generator| {
        multinomial_with(weights, num_samples, replacement, generator)
    })
}

/// Draws as [`multinomial`] does, from `generator`. For each row it advances by half of
/// `num_samples`, or without replacement by half of the number of weights, rounded up.
///
/// # Errors
///
/// As [`multinomial`].
#[named]
pub fn multinomial_with(
    weights: &Tensor,
    num_samples: usize,
    replacement: bool,
    generator: &mut Generator,
) -> Result<Tensor> {
    let op = "multinomial_with";
    expect_float(op, "the weights", weights)?;
    let (k, rows) = match *weights.shape() {
        [k] => (k, None),
        [rows, k] => (k, Some(rows)),
        ref shape => {
            let message = format!("expected weights of shape [k] or [rows, k], got {shape:?}");
            return Err(Error::invalid(op, message));
        }
    };
    if num_samples == 0 || k == 0 || (!replacement && num_samples > k) {
        let how = if replacement { "with" } else { "without" };
        let message = format!("cannot draw {num_samples} samples of {k} weights {how} replacement");
        return Err(Error::invalid(op, message));
    }
    let shape = [rows.as_slice(), &[num_samples]].concat();
    let numbers = to_dtype(&weights.detach(), DType::F32)?.to_vec::<f32>()?;
    moving(generator, |generator| {
        let drawn = integers(op, &shape, |out| {
            for (weights, out) in numbers.chunks(k).zip(out.chunks_mut(num_samples)) {
                let filled = match replacement {
                    true => generator.fill_multinomial(weights, out),
                    false => generator.fill_multinomial_without_replacement(weights, out),
                };
                filled.map_err(|error| refused(op, error))?;
            }
            Ok(())
        })?;
        Ok(constant("multinomial", drawn.to(weights.device())?.into(), &[weights]))
    })
}

/// Draws normal numbers with the given means and standard deviations, which broadcast.
///
/// # Determinism
///
/// Portable: `z · std + mean`, both roundings, with the `z` of [`randn_like`].
///
/// # Errors
///
/// The types are not floats or differ, the shapes cannot be broadcast together, or a standard
/// deviation is negative; else as [`rand`]. Asking for a gradient is an error (PyTorch returns 0);
/// scale and shift `randn_like` to get one.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
/// use samebits_rng::Generator;
///
/// let (mean, std) = (Tensor::new([1.0f32, 2.0])?, Tensor::scalar(0.0f32));
/// let x = functional::normal_with(&mean, &std, &mut Generator::new(7))?;
/// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.normal` of two tensors.
#[named]
pub fn normal(mean: &Tensor, std: &Tensor) -> Result<Tensor> {
    with_generator("normal", mean.device(), |generator| normal_with(mean, std, generator))
}

/// Draws as [`normal`] does, from `generator`, which advances as in [`rand_like_with`].
///
/// # Errors
///
/// As [`normal`].
#[named]
pub fn normal_with(mean: &Tensor, std: &Tensor, generator: &mut Generator) -> Result<Tensor> {
    let op = "normal_with";
    expect_float(op, "the mean", mean)?;
    let (m, s) = (mean.detach(), std.detach());
    if has_any(&compare(CompareKind::Lt, &s, 0.0)?)? {
        return Err(Error::invalid(op, "a standard deviation is below 0"));
    }
    moving(generator, |generator| {
        let shape = broadcast(op, m.shape(), s.shape())?;
        let z = normals(&shape, m.dtype(), m.device(), [0.0, 1.0], generator)?;
        let value = add(&mul(&z, &s)?, &m)?;
        Ok(constant("normal", value.into(), &[mean, std]))
    })
}

/// Draws normal f32 numbers with one mean and one standard deviation, on the host.
///
/// # Errors
///
/// The mean is not finite, or the standard deviation is not a finite number of at least 0; else as
/// [`rand`].
///
/// # References
///
/// `torch.normal` of two numbers and a size.
#[named]
pub fn normal_scalar(mean: f64, std: f64, shape: &[usize]) -> Result<Tensor> {
    with_generator("normal_scalar", Device::Cpu, |generator| {
        normal_scalar_with(mean, std, shape, generator)
    })
}

/// Draws as [`normal_scalar`] does, from `generator`, which advances as in [`rand_with`].
///
/// # Errors
///
/// As [`normal_scalar`].
#[named]
pub fn normal_scalar_with(
    mean: f64,
    std: f64,
    shape: &[usize],
    generator: &mut Generator,
) -> Result<Tensor> {
    normals(shape, DType::F32, Device::Cpu, [mean, std], generator)
}

fn uniform(
    shape: &[usize],
    dtype: DType,
    device: Device,
    generator: &mut Generator,
) -> Result<Tensor> {
    let (shape, from) = (shape.to_vec(), generator.clone());
    let value = run(&Uniform { shape, dtype, device, low: 0.0, high: 1.0, generator: from })?;
    generator.advance(blocks(dtype, value.numel()));
    Ok(value.into())
}

pub(super) fn normals(
    shape: &[usize],
    dtype: DType,
    device: Device,
    [mean, std]: [f64; 2],
    generator: &mut Generator,
) -> Result<Tensor> {
    let (shape, from) = (shape.to_vec(), generator.clone());
    let value = run(&Normal { shape, dtype, device, mean, std, generator: from })?;
    generator.advance(blocks(dtype, value.numel()));
    Ok(value.into())
}

/// Creates a host tensor of type `I64` from the numbers that `fill` writes.
fn integers(
    op: &'static str,
    shape: &[usize],
    fill: impl FnOnce(&mut [i64]) -> Result<()>,
) -> Result<Tensor> {
    numel(op, shape)?;
    let mut numbers = Value::scratch(shape, DType::I64)?;
    fill(numbers.as_mut_slice()?)?;
    Ok(numbers.into())
}

/// Runs `draw` and advances the generator only on success.
pub(super) fn moving<R>(
    generator: &mut Generator,
    draw: impl FnOnce(&mut Generator) -> Result<R>,
) -> Result<R> {
    let mut moved = generator.clone();
    let result = draw(&mut moved)?;
    *generator = moved;
    Ok(result)
}

/// Converts a generator's error to one of `op`.
pub(crate) fn refused(op: &'static str, error: samebits_rng::Error) -> Error {
    match error {
        samebits_rng::Error::OutOfMemory { bytes, .. } => {
            Error::OutOfMemory { op, device: Device::Cpu, bytes }
        }
        other => {
            let message = other.to_string();
            // Drop the name of the sampler.
            let message = message.split_once(": ").map_or(message.as_str(), |(_, rest)| rest);
            Error::invalid(op, message)
        }
    }
}

fn expect_float(op: &'static str, what: &'static str, x: &Tensor) -> Result<()> {
    if x.dtype().is_full_float() {
        return Ok(());
    }
    Err(Error::DTypeMismatch { op, what, expected: DType::F32, got: x.dtype() })
}
