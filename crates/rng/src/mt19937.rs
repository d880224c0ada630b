//! The Mersenne twister.

use rand_core::{Infallible, TryRng, utils};

use crate::Error;

/// The Mersenne Twister MT19937, seeded as in PyTorch and NumPy.
///
/// # Determinism
///
/// Fixed forever.
///
/// # References
///
/// M. Matsumoto, T. Nishimura, *Mersenne twister: a 623-dimensionally equidistributed uniform
/// pseudo-random number generator*, ACM TOMACS 8 (1998).
#[derive(Clone, PartialEq, Eq)]
pub struct Mt19937 {
    words: [u32; Mt19937::WORDS],
    /// The index of the next word, and the number of words left before a twist, plus one.
    next: u32,
    left: u32,
}

impl Mt19937 {
    /// The number of words of state.
    pub const WORDS: usize = 624;

    /// Creates the engine that PyTorch seeds with a seed's low 32 bits, and `numpy.random.seed`
    /// with a number.
    pub fn new(seed: u32) -> Mt19937 {
        let mut words = [seed; Mt19937::WORDS];
        for j in 1..Mt19937::WORDS {
            let before = words[j - 1];
            let mixed = 1812433253u32.wrapping_mul(before ^ before >> 30);
            words[j] = mixed.wrapping_add(j as u32);
        }
        Mt19937 { words, next: 0, left: 1 }
    }

    /// Creates the engine that `numpy.random.seed` makes of a list: the authors' `init_by_array`.
    ///
    /// # Errors
    ///
    /// If the list is empty.
    pub fn from_words(seed: &[u32]) -> Result<Mt19937, Error> {
        if seed.is_empty() {
            let needed = "at least 1";
            return Err(Error::parameter("Mt19937::from_words", "the number of words", 0, needed));
        }
        let mut engine = Mt19937::new(19650218);
        let words = &mut engine.words;
        let mut last = words[0];
        let mut mix = |steps: usize, start: usize, f: &dyn Fn(usize, usize, u32, u32) -> u32| {
            let mut at = start;
            for step in 0..steps {
                words[at] = f(step, at, words[at], last ^ last >> 30);
                last = words[at];
                at += 1;
                if at == Mt19937::WORDS {
                    words[0] = last;
                    at = 1;
                }
            }
            at
        };
        let at = mix(seed.len().max(Mt19937::WORDS), 1, &|step, _, word, mixed| {
            let j = step % seed.len();
            let word = word ^ mixed.wrapping_mul(1664525);
            word.wrapping_add(seed[j]).wrapping_add(j as u32)
        });
        mix(Mt19937::WORDS - 1, at, &|_, at, word, mixed| {
            (word ^ mixed.wrapping_mul(1566083941)).wrapping_sub(at as u32)
        });
        words[0] = 1 << 31;
        Ok(engine)
    }

    /// Creates the engine at a position, if the position is valid.
    pub(crate) fn from_parts(
        words: [u32; Mt19937::WORDS],
        left: u32,
        next: u64,
    ) -> Option<Mt19937> {
        const WORDS: u32 = Mt19937::WORDS as u32;
        let next = u32::try_from(next).ok().filter(|&next| next <= WORDS)?;
        let fresh = left == 1;
        let begun = left > 1 && left <= WORDS && left + next == WORDS + 1;
        (fresh || begun).then_some(Mt19937 { words, next, left })
    }

    /// Returns the next word.
    #[inline]
    pub fn next_word(&mut self) -> u32 {
        self.left -= 1;
        if self.left == 0 {
            self.twist();
        }
        let mut y = self.words[self.next as usize];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ y >> 18
    }

    pub(crate) fn words(&self) -> &[u32; Mt19937::WORDS] {
        &self.words
    }

    pub(crate) const fn left(&self) -> u32 {
        self.left
    }

    pub(crate) const fn next(&self) -> u32 {
        self.next
    }

    fn twist(&mut self) {
        for i in 0..Mt19937::WORDS {
            let (here, there) = (self.words[i], self.words[(i + 1) % Mt19937::WORDS]);
            let y = (here & 0x8000_0000) | (there & 0x7fff_ffff);
            let odd = (there & 1).wrapping_neg() & 0x9908_b0df;
            self.words[i] = self.words[(i + 397) % Mt19937::WORDS] ^ y >> 1 ^ odd;
        }
        (self.next, self.left) = (0, Mt19937::WORDS as u32);
    }
}

impl core::fmt::Debug for Mt19937 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mt19937")
            .field("next", &self.next)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl TryRng for Mt19937 {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.next_word())
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let high = u64::from(self.next_word());
        Ok(high << 32 | u64::from(self.next_word()))
    }

    #[inline]
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        utils::fill_bytes_via_next_word(bytes, || self.try_next_u64())
    }
}
