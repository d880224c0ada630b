//! The matrix product.

use super::{expect_dtype, expect_float};
use crate::geometry::Products;
use crate::{Op, Result, Tensor};

/// The matrix product of the last two dimensions; the dimensions before are a batch and broadcast.
#[derive(Clone, Debug)]
pub struct Matmul {
    /// `[.., m, k]`
    pub a: Tensor,
    /// `[.., k, n]`
    pub b: Tensor,
}

impl Op for Matmul {
    const NAME: &'static str = "matmul";
    type Plan = Products;
    type Output = Tensor;

    crate::inputs![a, b];

    fn plan(&self) -> Result<Products> {
        expect_float(Self::NAME, "the left matrix", &self.a)?;
        expect_dtype(Self::NAME, "the right matrix", &self.b, self.a.dtype())?;
        Products::new(Self::NAME, self.a.shape(), self.b.shape())
    }
}
