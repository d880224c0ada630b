use samebits_tensor_core::{DType, Error, Result};

use super::to_dtype;
use crate::Tensor;

/// The lengths of sequences: a slice, an array or a vector of `usize`, or an integer tensor on any
/// device.
pub trait Lengths {
    /// Returns the lengths; errors name `op`.
    ///
    /// # Errors
    ///
    /// The tensor does not hold integers, has more than one dimension, or a length is negative.
    fn lengths(self, op: &'static str) -> Result<Vec<usize>>;
}

impl Lengths for &[usize] {
    fn lengths(self, _: &'static str) -> Result<Vec<usize>> {
        Ok(self.to_vec())
    }
}

impl<const N: usize> Lengths for &[usize; N] {
    fn lengths(self, _: &'static str) -> Result<Vec<usize>> {
        Ok(self.to_vec())
    }
}

impl Lengths for &Vec<usize> {
    fn lengths(self, _: &'static str) -> Result<Vec<usize>> {
        Ok(self.clone())
    }
}

impl Lengths for &Tensor {
    fn lengths(self, op: &'static str) -> Result<Vec<usize>> {
        if self.dtype().is_float() || self.dtype() == DType::Bool {
            let (what, expected, got) = ("the lengths", DType::I64, self.dtype());
            return Err(Error::DTypeMismatch { op, what, expected, got });
        }
        if self.rank() > 1 {
            let message = format!("expected lengths of shape [n], got shape {:?}", self.shape());
            return Err(Error::invalid(op, message));
        }
        let length = |length: i64| {
            usize::try_from(length).map_err(|_| {
                Error::invalid(op, format!("expected lengths of at least 0, got {length}"))
            })
        };
        to_dtype(&self.detach(), DType::I64)?.to_vec::<i64>()?.into_iter().map(length).collect()
    }
}
