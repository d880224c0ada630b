//! Batches and rows, as normalisations take them.

use crate::layout::numel;
use crate::{Error, Result};

use super::Split;

/// A batch of shape `[n, channels, ..]`.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::Batch;
///
/// let batch = Batch::new("batch_norm", &[2, 3, 4, 5])?;
/// assert_eq!(batch, Batch { n: 2, channels: 3, spatial: 20 });
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The number of samples.
    pub n: usize,
    /// The number of channels.
    pub channels: usize,
    /// The number of elements per sample and channel.
    pub spatial: usize,
}

impl Batch {
    /// Checks the shape of a batch.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if it has no dimension of channels, or too many elements.
    pub fn new(op: &'static str, shape: &[usize]) -> Result<Batch> {
        let Split { outer, size, inner } = Split::new(op, shape, 1)?;
        Ok(Batch { n: outer, channels: size, spatial: inner })
    }
}

/// A batch of shape `[n, groups · channels, ..]`, of which each group of each sample is a row.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::Groups;
///
/// let groups = Groups::new("group_norm", &[2, 6, 4, 5], 3)?;
/// assert_eq!(groups, Groups { n: 2, groups: 3, channels: 2, spatial: 20 });
/// assert_eq!((groups.rows(), groups.width()), (6, 40));
/// assert!(Groups::new("group_norm", &[2, 0, 4], usize::MAX).is_err());
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The number of samples.
    pub n: usize,
    /// The number of groups of a sample.
    pub groups: usize,
    /// The number of channels of a group.
    pub channels: usize,
    /// The number of elements per sample and channel.
    pub spatial: usize,
}

impl Groups {
    /// Splits the channels of a batch into groups.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `shape` has no dimension of channels or too many elements, or if
    /// `groups` does not divide the channels.
    pub fn new(op: &'static str, shape: &[usize], groups: usize) -> Result<Groups> {
        if shape.len() < 2 {
            let message = format!("expected [n, channels, ..], got shape {shape:?}");
            return Err(Error::invalid(op, message));
        }
        let Batch { n, channels, spatial } = Batch::new(op, shape)?;
        if groups == 0 || !channels.is_multiple_of(groups) {
            let message = format!("{channels} channels are not divisible by {groups} groups");
            return Err(Error::invalid(op, message));
        }
        let channels = channels / groups;
        // Any number divides 0.
        numel(op, &[n, groups, channels, spatial])?;
        Ok(Groups { n, groups, channels, spatial })
    }

    /// Returns the number of rows.
    pub fn rows(self) -> usize {
        self.n * self.groups
    }

    /// Returns the number of elements of a row.
    pub fn width(self) -> usize {
        self.channels * self.spatial
    }
}

/// A tensor as rows of its last dimensions.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::Rows;
///
/// assert_eq!(Rows::new("layer_norm", &[2, 3, 4], &[3, 4])?, Rows { count: 2, width: 12 });
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The number of rows.
    pub count: usize,
    /// The number of elements of a row, at least 1.
    pub width: usize,
}

impl Rows {
    /// Splits `shape` into rows of its last dimensions, which are `row`.
    ///
    /// # Errors
    ///
    /// [`Error::ShapeMismatch`] if the last dimensions are others, or if a row has no dimension or
    /// no element; [`Error::InvalidArgument`] for too many elements.
    pub fn new(op: &'static str, shape: &[usize], row: &[usize]) -> Result<Rows> {
        let width = numel(op, row)?;
        if row.is_empty() || !shape.ends_with(row) || width == 0 {
            return Err(Error::ShapeMismatch {
                op,
                what: "the last dimensions of the input",
                expected: row.to_vec(),
                got: shape.to_vec(),
            });
        }
        Ok(Rows { count: numel(op, shape)? / width, width })
    }
}
