//! Convolution over one to three spatial dimensions.

use super::{expect_dtype, expect_float, expect_shape};
use crate::geometry::{ConvParams, ConvPass, Convolution};
use crate::{Op, Pass, Result, Tensor};

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
    const NAME: &'static str = ConvPass::Forward.op();
    type Plan = Convolution;
    type Output = Tensor;

    crate::inputs![input, weight, bias];
    crate::parameters![params];

    fn plan(&self) -> Result<Convolution> {
        expect_float(Self::NAME, "the input", &self.input)?;
        expect_dtype(Self::NAME, "the weight", &self.weight, self.input.dtype())?;
        if let Some(bias) = &self.bias {
            expect_dtype(Self::NAME, "the bias", bias, self.input.dtype())?;
            let channels = self.weight.shape().first().copied().unwrap_or(0);
            expect_shape(Self::NAME, "the bias", bias, &[channels])?;
        }
        Convolution::new(Self::NAME, self.input.shape(), self.weight.shape(), &self.params)
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
    const NAME: &'static str = ConvPass::InputGrad.op();
    const PASS: Pass = Pass::Backward;
    type Plan = Convolution;
    type Output = Tensor;

    crate::inputs![grad, weight];
    crate::parameters![input_shape, params];

    fn plan(&self) -> Result<Convolution> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the weight", &self.weight, self.grad.dtype())?;
        let conv =
            Convolution::new(Self::NAME, &self.input_shape, self.weight.shape(), &self.params)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, &conv.output_shape())?;
        Ok(conv)
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
    const NAME: &'static str = ConvPass::WeightGrad.op();
    const PASS: Pass = Pass::Backward;
    type Plan = Convolution;
    type Output = Tensor;

    crate::inputs![grad, input];
    crate::parameters![weight_shape, params];

    fn plan(&self) -> Result<Convolution> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the input", &self.input, self.grad.dtype())?;
        let conv =
            Convolution::new(Self::NAME, self.input.shape(), &self.weight_shape, &self.params)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, &conv.output_shape())?;
        Ok(conv)
    }
}
