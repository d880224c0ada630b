//! Philox4x64 for the host.

use alloc::vec::Vec;

use crate::Error;
use crate::numpy::SeedSequence;
use crate::state::{self, HEADER, Kind, u64_at, u128_at};
use rand_core::{Infallible, TryRng, utils};
use samebits_numerics::memory;

/// Philox4x64-10, a counter-based generator of 64-bit words with a key of 128 and a counter of
/// 256 bits.
///
/// The position is (`seed`, `stream`, `offset`, `taken`): the key, the counter's high and low half,
/// and the number of words drawn from that block, out of four.
///
/// # Determinism
///
/// Fixed forever: Random123's `philox4x64` with 10 rounds.
///
/// # Examples
///
/// ```
/// use rand_core::Rng;
/// use samebits_rng::Philox4x64;
///
/// let mut generator = Philox4x64::with_parts(0, 0);
/// assert_eq!(generator.next_u64(), 0x16554d9eca36314c);
///
/// let restored = Philox4x64::from_bytes(&generator.to_bytes())?;
/// assert_eq!(restored, generator);
/// # Ok::<(), samebits_rng::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Position", into = "Position"))]
pub struct Philox4x64 {
    position: Position,
    /// The block at the position if a word of it was taken, otherwise zero.
    block: [u64; 4],
}

impl Philox4x64 {
    /// The number of bytes that [`to_bytes`](Philox4x64::to_bytes) returns.
    pub const STATE_BYTES: usize = HEADER + 56;

    /// Creates the generator that NumPy seeds with the whole number `seed`.
    pub fn new(seed: u64) -> Philox4x64 {
        Philox4x64::from_seed_sequence(&SeedSequence::new(seed))
    }

    /// Creates the generator that NumPy seeds with this sequence: its first two 64-bit words are
    /// the key, and the first block is block 1.
    pub fn from_seed_sequence(sequence: &SeedSequence) -> Philox4x64 {
        let words: [u64; 2] = sequence.state();
        let seed = u128::from(words[0]) | u128::from(words[1]) << 64;
        let mut generator = Philox4x64::with_parts(seed, 0);
        generator.advance_blocks(1);
        generator
    }

    /// Creates the generator at the start of a stream of this key. Streams of one key never
    /// overlap.
    pub const fn with_parts(seed: u128, stream: u128) -> Philox4x64 {
        Philox4x64::at(Position { seed, stream, offset: 0, taken: 0 })
    }

    /// Returns the key.
    pub const fn seed(&self) -> u128 {
        self.position.seed
    }

    /// Returns the counter's high half.
    pub const fn stream(&self) -> u128 {
        self.position.stream
    }

    /// Returns the counter's low half: the block of the next word.
    pub const fn offset(&self) -> u128 {
        self.position.offset
    }

    /// Returns the number of words drawn from that block: 0 to 3.
    pub const fn taken(&self) -> u8 {
        self.position.taken
    }

    /// Advances by `words` words, at the same cost for any number.
    pub const fn advance(&mut self, words: u128) {
        // The two low bits are counted separately so that the sum cannot overflow.
        let low = self.position.taken as u128 + (words & 3);
        let mut position = self.position.plus((words >> 2) + (low >> 2));
        position.taken = (low & 3) as u8;
        *self = Philox4x64::at(position);
    }

    /// Drops the rest of a started block and advances by `blocks` blocks, carrying into the stream,
    /// as NumPy's `advance`.
    pub const fn advance_blocks(&mut self, blocks: u128) {
        let begun = (self.position.taken != 0) as u128;
        *self = Philox4x64::at(self.position.plus(begun).plus(blocks));
    }

    /// Returns the generator `jumps` streams ahead, as NumPy's `jumped`.
    #[must_use]
    pub const fn jumped(&self, jumps: u128) -> Philox4x64 {
        let mut jumped = Philox4x64::at(self.position.plus((self.position.taken != 0) as u128));
        jumped.position.stream = jumped.position.stream.wrapping_add(jumps);
        jumped
    }

    /// Splits off `n` separate generators; advances by `n` blocks, so the next split gives
    /// different ones.
    ///
    /// Child *j* takes its stream and key from the Philox block at `offset` + *j* under another
    /// key. This is a bijection, so the children of all splits of one key are distinct by
    /// construction.
    ///
    /// # Errors
    ///
    /// If there is no memory for `n` generators. The generator is then unchanged.
    pub fn split(&mut self, n: usize) -> Result<Vec<Philox4x64>, Error> {
        let mut next = self.clone();
        next.advance_blocks(0);
        let children = (0..n).map(|j| next.position.plus(j as u128).child(SPLIT));
        let children = memory::collected(children).map_err(Error::memory("Philox4x64::split"))?;
        next.advance_blocks(n as u128);
        *self = next;
        Ok(children)
    }

    /// Returns the generator of item `i`. Neither changes `self` nor depends on its position.
    /// Children of one key are distinct by construction, as in [`split`](Philox4x64::split), and
    /// differ from the children of `split`.
    #[must_use]
    pub const fn fold_in(&self, i: u64) -> Philox4x64 {
        let Position { seed, stream, .. } = self.position;
        Position { seed, stream, offset: i as u128, taken: 0 }.child(FOLD)
    }

