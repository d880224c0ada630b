use samebits_macros::{Module, layer};
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::PoolParams;

use crate::nn::Layer;
use crate::nn::options::{PerDim, setters};
use crate::{Tensor, functional};

/// Setters of the parameters of windows.
macro_rules! params_setters {
    ($($name:ident)*) => { $(params_setters! { @ $name })* };
    (@ stride) => {
        /// The distance between neighbouring windows: their size if not set.
        #[must_use]
        pub fn stride(mut self, stride: impl PerDim<DIMS>) -> Self {
            self.params.stride = stride.per_dim().into();
            self
        }
    };
    (@ padding) => {
        /// How far the windows reach past each border: 0 if not set.
        #[must_use]
        pub fn padding(mut self, padding: impl PerDim<DIMS>) -> Self {
            self.params.padding = padding.per_dim().into();
            self
        }
    };
    (@ dilation) => {
        /// The distance between neighbouring taps: 1 if not set.
        #[must_use]
        pub fn dilation(mut self, dilation: impl PerDim<DIMS>) -> Self {
            self.params.dilation = dilation.per_dim().into();
            self
        }
    };
    (@ ceil_mode) => {
        /// Whether a last window may reach past the padded input: by default it may not.
        #[must_use]
        pub fn ceil_mode(mut self, ceil_mode: bool) -> Self {
            self.params.ceil_mode = ceil_mode;
            self
        }
    };
}

/// The largest element of each window of `DIMS` spatial dimensions.
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

/// The largest element of each window of one spatial dimension.
pub type MaxPool1d = MaxPoolNd<1>;
/// The largest element of each window of two spatial dimensions.
pub type MaxPool2d = MaxPoolNd<2>;
/// The largest element of each window of three spatial dimensions.
pub type MaxPool3d = MaxPoolNd<3>;

impl<const DIMS: usize> MaxPoolNd<DIMS> {
    /// Windows that move by their own size.
    pub fn new(kernel_size: impl PerDim<DIMS>) -> MaxPoolNd<DIMS> {
        MaxPoolNd { params: moving(kernel_size) }
    }

    params_setters! { stride padding dilation ceil_mode }

    /// Computes the layer, and where each element was, for [`MaxUnpoolNd`].
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

/// The inverse of a pooling over one spatial dimension.
pub type MaxUnpool1d = MaxUnpoolNd<1>;
/// The inverse of a pooling over two spatial dimensions.
pub type MaxUnpool2d = MaxUnpoolNd<2>;
/// The inverse of a pooling over three spatial dimensions.
pub type MaxUnpool3d = MaxUnpoolNd<3>;

impl<const DIMS: usize> MaxUnpoolNd<DIMS> {
    /// The inverse of a pooling whose windows move by their own size.
    pub fn new(kernel_size: impl PerDim<DIMS>) -> MaxUnpoolNd<DIMS> {
        MaxUnpoolNd { params: moving(kernel_size) }
    }

    params_setters! { stride padding }

    /// Puts each element where its index says, into zeros; see
    /// [`max_unpool`](functional::max_unpool).
    ///
    /// # Errors
    ///
    /// An index is outside the result, or the input, the indices and the output size do not go
    /// together.
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

/// The mean of each window of `DIMS` spatial dimensions.
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

/// The mean of each window of one spatial dimension.
pub type AvgPool1d = AvgPoolNd<1>;
/// The mean of each window of two spatial dimensions.
pub type AvgPool2d = AvgPoolNd<2>;
/// The mean of each window of three spatial dimensions.
pub type AvgPool3d = AvgPoolNd<3>;

impl<const DIMS: usize> AvgPoolNd<DIMS> {
    /// Windows that move by their own size; padding counts in the divisor.
    pub fn new(kernel_size: impl PerDim<DIMS>) -> AvgPoolNd<DIMS> {
        let params = moving(kernel_size);
        AvgPoolNd { params, count_include_pad: true, divisor_override: None }
    }

