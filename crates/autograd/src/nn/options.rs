//! What the options of layers have in common.

use samebits_tensor_core::{DType, Device, Result};

use super::init::{Numbers, drawn};
use crate::Tensor;

/// A size for each of `DIMS` spatial dimensions: one for all, or an array.
pub trait PerDim<const DIMS: usize> {
    /// The size of each dimension.
    fn per_dim(self) -> [usize; DIMS];
}

impl<const DIMS: usize> PerDim<DIMS> for usize {
    fn per_dim(self) -> [usize; DIMS] {
        [self; DIMS]
    }
}

impl<const DIMS: usize> PerDim<DIMS> for [usize; DIMS] {
    fn per_dim(self) -> [usize; DIMS] {
        self
    }
}

/// How far the windows of a convolution reach past each border: a size for each spatial dimension,
/// or one for all, or as much as keeps the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding<const DIMS: usize> {
    /// This much at either end.
    Size([usize; DIMS]),
    /// As much as keeps the size, with stride 1; where that is an odd number of elements, the end
    /// gets one more. PyTorch's `padding="same"`.
    Same,
}

impl<const DIMS: usize> From<usize> for Padding<DIMS> {
    fn from(size: usize) -> Padding<DIMS> {
        Padding::Size([size; DIMS])
    }
}

impl<const DIMS: usize> From<[usize; DIMS]> for Padding<DIMS> {
    fn from(sizes: [usize; DIMS]) -> Padding<DIMS> {
        Padding::Size(sizes)
    }
}

/// Setters of fields, or of those of the field `in`, which take the value itself or what `=>` makes
/// of it.
macro_rules! setters {
    (in $part:ident; $($(#[$doc:meta])* $name:ident: $ty:ty;)*) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $ty) -> Self {
            self.$part.$name = $name;
            self
        }
    )* };
    ($($(#[$doc:meta])* $name:ident: $ty:ty $(=> $value:expr)?;)*) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $ty) -> Self {
            self.$name = $crate::nn::options::setters!(@ $name $($value)?);
            self
        }
    )* };
    (@ $name:ident) => { $name };
    (@ $name:ident $value:expr) => { $value };
}

/// Setters of the type and device of a layer's tensors, kept in a field `place`.
macro_rules! place_setters {
    () => {
        /// The element type of the tensors: `F32` if not set.
        #[must_use]
        pub fn dtype(mut self, dtype: samebits_tensor_core::DType) -> Self {
            self.place.dtype = dtype;
            self
        }

        /// The device of the tensors: the host if not set.
        #[must_use]
        pub fn device(mut self, device: samebits_tensor_core::Device) -> Self {
            self.place.device = device;
            self
        }
    };
}

/// `init_with` of options whose `init` draws.
macro_rules! init_with {
    ($layer:ty) => {
        /// `init` with random numbers from `generator`, which moves on by what is drawn.
        ///
        /// # Errors
        ///
        /// As `init`.
        pub fn init_with(&self, generator: &mut samebits_rng::Generator) -> Result<$layer> {
            $crate::nn::draw_from(generator, || self.init())
        }
    };
}

pub(crate) use setters;
pub(super) use {init_with, place_setters};

/// The type and device of a layer's tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) dtype: DType,
    pub(super) device: Device,
}

impl Default for Place {
    fn default() -> Place {
        Place { dtype: DType::F32, device: Device::Cpu }
    }
}

impl Place {
    /// A tensor of `value` everywhere.
    pub(super) fn full(self, shape: &[usize], value: f64) -> Result<Tensor> {
        Tensor::full(shape, value, self.dtype)?.to(self.device)
    }

    /// A parameter of `value` everywhere.
    pub(super) fn constant(self, shape: &[usize], value: f64) -> Result<Tensor> {
        self.full(shape, value)?.set_requires_grad(true)
    }

    /// A parameter uniform in ±`bound`.
    pub(super) fn uniform(self, op: &'static str, shape: &[usize], bound: f64) -> Result<Tensor> {
        let numbers = Numbers::Uniform { low: -bound, high: bound };
        drawn(op, shape, self, numbers)?.set_requires_grad(true)
    }

    /// A parameter of standard normal numbers.
    pub(super) fn normal(self, op: &'static str, shape: &[usize]) -> Result<Tensor> {
        let numbers = Numbers::Normal { mean: 0.0, std: 1.0 };
        drawn(op, shape, self, numbers)?.set_requires_grad(true)
    }
}
