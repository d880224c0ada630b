use samebits_macros::{Module, layer};
use samebits_tensor_core::{Error, Result};

use crate::Tensor;
use crate::functional::{self, BatchStatistics};
use crate::nn::cell::{Counter, TensorCell};
use crate::nn::options::{Place, place_setters, setters};
use crate::nn::{Layer, is_training};

/// Running statistics of the batches seen in training.
#[derive(Clone, Debug, Module)]
pub struct RunningStatistics {
    /// The running mean, `[channels]`.
    #[module(buffer)]
    pub running_mean: TensorCell,
    /// The running unbiased variance, `[channels]`.
    #[module(buffer)]
    pub running_var: TensorCell,
    num_batches_tracked: Counter,
    /// The weight of the newest batch; `None` averages all batches equally.
    pub momentum: Option<f64>,
}

impl RunningStatistics {
    fn new(features: usize, momentum: Option<f64>, place: Place) -> Result<RunningStatistics> {
        Ok(RunningStatistics {
            running_mean: place.full(&[features], 0.0)?.into(),
            running_var: place.full(&[features], 1.0)?.into(),
            num_batches_tracked: Counter::default(),
            momentum,
        })
    }

    fn follow(&self, batch: &BatchStatistics) -> Result<()> {
        let (mut mean, mut var) = (self.running_mean.get(), self.running_var.get());
        let count = self.num_batches_tracked.next();
        let momentum = self.momentum.unwrap_or(1.0 / count as f64);
        batch.update(&mut mean, &mut var, momentum)?;
        self.running_mean.set(mean);
        self.running_var.set(var);
        Ok(())
    }
}

/// Batch normalisation of inputs with `DIMS` spatial dimensions. It uses the statistics of the
/// batch while training, the running ones otherwise.
///
/// # Shapes
///
/// The input is `[n, features, ..]`; [`BatchNorm1d`] also takes `[n, features]`.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{self, BatchNorm1d, Layer, Module};
///
/// let layer = BatchNorm1d::new(1)?;
/// let x = Tensor::from_slice(&[1.0f32, 3.0], &[2, 1])?;
/// nn::train(|| layer.forward(&x))?;
/// // A tenth of the mean 2.
/// assert_eq!(layer.state_dict()[2].0, "running_mean");
/// assert_eq!(layer.state_dict()[2].1.to_vec::<f32>()?, [0.2]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.BatchNorm1d`, `BatchNorm2d` and `BatchNorm3d`.
#[derive(Clone, Debug, Module)]
pub struct BatchNormNd<const DIMS: usize> {
    /// The scale, `[features]`.
    pub weight: Option<Tensor>,
    /// The shift, `[features]`.
    pub bias: Option<Tensor>,
    /// The statistics used for evaluation; `None` uses those of the batch.
    #[module(flatten)]
    pub running: Option<RunningStatistics>,
    /// A small number added to the variance.
    pub eps: f64,
}

/// Batch normalisation of `[n, features]` or `[n, features, length]`.
pub type BatchNorm1d = BatchNormNd<1>;
/// Batch normalisation of `[n, features, height, width]`.
pub type BatchNorm2d = BatchNormNd<2>;
/// Batch normalisation of `[n, features, depth, height, width]`.
pub type BatchNorm3d = BatchNormNd<3>;

impl<const DIMS: usize> BatchNormNd<DIMS> {
    /// Creates a layer with PyTorch's defaults: weight 1, bias 0, running statistics with momentum
    /// 0.1, `eps` 1e-5.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory for the tensors.
    pub fn new(num_features: usize) -> Result<BatchNormNd<DIMS>> {
        BatchNormNd::options(num_features).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(num_features: usize) -> BatchNormOptions<DIMS> {
        BatchNormOptions(NormOptions::new(num_features, true, true))
    }
}

impl<const DIMS: usize> Layer for BatchNormNd<DIMS> {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let expected = if DIMS == 1 { 2..=3 } else { DIMS + 2..=DIMS + 2 };
        expect_rank("BatchNorm", x, expected)?;
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        match &self.running {
            Some(running) if !is_training() => inference(x, weight, bias, running, self.eps),
            running => {
                let (y, statistics) = functional::batch_norm(x, weight, bias, self.eps)?;
                if let Some(running) = running {
                    running.follow(&statistics)?;
                }
                Ok(y)
            }
        }
    }
}

