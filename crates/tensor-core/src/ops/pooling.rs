//! Pooling over one to three spatial dimensions.

mod adaptive;
mod fractional;
mod unpool;

pub use adaptive::{AdaptiveAvgPool, AdaptiveAvgPoolGrad, AdaptiveMaxPool, AdaptiveMaxPoolGrad};
pub use fractional::{FractionalMaxPool, FractionalMaxPoolGrad};
pub use unpool::{MaxUnpool, MaxUnpoolGrad};

use super::{checked_shape, expect_dtype, expect_float, expect_shape, spatial};
use crate::geometry::{Average, Pool, PoolParams};
use crate::{DType, Error, Op, Pass, Result, Tensor};

/// The largest element of each window and its index in the flattened spatial dimensions of the
/// input. The first of equal elements is taken; NaN counts as the largest.
#[derive(Clone, Debug)]
pub struct MaxPool {
    /// `[n, channels, ..]`
    pub input: Tensor,
    /// The window and its movement.
    pub params: PoolParams,
}

impl Op for MaxPool {
    const NAME: &'static str = "max_pool";
    type Plan = Pool;
    type Output = (Tensor, Tensor);

    crate::inputs![input];
    crate::parameters![params];

    fn plan(&self) -> Result<Pool> {
        expect_float(Self::NAME, "the input", &self.input)?;
        Pool::new(Self::NAME, self.input.shape(), &self.params)
    }
}

/// The gradient of [`MaxPool`].
#[derive(Clone, Debug)]
pub struct MaxPoolGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// The indices that the forward pass returned.
    pub indices: Tensor,
    /// The shape of the forward pass's input.
    pub input_shape: Vec<usize>,
    /// As in the forward pass.
    pub params: PoolParams,
}

impl Op for MaxPoolGrad {
    const NAME: &'static str = "max_pool";
    const PASS: Pass = Pass::Backward;
    type Plan = Pool;
    type Output = Tensor;

    crate::inputs![grad, indices];
    crate::parameters![input_shape, params];

    fn plan(&self) -> Result<Pool> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the indices", &self.indices, DType::I64)?;
        let pool = Pool::new(Self::NAME, &self.input_shape, &self.params)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, pool.output_shape())?;
        expect_shape(Self::NAME, "the indices", &self.indices, pool.output_shape())?;
        Ok(pool)
    }
}

/// The mean of each window.
#[derive(Clone, Debug)]
pub struct AvgPool {
    /// `[n, channels, ..]`
    pub input: Tensor,
    /// The window and its movement.
    pub params: PoolParams,
    /// True if padding counts in the divisor.
    pub count_include_pad: bool,
    /// A divisor to use instead of the number of elements.
    pub divisor_override: Option<i64>,
}

impl Op for AvgPool {
    const NAME: &'static str = "avg_pool";
    type Plan = Average;
    type Output = Tensor;

    crate::inputs![input];
    crate::parameters![params, count_include_pad, divisor_override];

    fn plan(&self) -> Result<Average> {
        expect_float(Self::NAME, "the input", &self.input)?;
        let pool = Pool::new(Self::NAME, self.input.shape(), &self.params)?;
        Average::new(pool, self.count_include_pad, self.divisor_override)
    }
}

/// The gradient of [`AvgPool`].
#[derive(Clone, Debug)]
pub struct AvgPoolGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// The shape of the forward pass's input.
    pub input_shape: Vec<usize>,
    /// As in the forward pass.
    pub params: PoolParams,
    /// As in the forward pass.
    pub count_include_pad: bool,
    /// As in the forward pass.
    pub divisor_override: Option<i64>,
}

impl Op for AvgPoolGrad {
    const NAME: &'static str = "avg_pool";
    const PASS: Pass = Pass::Backward;
    type Plan = Average;
    type Output = Tensor;

    crate::inputs![grad];
    crate::parameters![input_shape, params, count_include_pad, divisor_override];

    fn plan(&self) -> Result<Average> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        let pool = Pool::new(Self::NAME, &self.input_shape, &self.params)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, pool.output_shape())?;
        Average::new(pool, self.count_include_pad, self.divisor_override)
    }
}

/// Checks the gradient of a pooling that returns one index per window.
fn check_indexed_grad(
    op: &'static str,
    grad: &Tensor,
    indices: &Tensor,
    input: &[usize],
) -> Result<()> {
    expect_dtype(op, "the indices", indices, DType::I64)?;
    expect_shape(op, "the indices", indices, grad.shape())?;
    let (planes, size) = spatial(op, input, 1..=3)?;
    let (grad_planes, grad_size) = spatial(op, grad.shape(), 1..=3)?;
    if planes != grad_planes || size.len() != grad_size.len() {
        return Err(Error::invalid(
            op,
            format!(
                "indices of shape {:?} do not fit an input of shape {input:?}",
                indices.shape()
            ),
        ));
    }
    checked_shape(op, input).map(|_| ())
}
