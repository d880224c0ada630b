//! Sampling of an image or a volume at given points.

use super::{expect_dtype, expect_float, expect_shape};
use crate::geometry::{GridParams, Sampling};
use crate::{Op, Pass, Result, Tensor};

/// The values of the input at the points of a grid.
#[derive(Clone, Debug)]
pub struct GridSample {
    /// `[n, channels, height, width]` or `[n, channels, depth, height, width]`.
    pub input: Tensor,
    /// `[n, .., 2]` or `[n, .., 3]`: the coordinates (x, y) or (x, y, z) of each point of the
    /// result, which has as many spatial dimensions as the input.
    pub grid: Tensor,
    /// The options.
    pub params: GridParams,
}

impl Op for GridSample {
    const NAME: &'static str = "grid_sample";
    type Plan = Sampling;
    type Output = Tensor;

    crate::inputs![input, grid];
    crate::parameters![params];

    fn plan(&self) -> Result<Sampling> {
        expect_float(Self::NAME, "the input", &self.input)?;
        expect_dtype(Self::NAME, "the grid", &self.grid, self.input.dtype())?;
        Sampling::new(Self::NAME, self.input.shape(), self.grid.shape(), self.params)
    }
}

/// The gradient of [`GridSample`] with respect to its input: an irregular sum.
#[derive(Clone, Debug)]
pub struct GridSampleInputGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub grid: Tensor,
    /// The shape of the forward pass's input.
    pub input_shape: Vec<usize>,
    /// As in the forward pass.
    pub params: GridParams,
}

impl Op for GridSampleInputGrad {
    const NAME: &'static str = "grid_sample_input";
    const PASS: Pass = Pass::Backward;
    type Plan = Sampling;
    type Output = Tensor;

    crate::inputs![grad, grid];
    crate::parameters![input_shape, params];

    fn plan(&self) -> Result<Sampling> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the grid", &self.grid, self.grad.dtype())?;
        let grid = self.grid.shape();
        let sampling = Sampling::new(Self::NAME, &self.input_shape, grid, self.params)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, sampling.output_shape())?;
        Ok(sampling)
    }
}

/// The gradient of [`GridSample`] with respect to its grid.
#[derive(Clone, Debug)]
pub struct GridSampleGridGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub input: Tensor,
    /// As in the forward pass.
    pub grid: Tensor,
    /// As in the forward pass.
    pub params: GridParams,
}

impl Op for GridSampleGridGrad {
    const NAME: &'static str = "grid_sample_grid";
    const PASS: Pass = Pass::Backward;
    type Plan = Sampling;
    type Output = Tensor;

    crate::inputs![grad, input, grid];
    crate::parameters![params];

    fn plan(&self) -> Result<Sampling> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the input", &self.input, self.grad.dtype())?;
        expect_dtype(Self::NAME, "the grid", &self.grid, self.grad.dtype())?;
        let (input, grid) = (self.input.shape(), self.grid.shape());
        let sampling = Sampling::new(Self::NAME, input, grid, self.params)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, sampling.output_shape())?;
        Ok(sampling)
    }
}
