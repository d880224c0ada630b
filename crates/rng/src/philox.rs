//! Philox block functions: a keyed bijection of counters, so that any block of a stream can be
//! computed directly.
//!
//! # References
//!
//! J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, *Parallel random numbers: as easy as
//! 1, 2, 3*, SC 2011.

/// The Philox4x32 block function with 10 rounds and a fixed key.
///
/// [`Generator`](crate::Generator) is built on this function; use it directly to compute a single
/// block, or to check another implementation.
///
/// # Determinism
///
/// Fixed forever: Random123's `philox4x32` with 10 rounds.
///
/// # Examples
///
/// ```
/// use samebits_rng::Philox4x32;
///
/// let block = Philox4x32::new([0, 0]).block([0; 4]);
/// assert_eq!(block, [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox4x32 {
    key: [u32; 2],
}

impl Philox4x32 {
    /// Creates the block function with this key.
    #[inline(always)]
    pub const fn new(key: [u32; 2]) -> Philox4x32 {
        Philox4x32 { key }
    }

    /// Creates the block function whose key words are the low and the high half of `seed`.
    #[inline(always)]
    pub const fn from_seed(seed: u64) -> Philox4x32 {
        Philox4x32 { key: [seed as u32, (seed >> 32) as u32] }
    }

    /// Returns the four words at `counter`.
    #[inline(always)]
    pub const fn block(self, counter: [u32; 4]) -> [u32; 4] {
        self.block_with_rounds::<ROUNDS>(counter)
    }

    /// Returns the four words at `counter` after `R` rounds instead of 10.
    ///
    /// Fewer than 7 rounds fail statistical tests.
    #[inline(always)]
    pub const fn block_with_rounds<const R: usize>(self, counter: [u32; 4]) -> [u32; 4] {
        let [mut c0, mut c1, mut c2, mut c3] = counter;
        let [mut k0, mut k1] = self.key;
        let mut round = 0;
        while round < R {
            let p0 = M0 as u64 * c0 as u64;
            let p1 = M1 as u64 * c2 as u64;
            (c0, c1, c2, c3) =
                ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
            k0 = k0.wrapping_add(W0);
            k1 = k1.wrapping_add(W1);
            round += 1;
        }
        [c0, c1, c2, c3]
    }

    /// Returns the four words of block `block` of stream `stream`: the counter's low two words are
    /// the block, its high two words the stream.
    #[inline(always)]
    pub const fn at(self, block: u64, stream: u64) -> [u32; 4] {
        self.block([block as u32, (block >> 32) as u32, stream as u32, (stream >> 32) as u32])
    }

    /// Computes the keys of all rounds, for [`Schedule::blocks`].
    #[inline(always)]
    pub(crate) fn schedule(self) -> Schedule {
        let [mut k0, mut k1] = self.key;
        let keys = core::array::from_fn(|_| {
            let keys = [u64::from(k0), u64::from(k1)];
            (k0, k1) = (k0.wrapping_add(W0), k1.wrapping_add(W1));
            keys
        });
        // Hide two facts from the compiler. With a known number of rounds it would unroll the loop
        // and move the lanes' independent work further apart than a CPU looks ahead. With known
        // lane numbers it would compute some of the counters one by one.
        let lanes = core::array::from_fn(|lane| lane as u64);
        Schedule {
            keys,
            rounds: core::hint::black_box(ROUNDS),
            lanes: core::hint::black_box(lanes),
        }
    }
}

/// Key schedule, computed once for many blocks.
pub(crate) struct Schedule {
    keys: [[u64; 2]; SLOTS],
    rounds: usize,
    lanes: [u64; LANES],
}

impl Schedule {
    /// Returns the words of [`LANES`] blocks of a stream from `first` on, in order. Blocks wrap.
    ///
    /// Words are stored in 64-bit lanes because the multiplier reads and writes those. The upper
    /// half of a lane is never read, so no lane has to be unpacked between rounds.
    #[inline(always)]
    pub(crate) fn blocks(&self, first: u64, stream: u64) -> [u32; 4 * LANES] {
        let mut c0 = [0; LANES];
        let mut c1 = [0; LANES];
        let mut c2 = [stream; LANES];
        let mut c3 = [stream >> 32; LANES];
        for lane in 0..LANES {
            c0[lane] = first.wrapping_add(self.lanes[lane]);
            c1[lane] = c0[lane] >> 32;
        }
        let mut round = 0;
        loop {
            let [k0, k1] = self.keys[round % SLOTS];
            for lane in 0..LANES {
                let p0 = (c0[lane] & LOW) * M0 as u64;
                let p1 = (c2[lane] & LOW) * M1 as u64;
                c0[lane] = (p1 >> 32) ^ c1[lane] ^ k0;
                c1[lane] = p1;
                c2[lane] = (p0 >> 32) ^ c3[lane] ^ k1;
                c3[lane] = p0;
            }
            round += 1;
            if round >= self.rounds {
                break;
            }
        }
        // Two words per lane: a quarter of the shuffles that single words would take.
        let mut pairs = [0u64; 2 * LANES];
        for lane in 0..LANES {
            pairs[2 * lane] = in_memory_order(c0[lane], c1[lane]);
            pairs[2 * lane + 1] = in_memory_order(c2[lane], c3[lane]);
        }
        bytemuck::cast(pairs)
    }
}

/// Returns the number whose bytes in memory are those of two words, one after the other.
#[inline(always)]
const fn in_memory_order(first: u64, second: u64) -> u64 {
    if cfg!(target_endian = "little") {
        (first & LOW) | second << 32
    } else {
        (second & LOW) | first << 32
    }
}

/// The number of blocks that [`Schedule::blocks`] computes at once: two 512-bit registers per word,
/// so that one's latency hides behind the other's work.
pub(crate) const LANES: usize = 16;

const ROUNDS: usize = 10;
/// Room for the keys: a power of two, so that no index can be out of bounds.
const SLOTS: usize = 16;
const LOW: u64 = 0xffff_ffff;
const M0: u32 = 0xd2511f53;
const M1: u32 = 0xcd9e8d57;
const W0: u32 = 0x9e3779b9;
const W1: u32 = 0xbb67ae85;

#[cfg(test)]
mod tests {
    use super::*;

    const PI: [u32; 4] = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344];
    const PI_KEY: [u32; 2] = [0xa4093822, 0x299f31d0];

    #[test]
    fn random123_known_answers_with_10_rounds() {
        let cases = [
            ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([!0; 4], [!0; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (PI, PI_KEY, [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(Philox4x32::new(key).block(counter), expected);
        }
    }

    #[test]
    fn random123_known_answers_with_7_rounds() {
        let cases = [
            ([0; 4], [0; 2], [0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48]),
            ([!0; 4], [!0; 2], [0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662]),
            (PI, PI_KEY, [0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a]),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(Philox4x32::new(key).block_with_rounds::<7>(counter), expected);
        }
    }

    #[test]
    fn many_blocks_at_once_are_the_single_blocks() {
        // The second start carries into the high word, the third wraps.
        for first in [0, 0xffff_fff5, u64::MAX - 3] {
            for stream in [0, 1, u64::MAX] {
                let philox = Philox4x32::from_seed(0x0123_4567_89ab_cdef);
                let words = philox.schedule().blocks(first, stream);
                for (lane, block) in words.chunks_exact(4).enumerate() {
                    let one = philox.at(first.wrapping_add(lane as u64), stream);
                    assert_eq!(block, one, "lane {lane} of block {first}, stream {stream}");
                }
            }
        }
    }
}
