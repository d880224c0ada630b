use samebits_macros::{Module, layer};
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::ops::{ConvParams, PadMode};
use samebits_tensor_core::{Error, Result};

use super::bound;
use crate::nn::Layer;
use crate::nn::options::{Padding, PerDim, Place, init_with, place_setters, setters};
use crate::{Tensor, functional};

/// A convolution over `DIMS` spatial dimensions.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{Conv2d, Layer, Padding};
/// use samebits_tensor_core::DType;
///
/// samebits_tensor_core::random::manual_seed(0);
/// let image = Tensor::ones(&[1, 3, 32, 32], DType::F32)?;
/// assert_eq!(Conv2d::new(3, 8, 5)?.forward(&image)?.shape(), [1, 8, 28, 28]);
/// let halved = Conv2d::options(3, 8, [3, 5]).stride(2).padding([1, 2]).bias(false).init()?;
/// assert_eq!(halved.forward(&image)?.shape(), [1, 8, 16, 16]);
/// let same = Conv2d::options(3, 8, 4).padding(Padding::Same).init()?;
/// assert_eq!(same.forward(&image)?.shape(), [1, 8, 32, 32]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.Conv1d`, `Conv2d` and `Conv3d`.
#[derive(Clone, Debug, Module)]
pub struct ConvNd<const DIMS: usize> {
    /// The weight, `[out, in / groups, kernel, ..]`.
    pub weight: Tensor,
    /// The bias, `[out]`.
    pub bias: Option<Tensor>,
    /// Stride, padding, dilation and groups.
    pub params: ConvParams,
    /// True for [`Padding::Same`]; the padding of `params` is unused then.
    pub same: bool,
    /// The content of the padding; zeros in the constant mode.
    pub padding_mode: PadMode,
}

/// A convolution over one spatial dimension.
pub type Conv1d = ConvNd<1>;
/// A convolution over two spatial dimensions.
pub type Conv2d = ConvNd<2>;
/// A convolution over three spatial dimensions.
pub type Conv3d = ConvNd<3>;

impl<const DIMS: usize> ConvNd<DIMS> {
    /// Creates a layer with weight and bias drawn uniformly from ±1/√(in · kernel volume), as
    /// PyTorch does.
    ///
    /// # Errors
    ///
    /// `in_channels` is 0, the kernel is empty, memory runs out, or there is no generator to draw
    /// from.
    pub fn new(
        in_channels: usize,
        out_channels: usize,
        kernel_size: impl PerDim<DIMS>,
    ) -> Result<ConvNd<DIMS>> {
        ConvNd::options(in_channels, out_channels, kernel_size).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(
        in_channels: usize,
        out_channels: usize,
        kernel_size: impl PerDim<DIMS>,
    ) -> ConvOptions<DIMS> {
        ConvOptions {
            in_channels,
            out_channels,
            kernel_size: kernel_size.per_dim(),
            stride: [1; DIMS],
            padding: Padding::Size([0; DIMS]),
            dilation: [1; DIMS],
            groups: 1,
            bias: true,
            padding_mode: PadMode::Constant,
            place: Place::default(),
        }
    }
}

impl<const DIMS: usize> Layer for ConvNd<DIMS> {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias, params) = (&self.weight, self.bias.as_ref(), &self.params);
        if self.padding_mode == PadMode::Constant {
            return match self.same {
                true => functional::conv_same(x, weight, bias, &params.dilation, params.groups),
                false => functional::conv(x, weight, bias, params),
            };
        }
        let ends: Vec<[usize; 2]> = match self.same {
            true => functional::same_padding(weight, &params.dilation)?
                .into_iter()
                .map(|total| [total / 2, total.div_ceil(2)])
                .collect(),
            false => params.padding.iter().map(|&size| [size; 2]).collect(),
        };
        // `pad` rejects a size that no index can hold; the error states it.
        let pads: Vec<i64> = ends
            .into_iter()
            .rev()
            .flatten()
            .map(|size| i64::try_from(size).unwrap_or(i64::MAX))
            .collect();
        let params = ConvParams { padding: vec![0; DIMS], ..params.clone() };
        functional::conv(&functional::pad(x, &pads, self.padding_mode, 0.0)?, weight, bias, &params)
    }
}

