//! Resizing by interpolation.

use super::{expect_float, expect_shape};
use crate::geometry::{InterpolateMode, Resize};
use crate::{Op, Pass, Result, Tensor};

/// The resized input: each output is a weighted mean of a few inputs. The weights of a dimension
/// are computed in f64 and rounded; those of several dimensions are multiplied.
#[derive(Clone, Debug)]
pub struct Interpolate {
    /// `[n, channels, ..]` with one to three spatial dimensions.
    pub input: Tensor,
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
    /// Outputs per input, for each spatial dimension. A given scale replaces `output / input` in
    /// the coordinates, unless corners are aligned.
    pub scales: Vec<Option<f64>>,
    /// The interpolation between elements of the input.
    pub mode: InterpolateMode,
}

impl Op for Interpolate {
    const NAME: &'static str = "interpolate";
    type Plan = Resize;
    type Output = Tensor;

    crate::inputs![input];
    crate::parameters![output_size, scales, mode];

    fn plan(&self) -> Result<Resize> {
        expect_float(Self::NAME, "the input", &self.input)?;
        let shape = self.input.shape();
        Resize::new(Self::NAME, shape, &self.output_size, &self.scales, self.mode)
    }
}

/// The gradient of [`Interpolate`]: contributions in ascending output index, by fma from +0.
#[derive(Clone, Debug)]
pub struct InterpolateGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// The shape of the forward pass's input.
    pub input_shape: Vec<usize>,
    /// As in the forward pass.
    pub scales: Vec<Option<f64>>,
    /// As in the forward pass.
    pub mode: InterpolateMode,
}

impl Op for InterpolateGrad {
    const NAME: &'static str = "interpolate";
    const PASS: Pass = Pass::Backward;
    type Plan = Resize;
    type Output = Tensor;

    crate::inputs![grad];
    crate::parameters![input_shape, scales, mode];

    fn plan(&self) -> Result<Resize> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        let output_size = self.grad.shape().get(2..).unwrap_or(&[]);
        let shape = &self.input_shape;
        let resize = Resize::new(Self::NAME, shape, output_size, &self.scales, self.mode)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, resize.output_shape())?;
        Ok(resize)
    }
}
