//! Reductions over dimensions.

use super::expect_float;
use crate::{Error, Op, Result, Tensor};

/// Reduces some dimensions; they stay as size 1.
#[derive(Clone, Debug)]
pub struct Reduce {
    /// How.
    pub kind: ReduceKind,
    /// The tensor to reduce.
    pub x: Tensor,
    /// The dimensions to reduce, ascending and without repeats. All of them for a full reduction.
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
    /// The largest; NaN counts as larger than all. An error for no elements.
    Amax,
    /// The smallest; NaN wins here too. An error for no elements.
    Amin,
}

impl Op for Reduce {
    const NAME: &'static str = "reduce";
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.x]
    }

    fn check(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)?;
        let ascending = self.dims.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || self.dims.last().is_some_and(|&dim| dim >= self.x.rank()) {
            return Err(Error::invalid(
                Self::NAME,
                format!("dimensions {:?} of a tensor of shape {:?}", self.dims, self.x.shape()),
            ));
        }
        let count: usize = self.dims.iter().map(|&dim| self.x.shape()[dim]).product();
        if count == 0 && matches!(self.kind, ReduceKind::Amax | ReduceKind::Amin) {
            return Err(Error::invalid(
                Self::NAME,
                format!("no elements to choose from along {:?} of {:?}", self.dims, self.x.shape()),
            ));
        }
        Ok(())
    }
}

/// Finds the index of an extreme element along one dimension, which stays as size 1.
#[derive(Clone, Debug)]
pub struct ArgReduce {
    /// Which extreme.
    pub kind: ArgReduceKind,
    /// The tensor to search.
    pub x: Tensor,
    /// The dimension.
    pub dim: usize,
}

/// The searches that [`ArgReduce`] makes; the first of equal elements is found, and NaN is both
/// the largest and the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the function of its name")]
pub enum ArgReduceKind {
    Argmax,
    Argmin,
}

impl Op for ArgReduce {
    const NAME: &'static str = "arg_reduce";
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.x]
    }

    fn check(&self) -> Result<()> {
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
