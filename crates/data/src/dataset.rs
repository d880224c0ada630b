//! Map-style datasets and how to combine them.

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
/// `get` must be a function of the index and of [`SampleContext::rng`]. It runs on any worker,
/// in any order, perhaps several times at once.
pub trait Dataset: Send + Sync + 'static {
    /// One sample.
    type Item: Send + 'static;

    /// How many samples there are. It must not change while a loader uses the dataset.
    fn len(&self) -> usize;

    /// Loads the sample with index `index`, which is below [`len`](Dataset::len).
    ///
    /// # Errors
    ///
    /// Whatever can go wrong while loading; [`Error::other`] wraps foreign errors. The loader
    /// adds worker, batch and sample.
    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<Self::Item>;

    /// Loads the samples with these indices in their order, if that is cheaper together than one by
    /// one: with fewer reads, say. The loader hands over whole batches.
    ///
    /// `None`, which is also the default, has the loader call [`get`](Dataset::get) for each sample.
    /// It is the answer to any failure: the loader then finds out which sample fails, and tries that
    /// one again or leaves it out.
    ///
    /// # Determinism
    ///
    /// The samples must be those that `get` loads. [`BatchContext::sample`] gives the generator of
    /// each.
    fn get_many(&self, indices: &[usize], cx: &mut BatchContext<'_>) -> Option<Vec<Self::Item>> {
        let (_, _) = (indices, cx);
        None
    }

    /// What identifies the data in a saved state, on one line: its length, and what else is cheap to
    /// tell, such as the names and sizes of files or a digest. A state resumes only with a dataset
    /// of the same description.
    fn describe(&self) -> String {
        format!("{} samples", self.len())
    }

    /// True if there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Ways to make datasets out of datasets.
pub trait DatasetExt: Dataset + Sized {
    /// Applies `f` to every sample: the place for decoding and augmentation.
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

    /// The samples with the given indices, in their order.
    ///
    /// # Errors
    ///
    /// [`Error::IndexOutOfRange`] if an index is not below the length.
    fn subset(self, indices: Vec<usize>) -> Result<Subset<Self>> {
        Subset::new(Arc::new(self), indices)
    }

    /// Cuts the dataset into parts of the given lengths after shuffling it with `generator`.
    /// The parts share the dataset. The generator is not moved.
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

    /// This dataset followed by `other`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the lengths together overflow.
    fn concat(self, other: Self) -> Result<Concat<Self>> {
        Concat::new(vec![self, other])
    }

    /// Pairs of the samples of two datasets of one length.
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
#[derive(Clone, Debug)]
pub struct Memory<T> {
    items: Vec<T>,
}

impl<T: Clone + Send + Sync + 'static> Memory<T> {
    /// The dataset of `items`.
    pub fn new(items: Vec<T>) -> Self {
        Memory { items }
    }

    /// The items.
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

/// Labelled rows of numbers in one flat buffer: what a table file becomes.
///
/// A sample is `(values of the row, label)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    values: Vec<f32>,
    columns: usize,
    labels: Vec<i64>,
}

impl Table {
    /// A table of `labels.len()` rows.
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

    /// All values, row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// How many values a row has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The labels, one per row.
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }

    /// The values of one row, or nothing if there is no such row.
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
