//! Sorting and selection along a dimension.
//!
//! NaN is larger than every number; equal elements keep their order.

use super::{expect_dtype, expect_float};
use crate::geometry::Split;
use crate::{DType, Error, Op, Result, Tensor};

/// The elements sorted along `dim`, and the original index of each.
#[derive(Clone, Debug)]
pub struct Sort {
    /// The tensor to sort: floats or i64.
    pub x: Tensor,
    /// The dimension.
    pub dim: usize,
    /// True if the largest comes first.
    pub descending: bool,
}

impl Op for Sort {
    const NAME: &'static str = "sort";
    type Plan = Split;
    type Output = (Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![dim, descending];

    fn plan(&self) -> Result<Split> {
        expect_sortable(Self::NAME, &self.x)?;
        Split::new(Self::NAME, self.x.shape(), self.dim)
    }
}

/// The `k` largest or smallest elements along `dim`, in order, and the original index of each.
#[derive(Clone, Debug)]
pub struct Topk {
    /// The tensor to search: floats or i64.
    pub x: Tensor,
    /// The number of elements to return, at most the size of `dim`.
    pub k: usize,
    /// The dimension.
    pub dim: usize,
    /// True for the largest, false for the smallest.
    pub largest: bool,
}

impl Op for Topk {
    const NAME: &'static str = "topk";
    type Plan = Split;
    type Output = (Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![k, dim, largest];

    fn plan(&self) -> Result<Split> {
        expect_sortable(Self::NAME, &self.x)?;
        let split = Split::new(Self::NAME, self.x.shape(), self.dim)?;
        let size = split.size;
        if self.k > size {
            return Err(Error::invalid(
                Self::NAME,
                format!("k must not exceed the dimension's size of {size}, got {}", self.k),
            ));
        }
        Ok(split)
    }
}

/// The `k`-th smallest element along `dim`, which stays as size 1, and its index.
#[derive(Clone, Debug)]
pub struct Kthvalue {
    /// The tensor to search: floats or i64.
    pub x: Tensor,
    /// The rank of the element, counted from 1.
    pub k: usize,
    /// The dimension.
    pub dim: usize,
}

impl Op for Kthvalue {
    const NAME: &'static str = "kthvalue";
    type Plan = Split;
    type Output = (Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![k, dim];

    fn plan(&self) -> Result<Split> {
        expect_sortable(Self::NAME, &self.x)?;
        let split = Split::new(Self::NAME, self.x.shape(), self.dim)?;
        let size = split.size;
        if self.k == 0 || self.k > size {
            return Err(Error::invalid(
                Self::NAME,
                format!("k must be from 1 to the dimension's size of {size}, got {}", self.k),
            ));
        }
        Ok(split)
    }
}

/// The median along `dim`, which stays as size 1, and its index; of two middle elements, the lower
/// one.
#[derive(Clone, Debug)]
pub struct Median {
    /// The tensor to search.
    pub x: Tensor,
    /// The dimension; it must not be empty.
    pub dim: usize,
    /// True if NaNs are ignored; otherwise one NaN makes the median NaN.
    pub ignore_nan: bool,
}

impl Op for Median {
    const NAME: &'static str = "median";
    type Plan = Split;
    type Output = (Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![dim, ignore_nan];

    fn plan(&self) -> Result<Split> {
        expect_float(Self::NAME, "the input", &self.x)?;
        let split = Split::new(Self::NAME, self.x.shape(), self.dim)?;
        if split.size == 0 {
            return Err(Error::invalid(
                Self::NAME,
                format!("no elements along dimension {} of {:?}", self.dim, self.x.shape()),
            ));
        }
        Ok(split)
    }
}

/// The distinct elements of a tensor, the number of the distinct element for each element (in the
/// tensor's shape), and the count of each. -0 equals +0, and every NaN is distinct.
#[derive(Clone, Debug)]
pub struct Unique {
    /// The tensor to search: floats or i64.
    pub x: Tensor,
    /// If true, compares each element only with the one before and keeps the order; otherwise
    /// compares all and sorts.
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

/// The distinct slices of a tensor along `dim`, the number of the distinct slice for each slice,
/// and the count of each. Slices compare lexicographically in row-major order. -0 equals +0, and a
/// slice with a NaN is distinct.
#[derive(Clone, Debug)]
pub struct UniqueDim {
    /// The tensor to search: floats or i64. No dimension except `dim` may be empty.
    pub x: Tensor,
    /// The dimension.
    pub dim: usize,
    /// As in [`Unique`].
    pub consecutive: bool,
}

impl Op for UniqueDim {
    const NAME: &'static str = "unique_dim";
    type Plan = Split;
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![dim, consecutive];

    fn plan(&self) -> Result<Split> {
        expect_sortable(Self::NAME, &self.x)?;
        let split = Split::new(Self::NAME, self.x.shape(), self.dim)?;
        let empty = |(dim, &size): (usize, &usize)| dim != self.dim && size == 0;
        if self.x.shape().iter().enumerate().any(empty) {
            return Err(Error::invalid(
                Self::NAME,
                format!("slices along dimension {} of {:?} are empty", self.dim, self.x.shape()),
            ));
        }
        Ok(split)
    }
}

fn expect_sortable(op: &'static str, x: &Tensor) -> Result<()> {
    if x.dtype().is_full_float() { Ok(()) } else { expect_dtype(op, "the input", x, DType::I64) }
}
