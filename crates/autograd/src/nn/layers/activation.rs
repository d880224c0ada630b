use samebits_macros::Module;
use samebits_tensor_core::Result;

use crate::nn::Layer;
use crate::{Tensor, functional};

/// Layers without options.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident $function:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// # References
        ///
        #[doc = concat!("`torch.nn.", stringify!($name), "`.")]
        #[derive(Clone, Copy, Debug, Default, Module)]
        pub struct $name;

        impl Layer for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                functional::$function(x)
            }
        }
    )* };
}

plain! {
    /// `max(x, 0)`.
    ReLU relu;
    /// `min(max(x, 0), 6)`.
    ReLU6 relu6;
    /// `x · sigmoid(x)`.
    SiLU silu;
    /// The hyperbolic tangent.
    Tanh tanh;
    /// `1 / (1 + exp(−x))`.
    Sigmoid sigmoid;
    /// `log(sigmoid(x))`.
    LogSigmoid log_sigmoid;
}

/// Layers whose options are public fields, with PyTorch's defaults.
macro_rules! with_options {
    ($(
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty = $default:expr,)* }
        => $function:ident;
    )*) => { $(
        $(#[$doc])*
        ///
        /// # References
        ///
        #[doc = concat!("`torch.nn.", stringify!($name), "`.")]
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        /// PyTorch's defaults.
        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* }
            }
        }

        impl $name {
            /// The layer.
            pub fn new($($field: $ty),*) -> $name {
                $name { $($field),* }
            }
        }

        impl Layer for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                functional::$function(x, $(self.$field),*)
            }
        }
    )* };
}

with_options! {
    /// `x`, or `negative_slope · x` below 0.
    LeakyReLU {
        /// 0.01 by default.
        negative_slope: f64 = 0.01,
    } => leaky_relu;
    /// `x`, or `alpha · (exp(x) − 1)` below 0.
    ELU {
        /// 1 by default.
        alpha: f64 = 1.0,
    } => elu;
    /// `x` between two bounds.
    Hardtanh {
        /// −1 by default.
        min: f64 = -1.0,
        /// 1 by default.
        max: f64 = 1.0,
    } => hardtanh;
    /// `log(1 + exp(beta · x)) / beta`, or `x` where `beta · x` is over the threshold.
    Softplus {
        /// 1 by default.
        beta: f64 = 1.0,
        /// 20 by default.
        threshold: f64 = 20.0,
    } => softplus;
}

/// `x` times the normal distribution function of `x`.
///
/// # References
///
/// `torch.nn.GELU`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Module)]
pub enum GELU {
    /// With the error function: PyTorch's default.
    #[default]
    Exact,
    /// With a hyperbolic tangent: PyTorch's `approximate="tanh"`.
    Tanh,
}

impl Layer for GELU {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            GELU::Exact => functional::gelu(x),
            GELU::Tanh => functional::gelu_tanh(x),
        }
    }
}

macro_rules! along {
    ($($(#[$doc:meta])* $name:ident $function:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// # References
        ///
        #[doc = concat!("`torch.nn.", stringify!($name), "`.")]
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $name {
            /// The dimension; a negative one counts from the last, −1.
            pub dim: i64,
        }

        impl $name {
            /// Along dimension `dim`; a negative one counts from the last, −1.
            pub fn new(dim: i64) -> $name {
                $name { dim }
            }
        }

        impl Layer for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                functional::$function(x, self.dim)
            }
        }
    )* };
}

along! {
    /// Exponentials along a dimension, divided by their sum.
    Softmax softmax;
    /// The logarithm of [`Softmax`].
    LogSoftmax log_softmax;
}

/// The input as it is.
///
/// # References
///
/// `torch.nn.Identity`.
#[derive(Clone, Copy, Debug, Default, Module)]
pub struct Identity;

impl Layer for Identity {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
}

/// All dimensions from `start_dim` on as one.
///
/// # References
///
/// `torch.nn.Flatten`, whose `end_dim` is the last here.
#[derive(Clone, Copy, Debug, Module)]
pub struct Flatten {
    /// The first dimension that is flattened: 1 by default; a negative one counts from the last, −1.
    pub start_dim: i64,
}

impl Default for Flatten {
    fn default() -> Flatten {
        Flatten { start_dim: 1 }
    }
}

impl Layer for Flatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::flatten_from(x, self.start_dim)
    }
}
