//! [`Generator`] as a generator of `rand_core`.

use crate::Generator;
use crate::draw::pair;
use rand_core::{Infallible, SeedableRng, TryRng};

/// Each call is a separate operation and starts at a new block: `next_u32` returns the block's
/// first word, `next_u64` its first two, the low half first, and `fill_bytes` writes the words of
/// ⌈n/16⌉ blocks in little-endian order. `fill_bytes` of 4 or 8 bytes therefore gives the bytes of
/// `next_u32` or `next_u64`, and the generator needs no buffer.
///
/// [`Words`](crate::Words) uses every word of a block: one block serves four calls of `next_u32`.
///
/// # Determinism
///
/// Fixed forever.
///
/// # Examples
///
/// ```
/// use rand_distr::{Distribution, Poisson};
/// use samebits_rng::Generator;
///
/// let mut generator = Generator::new(7);
/// let count: f64 = Poisson::new(3.0)?.sample(&mut generator);
/// assert_eq!(count, 2.0);
/// # Ok::<(), rand_distr::PoissonError>(())
/// ```
impl TryRng for Generator {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let [word, ..] = self.next_block();
        Ok(word)
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let [low, high, ..] = self.next_block();
        Ok(pair(low, high))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for out in bytes.chunks_mut(16) {
            for (out, word) in out.chunks_mut(4).zip(self.next_block()) {
                out.copy_from_slice(&word.to_le_bytes()[..out.len()]);
            }
        }
        Ok(())
    }
}

/// The seed consists of the generator's seed and its stream, each of 8 bytes in little-endian
/// order.
///
/// # Determinism
///
/// Fixed forever.
///
/// # Examples
///
/// ```
/// use rand_core::SeedableRng;
/// use samebits_rng::Generator;
///
/// assert_eq!(Generator::seed_from_u64(7), Generator::new(7));
/// ```
impl SeedableRng for Generator {
    type Seed = [u8; 16];

    fn from_seed(seed: [u8; 16]) -> Generator {
        let bits = u128::from_le_bytes(seed);
        Generator::new(bits as u64).with_stream((bits >> 64) as u64)
    }

    /// Calls [`Generator::new`]: Philox needs no mixing of its key.
    fn seed_from_u64(seed: u64) -> Generator {
        Generator::new(seed)
    }
}
