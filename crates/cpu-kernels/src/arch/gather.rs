//! Reads of elements that lie anywhere in a slice.

use bytemuck::Pod;
use samebits_numerics::simd::Aligned;

/// The number of places that are read together.
pub(crate) const LANES: usize = 16;

/// `N` times [`LANES`] places in a slice.
///
/// No place is larger than `last`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<const N: usize> {
    places: Aligned<[[usize; LANES]; N]>,
    last: usize,
}

impl<const N: usize> Places<N> {
    /// Takes the given places, of which none should be above `last`: it takes the place of larger ones. The largest
    /// place itself would take longer to find.
    #[inline(always)]
    pub(crate) fn new(mut places: [[usize; LANES]; N], last: usize) -> Places<N> {
        for place in places.as_flattened_mut() {
            *place = (*place).min(last);
        }
        Places { places: Aligned(places), last }
    }

    /// Returns the elements of `from` at the places number `n`. One comparison checks all of them.
    ///
    /// # Panics
    ///
    /// If the last place is outside `from`.
    #[inline(always)]
    pub(crate) fn read<T: Pod>(&self, n: usize, from: &[T]) -> [T; LANES] {
        assert!(self.last < from.len(), "a place outside the slice");
        let mut read = [T::zeroed(); LANES];
        for (x, &place) in read.iter_mut().zip(&self.places[n]) {
            // SAFETY: `place` is at most `last`, which is inside the slice. The read is volatile so
            // that no gather instruction is made of these loads: it would take longer.
            *x = unsafe { from.as_ptr().add(place).read_volatile() };
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::{LANES, Places};

    #[test]
    fn every_place_is_read() {
        let from: Vec<u32> = (100..150).collect();
        let places = [0, 1].map(|n| std::array::from_fn(|lane| (n * 31 + lane * 7) % 50));
        let both = Places::new(places, 49);
        for n in 0..2 {
            assert_eq!(both.read(n, &from), places[n].map(|place| 100 + place as u32));
        }
        assert_eq!(Places::new(places, 2).read(0, &from)[..2], [100, 102]);
    }

    #[test]
    #[should_panic(expected = "a place outside the slice")]
    fn places_outside_the_slice_are_refused() {
        Places::new([[0; LANES]; 2], 50).read(0, &[0u8; 50]);
    }
}
