//! Convolution over one to three dimensions, and its gradients, in the written order: one thread
//! for each sum, for f32 and f64. [`conv_algorithms`](crate::conv_algorithms) has others for f32.

use crate::launch::kernels::{conv as kernels, matmul};
use crate::launch::{Buffer, Launch};
use bytemuck::{Pod, Zeroable};

use crate::Variant;
use crate::device::{Device, Float, expect_len, product};
use crate::error::{CudaError, Result};
use crate::norm::{Batch, channel_sums};
use crate::pooling::sizes;
use crate::reduce::finish;

/// Positions in one chain of the weight gradient.
pub(crate) const WEIGHT_BLOCK: usize = 1024;

/// A checked convolution.
///
/// # Shapes
///
/// Input `[batch, channels, size]`, weights `[output channels, channels of a group, kernel]`,
/// output `[batch, output channels, output size]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    pub(crate) raw: RawConv,
    output: Vec<usize>,
}

/// How the window moves; each list has one entry per dimension, 1 to 3 of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// The distance between neighbouring windows.
    pub stride: Vec<usize>,
    /// How far the window reaches past each border. Taps there are skipped.
    pub padding: Vec<usize>,
    /// The distance between neighbouring taps.
    pub dilation: Vec<usize>,
    /// Groups of channels that do not see each other.
    pub groups: usize,
}

impl Convolution {
    /// Checks the shapes of input and weights against each other and the parameters.
    ///
    /// # Errors
    ///
    /// [`CudaError::InvalidArgument`] if they do not go together.
    pub fn new(input: &[usize], weight: &[usize], params: &Params) -> Result<Convolution> {
        let op = "conv";
        let dims = params.stride.len();
        let bad = |message: String| Err(CudaError::invalid(op, message));
        if input.len() != dims + 2 || weight.len() != dims + 2 {
            return bad(format!(
                "expected input and weight with {} dimensions, got {input:?} and {weight:?}",
                dims + 2
            ));
        }
        let groups = params.groups;
        if groups == 0
            || Some(input[1]) != weight[1].checked_mul(groups)
            || !weight[0].is_multiple_of(groups)
        {
            return bad(format!(
                "input {input:?} and weight {weight:?} do not go together with {groups} groups"
            ));
        }
        let stride = sizes(op, "stride", &params.stride, dims, 1)?;
        let padding = padded(op, &params.padding, dims)?;
        let dilation = sizes(op, "dilation", &params.dilation, dims, 1)?;
        let size = sizes(op, "input size", &input[2..], dims, 0)?;
        let kernel = sizes(op, "kernel", &weight[2..], dims, 1)?;
        let mut output = [1u32; 3];
        for d in 0..3 {
            let room = size[d] + 2 * padding[d];
            let window = (kernel[d] - 1) * dilation[d] + 1;
            if window > room {
                return bad(format!("a window of {window} does not fit the padded size {room}"));
            }
            output[d] = (room - window) / stride[d] + 1;
        }
        let narrow = |x: usize| {
            u32::try_from(x).map_err(|_| CudaError::invalid(op, format!("{x} channels or groups")))
        };
        let raw = RawConv {
            batch: input[0],
            groups: narrow(groups)?,
            inputs: narrow(weight[1])?,
            outputs: narrow(weight[0] / groups)?,
            input: size,
            output,
            kernel,
            stride,
            padding,
            dilation,
            with_bias: 0,
        };
        let spatial = output[3 - dims..].iter().map(|&x| x as usize);
        let output = [input[0], weight[0]].into_iter().chain(spatial).collect();
        Ok(Convolution { raw, output })
    }

    /// The shape of the output.
    pub fn output_shape(&self) -> &[usize] {
        &self.output
    }

    /// Lengths of input, weights and output.
    pub(crate) fn lengths(&self, op: &'static str) -> Result<[usize; 3]> {
        let RawConv { batch, groups, inputs, outputs, input, output, kernel, .. } = self.raw;
        let groups = groups as usize;
        let [inputs, outputs] = [inputs as usize, outputs as usize];
        let volume = |size: [u32; 3]| product(op, &size.map(|x| x as usize));
        Ok([
            product(op, &[batch, groups, inputs, volume(input)?])?,
            product(op, &[groups, outputs, inputs, volume(kernel)?])?,
            product(op, &[batch, groups, outputs, volume(output)?])?,
        ])
    }

