//! Reading, assigning and adding at indexed places.

use super::{expect_dtype, expect_number, expect_shape};
use crate::geometry::{IndexedElements, IndexedSlices, Split};
use crate::layout::{PerDim, broadcast, numel};
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
    /// The tensor along the dimension, and the shape of the result.
    type Plan = (Split, PerDim);
    type Output = Tensor;

    crate::inputs![x, index];
    crate::parameters![dim];

    fn plan(&self) -> Result<(Split, PerDim)> {
        let split = Split::new(Self::NAME, self.x.shape(), self.dim)?;
        check_index(Self::NAME, &self.index)?;
        let mut shape = PerDim::from(self.x.shape());
        shape[self.dim] = self.index.numel();
        numel(Self::NAME, &shape)?;
        Ok((split, shape))
    }
}

/// `input` with `alpha · source` added: slice `i` of the source goes to slice `index[i]` of the
/// input.
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
    /// A tensor of the shape of the input, but `m` along `dim`.
    pub source: Tensor,
    /// The factor of the source. For integers it must be an integer.
    pub alpha: f64,
}

impl Op for IndexAdd {
    const NAME: &'static str = "index_add";
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![input, index, source];
    crate::parameters![dim, alpha];

    fn plan(&self) -> Result<Split> {
        expect_number(Self::NAME, "the input", &self.input)?;
        let (alpha, dtype) = (self.alpha, self.input.dtype());
        let whole = alpha.fract() == 0.0 && alpha.abs() < -(i64::MIN as f64);
        if dtype == DType::I64 && !whole {
            return Err(Error::invalid(
                Self::NAME,
                format!("alpha {alpha} cannot be combined with a tensor of type {dtype}"),
            ));
        }
        check_slices(Self::NAME, &self.input, self.dim, &self.index, &self.source)
    }
}

/// `input` with slice `index[i]` replaced by slice `i` of the source. If several sources name one
/// slice, the last one is kept.
#[derive(Clone, Debug)]
pub struct IndexCopy {
    /// The tensor to write to.
    pub input: Tensor,
    /// The dimension to index.
    pub dim: usize,
    /// `[m]`, i64, each below the size of `dim`.
    pub index: Tensor,
    /// A tensor of the shape of the input, but `m` along `dim`.
    pub source: Tensor,
}

impl Op for IndexCopy {
    const NAME: &'static str = "index_copy";
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![input, index, source];
    crate::parameters![dim];

    fn plan(&self) -> Result<Split> {
        check_slices(Self::NAME, &self.input, self.dim, &self.index, &self.source)
    }
}

/// `out[.., i, ..] = x[.., index[.., i, ..], ..]` along `dim`.
#[derive(Clone, Debug)]
pub struct Gather {
    /// The tensor to read from.
    pub x: Tensor,
    /// The dimension that the index addresses.
    pub dim: usize,
    /// i64, of the rank of `x`, and not larger than `x` except along `dim`. The result has its
    /// shape.
    pub index: Tensor,
}

impl Op for Gather {
    const NAME: &'static str = "gather";
    type Plan = IndexedElements;
    type Output = Tensor;

    crate::inputs![x, index];
    crate::parameters![dim];

    fn plan(&self) -> Result<IndexedElements> {
        check_elements(Self::NAME, &self.x, self.dim, &self.index)
    }
}

/// `input` with element `[.., index[.., i, ..], ..]` replaced by `source[.., i, ..]`. If several
/// sources name one element, the last in row-major order is kept.
#[derive(Clone, Debug)]
pub struct Scatter {
    /// The tensor to write to.
    pub input: Tensor,
    /// The dimension that the index addresses.
    pub dim: usize,
    /// i64, of the rank of `input`, and not larger than it except along `dim`.
    pub index: Tensor,
    /// At least as large as `index` in each dimension; elements beyond `index` are not read.
    pub source: Tensor,
}

impl Op for Scatter {
    const NAME: &'static str = "scatter";
    type Plan = IndexedElements;
    type Output = Tensor;

    crate::inputs![input, index, source];
    crate::parameters![dim];

    fn plan(&self) -> Result<IndexedElements> {
        let places = check_elements(Self::NAME, &self.input, self.dim, &self.index)?;
        check_source(Self::NAME, &self.input, &self.index, &self.source)?;
        Ok(places)
    }
}

/// The slices of `x` that several indices of its first dimensions name together: `x[i0, i1, ..]`.
#[derive(Clone, Debug)]
pub struct Index {
    /// The tensor to read from.
    pub x: Tensor,
    /// One i64 tensor for each of the first dimensions, broadcast together; a negative index
    /// counts from the end.
    pub indices: Vec<Tensor>,
}

impl Op for Index {
    const NAME: &'static str = "index";
    type Plan = IndexedSlices;
    type Output = Tensor;

