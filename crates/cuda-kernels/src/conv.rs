//! Convolution over one to three dimensions, and its gradients, in the written order: one thread
//! for each sum, for f32 and f64. [`conv_algorithms`](crate::conv_algorithms) has others for f32.

use crate::launch::declared::conv::RawConv;
use crate::launch::kernels::{conv as kernels, matmul};
use crate::launch::{Buffer, Launch};

use crate::Variant;
use crate::device::{Device, Float, expect_len, narrow, product};
use crate::error::{CudaError, Result};
use crate::norm::{Batch, channel_sums};
use crate::reduce::finish;

pub use samebits_tensor_core::geometry::{ConvParams, Convolution};

/// Positions in one chain of the weight gradient.
pub(crate) const WEIGHT_BLOCK: usize = 1024;

/// Computes the convolution (without flipping the kernel), plus `bias` for each output channel.
///
/// # Determinism
///
/// Portable. k runs over input channels of the group and the kernel, row-major. Taps in the
/// padding are skipped. Within each block of 256 consecutive k, skipped ones counted, `acc =
/// fma(weight, input, acc)` from +0; the blocks are added in ascending order and the bias
/// last, one rounding each.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn forward<T: Float>(
    device: &Device,
    conv: &Convolution,
    input: &Buffer<T>,
    weight: &Buffer<T>,
    bias: Option<&Buffer<T>>,
) -> Result<Buffer<T>> {
    let (op, s) = (conv.op(), conv.sizes());
    let [n_in, n_weight, n_out] = [s.input_len(), s.weight_len(), s.output_len()];
    expect_len(op, "the input", input, n_in)?;
    expect_len(op, "the weight", weight, n_weight)?;
    if let Some(bias) = bias {
        expect_len(op, "the bias", bias, s.channels())?;
    }
    let mut out = device.uninitialised(op, n_out)?;
    kernels::Conv {
        out: &mut out,
        input,
        weight,
        bias: bias.unwrap_or(weight),
        p: RawConv::new(conv, bias.is_some())?,
    }
    .threads(device, op, n_out)?;
    Ok(out)
}

/// Computes the gradient with respect to the input; with `bias`, the transposed convolution.
///
/// # Determinism
///
/// Portable: as [`forward`], with k running over output channels of the
/// group and the kernel.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn input_grad<T: Float>(
    device: &Device,
    conv: &Convolution,
    grad: &Buffer<T>,
    weight: &Buffer<T>,
    bias: Option<&Buffer<T>>,
) -> Result<Buffer<T>> {
    let (op, s) = (conv.op(), conv.sizes());
    let [n_in, n_weight, n_out] = [s.input_len(), s.weight_len(), s.output_len()];
    expect_len(op, "the gradient", grad, n_out)?;
    expect_len(op, "the weight", weight, n_weight)?;
    if let Some(bias) = bias {
        expect_len(op, "the bias", bias, s.groups * s.inputs)?;
    }
    let mut out = device.uninitialised(op, n_in)?;
    kernels::ConvInputGrad {
        grad_in: &mut out,
        grad,
        weight,
        bias: bias.unwrap_or(weight),
        p: RawConv::new(conv, bias.is_some())?,
    }
    .threads(device, op, n_in)?;
    Ok(out)
}

/// Computes the gradient with respect to the weights.
///
/// # Determinism
///
/// Deterministic: k runs over the batch and the output positions; within each block of 1024
/// consecutive k, skipped ones counted, `acc = fma(input, gradient, acc)` from +0; the blocks
/// are added in ascending order. Atomic: the blocks are added in the order of arrival.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] for more than 65 535 blocks.
pub fn weight_grad<T: Float>(
    device: &Device,
    conv: &Convolution,
    grad: &Buffer<T>,
    input: &Buffer<T>,
    variant: Variant,
) -> Result<Buffer<T>> {
    let (op, s) = (conv.op(), conv.sizes());
    let [n_in, n_weight, n_out] = [s.input_len(), s.weight_len(), s.output_len()];
    expect_len(op, "the gradient", grad, n_out)?;
    expect_len(op, "the input", input, n_in)?;
    let mut out = device.zeros_for::<T>(op, n_weight)?;
    let terms = n_out / s.channels();
    let blocks = terms.div_ceil(WEIGHT_BLOCK);
    if n_weight == 0 || blocks == 0 {
        return Ok(out);
    }
    if blocks > 65_535 {
        return Err(CudaError::invalid(op, format!("{terms} output positions are too many")));
    }
    let mut partials = device.uninitialised::<T>(op, product(op, &[blocks, n_weight])?)?;
    let grid = crate::reduce::grid(op, n_weight.div_ceil(device.block() as usize))?;
    kernels::ConvWeightPartial {
        partials: &mut partials,
        grad,
        input,
        p: RawConv::new(conv, false)?,
    }
    .grid(device, op, (grid, blocks as u32, 1), (device.block(), 1, 1))?;
    let partials = &partials;
    match variant {
        Variant::Deterministic => {
            matmul::MatmulCombine { out: &mut out, partials, n: n_weight, blocks }
                .threads(device, op, n_weight)?;
        }
        Variant::Atomic => {
            matmul::MatmulCombineAtomic { out: &mut out, partials, n: n_weight, blocks }.threads(
                device,
                op,
                product(op, &[n_weight, blocks])?,
            )?;
        }
    }
    Ok(out)
}

/// Computes the gradient with respect to the bias: the sum over batch and positions.
///
/// # Determinism
///
/// Portable: in f64 over the contract's tree, rounded once.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn bias_grad<T: Float>(
    device: &Device,
    conv: &Convolution,
    grad: &Buffer<T>,
) -> Result<Buffer<T>> {
    let (op, s) = (conv.op(), conv.sizes());
    expect_len(op, "the gradient", grad, s.output_len())?;
    let (channels, spatial) = (s.channels(), s.output.iter().product());
    let shape = Batch { n: s.batch, channels, spatial };
    let sums = channel_sums(device, op, grad, shape, 1.0)?;
    finish(device, op, &sums, channels, 1.0)
}

impl RawConv {
    /// Returns the sizes as kernels take them.
    ///
    /// # Errors
    ///
    /// [`CudaError::InvalidArgument`] for a size of 2^31 or more.
    pub(crate) fn new(conv: &Convolution, with_bias: bool) -> Result<RawConv> {
        let (op, s) = (conv.op(), conv.sizes());
        let [groups, inputs, outputs] =
            narrow(op, "groups and their channels", [s.groups, s.inputs, s.outputs])?;
        let padded: [usize; 3] = std::array::from_fn(|d| s.input[d] + 2 * s.padding[d]);
        narrow::<_, u32, 3>(op, "padded input", padded)?;
        Ok(RawConv {
            batch: s.batch,
            groups,
            inputs,
            outputs,
            input: narrow(op, "input", s.input)?,
            output: narrow(op, "output", s.output)?,
            kernel: narrow(op, "kernel", s.kernel)?,
            stride: narrow(op, "stride", s.stride)?,
            padding: narrow(op, "padding", s.padding)?,
            dilation: narrow(op, "dilation", s.dilation)?,
            with_bias: u32::from(with_bias),
        })
    }
}
