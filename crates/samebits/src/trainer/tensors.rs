//! Batches as tensors.

use samebits_autograd::Number;

use crate::data::{
    Collate, DataLoader, Dataset, Error, LoaderBuilder, Result, SampleContext, Stackable, Stacked,
};
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

/// Rows of several tensors that belong together, such as inputs and targets. A sample holds a row
/// of each, a batch of [`StackRows`] a tensor of rows of each.
///
/// # Examples
///
/// ```
/// use samebits::Tensor;
/// use samebits::trainer::TensorDataset;
///
/// let x = Tensor::new([[0.5f32, 1.0], [2.0, 3.0], [4.0, 5.0]])?;
/// let y = Tensor::new([0i64, 1, 0])?;
/// let loader = TensorDataset::new([x, y])?.loader().batch_size(2).build()?;
/// let [x, y] = loader.epoch(0).next().unwrap()?.data;
/// assert_eq!(x.to_vec::<f32>()?, [0.5, 1.0, 2.0, 3.0]);
/// assert_eq!(y.to_vec::<i64>()?, [0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
///
/// `torch.utils.data.TensorDataset`.
#[derive(Clone, Debug)]
pub struct TensorDataset<const N: usize> {
    tensors: [Tensor; N],
    rows: usize,
}

impl<const N: usize> TensorDataset<N> {
    /// Creates the dataset of the rows of `tensors`, outside the graph.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::Error::InvalidArgument) if there is no tensor, or one has no
    /// dimension or another number of rows than the first.
    pub fn new(tensors: [Tensor; N]) -> crate::Result<TensorDataset<N>> {
        let op = "TensorDataset";
        let rows = |x: &Tensor| x.shape().first().copied();
        let Some(first) = tensors.first().and_then(rows) else {
            return Err(crate::Error::invalid(op, "expected tensors with at least one dimension"));
        };
        for (number, tensor) in tensors.iter().enumerate() {
            if rows(tensor) != Some(first) {
                let shape = tensor.shape();
                let message = format!("expected {first} rows in tensor {number}, got {shape:?}");
                return Err(crate::Error::invalid(op, message));
            }
        }
        Ok(TensorDataset { tensors: tensors.map(|x| x.detach()), rows: first })
    }

    /// Returns the options of a loader whose batches are tensors.
    pub fn loader(self) -> LoaderBuilder<TensorDataset<N>, StackRows> {
        DataLoader::builder_with(self, StackRows)
    }
}

impl<const N: usize> Dataset for TensorDataset<N> {
    type Item = [Tensor; N];

    fn len(&self) -> usize {
        self.rows
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> Result<[Tensor; N]> {
        let row = |x: &Tensor| x.select(0, index as i64);
        let rows: crate::Result<Vec<Tensor>> = self.tensors.iter().map(row).collect();
        Ok(rows.map_err(Error::other)?.try_into().expect("a row of each of N tensors"))
    }
}

/// Collate function that stacks the rows of a [`TensorDataset`].
#[derive(Clone, Copy, Debug, Default)]
pub struct StackRows;

impl<const N: usize> Collate<[Tensor; N]> for StackRows {
    type Batch = [Tensor; N];

    fn collate(&self, samples: Vec<[Tensor; N]>, _: &mut Generator) -> Result<[Tensor; N]> {
        let column = |number: usize| {
            let rows: Vec<&Tensor> = samples.iter().map(|sample| &sample[number]).collect();
            crate::functional::stack(&rows, 0)
        };
        let columns: crate::Result<Vec<Tensor>> = (0..N).map(column).collect();
        Ok(columns.map_err(Error::other)?.try_into().expect("a column of each of N tensors"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_different_lengths_are_refused() {
        let x = Tensor::new([1.0f32, 2.0]).unwrap();
        let error = TensorDataset::new([x.clone(), Tensor::new([1i64]).unwrap()]).unwrap_err();
        assert_eq!(error.to_string(), "TensorDataset: expected 2 rows in tensor 1, got [1]");
        let error = TensorDataset::new([Tensor::scalar(1.0f32), x]).unwrap_err();
        let message = "TensorDataset: expected tensors with at least one dimension";
        assert_eq!(error.to_string(), message);
        assert!(TensorDataset::new([]).is_err());
    }

    #[test]
    fn workers_carry_the_same_rows() {
        let x = Tensor::arange(20).unwrap().reshape([10, 2]).unwrap();
        let y = Tensor::arange(10).unwrap();
        let epoch = |workers| -> Vec<Vec<i64>> {
            let data = TensorDataset::new([x.clone(), y.clone()]).unwrap();
            let loader = data.loader().batch_size(4).shuffle(true).seed(1).workers(workers);
            let epoch = loader.build().unwrap().epoch(0).map(|batch| batch.unwrap().data);
            epoch.flat_map(|rows| rows.map(|rows| rows.to_vec::<i64>().unwrap())).collect()
        };
        let rows = epoch(0);
        assert_eq!(rows, epoch(3));
        for pair in rows.chunks(2) {
            let first: Vec<i64> = pair[0].iter().step_by(2).map(|x| x / 2).collect();
            assert_eq!(first, pair[1]);
        }
    }
}
