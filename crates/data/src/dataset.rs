//! Map-style datasets and their combinators.

use std::sync::Arc;

use samebits_rng::Generator;

use crate::sampler::digest;
use crate::{BatchContext, Error, Result, SampleContext};

mod combine;

pub use combine::{Concat, Map, Subset, Zip};

/// A dataset whose samples have indices.
///
/// # Determinism
///
/// `get` must be a function of the index and of [`SampleContext::rng`]. It may run on any worker,
/// in any order and concurrently.
pub trait Dataset: Send + Sync + 'static {
    /// One sample.
    type Item: Send + 'static;

    /// Returns the number of samples. It must not change while a loader uses the dataset.
    fn len(&self) -> usize;

    /// Loads the sample with index `index`, which is below [`len`](Dataset::len).
    ///
    /// # Errors
    ///
    /// Any failure while loading; [`Error::other`] wraps foreign errors. The loader adds worker,
    /// batch and sample.
    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<Self::Item>;

    /// Loads the samples with these indices, in order, if loading them together is cheaper (fewer
    /// reads, for example). The loader passes whole batches.
    ///
    /// If the result is `None`, the default, the loader calls [`get`](Dataset::get) for each
    /// sample. Return `None` on any failure too: the loader then finds the failing sample, and
    /// retries or skips it.
    ///
    /// # Determinism
    ///
    /// The samples must equal those that `get` loads. [`BatchContext::sample`] gives the generator
    /// of each.
    fn get_many(&self, indices: &[usize], cx: &mut BatchContext<'_>) -> Option<Vec<Self::Item>> {
        let (_, _) = (indices, cx);
        None
    }

    /// Returns a one-line description that identifies the data in a saved state: its length, and
    /// anything cheap to compute, such as file names, file sizes or a digest. A state resumes only
    /// with a dataset of the same description.
    fn describe(&self) -> String {
        format!("{} samples", self.len())
    }

    /// Returns true if there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Combinators of datasets.
pub trait DatasetExt: Dataset + Sized {
    /// Applies `f` to every sample, for decoding and augmentation.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{DatasetExt, Memory};
    ///
    /// let noisy = Memory::new(vec![1.0_f32, 2.0]).map(|x, cx| {
    ///     let noise = cx.rng().next_block()[0] as f32 / u32::MAX as f32;
    ///     Ok(x + noise)
    /// });
    /// # let _ = noisy;
    /// ```
    fn map<U, F>(self, f: F) -> Map<Self, F>
    where
        U: Send + 'static,
        F: Fn(Self::Item, &mut SampleContext<'_>) -> Result<U> + Send + Sync + 'static,
    {
        Map::new(self, f)
    }

    /// Selects the samples with the given indices, in their order.
    ///
    /// # Errors
    ///
    /// [`Error::IndexOutOfRange`] if an index is not below the length.
    fn subset(self, indices: Vec<usize>) -> Result<Subset<Self>> {
        Subset::new(Arc::new(self), indices)
    }

    /// Shuffles the dataset with `generator`, then cuts it into parts of the given lengths. The
    /// parts share the dataset. The generator's position does not change.
    ///
    /// # Determinism
    ///
    /// Part *i* is a function of the generator, the dataset's length and the lengths. The order is
    /// the permutation that `generator.derive("split")` draws.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the lengths do not add up to the dataset's length.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{Dataset, DatasetExt, Memory};
    /// use samebits_rng::Generator;
    ///
    /// let data = Memory::new((0..10).collect::<Vec<i64>>());
    /// let parts = data.split(&[8, 2], &Generator::new(0))?;
    /// assert_eq!((parts[0].len(), parts[1].len()), (8, 2));
    /// # Ok::<(), samebits_data::Error>(())
    /// ```
    fn split(self, lengths: &[usize], generator: &Generator) -> Result<Vec<Subset<Self>>> {
        combine::split(self, lengths, generator)
    }

    /// Appends `other` to this dataset.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the lengths together overflow.
    fn concat(self, other: Self) -> Result<Concat<Self>> {
        Concat::new(vec![self, other])
    }

    /// Pairs the samples of two datasets of equal length.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the lengths differ.
    fn zip<D: Dataset>(self, other: D) -> Result<Zip<Self, D>> {
        Zip::new(self, other)
    }
}

impl<D: Dataset> DatasetExt for D {}

impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        (**self).len()
    }

    fn describe(&self) -> String {
        (**self).describe()
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<D::Item> {
        (**self).get(index, cx)
    }

    fn get_many(&self, indices: &[usize], cx: &mut BatchContext<'_>) -> Option<Vec<D::Item>> {
        (**self).get_many(indices, cx)
    }
}

impl<D: Dataset + ?Sized> Dataset for Box<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        (**self).len()
    }

    fn describe(&self) -> String {
        (**self).describe()
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<D::Item> {
        (**self).get(index, cx)
    }

    fn get_many(&self, indices: &[usize], cx: &mut BatchContext<'_>) -> Option<Vec<D::Item>> {
        (**self).get_many(indices, cx)
    }
}

/// Samples held in memory; each is cloned when it is loaded.
#[doc(alias = "TensorDataset")]
#[derive(Clone, Debug)]
pub struct Memory<T> {
    items: Vec<T>,
}

impl<T: Clone + Send + Sync + 'static> Memory<T> {
    /// Creates the dataset of `items`.
    pub fn new(items: Vec<T>) -> Self {
        Memory { items }
    }

    /// Returns the items.
    pub fn items(&self) -> &[T] {
        &self.items
    }
}

impl<T: Clone + Send + Sync + 'static> Dataset for Memory<T> {
    type Item = T;

    fn len(&self) -> usize {
        self.items.len()
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> Result<T> {
        self.items.get(index).cloned().ok_or(Error::IndexOutOfRange {
            op: "in-memory dataset",
            index,
            len: self.items.len(),
        })
    }
}

/// Labelled rows of numbers in one flat buffer; the result of reading a table file.
///
/// A sample is `(values of the row, label)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    values: Vec<f32>,
    columns: usize,
    labels: Vec<i64>,
}

impl Table {
    /// Creates a table of `labels.len()` rows.
    ///
    /// # Shapes
    ///
    /// `values` holds `labels.len() * columns` elements, row by row.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the lengths do not match.
    pub fn new(values: Vec<f32>, columns: usize, labels: Vec<i64>) -> Result<Self> {
        if labels.len().checked_mul(columns) != Some(values.len()) {
            return Err(Error::option(
                "table",
                "number of values",
                values.len(),
                format!("must be {} rows times {columns} columns", labels.len()),
            ));
        }
        Ok(Table { values, columns, labels })
    }

    /// Returns all values, row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns the number of values per row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the labels, one per row.
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }

    /// Returns the values of one row, or `None` if there is no such row.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        if row >= self.labels.len() {
            return None;
        }
        self.values.get(row * self.columns..(row + 1) * self.columns)
    }
}

impl Dataset for Table {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn describe(&self) -> String {
        let values = self.values.iter().map(|value| u64::from(value.to_bits()));
        let digest = digest(values.chain(self.labels.iter().map(|&label| label as u64)));
        let (rows, columns) = (self.labels.len(), self.columns);
        format!("table of {rows} rows of {columns} values, digest {digest:016x}")
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> Result<(Vec<f32>, i64)> {
        match (self.row(index), self.labels.get(index)) {
            (Some(row), Some(&label)) => Ok((row.to_vec(), label)),
            _ => Err(Error::IndexOutOfRange { op: "table", index, len: self.labels.len() }),
        }
    }
}
