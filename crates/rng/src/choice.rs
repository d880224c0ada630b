//! Sampling without replacement.

use alloc::vec::Vec;

use crate::integer::Randint;
use crate::{Draw, Error, Generator};
use samebits_numerics::memory;

impl Draw {
    /// Draws `k` different numbers from `0..n` in uniformly random order; takes
    /// [`Draw::blocks_u64`] blocks for `k` elements.
    ///
    /// They are the first `k` places of a Fisher–Yates shuffle of `0..n`: for each place *i* in
    /// ascending order, the number at place *j* is taken and replaced by the number at place *i*,
    /// where *j* is a number in `i..n` drawn from word pair *i* as in [`Draw::randint`]. Every
    /// selection in every order therefore has exactly the same probability. Memory and time depend
    /// on `k` and not on `n`: O(k) and O(k log k).
    ///
    /// # Errors
    ///
    /// If `k > n`, or there is no memory for 5·`k` numbers.
    ///
    /// # References
    ///
    /// R. Durstenfeld, *Algorithm 235: Random permutation*, CACM 7 (1964).
    pub fn choice(&self, n: u64, k: usize) -> Result<Vec<u64>, Error> {
        let op = "choice";
        if k as u64 > n {
            return Err(Error::parameter(op, "(n, k)", (n, k), "such that k <= n"));
        }
        let place_of = |i: usize| {
            let block = self.first().wrapping_add(i as u64 / 2);
            let words = self.philox().at(block, self.stream());
            Ok(Randint::new(i as u64, n)?.element(self, block, i % 2, words))
        };
        // The place taken at each step, with the step. A taken place now holds the number of the
        // step's own place, so these pairs describe the whole shuffle.
        let mut takes: Vec<(u64, usize)> = memory::with_capacity(k).map_err(Error::memory(op))?;
        for i in 0..k {
            takes.push((place_of(i)?, i));
        }
        let mut chosen =
            memory::collected(takes.iter().map(|&(place, _)| place)).map_err(Error::memory(op))?;
        takes.sort_unstable();
        let mut held: Vec<u64> = memory::with_capacity(k).map_err(Error::memory(op))?;
        let holder = |held: &[u64], place: u64, step: usize| {
            let later = takes.partition_point(|take| *take < (place, step));
            match takes[..later].last() {
                Some(&(taken, step)) if taken == place => held[step],
                _ => place,
            }
        };
        for (step, place) in chosen.iter_mut().enumerate() {
            held.push(holder(&held, step as u64, step));
            *place = holder(&held, *place, step);
        }
        Ok(chosen)
    }
}

impl Generator {
    /// Draws `k` different numbers from `0..n` in uniformly random order; advances by ⌈k/2⌉ blocks.
    /// See [`Draw::choice`].
    ///
    /// # Errors
    ///
    /// If `k > n`, or there is no memory for 5·`k` numbers. The generator is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let chosen = Generator::new(0).choice(1_000_000_000_000, 3)?;
    /// assert_eq!(chosen.len(), 3);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn choice(&mut self, n: u64, k: usize) -> Result<Vec<u64>, Error> {
        self.draw_if(Draw::blocks_u64(k), |draw| draw.choice(n, k))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_the_head_of_a_shuffle() {
        for (n, k) in [(1, 1), (5, 0), (5, 5), (7, 3), (100, 99), (1000, 50), (1000, 1000)] {
            let draw = Draw::new(n, 2, 3);
            let mut all: Vec<u64> = (0..n).collect();
            for i in 0..k {
                let mut words = [0];
                draw.words64(i as u64, &mut words);
                // The range is too small for a rejection to occur here.
                let left = n - i as u64;
                let place = i + ((u128::from(words[0]) * u128::from(left)) >> 64) as usize;
                all.swap(i, place);
            }
            assert_eq!(draw.choice(n, k).unwrap(), all[..k], "{k} of {n}");
        }
    }

    #[test]
    fn more_than_there_are_is_an_error_that_moves_nothing() {
        let mut generator = Generator::new(0);
        let error = generator.choice(3, 4).unwrap_err();
        assert_eq!(error.to_string(), "choice: (n, k) is (3, 4), but must be such that k <= n");
        assert!(matches!(generator.choice(u64::MAX, 1 << 50), Err(Error::OutOfMemory { .. })));
        assert_eq!(generator, Generator::new(0));
    }
}
