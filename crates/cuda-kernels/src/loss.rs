//! Softmax and the negative log-likelihood.

use bytemuck::{Pod, Zeroable};
use cudarc::driver::CudaSlice;

use crate::Variant;
use crate::device::{Device, expect_len, product};
use crate::error::{CudaError, Result};

const FAMILY: &str = "loss";

/// `x − log Σ exp(x)` along the middle dimension.
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns the same.
///
/// # Determinism
///
/// Portable: `(x − max) − log Σ exp(x − max)`, each step correctly rounded in f32 but for the
/// sum, which is the f64 tree rounded to f32.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn log_softmax(
    device: &Device,
    x: &CudaSlice<f32>,
    shape: [usize; 3],
) -> Result<CudaSlice<f32>> {
    let op = "log_softmax";
    let (raw, elements, rows) = classes(op, shape)?;
    expect_len(op, "the input", x, elements)?;
    let mut out = device.uninitialised(op, elements)?;
    device
        .kernel(op, FAMILY, "log_softmax_f32")?
        .on(device.stream())
        .write(&mut out)
        .read(x)
        .value(&raw)
        .threads(rows * 32, device.block())?;
    Ok(out)
}

/// The gradient of [`log_softmax`] from its result `y`.
///
/// # Shapes
///
/// All `[outer, n, inner]`.
///
/// # Determinism
///
/// Portable: `fma(exp(y), −Σ grad, grad)`, the sum over the f64 tree and rounded to f32.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn log_softmax_grad(
    device: &Device,
    grad: &CudaSlice<f32>,
    y: &CudaSlice<f32>,
    shape: [usize; 3],
) -> Result<CudaSlice<f32>> {
    let op = "log_softmax";
    let (raw, elements, rows) = classes(op, shape)?;
    expect_len(op, "the gradient", grad, elements)?;
    expect_len(op, "the result", y, elements)?;
    let mut out = device.uninitialised(op, elements)?;
    device
        .kernel(op, FAMILY, "log_softmax_grad_f32")?
        .on(device.stream())
        .write(&mut out)
        .read(grad)
        .read(y)
        .value(&raw)
        .threads(rows * 32, device.block())?;
    Ok(out)
}

/// The mean negative log-likelihood of the target classes.
///
/// # Shapes
///
/// `log_probs: [n, classes]`, `target: [n]`; returns one element.
///
/// # Determinism
///
/// Deterministic: `−Σ log_probs[i, target[i]] / n` over the f64 tree, rounded once. Atomic: f32
/// additions in the order of arrival.
///
/// # Errors
///
/// [`CudaError::Length`], [`CudaError::InvalidArgument`] for no samples;
/// [`CudaError::IndexOutOfRange`] at the next synchronisation.
pub fn nll_loss(
    device: &Device,
    log_probs: &CudaSlice<f32>,
    target: &CudaSlice<i64>,
    [n, classes]: [usize; 2],
    variant: Variant,
) -> Result<CudaSlice<f32>> {
    let op = "nll_loss";
    check(op, n)?;
    expect_len(op, "the log-probabilities", log_probs, product(op, &[n, classes])?)?;
    expect_len(op, "the target", target, n)?;
    let mut out = device.zeros_for(op, 1)?;
    let mut reports = device.reports();
    let (name, threads) = match variant {
        Variant::Deterministic => ("nll_loss_f32", 32),
        Variant::Atomic => ("nll_loss_f32_atomic", n),
    };
    let block = if variant == Variant::Deterministic { 32 } else { device.block() };
    device
        .kernel(op, FAMILY, name)?
        .on(device.stream())
        .write(&mut out)
        .read(log_probs)
        .read(target)
        .value(&(n as u64))
        .value(&(classes as u64))
        .write(reports.noted())
        .threads(threads, block)?;
    reports.collect(device, op, target, classes as u64)?;
    Ok(out)
}

/// The gradient of [`nll_loss`] with respect to the log-probabilities.
///
/// # Shapes
///
/// `grad`: one element, `target: [n]`; returns `[n, classes]`.
///
/// # Determinism
///
/// Portable: `−grad / n` at each target, +0 elsewhere.
///
/// # Errors
///
/// As [`nll_loss`].
pub fn nll_loss_grad(
    device: &Device,
    grad: &CudaSlice<f32>,
    target: &CudaSlice<i64>,
    [n, classes]: [usize; 2],
) -> Result<CudaSlice<f32>> {
    let op = "nll_loss";
    check(op, n)?;
    expect_len(op, "the gradient", grad, 1)?;
    expect_len(op, "the target", target, n)?;
    let elements = product(op, &[n, classes])?;
    let mut out = device.uninitialised(op, elements)?;
    let mut reports = device.reports();
    device
        .kernel(op, FAMILY, "nll_loss_grad_f32")?
        .on(device.stream())
        .write(&mut out)
        .read(grad)
        .read(target)
        .value(&(n as u64))
        .value(&(classes as u64))
        .write(reports.noted())
        .threads(elements, device.block())?;
    reports.collect(device, op, target, classes as u64)?;
    Ok(out)
}

fn check(op: &'static str, n: usize) -> Result<()> {
    if n == 0 {
        return Err(CudaError::invalid(op, "the mean over no samples is not defined"));
    }
    Ok(())
}

fn classes(op: &'static str, [outer, n, inner]: [usize; 3]) -> Result<(RawClasses, usize, usize)> {
    let raw = RawClasses { outer: outer as u64, n: n as u64, inner: inner as u64 };
    // No class: nothing to write, so no rows either.
    let rows = if n == 0 { 0 } else { product(op, &[outer, inner])? };
    product(op, &[rows, 32])?;
    Ok((raw, product(op, &[outer, n, inner])?, rows))
}

/// `SbClasses` of the kernels.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawClasses {
    outer: u64,
    n: u64,
    inner: u64,
}