    params_setters! { stride padding ceil_mode }
    setters! {
        /// Whether padding counts in the divisor: by default it does.
        count_include_pad: bool;
        /// A divisor to use instead of the number of elements.
        divisor_override: i64 => Some(divisor_override);
    }
}

impl<const DIMS: usize> Layer for AvgPoolNd<DIMS> {
    #[layer]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::avg_pool(x, &self.params, self.count_include_pad, self.divisor_override)
    }
}

/// The p-norm of each window of `DIMS` spatial dimensions.
///
/// # References
///
/// `torch.nn.LPPool1d`, `LPPool2d` and `LPPool3d`.
#[derive(Clone, Debug, Module)]
pub struct LPPoolNd<const DIMS: usize> {
    norm_type: f64,
    params: PoolParams,
}

/// The p-norm of each window of one spatial dimension.
pub type LPPool1d = LPPoolNd<1>;
/// The p-norm of each window of two spatial dimensions.
pub type LPPool2d = LPPoolNd<2>;
/// The p-norm of each window of three spatial dimensions.
pub type LPPool3d = LPPoolNd<3>;

impl<const DIMS: usize> LPPoolNd<DIMS> {
    /// Windows that move by their own size.
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

/// The mean of each window, for a given size of `DIMS` spatial dimensions of the result.
///
/// # References
///
/// `torch.nn.AdaptiveAvgPool1d`, `AdaptiveAvgPool2d` and `AdaptiveAvgPool3d`.
#[derive(Clone, Copy, Debug, Module)]
pub struct AdaptiveAvgPoolNd<const DIMS: usize> {
    output_size: [usize; DIMS],
}

/// The mean of each window, for a given size of one spatial dimension.
pub type AdaptiveAvgPool1d = AdaptiveAvgPoolNd<1>;
/// The mean of each window, for a given size of two spatial dimensions.
pub type AdaptiveAvgPool2d = AdaptiveAvgPoolNd<2>;
/// The mean of each window, for a given size of three spatial dimensions.
pub type AdaptiveAvgPool3d = AdaptiveAvgPoolNd<3>;

impl<const DIMS: usize> AdaptiveAvgPoolNd<DIMS> {
    /// With the size of each spatial dimension of the result.
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

/// The largest element of each window, for a given size of `DIMS` spatial dimensions of the
/// result.
///
/// # References
///
/// `torch.nn.AdaptiveMaxPool1d`, `AdaptiveMaxPool2d` and `AdaptiveMaxPool3d`.
#[derive(Clone, Copy, Debug, Module)]
pub struct AdaptiveMaxPoolNd<const DIMS: usize> {
    output_size: [usize; DIMS],
}

/// The largest element of each window, for a given size of one spatial dimension.
pub type AdaptiveMaxPool1d = AdaptiveMaxPoolNd<1>;
/// The largest element of each window, for a given size of two spatial dimensions.
pub type AdaptiveMaxPool2d = AdaptiveMaxPoolNd<2>;
/// The largest element of each window, for a given size of three spatial dimensions.
pub type AdaptiveMaxPool3d = AdaptiveMaxPoolNd<3>;

impl<const DIMS: usize> AdaptiveMaxPoolNd<DIMS> {
    /// With the size of each spatial dimension of the result.
    pub fn new(output_size: impl PerDim<DIMS>) -> AdaptiveMaxPoolNd<DIMS> {
        AdaptiveMaxPoolNd { output_size: output_size.per_dim() }
    }

    /// Computes the layer, and where each element was, for [`MaxUnpoolNd`].
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

/// The largest element of each window, the windows being at pseudo-random places, when evaluating
/// too.
///
/// # References
///
/// `torch.nn.FractionalMaxPool2d` and `FractionalMaxPool3d`.
#[derive(Clone, Copy, Debug, Module)]
pub struct FractionalMaxPoolNd<const DIMS: usize> {
    kernel_size: [usize; DIMS],
    output_size: [usize; DIMS],
}

/// Fractional pooling of two spatial dimensions.
pub type FractionalMaxPool2d = FractionalMaxPoolNd<2>;
/// Fractional pooling of three spatial dimensions.
pub type FractionalMaxPool3d = FractionalMaxPoolNd<3>;

impl<const DIMS: usize> FractionalMaxPoolNd<DIMS> {
    /// With the size of a window and of each spatial dimension of the result.
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
