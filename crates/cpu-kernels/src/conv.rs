//! Convolutions of one to three spatial dimensions in a written order.
//!
//! A transposed convolution is the input gradient of a convolution.
//!
//! # Shapes
//!
//! Input: batch, channels, size. Weight: output channels, channels of a group, kernel size.
//! Output: batch, output channels, output size. All slices are contiguous, row-major.

mod cut;
mod exact;
mod gather;
mod geometry;
mod source;
mod weight;
mod weights;

use crate::error::{Result, expect_len};
use crate::gemm::Real;
use crate::memory::named;

use geometry::Gather;
pub(crate) use geometry::volume;
pub use samebits_tensor_core::geometry::{ConvParams, Convolution};
pub use weight::WEIGHT_BLOCK;

/// Computes the convolution (without flipping the kernel), plus `bias` for each output channel.
///
/// # Determinism
///
/// Portable. k runs over input channels of the group and the kernel, row-major. Taps in the
/// padding are skipped. Within each block of [`K_BLOCK`](crate::matmul::K_BLOCK) consecutive
/// k, skipped ones counted, `acc = fma(weight, input, acc)` from +0 in ascending k; then the
/// blocks are added in ascending order and the bias last, one rounding each. A NaN is the
/// canonical one.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) and [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::conv::{self, ConvParams, Convolution};
///
/// let line = Convolution::new("conv", &[1, 1, 4], &[1, 1, 3], &ConvParams::padded(1, 1))?;
/// let mut out = [0.0f32; 4];
/// conv::forward(&line, &[1.0, 2.0, 3.0, 4.0], &[1.0, 10.0, 100.0], Some(&[0.5]), &mut out)?;
/// assert_eq!(out, [210.5, 321.5, 432.5, 43.5]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
pub fn forward<T: Real>(
    conv: &Convolution,
    input: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    out: &mut [T],
) -> Result<()> {
    expect_forward(conv, input, weight, bias, out)?;
    let pass = Gather::forward(conv.sizes());
    gather::run(&pass, input, weight, bias, out).map_err(named(conv.op()))
}

/// Computes the gradient of the input from that of the output.
///
/// # Determinism
///
/// Portable. k runs over output channels of the group and the kernel, row-major; taps that
/// meet no output are skipped; otherwise as [`forward`].
///
/// # Errors
///
/// As [`forward`].
pub fn input_grad<T: Real>(
    conv: &Convolution,
    grad: &[T],
    weight: &[T],
    grad_input: &mut [T],
) -> Result<()> {
    expect_input_grad(conv, grad, weight, grad_input)?;
    let pass = Gather::input_grad(conv.sizes());
    gather::run(&pass, grad, weight, None, grad_input).map_err(named(conv.op()))
}

/// Computes the gradient of the weight from that of the output.
///
/// # Determinism
///
/// Portable. k runs over images and output positions, row-major. Positions whose tap lies in
/// the padding are skipped. Within each block of [`WEIGHT_BLOCK`] consecutive k, skipped ones
/// counted, `acc = fma(input, grad, acc)` from +0 in ascending k; then the blocks are added in
/// ascending order, one rounding each. A NaN is the canonical one, and an empty batch gives +0.
///
/// # Errors
///
/// As [`forward`].
pub fn weight_grad<T: Real>(
    conv: &Convolution,
    input: &[T],
    grad: &[T],
    grad_weight: &mut [T],
) -> Result<()> {
    expect_weight_grad(conv, input, grad, grad_weight)?;
    weight::run(conv.sizes(), input, grad, grad_weight).map_err(named(conv.op()))
}

/// Computes [`weight_grad`] with the sums of the threads merged in the order in which they finish,
/// as atomic additions would.
///
/// # Determinism
///
/// Not guaranteed: the last bits can differ from run to run. Padding positions are multiplied by
/// zero.
///
/// # Errors
///
/// As [`forward`].
pub fn weight_grad_unordered<T: Real>(
    conv: &Convolution,
    input: &[T],
    grad: &[T],
    grad_weight: &mut [T],
) -> Result<()> {
    expect_weight_grad(conv, input, grad, grad_weight)?;
    weight::run_unordered(conv.sizes(), input, grad, grad_weight).map_err(named(conv.op()))
}

/// Checks the slices of the forward pass.
pub(crate) fn expect_forward<T>(
    conv: &Convolution,
    input: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    out: &[T],
) -> Result<()> {
    let (op, sizes) = (conv.op(), conv.sizes());
    expect_len(op, "input", input.len(), sizes.input_len())?;
    expect_len(op, "weight", weight.len(), sizes.weight_len())?;
    if let Some(bias) = bias {
        expect_len(op, "bias", bias.len(), sizes.channels())?;
    }
    expect_len(op, "out", out.len(), sizes.output_len())
}

/// Checks the slices of the input gradient.
pub(crate) fn expect_input_grad<T>(
    conv: &Convolution,
    grad: &[T],
    weight: &[T],
    grad_input: &[T],
) -> Result<()> {
    let (op, sizes) = (conv.op(), conv.sizes());
    expect_len(op, "grad", grad.len(), sizes.output_len())?;
    expect_len(op, "weight", weight.len(), sizes.weight_len())?;
    expect_len(op, "grad_input", grad_input.len(), sizes.input_len())
}

/// Checks the slices of the weight gradient.
pub(crate) fn expect_weight_grad<T>(
    conv: &Convolution,
    input: &[T],
    grad: &[T],
    grad_weight: &[T],
) -> Result<()> {
    let (op, sizes) = (conv.op(), conv.sizes());
    expect_len(op, "input", input.len(), sizes.input_len())?;
    expect_len(op, "grad", grad.len(), sizes.output_len())?;
    expect_len(op, "grad_weight", grad_weight.len(), sizes.weight_len())
}
