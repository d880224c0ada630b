//! Pooling to a given output size.

use super::check_indexed_grad;
use crate::ops::{checked_shape, expect_float, expect_shape, spatial};
use crate::{Error, Op, Pass, Result, Tensor};

/// The mean of each window, for a given size of the result: output `o` of a dimension covers the
/// inputs from `floor(o · input / output)` to `ceil((o + 1) · input / output)`.
#[derive(Clone, Debug)]
pub struct AdaptiveAvgPool {
    /// `[n, channels, ..]` with one to three spatial dimensions.
    pub input: Tensor,
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
}

impl Op for AdaptiveAvgPool {
    const NAME: &'static str = "adaptive_avg_pool";
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.input]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.input)?;
        adaptive_shape(Self::NAME, self.input.shape(), &self.output_size).map(|_| ())
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
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.grad]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        checked_shape(Self::NAME, &self.input_shape)?;
        let output_size = self.grad.shape().get(2..).unwrap_or(&[]);
        let shape = adaptive_shape(Self::NAME, &self.input_shape, output_size)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, &shape)
    }
}

/// The largest element of each window of [`AdaptiveAvgPool`]'s, and where it was, as in
/// [`MaxPool`](crate::ops::MaxPool).
#[derive(Clone, Debug)]
pub struct AdaptiveMaxPool {
    /// `[n, channels, ..]` with one to three spatial dimensions.
    pub input: Tensor,
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
}

impl Op for AdaptiveMaxPool {
    const NAME: &'static str = "adaptive_max_pool";
    type Plan = ();
    type Output = (Tensor, Tensor);

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.input]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.input)?;
        adaptive_shape(Self::NAME, self.input.shape(), &self.output_size).map(|_| ())
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

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.grad, &self.indices]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        check_indexed_grad(Self::NAME, &self.grad, &self.indices, &self.input_shape)
    }
}

/// The shape of the result.
pub(super) fn adaptive_shape(
    op: &'static str,
    input: &[usize],
    output_size: &[usize],
) -> Result<Vec<usize>> {
    let (planes, size) = spatial(op, input, 1..=3)?;
    if output_size.len() != size.len() {
        return Err(Error::invalid(
            op,
            format!("an input of shape {input:?} cannot be pooled to the size {output_size:?}"),
        ));
    }
    if size.contains(&0) {
        return Err(Error::invalid(
            op,
            format!("the spatial dimensions of the input must not be empty, got {input:?}"),
        ));
    }
    checked_shape(op, &[planes, output_size].concat())
}
