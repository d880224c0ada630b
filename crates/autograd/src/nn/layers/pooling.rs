use samebits_macros::{Module, layer};
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::PoolParams;

use crate::nn::Layer;
use crate::nn::options::{PerDim, setters};
use crate::{Tensor, functional};

/// Writes setters of the parameters of windows.
macro_rules! params_setters {
    ($($name:ident)*) => { $(params_setters! { @ $name })* };
    (@ stride) => {
        /// Sets the distance between neighbouring windows (default: their size).
        #[must_use]
        pub fn stride(mut self, stride: impl PerDim<DIMS>) -> Self {
            self.params.stride = stride.per_dim().into();
            self
        }
    };
    (@ padding) => {
        /// Sets the padding at each border (default 0).
        #[must_use]
        pub fn padding(mut self, padding: impl PerDim<DIMS>) -> Self {
            self.params.padding = padding.per_dim().into();
            self
        }
    };
    (@ dilation) => {
        /// Sets the distance between neighbouring window elements (default 1).
        #[must_use]
        pub fn dilation(mut self, dilation: impl PerDim<DIMS>) -> Self {
            self.params.dilation = dilation.per_dim().into();
            self
        }
    };
    (@ ceil_mode) => {
        /// Sets whether a last window may reach past the padded input (default false).
        #[must_use]
        pub fn ceil_mode(mut self, ceil_mode: bool) -> Self {
            self.params.ceil_mode = ceil_mode;
            self
        }
    };
}

/// Max pooling over `DIMS` spatial dimensions: the largest element of each window.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{Layer, MaxPool1d};
///
/// let x = Tensor::from_slice(&[1.0f32, 3.0, 4.0, 2.0], &[1, 1, 4])?;
/// assert_eq!(MaxPool1d::new(2).forward(&x)?.to_vec::<f32>()?, [3.0, 4.0]);
/// assert_eq!(MaxPool1d::new(2).stride(1).forward(&x)?.to_vec::<f32>()?, [3.0, 4.0, 4.0]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.MaxPool1d`, `MaxPool2d` and `MaxPool3d`.
#[derive(Clone, Debug, Module)]
pub struct MaxPoolNd<const DIMS: usize> {
    params: PoolParams,
}

/// Max pooling over one spatial dimension.
pub type MaxPool1d = MaxPoolNd<1>;
/// Max pooling over two spatial dimensions.
pub type MaxPool2d = MaxPoolNd<2>;
/// Max pooling over three spatial dimensions.
pub type MaxPool3d = MaxPoolNd<3>;

impl<const DIMS: usize> MaxPoolNd<DIMS> {
    /// Creates the layer; the stride is the window size.
    pub fn new(kernel_size: impl PerDim<DIMS>) -> MaxPoolNd<DIMS> {
        MaxPoolNd { params: moving(kernel_size) }
    }

    params_setters! { stride padding dilation ceil_mode }

    /// Returns the maxima and the index of each, for [`MaxUnpoolNd`].
    ///
    /// # Errors
    ///
    /// The input does not fit the layer.
    #[layer]
    pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        functional::max_pool(x, &self.params)
    }
}

impl<const DIMS: usize> Layer for MaxPoolNd<DIMS> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.forward_with_indices(x)?.0)
    }
}

/// The partial inverse of a [`MaxPoolNd`].
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{MaxPool1d, MaxUnpool1d};
///
/// let (pool, unpool) = (MaxPool1d::new(2), MaxUnpool1d::new(2));
/// let x = Tensor::from_slice(&[1.0f32, 3.0, 4.0, 2.0], &[1, 1, 4])?;
/// let (y, indices) = pool.forward_with_indices(&x)?;
/// let back = unpool.forward(&y, &indices, None)?;
/// assert_eq!(back.to_vec::<f32>()?, [0.0, 3.0, 4.0, 0.0]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.MaxUnpool1d`, `MaxUnpool2d` and `MaxUnpool3d`.
#[derive(Clone, Debug, Module)]
pub struct MaxUnpoolNd<const DIMS: usize> {
    params: PoolParams,
}