/// Instance normalisation: normalises each channel of each sample, for inputs with `DIMS` spatial
/// dimensions. It uses the sample's own statistics. A layer with running statistics uses those
/// when evaluating.
///
/// # Shapes
///
/// The input is `[n, features, ..]`, or `[features, ..]` for one sample.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{self, InstanceNorm1d, Layer};
///
/// let layer = InstanceNorm1d::options(1).track_running_stats(true).init()?;
/// let x = Tensor::from_slice(&[1.0f32, 3.0, 5.0, 7.0], &[2, 1, 2])?;
/// nn::train(|| layer.forward(&x))?;
/// let running = layer.running.as_ref().expect("it tracks");
/// // A tenth of the means 2 and 6, and of the unbiased variances 2 and 2.
/// assert_eq!(running.running_mean.get().to_vec::<f32>()?, [0.4]);
/// assert_eq!(running.running_var.get().to_vec::<f32>()?, [1.1]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.InstanceNorm1d`, `InstanceNorm2d` and `InstanceNorm3d`.
#[derive(Clone, Debug, Module)]
pub struct InstanceNormNd<const DIMS: usize> {
    /// The scale, `[features]`, if any.
    pub weight: Option<Tensor>,
    /// The shift, `[features]`, if any.
    pub bias: Option<Tensor>,
    /// The statistics used for evaluation; `None` uses those of the sample.
    #[module(flatten)]
    pub running: Option<RunningStatistics>,
    /// A small number added to the variance.
    pub eps: f64,
}

/// Instance normalisation of `[n, features, length]`.
pub type InstanceNorm1d = InstanceNormNd<1>;
/// Instance normalisation of `[n, features, height, width]`.
pub type InstanceNorm2d = InstanceNormNd<2>;
/// Instance normalisation of `[n, features, depth, height, width]`.
pub type InstanceNorm3d = InstanceNormNd<3>;

impl<const DIMS: usize> InstanceNormNd<DIMS> {
    /// Creates a layer with PyTorch's defaults: no weight, no bias, no running statistics, `eps`
    /// 1e-5.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory for the tensors.
    pub fn new(num_features: usize) -> Result<InstanceNormNd<DIMS>> {
        InstanceNormNd::options(num_features).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(num_features: usize) -> InstanceNormOptions<DIMS> {
        InstanceNormOptions(NormOptions::new(num_features, false, false))
    }
}

impl<const DIMS: usize> Layer for InstanceNormNd<DIMS> {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        expect_rank("InstanceNorm", x, DIMS + 1..=DIMS + 2)?;
        if x.rank() == DIMS + 1 {
            let batch = functional::reshape(x, [&[1], x.shape()].concat())?;
            return functional::reshape(&self.forward(&batch)?, x.shape());
        }
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        match &self.running {
            Some(running) if !is_training() => inference(x, weight, bias, running, self.eps),
            running => {
                let (y, statistics) = functional::instance_norm(x, weight, bias, self.eps)?;
                if let Some(running) = running {
                    running.follow(&statistics)?;
                }
                Ok(y)
            }
        }
    }
}

/// Options that batch and instance normalisation share.
#[derive(Clone, Debug)]
struct NormOptions {
    num_features: usize,
    eps: f64,
    momentum: Option<f64>,
    affine: bool,
    track_running_stats: bool,
    place: Place,
}

impl NormOptions {
    fn new(num_features: usize, affine: bool, track_running_stats: bool) -> NormOptions {
        NormOptions {
            num_features,
            eps: 1e-5,
            momentum: Some(0.1),
            affine,
            track_running_stats,
            place: Place::default(),
        }
    }

    fn parameter(&self, value: f64) -> Result<Option<Tensor>> {
        self.affine.then(|| self.place.constant(&[self.num_features], value)).transpose()
    }

