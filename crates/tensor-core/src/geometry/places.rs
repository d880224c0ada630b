//! Places of a tensor that indices name.

use super::Split;
use crate::layout::{Layout, PerDim, broadcast, numel};
use crate::{Error, Result};

/// The elements of a tensor that an index addresses along one dimension, as `gather` and `scatter`
/// do.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::{IndexedElements, Split};
///
/// let places = IndexedElements::new("gather", &[2, 3, 4], 1, &[2, 5, 4])?;
/// assert_eq!(places.split, Split { outer: 2, size: 3, inner: 4 });
/// assert!(places.whole);
/// assert!(!IndexedElements::new("gather", &[2, 3, 4], 1, &[1, 5, 4])?.whole);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedElements {
    /// The tensor along the dimension.
    pub split: Split,
    /// The dimension.
    pub dim: usize,
    /// The row-major strides of the tensor.
    pub strides: PerDim,
    /// True if the index is as large as the tensor in all other dimensions.
    pub whole: bool,
}

impl IndexedElements {
    /// Checks an index of shape `index` along dimension `dim` of a tensor of `shape`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if there is no such dimension, if the ranks differ, or if the
    /// index is larger than the tensor in another dimension.
    pub fn new(
        op: &'static str,
        shape: &[usize],
        dim: usize,
        index: &[usize],
    ) -> Result<IndexedElements> {
        let split = Split::new(op, shape, dim)?;
        let mut others = (0..shape.len()).filter(|&d| d != dim);
        if index.len() != shape.len() || others.clone().any(|d| index[d] > shape[d]) {
            return Err(Error::invalid(
                op,
                format!(
                    "an index of shape {index:?} for a tensor of shape {shape:?}: expected the \
                     same rank and, but along dimension {dim}, no larger sizes"
                ),
            ));
        }
        let strides = Layout::contiguous(op, shape)?.strides().into();
        Ok(IndexedElements { split, dim, strides, whole: others.all(|d| index[d] == shape[d]) })
    }

    /// Returns the tensor in one dimension.
    pub fn flat(&self) -> Split {
        let Split { outer, size, inner } = self.split;
        Split { outer: 1, size: outer * size * inner, inner: 1 }
    }
}

/// The slices of a tensor that several indices of its first dimensions name together, as
/// `x[i0, i1, ..]` does.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::IndexedSlices;
///
/// let places = IndexedSlices::new("index", &[2, 3, 4], [&[5, 1][..], &[6]])?;
/// assert_eq!(&places.shape[..], [5, 6, 4]);
/// assert_eq!(places.index_shape(), [5, 6]);
/// assert_eq!((places.rows, places.width), (6, 4));
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedSlices {
    /// The shape of the selected slices together: that of the broadcast indices, then the
    /// dimensions that are not indexed.
    pub shape: PerDim,
    /// The number of slices of the tensor.
    pub rows: usize,
    /// The number of elements of a slice.
    pub width: usize,
    index_rank: usize,
}

impl IndexedSlices {
    /// Checks indices of these shapes for the first dimensions of a tensor of `shape`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if there is no index, or more than dimensions; an error if they
    /// cannot be broadcast together, or the result has too many elements.
    pub fn new<'a>(
        op: &'static str,
        shape: &[usize],
        indices: impl IntoIterator<Item = &'a [usize], IntoIter: ExactSizeIterator>,
    ) -> Result<IndexedSlices> {
        let indices = indices.into_iter();
        let count = indices.len();
        if count == 0 || count > shape.len() {
            return Err(Error::invalid(
                op,
                format!("{count} index tensors for a tensor of shape {shape:?}"),
            ));
        }
        numel(op, shape)?;
        let (sizes, rest) = shape.split_at(count);
        let mut selected = PerDim::new();
        for index in indices {
            selected = broadcast(op, &selected, index)?;
        }
        let index_rank = selected.len();
        selected.extend_from_slice(rest);
        numel(op, &selected)?;
        let (rows, width) = (sizes.iter().product(), rest.iter().product());
        Ok(IndexedSlices { shape: selected, rows, width, index_rank })
    }

    /// Returns the shape of the broadcast indices.
    pub fn index_shape(&self) -> &[usize] {
        &self.shape[..self.index_rank]
    }
}
