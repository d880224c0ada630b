//! Products with sparse matrices.

use super::{expect_dtype, expect_float, expect_shape};
use crate::layout::numel;
use crate::{DType, Error, Op, Result, Tensor};

/// The product of a sparse matrix, given by its elements, and a dense one.
///
/// An element of the result is a chain of fma over the elements of its row, ascending by column,
/// cut into the blocks of the matrix product as if the zeros were stored. For finite operands it
/// has the bits of the dense product, except for the sign of zero. Elements at the same place keep
/// the order of the list.
///
/// Several matrices of one shape in a block diagonal form a batch of products. `period` is the
/// number of columns of each; blocks are counted from the first column of each matrix.
#[derive(Clone, Debug)]
pub struct SparseMm {
    /// `[elements]`, i64: the row of each element.
    pub rows: Tensor,
    /// `[elements]`, i64: the column of each element.
    pub columns: Tensor,
    /// `[elements]`
    pub values: Tensor,
    /// `[columns, width]`
    pub dense: Tensor,
    /// The number of rows.
    pub size: usize,
    /// The number of columns of each matrix in the diagonal.
    pub period: usize,
}

impl Op for SparseMm {
    const NAME: &'static str = "sparse_mm";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![values, dense, rows, columns];
    crate::parameters![size, period];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the values", &self.values)?;
        check_places(Self::NAME, &self.rows, &self.columns)?;
        expect_shape(Self::NAME, "the values", &self.values, self.rows.shape())?;
        check_matrix(Self::NAME, "the dense matrix", &self.dense, self.values.dtype())?;
        let columns = self.dense.shape()[0];
        let whole =
            if self.period == 0 { columns == 0 } else { columns.is_multiple_of(self.period) };
        if !whole {
            return Err(Error::invalid(
                Self::NAME,
                format!(
                    "{columns} columns are not a multiple of the {} columns of each matrix",
                    self.period
                ),
            ));
        }
        numel(Self::NAME, &[self.size, self.dense.shape()[1]]).map(|_| ())
    }
}

/// The dot products of chosen pairs of rows, `out[i] = left[rows[i]] · right[columns[i]]`: the
/// gradient of [`SparseMm`] with respect to its values. Summed in f64 over the contract's fixed
/// tree and rounded once.
#[derive(Clone, Debug)]
pub struct SampledProduct {
    /// `[elements]`, i64.
    pub rows: Tensor,
    /// `[elements]`, i64.
    pub columns: Tensor,
    /// `[.., width]`
    pub left: Tensor,
    /// `[.., width]`
    pub right: Tensor,
}

impl Op for SampledProduct {
    const NAME: &'static str = "sampled_product";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![left, right, rows, columns];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the left matrix", &self.left)?;
        check_places(Self::NAME, &self.rows, &self.columns)?;
        check_matrix(Self::NAME, "the left matrix", &self.left, self.left.dtype())?;
        check_matrix(Self::NAME, "the right matrix", &self.right, self.left.dtype())?;
        let expected = [self.right.shape()[0], self.left.shape()[1]];
        expect_shape(Self::NAME, "the right matrix", &self.right, &expected)
    }
}

fn check_places(op: &'static str, rows: &Tensor, columns: &Tensor) -> Result<()> {
    expect_dtype(op, "the rows", rows, DType::I64)?;
    expect_dtype(op, "the columns", columns, DType::I64)?;
    expect_shape(op, "the rows", rows, &[rows.numel()])?;
    expect_shape(op, "the columns", columns, rows.shape())
}

fn check_matrix(op: &'static str, what: &'static str, x: &Tensor, dtype: DType) -> Result<()> {
    expect_dtype(op, what, x, dtype)?;
    if x.rank() == 2 {
        return Ok(());
    }
    Err(Error::invalid(op, format!("expected {what} with 2 dimensions, got {:?}", x.shape())))
}
