//! Gradient clipping.

use std::collections::BTreeMap;

use samebits_numerics::exact::ExactSum64;
use samebits_numerics::fpenv;
use samebits_numerics::math::f64::pow;
use samebits_numerics::nan::CANONICAL_F64;
use samebits_numerics::reduce::{norm_leaves_range, norm_scale};
use samebits_tensor_core::ops::Cast;
use samebits_tensor_core::{DType, Device, Error, Result, Tensor as Value};

use super::arithmetic::{clamp_all, scale_all};
use super::totals::on_device;
use crate::{Gradients, Tensor, run};

/// Scales all gradients of `parameters` by one factor, so that their joint `p`-norm is at most
/// `max_norm`. Returns the norm before scaling. `p` is 2 for the Euclidean norm, infinity for the
/// largest absolute value. A parameter listed twice counts once.
///
/// If a gradient is infinite or NaN, the norm is not finite and the gradients are unusable: check
/// the norm before taking the step.
///
/// # Determinism
///
/// `Portable`, and independent of the order of the parameters and of their elements. Each `|g|^p`
/// is rounded to f64 (squares of f32 numbers are exact), the sum is exact and rounded once, and its
/// root is taken in f64. If the largest power is outside 2^-900 to 2^900, elements are first
/// divided by a scale, as in [`Norm`](samebits_tensor_core::ops::Norm). If
/// `max_norm / (norm + 1e-6)` is less than 1, each gradient is multiplied by it, rounded to the
/// element type.
///
/// # Errors
///
/// [`Error::InvalidArgument`] unless `max_norm` is at least 0 and `p` is above 0. The gradients are
/// unchanged after any error.
///
/// # Examples
///
/// ```
/// use samebits_autograd::optim::clip_grad_norm;
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::from_slice(&[3.0f32, 4.0], &[2])?.set_requires_grad(true)?;
/// let mut gradients = x.square()?.sum_all()?.backward()?;
/// let norm = clip_grad_norm(&[x.clone()], &mut gradients, 5.0, 2.0)?;
/// assert_eq!(norm, 10.0);
/// assert_eq!(gradients.of(&x).unwrap().to_vec::<f32>()?, [2.9999995, 3.9999995]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// PyTorch's `torch.nn.utils.clip_grad_norm_`.
#[doc(alias = "clip_grad_norm_")]
pub fn clip_grad_norm(
    parameters: &[Tensor],
    gradients: &mut Gradients,
    max_norm: f64,
    p: f64,
) -> Result<f64> {
    const OP: &str = "clip_grad_norm";
    check_limit(OP, "the largest norm", max_norm)?;
    if p.is_nan() || p <= 0.0 {
        return Err(Error::invalid(OP, format!("p should be above 0, got {p}")));
    }
    let norm = fpenv::ieee(|| norm(&clipped(parameters, gradients), p))?;
    let factor = max_norm / (norm + 1e-6);
    // A NaN norm makes every gradient NaN.
    if factor < 1.0 || factor.is_nan() {
        let old = clipped(parameters, gradients);
        let new = scale_all(&old.values().collect::<Vec<_>>(), factor)?;
        gradients.by_id.extend(old.into_keys().zip(new.into_iter().map(Tensor::from)));
    }
    Ok(norm)
}

/// Clamps every element of the gradients of `parameters` to ±`limit`. NaN stays NaN.
///
/// # Determinism
///
/// `Portable`: each element by itself.
///
/// # Errors
///
/// [`Error::InvalidArgument`] unless `limit` is at least 0. The gradients are unchanged after any
/// error.
///
/// # References
///
/// PyTorch's `torch.nn.utils.clip_grad_value_`.
#[doc(alias = "clip_grad_value_")]
pub fn clip_grad_value(parameters: &[Tensor], gradients: &mut Gradients, limit: f64) -> Result<()> {
    check_limit("clip_grad_value", "the limit", limit)?;
    let old = clipped(parameters, gradients);
    let new = clamp_all(&old.values().collect::<Vec<_>>(), limit)?;
    gradients.by_id.extend(old.into_keys().zip(new.into_iter().map(Tensor::from)));
    Ok(())
}

fn check_limit(op: &'static str, what: &str, limit: f64) -> Result<()> {
    if limit >= 0.0 {
        return Ok(());
    }
    Err(Error::invalid(op, format!("{what} should be at least 0, got {limit}")))
}

/// Returns the gradients of `parameters` by identity, each once.
fn clipped(parameters: &[Tensor], gradients: &Gradients) -> BTreeMap<u64, Value> {
    let of = |parameter: &Tensor| {
        Some((parameter.identity()?, gradients.of(parameter)?.value().clone()))
    };
    parameters.iter().filter_map(of).collect()
}

/// Returns the norm of all gradients as one vector, with the scale of [`norm_scale`].
fn norm(gradients: &BTreeMap<u64, Value>, p: f64) -> Result<f64> {
    let mut parts: BTreeMap<Device, Vec<Value>> = BTreeMap::new();
    for gradient in gradients.values() {
        let is_host = gradient.device() == Device::Cpu;
        let dense = if is_host { gradient.clone() } else { gradient.contiguous()? };
        parts.entry(gradient.device()).or_default().push(dense);
    }
    let exponent = |x: &Value| if x.dtype() == DType::F64 { 1074 } else { 149 };
    let mut largest = 0.0;
    if gradients.values().any(|x| norm_leaves_range(p, exponent(x))) {
        for (&device, part) in &parts {
            match on_device(device, part, |backend, all| backend.largest_magnitude(all))? {
                Some(found) => largest = larger(largest, found),
                None => each_block(part, |elements| {
                    largest = elements.iter().fold(largest, |a, x| larger(a, x.abs()));
                })?,
            }
        }
    }
    if p == f64::INFINITY {
        return Ok(if largest.is_nan() { CANONICAL_F64 } else { largest });
    }
    let (mut sum, scale) = (ExactSum64::new(), norm_scale(largest, p));
    for (&device, part) in &parts {
        match on_device(device, part, |backend, all| backend.sum_of_powers(all, scale, p))? {
            Some(found) => sum.merge(&found),
            None => each_block(part, |elements| {
                let mut powers = [0.0; BLOCK];
                for (power, x) in powers.iter_mut().zip(elements) {
                    *power = power_of(x.abs() / scale, p);
                }
                sum.add_slice(&powers[..elements.len()]);
            })?,
        }
    }
    let sum = sum.to_f64();
    let root = match p {
        2.0 => sum.sqrt(),
        1.0 => sum,
        _ => pow(sum, 1.0 / p),
    };
    Ok(root * scale)
}

const BLOCK: usize = 256;

/// Calls `f` with the elements of gradients in f64, up to [`BLOCK`] at a time.
fn each_block(gradients: &[Value], mut f: impl FnMut(&[f64])) -> Result<()> {
    for gradient in gradients {
        let wide = run(&Cast { x: gradient.clone(), to: DType::F64 })?;
        let wide = wide.to(Device::Cpu)?.contiguous()?;
        wide.as_slice::<f64>()?.chunks(BLOCK).for_each(&mut f);
    }
    Ok(())
}

fn power_of(x: f64, p: f64) -> f64 {
    match p {
        2.0 => x * x,
        1.0 => x,
        _ => pow(x, p),
    }
}

/// Returns the larger number; NaN counts as the largest.
fn larger(a: f64, b: f64) -> f64 {
    if a >= b || a.is_nan() { a } else { b }
}
