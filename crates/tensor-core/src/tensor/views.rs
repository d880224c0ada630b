//! Views of tensors.

use super::Tensor;
use crate::layout::numel;
use crate::{Error, Layout, Result};

/// Views: other shapes over the same elements, without copying.
impl Tensor {
    /// Returns the same elements with another shape; copies only if the strides allow no view.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the number of elements differs.
    pub fn reshape(&self, shape: &[usize]) -> Result<Tensor> {
        let elements = numel("reshape", shape)?;
        if elements != self.numel() {
            return Err(Error::invalid(
                "reshape",
                format!(
                    "shape {:?} holds {} elements, {shape:?} holds {elements}",
                    self.shape(),
                    self.numel(),
                ),
            ));
        }
        let dense = self.contiguous()?;
        let layout = dense.layout.reshape(shape).expect("a dense layout of as many elements");
        Ok(dense.with_layout(layout))
    }

    /// Flattens the dimensions from `from` on into one.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if there is no such dimension.
    pub fn flatten_from(&self, from: usize) -> Result<Tensor> {
        self.layout.size("flatten", from)?;
        let mut shape = self.shape()[..from].to_vec();
        shape.push(self.shape()[from..].iter().product());
        self.reshape(&shape)
    }

    /// Swaps two dimensions.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if there is no such dimension.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Tensor> {
        self.layout.size("transpose", a)?;
        self.layout.size("transpose", b)?;
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.swap(a, b);
        self.permute(&order)
    }

    /// Reorders the dimensions; see [`Layout::permute`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] unless `order` is a permutation.
    pub fn permute(&self, order: &[usize]) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.permute(order)?))
    }

    /// Selects elements `start..start + length` of dimension `dim`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the range reaches past the dimension.
    pub fn narrow(&self, dim: usize, start: usize, length: usize) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.narrow(dim, start, length)?))
    }

    /// Selects the first elements of every dimension, as many as `shape` says.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `shape` has more dimensions, or is larger in one.
    pub fn leading(&self, shape: &[usize]) -> Result<Tensor> {
        let narrow = |x: Tensor, (dim, &size)| x.narrow(dim, 0, size);
        shape.iter().enumerate().try_fold(self.clone(), narrow)
    }

    /// Selects every `step`-th element of dimension `dim`, from `start`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `step` is 0 or `start` lies past the end.
    pub fn stepped(&self, dim: usize, start: usize, step: usize) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.stepped(dim, start, step)?))
    }

    /// Returns the slice at `index` of dimension `dim`, with that dimension removed.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the index is out of range.
    pub fn select(&self, dim: usize, index: usize) -> Result<Tensor> {
        self.narrow(dim, index, 1)?.squeeze(dim)
    }

    /// Expands dimensions of size 1 (and new leading ones) to `shape`.
    ///
    /// # Errors
    ///
    /// [`Error::Broadcast`] if a dimension is neither 1 nor already of the wanted size.
    pub fn expand(&self, shape: &[usize]) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.expand("expand", shape)?))
    }

    /// Inserts a dimension of size 1 before `dim`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `dim` is larger than the rank.
    pub fn unsqueeze(&self, dim: usize) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.unsqueeze(dim)?))
    }

    /// Removes dimension `dim`, which must have size 1.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if it has another size.
    pub fn squeeze(&self, dim: usize) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.squeeze(dim)?))
    }

    fn with_layout(&self, layout: Layout) -> Tensor {
        Tensor { storage: self.storage.clone(), layout, dtype: self.dtype }
    }
}
