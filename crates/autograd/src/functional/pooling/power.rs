//! Power-average pooling.

use samebits_macros::named;
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::ops::{CompareKind, PadMode, PoolParams};
use samebits_tensor_core::{Error, Result};

use super::{avg_pool, max_pool};
use crate::Tensor;
use crate::functional::broadcast::sum;
use crate::functional::compare::{isfinite, isinf, logical_and, logical_or};
use crate::functional::distance::outside;
use crate::functional::elementwise::{
    abs, compare, div, mul, neg, pow_scalar, scalar_like, times, where_,
};
use crate::functional::padding::pad;
use crate::functional::reduce::has_any;
use crate::functional::shape::reshape;
use crate::functional::support::masked_fill;
use crate::functional::windows::windows;

/// Computes the p-norm of each window: the p-th root of the sum of the p-th powers.
///
/// # Shapes
///
/// `input` is `[n, channels, ..]` or `[channels, ..]`.
///
/// # Determinism
///
/// [`avg_pool`] averages the powers; the magnitude of the mean is multiplied by the number of
/// elements of a window, and the p-th root taken, each operation rounded. As in PyTorch, a window
/// that extends past the end counts as if it were full. A sum below 0, which odd powers allow, has
/// the root NaN.
///
/// If powers of a window leave the range of the type, its elements are divided by the dominant
/// magnitude (the largest, or for a negative norm the smallest). The powers are then added as by
/// [`sum`](crate::functional::sum), and the root is multiplied by that magnitude. To find out
/// whether a window needs this, the host waits for the device.
///
/// If the norm of a window is 0, its gradient is 0, except for a norm of 1. The gradient of a zero
/// element is 0 for norms below 1.
///
/// # Errors
///
/// `norm` is 0, the parameters do not fit the shape, or padding or dilation is set.
#[named]
#[track_caller]
pub fn lp_pool(input: &Tensor, norm: f64, params: &PoolParams) -> Result<Tensor> {
    let op = "lp_pool";
    if norm == 0.0 || params.padding.iter().any(|&padding| padding != 0) {
        return Err(Error::invalid(
            op,
            format!("expected a norm other than 0 and no padding, got {norm} and {params:?}"),
        ));
    }
    let count = numel(op, &params.kernel)? as f64;
    let sums = |x: &Tensor| -> Result<Tensor> {
        times(&avg_pool(&powers(x, norm)?, params, true, None)?, count)
    };
    let total = sums(input)?;
    let most = dominant(input, norm, params)?;
    let lost = logical_or(&outside(&pow_scalar(&most, norm)?)?, &isinf(&total)?)?;
    let some = logical_and(&isfinite(&most)?, &compare(CompareKind::Ne, &most, 0.0)?)?;
    let far = logical_and(&lost, &some)?;
    if !has_any(&far)? {
        return root(&total, norm);
    }
    // Elements with infinite powers are in windows that are computed separately: a 1 in their place
    // keeps the gradients of the others finite.
    let x = input.detach();
    let beyond = logical_and(&isinf(&pow_scalar(&x, norm)?)?, &isfinite(&x)?)?;
    let near = masked_fill(&sums(&masked_fill(input, &beyond, 1.0)?)?, &far, 1.0)?;
    let scale = where_(&far, &most, &scalar_like(&most, 1.0)?)?;
    let ratios = scaled_windows(input, norm, params, &far, &scale)?;
    let full = div(&scalar_like(&most, count)?, &elements(&most, input, params)?)?;
    let inner = input.rank()..input.rank() + params.kernel.len();
    let total = mul(&sum(&powers(&ratios, norm)?, inner.collect::<Vec<_>>(), false)?, &full)?;
    where_(&far, &mul(&root(&total, norm)?, &scale)?, &root(&near, norm)?)
}

/// Returns the powers of elements. If `p` is below 1, the gradient of a power of 0 is 0.
fn powers(x: &Tensor, p: f64) -> Result<Tensor> {
    if p >= 1.0 {
        return pow_scalar(x, p);
    }
    let zero = compare(CompareKind::Eq, x, 0.0)?;
    let power = pow_scalar(&masked_fill(x, &zero, 1.0)?, p)?;
    where_(&zero, &pow_scalar(&x.detach(), p)?, &power)
}

/// Returns the root of a sum of powers. Unless `p` is 1, the gradient of a root of 0 is 0.
fn root(total: &Tensor, p: f64) -> Result<Tensor> {
    if p == 1.0 {
        return pow_scalar(total, 1.0);
    }
    let vanishes = if p > 0.0 { 0.0 } else { f64::INFINITY };
    let nothing = compare(CompareKind::Eq, total, vanishes)?;
    let root = pow_scalar(&masked_fill(total, &nothing, 1.0)?, 1.0 / p)?;
    masked_fill(&root, &nothing, 0.0)
}

/// Returns the magnitude of each window that dominates its norm.
fn dominant(input: &Tensor, p: f64, params: &PoolParams) -> Result<Tensor> {
    let size = abs(&input.detach())?;
    if p > 0.0 {
        return Ok(max_pool(&size, params)?.0);
    }
    neg(&max_pool(&neg(&size)?, params)?.0)
}

/// Returns the elements of each window divided by its scale, in additional dimensions at the end.
/// Windows that are not `far` hold 1; positions after the end of the input hold a number that adds
/// no power.
fn scaled_windows(
    input: &Tensor,
    p: f64,
    params: &PoolParams,
    far: &Tensor,
    scale: &Tensor,
) -> Result<Tensor> {
    let nothing = if p > 0.0 { 0.0 } else { f64::INFINITY };
    let apart = |x: &Tensor| reshape(x, [x.shape(), &vec![1; params.kernel.len()]].concat());
    let each = windows_of(input, params, scale.shape(), nothing)?;
    where_(&apart(far)?, &div(&each, &apart(scale)?)?, &scalar_like(scale, 1.0)?)
}

/// Counts the elements of the input in each window, in the spatial dimensions.
fn elements(result: &Tensor, input: &Tensor, params: &PoolParams) -> Result<Tensor> {
    let dims = params.kernel.len();
    let spatial = |x: &Tensor| x.shape()[x.rank() - dims..].to_vec();
    let ones = Tensor::ones(&spatial(input), input.dtype())?.to(input.device())?;
    let inside = windows_of(&ones, params, &spatial(result), 0.0)?;
    sum(&inside, (dims..2 * dims).collect::<Vec<_>>(), false)
}

/// Returns the windows along the last dimensions, with their elements in additional dimensions at
/// the end. `value` fills positions after the end of the input.
fn windows_of(x: &Tensor, params: &PoolParams, result: &[usize], value: f64) -> Result<Tensor> {
    let dims = params.kernel.len();
    let (inputs, counts) = (&x.shape()[x.rank() - dims..], &result[result.len() - dims..]);
    let mut pads = Vec::new();
    for dim in (0..dims).rev() {
        let end = (counts[dim] - 1) * params.stride[dim] + params.kernel[dim];
        pads.extend([0, end.saturating_sub(inputs[dim]) as i64]);
    }
    let first = x.rank() - dims;
    let mut each = pad(x, &pads, PadMode::Constant, value)?;
    for dim in 0..dims {
        each = windows(&each, first + dim, params.kernel[dim], params.stride[dim])?;
    }
    Ok(each)
}
