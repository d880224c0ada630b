//! The partial inverse of maximum pooling.

use super::check_indexed_grad;
use crate::ops::{checked_shape, expect_dtype, expect_float, expect_shape, spatial};
use crate::{DType, Error, Op, Pass, Result, Tensor};

/// A plane of zeros with each element put at its index. If several elements have one index, the
/// last one is kept.
#[derive(Clone, Debug)]
pub struct MaxUnpool {
    /// `[n, channels, ..]` with one to three spatial dimensions.
    pub input: Tensor,
    /// A tensor of the shape of the input: positions in the flattened spatial dimensions of the
    /// result.
    pub indices: Tensor,
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
}

impl Op for MaxUnpool {
    const NAME: &'static str = "max_unpool";
    /// The shape of the result.
    type Plan = Vec<usize>;
    type Output = Tensor;

    crate::inputs![input, indices];
    crate::parameters![output_size];

    fn plan(&self) -> Result<Vec<usize>> {
        let (op, shape) = (Self::NAME, self.input.shape());
        expect_float(op, "the input", &self.input)?;
        expect_dtype(op, "the indices", &self.indices, DType::I64)?;
        expect_shape(op, "the indices", &self.indices, shape)?;
        let (planes, size) = spatial(op, shape, 1..=3)?;
        if self.output_size.len() != size.len() {
            return Err(Error::invalid(
                op,
                format!("shape {shape:?} cannot be unpooled to the size {:?}", self.output_size),
            ));
        }
        checked_shape(op, &[planes, &self.output_size].concat())
    }
}

/// The gradient of [`MaxUnpool`], and of every gradient of a maximum pooling: each element is the
/// element of `grad` at its index; the index -1 gives +0.
#[derive(Clone, Debug)]
pub struct MaxUnpoolGrad {
    /// `[n, channels, ..]`: the gradient of the result.
    pub grad: Tensor,
    /// `[n, channels, ..]`: the indices of the forward pass.
    pub indices: Tensor,
}

impl Op for MaxUnpoolGrad {
    const NAME: &'static str = "max_unpool";
    const PASS: Pass = Pass::Backward;
    type Plan = ();
    type Output = Tensor;

    crate::inputs![grad, indices];

    fn plan(&self) -> Result<()> {
        check_indexed_grad(Self::NAME, &self.indices, &self.indices, self.grad.shape())?;
        expect_float(Self::NAME, "the gradient", &self.grad)
    }
}
