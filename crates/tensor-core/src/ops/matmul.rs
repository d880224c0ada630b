//! The matrix product.

use super::{expect_dtype, expect_float, expect_shape};
use crate::geometry::Products;
use crate::{DType, Error, Op, Result, Tensor};

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

/// The matrix product of two tensors of f16 or of bf16, with an optional bias: [`Matmul`] of the same
/// numbers in f32, plus the bias in f32, each element rounded once.
#[derive(Clone, Debug)]
pub struct HalfMatmul {
    /// `[.., m, k]`
    pub a: Tensor,
    /// `[.., k, n]`
    pub b: Tensor,
    /// `[n]`
    pub bias: Option<Tensor>,
}

impl Op for HalfMatmul {
    const NAME: &'static str = "matmul_half";
    type Plan = Products;
    type Output = Tensor;

    crate::inputs![a, b, bias];

    fn plan(&self) -> Result<Products> {
        let (op, half) = (Self::NAME, self.a.dtype());
        if !half.is_half() {
            let (what, expected) = ("the left matrix", DType::BF16);
            return Err(Error::DTypeMismatch { op, what, expected, got: half });
        }
        expect_dtype(op, "the right matrix", &self.b, half)?;
        let products = Products::new(op, self.a.shape(), self.b.shape())?;
        if let Some(bias) = &self.bias {
            expect_dtype(op, "the bias", bias, half)?;
            let [_, columns, _] = products.sizes();
            expect_shape(op, "the bias", bias, &[columns])?;
        }
        Ok(products)
    }
}