    /// Serialises the state: a header as in [`Generator`](crate::Generator::to_bytes), then seed,
    /// stream and offset in 16 little-endian bytes each, and the number of words taken in 8.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Philox4x64::STATE_BYTES] {
        let mut bytes = [0; Philox4x64::STATE_BYTES];
        bytes[8..24].copy_from_slice(&self.position.seed.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.position.stream.to_le_bytes());
        bytes[40..56].copy_from_slice(&self.position.offset.to_le_bytes());
        bytes[56..64].copy_from_slice(&u64::from(self.position.taken).to_le_bytes());
        state::seal(Kind::Philox4x64, &mut bytes);
        bytes
    }

    /// Restores the generator whose [`to_bytes`](Philox4x64::to_bytes) returned `bytes`.
    ///
    /// # Errors
    ///
    /// If the bytes have the wrong length, come from another library or generator, have another
    /// version, or are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Philox4x64, Error> {
        let op = "Philox4x64::from_bytes";
        let fields = state::open(op, Kind::Philox4x64, Philox4x64::STATE_BYTES, bytes)?;
        let position = Position {
            seed: u128_at(fields, 0),
            stream: u128_at(fields, 16),
            offset: u128_at(fields, 32),
            // Any number of words above 3 is invalid, so the conversion may saturate.
            taken: u8::try_from(u64_at(fields, 48)).unwrap_or(u8::MAX),
        };
        Philox4x64::try_from(position).map_err(|what| Error::StateValue { op, what })
    }

    const fn at(position: Position) -> Philox4x64 {
        let block = if position.taken == 0 { [0; 4] } else { position.block() };
        Philox4x64 { position, block }
    }
}

impl core::fmt::Debug for Philox4x64 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Philox4x64")
            .field("seed", &self.position.seed)
            .field("stream", &self.position.stream)
            .field("offset", &self.position.offset)
            .field("taken", &self.position.taken)
            .finish()
    }
}

impl TryRng for Philox4x64 {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|word| word as u32)
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        if self.position.taken == 0 {
            self.block = self.position.block();
        }
        let word = self.block[usize::from(self.position.taken % 4)];
        self.position.taken += 1;
        if self.position.taken == 4 {
            *self = Philox4x64::at(self.position.plus(1));
        }
        Ok(word)
    }

    #[inline]
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        utils::fill_bytes_via_next_word(bytes, || self.try_next_u64())
    }
}

impl TryFrom<Position> for Philox4x64 {
    type Error = &'static str;

    fn try_from(position: Position) -> Result<Philox4x64, &'static str> {
        if position.taken > 3 {
            return Err("more than three words taken of a block");
        }
        Ok(Philox4x64::at(position))
    }
}

impl From<Philox4x64> for Position {
    fn from(generator: Philox4x64) -> Position {
        generator.position
    }
}

/// Computes the Philox4x64 block function with 10 rounds: the four words at `counter` under `key`.
///
/// # Determinism
///
/// Fixed forever: Random123's `philox4x64` with 10 rounds.
///
/// # Examples
///
/// ```
/// use samebits_rng::philox4x64;
///
/// assert_eq!(philox4x64([0; 4], [0; 2])[0], 0x16554d9eca36314c);
/// ```
pub const fn philox4x64(counter: [u64; 4], key: [u64; 2]) -> [u64; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    let mut round = 0;
    while round < 10 {
        let p0 = M0 as u128 * c0 as u128;
        let p1 = M1 as u128 * c2 as u128;
        (c0, c1, c2, c3) =
            ((p1 >> 64) as u64 ^ c1 ^ k0, p1 as u64, (p0 >> 64) as u64 ^ c3 ^ k1, p0 as u64);
        k0 = k0.wrapping_add(W0);
        k1 = k1.wrapping_add(W1);
        round += 1;
    }
    [c0, c1, c2, c3]
}

const M0: u64 = 0xd2e7470ee14c6c93;
const M1: u64 = 0xca5a826395121157;
const W0: u64 = 0x9e3779b97f4a7c15;
const W1: u64 = 0xbb67ae8584caa73b;

/// Domains of derived keys: fractional digits of the square roots of 2 and 3.
const SPLIT: u128 = 0x6a09_e667_f3bc_c908_b2fb_1366_ea95_7d3e;
const FOLD: u128 = 0xbb67_ae85_84ca_a73b_2574_2d70_78b8_3b89;

/// Saved position of a generator.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
struct Position {
    seed: u128,
    stream: u128,
    offset: u128,
    taken: u8,
}

impl Position {
    const fn block(self) -> [u64; 4] {
        let Position { seed, stream, offset, .. } = self;
        philox4x64(
            [offset as u64, (offset >> 64) as u64, stream as u64, (stream >> 64) as u64],
            [seed as u64, (seed >> 64) as u64],
        )
    }

    /// Returns the start of the block `blocks` ahead, carrying into the stream.
    const fn plus(self, blocks: u128) -> Position {
        let (offset, carry) = self.offset.overflowing_add(blocks);
        let stream = self.stream.wrapping_add(carry as u128);
        Position { seed: self.seed, stream, offset, taken: 0 }
    }

    const fn child(self, domain: u128) -> Philox4x64 {
        let [a, b, c, d] = Position { seed: self.seed ^ domain, ..self }.block();
        let (seed, stream) = (a as u128 | (b as u128) << 64, c as u128 | (d as u128) << 64);
        Philox4x64::with_parts(seed, stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random123_known_answers() {
        let pi = [0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x082efa98ec4e6c89];
        let cases = [
            (
                [0; 4],
                [0; 2],
                [0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b, 0x7e68b68aec7ba23b],
            ),
            (
                [!0; 4],
                [!0; 2],
                [0x87b092c3013fe90b, 0x438c3c67be8d0224, 0x9cc7d7c69cd777b6, 0xa09caebf594f0ba0],
            ),
            (
                pi,
                [0x452821e638d01377, 0xbe5466cf34e90c6c],
                [0xa528f45403e61d95, 0x38c72dbd566e9788, 0xa5a1610e72fd18b5, 0x57bd43b5e52b7fe6],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x64(counter, key), expected);
        }
    }
}
