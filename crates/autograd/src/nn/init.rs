//! Initialisers for parameters, under PyTorch's names without the trailing underscore.
//!
//! Each function replaces a tensor with a new one of the same shape, type, device and
//! `requires_grad`. A layer that shares the old tensor keeps the old one, so initialise first and
//! share afterwards. Random numbers come from the generator of [`draw_from`](super::draw_from) if
//! there is one, else from the default generator of the tensor's device.
//!
//! ```
//! # extern crate samebits_autograd as samebits;
//! use samebits::nn::{Linear, init};
//!
//! samebits_tensor_core::random::manual_seed(0);
//! let mut layer = Linear::new(64, 10)?;
//! init::kaiming_normal(&mut layer.weight, init::Fan::In, init::Gain::Relu)?;
//! init::constant(layer.bias.as_mut().expect("it has one"), 0.1)?;
//! # Ok::<(), samebits::Error>(())
//! ```
//!
//! # References
//!
//! `torch.nn.init`; [`samebits_rng::init`] for the papers.

use samebits_rng::{Generator, init};
use samebits_tensor_core::ops::Cast;
use samebits_tensor_core::{DType, Error, Result, Tensor as Value};

use super::place::{Numbers, Place, drawn};
use super::with_generator;
use crate::functional::refused;
use crate::{Tensor, run};

pub use samebits_rng::init::Gain;

/// The fan of a weight `[out, in, kernel..]` that sets its scale (PyTorch's `mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fan {
    /// Connections into each output: keeps the scale of values in the forward pass. PyTorch's
    /// `fan_in`.
    #[default]
    In,
    /// Connections out of each input: keeps the scale of gradients in the backward pass. PyTorch's
    /// `fan_out`.
    Out,
}

/// Fills `tensor` with uniform numbers in `[low, high)`.
///
/// # Errors
///
/// `low > high`, the type is not floating, or there is no generator to draw from.
#[doc(alias = "uniform_")]
pub fn uniform(tensor: &mut Tensor, low: f64, high: f64) -> Result<()> {
    draw("uniform", tensor, Numbers::Uniform { low, high })
}

/// Fills `tensor` with normal numbers.
///
/// # Errors
///
/// `std` is negative, the type is not floating, or there is no generator to draw from.
#[doc(alias = "normal_")]
pub fn normal(tensor: &mut Tensor, mean: f64, std: f64) -> Result<()> {
    draw("normal", tensor, Numbers::Normal { mean, std })
}

/// Fills `tensor` with `value`.
///
/// # Errors
///
/// [`Error::OutOfMemory`] if there is no memory for the new tensor.
#[doc(alias = "constant_")]
pub fn constant(tensor: &mut Tensor, value: f64) -> Result<()> {
    let new = place(tensor).full(tensor.shape(), value)?;
    replace(tensor, new);
    Ok(())
}

/// Fills `tensor` with uniform numbers in ±gain·√(6 / (fan in + fan out)).
///
/// # Errors
///
/// The tensor has fewer than two dimensions or no elements; else as [`uniform`].
#[doc(alias = "xavier_uniform_")]
#[doc(alias = "glorot")]
pub fn xavier_uniform(tensor: &mut Tensor, gain: Gain) -> Result<()> {
    let op = "xavier_uniform";
    let (fan_in, fan_out) = fans(op, tensor)?;
    let bound = gain.value() * (6.0 / (fan_in + fan_out)).sqrt();
    draw(op, tensor, Numbers::Uniform { low: -bound, high: bound })
}

/// Fills `tensor` with normal numbers of standard deviation gain·√(2 / (fan in + fan out)).
///
/// # Errors
///
/// The tensor has fewer than two dimensions or no elements; else as [`normal`].
#[doc(alias = "xavier_normal_")]
#[doc(alias = "glorot")]
pub fn xavier_normal(tensor: &mut Tensor, gain: Gain) -> Result<()> {
    let op = "xavier_normal";
    let (fan_in, fan_out) = fans(op, tensor)?;
    let std = gain.value() * (2.0 / (fan_in + fan_out)).sqrt();
    draw(op, tensor, Numbers::Normal { mean: 0.0, std })
}

/// Fills `tensor` with uniform numbers in ±gain·√(3 / fan). PyTorch's defaults are [`Fan::In`] and
/// `Gain::LeakyRelu(0.0)`.
///
/// # Errors
///
/// As [`xavier_uniform`].
#[doc(alias = "kaiming_uniform_")]
#[doc(alias = "he")]
pub fn kaiming_uniform(tensor: &mut Tensor, fan: Fan, gain: Gain) -> Result<()> {
    let op = "kaiming_uniform";
    let bound = gain.value() * (3.0 / chosen(op, tensor, fan)?).sqrt();
    draw(op, tensor, Numbers::Uniform { low: -bound, high: bound })
}

