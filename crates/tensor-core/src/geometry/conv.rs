//! Convolutions.

use std::fmt;

use samebits_numerics::memory::product;

use crate::{Error, Result};

/// The options of a convolution; each list has one entry per spatial dimension.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConvParams {
    /// The distance between neighbouring windows.
    pub stride: Vec<usize>,
    /// The reach of the window past each border. Taps there are skipped, not multiplied by zero.
    pub padding: Vec<usize>,
    /// The distance between neighbouring taps.
    pub dilation: Vec<usize>,
    /// The number of groups of channels that do not mix.
    pub groups: usize,
}

impl ConvParams {
    /// Returns stride 1, dilation 1, one group, and the same padding on `rank` spatial dimensions.
    pub fn padded(rank: usize, padding: usize) -> ConvParams {
        ConvParams {
            stride: vec![1; rank],
            padding: vec![padding; rank],
            dilation: vec![1; rank],
            groups: 1,
        }
    }

    /// Returns the shape `[n, out_channels, ..]` of the result.
    ///
    /// # Errors
    ///
    /// As [`Convolution::new`].
    pub fn output_shape(
        &self,
        op: &'static str,
        input: &[usize],
        weight: &[usize],
    ) -> Result<Vec<usize>> {
        Convolution::new(op, input, weight, self).map(|conv| conv.output_shape())
    }
}

/// A pass of a convolution. The gradient of the bias is a sum, and no pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConvPass {
    /// The output.
    Forward,
    /// The gradient of the input.
    InputGrad,
    /// The gradient of the weight.
    WeightGrad,
}

impl ConvPass {
    /// The three passes.
    pub const ALL: [ConvPass; 3] = [ConvPass::Forward, ConvPass::InputGrad, ConvPass::WeightGrad];

    /// Returns the name of the operation that computes the pass.
    pub const fn op(self) -> &'static str {
        match self {
            ConvPass::Forward => "conv",
            ConvPass::InputGrad => "conv_input",
            ConvPass::WeightGrad => "conv_weight",
        }
    }

    /// Returns the name of the pass.
    pub fn name(self) -> &'static str {
        match self {
            ConvPass::Forward => "forward",
            ConvPass::InputGrad => "input-gradient",
            ConvPass::WeightGrad => "weight-gradient",
        }
    }
}

impl fmt::Display for ConvPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The checked geometry of a convolution, which all passes share.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::{ConvParams, Convolution};
///
/// let params = ConvParams::padded(2, 1);
/// let conv = Convolution::new("conv", &[8, 3, 32, 32], &[16, 3, 5, 5], &params)?;
/// assert_eq!(conv.output_shape(), [8, 16, 30, 30]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.conv2d`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    op: &'static str,
    dims: usize,
    sizes: ConvSizes,
}

/// The sizes of a [`Convolution`], in three dimensions: one and two dimensions have leading ones of
/// size 1, with stride 1, dilation 1 and no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvSizes {
    /// The number of images; 0 is allowed.
    pub batch: usize,
    /// The number of groups of channels that do not mix.
    pub groups: usize,
    /// The input channels of a group.
    pub inputs: usize,
    /// The output channels of a group.
    pub outputs: usize,
    /// The size of an input plane.
    pub input: [usize; 3],
    /// The size of an output plane.
    pub output: [usize; 3],
    /// The number of taps.
    pub kernel: [usize; 3],
    /// The distance between neighbouring windows, at most the padded size.
    pub stride: [usize; 3],
    /// The reach of the window past each border.
    pub padding: [usize; 3],
    /// The distance between neighbouring taps; 1 for a single tap.
    pub dilation: [usize; 3],
}

/// The largest padded dimension, so that sums of a few coordinates do not overflow.
const LARGEST: usize = isize::MAX as usize / 8;

/// The most elements of a tensor.
const MOST: usize = isize::MAX as usize / 64;