    /// The convolution (without flipping the kernel), plus `bias` for each output channel.
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
        &self,
        device: &Device,
        input: &Buffer<T>,
        weight: &Buffer<T>,
        bias: Option<&Buffer<T>>,
    ) -> Result<Buffer<T>> {
        let op = "conv";
        let [n_in, n_weight, n_out] = self.lengths(op)?;
        expect_len(op, "the input", input, n_in)?;
        expect_len(op, "the weight", weight, n_weight)?;
        if let Some(bias) = bias {
            expect_len(op, "the bias", bias, self.output[1])?;
        }
        let mut out = device.uninitialised(op, n_out)?;
        kernels::Conv {
            out: &mut out,
            input,
            weight,
            bias: bias.unwrap_or(weight),
            p: RawConv { with_bias: u32::from(bias.is_some()), ..self.raw },
        }
        .threads(device, op, n_out)?;
        Ok(out)
    }

    /// The gradient with respect to the input; with `bias`, the transposed convolution.
    ///
    /// # Determinism
    ///
    /// Portable: as [`forward`](Convolution::forward), with k running over output channels of the
    /// group and the kernel.
    ///
    /// # Errors
    ///
    /// [`CudaError::Length`].
    pub fn input_grad<T: Float>(
        &self,
        device: &Device,
        grad: &Buffer<T>,
        weight: &Buffer<T>,
        bias: Option<&Buffer<T>>,
    ) -> Result<Buffer<T>> {
        let op = "conv_input";
        let [n_in, n_weight, n_out] = self.lengths(op)?;
        expect_len(op, "the gradient", grad, n_out)?;
        expect_len(op, "the weight", weight, n_weight)?;
        if let Some(bias) = bias {
            expect_len(op, "the bias", bias, (self.raw.groups * self.raw.inputs) as usize)?;
        }
        let mut out = device.uninitialised(op, n_in)?;
        kernels::ConvInputGrad {
            grad_in: &mut out,
            grad,
            weight,
            bias: bias.unwrap_or(weight),
            p: RawConv { with_bias: u32::from(bias.is_some()), ..self.raw },
        }
        .threads(device, op, n_in)?;
        Ok(out)
    }

    /// The gradient with respect to the weights.
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
        &self,
        device: &Device,
        grad: &Buffer<T>,
        input: &Buffer<T>,
        variant: Variant,
    ) -> Result<Buffer<T>> {
        let op = "conv_weight";
        let [n_in, n_weight, n_out] = self.lengths(op)?;
        expect_len(op, "the gradient", grad, n_out)?;
        expect_len(op, "the input", input, n_in)?;
        let mut out = device.zeros_for::<T>(op, n_weight)?;
        let terms = n_out / self.output[1].max(1);
        let blocks = terms.div_ceil(WEIGHT_BLOCK);
        if n_weight == 0 || blocks == 0 {
            return Ok(out);
        }
        if blocks > 65_535 {
            return Err(CudaError::invalid(op, format!("{terms} output positions are too many")));
        }
        let mut partials = device.uninitialised::<T>(op, product(op, &[blocks, n_weight])?)?;
        let grid = crate::reduce::grid(op, n_weight.div_ceil(device.block() as usize))?;
        kernels::ConvWeightPartial { partials: &mut partials, grad, input, p: self.raw }.grid(
            device,
            op,
            (grid, blocks as u32, 1),
            (device.block(), 1, 1),
        )?;
        let partials = &partials;
        match variant {
            Variant::Deterministic => {
                matmul::MatmulCombine { out: &mut out, partials, n: n_weight, blocks }
                    .threads(device, op, n_weight)?;
            }
            Variant::Atomic => {
                matmul::MatmulCombineAtomic { out: &mut out, partials, n: n_weight, blocks }
                    .threads(device, op, product(op, &[n_weight, blocks])?)?;
            }
        }
        Ok(out)
    }

    /// The gradient with respect to the bias: the sum over batch and positions.
    ///
    /// # Determinism
    ///
    /// Portable: in f64 over the contract's tree, rounded once.
    ///
    /// # Errors
    ///
    /// [`CudaError::Length`].
    pub fn bias_grad<T: Float>(&self, device: &Device, grad: &Buffer<T>) -> Result<Buffer<T>> {
        let op = "conv_bias";
        let n_out = self.lengths(op)?[2];
        expect_len(op, "the gradient", grad, n_out)?;
        let channels = self.output[1];
        let spatial: usize = self.output[2..].iter().product();
        let shape = Batch { n: self.raw.batch, channels, spatial };
        let sums = channel_sums(device, op, grad, shape, 1.0)?;
        finish(device, op, &sums, channels, 1.0)
    }
}

/// Paddings, with 0 for missing dimensions.
fn padded(op: &'static str, padding: &[usize], dims: usize) -> Result<[u32; 3]> {
    let mut found = sizes(op, "padding", padding, dims, 0)?;
    found[..3 - dims].fill(0);
    Ok(found)
}

/// A convolution of three dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawConv {
    pub(crate) batch: usize,
    pub(crate) groups: u32,
    /// Channels of a group.
    pub(crate) inputs: u32,
    pub(crate) outputs: u32,
    pub(crate) input: [u32; 3],
    pub(crate) output: [u32; 3],
    pub(crate) kernel: [u32; 3],
    pub(crate) stride: [u32; 3],
    pub(crate) padding: [u32; 3],
    pub(crate) dilation: [u32; 3],
    pub(crate) with_bias: u32,
}
