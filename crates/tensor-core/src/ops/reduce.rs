//! Reductions over dimensions.

use super::expect_float;
use crate::geometry::Reduction;
use crate::{DType, Error, Op, Result, Tensor};

/// A reduction of some dimensions, which stay as size 1. For integers (i64) there is no mean; sums
/// and products wrap around.
#[derive(Clone, Debug)]
pub struct Reduce {
    /// The reduction.
    pub kind: ReduceKind,
    /// The tensor to reduce.
    pub x: Tensor,
    /// The dimensions to reduce, ascending and distinct; all of them for a full reduction.
    pub dims: Vec<usize>,
}

/// The reductions that [`Reduce`] computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReduceKind {
    /// The sum over the contract's fixed tree, in f64, rounded once. +0 for no elements.
    Sum,
    /// The sum divided by the number of elements in f64, rounded once.
    Mean,
    /// The largest element; NaN counts as larger than all. No elements are an error.
    Amax,
    /// The smallest element; NaN counts as smaller than all. No elements are an error.
    Amin,
    /// The product in f64 over the tree of the sum, rounded once. 1 for no elements.
    Prod,
}

impl Op for Reduce {
    const NAME: &'static str = "reduce";
    type Plan = Reduction;
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![kind, dims];

    fn plan(&self) -> Result<Reduction> {
        if self.x.dtype() != DType::I64 || self.kind == ReduceKind::Mean {
            expect_float(Self::NAME, "the input", &self.x)?;
        }
        let over = Reduction::new(Self::NAME, self.x.shape(), &self.dims)?;
        if over.count == 0 && matches!(self.kind, ReduceKind::Amax | ReduceKind::Amin) {
            return Err(Error::invalid(
                Self::NAME,
                format!("no elements to choose from along {:?} of {:?}", self.dims, self.x.shape()),
            ));
        }
        Ok(over)
    }
}

/// The variance over some dimensions, which stay as size 1, and the mean: both in f64 over the
/// tree of the sum, the deviations from the f64 mean, each rounded once.
#[derive(Clone, Debug)]
pub struct Variance {
    /// The tensor to reduce.
    pub x: Tensor,
    /// As in [`Reduce`].
    pub dims: Vec<usize>,
    /// Subtracted from the element count to give the divisor: 0 for a population, 1 for a sample. A
    /// divisor of 0 or less gives infinity or NaN.
    pub correction: f64,
}

impl Op for Variance {
    const NAME: &'static str = "var";
    type Plan = Reduction;
    type Output = (Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![dims, correction];

    fn plan(&self) -> Result<Reduction> {
        expect_float(Self::NAME, "the input", &self.x)?;
        Reduction::new(Self::NAME, self.x.shape(), &self.dims)
    }
}

/// The p-norm over some dimensions, which stay as size 1: `(Σ |x|^p)^(1/p)` in f64 over the tree of
/// the sum, rounded once. For p = 0 it counts the elements that are not zero; for ∞ it is the
/// largest magnitude and for −∞ the smallest.
///
/// Let m be the dominant magnitude: the largest, or for a negative p the smallest. If a power of m
/// is less than 2^-900 or more than 2^900, the magnitudes of the row are first divided by m and the
/// root is multiplied with it, in f64; for p = 2 the scale is the power of two below m, at least
/// 2^-1022. So no result is lost to the range of f64.
#[derive(Clone, Debug)]
pub struct Norm {
    /// The tensor to reduce.
    pub x: Tensor,
    /// As in [`Reduce`].
    pub dims: Vec<usize>,
    /// The exponent; not NaN.
    pub p: f64,
}

impl Op for Norm {
    const NAME: &'static str = "norm";
    type Plan = Reduction;
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![dims, p];

    fn plan(&self) -> Result<Reduction> {
        expect_float(Self::NAME, "the input", &self.x)?;
        let over = Reduction::new(Self::NAME, self.x.shape(), &self.dims)?;
        if self.p.is_nan() {
            return Err(Error::invalid(Self::NAME, "the exponent must not be NaN"));
        }
        if over.count == 0 && (self.p < 0.0 || self.p.is_infinite()) {
            return Err(Error::invalid(
                Self::NAME,
                format!("p = {} of no elements, along {:?}", self.p, self.dims),
            ));
        }
        Ok(over)
    }
}

/// The logarithm of the sum of the exponentials over some dimensions, which stay as size 1. In f64:
/// the exponentials of the differences to the largest element, summed over the tree of the sum; the
/// logarithm of that sum plus the largest element, rounded once.
#[derive(Clone, Debug)]
pub struct Logsumexp {
    /// The tensor to reduce.
    pub x: Tensor,
    /// As in [`Reduce`].
    pub dims: Vec<usize>,
}

impl Op for Logsumexp {
    const NAME: &'static str = "logsumexp";
    type Plan = Reduction;
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![dims];

    fn plan(&self) -> Result<Reduction> {
        expect_float(Self::NAME, "the input", &self.x)?;
        Reduction::new(Self::NAME, self.x.shape(), &self.dims)
    }
}

/// The index of an extreme element along one dimension, which stays as size 1.
#[derive(Clone, Debug)]
pub struct ArgReduce {
    /// The extreme to find.
    pub kind: ArgReduceKind,
    /// The tensor to search.
    pub x: Tensor,
    /// The dimension.
    pub dim: usize,
}

/// The searches that [`ArgReduce`] makes; of equal elements the first is found, and NaN counts as
/// both the largest and the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the function of its name")]
pub enum ArgReduceKind {
    Argmax,
    Argmin,
}

impl Op for ArgReduce {
    const NAME: &'static str = "arg_reduce";
    type Plan = Reduction;
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![kind, dim];

    fn plan(&self) -> Result<Reduction> {
        expect_float(Self::NAME, "the input", &self.x)?;
        let over = Reduction::new(Self::NAME, self.x.shape(), &[self.dim])?;
        if over.count == 0 {
            return Err(Error::invalid(
                Self::NAME,
                format!("no elements along dimension {} of {:?}", self.dim, self.x.shape()),
            ));
        }
        Ok(over)
    }
}
