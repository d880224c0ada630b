//! Running sums, products and extrema.

use super::{expect_dtype, expect_float, expect_number, expect_shape};
use crate::geometry::Split;
use crate::{Op, Pass, Result, Tensor};

/// The sum of each element and all before it along `dim`, in the contract's order of tiles.
#[derive(Clone, Debug)]
pub struct Cumsum {
    /// The tensor to scan.
    pub x: Tensor,
    /// The dimension.
    pub dim: usize,
    /// If true, scans from the last element to the first, as the gradient of the other direction
    /// needs.
    pub reverse: bool,
}

impl Op for Cumsum {
    const NAME: &'static str = "cumsum";
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![dim, reverse];

    fn plan(&self) -> Result<Split> {
        expect_number(Self::NAME, "the input", &self.x)?;
        Split::new(Self::NAME, self.x.shape(), self.dim)
    }
}

/// The product of each element and all before it along `dim`, in the contract's order of tiles.
#[derive(Clone, Debug)]
pub struct Cumprod {
    /// The tensor to scan.
    pub x: Tensor,
    /// The dimension.
    pub dim: usize,
}

impl Op for Cumprod {
    const NAME: &'static str = "cumprod";
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![dim];

    fn plan(&self) -> Result<Split> {
        expect_number(Self::NAME, "the input", &self.x)?;
        Split::new(Self::NAME, self.x.shape(), self.dim)
    }
}

/// The gradient of [`Cumprod`].
#[derive(Clone, Debug)]
pub struct CumprodGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub x: Tensor,
    /// As in the forward pass.
    pub dim: usize,
}

impl Op for CumprodGrad {
    const NAME: &'static str = "cumprod";
    const PASS: Pass = Pass::Backward;
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![grad, x];
    crate::parameters![dim];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the input", &self.x, self.grad.dtype())?;
        expect_shape(Self::NAME, "the gradient", &self.grad, self.x.shape())?;
        Split::new(Self::NAME, self.x.shape(), self.dim)
    }
}

/// The gradient of [`CumprodGrad`].
///
/// Returns the gradients with respect to its gradient and its input.
#[derive(Clone, Debug)]
pub struct CumprodGradGrad {
    /// The gradient of the result of [`CumprodGrad`].
    pub outer: Tensor,
    /// As in [`CumprodGrad`].
    pub grad: Tensor,
    /// As in the forward pass.
    pub x: Tensor,
    /// As in the forward pass.
    pub dim: usize,
}

impl Op for CumprodGradGrad {
    const NAME: &'static str = "cumprod_grad";
    const PASS: Pass = Pass::Backward;
    type Plan = Split;
    type Output = (Tensor, Tensor);

    crate::inputs![outer, grad, x];
    crate::parameters![dim];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the outer gradient", &self.outer)?;
        for (what, tensor) in [("the gradient", &self.grad), ("the input", &self.x)] {
            expect_dtype(Self::NAME, what, tensor, self.outer.dtype())?;
            expect_shape(Self::NAME, what, tensor, self.outer.shape())?;
        }
        Split::new(Self::NAME, self.x.shape(), self.dim)
    }
}

/// The logarithm of the sum of the exponentials of each element and all before it along `dim`.
#[derive(Clone, Debug)]
pub struct Logcumsumexp {
    /// The tensor to scan.
    pub x: Tensor,
    /// The dimension.
    pub dim: usize,
}

impl Op for Logcumsumexp {
    const NAME: &'static str = "logcumsumexp";
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![dim];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the input", &self.x)?;
        Split::new(Self::NAME, self.x.shape(), self.dim)
    }
}

/// The gradient of [`Logcumsumexp`].
#[derive(Clone, Debug)]
pub struct LogcumsumexpGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub x: Tensor,
    /// The result of the forward pass.
    pub y: Tensor,
    /// As in the forward pass.
    pub dim: usize,
}

impl Op for LogcumsumexpGrad {
    const NAME: &'static str = "logcumsumexp";
    const PASS: Pass = Pass::Backward;
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![grad, x, y];
    crate::parameters![dim];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        for (what, tensor) in [("the input", &self.x), ("the result", &self.y)] {
            expect_dtype(Self::NAME, what, tensor, self.grad.dtype())?;
            expect_shape(Self::NAME, what, tensor, self.grad.shape())?;
        }
        Split::new(Self::NAME, self.x.shape(), self.dim)
    }
}

/// The largest or smallest of each element and all before it along `dim`, and its index. Of equal
/// elements the first is taken; NaN counts as both the largest and the smallest.
#[derive(Clone, Debug)]
pub struct Cumextreme {
    /// The tensor to scan.
    pub x: Tensor,
    /// The dimension.
    pub dim: usize,
    /// True for the largest, false for the smallest.
    pub largest: bool,
}

impl Op for Cumextreme {
    const NAME: &'static str = "cumextreme";
    type Plan = Split;
    type Output = (Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![dim, largest];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the input", &self.x)?;
        Split::new(Self::NAME, self.x.shape(), self.dim)
    }
}
