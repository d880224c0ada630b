//! Words one after another, for code that wants a `rand_core` generator.

use crate::Generator;
use rand_core::{Infallible, SeedableRng, TryRng, utils};

/// The words of a [`Generator`] one after another, as a [`rand_core::Rng`].
///
/// A [`Generator`] is one too, but takes a block for each call; `Words` wastes none and is faster
/// where words are drawn one by one. `next_u32` takes one word; `next_u64` takes
/// two, the low half first; `fill_bytes` takes whole 64-bit words and drops what is left of the
/// last.
///
/// # Determinism
///
/// Fixed forever. What another crate makes of the words is that crate's promise.
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
    /// How many words of the block at the generator's offset are taken: 0 to 3.
    taken: u8,
    /// That block if a word of it is taken, zero otherwise.
    block: [u32; 4],
}

impl Words {
    /// The words from the generator's position on.
    #[inline]
    pub const fn new(generator: Generator) -> Words {
        Words { generator, taken: 0, block: [0; 4] }
    }

    /// Moves on by `words` words, at the same cost for any number.
    #[inline]
    pub const fn advance(&mut self, words: u64) {
        // The two low bits are counted apart so that the sum cannot overflow.
        let low = self.taken as u64 + (words & 3);
        self.generator.advance((words >> 2).wrapping_add(low >> 2));
        self.taken = (low & 3) as u8;
        self.block = match self.taken {
            0 => [0; 4],
            _ => self.generator.block_at(self.generator.offset()),
        };
    }

    /// The generator at the first block of which no word has been taken.
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

/// The words of the [`Generator`] of this seed.
impl SeedableRng for Words {
    type Seed = <Generator as SeedableRng>::Seed;

    fn from_seed(seed: Self::Seed) -> Words {
        Words::new(Generator::from_seed(seed))
    }

    fn seed_from_u64(seed: u64) -> Words {
        Words::new(Generator::seed_from_u64(seed))
    }
}

/// What is saved of [`Words`]; the block follows from it.
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
