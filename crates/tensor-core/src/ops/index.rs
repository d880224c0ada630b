//! Selecting and accumulating by index.

use super::expect_dtype;
use crate::{DType, Error, Op, Result, Tensor};

/// The slices of `x` along `dim` that `index` names.
#[derive(Clone, Debug)]
pub struct IndexSelect {
    /// The tensor to select from.
    pub x: Tensor,
    /// The dimension to select along.
    pub dim: usize,
    /// `[m]`, i64, each below the size of `dim`.
    pub index: Tensor,
}

impl Op for IndexSelect {
    const NAME: &'static str = "index_select";
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.x, &self.index]
    }

    fn check(&self) -> Result<()> {
        self.x.size(Self::NAME, self.dim)?;
        check_index(Self::NAME, &self.index)
    }
}

/// `input` with `alpha · source` added: slice `i` of the source to slice `index[i]` of the input.
///
/// Each addend is `alpha · source` rounded once (just `source` if alpha is 1); the sum of the
/// input element and its addends is exact and rounded once.
#[derive(Clone, Debug)]
pub struct IndexAdd {
    /// The tensor to add to.
    pub input: Tensor,
    /// The dimension to index.
    pub dim: usize,
    /// `[m]`, i64, each below the size of `dim`.
    pub index: Tensor,
    /// The shape of the input, but `m` along `dim`.
    pub source: Tensor,
    /// What the source is multiplied with.
    pub alpha: f64,
}

impl Op for IndexAdd {
    const NAME: &'static str = "index_add";
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.input, &self.index, &self.source]
    }

    fn check(&self) -> Result<()> {
        self.input.size(Self::NAME, self.dim)?;
        check_index(Self::NAME, &self.index)?;
        expect_dtype(Self::NAME, "the source", &self.source, self.input.dtype())?;
        let mut expected = self.input.shape().to_vec();
        expected[self.dim] = self.index.numel();
        super::expect_shape(Self::NAME, "the source", &self.source, &expected)
    }
}

fn check_index(op: &'static str, index: &Tensor) -> Result<()> {
    expect_dtype(op, "the index", index, DType::I64)?;
    if index.rank() != 1 {
        return Err(Error::invalid(
            op,
            format!("expected an index with 1 dimension, got shape {:?}", index.shape()),
        ));
    }
    Ok(())
}
