//! Pooling over one to three spatial dimensions.

mod adaptive;
mod fractional;
mod unpool;

pub use adaptive::{AdaptiveAvgPool, AdaptiveAvgPoolGrad, AdaptiveMaxPool, AdaptiveMaxPoolGrad};
pub use fractional::{FractionalMaxPool, FractionalMaxPoolGrad};
pub use unpool::{MaxUnpool, MaxUnpoolGrad};

use super::{checked_shape, expect_dtype, expect_float, expect_shape, spatial};
use crate::{DType, Error, Op, Pass, Result, Tensor};

/// How a pooling window moves; each list has one entry per spatial dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolParams {
    /// The window's size.
    pub kernel: Vec<usize>,
    /// The distance between neighbouring windows.
    pub stride: Vec<usize>,
    /// How far the window reaches past each border: at most half its size.
    pub padding: Vec<usize>,
    /// The distance between neighbouring taps; 1 for average pooling.
    pub dilation: Vec<usize>,
    /// Whether a last window may reach past the padded input.
    pub ceil_mode: bool,
}

impl PoolParams {
    /// A window of `kernel` on `rank` dimensions that moves by its own size.
    pub fn square(rank: usize, kernel: usize) -> PoolParams {
        PoolParams {
            kernel: vec![kernel; rank],
            stride: vec![kernel; rank],
            padding: vec![0; rank],
            dilation: vec![1; rank],
            ceil_mode: false,
        }
    }

    /// The shape of the result.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the parameters do not go together or no window fits.
    pub fn output_shape(&self, op: &'static str, input: &[usize]) -> Result<Vec<usize>> {
        let (planes, size) = spatial(op, input, 1..=3)?;
        checked_shape(op, input)?;
        checked_shape(op, &[planes, &self.output_size(op, size)?].concat())
    }

    /// The size of each spatial dimension of the result, for an input of `size`.
    ///
    /// # Errors
    ///
    /// As [`output_shape`](PoolParams::output_shape).
    ///
    /// # References
    ///
    /// `torch.nn.functional.max_pool2d`, `pooling_output_shape` in ATen.
    pub fn output_size(&self, op: &'static str, size: &[usize]) -> Result<Vec<usize>> {
        let rank = self.kernel.len();
        let lists = [&self.stride, &self.padding, &self.dilation];
        if !(1..=3).contains(&rank)
            || lists.iter().any(|list| list.len() != rank)
            || size.len() != rank
        {
            return Err(Error::invalid(
                op,
                format!("parameters {self:?} do not fit spatial dimensions of size {size:?}"),
            ));
        }
        (0..rank).map(|dim| self.output_of(op, dim, size[dim])).collect()
    }

    fn output_of(&self, op: &'static str, dim: usize, input: usize) -> Result<usize> {
        let (kernel, stride) = (self.kernel[dim], self.stride[dim]);
        let (padding, dilation) = (self.padding[dim], self.dilation[dim]);
        if kernel == 0 || stride == 0 || dilation == 0 {
            return Err(Error::invalid(
                op,
                format!(
                    "kernel {kernel}, stride {stride} and dilation {dilation} must be at least 1"
                ),
            ));
        }
        let window = (kernel - 1).saturating_mul(dilation).saturating_add(1);
        // PyTorch's rule: with more, a window could lie wholly in the padding.
        if padding > window / 2 {
            return Err(Error::invalid(
                op,
                format!("padding {padding} is more than half the window of {window}"),
            ));
        }
        let padded = input.saturating_add(padding.saturating_mul(2));
        if input == 0 || padded < window {
            return Err(Error::invalid(
                op,
                format!("a window of {window} does not fit the padded size {padded}"),
            ));
        }
        let slack = padded - window;
        if !self.ceil_mode {
            return Ok(slack / stride + 1);
        }
        let size = slack.div_ceil(stride) + 1;
        // The last window must start inside the input or its left padding.
        let start = (size - 1).saturating_mul(stride);
        Ok(if start >= input.saturating_add(padding) { size - 1 } else { size })
    }
}

/// The largest element of each window and where it was: its index in the flattened spatial
/// dimensions of the input. The first of equal ones; NaN counts as the largest.
#[derive(Clone, Debug)]
pub struct MaxPool {
    /// `[n, channels, ..]`
    pub input: Tensor,
    /// How the window moves.
    pub params: PoolParams,
}

impl Op for MaxPool {
    const NAME: &'static str = "max_pool";
    type Plan = ();
    type Output = (Tensor, Tensor);

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.input]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.input)?;
        self.params.output_shape(Self::NAME, self.input.shape()).map(|_| ())
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
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.grad, &self.indices]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the indices", &self.indices, DType::I64)?;
        let shape = self.params.output_shape(Self::NAME, &self.input_shape)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, &shape)?;
        expect_shape(Self::NAME, "the indices", &self.indices, &shape)
    }
}

/// The mean of each window.
#[derive(Clone, Debug)]
pub struct AvgPool {
    /// `[n, channels, ..]`
    pub input: Tensor,
    /// How the window moves.
    pub params: PoolParams,
    /// Whether padding counts in the divisor.
    pub count_include_pad: bool,
    /// A divisor to use instead of the number of elements.
    pub divisor_override: Option<i64>,
}

impl Op for AvgPool {
    const NAME: &'static str = "avg_pool";
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.input]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.input)?;
        check_average(Self::NAME, &self.params, self.divisor_override)?;
        self.params.output_shape(Self::NAME, self.input.shape()).map(|_| ())
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
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.grad]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        check_average(Self::NAME, &self.params, self.divisor_override)?;
        let shape = self.params.output_shape(Self::NAME, &self.input_shape)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, &shape)
    }
}

fn check_average(op: &'static str, params: &PoolParams, divisor: Option<i64>) -> Result<()> {
    if divisor == Some(0) {
        return Err(Error::invalid(op, "the divisor must not be 0"));
    }
    if params.dilation.iter().any(|&dilation| dilation != 1) {
        return Err(Error::invalid(op, format!("dilation {:?} must be 1", params.dilation)));
    }
    Ok(())
}

/// Checks the gradient of a pooling whose windows have an index each.
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
                "indices of shape {:?} do not go with an input of shape {input:?}",
                indices.shape()
            ),
        ));
    }
    checked_shape(op, input).map(|_| ())
}
