//! The keys that queries attend to.

use samebits_tensor_core::ops::CompareKind;
use samebits_tensor_core::{DType, Device, Error, Result};

use crate::Tensor;
use crate::functional::elementwise::{add, compare, relation};
use crate::functional::{logical_not, logical_or};

/// The masks of an attention: excluded keys, and numbers to add to the scores.
#[derive(Clone, Debug)]
pub(crate) struct Masks {
    op: &'static str,
    dtype: DType,
    /// Numbers to add to the scores; −∞ excludes a key.
    added: Option<Tensor>,
    /// True for the keys that a query does not attend to.
    hidden: Option<Tensor>,
    /// Excludes keys after `i + offset` for query `i`.
    causal: Option<usize>,
}

impl Masks {
    /// Creates masks for scores of type `dtype` that exclude no key.
    pub(crate) fn new(op: &'static str, dtype: DType) -> Masks {
        Masks { op, dtype, added: None, hidden: None, causal: None }
    }

    /// Excludes keys after `i + offset` for query `i`.
    pub(crate) fn causal(&mut self, offset: usize) {
        self.causal = Some(offset);
    }

    /// Adds a mask in which true marks the keys to attend to, or numbers to add.
    #[track_caller]
    pub(crate) fn shown(&mut self, mask: &Tensor) -> Result<()> {
        if mask.dtype() == DType::Bool {
            return self.exclude(&logical_not(mask)?);
        }
        self.add(mask)
    }

    /// Excludes the keys for which `mask` is true.
    #[track_caller]
    pub(crate) fn exclude(&mut self, mask: &Tensor) -> Result<()> {
        self.hidden = Some(match &self.hidden {
            Some(hidden) => logical_or(hidden, mask)?,
            None => mask.clone(),
        });
        Ok(())
    }

    /// Adds numbers to the scores; −∞ excludes a key. Several masks of numbers are added to each
    /// other first.
    #[track_caller]
    pub(crate) fn add(&mut self, mask: &Tensor) -> Result<()> {
        if mask.dtype() != self.dtype {
            let (mask, scores) = (mask.dtype(), self.dtype);
            let message = format!("expected a mask of type bool or {scores}, got {mask}");
            return Err(Error::invalid(self.op, message));
        }
        self.added = Some(match self.added.take() {
            None => mask.clone(),
            Some(before) => {
                // In a sum, −∞ could meet +∞ or NaN.
                self.exclude(&infinite(&before)?)?;
                self.exclude(&infinite(mask)?)?;
                add(&before, mask)?
            }
        });
        Ok(())
    }

    /// Returns the numbers that are added to the scores.
    pub(super) fn added(&self) -> Option<&Tensor> {
        self.added.as_ref()
    }

    /// Returns the mask that is true for excluded keys, beside −∞ in the numbers and the causal mask.
    pub(super) fn explicit(&self) -> Option<&Tensor> {
        self.hidden.as_ref()
    }

    /// Returns the offset of the causal mask.
    pub(super) fn offset(&self) -> Option<usize> {
        self.causal
    }

    /// Returns all masks that are tensors.
    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.added.iter().chain(&self.hidden)
    }

    /// Returns the union of the masks, true for excluded keys, or `None` if there is no mask.
    pub(super) fn hidden(
        &self,
        queries: usize,
        keys: usize,
        device: Device,
    ) -> Result<Option<Tensor>> {
        let mut all = Masks { hidden: self.hidden.clone(), ..Masks::new(self.op, self.dtype) };
        if let Some(added) = &self.added {
            all.exclude(&infinite(added)?)?;
        }
        if let Some(offset) = self.causal {
            let last = Tensor::arange(queries)?.unsqueeze(1)?.to(device)?;
            let offset = Tensor::from_slice(&[offset.min(keys) as i64], &[1])?.to(device)?;
            let last = add(&last, &offset)?;
            let key = Tensor::arange(keys)?.to(device)?;
            all.exclude(&relation(CompareKind::Gt, &key, &last)?)?;
        }
        Ok(all.hidden)
    }
}

/// Returns true for elements that are −∞.
#[track_caller]
fn infinite(mask: &Tensor) -> Result<Tensor> {
    compare(CompareKind::Eq, mask, f64::NEG_INFINITY)
}
