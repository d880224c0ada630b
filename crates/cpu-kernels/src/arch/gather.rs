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
    /// Takes the given places.
    #[inline(always)]
    pub(crate) fn new(places: [[usize; LANES]; N]) -> Places<N> {
        let mut most = [0; LANES];
        for places in &places {
            for (most, &place) in most.iter_mut().zip(places) {
                *most = (*most).max(place);
            }
        }
        // Halves the number again and again: a loop over all lanes would be a chain.
        let mut lanes = LANES;
        while lanes > 1 {
            lanes /= 2;
            for lane in 0..lanes {
                most[lane] = most[lane].max(most[lanes + lane]);
            }
        }
        Places { places: Aligned(places), last: most[0] }
    }

    /// Returns the elements of `from` at the places number `n`. One comparison checks all of them.
    ///
    /// # Panics
    ///
    /// If a place, even one of another number, is outside `from`.
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
        let both = Places::new(places);
        for n in 0..2 {
            assert_eq!(both.read(n, &from), places[n].map(|place| 100 + place as u32));
        }
        let mut last = [[0; LANES]; 2];
        last[1][3] = 49;
        assert_eq!(Places::new(last).read(0, &from), [100; LANES]);
    }

    #[test]
    #[should_panic(expected = "a place outside the slice")]
    fn places_outside_the_slice_are_refused() {
        let mut places = [[0; LANES]; 2];
        places[1][15] = 50;
        Places::new(places).read(0, &[0u8; 50]);
    }
}
