//! Gradients of several batches.

use super::arithmetic;
use crate::{Gradients, Result, Tensor};

impl Gradients {
    /// Adds the gradients of `other`, as several backward passes in a row do in PyTorch. Only leaves
    /// keep their gradients: those of intermediate results would fill the memory.
    ///
    /// # Determinism
    ///
    /// Each sum is rounded once, so the order of the calls matters.
    ///
    /// # Errors
    ///
    /// The gradients of one tensor are not alike. These are unchanged then.
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
        let sums = other
            .leaves
            .keys()
            .filter_map(|leaf| Some((*leaf, other.by_id.get(leaf)?)))
            .map(|(leaf, new)| match self.by_id.get(&leaf) {
                Some(old) => Ok((leaf, arithmetic::add(old.value(), new.value())?.into())),
                None => Ok((leaf, new.clone())),
            })
            .collect::<Result<Vec<(u64, Tensor)>>>()?;
        self.by_id.extend(sums);
        self.leaves.extend(&other.leaves);
        self.by_id.retain(|id, _| self.leaves.contains_key(id));
        Ok(())
    }

    /// Multiplies the gradients of all leaves by `factor`, rounded to the element type: by `1 / n`
    /// for the mean of `n` accumulated ones.
    ///
    /// # Errors
    ///
    /// There is no memory for the products. The gradients are unchanged then.
    pub fn scale(&mut self, factor: f64) -> Result<()> {
        let scaled = self
            .leaves
            .keys()
            .filter_map(|leaf| Some((*leaf, self.by_id.get(leaf)?)))
            .map(|(leaf, old)| Ok((leaf, arithmetic::scale(old.value(), factor)?.into())))
            .collect::<Result<Vec<(u64, Tensor)>>>()?;
        self.by_id.extend(scaled);
        Ok(())
    }
}
