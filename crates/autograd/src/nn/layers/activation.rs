use samebits_macros::{Module, layer};
use samebits_tensor_core::{Error, Result};

use crate::nn::options::{Place, place_setters, setters};
use crate::nn::{Layer, is_training};
use crate::{Tensor, functional};

/// Defines layers without options.
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
            #[layer]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                functional::$function(x)
            }
        }
    )* };
}

plain! {
    /// The rectified linear unit: `max(x, 0)`.
    ReLU relu;
    /// A rectified linear unit with an upper bound: `min(max(x, 0), 6)`.
    ReLU6 relu6;
    /// The sigmoid linear unit, or swish: `x · sigmoid(x)`.
    SiLU silu;
    /// The hyperbolic tangent.
    Tanh tanh;
    /// The logistic sigmoid: `1 / (1 + exp(−x))`.
    Sigmoid sigmoid;
    /// The logarithm of the sigmoid: `log(sigmoid(x))`.
    LogSigmoid log_sigmoid;
    /// The Mish activation: `x · tanh(softplus(x))`.
    Mish mish;
    /// A piecewise linear sigmoid: `relu6(x + 3) / 6`.
    Hardsigmoid hardsigmoid;
    /// A piecewise form of [`SiLU`]: `x · relu6(x + 3) / 6`.
    Hardswish hardswish;
    /// The scaled exponential linear unit: `scale · x`, or `scale · alpha · (exp(x) − 1)` below 0;
    /// see [`functional::selu`].
    SELU selu;
    /// The softsign: `x / (1 + |x|)`.
    Softsign softsign;
    /// The difference `x − tanh(x)`.
    Tanhshrink tanhshrink;
}

/// Defines layers whose options are public fields with PyTorch's defaults.
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

        /// Returns PyTorch's defaults.
        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* }
            }
        }

        impl $name {
            /// Creates the layer.
            pub fn new($($field: $ty),*) -> $name {
                $name { $($field),* }
            }
        }

        impl Layer for $name {
            #[layer]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                functional::$function(x, $(self.$field),*)
            }
        }
    )* };
}

with_options! {
    /// A leaky rectified linear unit: `x`, or `negative_slope · x` below 0.
    LeakyReLU {
        /// The slope below 0: 0.01 by default.
        negative_slope: f64 = 0.01,
    } => leaky_relu;
    /// The exponential linear unit: `x`, or `alpha · (exp(x) − 1)` below 0.
    ELU {
        /// The scale below 0: 1 by default.
        alpha: f64 = 1.0,
    } => elu;
    /// The continuously differentiable exponential linear unit: `x`, or `alpha · (exp(x / alpha) −
    /// 1)` below 0.
    CELU {
        /// The scale below 0: 1 by default.
        alpha: f64 = 1.0,
    } => celu;
    /// A soft threshold: moves `x` towards 0 by `lambda`, at most to 0.
    Softshrink {
        /// The distance by which `x` moves: 0.5 by default.
        lambda: f64 = 0.5,
    } => softshrink;
    /// A hard threshold: `x`, or 0 if `|x| ≤ lambda`.
    Hardshrink {
        /// The largest magnitude that becomes 0: 0.5 by default.
        lambda: f64 = 0.5,
    } => hardshrink;
    /// A gated linear unit: `a · sigmoid(b)`, `a` and `b` being the two halves of `x` along a
    /// dimension.
    GLU {
        /// The dimension that is halved: −1 by default; negative dimensions count from the end.
        dim: i64 = -1,
    } => glu;
    /// A clamp of `x` to `[min, max]`.
    Hardtanh {
        /// The lower bound: −1 by default.
        min: f64 = -1.0,
        /// The upper bound: 1 by default.
        max: f64 = 1.0,
    } => hardtanh;
    /// A smooth rectifier: `log(1 + exp(beta · x)) / beta`, or `x` if `beta · x` exceeds the
    /// threshold.
    Softplus {
        /// The sharpness of the bend: 1 by default.
        beta: f64 = 1.0,
        /// The value of `beta · x` above which the result is `x`: 20 by default.
        threshold: f64 = 20.0,
    } => softplus;
}

/// A randomised leaky rectified linear unit: `x`, or `slope · x` below 0. While training, a slope
/// between `lower` and `upper` is drawn for each element; else the slope is their mean.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{Layer, RReLU};
///
/// let x = Tensor::new([-1.0f64, 2.0])?;
/// assert_eq!(RReLU::new(0.25, 0.75).forward(&x)?.to_vec::<f64>()?, [-0.5, 2.0]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.RReLU`.
#[derive(Clone, Copy, Debug, Module)]
pub struct RReLU {
    /// The lower bound of the slope: 1/8 by default.
    pub lower: f64,
    /// The upper bound of the slope: 1/3 by default.
    pub upper: f64,
}

/// Returns PyTorch's defaults.
impl Default for RReLU {
    fn default() -> RReLU {
        RReLU::new(1.0 / 8.0, 1.0 / 3.0)
    }
}

impl RReLU {
    /// Creates the layer.
    pub fn new(lower: f64, upper: f64) -> RReLU {
        RReLU { lower, upper }
    }
}

impl Layer for RReLU {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let RReLU { lower, upper } = *self;
        match is_training() {
            true => functional::rrelu(x, lower, upper),
            false => functional::leaky_relu(x, (lower + upper) / 2.0),
        }
    }
}

/// The Gaussian error linear unit: `x` times the normal distribution function of `x`.
///
/// # References
///
/// `torch.nn.GELU`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Module)]
pub enum GELU {
    /// Computed with the error function: PyTorch's default.
    #[default]
    Exact,
    /// Approximated with a hyperbolic tangent: PyTorch's `approximate="tanh"`.
    Tanh,
}