    fn running(&self) -> Result<Option<RunningStatistics>> {
        self.track_running_stats
            .then(|| RunningStatistics::new(self.num_features, self.momentum, self.place))
            .transpose()
    }
}

macro_rules! norm_options {
    ($($(#[$doc:meta])* $options:ident $layer:ident $default:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $options<const DIMS: usize>(NormOptions);

        impl<const DIMS: usize> $options<DIMS> {
            /// Sets the number added to the variance (default 1e-5).
            #[must_use]
            pub fn eps(mut self, eps: f64) -> Self {
                self.0.eps = eps;
                self
            }

            /// Sets the weight of the newest batch in the running statistics (default 0.1). `None`
            /// averages all batches equally.
            #[must_use]
            pub fn momentum(mut self, momentum: impl Into<Option<f64>>) -> Self {
                self.0.momentum = momentum.into();
                self
            }

            #[doc = concat!("Sets whether the layer has weight and bias (default ", $default, ").")]
            #[must_use]
            pub fn affine(mut self, affine: bool) -> Self {
                self.0.affine = affine;
                self
            }

            #[doc = concat!("Sets whether the layer keeps running statistics (default ", $default, ").")]
            #[must_use]
            pub fn track_running_stats(mut self, track_running_stats: bool) -> Self {
                self.0.track_running_stats = track_running_stats;
                self
            }

            /// Sets the element type of the tensors (default `F32`).
            #[must_use]
            pub fn dtype(mut self, dtype: samebits_tensor_core::DType) -> Self {
                self.0.place.dtype = dtype;
                self
            }

            /// Sets the device of the tensors (default: the host).
            #[must_use]
            pub fn device(mut self, device: samebits_tensor_core::Device) -> Self {
                self.0.place.device = device;
                self
            }

            /// Builds the layer.
            ///
            /// # Errors
            ///
            /// [`Error::OutOfMemory`] if there is no memory for the tensors.
            pub fn init(&self) -> Result<$layer<DIMS>> {
                let options = &self.0;
                Ok($layer {
                    weight: options.parameter(1.0)?,
                    bias: options.parameter(0.0)?,
                    running: options.running()?,
                    eps: options.eps,
                })
            }
        }
    )* };
}

norm_options! {
    /// Options of batch normalisation.
    BatchNormOptions BatchNormNd "true";
    /// Options of instance normalisation.
    InstanceNormOptions InstanceNormNd "false";
}

/// Layer normalisation over the last dimensions.
///
/// # References
///
/// `torch.nn.LayerNorm`.
#[derive(Clone, Debug, Module)]
pub struct LayerNorm {
    /// The shape of the last dimensions.
    pub normalized_shape: Vec<usize>,
    /// The scale, of that shape.
    pub weight: Option<Tensor>,
    /// The shift, of that shape.
    pub bias: Option<Tensor>,
    /// A small number added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    /// Creates a layer with PyTorch's defaults: weight 1, bias 0, `eps` 1e-5.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory for the tensors.
    pub fn new(normalized_shape: impl LastDims) -> Result<LayerNorm> {
        LayerNorm::options(normalized_shape).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(normalized_shape: impl LastDims) -> LayerNormOptions {
        LayerNormOptions {
            normalized_shape: normalized_shape.sizes(),
            eps: 1e-5,
            elementwise_affine: true,
            bias: true,
            place: Place::default(),
        }
    }
}

impl Layer for LayerNorm {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        functional::layer_norm(x, &self.normalized_shape, weight, bias, self.eps)
    }
}

/// Options of a [`LayerNorm`].
#[derive(Clone, Debug)]
pub struct LayerNormOptions {
    normalized_shape: Vec<usize>,
    eps: f64,
    elementwise_affine: bool,
    bias: bool,
    place: Place,
}

impl LayerNormOptions {
    setters! {
        /// Sets the number added to the variance (default 1e-5).
        eps: f64;
        /// Sets whether the layer has weight and bias (default true).
        elementwise_affine: bool;
        /// Sets whether the layer has a bias beside the weight (default true).
        bias: bool;
    }
    place_setters!();

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory for the tensors.
    pub fn init(&self) -> Result<LayerNorm> {
        let parameter = |wanted: bool, value| {
            wanted.then(|| self.place.constant(&self.normalized_shape, value)).transpose()
        };
        Ok(LayerNorm {
            normalized_shape: self.normalized_shape.clone(),
            weight: parameter(self.elementwise_affine, 1.0)?,
            bias: parameter(self.elementwise_affine && self.bias, 0.0)?,
            eps: self.eps,
        })
    }
}

/// Root mean square normalisation: divides by the root of the mean square over the last dimensions.
///
/// # Determinism
///
/// `x · (1 / √(mean(x²) + eps)) · weight`, with the reciprocal root as one operation; each
/// operation is rounded.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{Layer, RMSNorm};
///
/// let x = Tensor::from_slice(&[3.0f32, -3.0], &[1, 2])?;
/// let y = RMSNorm::options(2).eps(0.0).init()?.forward(&x)?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, -1.0]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.RMSNorm`.
#[derive(Clone, Debug, Module)]
pub struct RMSNorm {
    /// The shape of the last dimensions.
    pub normalized_shape: Vec<usize>,
    /// The scale, of that shape.
    pub weight: Option<Tensor>,
    /// A small number added to the mean square; `None` means the machine epsilon of the input's
    /// type.
    pub eps: Option<f64>,
}

impl RMSNorm {
    /// Creates a layer with PyTorch's defaults: weight 1, and the machine epsilon of the input's
    /// type as `eps`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory for the weight.
    pub fn new(normalized_shape: impl LastDims) -> Result<RMSNorm> {
        RMSNorm::options(normalized_shape).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(normalized_shape: impl LastDims) -> RMSNormOptions {
        RMSNormOptions {
            normalized_shape: normalized_shape.sizes(),
            eps: None,
            elementwise_affine: true,
            place: Place::default(),
        }
    }
}

impl Layer for RMSNorm {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let RMSNorm { normalized_shape, weight, eps } = self;
        functional::rms_norm(x, normalized_shape, weight.as_ref(), *eps)
            .map_err(|error| error.called("RMSNorm"))
    }
}

/// Options of an [`RMSNorm`].
#[derive(Clone, Debug)]
pub struct RMSNormOptions {
    normalized_shape: Vec<usize>,
    eps: Option<f64>,
    elementwise_affine: bool,
    place: Place,
}

impl RMSNormOptions {
    setters! {
        /// Sets the number added to the mean square (default: the machine epsilon of the input's
        /// type).
        eps: impl Into<Option<f64>> => eps.into();
        /// Sets whether the layer has a weight (default true).
        elementwise_affine: bool;
    }
    place_setters!();

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory for the weight.
    pub fn init(&self) -> Result<RMSNorm> {
        let shape = &self.normalized_shape;
        Ok(RMSNorm {
            normalized_shape: shape.clone(),
            weight: self.elementwise_affine.then(|| self.place.constant(shape, 1.0)).transpose()?,
            eps: self.eps,
        })
    }
}

/// Sizes of the last dimensions: a number for one, an array or slice for several.
pub trait LastDims {
    /// Returns the sizes.
    fn sizes(self) -> Vec<usize>;
}

impl LastDims for usize {
    fn sizes(self) -> Vec<usize> {
        vec![self]
    }
}

impl<const N: usize> LastDims for [usize; N] {
    fn sizes(self) -> Vec<usize> {
        self.into()
    }
}

impl LastDims for &[usize] {
    fn sizes(self) -> Vec<usize> {
        self.into()
    }
}

/// Group normalisation: normalises each group of channels of each sample.
///
/// # References
///
/// `torch.nn.GroupNorm`.
#[derive(Clone, Debug, Module)]
pub struct GroupNorm {
    /// The number of groups.
    pub num_groups: usize,
    /// The scale, `[channels]`.
    pub weight: Option<Tensor>,
    /// The shift, `[channels]`.
    pub bias: Option<Tensor>,
    /// A small number added to the variance.
    pub eps: f64,
}

impl GroupNorm {
    /// Creates a layer with PyTorch's defaults: weight 1, bias 0, `eps` 1e-5.
    ///
    /// # Errors
    ///
    /// `num_groups` does not divide the channels, or memory runs out.
    pub fn new(num_groups: usize, num_channels: usize) -> Result<GroupNorm> {
        GroupNorm::options(num_groups, num_channels).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(num_groups: usize, num_channels: usize) -> GroupNormOptions {
        let place = Place::default();
        GroupNormOptions { num_groups, num_channels, eps: 1e-5, affine: true, place }
    }
}

impl Layer for GroupNorm {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        functional::group_norm(x, self.num_groups, weight, bias, self.eps)
    }
}

/// Options of a [`GroupNorm`].
#[derive(Clone, Debug)]
pub struct GroupNormOptions {
    num_groups: usize,
    num_channels: usize,
    eps: f64,
    affine: bool,
    place: Place,
}

impl GroupNormOptions {
    setters! {
        /// Sets the number added to the variance (default 1e-5).
        eps: f64;
        /// Sets whether the layer has weight and bias (default true).
        affine: bool;
    }
    place_setters!();

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// As [`GroupNorm::new`].
    pub fn init(&self) -> Result<GroupNorm> {
        let &GroupNormOptions { num_groups, num_channels, eps, affine, place } = self;
        if num_groups == 0 || !num_channels.is_multiple_of(num_groups) {
            let message =
                format!("{num_channels} channels are not divisible by {num_groups} groups");
            return Err(Error::invalid("GroupNorm", message));
        }
        let parameter = |value| affine.then(|| place.constant(&[num_channels], value)).transpose();
        Ok(GroupNorm { num_groups, weight: parameter(1.0)?, bias: parameter(0.0)?, eps })
    }
}

fn inference(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running: &RunningStatistics,
    eps: f64,
) -> Result<Tensor> {
    let (mean, var) = (running.running_mean.get(), running.running_var.get());
    functional::batch_norm_inference(x, weight, bias, &mean, &var, eps)
}

fn expect_rank(
    op: &'static str,
    x: &Tensor,
    expected: std::ops::RangeInclusive<usize>,
) -> Result<()> {
    if expected.contains(&x.rank()) {
        return Ok(());
    }
    let (low, high) = (expected.start(), expected.end());
    let expected = if low == high { low.to_string() } else { format!("{low} or {high}") };
    Err(Error::invalid(op, format!("expected {expected} dimensions, got shape {:?}", x.shape())))
}

/// Normalisation by the neighbours in other channels; see [`functional::local_response_norm`].
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{Layer, LocalResponseNorm};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 2.0], &[1, 3, 1])?;
/// let norm = LocalResponseNorm { alpha: 2.0, beta: 1.0, k: 0.0, ..LocalResponseNorm::new(2) };
/// assert_eq!(norm.forward(&x)?.to_vec::<f32>()?, [1.0, 0.4, 0.25]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.LocalResponseNorm`.
#[derive(Clone, Copy, Debug, Module)]
pub struct LocalResponseNorm {
    /// The number of channels whose squares are averaged.
    pub size: usize,
    /// The factor of the mean: 1e-4 by default.
    pub alpha: f64,
    /// The exponent: 0.75 by default.
    pub beta: f64,
    /// The number added to the mean: 1 by default.
    pub k: f64,
}

impl LocalResponseNorm {
    /// Creates a layer with PyTorch's defaults.
    pub fn new(size: usize) -> LocalResponseNorm {
        LocalResponseNorm { size, alpha: 1e-4, beta: 0.75, k: 1.0 }
    }
}

impl Layer for LocalResponseNorm {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let LocalResponseNorm { size, alpha, beta, k } = *self;
        functional::local_response_norm(x, size, alpha, beta, k)
            .map_err(|error| error.called("LocalResponseNorm"))
    }
}