impl Convolution {
    /// Checks and returns the convolution of an input `[n, channels, ..]` with a weight
    /// `[out_channels, channels / groups, ..]`, both with one to three spatial dimensions.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the parameters and shapes do not match; if a stride, a dilation,
    /// the groups, or a size other than the batch is 0; if a window does not fit its padded input; or
    /// if a shape or a padded dimension is too large.
    pub fn new(
        op: &'static str,
        input: &[usize],
        weight: &[usize],
        params: &ConvParams,
    ) -> Result<Convolution> {
        let dims = params.check(op, input, weight)?;
        let ConvParams { stride, padding, dilation, groups } = params;
        let refuse = |message: String| Err(Error::invalid(op, message));
        if input[1..].contains(&0) || weight.contains(&0) {
            return refuse(format!(
                "input {input:?} and weight {weight:?} must have no size of 0 but the batch"
            ));
        }
        let channels = weight[1].saturating_mul(*groups);
        if input[1] != channels {
            return refuse(format!(
                "input {input:?} has {} channels, but weight {weight:?} with {groups} groups takes \
                 {channels}",
                input[1]
            ));
        }
        if !weight[0].is_multiple_of(*groups) {
            return refuse(format!(
                "{} output channels of weight {weight:?} do not divide into {groups} groups",
                weight[0]
            ));
        }
        let spread = |list: &[usize], fill: usize| {
            let mut sizes = [fill; 3];
            sizes[3 - dims..].copy_from_slice(list);
            sizes
        };
        let mut sizes = ConvSizes {
            batch: input[0],
            groups: *groups,
            inputs: weight[1],
            outputs: weight[0] / groups,
            input: spread(&input[2..], 1),
            output: [1; 3],
            kernel: spread(&weight[2..], 1),
            stride: spread(stride, 1),
            padding: spread(padding, 0),
            dilation: spread(dilation, 1),
        };
        for d in 0..3 {
            let padded = sizes.input[d].saturating_add(sizes.padding[d].saturating_mul(2));
            let window = (sizes.kernel[d] - 1).saturating_mul(sizes.dilation[d]).saturating_add(1);
            if window > padded {
                return refuse(format!(
                    "a kernel of size {} with dilation {} does not fit the padded size {padded} of \
                     spatial dimension {}",
                    sizes.kernel[d],
                    sizes.dilation[d],
                    d + dims - 3
                ));
            }
            if padded > LARGEST {
                return refuse(format!(
                    "padding {} makes spatial dimension {} of input {input:?} too large",
                    sizes.padding[d],
                    d + dims - 3
                ));
            }
            sizes.output[d] = (padded - window) / sizes.stride[d] + 1;
            // A distance between single positions may be any number. These are easy to compute with.
            sizes.stride[d] = sizes.stride[d].min(padded);
            if sizes.kernel[d] == 1 {
                sizes.dilation[d] = 1;
            }
        }
        let countable = |outer: [usize; 3], [z, y, x]: [usize; 3]| {
            product(&[outer[0].max(1), outer[1], outer[2], z, y, x]).is_some_and(|n| n <= MOST)
        };
        let ConvSizes { batch, groups, inputs, outputs, input: from, output: to, kernel, .. } =
            sizes;
        if !countable([batch, groups, inputs], from)
            || !countable([groups, outputs, inputs], kernel)
            || !countable([batch, groups, outputs], to)
        {
            return refuse(format!(
                "input {input:?}, weight {weight:?} and {params:?} make too many elements"
            ));
        }
        Ok(Convolution { op, dims, sizes })
    }