impl Layer for GELU {
    #[layer]
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
            /// The dimension; negative dimensions count from the end.
            pub dim: i64,
        }

        impl $name {
            /// Creates the layer for dimension `dim`; negative dimensions count from the end.
            pub fn new(dim: i64) -> $name {
                $name { dim }
            }
        }

        impl Layer for $name {
            #[layer]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                functional::$function(x, self.dim)
            }
        }
    )* };
}

along! {
    /// The softmax: exponentials divided by their sum along a dimension.
    Softmax softmax;
    /// The logarithm of [`Softmax`].
    LogSoftmax log_softmax;
    /// The [`Softmax`] of `−x`.
    Softmin softmin;
}

/// A [`Softmax`] over the channels of each pixel of images `[n, c, h, w]` or `[c, h, w]`.
///
/// # References
///
/// `torch.nn.Softmax2d`.
#[derive(Clone, Copy, Debug, Default, Module)]
pub struct Softmax2d;

impl Layer for Softmax2d {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if !(3..=4).contains(&x.rank()) {
            let message = format!("expected 3 or 4 dimensions, got shape {:?}", x.shape());
            return Err(Error::invalid("Softmax2d", message));
        }
        functional::softmax(x, -3)
    }
}

/// A threshold: `x` if it exceeds `threshold`, else `value`.
///
/// # References
///
/// `torch.nn.Threshold`.
#[derive(Clone, Copy, Debug, Module)]
pub struct Threshold {
    /// The threshold.
    pub threshold: f64,
    /// The replacement value.
    pub value: f64,
}

impl Threshold {
    /// Creates the layer.
    pub fn new(threshold: f64, value: f64) -> Threshold {
        Threshold { threshold, value }
    }
}

impl Layer for Threshold {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::threshold(x, self.threshold, self.value)
    }
}

/// A layer that returns its input.
///
/// # References
///
/// `torch.nn.Identity`.
#[derive(Clone, Copy, Debug, Default, Module)]
pub struct Identity;

impl Layer for Identity {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
}

/// A layer that merges dimensions `start_dim` to `end_dim`, inclusive, into one. Negative
/// dimensions count from the end.
///
/// # References
///
/// `torch.nn.Flatten`.
#[derive(Clone, Copy, Debug, Module)]
pub struct Flatten {
    /// The first dimension to merge: 1 by default.
    pub start_dim: i64,
    /// The last dimension to merge: −1 by default.
    pub end_dim: i64,
}

impl Default for Flatten {
    fn default() -> Flatten {
        Flatten::new(1, -1)
    }
}

impl Flatten {
    /// Creates a layer that merges dimensions `start_dim` to `end_dim`.
    pub fn new(start_dim: i64, end_dim: i64) -> Flatten {
        Flatten { start_dim, end_dim }
    }
}

impl Layer for Flatten {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::flatten(x, self.start_dim, self.end_dim)
    }
}

/// A layer that splits one dimension into several. One size may be −1: it is inferred from the
/// others.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::nn::{Layer, Unflatten};
/// use samebits::{DType, Tensor};
///
/// let rows = Tensor::zeros(&[5, 12], DType::F32)?;
/// assert_eq!(Unflatten::new(1, [3, 2, -1]).forward(&rows)?.shape(), [5, 3, 2, 2]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.Unflatten`.
#[derive(Clone, Debug, Module)]
pub struct Unflatten {
    /// The dimension; negative dimensions count from the end.
    pub dim: i64,
    /// The sizes to split it into.
    #[module(skip)]
    pub sizes: Vec<i64>,
}

impl Unflatten {
    /// Creates a layer that splits dimension `dim` into `sizes`.
    pub fn new(dim: i64, sizes: impl Into<Vec<i64>>) -> Unflatten {
        Unflatten { dim, sizes: sizes.into() }
    }
}

impl Layer for Unflatten {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::unflatten(x, self.dim, &self.sizes)
    }
}

/// A leaky rectified linear unit with a trained slope: `x`, or `weight · x` below 0. One weight
/// serves all channels, or each channel has its own.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{Layer, PReLU};
///
/// let x = Tensor::new([[-4.0f32, 4.0]])?;
/// assert_eq!(PReLU::new()?.forward(&x)?.to_vec::<f32>()?, [-1.0, 4.0]);
/// let each = PReLU::options().num_parameters(2).value(0.5).init()?;
/// assert_eq!(each.forward(&x)?.to_vec::<f32>()?, [-2.0, 4.0]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.PReLU`.
#[derive(Clone, Debug, Module)]
pub struct PReLU {
    /// The slopes, `[1]` or `[channels]`.
    pub weight: Tensor,
}

impl PReLU {
    /// Creates a layer with one weight of 0.25.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory for the weight.
    pub fn new() -> Result<PReLU> {
        PReLU::options().init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options() -> PReLUOptions {
        PReLUOptions { num_parameters: 1, value: 0.25, place: Place::default() }
    }
}

impl Layer for PReLU {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::prelu(x, &self.weight)
    }
}

/// Options of a [`PReLU`].
#[derive(Clone, Debug)]
pub struct PReLUOptions {
    num_parameters: usize,
    value: f64,
    place: Place,
}

impl PReLUOptions {
    setters! {
        /// Sets the number of weights: 1 (the default) or the number of channels.
        num_parameters: usize;
        /// Sets the initial value of each weight (default 0.25); PyTorch's `init`.
        value: f64;
    }
    place_setters!();

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// The type is not a float, or there is no memory for the weights.
    pub fn init(&self) -> Result<PReLU> {
        Ok(PReLU { weight: self.place.constant(&[self.num_parameters], self.value)? })
    }
}
