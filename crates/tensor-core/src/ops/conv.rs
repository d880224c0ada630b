//! Convolution over one to three spatial dimensions.

use super::{checked_shape, expect_dtype, expect_float, expect_shape};
use crate::layout::numel;
use crate::{Error, Op, Pass, Result, Tensor};

/// How a convolution's window moves; each list has one entry per spatial dimension.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConvParams {
    /// The distance between neighbouring windows.
    pub stride: Vec<usize>,
    /// How far the window reaches past each border. Taps there are skipped, not multiplied with
    /// zero.
    pub padding: Vec<usize>,
    /// The distance between neighbouring taps.
    pub dilation: Vec<usize>,
    /// The number of groups of channels that do not see each other.
    pub groups: usize,
}

impl ConvParams {
    /// Stride 1, dilation 1, one group, and the same padding on `rank` spatial dimensions.
    pub fn padded(rank: usize, padding: usize) -> ConvParams {
        ConvParams {
            stride: vec![1; rank],
            padding: vec![padding; rank],
            dilation: vec![1; rank],
            groups: 1,
        }
    }

    /// The shape `[n, out_channels, ..]` of the result.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the parameters or shapes do not go together, or a window does
    /// not fit its padded input.
    pub fn output_shape(
        &self,
        op: &'static str,
        input: &[usize],
        weight: &[usize],
    ) -> Result<Vec<usize>> {
        for shape in [input, weight] {
            numel(op, shape)?;
        }
        let rank = self.stride.len();
        if !(1..=3).contains(&rank) || self.padding.len() != rank || self.dilation.len() != rank {
            return Err(Error::invalid(
                op,
                format!(
                    "stride {:?}, padding {:?} and dilation {:?} must have 1 to 3 entries each, as many",
                    self.stride, self.padding, self.dilation
                ),
            ));
        }
        if input.len() != rank + 2 || weight.len() != rank + 2 {
            return Err(Error::invalid(
                op,
                format!(
                    "expected input and weight with {} dimensions, got {input:?} and {weight:?}",
                    rank + 2
                ),
            ));
        }
        if self.stride.contains(&0) || self.dilation.contains(&0) || self.groups == 0 {
            return Err(Error::invalid(
                op,
                format!(
                    "stride {:?}, dilation {:?} and groups {} must be at least 1",
                    self.stride, self.dilation, self.groups
                ),
            ));
        }
        if input[1] != weight[1].saturating_mul(self.groups)
            || !weight[0].is_multiple_of(self.groups)
        {
            return Err(Error::invalid(
                op,
                format!(
                    "input {input:?} and weight {weight:?} do not go together with {} groups",
                    self.groups
                ),
            ));
        }
        let mut shape = vec![input[0], weight[0]];
        for dim in 0..rank {
            let size = input[dim + 2].saturating_add(self.padding[dim].saturating_mul(2));
            let window = weight[dim + 2]
                .checked_sub(1)
                .and_then(|taps| taps.checked_mul(self.dilation[dim]))
                .and_then(|reach| reach.checked_add(1))
                .filter(|&window| window <= size);
            let Some(window) = window else {
                return Err(Error::invalid(
                    op,
                    format!(
                        "a kernel of size {} with dilation {} does not fit the padded size {size} of \
                         spatial dimension {dim}",
                        weight[dim + 2],
                        self.dilation[dim]
                    ),
                ));
            };
            shape.push((size - window) / self.stride[dim] + 1);
        }
        checked_shape(op, &shape)
    }
}

/// Cross-correlation, as PyTorch's `conv1d`, `conv2d` and `conv3d`.
#[derive(Clone, Debug)]
pub struct Conv {
    /// `[n, in_channels, ..]`
    pub input: Tensor,
    /// `[out_channels, in_channels / groups, ..]`
    pub weight: Tensor,
    /// `[out_channels]`, added after the contraction.
    pub bias: Option<Tensor>,
    /// How the window moves.
    pub params: ConvParams,
}

impl Op for Conv {
    const NAME: &'static str = "conv";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![input, weight, bias];
    crate::parameters![params];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.input)?;
        expect_dtype(Self::NAME, "the weight", &self.weight, self.input.dtype())?;
        if let Some(bias) = &self.bias {
            expect_dtype(Self::NAME, "the bias", bias, self.input.dtype())?;
            let channels = self.weight.shape().first().copied().unwrap_or(0);
            expect_shape(Self::NAME, "the bias", bias, &[channels])?;
        }
        self.params.output_shape(Self::NAME, self.input.shape(), self.weight.shape()).map(|_| ())
    }
}

/// The gradient of [`Conv`] with respect to its input.
#[derive(Clone, Debug)]
pub struct ConvInputGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub weight: Tensor,
    /// The shape of the forward pass's input.
    pub input_shape: Vec<usize>,
    /// As in the forward pass.
    pub params: ConvParams,
}

impl Op for ConvInputGrad {
    const NAME: &'static str = "conv_input";
    const PASS: Pass = Pass::Backward;
    type Plan = ();
    type Output = Tensor;

    crate::inputs![grad, weight];
    crate::parameters![input_shape, params];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the weight", &self.weight, self.grad.dtype())?;
        let shape = self.params.output_shape(Self::NAME, &self.input_shape, self.weight.shape())?;
        expect_shape(Self::NAME, "the gradient", &self.grad, &shape)
    }
}

/// The gradient of [`Conv`] with respect to its weight.
#[derive(Clone, Debug)]
pub struct ConvWeightGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub input: Tensor,
    /// The shape of the forward pass's weight.
    pub weight_shape: Vec<usize>,
    /// As in the forward pass.
    pub params: ConvParams,
}

impl Op for ConvWeightGrad {
    const NAME: &'static str = "conv_weight";
    const PASS: Pass = Pass::Backward;
    type Plan = ();
    type Output = Tensor;

    crate::inputs![grad, input];
    crate::parameters![weight_shape, params];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the input", &self.input, self.grad.dtype())?;
        let shape = self.params.output_shape(Self::NAME, self.input.shape(), &self.weight_shape)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, &shape)
    }
}
