//! Uniform integers of every width, without bias.

use crate::draw::{Sampler, Words, pair};
use crate::{Draw, Error, Generator};
use core::fmt::Debug;

/// An integer type: `u8` to `u128`, `i8` to `i128`, `usize` and `isize`.
///
/// # Determinism
///
/// The number drawn from a range of at most 2^64 − 1 values depends on the range alone, not on the
/// type, so `usize` gives the same numbers on every machine.
pub trait Integer: Copy + Debug + Default + PartialOrd + Send + Sync + private::Sealed {}

mod private {
    pub trait Sealed {
        /// True if an element of this type takes a whole block instead of half of one.
        const WIDE: bool;
        /// Returns the distance from `low` up to `self`; `low` must not be larger.
        fn above(self, low: Self) -> u128;
        /// Returns the number that is `distance` above `self`.
        fn plus(self, distance: u128) -> Self;
    }
}

macro_rules! integers {
    ($($type:ident as $unsigned:ident),*) => {$(
        impl Integer for $type {}

        impl private::Sealed for $type {
            const WIDE: bool = $type::BITS > 64;

            #[inline(always)]
            fn above(self, low: $type) -> u128 {
                // In two's complement, the distance of two numbers fits into the unsigned type.
                self.wrapping_sub(low) as $unsigned as u128
            }

            #[inline(always)]
            fn plus(self, distance: u128) -> $type {
                self.wrapping_add(distance as $type)
            }
        }
    )*};
}

integers!(u8 as u8, u16 as u16, u32 as u32, u64 as u64, u128 as u128, usize as usize);
integers!(i8 as u8, i16 as u16, i32 as u32, i64 as u64, i128 as u128, isize as usize);

impl Draw {
    /// Fills `out` with uniform integers in `[low, high)`; takes [`Draw::blocks_u64`] blocks, or one
    /// block per element if the integers have 128 bits.
    ///
    /// With *r* = `high - low` and *x* = word pair *i*, element *i* is `low` + ⌊*x*·*r* / 2^64⌋,
    /// unless *x*·*r* mod 2^64 < 2^64 mod *r*. Such an *x* would make some values more likely than
    /// others; it is replaced, as often as needed, by the next attempt from the element's own
    /// counters (see [`Draw`], *Rejection*). Every value therefore has exactly the same
    /// probability.
    ///
    /// For 128-bit integers, *x* is the first half of block *i*. If *r* ≥ 2^64, it is the whole
    /// block, and 2^128 replaces 2^64.
    ///
    /// # Errors
    ///
    /// If `low >= high`.
    pub fn randint<T: Integer>(
        &self,
        start: u64,
        out: &mut [T],
        low: T,
        high: T,
    ) -> Result<(), Error> {
        self.fill(Randint::new(low, high)?, start, out);
        Ok(())
    }
}

impl Generator {
    /// Fills `out` with uniform integers in `[low, high)`, without bias; advances by ⌈n/2⌉ blocks,
    /// or by n blocks if the integers have 128 bits. See [`Draw::randint`].
    ///
    /// # Errors
    ///
    /// If `low >= high`. The generator is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut dice = [0u8; 5];
    /// Generator::new(0).fill_randint(&mut dice, 1, 7)?;
    /// assert!(dice.iter().all(|face| (1..7).contains(face)));
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn fill_randint<T: Integer>(
        &mut self,
        out: &mut [T],
        low: T,
        high: T,
    ) -> Result<(), Error> {
        let blocks = if T::WIDE { out.len() as u64 } else { Draw::blocks_u64(out.len()) };
        self.draw_if(blocks, |draw| draw.randint(0, out, low, high))
    }

    /// Draws a uniform integer in `[low, high)`, without bias; advances by one block. The result
    /// equals a single element of [`fill_randint`](Generator::fill_randint).
    ///
    /// # Errors
    ///
    /// If `low >= high`. The generator is then unchanged.
    pub fn randint<T: Integer>(&mut self, low: T, high: T) -> Result<T, Error> {
        Ok(self.integer(Randint::new(low, high)?))
    }

