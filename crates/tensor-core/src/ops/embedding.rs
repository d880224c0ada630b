//! Gradients of rows looked up in a table, and bags of such rows.

use std::sync::Arc;

use super::{expect_dtype, expect_float, expect_shape};
use crate::geometry::BagBounds;
use crate::layout::numel;
use crate::{DType, Error, Op, Pass, Result, Tensor};

/// The gradient of the table of an embedding. The gradient of a row is the exact sum of the
/// gradients of the places that hold it, rounded once.
#[derive(Clone, Debug)]
pub struct EmbeddingGrad {
    /// The shape of `index`, then `[width]`.
    pub grad: Tensor,
    /// i64, each below `rows`.
    pub index: Tensor,
    /// The number of rows of the table.
    pub rows: usize,
    /// A row that receives no gradient.
    pub padding_idx: Option<usize>,
    /// If true, each row's gradient is divided by the number of places that hold it.
    pub scale_grad_by_freq: bool,
}

impl Op for EmbeddingGrad {
    const NAME: &'static str = "embedding";
    const PASS: Pass = Pass::Backward;
    /// The rows of the table, and the elements of a row.
    type Plan = [usize; 2];
    type Output = Tensor;

    crate::inputs![grad, index];
    crate::parameters![rows, padding_idx, scale_grad_by_freq];

    fn plan(&self) -> Result<[usize; 2]> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        expect_dtype(Self::NAME, "the index", &self.index, DType::I64)?;
        let mut expected = self.index.shape().to_vec();
        let width = self.grad.shape().last().copied().unwrap_or(0);
        expected.push(width);
        expect_shape(Self::NAME, "the gradient", &self.grad, &expected)?;
        numel(Self::NAME, &[self.rows, width])?;
        check_padding(Self::NAME, self.padding_idx, self.rows)?;
        Ok([self.rows, width])
    }
}

/// The reduction of the rows of a bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagMode {
    /// The sum; each row is multiplied with its weight if there are weights.
    Sum,
    /// The sum divided by the number of rows.
    Mean,
    /// The largest element of each column; the first of equal ones.
    Max,
}

/// The options of embedding bags.
#[derive(Clone, Debug)]
pub struct BagParams {
    /// The reduction of the rows of a bag.
    pub mode: BagMode,
    /// A row whose places belong to no bag.
    pub padding_idx: Option<usize>,
}

/// One row per bag: the reduction of the bag's rows of a table. With the mode `Max` also the table
/// row of each element, or -1 for an empty bag.
#[derive(Clone, Debug)]
pub struct EmbeddingBag {
    /// `[rows, width]`
    pub weight: Tensor,
    /// `[places]`, i64, each below `rows`.
    pub index: Tensor,
    /// The places of each bag. They are on the host, since the shape of the result depends on them.
    pub bags: Arc<BagBounds>,
    /// `[places]`, only for the mode `Sum`.
    pub per_sample_weights: Option<Tensor>,
    /// The options.
    pub params: BagParams,
}

impl Op for EmbeddingBag {
    const NAME: &'static str = "embedding_bag";
    /// The rows of the table, and the elements of a row.
    type Plan = [usize; 2];
    type Output = (Tensor, Option<Tensor>);

    crate::inputs![weight, index, per_sample_weights];
    crate::parameters![bags, params];

    fn plan(&self) -> Result<[usize; 2]> {
        expect_float(Self::NAME, "the table", &self.weight)?;
        let &[rows, width] = self.weight.shape() else {
            return Err(Error::invalid(
                Self::NAME,
                format!("expected a table with 2 dimensions, got shape {:?}", self.weight.shape()),
            ));
        };
        check_bags(Self::NAME, &self.index, &self.bags)?;
        numel(Self::NAME, &[self.bags.len(), width])?;
        check_padding(Self::NAME, self.params.padding_idx, rows)?;
        check_weights(
            &self.params,
            self.per_sample_weights.as_ref(),
            &self.index,
            self.weight.dtype(),
        )?;
        Ok([rows, width])
    }
}

/// The gradient of the table of [`EmbeddingBag`]: exact sums, rounded once.
#[derive(Clone, Debug)]
pub struct EmbeddingBagGrad {
    /// `[bags, width]`
    pub grad: Tensor,
    /// As in the forward pass.
    pub index: Tensor,
    /// As in the forward pass.
    pub bags: Arc<BagBounds>,
    /// As in the forward pass.
    pub per_sample_weights: Option<Tensor>,
    /// The second result of the forward pass, for the mode `Max`.
    pub max_rows: Option<Tensor>,
    /// As in the forward pass.
    pub params: BagParams,
    /// The number of rows of the table.
    pub rows: usize,
    /// If true, each row's gradient is divided by the number of places that hold it.
    pub scale_grad_by_freq: bool,
}

