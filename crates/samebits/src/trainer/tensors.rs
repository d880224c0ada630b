//! Batches as tensors.

use samebits_autograd::Number;

use crate::data::{Collate, Error, Result, Stackable, Stacked};
use crate::{Generator, Tensor};

/// Collate function that makes tensors of the results of [`Stack`](crate::data::Stack): numbers
/// become `[rows]`, rows of numbers `[rows, columns]`.
///
/// # Examples
///
/// ```
/// use samebits::data::{DataLoader, Table};
/// use samebits::trainer::StackTensors;
///
/// let table = Table::new(vec![0.5, 1.5, 2.5, 3.5, 4.5, 5.5], 2, vec![0, 1, 0])?;
/// let loader = DataLoader::builder_with(table, StackTensors).batch_size(3).build()?;
/// let (x, classes) = loader.epoch(0).next().unwrap()?.data;
/// assert_eq!((x.shape(), classes.shape()), (&[3, 2][..], &[3][..]));
/// # Ok::<(), samebits::data::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct StackTensors;

impl<S> Collate<S> for StackTensors
where
    S: Stackable<Stacked: IntoTensors>,
{
    type Batch = <S::Stacked as IntoTensors>::Tensors;

    fn collate(&self, samples: Vec<S>, _: &mut Generator) -> Result<Self::Batch> {
        S::stack(samples)?.into_tensors().map_err(Error::other)
    }
}

/// A stacked batch that [`StackTensors`] turns into tensors.
pub trait IntoTensors {
    /// A tensor, or a tuple of them.
    type Tensors: Send + 'static;

    /// Converts the batch to tensors on the host.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](crate::Error::OutOfMemory) if memory for them runs out.
    fn into_tensors(self) -> crate::Result<Self::Tensors>;
}

impl<N: Number> IntoTensors for Vec<N> {
    type Tensors = Tensor;

    fn into_tensors(self) -> crate::Result<Tensor> {
        N::tensor(&self, &[self.len()])
    }
}

impl<N: Number> IntoTensors for Stacked<N> {
    type Tensors = Tensor;

    fn into_tensors(self) -> crate::Result<Tensor> {
        N::tensor(&self.values, &[self.rows, self.columns])
    }
}

impl<A: IntoTensors, B: IntoTensors> IntoTensors for (A, B) {
    type Tensors = (A::Tensors, B::Tensors);

    fn into_tensors(self) -> crate::Result<Self::Tensors> {
        Ok((self.0.into_tensors()?, self.1.into_tensors()?))
    }
}

impl<A: IntoTensors, B: IntoTensors, C: IntoTensors> IntoTensors for (A, B, C) {
    type Tensors = (A::Tensors, B::Tensors, C::Tensors);

    fn into_tensors(self) -> crate::Result<Self::Tensors> {
        Ok((self.0.into_tensors()?, self.1.into_tensors()?, self.2.into_tensors()?))
    }
}