    /// Checks and returns the convolution whose input gradient is the transposed convolution of
    /// `input` `[n, channels, ..]` with `weight` `[channels, out_channels / groups, ..]`, and the
    /// number of zeros to append to each spatial dimension of `input` first. The result has the
    /// convolution's [`input_shape`](Convolution::input_shape), to which `output_padding` adds at
    /// the end of each dimension.
    ///
    /// An output padding of a stride or more, which a large dilation allows, is that of a longer
    /// input, so it becomes zeros.
    ///
    /// # Errors
    ///
    /// As [`new`](Convolution::new); if the result would be empty; or if an output padding is neither
    /// below the stride nor below the dilation.
    pub fn transposed(
        op: &'static str,
        input: &[usize],
        weight: &[usize],
        params: &ConvParams,
        output_padding: &[usize],
    ) -> Result<(Convolution, Vec<usize>)> {
        let dims = params.check(op, input, weight)?;
        let refuse = |why: &str| {
            let message = format!(
                "{why}: input {input:?}, weight {weight:?}, {params:?}, output padding \
                 {output_padding:?}"
            );
            Err(Error::invalid(op, message))
        };
        if output_padding.len() != dims {
            return refuse("output padding needs one entry per spatial dimension");
        }
        if input[1] != weight[0] {
            return refuse("input and weight need the same number of channels");
        }
        let mut shape = vec![input[0], weight[1].saturating_mul(params.groups)];
        let mut zeros = Vec::new();
        for d in 0..dims {
            let (stride, dilation) = (params.stride[d], params.dilation[d]);
            let more = output_padding[d];
            if more >= stride.max(dilation) {
                return refuse("output padding must be below the stride or the dilation");
            }
            let longer = input[d + 2].saturating_add(more / stride);
            let size = longer
                .checked_sub(1)
                .and_then(|n| n.checked_mul(stride))
                .and_then(|n| n.checked_add(weight[d + 2].checked_sub(1)?.checked_mul(dilation)?))
                .and_then(|n| {
                    let padding = params.padding[d].checked_mul(2)?;
                    n.checked_add(more % stride + 1)?.checked_sub(padding)
                })
                .filter(|&size| size > 0);
            let Some(size) = size else { return refuse("the result would be empty or too large") };
            shape.push(size);
            zeros.push(more / stride);
        }
        Ok((Convolution::new(op, &shape, weight, params)?, zeros))
    }

    /// Returns the operation's name.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// Returns the sizes.
    pub fn sizes(&self) -> &ConvSizes {
        &self.sizes
    }

    /// Returns the shape `[n, channels, ..]` of the input.
    pub fn input_shape(&self) -> Vec<usize> {
        let ConvSizes { batch, groups, inputs, input, .. } = self.sizes;
        self.shape([batch, groups * inputs], input)
    }

    /// Returns the shape `[out_channels, channels / groups, ..]` of the weight.
    pub fn weight_shape(&self) -> Vec<usize> {
        let ConvSizes { groups, inputs, outputs, kernel, .. } = self.sizes;
        self.shape([groups * outputs, inputs], kernel)
    }

    /// Returns the shape `[n, out_channels, ..]` of the output.
    pub fn output_shape(&self) -> Vec<usize> {
        let ConvSizes { batch, groups, outputs, output, .. } = self.sizes;
        self.shape([batch, groups * outputs], output)
    }

    fn shape(&self, outer: [usize; 2], sizes: [usize; 3]) -> Vec<usize> {
        [&outer[..], &sizes[3 - self.dims..]].concat()
    }
}

impl ConvParams {
    /// Checks the numbers of dimensions and what must not be 0, and returns the number of spatial
    /// dimensions.
    fn check(&self, op: &'static str, input: &[usize], weight: &[usize]) -> Result<usize> {
        let ConvParams { stride, padding, dilation, groups } = self;
        let dims = stride.len();
        let refuse = |message: String| Err(Error::invalid(op, message));
        if !(1..=3).contains(&dims) || padding.len() != dims || dilation.len() != dims {
            return refuse(format!(
                "stride {stride:?}, padding {padding:?} and dilation {dilation:?} need one entry per \
                 spatial dimension, 1 to 3"
            ));
        }
        if input.len() != dims + 2 || weight.len() != dims + 2 {
            return refuse(format!(
                "expected input and weight with {} dimensions, got {input:?} and {weight:?}",
                dims + 2
            ));
        }
        if stride.contains(&0) || dilation.contains(&0) || *groups == 0 {
            return refuse(format!(
                "stride {stride:?}, dilation {dilation:?} and groups {groups} must be at least 1"
            ));
        }
        Ok(dims)
    }
}

impl ConvSizes {
    /// Returns the number of elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.groups * self.inputs * volume(self.input)
    }

    /// Returns the number of elements of the weight.
    pub fn weight_len(&self) -> usize {
        self.groups * self.outputs * self.inputs * volume(self.kernel)
    }

    /// Returns the number of elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch * self.groups * self.outputs * volume(self.output)
    }

    /// Returns the number of output channels, over all groups.
    pub fn channels(&self) -> usize {
        self.groups * self.outputs
    }

    /// Returns the number of products of each pass.
    pub fn products(&self) -> usize {
        self.output_len().saturating_mul(self.inputs * volume(self.kernel))
    }
}

fn volume(sizes: [usize; 3]) -> usize {
    sizes.iter().product()
}
