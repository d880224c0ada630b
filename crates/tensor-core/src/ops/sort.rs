//! Sorting and selection along a dimension.
//!
//! NaN is larger than every number; equal elements keep their order.

use super::{expect_dtype, expect_float};
use crate::{DType, Error, Op, Result, Tensor};

/// Sorts along `dim`: values, and where each was.
#[derive(Clone, Debug)]
pub struct Sort {
    /// The tensor to sort: floats or i64.
    pub x: Tensor,
    /// The dimension.
    pub dim: usize,
    /// Largest first.
    pub descending: bool,
}

impl Op for Sort {
    const NAME: &'static str = "sort";
    type Plan = ();
    type Output = (Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![dim, descending];

    fn plan(&self) -> Result<()> {
        expect_sortable(Self::NAME, &self.x)?;
        self.x.size(Self::NAME, self.dim).map(|_| ())
    }
}

/// The `k` largest or smallest elements along `dim`, in order, and where each was.
#[derive(Clone, Debug)]
pub struct Topk {
    /// The tensor to search: floats or i64.
    pub x: Tensor,
    /// How many: at most the size of `dim`.
    pub k: usize,
    /// The dimension.
    pub dim: usize,
    /// The largest; otherwise the smallest.
    pub largest: bool,
}

impl Op for Topk {
    const NAME: &'static str = "topk";
    type Plan = ();
    type Output = (Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![k, dim, largest];

    fn plan(&self) -> Result<()> {
        expect_sortable(Self::NAME, &self.x)?;
        let size = self.x.size(Self::NAME, self.dim)?;
        if self.k > size {
            return Err(Error::invalid(
                Self::NAME,
                format!("k must not exceed the dimension's size of {size}, got {}", self.k),
            ));
        }
        Ok(())
    }
}

/// The `k`-th smallest element along `dim`, which stays as size 1, and where it was.
#[derive(Clone, Debug)]
pub struct Kthvalue {
    /// The tensor to search: floats or i64.
    pub x: Tensor,
    /// Counted from 1.
    pub k: usize,
    /// The dimension.
    pub dim: usize,
}

impl Op for Kthvalue {
    const NAME: &'static str = "kthvalue";
    type Plan = ();
    type Output = (Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![k, dim];

    fn plan(&self) -> Result<()> {
        expect_sortable(Self::NAME, &self.x)?;
        let size = self.x.size(Self::NAME, self.dim)?;
        if self.k == 0 || self.k > size {
            return Err(Error::invalid(
                Self::NAME,
                format!("k must be from 1 to the dimension's size of {size}, got {}", self.k),
            ));
        }
        Ok(())
    }
}

/// The median along `dim`, which stays as size 1, and where it was: the lower one of two.
#[derive(Clone, Debug)]
pub struct Median {
    /// The tensor to search.
    pub x: Tensor,
    /// The dimension, which is not empty.
    pub dim: usize,
    /// True if NaNs are left out; otherwise one NaN makes the median NaN.
    pub ignore_nan: bool,
}

impl Op for Median {
    const NAME: &'static str = "median";
    type Plan = ();
    type Output = (Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![dim, ignore_nan];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)?;
        if self.x.size(Self::NAME, self.dim)? == 0 {
            return Err(Error::invalid(
                Self::NAME,
                format!("no elements along dimension {} of {:?}", self.dim, self.x.shape()),
            ));
        }
        Ok(())
    }
}

/// The distinct elements of a tensor, for each element its place among them (in the tensor's
/// shape), and how often each occurs. -0 equals +0, and every NaN is distinct.
#[derive(Clone, Debug)]
pub struct Unique {
    /// The tensor to search: floats or i64.
    pub x: Tensor,
    /// Compare each element with the one before only, and keep the order; otherwise compare all
    /// and sort.
    pub consecutive: bool,
}

impl Op for Unique {
    const NAME: &'static str = "unique";
    type Plan = ();
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![consecutive];

    fn plan(&self) -> Result<()> {
        expect_sortable(Self::NAME, &self.x)
    }
}

/// The distinct slices of a tensor along `dim`, for each slice its place among them, and how
/// often each occurs. Slices compare like words: by their first different elements in row-major
/// order. -0 equals +0, and a slice with a NaN is distinct.
#[derive(Clone, Debug)]
pub struct UniqueDim {
    /// The tensor to search: floats or i64. Only `dim` may be empty.
    pub x: Tensor,
    /// The dimension.
    pub dim: usize,
    /// As in [`Unique`].
    pub consecutive: bool,
}

impl Op for UniqueDim {
    const NAME: &'static str = "unique_dim";
    type Plan = ();
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![dim, consecutive];

    fn plan(&self) -> Result<()> {
        expect_sortable(Self::NAME, &self.x)?;
        self.x.size(Self::NAME, self.dim)?;
        let empty = |(dim, &size): (usize, &usize)| dim != self.dim && size == 0;
        if self.x.shape().iter().enumerate().any(empty) {
            return Err(Error::invalid(
                Self::NAME,
                format!("slices along dimension {} of {:?} are empty", self.dim, self.x.shape()),
            ));
        }
        Ok(())
    }
}

fn expect_sortable(op: &'static str, x: &Tensor) -> Result<()> {
    if x.dtype().is_full_float() { Ok(()) } else { expect_dtype(op, "the input", x, DType::I64) }
}
