//! A tensor along one of its dimensions.

use crate::Result;
use crate::layout::outer_dim_inner;

/// A shape split at a dimension: `outer` slabs of `size` rows of `inner` elements.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::Split;
///
/// let split = Split::new("cumsum", &[2, 3, 4, 5], 1)?;
/// assert_eq!(<[usize; 3]>::from(split), [2, 3, 20]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The product of the sizes before the dimension.
    pub outer: usize,
    /// The size of the dimension.
    pub size: usize,
    /// The product of the sizes after the dimension.
    pub inner: usize,
}

impl Split {
    /// Splits `shape` at dimension `dim`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if there is no such dimension, or
    /// the shape has too many elements.
    pub fn new(op: &'static str, shape: &[usize], dim: usize) -> Result<Split> {
        let (outer, size, inner) = outer_dim_inner(op, shape, dim)?;
        Ok(Split { outer, size, inner })
    }
}

impl From<Split> for [usize; 3] {
    fn from(split: Split) -> [usize; 3] {
        [split.outer, split.size, split.inner]
    }
}
