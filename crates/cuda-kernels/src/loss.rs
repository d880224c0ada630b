//! Softmax and the negative log-likelihood.

use crate::launch::declared::loss::{RawClasses, RawTargets};
use crate::launch::kernels::loss as kernels;
use crate::launch::{Buffer, Launch};

use crate::Variant;
use crate::device::{Device, Float, expect_len, product};
use crate::elementwise::fill;
use crate::error::Result;
use crate::reduce::{Terms, sums};

/// Computes `x − log Σ exp(x)` along the middle dimension.
///
/// # Shapes
///
/// `x: [outer, n, inner]`; returns the same.
///
/// # Determinism
///
/// Portable: `(x − max) − log Σ exp(x − max)`. For f32 each step is correctly rounded, except the
/// sum, which is the f64 tree rounded to f32.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn log_softmax<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    shape: [usize; 3],
) -> Result<Buffer<T>> {
    let op = "log_softmax";
    let (raw, elements, rows) = classes(op, shape)?;
    expect_len(op, "the input", x, elements)?;
    let mut out = device.uninitialised(op, elements)?;
    if raw.in_columns() {
        kernels::LogSoftmaxColumns { out: &mut out, input: x, p: raw }.threads(device, op, rows)?;
    } else {
        kernels::LogSoftmax { out: &mut out, input: x, p: raw }.threads(device, op, rows * 32)?;
    }
    Ok(out)
}

/// Computes `exp(x − max) / Σ exp(x − max)`, with the differences, exponentials and sum of [`log_softmax`].
///
/// # Shapes
///
/// As [`log_softmax`].
///
/// # Determinism
///
/// Portable: as [`log_softmax`].
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn softmax<T: Float>(device: &Device, x: &Buffer<T>, shape: [usize; 3]) -> Result<Buffer<T>> {
    let op = "softmax";
    let (raw, elements, rows) = classes(op, shape)?;
    expect_len(op, "the input", x, elements)?;
    let mut out = device.uninitialised(op, elements)?;
    if raw.in_columns() {
        kernels::SoftmaxColumns { out: &mut out, input: x, p: raw }.threads(device, op, rows)?;
    } else {
        kernels::Softmax { out: &mut out, input: x, p: raw }.threads(device, op, rows * 32)?;
    }
    Ok(out)
}

/// Computes the gradient of [`log_softmax`] from its result `y`.
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
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn log_softmax_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    y: &Buffer<T>,
    shape: [usize; 3],
) -> Result<Buffer<T>> {
    let op = "log_softmax";
    let (raw, elements, rows) = classes(op, shape)?;
    expect_len(op, "the gradient", grad, elements)?;
    expect_len(op, "the result", y, elements)?;
    let mut out = device.uninitialised(op, elements)?;
    if raw.in_columns() {
        kernels::LogSoftmaxGradColumns { out: &mut out, grad, y, p: raw }
            .threads(device, op, rows)?;
    } else {
        kernels::LogSoftmaxGrad { out: &mut out, grad, y, p: raw }.threads(
            device,
            op,
            rows * 32,
        )?;
    }
    Ok(out)
}

/// Computes the gradient of [`softmax`] from its result `y`.
///
/// # Shapes
///
/// All `[outer, n, inner]`.
///
/// # Determinism
///
/// Portable: as [`log_softmax_grad`], of `grad · y` rounded.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length).
pub fn softmax_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    y: &Buffer<T>,
    shape: [usize; 3],
) -> Result<Buffer<T>> {
    let op = "softmax";
    let (p, elements, rows) = classes(op, shape)?;
    expect_len(op, "the gradient", grad, elements)?;
    expect_len(op, "the result", y, elements)?;
    let mut out = device.uninitialised(op, elements)?;
    if p.in_columns() {
        kernels::SoftmaxGradColumns { out: &mut out, grad, y, p }.threads(device, op, rows)?;
    } else {
        kernels::SoftmaxGrad { out: &mut out, grad, y, p }.threads(device, op, rows * 32)?;
    }
    Ok(out)
}

/// The targets of a classification, and their weights.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a, T> {
    /// The class of each position, in the order (outer, inner).
    pub classes: &'a Buffer<i64>,
    /// The shape of the log-probabilities, `[outer, classes, inner]`.
    pub shape: [usize; 3],
    /// The weight of each class; 1 if missing.
    pub weight: Option<&'a Buffer<T>>,
    /// A class that is ignored.
    pub ignore_index: i64,
}

