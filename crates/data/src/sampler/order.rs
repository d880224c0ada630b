//! The order of an epoch, listed or computed.

use std::fmt;

use samebits_numerics::memory;

use crate::Result;
use crate::memory::allocated;

/// Order in which an epoch visits indices: a list, or a function of the position, which needs no
/// memory.
///
/// # Examples
///
/// ```
/// use samebits_data::Order;
///
/// let listed = Order::from(vec![2, 0, 1]);
/// assert_eq!((listed.len(), listed.at(0)), (3, Some(2)));
/// let backwards = Order::computed(1 << 40, |place| (1 << 40) - 1 - place);
/// assert_eq!(backwards.at(0), Some((1 << 40) - 1));
/// assert_eq!(backwards.at(1 << 40), None);
/// ```
pub struct Order {
    places: Places,
}

enum Places {
    Listed(Vec<usize>),
    /// All numbers below a length, in ascending order.
    Ascending(usize),
    Computed(usize, Box<dyn Fn(usize) -> usize + Send + Sync>),
}

impl Order {
    /// Creates the ascending order of the numbers below `len`.
    pub fn ascending(len: usize) -> Self {
        Order { places: Places::Ascending(len) }
    }

    /// Creates an order of `len` positions with index `at(place)` at each position.
    ///
    /// # Determinism
    ///
    /// `at` must be a function of the position. Workers call it concurrently and in any order.
    pub fn computed(len: usize, at: impl Fn(usize) -> usize + Send + Sync + 'static) -> Self {
        Order { places: Places::Computed(len, Box::new(at)) }
    }

    /// Returns the number of positions.
    pub fn len(&self) -> usize {
        match &self.places {
            Places::Listed(list) => list.len(),
            Places::Ascending(len) | Places::Computed(len, _) => *len,
        }
    }

    /// Returns true if there are no positions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the index at `place`, or `None` from [`len`](Order::len) on.
    pub fn at(&self, place: usize) -> Option<usize> {
        match &self.places {
            Places::Listed(list) => list.get(place).copied(),
            Places::Ascending(len) => Some(place).filter(|place| place < len),
            Places::Computed(len, at) => (place < *len).then(|| at(place)),
        }
    }

    /// Returns the indices as a list.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn into_vec(self) -> Result<Vec<usize>> {
        match self.places {
            Places::Listed(list) => Ok(list),
            Places::Ascending(len) => allocated("order", memory::collected(0..len)),
            Places::Computed(len, at) => allocated("order", memory::collected((0..len).map(at))),
        }
    }

    /// Returns true if the indices are a list in memory.
    pub(crate) fn is_listed(&self) -> bool {
        matches!(self.places, Places::Listed(_))
    }
}

impl From<Vec<usize>> for Order {
    fn from(list: Vec<usize>) -> Self {
        Order { places: Places::Listed(list) }
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.places {
            Places::Listed(list) => f.debug_list().entries(list.iter()).finish(),
            Places::Ascending(len) => write!(f, "Order(0..{len})"),
            Places::Computed(len, _) => write!(f, "Order(computed, {len} places)"),
        }
    }
}
