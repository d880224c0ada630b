use samebits_macros::{Module, layer};
use samebits_tensor_core::{Error, Result};

use crate::nn::options::{Place, place_setters, setters};
use crate::nn::{Layer, is_training};
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
            #[layer]
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
    /// `x · tanh(softplus(x))`.
    Mish mish;
    /// `relu6(x + 3) / 6`.
    Hardsigmoid hardsigmoid;
    /// `x · relu6(x + 3) / 6`.
    Hardswish hardswish;
    /// `scale · x`, or `scale · alpha · (exp(x) − 1)` below 0; see [`functional::selu`].
    SELU selu;
    /// `x / (1 + |x|)`.
    Softsign softsign;
    /// `x − tanh(x)`.
    Tanhshrink tanhshrink;
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
            #[layer]
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
    /// `x`, or `alpha · (exp(x / alpha) − 1)` below 0.
    CELU {
        /// 1 by default.
        alpha: f64 = 1.0,
    } => celu;
    /// `x` moved towards 0, at most to 0.
    Softshrink {
        /// How far: 0.5 by default.
        lambda: f64 = 0.5,
    } => softshrink;
    /// `x`, or 0 if it is near.
    Hardshrink {
        /// How near: 0.5 by default.
        lambda: f64 = 0.5,
    } => hardshrink;
    /// `a · sigmoid(b)` of the two halves of `x` along a dimension.
    GLU {
        /// −1 by default; a negative dimension counts from the last, −1.
        dim: i64 = -1,
    } => glu;
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

/// `x`, or below 0 `slope · x`: while training with a slope for each element that is drawn from
/// `lower` to `upper`, else with the mean of the two.
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
    /// 1/8 by default.
    pub lower: f64,
    /// 1/3 by default.
    pub upper: f64,
}

/// PyTorch's defaults.
impl Default for RReLU {
    fn default() -> RReLU {
        RReLU::new(1.0 / 8.0, 1.0 / 3.0)
    }
}

impl RReLU {
    /// The layer.
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
            #[layer]
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
    /// [`Softmax`] of `−x`.
    Softmin softmin;
}

/// [`Softmax`] over the channels of each place of images, `[n, c, h, w]` or `[c, h, w]`.
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

/// `x` where it is above the threshold, else a value.
///
/// # References
///
/// `torch.nn.Threshold`.
#[derive(Clone, Copy, Debug, Module)]
pub struct Threshold {
    /// The threshold.
    pub threshold: f64,
    /// The value.
    pub value: f64,
}

impl Threshold {
    /// The layer.
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

/// The input as it is.
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

/// Dimensions `start_dim` to `end_dim`, included, as one. Negative ones count from the last, −1.
///
/// # References
///
/// `torch.nn.Flatten`.
#[derive(Clone, Copy, Debug, Module)]
pub struct Flatten {
    /// The first dimension that is flattened: 1 by default.
    pub start_dim: i64,
    /// The last: −1 by default.
    pub end_dim: i64,
}

impl Default for Flatten {
    fn default() -> Flatten {
        Flatten::new(1, -1)
    }
}

impl Flatten {
    /// Flattens dimensions `start_dim` to `end_dim`.
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

/// One dimension as several, of which one size may be −1: what the others leave.
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
    /// The dimension; a negative one counts from the last, −1.
    pub dim: i64,
    /// The sizes that it becomes.
    #[module(skip)]
    pub sizes: Vec<i64>,
}

impl Unflatten {
    /// Dimension `dim` as dimensions of `sizes`.
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

/// `x`, or below 0 `weight · x` with a weight that is trained, of all or of each channel.
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
    /// `[1]` or `[channels]`
    pub weight: Tensor,
}

impl PReLU {
    /// One weight of 0.25.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    pub fn new() -> Result<PReLU> {
        PReLU::options().init()
    }

    /// A layer with other options than PyTorch's defaults.
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
        /// The number of weights: 1 if not set, or the number of channels.
        num_parameters: usize;
        /// What each weight is at first, PyTorch's `init`: 0.25 if not set.
        value: f64;
    }
    place_setters!();

    /// The layer.
    ///
    /// # Errors
    ///
    /// The type is not a float, or there is no memory for the weights.
    pub fn init(&self) -> Result<PReLU> {
        Ok(PReLU { weight: self.place.constant(&[self.num_parameters], self.value)? })
    }
}
