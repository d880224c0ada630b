//! Padding.

use super::{expect_float, expect_shape};
use crate::geometry::{PadMode, Padding};
use crate::{Op, Pass, Result, Tensor};

/// The input, padded in its last dimensions.
#[derive(Clone, Debug)]
pub struct Pad {
    /// The tensor to pad.
    pub input: Tensor,
    /// The number of elements `[before, after]` to add to each of the last one to three dimensions,
    /// in their order; a negative number cuts off.
    pub pads: Vec<[i64; 2]>,
    /// The values of the padding.
    pub mode: PadMode,
    /// The value of [`PadMode::Constant`], converted to the element type.
    pub value: f64,
}

impl Op for Pad {
    const NAME: &'static str = "pad";
    type Plan = Padding;
    type Output = Tensor;

    crate::inputs![input];
    crate::parameters![pads, mode, value];

    fn plan(&self) -> Result<Padding> {
        Padding::new(Self::NAME, self.input.shape(), &self.pads, self.mode)
    }
}

/// The gradient of [`Pad`]: contributions in ascending output index, added to +0.
#[derive(Clone, Debug)]
pub struct PadGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// The shape of the forward pass's input.
    pub input_shape: Vec<usize>,
    /// As in the forward pass.
    pub pads: Vec<[i64; 2]>,
    /// As in the forward pass.
    pub mode: PadMode,
}

impl Op for PadGrad {
    const NAME: &'static str = "pad";
    const PASS: Pass = Pass::Backward;
    type Plan = Padding;
    type Output = Tensor;

    crate::inputs![grad];
    crate::parameters![input_shape, pads, mode];

    fn plan(&self) -> Result<Padding> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        let padding = Padding::new(Self::NAME, &self.input_shape, &self.pads, self.mode)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, padding.output_shape())?;
        Ok(padding)
    }
}
