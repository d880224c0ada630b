//! Padding layers under the names of PyTorch: [`Pad`](super::Pad) with the mode in the name.

use samebits_macros::{Module, layer};
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::PadMode;

use crate::nn::Layer;
use crate::{Tensor, functional};

macro_rules! pads {
    ($($(#[$doc:meta])* $name:ident: $sides:literal, $mode:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # References
        ///
        #[doc = concat!("`torch.nn.", stringify!($name), "`.")]
        #[derive(Clone, Debug, Module)]
        pub struct $name {
            /// The sizes before and after, for each dimension; the last dimension comes first.
            pub pads: Vec<i64>,
        }

        impl $name {
            /// Creates a layer from the sizes before and after, for each dimension; the last
            /// dimension comes first.
            pub fn new(pads: [i64; $sides]) -> $name {
                $name { pads: pads.to_vec() }
            }

            /// Creates a layer that pads every side by the same size.
            pub fn all(pad: i64) -> $name {
                $name { pads: vec![pad; $sides] }
            }
        }

        impl Layer for $name {
            #[layer]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                functional::pad(x, &self.pads, PadMode::$mode, 0.0)
            }
        }
    )*};
}

pads! {
    /// Padding of the last dimension with zeros.
    ZeroPad1d: 2, Constant;
    /// Padding of the last two dimensions with zeros.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate samebits_autograd as samebits;
    /// use samebits::Tensor;
    /// use samebits::nn::{Layer, ReflectionPad2d, ZeroPad2d};
    ///
    /// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
    /// let y = ZeroPad2d::new([1, 0, 0, 1]).forward(&x)?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0]);
    /// assert_eq!(ReflectionPad2d::all(1).forward(&x.unsqueeze(0)?)?.shape(), [1, 4, 4]);
    /// # Ok::<(), samebits::Error>(())
    /// ```
    ZeroPad2d: 4, Constant;
    /// Padding of the last three dimensions with zeros.
    ZeroPad3d: 6, Constant;
    /// Padding of the last dimension with its elements in reverse, without the border.
    ReflectionPad1d: 2, Reflect;
    /// Padding of the last two dimensions with their elements in reverse, without the border.
    ReflectionPad2d: 4, Reflect;
    /// Padding of the last three dimensions with their elements in reverse, without the border.
    ReflectionPad3d: 6, Reflect;
    /// Padding of the last dimension with its border.
    ReplicationPad1d: 2, Replicate;
    /// Padding of the last two dimensions with their border.
    ReplicationPad2d: 4, Replicate;
    /// Padding of the last three dimensions with their border.
    ReplicationPad3d: 6, Replicate;
    /// Padding of the last dimension with the elements at its other end.
    CircularPad1d: 2, Circular;
    /// Padding of the last two dimensions with the elements at their other end.
    CircularPad2d: 4, Circular;
    /// Padding of the last three dimensions with the elements at their other end.
    CircularPad3d: 6, Circular;
}

macro_rules! constant_pads {
    ($($(#[$doc:meta])* $name:ident: $sides:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # References
        ///
        #[doc = concat!("`torch.nn.", stringify!($name), "`.")]
        #[derive(Clone, Debug, Module)]
        pub struct $name {
            /// The sizes before and after, for each dimension; the last dimension comes first.
            pub pads: Vec<i64>,
            /// The fill value.
            pub value: f64,
        }

        impl $name {
            /// Creates a layer from the sizes before and after, for each dimension, and the fill
            /// value; the last dimension comes first.
            pub fn new(pads: [i64; $sides], value: f64) -> $name {
                $name { pads: pads.to_vec(), value }
            }

            /// Creates a layer that pads every side by the same size.
            pub fn all(pad: i64, value: f64) -> $name {
                $name { pads: vec![pad; $sides], value }
            }
        }

        impl Layer for $name {
            #[layer]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                functional::pad(x, &self.pads, PadMode::Constant, self.value)
            }
        }
    )*};
}

constant_pads! {
    /// Padding of the last dimension with a value.
    ConstantPad1d: 2;
    /// Padding of the last two dimensions with a value.
    ConstantPad2d: 4;
    /// Padding of the last three dimensions with a value.
    ConstantPad3d: 6;
}
