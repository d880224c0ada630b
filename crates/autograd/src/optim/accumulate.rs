//! Accumulated gradients of several batches.

use super::arithmetic;
use crate::{Error, Gradients, Result, Tensor};

impl Gradients {
    /// Adds the gradients of `other`, as repeated backward passes do in PyTorch. Keeps only the
    /// gradients of leaves, to save memory.
    ///
    /// # Determinism
    ///
    /// Each sum is rounded once, so the order of the calls matters.
    ///
    /// # Errors
    ///
    /// The gradients of one tensor differ in shape, type or device; `self` is unchanged then.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::Tensor;
    ///
    /// let x = Tensor::scalar(3.0f32).set_requires_grad(true)?;
    /// let mut gradients = x.square()?.backward()?;
    /// gradients.accumulate(&x.square()?.backward()?)?;
    /// assert_eq!(gradients.of(&x).unwrap().item::<f32>()?, 12.0);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    pub fn accumulate(&mut self, other: &Gradients) -> Result<()> {
        let of = |leaf: &u64| Some((*leaf, other.by_id.get(leaf)?));
        let (known, new): (Vec<_>, Vec<_>) =
            other.leaves.keys().filter_map(of).partition(|(leaf, _)| self.by_id.contains_key(leaf));
        let pairs: Vec<_> =
            known.iter().map(|(leaf, new)| (self.by_id[leaf].value(), new.value())).collect();
        let sums = arithmetic::add_all(&pairs)?.into_iter().map(Tensor::from);
        let sums: Vec<_> = known.into_iter().map(|(leaf, _)| leaf).zip(sums).collect();
        self.by_id.extend(sums);
        self.by_id.extend(new.into_iter().map(|(leaf, new)| (leaf, new.clone())));
        self.leaves.extend(&other.leaves);
        self.keep_leaves();
        Ok(())
    }

    /// Adds as [`accumulate`](Gradients::accumulate) does and returns the sum; for use with a
    /// [`TreeSum`](super::TreeSum).
    ///
    /// # Errors
    ///
    /// The gradients of one tensor differ in shape, type or device.
    pub fn plus(mut self, other: Gradients) -> Result<Gradients> {
        self.accumulate(&other)?;
        Ok(self)
    }

    /// Drops the gradients of intermediate results and keeps those of leaves.
    pub fn keep_leaves(&mut self) {
        self.by_id.retain(|id, _| self.leaves.contains_key(id));
    }

    /// Replaces the gradient of a parameter, as an assignment to `grad` does in PyTorch; `None`
    /// removes it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `parameter` is frozen or was computed;
    /// [`Error::ShapeMismatch`], [`Error::DTypeMismatch`] or [`Error::DeviceMismatch`] if the
    /// gradient does not match it.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::{Gradients, Tensor};
    ///
    /// let x = Tensor::scalar(3.0f32).set_requires_grad(true)?;
    /// let mut gradients = Gradients::default();
    /// gradients.set(&x, Some(Tensor::scalar(0.5f32)))?;
    /// assert_eq!(gradients.of(&x).unwrap().item::<f32>()?, 0.5);
    /// assert!(gradients.set(&x, Some(Tensor::scalar(0.5f64))).is_err());
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    pub fn set(&mut self, parameter: &Tensor, gradient: Option<Tensor>) -> Result<()> {
        let op = "set_gradient";
        let Some((id, line)) = parameter.wanted_leaf() else {
            let message = "the tensor should be a parameter that requires a gradient";
            return Err(Error::invalid(op, message));
        };
        let Some(gradient) = gradient else {
            self.by_id.remove(&id);
            self.leaves.remove(&id);
            return Ok(());
        };
        let what = "the gradient";
        if gradient.shape() != parameter.shape() {
            let (expected, got) = (parameter.shape().to_vec(), gradient.shape().to_vec());
            return Err(Error::ShapeMismatch { op, what, expected, got });
        }
        if gradient.dtype() != parameter.dtype() {
            let (expected, got) = (parameter.dtype(), gradient.dtype());
            return Err(Error::DTypeMismatch { op, what, expected, got });
        }
        if gradient.device() != parameter.device() {
            let (left, right) = (parameter.device(), gradient.device());
            return Err(Error::DeviceMismatch { op, left, right });
        }
        self.by_id.insert(id, gradient.detach());
        self.leaves.insert(id, line);
        Ok(())
    }

    /// Multiplies the gradients of all leaves by `factor`, rounded to the element type. A factor of
    /// `1 / n` gives the mean of `n` accumulated gradients.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if memory runs out; the gradients are unchanged then.
    pub fn scale(&mut self, factor: f64) -> Result<()> {
        let scaled = self.scaled_leaves(factor)?;
        self.by_id.extend(scaled);
        Ok(())
    }

    /// Returns the gradients of all leaves times `factor`.
    pub(super) fn scaled_leaves(&self, factor: f64) -> Result<Vec<(u64, Tensor)>> {
        let of = |leaf: &u64| Some((*leaf, self.by_id.get(leaf)?.value()));
        let (leaves, old): (Vec<_>, Vec<_>) = self.leaves.keys().filter_map(of).unzip();
        let new = arithmetic::scale_all(&old, factor)?;
        Ok(leaves.into_iter().zip(new.into_iter().map(Tensor::from)).collect())
    }
}