    /// Draws a uniform integer in `[0, n)`, without bias; advances by one block. Equals
    /// [`randint(0, n)`](Generator::randint).
    ///
    /// # Errors
    ///
    /// If `n` is not positive. The generator is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut generator = Generator::new(0);
    /// assert_eq!(generator.below(9u32)?, 7);
    /// // The type does not matter.
    /// assert_eq!(u64::from(generator.clone().below(1000u16)?), generator.below(1000u64)?);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn below<T: Integer>(&mut self, n: T) -> Result<T, Error> {
        let range = Randint::new(T::default(), n)
            .map_err(|_| Error::parameter("below", "n", n, "positive"))?;
        Ok(self.integer(range))
    }

    fn integer<T: Integer>(&mut self, range: Randint<T>) -> T {
        let draw = self.draw(1);
        range.element(&draw, draw.first(), 0, self.block_at(draw.first()))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Randint<T> {
    low: T,
    /// The number of values.
    range: u128,
    /// 2^64 or 2^128 mod `range`: if the low half of the product is smaller, the word is rejected.
    excess: u128,
}

impl<T: Integer> Randint<T> {
    pub(crate) fn new(low: T, high: T) -> Result<Randint<T>, Error> {
        if low >= high {
            return Err(Error::parameter("randint", "(low, high)", (low, high), "increasing"));
        }
        let range = high.above(low);
        let excess = match u64::try_from(range) {
            Ok(range) => u128::from(range.wrapping_neg() % range),
            Err(_) => range.wrapping_neg() % range,
        };
        Ok(Randint { low, range, excess })
    }

    /// Returns the element whose words are in `words`, the block `block`, from word 2 `half` on.
    #[inline(always)]
    pub(crate) fn element(self, draw: &Draw, block: u64, half: usize, words: [u32; 4]) -> T {
        let distance = self.choose(words, half);
        self.low.plus(distance.unwrap_or_else(|| self.retry(draw, block, half)))
    }

    /// Returns the value of words, counted from `low`, or `None` if they are rejected.
    #[inline(always)]
    fn choose(self, words: [u32; 4], half: usize) -> Option<u128> {
        let word = pair(words[2 * half], words[2 * half + 1]);
        if T::WIDE && self.range > u128::from(u64::MAX) {
            let word = u128::from(word) | u128::from(pair(words[2], words[3])) << 64;
            let (low, high) = word.carrying_mul(self.range, 0);
            return (low >= self.excess).then_some(high);
        }
        let product = u128::from(word) * u128::from(self.range as u64);
        (product as u64 >= self.excess as u64).then_some(product >> 64)
    }

    #[cold]
    fn retry(self, draw: &Draw, block: u64, half: usize) -> u128 {
        let space = draw.space();
        let mut attempt = 1;
        loop {
            if let Some(distance) = self.choose(space.attempt(block, attempt), half) {
                return distance;
            }
            attempt += 1;
        }
    }
}

impl<T: Integer> Sampler for Randint<T> {
    type Out = T;
    const PER_BLOCK: usize = if T::WIDE { 1 } else { 2 };

    #[inline(always)]
    fn group(self, draw: &Draw, block: u64, words: &Words, out: &mut [T]) {
        for (i, out) in out.iter_mut().enumerate() {
            let (at, half) = (i / Self::PER_BLOCK, i % Self::PER_BLOCK);
            let words = core::array::from_fn(|word| words[4 * at + word]);
            *out = self.element(draw, block.wrapping_add(at as u64), half, words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_depends_on_the_range_and_not_on_the_type() {
        for seed in 0..200 {
            let g = || Generator::new(seed);
            let expected = g().below(97u64).unwrap();
            assert_eq!(u64::from(g().below(97u8).unwrap()), expected);
            assert_eq!(g().below(97usize).unwrap() as u64, expected);
            assert_eq!(g().below(97u128).unwrap() as u64, expected);
            assert_eq!(g().below(97i128).unwrap() as u64, expected);
            assert_eq!(g().below(97isize).unwrap() as u64, expected);
            assert_eq!(g().randint(-50i8, 47).unwrap() as i64 + 50, expected as i64);
            assert_eq!(g().randint(-50i64, 47).unwrap() + 50, expected as i64);
            assert_eq!(
                g().randint(i128::MIN, i128::MIN + 97).unwrap() - i128::MIN,
                expected as i128
            );
        }
    }

    #[test]
    fn wide_ranges_use_the_whole_block() {
        let range = 3u128 << 126;
        let mut redraws = 0;
        for seed in 0..400 {
            let [a, b, c, d] = Generator::new(seed).next_block();
            let word = u128::from(pair(a, b)) | u128::from(pair(c, d)) << 64;
            let found = Generator::new(seed).below(range).unwrap();
            assert!(found < range);
            // x * 3 / 4 rounded down, unless the low half of the product is below 2^128 mod range,
            // which is 2^126: the product's low half is (x * 3 mod 4) * 2^126.
            let expected = word / 4 * 3 + word % 4 * 3 / 4;
            if word % 4 == 0 {
                redraws += 1;
                assert_ne!(found, expected);
            } else {
                assert_eq!(found, expected);
            }
        }
        assert!((60..140).contains(&redraws), "{redraws}");
        assert_eq!(Generator::new(5).below(1u128 << 64).unwrap() as u64, {
            let [_, _, c, d] = Generator::new(5).next_block();
            pair(c, d)
        });
    }
}
