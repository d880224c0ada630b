//! Pooling to a given output size.

use super::check_indexed_grad;
use crate::geometry::AdaptivePool;
use crate::ops::{expect_float, expect_shape};
use crate::{Op, Pass, Result, Tensor};

/// The mean of each window, with windows chosen for a given size of the result: output `o` of a
/// dimension covers the inputs from `floor(o · input / output)` to `ceil((o + 1) · input /
/// output)`.
#[derive(Clone, Debug)]
pub struct AdaptiveAvgPool {
    /// `[n, channels, ..]` with one to three spatial dimensions.
    pub input: Tensor,
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
}

impl Op for AdaptiveAvgPool {
    const NAME: &'static str = "adaptive_avg_pool";
    type Plan = AdaptivePool;
    type Output = Tensor;

    crate::inputs![input];
    crate::parameters![output_size];

    fn plan(&self) -> Result<AdaptivePool> {
        expect_float(Self::NAME, "the input", &self.input)?;
        AdaptivePool::new(Self::NAME, self.input.shape(), &self.output_size)
    }
}

/// The gradient of [`AdaptiveAvgPool`].
#[derive(Clone, Debug)]
pub struct AdaptiveAvgPoolGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// The shape of the forward pass's input.
    pub input_shape: Vec<usize>,
}

impl Op for AdaptiveAvgPoolGrad {
    const NAME: &'static str = "adaptive_avg_pool";
    const PASS: Pass = Pass::Backward;
    type Plan = AdaptivePool;
    type Output = Tensor;

    crate::inputs![grad];
    crate::parameters![input_shape];

    fn plan(&self) -> Result<AdaptivePool> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        let output_size = self.grad.shape().get(2..).unwrap_or(&[]);
        let pool = AdaptivePool::new(Self::NAME, &self.input_shape, output_size)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, pool.output_shape())?;
        Ok(pool)
    }
}

/// The largest element of each window, with the windows of [`AdaptiveAvgPool`], and its index, as
/// in [`MaxPool`](crate::ops::MaxPool).
#[derive(Clone, Debug)]
pub struct AdaptiveMaxPool {
    /// `[n, channels, ..]` with one to three spatial dimensions.
    pub input: Tensor,
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
}

impl Op for AdaptiveMaxPool {
    const NAME: &'static str = "adaptive_max_pool";
    type Plan = AdaptivePool;
    type Output = (Tensor, Tensor);

    crate::inputs![input];
    crate::parameters![output_size];

    fn plan(&self) -> Result<AdaptivePool> {
        expect_float(Self::NAME, "the input", &self.input)?;
        AdaptivePool::new(Self::NAME, self.input.shape(), &self.output_size)
    }
}

/// The gradient of [`AdaptiveMaxPool`].
#[derive(Clone, Debug)]
pub struct AdaptiveMaxPoolGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// The indices that the forward pass returned.
    pub indices: Tensor,
    /// The shape of the forward pass's input.
    pub input_shape: Vec<usize>,
}

impl Op for AdaptiveMaxPoolGrad {
    const NAME: &'static str = "adaptive_max_pool";
    const PASS: Pass = Pass::Backward;
    type Plan = ();
    type Output = Tensor;

    crate::inputs![grad, indices];
    crate::parameters![input_shape];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        check_indexed_grad(Self::NAME, &self.grad, &self.indices, &self.input_shape)
    }
}
