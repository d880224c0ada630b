//! The matrix product.

use super::{expect_dtype, expect_float};
use crate::layout::{PerDim, broadcast, numel};
use crate::{Error, Op, Result, Tensor};

/// The matrix product of the last two dimensions; the dimensions before are a batch and broadcast.
#[derive(Clone, Debug)]
pub struct Matmul {
    /// `[.., m, k]`
    pub a: Tensor,
    /// `[.., k, n]`
    pub b: Tensor,
}

impl Matmul {
    /// Returns the batch dimensions of the result.
    ///
    /// # Errors
    ///
    /// [`Error::Broadcast`] if those of the operands cannot be broadcast together.
    pub fn batch(&self) -> Result<PerDim> {
        let (a, b) = (self.a.shape(), self.b.shape());
        broadcast(Self::NAME, &a[..a.len() - 2], &b[..b.len() - 2])
    }
}

impl Op for Matmul {
    const NAME: &'static str = "matmul";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![a, b];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the left matrix", &self.a)?;
        expect_dtype(Self::NAME, "the right matrix", &self.b, self.a.dtype())?;
        let (a, b) = (self.a.shape(), self.b.shape());
        if a.len() < 2 || b.len() < 2 || a[a.len() - 1] != b[b.len() - 2] {
            return Err(Error::invalid(
                Self::NAME,
                format!("cannot multiply matrices of shapes {a:?} and {b:?}"),
            ));
        }
        let mut shape = self.batch()?;
        shape.extend([a[a.len() - 2], b[b.len() - 1]]);
        numel(Self::NAME, &shape).map(|_| ())
    }
}