/// Fills `tensor` with normal numbers of standard deviation gain / √fan. PyTorch's defaults are
/// [`Fan::In`] and `Gain::LeakyRelu(0.0)`.
///
/// # Errors
///
/// As [`xavier_normal`].
#[doc(alias = "kaiming_normal_")]
#[doc(alias = "he")]
pub fn kaiming_normal(tensor: &mut Tensor, fan: Fan, gain: Gain) -> Result<()> {
    let op = "kaiming_normal";
    let std = gain.value() / chosen(op, tensor, fan)?.sqrt();
    draw(op, tensor, Numbers::Normal { mean: 0.0, std })
}

/// Fills `tensor` with a semi-orthogonal matrix times the gain: its rows are orthonormal, or its
/// columns if there are more rows than columns. All dimensions but the first count as columns. The
/// numbers are drawn on the host, by [`samebits_rng::init::orthogonal`].
///
/// # Errors
///
/// The tensor has fewer than two dimensions, or there is no generator to draw from.
#[doc(alias = "orthogonal_")]
pub fn orthogonal(tensor: &mut Tensor, gain: Gain) -> Result<()> {
    let op = "orthogonal";
    let [rows, columns @ ..] = tensor.shape() else { return Err(flat(op, tensor)) };
    let (rows, columns) = (*rows, columns.iter().product());
    if tensor.rank() < 2 {
        return Err(flat(op, tensor));
    }
    on_host(op, tensor, |generator, out| init::orthogonal(generator, out, rows, columns, gain))
}

/// Fills `tensor` with normal numbers truncated to `[low, high]`. PyTorch's defaults are 0, 1, -2
/// and 2. The numbers are drawn on the host, by
/// [`Draw::truncated_normal_f32`](samebits_rng::Draw::truncated_normal_f32).
///
/// # Errors
///
/// `std` is not positive, `low >= high`, or there is no generator to draw from.
#[doc(alias = "trunc_normal_")]
pub fn trunc_normal(tensor: &mut Tensor, mean: f64, std: f64, low: f64, high: f64) -> Result<()> {
    let [mean, std, low, high] = [mean, std, low, high].map(|x| x as f32);
    on_host("trunc_normal", tensor, |generator, out| {
        generator.fill_truncated_normal_f32(out, mean, std, low, high)
    })
}

/// Fills `tensor` with ones.
///
/// # Errors
///
/// [`Error::OutOfMemory`] if there is no memory for the new tensor.
#[doc(alias = "ones_")]
pub fn ones(tensor: &mut Tensor) -> Result<()> {
    constant(tensor, 1.0)
}

/// Fills `tensor` with zeros.
///
/// # Errors
///
/// [`Error::OutOfMemory`] if there is no memory for the new tensor.
#[doc(alias = "zeros_")]
pub fn zeros(tensor: &mut Tensor) -> Result<()> {
    constant(tensor, 0.0)
}

/// Sets a matrix to ones on the diagonal and zeros elsewhere, so a linear layer keeps its inputs.
///
/// # Errors
///
/// The tensor does not have two dimensions, or there is no memory for the new one.
#[doc(alias = "eye_")]
pub fn eye(tensor: &mut Tensor) -> Result<()> {
    let &[_, columns] = tensor.shape() else {
        let shape = tensor.shape();
        return Err(Error::invalid("eye", format!("expected a matrix, got shape {shape:?}")));
    };
    ones_where(tensor, |at| at / columns == at % columns)
}

/// Sets a convolution's weight `[out, in, kernel..]` to the Dirac delta: in each group, output
/// channel `i` copies input channel `i`. Output channels beyond the input channels are zero.
///
/// # Errors
///
/// The tensor does not have three to five dimensions, `groups` does not divide the output channels,
/// or there is no memory for the new tensor.
#[doc(alias = "dirac_")]
pub fn dirac(tensor: &mut Tensor, groups: usize) -> Result<()> {
    let shape = tensor.shape().to_vec();
    let [out, inputs, kernel @ ..] = &shape[..] else { return Err(no_weight(&shape)) };
    if !(1..=3).contains(&kernel.len()) {
        return Err(no_weight(&shape));
    }
    if groups == 0 || out % groups != 0 {
        let message = format!("{out} output channels are not divisible by {groups} groups");
        return Err(Error::invalid("dirac", message));
    }
    let size: usize = kernel.iter().product();
    let centre = kernel.iter().fold(0, |at, size| at * size + size / 2);
    ones_where(tensor, |at| {
        let (channel, place) = (at / size, at % size);
        place == centre && channel / inputs % (out / groups) == channel % inputs
    })
}

