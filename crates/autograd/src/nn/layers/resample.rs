use samebits_macros::{Module, layer};
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{InterpolateMode, PadMode};

use crate::Tensor;
use crate::functional::{self, Resize, Windows};
use crate::nn::Layer;
use crate::nn::options::setters;

/// Padding of the last dimensions, for any number of them and any mode. The layers with PyTorch's
/// names, such as [`ReflectionPad2d`](super::ReflectionPad2d), have the mode in their name.
#[derive(Clone, Debug, Module)]
pub struct Pad {
    /// Two sizes, before and after, for each padded dimension; the last dimension comes first.
    pub pads: Vec<i64>,
    /// The content of the padding.
    pub mode: PadMode,
    /// The fill value of the constant mode.
    pub value: f64,
}

impl Pad {
    /// Creates a layer that pads with zeros. `pads` has two sizes, before and after, for each
    /// padded dimension; the last dimension comes first.
    pub fn new(pads: &[i64]) -> Pad {
        Pad { pads: pads.to_vec(), mode: PadMode::Constant, value: 0.0 }
    }

    setters! {
        /// Sets the content of the padding (default: the constant value).
        mode: PadMode;
        /// Sets the fill value of the constant mode (default 0).
        value: f64;
    }
}

impl Layer for Pad {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::pad(x, &self.pads, self.mode, self.value)
    }
}

/// Resizing by interpolation.
///
/// # References
///
/// `torch.nn.Upsample`.
#[doc(alias = "UpsamplingNearest2d")]
#[doc(alias = "UpsamplingBilinear2d")]
#[derive(Clone, Debug, Module)]
pub struct Upsample {
    /// The scale factor of each spatial dimension.
    pub scale: Vec<f64>,
    /// The interpolation mode.
    pub mode: InterpolateMode,
}

impl Upsample {
    /// Creates a layer that takes the nearest element.
    pub fn new(scale: &[f64]) -> Upsample {
        Upsample { scale: scale.to_vec(), mode: InterpolateMode::Nearest }
    }

    setters! {
        /// Sets the interpolation mode (default: nearest).
        mode: InterpolateMode;
    }
}

impl Layer for Upsample {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::interpolate(x, Resize::Scale(&self.scale), self.mode)
    }
}

/// A layer that rearranges channels into a larger image.
///
/// # References
///
/// `torch.nn.PixelShuffle`.
#[derive(Clone, Copy, Debug, Module)]
pub struct PixelShuffle {
    /// The factor by which the image grows.
    pub factor: usize,
}

impl PixelShuffle {
    /// Creates a layer whose image grows by `factor`.
    pub fn new(factor: usize) -> PixelShuffle {
        PixelShuffle { factor }
    }
}

impl Layer for PixelShuffle {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::pixel_shuffle(x, self.factor)
    }
}

/// A layer that rearranges blocks of an image into channels.
///
/// # References
///
/// `torch.nn.PixelUnshuffle`.
#[derive(Clone, Copy, Debug, Module)]
pub struct PixelUnshuffle {
    /// The factor by which the image shrinks.
    pub factor: usize,
}

impl PixelUnshuffle {
    /// Creates a layer whose image shrinks by `factor`.
    pub fn new(factor: usize) -> PixelUnshuffle {
        PixelUnshuffle { factor }
    }
}

impl Layer for PixelUnshuffle {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::pixel_unshuffle(x, self.factor)
    }
}

/// A layer that interleaves the channels of several groups.
///
/// # References
///
/// `torch.nn.ChannelShuffle`.
#[derive(Clone, Copy, Debug, Module)]
pub struct ChannelShuffle {
    /// The number of groups.
    pub groups: usize,
}

impl ChannelShuffle {
    /// Creates a layer for `groups` groups of channels.
    pub fn new(groups: usize) -> ChannelShuffle {
        ChannelShuffle { groups }
    }
}

impl Layer for ChannelShuffle {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::channel_shuffle(x, self.groups)
    }
}

/// A layer that extracts windows of an image as columns; see [`functional::unfold`].
///
/// # References
///
/// `torch.nn.Unfold`.
#[derive(Clone, Copy, Debug, Module)]
pub struct Unfold {
    /// The size, stride, padding and dilation of the windows.
    #[module(skip)]
    pub windows: Windows,
}

impl Unfold {
    /// Creates a layer for these windows.
    pub fn new(windows: Windows) -> Unfold {
        Unfold { windows }
    }
}

impl Layer for Unfold {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::unfold(x, self.windows)
    }
}

/// A layer that sums windows into an image; see [`functional::fold`].
///
/// # References
///
/// `torch.nn.Fold`.
#[derive(Clone, Copy, Debug, Module)]
pub struct Fold {
    /// Height and width of the image.
    #[module(skip)]
    pub output_size: [usize; 2],
    /// The size, stride, padding and dilation of the windows.
    #[module(skip)]
    pub windows: Windows,
}

impl Fold {
    /// Creates a layer for an image of size `output_size`.
    pub fn new(output_size: [usize; 2], windows: Windows) -> Fold {
        Fold { output_size, windows }
    }
}

impl Layer for Fold {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::fold(x, self.output_size, self.windows)
    }
}