pub use samebits_tensor_core::ops::Reduction;

/// Computes the negative log-likelihood of the targets.
///
/// # Determinism
///
/// Deterministic: each loss is a product in f64; the sums run in f64 over the contract's tree in
/// row-major order of the targets, and are rounded once. Atomic: float additions in the order of
/// arrival. Without a reduction nothing is added, and both forms are the same.
///
/// # Errors
///
/// [`CudaError::Length`](crate::CudaError::Length); [`CudaError::IndexOutOfRange`](crate::CudaError::IndexOutOfRange) at the next synchronisation.
pub fn nll_loss<T: Float>(
    device: &Device,
    log_probs: &Buffer<T>,
    targets: Targets<'_, T>,
    reduction: Reduction,
    variant: Variant,
) -> Result<Buffer<T>> {
    let op = "nll_loss";
    let (raw, positions, elements) = targets.check(op)?;
    expect_len(op, "the log-probabilities", log_probs, elements)?;
    // A dummy argument, which is not read without weights.
    let weight = targets.weight.unwrap_or(log_probs);
    let target = targets.classes;
    let mut reports = device.reports();
    if reduction == Reduction::None {
        let mut out = device.uninitialised(op, positions)?;
        kernels::NllEach {
            out: &mut out,
            log_probs,
            target,
            weight,
            p: raw,
            status: reports.noted(),
        }
        .threads(device, op, positions)?;
        reports.collect(device, op, target, raw.classes)?;
        return Ok(out);
    }
    let mean = u32::from(reduction == Reduction::Mean);
    let mut out = device.uninitialised(op, 1)?;
    if variant == Variant::Atomic {
        let mut sums = device.zeros_for::<T>(op, 2)?;
        kernels::NllSumsAtomic {
            sums: &mut sums,
            log_probs,
            target,
            weight,
            p: raw,
            status: reports.noted(),
        }
        .threads(device, op, positions)?;
        kernels::NllFinishAtomic { out: &mut out, sums: &sums, mean }.grid(
            device,
            op,
            (1, 1, 1),
            (1, 1, 1),
        )?;
        reports.collect(device, op, target, raw.classes)?;
        return Ok(out);
    }
    let (terms, weights) = terms(device, op, log_probs, &targets, reports.noted())?;
    reports.collect(device, op, target, raw.classes)?;
    let sum = sums(device, op, &terms, [1, positions, 1], Terms::Plain)?;
    let divisor = sums(device, op, &weights, [1, positions, 1], Terms::Plain)?;
    kernels::NllFinish { out: &mut out, sum: &sum, weights: &divisor, mean }.grid(
        device,
        op,
        (1, 1, 1),
        (1, 1, 1),
    )?;
    Ok(out)
}

/// Computes the gradient of [`nll_loss`] with respect to the log-probabilities; `grad` has one
/// element, or one per position without a reduction.
///
/// # Determinism
///
/// Portable: `−grad · weight` at each target, divided by the sum of the weights for the mean, in
/// f64 and rounded once; +0 elsewhere.
///
/// # Errors
///
/// As [`nll_loss`].
pub fn nll_loss_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    targets: Targets<'_, T>,
    reduction: Reduction,
) -> Result<Buffer<T>> {
    let op = "nll_loss";
    let slopes = Slopes::new(device, op, grad, &targets, reduction)?;
    let mut reports = device.reports();
    let mut out = device.zeros_for(op, slopes.elements)?;
    kernels::NllGrad {
        out: &mut out,
        grad,
        target: targets.classes,
        weight: slopes.weight,
        divisor: &slopes.divisor,
        p: slopes.raw,
        each: slopes.each,
        status: reports.noted(),
    }
    .threads(device, op, slopes.positions.min(slopes.elements))?;
    reports.collect(device, op, targets.classes, slopes.raw.classes)?;
    Ok(out)
}

