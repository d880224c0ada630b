//! Permutations with random access to single elements.

use crate::draw::pair;
use crate::{Draw, Generator, Philox4x32};

/// A permutation of `0..n` as a function: element *i* costs the same for any *i* and *n*, and
/// nothing is stored.
///
/// Use it for orders too long to hold in memory, or of which each process reads only a part. If an
/// order fits into memory, [`Generator::permutation`] draws it faster, and exactly uniformly.
///
/// # Construction
///
/// A generalised Feistel network over pairs (*l*, *r*) with *l* < *a* and *r* < *b*. *a* is ⌈√*n*⌉
/// and *b* is ⌈*n*/*a*⌉, each rounded up to an even number, and at least 2. The number *x* is the pair
/// (⌊*x*/*b*⌋, *x* mod *b*). Round *k*, counted from 0, adds *f*(*k*, *r*) to *l* modulo *a* if *k*
/// is even, and *f*(*k*, *l*) to *r* modulo *b* if it is odd. A result of *n* or more goes through
/// the network again until it is below *n* (cycle walking); an element takes *ab*/*n* passes on
/// average, which is at most 2 for *n* > 1 and close to 1 for a large *n*.
///
/// With *w* the four words of block `first` of the draw's stream under
/// key = seed xor 0x3c6ef372fe94f82b, *f*(*k*, *v*) is ⌊*y*·*m* / 2^64⌋, where *m* is *a* or *b* and
/// *y* the first two words of Philox4x32-10 with key (*w*₀, *w*₁) at counter (*v*, *k*, *w*₂, *w*₃).
/// There are 12 rounds, and 32 if *n* is below 2^16.
///
/// # Uniformity
///
/// Two different draws of one seed have different functions *f*, because the 128 bits of *w* are a
/// bijection of block and stream. Of all permutations of at most 8 numbers, each occurs with a
/// total variation distance from uniform of at most 0.0005, if *f* is random. For larger *n* not
/// every permutation can occur, since *w* has 128 bits only, and none of this is a claim of
/// cryptographic strength. The addition modulo even numbers makes odd permutations as likely as
/// even ones.
///
/// # Determinism
///
/// Fixed within a numerics version.
///
/// # Examples
///
/// ```
/// use samebits_rng::Generator;
///
/// let order = Generator::new(0).bijection(1_000_000_000);
/// let first = order.at(0).unwrap();
/// assert_eq!(order.index_of(first), Some(0));
/// assert_eq!(order.at(1_000_000_000), None);
/// ```
///
/// # References
///
/// * J. Black, P. Rogaway, *Ciphers with arbitrary finite domains*, CT-RSA 2002: the network over
///   pairs of remainders, and cycle walking.
/// * M. Bellare, T. Ristenpart, P. Rogaway, T. Stegers, *Format-preserving encryption*, SAC 2009.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bijection {
    n: u64,
    /// The numbers of values of the left and the right half: at most 2^32.
    sizes: [u64; 2],
    philox: Philox4x32,
    identity: [u32; 2],
}

impl Draw {
    /// Draws a permutation of `0..n` with random access to its elements; takes one block.
    pub const fn bijection(&self, n: u64) -> Bijection {
        let left = even(n.isqrt() + (n.isqrt() * n.isqrt() < n) as u64);
        let right = even(n.div_ceil(left));
        let [w0, w1, w2, w3] =
            Philox4x32::from_seed(self.seed() ^ BIJECTION).at(self.first(), self.stream());
        Bijection { n, sizes: [left, right], philox: Philox4x32::new([w0, w1]), identity: [w2, w3] }
    }
}

impl Generator {
    /// Draws a permutation of `0..n` with random access to its elements; advances by one block. See
    /// [`Bijection`].
    pub const fn bijection(&mut self, n: u64) -> Bijection {
        self.draw(1).bijection(n)
    }
}

impl Bijection {
    /// Returns the number of elements.
    pub const fn len(&self) -> u64 {
        self.n
    }

    /// Returns true if there are no elements.
    pub const fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns element `i` of the permutation, or `None` if `i` is not below [`len`](Bijection::len).
    pub fn at(&self, i: u64) -> Option<u64> {
        self.walk(i, |x| (0..self.rounds()).fold(x, |x, round| self.round(x, round, false)))
    }

    /// Returns the position of `element` in the permutation, or `None` if it is not below
    /// [`len`](Bijection::len).
    pub fn index_of(&self, element: u64) -> Option<u64> {
        self.walk(element, |x| {
            (0..self.rounds()).rev().fold(x, |x, round| self.round(x, round, true))
        })
    }

    const fn rounds(&self) -> u32 {
        if self.n < 1 << 16 { 32 } else { 12 }
    }

    /// Applies `network` until the result is below `n`. This terminates, because the network is a
    /// permutation whose cycle returns to the start.
    fn walk(&self, start: u64, network: impl Fn(u64) -> u64) -> Option<u64> {
        if start >= self.n {
            return None;
        }
        let mut x = network(start);
        while x >= self.n {
            x = network(x);
        }
        Some(x)
    }

    /// Applies one round, or its inverse.
    fn round(&self, x: u64, round: u32, undo: bool) -> u64 {
        let (mut halves, side) = ([x / self.sizes[1], x % self.sizes[1]], round as usize % 2);
        let size = self.sizes[side];
        let [w2, w3] = self.identity;
        let [low, high, ..] = self.philox.block([halves[1 - side] as u32, round, w2, w3]);
        let shift = ((u128::from(pair(low, high)) * u128::from(size)) >> 64) as u64;
        let moved = halves[side] + if undo { size - shift } else { shift };
        halves[side] = if moved < size { moved } else { moved - size };
        halves[0] * self.sizes[1] + halves[1]
    }
}

/// Returns the smallest even number of at least 2 that is not below `x`.
const fn even(x: u64) -> u64 {
    if x < 2 { 2 } else { x + x % 2 }
}

/// Domain of the permutations' keys: fractional digits of the square root of 5, less 2.
const BIJECTION: u64 = 0x3c6e_f372_fe94_f82b;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_occurs_once_and_is_found() {
        for n in (0..200).chain([1000, 4096, 65_535, 65_536, 70_001]) {
            let order = Generator::new(n).bijection(n);
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                let element = order.at(i).unwrap();
                assert!(!core::mem::replace(&mut seen[element as usize], true), "{n}: {element}");
                assert_eq!(order.index_of(element), Some(i), "{n}");
            }
            assert_eq!((order.at(n), order.index_of(n)), (None, None), "{n}");
            assert_eq!((order.len(), order.is_empty()), (n, n == 0));
        }
    }

    #[test]
    fn the_largest_sizes_have_elements_and_indices() {
        for n in [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 32) - 1, 1 << 32, (1 << 32) + 1] {
            let order = Generator::new(1).bijection(n);
            for i in [0, 1, n / 2, n - 2, n - 1] {
                let element = order.at(i).unwrap();
                assert!(element < n);
                assert_eq!(order.index_of(element), Some(i), "{i} of {n}");
            }
        }
    }

    /// Checks the mean number of passes: the network's size divided by the number of elements.
    #[test]
    fn the_network_is_hardly_larger_than_the_permutation() {
        for n in 2..70_000 {
            let [left, right] = Generator::new(0).bijection(n).sizes;
            assert!((n..=2 * n).contains(&(left * right)), "{n}");
            assert!((left % 2, right % 2) == (0, 0));
        }
        let [left, right] = Generator::new(0).bijection(1_000_000_000).sizes;
        assert!(left * right < 1_000_100_000);
    }
}
