//! Combinators of datasets.

use std::fmt;
use std::sync::Arc;

use samebits_numerics::memory;
use samebits_rng::Generator;

use crate::sampler::{digest, permutation};
use crate::{BatchContext, Dataset, Error, Result, SampleContext};

/// A dataset with a function applied to every sample; see
/// [`DatasetExt::map`](crate::DatasetExt::map) and
/// [`ShardedDatasetExt::map`](crate::ShardedDatasetExt::map).
pub struct Map<D, F> {
    dataset: D,
    f: F,
}

impl<D, F> Map<D, F> {
    pub(crate) fn new(dataset: D, f: F) -> Self {
        Map { dataset, f }
    }

    /// Applies the function to a sample.
    pub(crate) fn apply<T, U>(&self, item: T, cx: &mut SampleContext<'_>) -> Result<U>
    where
        F: Fn(T, &mut SampleContext<'_>) -> Result<U>,
    {
        (self.f)(item, cx)
    }

    /// Returns the inner dataset.
    pub fn inner(&self) -> &D {
        &self.dataset
    }
}

impl<D: fmt::Debug, F> fmt::Debug for Map<D, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("dataset", &self.dataset).finish_non_exhaustive()
    }
}

impl<D, U, F> Dataset for Map<D, F>
where
    D: Dataset,
    U: Send + 'static,
    F: Fn(D::Item, &mut SampleContext<'_>) -> Result<U> + Send + Sync + 'static,
{
    type Item = U;

    fn len(&self) -> usize {
        self.dataset.len()
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<U> {
        let item = self.dataset.get(index, cx)?;
        self.apply(item, cx)
    }

    fn get_many(&self, indices: &[usize], cx: &mut BatchContext<'_>) -> Option<Vec<U>> {
        let items = self.dataset.get_many(indices, cx)?;
        let mut mapped = memory::with_capacity(items.len()).ok()?;
        for (place, item) in items.into_iter().enumerate() {
            if cx.cancelled() {
                return None;
            }
            mapped.push(cx.sample(place, |cx| self.apply(item, cx)).ok()?);
        }
        Some(mapped)
    }

    fn describe(&self) -> String {
        format!("{}, mapped", self.dataset.describe())
    }
}

/// Selected samples of a shared dataset.
#[derive(Clone, Debug)]
pub struct Subset<D> {
    dataset: Arc<D>,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    /// Selects the samples of `dataset` with the given indices, in their order.
    ///
    /// # Errors
    ///
    /// [`Error::IndexOutOfRange`] if an index is not below the length.
    pub fn new(dataset: Arc<D>, indices: Vec<usize>) -> Result<Self> {
        let len = dataset.len();
        if let Some(&index) = indices.iter().find(|&&index| index >= len) {
            return Err(Error::IndexOutOfRange { op: "subset", index, len });
        }
        Ok(Subset { dataset, indices })
    }

    /// Returns the indices in the whole dataset.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// Returns the whole dataset.
    pub fn inner(&self) -> &Arc<D> {
        &self.dataset
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.indices.len()
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<D::Item> {
        let &inner = self.indices.get(index).ok_or(Error::IndexOutOfRange {
            op: "subset",
            index,
            len: self.indices.len(),
        })?;
        self.dataset.get(inner, cx)
    }

    fn get_many(&self, indices: &[usize], cx: &mut BatchContext<'_>) -> Option<Vec<D::Item>> {
        let mut inner = memory::with_capacity(indices.len()).ok()?;
        for &index in indices {
            inner.push(*self.indices.get(index)?);
        }
        self.dataset.get_many(&inner, cx)
    }

    fn describe(&self) -> String {
        let digest = digest(self.indices.iter().map(|&index| index as u64));
        let (len, whole) = (self.indices.len(), self.dataset.describe());
        format!("{len} indices, digest {digest:016x}, of {whole}")
    }
}

pub(super) fn split<D: Dataset>(
    dataset: D,
    lengths: &[usize],
    generator: &Generator,
) -> Result<Vec<Subset<D>>> {
    let len = dataset.len();
    let total = lengths.iter().try_fold(0_usize, |sum, &part| sum.checked_add(part));
    if total != Some(len) {
        return Err(Error::option(
            "split",
            "lengths",
            format!("{lengths:?}"),
            format!("must add up to the dataset's length {len}"),
        ));
    }
    let dataset = Arc::new(dataset);
    let order = permutation("split", len, &generator.derive("split"))?;
    let mut rest = order.as_slice();
    let parts = lengths.iter().map(|&part| {
        let (head, tail) = rest.split_at(part);
        rest = tail;
        Subset { dataset: Arc::clone(&dataset), indices: head.to_vec() }
    });
    Ok(parts.collect())
}

/// Concatenation of datasets.
#[doc(alias = "ConcatDataset")]
#[derive(Clone, Debug)]
pub struct Concat<D> {
    datasets: Vec<D>,
    /// The index after the last sample of each dataset.
    ends: Vec<usize>,
}

impl<D: Dataset> Concat<D> {
    /// Concatenates `datasets` in order.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the lengths together overflow.
    pub fn new(datasets: Vec<D>) -> Result<Self> {
        let mut total = 0_usize;
        let mut ends = Vec::with_capacity(datasets.len());
        for dataset in &datasets {
            total = total.checked_add(dataset.len()).ok_or_else(|| {
                Error::option("concat", "length", "too large", "must fit the address space")
            })?;
            ends.push(total);
        }
        Ok(Concat { datasets, ends })
    }
}

impl<D: Dataset> Dataset for Concat<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<D::Item> {
        let part = self.ends.partition_point(|&end| end <= index);
        let Some(dataset) = self.datasets.get(part) else {
            return Err(Error::IndexOutOfRange { op: "concat", index, len: self.len() });
        };
        let start = if part == 0 { 0 } else { self.ends[part - 1] };
        dataset.get(index - start, cx)
    }

    fn describe(&self) -> String {
        let parts = self.datasets.iter().flat_map(|dataset| {
            dataset.describe().into_bytes().into_iter().map(u64::from).chain([u64::MAX])
        });
        format!(
            "{} datasets of {} samples, digest {:016x}",
            self.ends.len(),
            self.len(),
            digest(parts)
        )
    }
}

/// Pairs of the samples of two datasets.
#[doc(alias = "StackDataset")]
#[derive(Clone, Debug)]
pub struct Zip<A, B> {
    first: A,
    second: B,
}

impl<A: Dataset, B: Dataset> Zip<A, B> {
    /// Pairs the samples of two datasets of equal length.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the lengths differ.
    pub fn new(first: A, second: B) -> Result<Self> {
        if first.len() != second.len() {
            return Err(Error::option(
                "zip",
                "length of the second dataset",
                second.len(),
                format!("must be the first's length {}", first.len()),
            ));
        }
        Ok(Zip { first, second })
    }
}

impl<A: Dataset, B: Dataset> Dataset for Zip<A, B> {
    type Item = (A::Item, B::Item);

    fn len(&self) -> usize {
        self.first.len()
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> Result<Self::Item> {
        // The first half draws first; that order is part of the contract.
        Ok((self.first.get(index, cx)?, self.second.get(index, cx)?))
    }

    fn get_many(&self, indices: &[usize], cx: &mut BatchContext<'_>) -> Option<Vec<Self::Item>> {
        let (first, second) =
            (self.first.get_many(indices, cx)?, self.second.get_many(indices, cx)?);
        Some(first.into_iter().zip(second).collect())
    }

    fn describe(&self) -> String {
        format!("({}) with ({})", self.first.describe(), self.second.describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DatasetExt, Memory, WorkerContext};

    fn all<D: Dataset>(dataset: &D) -> Vec<D::Item> {
        let mut worker = WorkerContext::detached();
        (0..dataset.len())
            .map(|i| {
                let mut cx = SampleContext::detached(&mut worker, 0, 0, i);
                dataset.get(i, &mut cx).unwrap()
            })
            .collect()
    }

    fn numbers(n: i64) -> Memory<i64> {
        Memory::new((0..n).collect())
    }

    #[test]
    fn a_split_is_a_partition() {
        let parts = numbers(100).split(&[60, 0, 40], &Generator::new(3)).unwrap();
        let mut seen: Vec<i64> = parts.iter().flat_map(all).collect();
        assert_ne!(seen, (0..100).collect::<Vec<_>>());
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        let again = numbers(100).split(&[60, 0, 40], &Generator::new(3)).unwrap();
        assert_eq!(again[2].indices(), parts[2].indices());
        let error = numbers(100).split(&[60, 41], &Generator::new(3)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "split: lengths is [60, 41]: must add up to the dataset's length 100"
        );
        assert!(numbers(1).split(&[usize::MAX, 2], &Generator::new(3)).is_err());
    }

    #[test]
    fn concat_skips_empty_parts() {
        let data = Concat::new(vec![numbers(0), numbers(2), numbers(0), numbers(1)]).unwrap();
        assert_eq!(all(&data), [0, 1, 0]);
        let mut worker = WorkerContext::detached();
        let mut cx = SampleContext::detached(&mut worker, 0, 0, 0);
        assert!(matches!(data.get(3, &mut cx), Err(Error::IndexOutOfRange { len: 3, .. })));
    }

    #[test]
    fn map_subset_and_zip_compose() {
        let data = numbers(5)
            .map(|x, cx| Ok(x * 10 + cx.index() as i64))
            .subset(vec![4, 0])
            .unwrap()
            .zip(numbers(2))
            .unwrap();
        assert_eq!(all(&data), [(40, 0), (1, 1)]);
        assert!(numbers(5).subset(vec![5]).is_err());
        assert!(numbers(5).zip(numbers(4)).is_err());
    }
}
