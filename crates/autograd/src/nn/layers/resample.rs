use samebits_macros::{Module, layer};
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{InterpolateMode, PadMode};

use crate::Tensor;
use crate::functional::{self, Resize, Windows};
use crate::nn::Layer;
use crate::nn::options::setters;

/// Padding of the last dimensions.
///
/// # References
///
/// `torch.nn.ZeroPad2d`, `ReflectionPad2d` and their kin.
#[derive(Clone, Debug, Module)]
pub struct Pad {
    /// Two numbers for each padded dimension, the last dimension first.
    pub pads: Vec<i64>,
    /// What the padding is filled with.
    pub mode: PadMode,
    /// The value of the constant mode.
    pub value: f64,
}

impl Pad {
    /// Padding with zeros: two numbers for each padded dimension, the last dimension first.
    pub fn new(pads: &[i64]) -> Pad {
        Pad { pads: pads.to_vec(), mode: PadMode::Constant, value: 0.0 }
    }

    setters! {
        /// What the padding is filled with: the value if not set.
        mode: PadMode;
        /// The value of the constant mode: 0 if not set.
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
#[derive(Clone, Debug, Module)]
pub struct Upsample {
    /// Outputs per input for each spatial dimension.
    pub scale: Vec<f64>,
    /// How values between the input's elements are found.
    pub mode: InterpolateMode,
}

impl Upsample {
    /// By the nearest element.
    pub fn new(scale: &[f64]) -> Upsample {
        Upsample { scale: scale.to_vec(), mode: InterpolateMode::Nearest }
    }

    setters! {
        /// How values between the input's elements are found: by the nearest if not set.
        mode: InterpolateMode;
    }
}

impl Layer for Upsample {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::interpolate(x, Resize::Scale(&self.scale), self.mode)
    }
}

/// Channels moved into space.
///
/// # References
///
/// `torch.nn.PixelShuffle`.
#[derive(Clone, Copy, Debug, Module)]
pub struct PixelShuffle {
    /// How many times larger the image becomes.
    pub factor: usize,
}

impl PixelShuffle {
    /// For an image that becomes `factor` times larger.
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

/// Space moved into channels.
///
/// # References
///
/// `torch.nn.PixelUnshuffle`.
#[derive(Clone, Copy, Debug, Module)]
pub struct PixelUnshuffle {
    /// How many times smaller the image becomes.
    pub factor: usize,
}

impl PixelUnshuffle {
    /// For an image that becomes `factor` times smaller.
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

/// Channels mixed among groups.
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
    /// For channels of `groups` groups.
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

/// The windows of an image as columns; see [`functional::unfold`].
///
/// # References
///
/// `torch.nn.Unfold`.
#[derive(Clone, Copy, Debug, Module)]
pub struct Unfold {
    /// How the windows lie.
    #[module(skip)]
    pub windows: Windows,
}

impl Unfold {
    /// For windows that lie like this.
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

/// The image that windows add up to; see [`functional::fold`].
///
/// # References
///
/// `torch.nn.Fold`.
#[derive(Clone, Copy, Debug, Module)]
pub struct Fold {
    /// Height and width of the image.
    #[module(skip)]
    pub output_size: [usize; 2],
    /// How the windows lie.
    #[module(skip)]
    pub windows: Windows,
}

impl Fold {
    /// For an image of this size.
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
