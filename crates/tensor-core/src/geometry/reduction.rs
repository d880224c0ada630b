//! A tensor reduced over some of its dimensions.

use super::Split;
use crate::layout::{PerDim, numel};
use crate::{Error, Result};

/// A reduction over some dimensions of a shape, which stay as size 1.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::{Reduction, Split};
///
/// let over = Reduction::new("sum", &[2, 3, 4, 5], &[1, 2])?;
/// assert_eq!(over.result.as_slice(), [2, 1, 1, 5]);
/// assert_eq!(over.count, 12);
/// assert_eq!(over.adjacent, Some(Split { outer: 2, size: 12, inner: 5 }));
/// assert_eq!(Reduction::new("sum", &[2, 3, 4], &[0, 2])?.adjacent, None);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// The shape of the result.
    pub result: PerDim,
    /// The number of elements that are reduced to one.
    pub count: usize,
    /// The shape split at the reduced dimensions, if they are neighbours. With none of them, it is
    /// split at its end.
    pub adjacent: Option<Split>,
}

impl Reduction {
    /// Checks a reduction of `shape` over `dims`, which are ascending and distinct.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `dims` are not, if there is no such dimension, or if the shape
    /// has too many elements.
    pub fn new(op: &'static str, shape: &[usize], dims: &[usize]) -> Result<Reduction> {
        let ascending = dims.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || dims.last().is_some_and(|&dim| dim >= shape.len()) {
            return Err(Error::invalid(
                op,
                format!("dimensions {dims:?} of a tensor of shape {shape:?}"),
            ));
        }
        numel(op, shape)?;
        let mut result = PerDim::from_slice(shape);
        let count = dims.iter().map(|&dim| std::mem::replace(&mut result[dim], 1)).product();
        let adjacent = dims.windows(2).all(|pair| pair[0] + 1 == pair[1]).then(|| {
            let first = dims.first().copied().unwrap_or(shape.len());
            let (before, after) = (&shape[..first], &shape[first + dims.len()..]);
            Split { outer: before.iter().product(), size: count, inner: after.iter().product() }
        });
        Ok(Reduction { result, count, adjacent })
    }
}