/// The inverse of max pooling over one spatial dimension.
pub type MaxUnpool1d = MaxUnpoolNd<1>;
/// The inverse of max pooling over two spatial dimensions.
pub type MaxUnpool2d = MaxUnpoolNd<2>;
/// The inverse of max pooling over three spatial dimensions.
pub type MaxUnpool3d = MaxUnpoolNd<3>;

impl<const DIMS: usize> MaxUnpoolNd<DIMS> {
    /// Creates the inverse of a pooling whose stride is the window size.
    pub fn new(kernel_size: impl PerDim<DIMS>) -> MaxUnpoolNd<DIMS> {
        MaxUnpoolNd { params: moving(kernel_size) }
    }

    params_setters! { stride padding }

    /// Writes each element to its index in a tensor of zeros; see
    /// [`max_unpool`](functional::max_unpool).
    ///
    /// # Errors
    ///
    /// An index is outside the result, or the input, the indices and the output size are
    /// incompatible.
    #[layer]
    pub fn forward(
        &self,
        x: &Tensor,
        indices: &Tensor,
        output_size: Option<&[usize]>,
    ) -> Result<Tensor> {
        functional::max_unpool(x, indices, &self.params, output_size)
    }
}

/// Average pooling over `DIMS` spatial dimensions: the mean of each window.
///
/// # References
///
/// `torch.nn.AvgPool1d`, `AvgPool2d` and `AvgPool3d`.
#[derive(Clone, Debug, Module)]
pub struct AvgPoolNd<const DIMS: usize> {
    params: PoolParams,
    count_include_pad: bool,
    divisor_override: Option<i64>,
}

/// Average pooling over one spatial dimension.
pub type AvgPool1d = AvgPoolNd<1>;
/// Average pooling over two spatial dimensions.
pub type AvgPool2d = AvgPoolNd<2>;
/// Average pooling over three spatial dimensions.
pub type AvgPool3d = AvgPoolNd<3>;

impl<const DIMS: usize> AvgPoolNd<DIMS> {
    /// Creates the layer; the stride is the window size, and padding counts in the divisor.
    pub fn new(kernel_size: impl PerDim<DIMS>) -> AvgPoolNd<DIMS> {
        let params = moving(kernel_size);
        AvgPoolNd { params, count_include_pad: true, divisor_override: None }
    }

    params_setters! { stride padding ceil_mode }
    setters! {
        /// Sets whether padding counts in the divisor (default true).
        count_include_pad: bool;
        /// Sets a divisor to use instead of the number of elements.
        divisor_override: i64 => Some(divisor_override);
    }
}

impl<const DIMS: usize> Layer for AvgPoolNd<DIMS> {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::avg_pool(x, &self.params, self.count_include_pad, self.divisor_override)
    }
}

/// Power-average pooling over `DIMS` spatial dimensions: the p-norm of each window.
///
/// # References
///
/// `torch.nn.LPPool1d`, `LPPool2d` and `LPPool3d`.
#[derive(Clone, Debug, Module)]
pub struct LPPoolNd<const DIMS: usize> {
    norm_type: f64,
    params: PoolParams,
}

/// Power-average pooling over one spatial dimension.
pub type LPPool1d = LPPoolNd<1>;
/// Power-average pooling over two spatial dimensions.
pub type LPPool2d = LPPoolNd<2>;
/// Power-average pooling over three spatial dimensions.
pub type LPPool3d = LPPoolNd<3>;

impl<const DIMS: usize> LPPoolNd<DIMS> {
    /// Creates the layer for norm `norm_type`; the stride is the window size.
    pub fn new(norm_type: f64, kernel_size: impl PerDim<DIMS>) -> LPPoolNd<DIMS> {
        LPPoolNd { norm_type, params: moving(kernel_size) }
    }

    params_setters! { stride ceil_mode }
}

impl<const DIMS: usize> Layer for LPPoolNd<DIMS> {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::lp_pool(x, self.norm_type, &self.params)
    }
}

/// Average pooling to a given output size of `DIMS` spatial dimensions.
///
/// # References
///
/// `torch.nn.AdaptiveAvgPool1d`, `AdaptiveAvgPool2d` and `AdaptiveAvgPool3d`.
#[derive(Clone, Copy, Debug, Module)]
pub struct AdaptiveAvgPoolNd<const DIMS: usize> {
    output_size: [usize; DIMS],
}