fn no_weight(shape: &[usize]) -> Error {
    let message = format!("expected three to five dimensions, got shape {shape:?}");
    Error::invalid("dirac", message)
}

/// Fills a matrix with normal numbers of mean 0 and sets a share `sparsity` of each column, rounded
/// up, to zero. PyTorch's default `std` is 0.01. Draws on the host: first the numbers, then one
/// permutation for each column, whose first rows become zero.
///
/// # Errors
///
/// The tensor does not have two dimensions, `sparsity` is not in `[0, 1]`, `std` is negative, the
/// type is not floating, or there is no generator to draw from.
#[doc(alias = "sparse_")]
pub fn sparse(tensor: &mut Tensor, sparsity: f64, std: f64) -> Result<()> {
    let op = "sparse";
    let &[rows, columns] = tensor.shape() else {
        let shape = tensor.shape();
        return Err(Error::invalid(op, format!("expected a matrix, got shape {shape:?}")));
    };
    if !(0.0..=1.0).contains(&sparsity) {
        return Err(Error::invalid(op, format!("expected a sparsity in [0, 1], got {sparsity}")));
    }
    let zeros = (sparsity * rows as f64).ceil() as usize;
    let mut order = Value::scratch(&[rows], DType::I64)?;
    let order = order.as_mut_slice::<i64>()?;
    on_host(op, tensor, |generator, out| {
        generator.fill_normal_f32(out, 0.0, std as f32)?;
        for column in 0..columns {
            generator.fill_permutation(order)?;
            for &row in &order[..zeros] {
                out[row as usize * columns + column] = 0.0;
            }
        }
        Ok(())
    })
}

/// Sets the elements at the row-major positions for which `is_one` holds to 1, the others to 0.
fn ones_where(tensor: &mut Tensor, is_one: impl Fn(usize) -> bool) -> Result<()> {
    let mut value = Value::zeros(tensor.shape(), DType::F32)?;
    let numbers = value.as_mut_slice::<f32>()?.iter_mut().enumerate();
    numbers.filter(|(at, _)| is_one(*at)).for_each(|(_, number)| *number = 1.0);
    let value = run(&Cast { x: value, to: tensor.dtype() })?.to(tensor.device())?;
    replace(tensor, value.into());
    Ok(())
}

fn draw(op: &'static str, tensor: &mut Tensor, numbers: Numbers) -> Result<()> {
    let new = drawn(op, tensor.shape(), place(tensor), numbers)?;
    replace(tensor, new);
    Ok(())
}

/// Fills a tensor with f32 numbers drawn on the host, then converts and moves them.
fn on_host(
    op: &'static str,
    tensor: &mut Tensor,
    fill: impl FnOnce(&mut Generator, &mut [f32]) -> Result<(), samebits_rng::Error>,
) -> Result<()> {
    if !tensor.dtype().is_float() {
        return Err(Error::invalid(op, format!("expected floats, got {}", tensor.dtype())));
    }
    let mut value = Value::scratch(tensor.shape(), DType::F32)?;
    let out = value.as_mut_slice()?;
    with_generator(op, tensor.device(), |generator| {
        fill(generator, out).map_err(|error| refused(op, error))
    })?;
    let value = run(&Cast { x: value, to: tensor.dtype() })?.to(tensor.device())?;
    replace(tensor, value.into());
    Ok(())
}

/// Replaces the value and keeps the parameter's identity. If another layer shares the parameter and
/// was not given the new value, the optimiser's next step reports the difference.
fn replace(tensor: &mut Tensor, new: Tensor) {
    *tensor = tensor.with_value(new.into());
}

fn place(tensor: &Tensor) -> Place {
    Place { dtype: tensor.dtype(), device: tensor.device() }
}

fn chosen(op: &'static str, tensor: &Tensor, fan: Fan) -> Result<f64> {
    let (fan_in, fan_out) = fans(op, tensor)?;
    Ok(match fan {
        Fan::In => fan_in,
        Fan::Out => fan_out,
    })
}

fn fans(op: &'static str, tensor: &Tensor) -> Result<(f64, f64)> {
    let (fan_in, fan_out) = init::fans(tensor.shape()).map_err(|_| flat(op, tensor))?;
    if fan_in == 0 || fan_out == 0 {
        let shape = tensor.shape();
        let message = format!("expected at least one element, got shape {shape:?}");
        return Err(Error::invalid(op, message));
    }
    Ok((fan_in as f64, fan_out as f64))
}

fn flat(op: &'static str, tensor: &Tensor) -> Error {
    Error::invalid(op, format!("expected two dimensions or more, got shape {:?}", tensor.shape()))
}