    crate::inputs![x, indices];

    fn plan(&self) -> Result<IndexedSlices> {
        slices(Self::NAME, &self.x, &self.indices)
    }
}

/// `input` with `values` assigned to the slices that several indices of its first dimensions name
/// together. If several values name one slice, the last one is kept.
#[derive(Clone, Debug)]
pub struct IndexPut {
    /// The tensor to write to.
    pub input: Tensor,
    /// As in [`Index`].
    pub indices: Vec<Tensor>,
    /// Broadcast to the shape that [`Index`] gives for these indices.
    pub values: Tensor,
}

impl Op for IndexPut {
    const NAME: &'static str = "index_put";
    type Plan = IndexedSlices;
    type Output = Tensor;

    crate::inputs![input, values, indices];

    fn plan(&self) -> Result<IndexedSlices> {
        check_put(Self::NAME, &self.input, &self.indices, &self.values)
    }
}

/// As [`IndexPut`], but adds the values: the sum is exact and rounded once.
#[derive(Clone, Debug)]
pub struct IndexPutAdd {
    /// The tensor to add to.
    pub input: Tensor,
    /// As in [`Index`].
    pub indices: Vec<Tensor>,
    /// Broadcast to the shape that [`Index`] gives for these indices.
    pub values: Tensor,
}

impl Op for IndexPutAdd {
    const NAME: &'static str = "index_put";
    type Plan = IndexedSlices;
    type Output = Tensor;

    crate::inputs![input, values, indices];

    fn plan(&self) -> Result<IndexedSlices> {
        expect_number(Self::NAME, "the input", &self.input)?;
        check_put(Self::NAME, &self.input, &self.indices, &self.values)
    }
}

/// The positions of the elements that are not zero, in row-major order: i64 of shape
/// `[count, rank]`.
#[derive(Clone, Debug)]
pub struct Nonzero {
    /// The tensor to search.
    pub x: Tensor,
}

impl Op for Nonzero {
    const NAME: &'static str = "nonzero";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![x];

    fn plan(&self) -> Result<()> {
        Ok(())
    }
}

/// Returns the shape of `x[indices..]`: that of the broadcast indices, then the dimensions not
/// indexed.
///
/// # Errors
///
/// There is no index, there are more indices than dimensions, one is not i64, or they cannot be
/// broadcast together.
pub fn indexed_shape(op: &'static str, x: &Tensor, indices: &[Tensor]) -> Result<PerDim> {
    slices(op, x, indices).map(|slices| slices.shape)
}

fn slices(op: &'static str, x: &Tensor, indices: &[Tensor]) -> Result<IndexedSlices> {
    for index in indices {
        expect_dtype(op, "every index", index, DType::I64)?;
    }
    IndexedSlices::new(op, x.shape(), indices.iter().map(Tensor::shape))
}

fn check_put(
    op: &'static str,
    input: &Tensor,
    indices: &[Tensor],
    values: &Tensor,
) -> Result<IndexedSlices> {
    let slices = slices(op, input, indices)?;
    expect_dtype(op, "the values", values, input.dtype())?;
    if broadcast(op, &slices.shape, values.shape())? != slices.shape {
        expect_shape(op, "the values", values, &slices.shape)?;
    }
    Ok(slices)
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

/// Checks an index of slices, and the source that goes with it.
pub(super) fn check_slices(
    op: &'static str,
    input: &Tensor,
    dim: usize,
    index: &Tensor,
    source: &Tensor,
) -> Result<Split> {
    let split = Split::new(op, input.shape(), dim)?;
    check_index(op, index)?;
    expect_dtype(op, "the source", source, input.dtype())?;
    let mut expected = input.shape().to_vec();
    expected[dim] = index.numel();
    expect_shape(op, "the source", source, &expected)?;
    Ok(split)
}

/// Checks an index of elements.
pub(super) fn check_elements(
    op: &'static str,
    input: &Tensor,
    dim: usize,
    index: &Tensor,
) -> Result<IndexedElements> {
    expect_dtype(op, "the index", index, DType::I64)?;
    IndexedElements::new(op, input.shape(), dim, index.shape())
}

/// Checks the source that goes with an index of elements.
pub(super) fn check_source(
    op: &'static str,
    input: &Tensor,
    index: &Tensor,
    source: &Tensor,
) -> Result<()> {
    expect_dtype(op, "the source", source, input.dtype())?;
    let fits = source.rank() == index.rank()
        && index.shape().iter().zip(source.shape()).all(|(index, source)| index <= source);
    if fits {
        return Ok(());
    }
    Err(Error::invalid(
        op,
        format!(
            "a source of shape {:?} for an index of shape {:?}: expected the same rank and no \
             smaller sizes",
            source.shape(),
            index.shape()
        ),
    ))
}