/// Computes the gradient of [`nll_loss`] of the log-softmax `log_probs` with respect to what the
/// softmax is taken of.
///
/// # Determinism
///
/// Portable: [`log_softmax_grad`] of [`nll_loss_grad`].
///
/// # Errors
///
/// As [`nll_loss`].
pub fn cross_entropy_grad<T: Float>(
    device: &Device,
    grad: &Buffer<T>,
    log_probs: &Buffer<T>,
    targets: Targets<'_, T>,
    reduction: Reduction,
) -> Result<Buffer<T>> {
    let op = "cross_entropy";
    let slopes = Slopes::new(device, op, grad, &targets, reduction)?;
    expect_len(op, "the log-probabilities", log_probs, slopes.elements)?;
    let (shape, elements, rows) = classes(op, targets.shape)?;
    let mut reports = device.reports();
    let mut out = device.uninitialised(op, elements)?;
    macro_rules! launch {
        ($kernel:ident, $threads:expr) => {
            kernels::$kernel {
                out: &mut out,
                log_probs,
                grad,
                target: targets.classes,
                weight: slopes.weight,
                divisor: &slopes.divisor,
                p: slopes.raw,
                each: slopes.each,
                status: reports.noted(),
            }
            .threads(device, op, $threads)?
        };
    }
    if shape.in_columns() {
        launch!(CrossEntropyGradColumns, rows);
    } else {
        launch!(CrossEntropyGrad, rows * 32);
    }
    reports.collect(device, op, targets.classes, slopes.raw.classes)?;
    Ok(out)
}

/// What the gradients of the targets are computed from.
struct Slopes<'a, T> {
    raw: RawTargets,
    positions: usize,
    /// The elements of the log-probabilities.
    elements: usize,
    /// The weights of the classes, or a dummy that is not read.
    weight: &'a Buffer<T>,
    divisor: Buffer<f64>,
    /// 1 if each position has a gradient of its own.
    each: u32,
}

impl<'a, T: Float> Slopes<'a, T> {
    fn new(
        device: &Device,
        op: &'static str,
        grad: &'a Buffer<T>,
        targets: &Targets<'a, T>,
        reduction: Reduction,
    ) -> Result<Slopes<'a, T>> {
        let (raw, positions, elements) = targets.check(op)?;
        let each = reduction == Reduction::None;
        expect_len(op, "the gradient", grad, if each { positions } else { 1 })?;
        let weight = targets.weight.unwrap_or(grad);
        let divisor = if reduction == Reduction::Mean {
            let mut weights = device.uninitialised(op, positions)?;
            let target = targets.classes;
            kernels::NllWeights { weights: &mut weights, target, weight, p: raw }
                .threads(device, op, positions)?;
            sums(device, op, &weights, [1, positions, 1], Terms::Plain)?
        } else {
            fill(device, 1, 1.0f64)?
        };
        Ok(Slopes { raw, positions, elements, weight, divisor, each: u32::from(each) })
    }
}

/// Computes the terms of the two sums of a loss.
fn terms<T: Float>(
    device: &Device,
    op: &'static str,
    log_probs: &Buffer<T>,
    targets: &Targets<'_, T>,
    report: &mut Buffer<u64>,
) -> Result<(Buffer<f64>, Buffer<f64>)> {
    let (raw, positions, _) = targets.check(op)?;
    let mut terms = device.uninitialised(op, positions)?;
    let mut weights = device.uninitialised(op, positions)?;
    kernels::NllTerms {
        terms: &mut terms,
        weights: &mut weights,
        log_probs,
        target: targets.classes,
        weight: targets.weight.unwrap_or(log_probs),
        p: raw,
        status: report,
    }
    .threads(device, op, positions)?;
    Ok((terms, weights))
}

impl<T> Targets<'_, T> {
    /// Returns the kernels' description of the targets, the number of positions, and that of the
    /// log-probabilities.
    fn check(&self, op: &'static str) -> Result<(RawTargets, usize, usize)> {
        let [outer, classes, inner] = self.shape;
        let positions = product(op, &[outer, inner])?;
        expect_len(op, "the target", self.classes, positions)?;
        if let Some(weight) = self.weight {
            expect_len(op, "the weight", weight, classes)?;
        }
        let raw = RawTargets {
            outer,
            classes,
            inner,
            ignore: self.ignore_index,
            weighted: usize::from(self.weight.is_some()),
        };
        Ok((raw, positions, product(op, &[positions, classes])?))
    }
}

fn classes(op: &'static str, [outer, n, inner]: [usize; 3]) -> Result<(RawClasses, usize, usize)> {
    let raw = RawClasses { outer, n, inner };
    // Without classes there is nothing to write, so there are no rows either.
    let rows = if n == 0 { 0 } else { product(op, &[outer, inner])? };
    product(op, &[rows, 32])?;
    Ok((raw, product(op, &[outer, n, inner])?, rows))
}

impl RawClasses {
    /// Returns true if a thread, not a warp, handles a row: if rows are neighbours in memory, and
    /// short.
    fn in_columns(&self) -> bool {
        self.inner >= 32 && self.n <= 256
    }
}