/// Options of a convolution.
#[derive(Clone, Debug)]
pub struct ConvOptions<const DIMS: usize> {
    in_channels: usize,
    out_channels: usize,
    kernel_size: [usize; DIMS],
    stride: [usize; DIMS],
    padding: Padding<DIMS>,
    dilation: [usize; DIMS],
    groups: usize,
    bias: bool,
    padding_mode: PadMode,
    place: Place,
}

impl<const DIMS: usize> ConvOptions<DIMS> {
    setters! {
        /// Sets the distance between neighbouring windows (default 1).
        stride: impl PerDim<DIMS> => stride.per_dim();
        /// Sets the padding at each border (default 0).
        padding: impl Into<Padding<DIMS>> => padding.into();
        /// Sets the distance between neighbouring kernel elements (default 1).
        dilation: impl PerDim<DIMS> => dilation.per_dim();
        /// Sets the number of channel groups that are convolved separately (default 1).
        groups: usize;
        /// Sets whether the layer has a bias (default true).
        bias: bool;
        /// Sets the content of the padding (default: zeros).
        padding_mode: PadMode;
    }
    place_setters!();
    init_with!(ConvNd<DIMS>);

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// `groups` does not divide the channels, or [`Padding::Same`] is combined with a stride; else
    /// as [`ConvNd::new`].
    pub fn init(&self) -> Result<ConvNd<DIMS>> {
        let op = "Conv";
        let (padding, same) = match self.padding {
            Padding::Size(sizes) => (sizes, false),
            Padding::Same => ([0; DIMS], true),
        };
        if same && self.stride != [1; DIMS] {
            let message =
                format!("padding that keeps the size needs stride 1, got {:?}", self.stride);
            return Err(Error::invalid(op, message));
        }
        let inputs = self.in_channels;
        let each = per_group(op, inputs, self.out_channels, self.groups, inputs)?;
        let shape = [&[self.out_channels, each][..], &self.kernel_size].concat();
        let bound = bound(op, numel(op, &shape[1..])?)?;
        let draw = |shape: &[usize]| self.place.uniform(op, shape, bound);
        Ok(ConvNd {
            weight: draw(&shape)?,
            bias: self.bias.then(|| draw(&[self.out_channels])).transpose()?,
            params: params(self.stride, padding, self.dilation, self.groups),
            same,
            padding_mode: self.padding_mode,
        })
    }
}

/// A transposed convolution over `DIMS` spatial dimensions.
///
/// # References
///
/// `torch.nn.ConvTranspose1d`, `ConvTranspose2d` and `ConvTranspose3d`.
#[derive(Clone, Debug, Module)]
pub struct ConvTransposeNd<const DIMS: usize> {
    /// The weight, `[in, out / groups, kernel, ..]`.
    pub weight: Tensor,
    /// The bias, `[out]`.
    pub bias: Option<Tensor>,
    /// Stride, padding, dilation and groups.
    pub params: ConvParams,
    /// The size added to the end of each dimension of the result.
    pub output_padding: [usize; DIMS],
}

/// A transposed convolution over one spatial dimension.
pub type ConvTranspose1d = ConvTransposeNd<1>;
/// A transposed convolution over two spatial dimensions.
pub type ConvTranspose2d = ConvTransposeNd<2>;
/// A transposed convolution over three spatial dimensions.
pub type ConvTranspose3d = ConvTransposeNd<3>;