impl Op for EmbeddingBagGrad {
    const NAME: &'static str = "embedding_bag";
    const PASS: Pass = Pass::Backward;
    /// The rows of the table, and the elements of a row.
    type Plan = [usize; 2];
    type Output = Tensor;

    crate::inputs![grad, index, per_sample_weights, max_rows];
    crate::parameters![bags, params, rows, scale_grad_by_freq];

    fn plan(&self) -> Result<[usize; 2]> {
        let width = check_bag_grad(Self::NAME, &self.grad, &self.bags)?;
        check_bags(Self::NAME, &self.index, &self.bags)?;
        numel(Self::NAME, &[self.rows, width])?;
        check_padding(Self::NAME, self.params.padding_idx, self.rows)?;
        check_weights(
            &self.params,
            self.per_sample_weights.as_ref(),
            &self.index,
            self.grad.dtype(),
        )?;
        if let Some(max_rows) = &self.max_rows {
            expect_dtype(Self::NAME, "the rows of the maxima", max_rows, DType::I64)?;
            expect_shape(Self::NAME, "the rows of the maxima", max_rows, self.grad.shape())?;
        }
        Ok([self.rows, width])
    }
}

/// The gradient of the per-sample weights of [`EmbeddingBag`].
#[derive(Clone, Debug)]
pub struct EmbeddingBagWeightsGrad {
    /// `[bags, width]`
    pub grad: Tensor,
    /// As in the forward pass.
    pub weight: Tensor,
    /// As in the forward pass.
    pub index: Tensor,
    /// As in the forward pass.
    pub bags: Arc<BagBounds>,
    /// As in the forward pass.
    pub params: BagParams,
}

impl Op for EmbeddingBagWeightsGrad {
    const NAME: &'static str = "embedding_bag_weights";
    const PASS: Pass = Pass::Backward;
    /// The rows of the table, and the elements of a row.
    type Plan = [usize; 2];
    type Output = Tensor;

    crate::inputs![grad, weight, index];
    crate::parameters![bags, params];

    fn plan(&self) -> Result<[usize; 2]> {
        let width = check_bag_grad(Self::NAME, &self.grad, &self.bags)?;
        check_bags(Self::NAME, &self.index, &self.bags)?;
        expect_dtype(Self::NAME, "the table", &self.weight, self.grad.dtype())?;
        let rows = self.weight.shape().first().copied().unwrap_or(0);
        expect_shape(Self::NAME, "the table", &self.weight, &[rows, width])?;
        check_padding(Self::NAME, self.params.padding_idx, rows)?;
        Ok([rows, width])
    }
}

fn check_bags(op: &'static str, index: &Tensor, bags: &BagBounds) -> Result<()> {
    expect_dtype(op, "the index", index, DType::I64)?;
    expect_shape(op, "the index", index, &[index.numel()])?;
    if bags.total() > index.numel() {
        let message = format!("bags of {} places for {} indices", bags.total(), index.numel());
        return Err(Error::invalid(op, message));
    }
    Ok(())
}

/// Checks the gradient of bags and returns the elements of a row.
fn check_bag_grad(op: &'static str, grad: &Tensor, bags: &BagBounds) -> Result<usize> {
    expect_float(op, "the gradient", grad)?;
    let width = grad.shape().last().copied().unwrap_or(0);
    expect_shape(op, "the gradient", grad, &[bags.len(), width])?;
    Ok(width)
}

fn check_weights(
    params: &BagParams,
    weights: Option<&Tensor>,
    index: &Tensor,
    dtype: DType,
) -> Result<()> {
    let Some(weights) = weights else { return Ok(()) };
    if params.mode != BagMode::Sum {
        return Err(Error::invalid(
            EmbeddingBag::NAME,
            format!("per-sample weights are for the mode Sum, not {:?}", params.mode),
        ));
    }
    expect_dtype(EmbeddingBag::NAME, "the per-sample weights", weights, dtype)?;
    expect_shape(EmbeddingBag::NAME, "the per-sample weights", weights, index.shape())
}

fn check_padding(op: &'static str, padding_idx: Option<usize>, rows: usize) -> Result<()> {
    match padding_idx {
        Some(row) if row >= rows => Err(Error::invalid(
            op,
            format!("padding_idx {row} is not a row of a table with {rows} rows"),
        )),
        _ => Ok(()),
    }
}
