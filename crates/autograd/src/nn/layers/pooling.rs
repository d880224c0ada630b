use samebits_tensor_core::ops::PoolParams;
use samebits_tensor_core::{Error, Result};

use crate::nn::{Context, Module, Slot};
use crate::{Tensor, functional};

/// The largest element of each window.
#[derive(Clone, Debug)]
pub struct MaxPool {
    /// How the window moves.
    pub params: PoolParams,
}

impl Module for MaxPool {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        Ok(functional::max_pool(x, &self.params)?.0)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

impl MaxPool {
    /// Computes the layer, and where each element was: for [`MaxUnpool2d`].
    ///
    /// # Errors
    ///
    /// The input does not fit the layer.
    pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        functional::max_pool(x, &self.params)
    }
}

/// The partial inverse of a [`MaxPool`] over `DIMS` spatial dimensions. It has no state, and no
/// [`Module`]'s signature, because it takes indices.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::nn::{MaxPool, MaxUnpool1d};
/// use samebits_tensor_core::ops::PoolParams;
///
/// let params = PoolParams::square(1, 2);
/// let (pool, unpool) = (MaxPool { params: params.clone() }, MaxUnpool1d { params });
/// let x = Tensor::from_slice(&[1.0f32, 3.0, 4.0, 2.0], &[1, 1, 4])?;
/// let (y, indices) = pool.forward_with_indices(&x)?;
/// let back = unpool.forward(&y, &indices, None)?;
/// assert_eq!(back.to_vec::<f32>()?, [0.0, 3.0, 4.0, 0.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.MaxUnpool1d`, `MaxUnpool2d` and `MaxUnpool3d`.
#[derive(Clone, Debug)]
pub struct MaxUnpoolNd<const DIMS: usize> {
    /// How the window of the pooling moves.
    pub params: PoolParams,
}

/// The inverse of a pooling over one spatial dimension.
pub type MaxUnpool1d = MaxUnpoolNd<1>;
/// The inverse of a pooling over two spatial dimensions.
pub type MaxUnpool2d = MaxUnpoolNd<2>;
/// The inverse of a pooling over three spatial dimensions.
pub type MaxUnpool3d = MaxUnpoolNd<3>;

impl<const DIMS: usize> MaxUnpoolNd<DIMS> {
    /// Puts each element where its index says, into zeros; see
    /// [`max_unpool`](functional::max_unpool).
    ///
    /// # Errors
    ///
    /// The parameters have other dimensions than `DIMS`, an index is outside the result, or the
    /// input, the indices and the output size do not go together.
    pub fn forward(
        &self,
        x: &Tensor,
        indices: &Tensor,
        output_size: Option<&[usize]>,
    ) -> Result<Tensor> {
        if self.params.kernel.len() != DIMS {
            return Err(Error::invalid(
                "max_unpool",
                format!("a kernel {:?} for {DIMS} spatial dimensions", self.params.kernel),
            ));
        }
        functional::max_unpool(x, indices, &self.params, output_size)
    }
}

/// The mean of each window.
#[derive(Clone, Debug)]
pub struct AvgPool {
    /// How the window moves.
    pub params: PoolParams,
    /// Whether padding counts in the divisor.
    pub count_include_pad: bool,
    /// A divisor to use instead of the number of elements.
    pub divisor_override: Option<i64>,
}

impl Module for AvgPool {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        functional::avg_pool(x, &self.params, self.count_include_pad, self.divisor_override)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// The p-norm of each window.
#[derive(Clone, Debug)]
pub struct LpPool {
    /// The p of the norm.
    pub norm: f64,
    /// How the window moves.
    pub params: PoolParams,
}

impl Module for LpPool {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        functional::lp_pool(x, self.norm, &self.params)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// The mean of each window, for a given size of the result.
#[derive(Clone, Debug)]
pub struct AdaptiveAvgPool {
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
}

impl Module for AdaptiveAvgPool {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        functional::adaptive_avg_pool(x, &self.output_size)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// The largest element of each window, for a given size of the result.
#[derive(Clone, Debug)]
pub struct AdaptiveMaxPool {
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
}

impl Module for AdaptiveMaxPool {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        Ok(functional::adaptive_max_pool(x, &self.output_size)?.0)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}

/// The largest element of each window, the windows being at pseudo-random places.
#[derive(Clone, Debug)]
pub struct FractionalMaxPool {
    /// The size of a window.
    pub kernel: Vec<usize>,
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
}

impl Module for FractionalMaxPool {
    fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor> {
        let samples = functional::fractional_samples(x, self.kernel.len(), context.generator)?;
        Ok(functional::fractional_max_pool(x, &self.kernel, &self.output_size, &samples)?.0)
    }

    fn visit(&mut self, _: &str, _: &mut dyn FnMut(&str, Slot<'_>)) {}
}
