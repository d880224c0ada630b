//! Reductions into indexed places.

use super::expect_number;
use super::index::{check_elements, check_slices, check_source};
use crate::geometry::{IndexedElements, Split};
use crate::{Op, Result, Tensor};

/// `input` with `source[.., i, ..]` added to element `[.., index[.., i, ..], ..]`; the sum is exact
/// and rounded once.
#[derive(Clone, Debug)]
pub struct ScatterAdd {
    /// The tensor to add to.
    pub input: Tensor,
    /// The dimension that the index addresses.
    pub dim: usize,
    /// i64, of the rank of `input`, and not larger than it except along `dim`.
    pub index: Tensor,
    /// At least as large as `index` in each dimension; elements beyond `index` are not read.
    pub source: Tensor,
}

impl Op for ScatterAdd {
    const NAME: &'static str = "scatter_add";
    type Plan = IndexedElements;
    type Output = Tensor;

    crate::inputs![input, index, source];
    crate::parameters![dim];

    fn plan(&self) -> Result<IndexedElements> {
        expect_number(Self::NAME, "the input", &self.input)?;
        let places = check_elements(Self::NAME, &self.input, self.dim, &self.index)?;
        check_source(Self::NAME, &self.input, &self.index, &self.source)?;
        Ok(places)
    }
}

/// The reduction of the values that are sent to one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ScatterReduceKind {
    /// The exact sum, rounded once.
    Sum,
    /// The exact sum, rounded once, divided by the number of values, rounded again; for integers,
    /// rounded down.
    Mean,
    /// The product in ascending source order, each multiplication rounded.
    Prod,
    /// The largest value; NaN if any is NaN.
    Amax,
    /// The smallest value; NaN if any is NaN.
    Amin,
}

/// As [`ScatterAdd`], with other reductions. With `include_self` the previous element counts as one
/// more value; without it, the reduction replaces the previous element if any value is sent there.
#[derive(Clone, Debug)]
pub struct ScatterReduce {
    /// The tensor to reduce into.
    pub input: Tensor,
    /// The dimension that the index addresses.
    pub dim: usize,
    /// As in [`ScatterAdd`].
    pub index: Tensor,
    /// As in [`ScatterAdd`].
    pub source: Tensor,
    /// The reduction.
    pub kind: ScatterReduceKind,
    /// True if the previous element counts.
    pub include_self: bool,
}

impl Op for ScatterReduce {
    const NAME: &'static str = "scatter_reduce";
    type Plan = IndexedElements;
    type Output = Tensor;

    crate::inputs![input, index, source];
    crate::parameters![dim, kind, include_self];

    fn plan(&self) -> Result<IndexedElements> {
        expect_number(Self::NAME, "the input", &self.input)?;
        let places = check_elements(Self::NAME, &self.input, self.dim, &self.index)?;
        check_source(Self::NAME, &self.input, &self.index, &self.source)?;
        Ok(places)
    }
}

/// As [`ScatterReduce`], with one index per slice along `dim`.
#[derive(Clone, Debug)]
pub struct IndexReduce {
    /// The tensor to reduce into.
    pub input: Tensor,
    /// The dimension to index.
    pub dim: usize,
    /// `[m]`, i64, each below the size of `dim`.
    pub index: Tensor,
    /// A tensor of the shape of the input, but `m` along `dim`.
    pub source: Tensor,
    /// The reduction.
    pub kind: ScatterReduceKind,
    /// True if the previous element counts.
    pub include_self: bool,
}

impl Op for IndexReduce {
    const NAME: &'static str = "index_reduce";
    type Plan = Split;
    type Output = Tensor;

    crate::inputs![input, index, source];
    crate::parameters![dim, kind, include_self];

    fn plan(&self) -> Result<Split> {
        expect_number(Self::NAME, "the input", &self.input)?;
        check_slices(Self::NAME, &self.input, self.dim, &self.index, &self.source)
    }
}