/// Average pooling to a given output size of one spatial dimension.
pub type AdaptiveAvgPool1d = AdaptiveAvgPoolNd<1>;
/// Average pooling to a given output size of two spatial dimensions.
pub type AdaptiveAvgPool2d = AdaptiveAvgPoolNd<2>;
/// Average pooling to a given output size of three spatial dimensions.
pub type AdaptiveAvgPool3d = AdaptiveAvgPoolNd<3>;

impl<const DIMS: usize> AdaptiveAvgPoolNd<DIMS> {
    /// Creates the layer for the given output size.
    pub fn new(output_size: impl PerDim<DIMS>) -> AdaptiveAvgPoolNd<DIMS> {
        AdaptiveAvgPoolNd { output_size: output_size.per_dim() }
    }
}

impl<const DIMS: usize> Layer for AdaptiveAvgPoolNd<DIMS> {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::adaptive_avg_pool(x, &self.output_size)
    }
}

/// Max pooling to a given output size of `DIMS` spatial dimensions.
///
/// # References
///
/// `torch.nn.AdaptiveMaxPool1d`, `AdaptiveMaxPool2d` and `AdaptiveMaxPool3d`.
#[derive(Clone, Copy, Debug, Module)]
pub struct AdaptiveMaxPoolNd<const DIMS: usize> {
    output_size: [usize; DIMS],
}

/// Max pooling to a given output size of one spatial dimension.
pub type AdaptiveMaxPool1d = AdaptiveMaxPoolNd<1>;
/// Max pooling to a given output size of two spatial dimensions.
pub type AdaptiveMaxPool2d = AdaptiveMaxPoolNd<2>;
/// Max pooling to a given output size of three spatial dimensions.
pub type AdaptiveMaxPool3d = AdaptiveMaxPoolNd<3>;

impl<const DIMS: usize> AdaptiveMaxPoolNd<DIMS> {
    /// Creates the layer for the given output size.
    pub fn new(output_size: impl PerDim<DIMS>) -> AdaptiveMaxPoolNd<DIMS> {
        AdaptiveMaxPoolNd { output_size: output_size.per_dim() }
    }

    /// Returns the maxima and the index of each, for [`MaxUnpoolNd`].
    ///
    /// # Errors
    ///
    /// The input does not fit the layer.
    #[layer]
    pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        functional::adaptive_max_pool(x, &self.output_size)
    }
}

impl<const DIMS: usize> Layer for AdaptiveMaxPoolNd<DIMS> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.forward_with_indices(x)?.0)
    }
}

/// Max pooling over windows at pseudo-random positions, in training and evaluation.
///
/// # References
///
/// `torch.nn.FractionalMaxPool2d` and `FractionalMaxPool3d`.
#[derive(Clone, Copy, Debug, Module)]
pub struct FractionalMaxPoolNd<const DIMS: usize> {
    kernel_size: [usize; DIMS],
    output_size: [usize; DIMS],
}

/// Fractional max pooling over two spatial dimensions.
pub type FractionalMaxPool2d = FractionalMaxPoolNd<2>;
/// Fractional max pooling over three spatial dimensions.
pub type FractionalMaxPool3d = FractionalMaxPoolNd<3>;

impl<const DIMS: usize> FractionalMaxPoolNd<DIMS> {
    /// Creates the layer for the given window size and output size.
    pub fn new(
        kernel_size: impl PerDim<DIMS>,
        output_size: impl PerDim<DIMS>,
    ) -> FractionalMaxPoolNd<DIMS> {
        let (kernel_size, output_size) = (kernel_size.per_dim(), output_size.per_dim());
        FractionalMaxPoolNd { kernel_size, output_size }
    }
}

impl<const DIMS: usize> Layer for FractionalMaxPoolNd<DIMS> {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (kernel, output) = (&self.kernel_size, &self.output_size);
        Ok(functional::fractional_max_pool(x, kernel, output, None)?.0)
    }
}

fn moving<const DIMS: usize>(kernel_size: impl PerDim<DIMS>) -> PoolParams {
    let kernel = Vec::from(kernel_size.per_dim());
    PoolParams { kernel: kernel.clone(), stride: kernel, ..PoolParams::square(DIMS, 1) }
}
