use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{InterpolateMode, PadMode};

use crate::Tensor;
use crate::functional::{self, Resize};
use crate::nn::{Context, Module, Slot};

/// Padding of the last dimensions.
#[derive(Clone, Debug)]
pub struct Pad {
    /// Two numbers for each padded dimension, the last dimension first.
    pub pads: Vec<i64>,
    /// What the padding is filled with.
    pub mode: PadMode,
    /// The value of the constant mode.
    pub value: f64,
}

impl Module for Pad {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        functional::pad(x, &self.pads, self.mode, self.value)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// Resizing by interpolation.
#[derive(Clone, Debug)]
pub struct Upsample {
    /// Outputs per input for each spatial dimension.
    pub scale: Vec<f64>,
    /// How values between the input's elements are found.
    pub mode: InterpolateMode,
}

impl Module for Upsample {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        functional::interpolate(x, Resize::Scale(&self.scale), self.mode)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// Channels moved into space.
#[derive(Clone, Copy, Debug)]
pub struct PixelShuffle {
    /// How many times larger the image becomes.
    pub factor: usize,
}

impl Module for PixelShuffle {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        functional::pixel_shuffle(x, self.factor)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// Space moved into channels.
#[derive(Clone, Copy, Debug)]
pub struct PixelUnshuffle {
    /// How many times smaller the image becomes.
    pub factor: usize,
}

impl Module for PixelUnshuffle {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        functional::pixel_unshuffle(x, self.factor)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}
