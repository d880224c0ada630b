//! Types and macros that the options of layers share.

pub(super) use super::place::Place;

/// A size for each of `DIMS` spatial dimensions: a number for all, or an array.
pub trait PerDim<const DIMS: usize> {
    /// Returns the size of each dimension.
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

/// Padding of a convolution: a size per spatial dimension, one for all, or as much as keeps the
/// size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding<const DIMS: usize> {
    /// This many elements at either end.
    Size([usize; DIMS]),
    /// As much padding as keeps the size with stride 1; if that is an odd number of elements, the
    /// end gets one more. PyTorch's `padding="same"`.
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

/// Writes setters of fields, or of the fields of `in`. A setter stores its argument, or the
/// expression after `=>`.
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

/// Writes setters of the type and device of a layer's tensors, kept in a field `place`.
macro_rules! place_setters {
    () => {
        /// Sets the element type of the tensors (default `F32`).
        #[must_use]
        pub fn dtype(mut self, dtype: samebits_tensor_core::DType) -> Self {
            self.place.dtype = dtype;
            self
        }

        /// Sets the device of the tensors (default: the host).
        #[must_use]
        pub fn device(mut self, device: samebits_tensor_core::Device) -> Self {
            self.place.device = device;
            self
        }
    };
}

/// Writes `init_with` for options whose `init` draws random numbers.
macro_rules! init_with {
    ($layer:ty) => {
        /// Builds as `init`, with random numbers from `generator`, which advances by what is drawn.
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
