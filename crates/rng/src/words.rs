//! Sequential words, for code that expects a `rand_core` generator.

use crate::Generator;
use rand_core::{Infallible, SeedableRng, TryRng, utils};

/// Sequential words of a [`Generator`], as a [`rand_core::Rng`].
///
/// A [`Generator`] is also a `Rng`, but takes a block for each call; `Words` uses every word and is
/// faster for single words. `next_u32` takes one word; `next_u64` takes two, the low half first;
/// `fill_bytes` takes whole 64-bit words and drops the rest of the last one.
///
/// # Determinism
///
/// Fixed forever. The values that other crates compute from the words are not covered.
///
/// # Examples
///
/// ```
/// use rand_core::Rng;
/// use samebits_rng::{Generator, Words};
///
/// let mut words = Words::new(Generator::new(0));
/// assert_eq!(words.next_u32(), 0x6627e8d5);
/// assert_eq!(words.next_u32(), 0xe169c58d);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "saved::Position", into = "saved::Position"))]
pub struct Words {
    generator: Generator,
    /// The number of words taken from the block at the generator's offset: 0 to 3.
    taken: u8,
    /// The block at the offset if a word of it was taken, otherwise zero.
    block: [u32; 4],
}

impl Words {
    /// Creates the words from the generator's position on.
    #[inline]
    pub const fn new(generator: Generator) -> Words {
        Words { generator, taken: 0, block: [0; 4] }
    }

    /// Advances by `words` words, at the same cost for any number.
    #[inline]
    pub const fn advance(&mut self, words: u64) {
        // The two low bits are counted separately so that the sum cannot overflow.
        let low = self.taken as u64 + (words & 3);
        self.generator.advance((words >> 2).wrapping_add(low >> 2));
        self.taken = (low & 3) as u8;
        self.block = match self.taken {
            0 => [0; 4],
            _ => self.generator.block_at(self.generator.offset()),
        };
    }

    /// Returns the generator at the first block of which no word was taken.
    #[inline]
    #[must_use]
    pub const fn into_generator(self) -> Generator {
        let mut generator = self.generator;
        if self.taken != 0 {
            generator.advance(1);
        }
        generator
    }

    #[inline]
    fn next_word(&mut self) -> u32 {
        if self.taken == 0 {
            self.block = self.generator.block_at(self.generator.offset());
        }
        let word = self.block[usize::from(self.taken % 4)];
        self.taken += 1;
        if self.taken == 4 {
            self.generator.advance(1);
            (self.taken, self.block) = (0, [0; 4]);
        }
        word
    }
}

impl TryRng for Words {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.next_word())
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let low = u64::from(self.next_word());
        Ok(low | u64::from(self.next_word()) << 32)
    }

    #[inline]
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        utils::fill_bytes_via_next_word(bytes, || self.try_next_u64())
    }
}

/// Seeds the words by the [`Generator`] of this seed.
impl SeedableRng for Words {
    type Seed = <Generator as SeedableRng>::Seed;

    fn from_seed(seed: Self::Seed) -> Words {
        Words::new(Generator::from_seed(seed))
    }

    fn seed_from_u64(seed: u64) -> Words {
        Words::new(Generator::seed_from_u64(seed))
    }
}

/// Saved position of [`Words`]; its block can be recomputed.
#[cfg(feature = "serde")]
mod saved {
    use super::{Generator, Words};

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct Position {
        generator: Generator,
        taken: u8,
    }

    impl From<Words> for Position {
        fn from(words: Words) -> Position {
            Position { generator: words.generator, taken: words.taken }
        }
    }

    impl TryFrom<Position> for Words {
        type Error = &'static str;

        fn try_from(position: Position) -> Result<Words, &'static str> {
            if position.taken > 3 {
                return Err("a block has four words, of which at most three can be taken");
            }
            let mut words = Words::new(position.generator);
            words.advance(u64::from(position.taken));
            Ok(words)
        }
    }
}
