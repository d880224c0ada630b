//! Bags: groups of neighbouring places of an index.

use std::ops::Range;

use samebits_numerics::memory;

use crate::{Error, Result};

/// The bounds of bags of neighbouring places.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::BagBounds;
///
/// let bags = BagBounds::new("embedding_bag", 5, &[0, 2, 2], false)?;
/// let places: Vec<_> = (0..bags.len()).map(|bag| bags.places(bag)).collect();
/// assert_eq!(places, [0..2, 2..2, 2..5]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `offsets` and `include_last_offset` of `torch.nn.functional.embedding_bag`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BagBounds {
    /// The start of each bag, then the end of the last one; never decreasing.
    bounds: Vec<u64>,
}

impl BagBounds {
    /// Returns the bounds of bags over `places` places. Bag `b` starts at `offsets[b]` and ends at
    /// the start of the next bag; the last bag ends at `places`. With `include_last_offset`, the
    /// last offset is not the start of a bag but the end of the last one.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the offsets do not start at 0, decrease, exceed the number of
    /// places, or lack the end of the last bag; [`Error::OutOfMemory`].
    pub fn new(
        op: &'static str,
        places: usize,
        offsets: &[i64],
        include_last_offset: bool,
    ) -> Result<BagBounds> {
        let mut bounds =
            memory::with_capacity(offsets.len() + 1).map_err(Error::out_of_host_memory(op))?;
        let end = places as u64;
        for (position, &offset) in offsets.iter().enumerate() {
            let range = bounds.last().map_or(0..=0, |&last| last..=end);
            let bound = u64::try_from(offset).ok().filter(|bound| range.contains(bound));
            bounds.push(bound.ok_or_else(|| {
                Error::invalid(
                    op,
                    format!(
                        "offset {offset} at position {position}: offsets start at 0, do not \
                         decrease and do not exceed {places}"
                    ),
                )
            })?);
        }
        if !include_last_offset {
            bounds.push(end);
        } else if bounds.is_empty() {
            return Err(Error::invalid(op, "include_last_offset needs at least one offset"));
        }
        Ok(BagBounds { bounds })
    }

    /// Returns the bounds of `count` bags of `size` places each.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if there are too many places; [`Error::OutOfMemory`].
    pub fn of_size(op: &'static str, count: usize, size: usize) -> Result<BagBounds> {
        let (Some(_), Some(len)) = (count.checked_mul(size), count.checked_add(1)) else {
            return Err(Error::invalid(op, format!("{count} bags of {size} places")));
        };
        let bounds = (0..len).map(|bag| (bag * size) as u64);
        let bounds = memory::collected(bounds).map_err(Error::out_of_host_memory(op))?;
        Ok(BagBounds { bounds })
    }

    /// Returns the number of bags.
    pub fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Returns true if there are no bags.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the start of each bag, then the end of the last one.
    pub fn bounds(&self) -> &[u64] {
        &self.bounds
    }

    /// Returns the places of bag `bag`.
    #[inline(always)]
    pub fn places(&self, bag: usize) -> Range<usize> {
        self.bounds[bag] as usize..self.bounds[bag + 1] as usize
    }

    /// Returns the number of places that lie in a bag.
    pub fn total(&self) -> usize {
        self.bounds[self.len()] as usize
    }
}
