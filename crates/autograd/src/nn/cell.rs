use std::fmt;

use parking_lot::{Mutex, RwLock};
use samebits_tensor_core::Result;

use super::{Kind, Module};
use crate::Tensor;

/// A tensor behind a lock, so that a layer can replace it during `forward(&self)`. A clone has a
/// cell of its own. The tensor is a parameter, or a buffer if the field is marked
/// `#[module(buffer)]`.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::TensorCell;
///
/// let cell = TensorCell::from(Tensor::scalar(1.0f32));
/// let copy = cell.clone();
/// cell.set(Tensor::scalar(2.0f32));
/// assert_eq!((cell.get().item::<f32>()?, copy.get().item::<f32>()?), (2.0, 1.0));
/// # Ok::<(), samebits::Error>(())
/// ```
pub struct TensorCell(RwLock<Tensor>);

impl TensorCell {
    /// Returns the current tensor.
    pub fn get(&self) -> Tensor {
        self.0.read().clone()
    }

    /// Replaces the tensor.
    pub fn set(&self, tensor: Tensor) {
        *self.0.write() = tensor;
    }

    /// Replaces the tensor with the result of `update` and returns the new tensor. Other threads
    /// wait.
    ///
    /// # Errors
    ///
    /// Errors of `update`; the tensor is unchanged then.
    pub fn update(&self, update: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        let mut place = self.0.write();
        *place = update(&place)?;
        Ok(place.clone())
    }
}

impl From<Tensor> for TensorCell {
    fn from(tensor: Tensor) -> TensorCell {
        TensorCell(RwLock::new(tensor))
    }
}

impl Clone for TensorCell {
    fn clone(&self) -> TensorCell {
        TensorCell::from(self.get())
    }
}

impl fmt::Debug for TensorCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.read().fmt(f)
    }
}

impl Module for TensorCell {
    fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
        // Visits a copy, so that `visit` may use the layer without a deadlock.
        visit(path, Kind::Parameter, &self.get());
    }

    fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
        visit(path, Kind::Parameter, self.0.get_mut());
    }
}

/// A counter that a layer increments during `forward(&self)`. Visitors see it as a host tensor of
/// type `I64` without dimensions.
#[derive(Debug, Default)]
pub(super) struct Counter(Mutex<i64>);

impl Counter {
    /// Adds 1 and returns the new count.
    pub(super) fn next(&self) -> i64 {
        let mut count = self.0.lock();
        *count = count.saturating_add(1);
        *count
    }
}

impl Clone for Counter {
    fn clone(&self) -> Counter {
        Counter(Mutex::new(*self.0.lock()))
    }
}

impl Module for Counter {
    fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
        visit(path, Kind::Buffer, &Tensor::scalar(*self.0.lock()));
    }

    fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
        let count = self.0.get_mut();
        let mut tensor = Tensor::scalar(*count);
        visit(path, Kind::Buffer, &mut tensor);
        // Keeps the old count if the tensor holds no `I64` number.
        *count = tensor.item().unwrap_or(*count);
    }
}