impl<const DIMS: usize> ConvTransposeNd<DIMS> {
    /// Creates a layer with weight and bias drawn uniformly from ±1/√(out · kernel volume), as
    /// PyTorch does.
    ///
    /// # Errors
    ///
    /// `out_channels` is 0, the kernel is empty, memory runs out, or there is no generator to draw
    /// from.
    pub fn new(
        in_channels: usize,
        out_channels: usize,
        kernel_size: impl PerDim<DIMS>,
    ) -> Result<ConvTransposeNd<DIMS>> {
        ConvTransposeNd::options(in_channels, out_channels, kernel_size).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(
        in_channels: usize,
        out_channels: usize,
        kernel_size: impl PerDim<DIMS>,
    ) -> ConvTransposeOptions<DIMS> {
        ConvTransposeOptions {
            in_channels,
            out_channels,
            kernel_size: kernel_size.per_dim(),
            stride: [1; DIMS],
            padding: [0; DIMS],
            output_padding: [0; DIMS],
            dilation: [1; DIMS],
            groups: 1,
            bias: true,
            place: Place::default(),
        }
    }
}

impl<const DIMS: usize> Layer for ConvTransposeNd<DIMS> {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (bias, more) = (self.bias.as_ref(), &self.output_padding);
        functional::conv_transpose(x, &self.weight, bias, &self.params, more)
    }
}

/// Options of a transposed convolution.
#[derive(Clone, Debug)]
pub struct ConvTransposeOptions<const DIMS: usize> {
    in_channels: usize,
    out_channels: usize,
    kernel_size: [usize; DIMS],
    stride: [usize; DIMS],
    padding: [usize; DIMS],
    output_padding: [usize; DIMS],
    dilation: [usize; DIMS],
    groups: usize,
    bias: bool,
    place: Place,
}

impl<const DIMS: usize> ConvTransposeOptions<DIMS> {
    setters! {
        /// Sets the distance between neighbouring windows of the result (default 1).
        stride: impl PerDim<DIMS> => stride.per_dim();
        /// Sets the size cut off each border of the result (default 0).
        padding: impl PerDim<DIMS> => padding.per_dim();
        /// Sets the size added to the end of each dimension of the result (default 0).
        output_padding: impl PerDim<DIMS> => output_padding.per_dim();
        /// Sets the distance between neighbouring kernel elements (default 1).
        dilation: impl PerDim<DIMS> => dilation.per_dim();
        /// Sets the number of channel groups that are convolved separately (default 1).
        groups: usize;
        /// Sets whether the layer has a bias (default true).
        bias: bool;
    }
    place_setters!();
    init_with!(ConvTransposeNd<DIMS>);

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// `groups` does not divide the channels; else as [`ConvTransposeNd::new`].
    pub fn init(&self) -> Result<ConvTransposeNd<DIMS>> {
        let op = "ConvTranspose";
        let outputs = self.out_channels;
        let each = per_group(op, self.in_channels, outputs, self.groups, outputs)?;
        let shape = [&[self.in_channels, each][..], &self.kernel_size].concat();
        let bound = bound(op, numel(op, &shape[1..])?)?;
        let draw = |shape: &[usize]| self.place.uniform(op, shape, bound);
        Ok(ConvTransposeNd {
            weight: draw(&shape)?,
            bias: self.bias.then(|| draw(&[outputs])).transpose()?,
            params: params(self.stride, self.padding, self.dilation, self.groups),
            output_padding: self.output_padding,
        })
    }
}

fn params<const DIMS: usize>(
    stride: [usize; DIMS],
    padding: [usize; DIMS],
    dilation: [usize; DIMS],
    groups: usize,
) -> ConvParams {
    let [stride, padding, dilation] = [stride, padding, dilation].map(Vec::from);
    ConvParams { stride, padding, dilation, groups }
}

/// Returns `channels` divided by the number of groups.
fn per_group(
    op: &'static str,
    inputs: usize,
    outputs: usize,
    groups: usize,
    channels: usize,
) -> Result<usize> {
    if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
        let message =
            format!("{inputs} and {outputs} channels are not divisible by {groups} groups");
        return Err(Error::invalid(op, message));
    }
    Ok(channels / groups)
}
