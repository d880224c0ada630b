//! Sampling of an image or a volume at given points.

use super::{checked_shape, expect_dtype, expect_float, expect_shape, spatial};
use crate::{Error, Op, Pass, Result, Tensor};

/// How values between the input's elements are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GridMode {
    /// The nearest element; halfway, the one with the even coordinate.
    Nearest,
    /// The two neighbours in each dimension.
    Linear,
    /// The four neighbours in each dimension, by cubic convolution with a = -0.75; for images.
    Cubic,
}

/// What lies outside the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GridPadding {
    /// Zeros.
    Zeros,
    /// The nearest element of the border.
    Border,
    /// The input mirrored at its border.
    Reflection,
}

/// How a grid is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GridParams {
    /// How values between the input's elements are found.
    pub mode: GridMode,
    /// What lies outside the input.
    pub padding: GridPadding,
    /// The coordinates -1 and 1 are the centres of the corner elements, not their outer corners.
    pub align_corners: bool,
}

/// The input at the points of a grid.
#[derive(Clone, Debug)]
pub struct GridSample {
    /// `[n, channels, height, width]` or `[n, channels, depth, height, width]`.
    pub input: Tensor,
    /// `[n, .., 2]` or `[n, .., 3]`: the coordinates (x, y) or (x, y, z) of each point of the
    /// result, which has as many spatial dimensions as the input.
    pub grid: Tensor,
    /// How the grid is read.
    pub params: GridParams,
}

impl Op for GridSample {
    const NAME: &'static str = "grid_sample";
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.input, &self.grid]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.input)?;
        sampled_shape(Self::NAME, self.input.shape(), &self.grid, self.params.mode)?;
        expect_dtype(Self::NAME, "the grid", &self.grid, self.input.dtype())
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
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.grad, &self.grid]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        checked_shape(Self::NAME, &self.input_shape)?;
        let shape = sampled_shape(Self::NAME, &self.input_shape, &self.grid, self.params.mode)?;
        expect_dtype(Self::NAME, "the grid", &self.grid, self.grad.dtype())?;
        expect_shape(Self::NAME, "the gradient", &self.grad, &shape)
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
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.grad, &self.input, &self.grid]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        let shape = sampled_shape(Self::NAME, self.input.shape(), &self.grid, self.params.mode)?;
        expect_dtype(Self::NAME, "the input", &self.input, self.grad.dtype())?;
        expect_dtype(Self::NAME, "the grid", &self.grid, self.grad.dtype())?;
        expect_shape(Self::NAME, "the gradient", &self.grad, &shape)
    }
}

/// The shape of the result.
fn sampled_shape(
    op: &'static str,
    input: &[usize],
    grid: &Tensor,
    mode: GridMode,
) -> Result<Vec<usize>> {
    let (planes, size) = spatial(op, input, 2..=3)?;
    let dims = size.len();
    let grid = grid.shape();
    if grid.len() != dims + 2 || grid[0] != planes[0] || grid[dims + 1] != dims {
        return Err(Error::invalid(
            op,
            format!(
                "an input of shape {input:?} needs a grid with {} dimensions, the first of size {} \
                 and the last of size {dims}, got {grid:?}",
                dims + 2,
                planes[0]
            ),
        ));
    }
    if size.contains(&0) {
        return Err(Error::invalid(
            op,
            format!("the spatial dimensions of the input must not be empty, got {input:?}"),
        ));
    }
    if dims == 3 && mode == GridMode::Cubic {
        return Err(Error::invalid(op, "cubic sampling is for two spatial dimensions, got 3"));
    }
    checked_shape(op, &[planes, &grid[1..=dims]].concat())
}
