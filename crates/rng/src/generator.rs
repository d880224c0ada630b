//! [`Generator`], the addressed generator for tensors.

use alloc::vec::Vec;

use crate::state::{self, HEADER, Kind, u64_at};
use crate::{Error, Philox4x32};
use samebits_numerics::memory;

/// A position in the random numbers of one seed: Philox4x32-10 with the seed as its key and (block,
/// stream) as its counter.
///
/// There is no hidden state: a generator *is* its three numbers, and every value drawn from it is a
/// documented function of them and of the element's index. Drawing reserves a number of blocks that
/// depends on the element count alone, and advances `offset` by it.
///
/// The stream separates devices: the CPU and the first GPU use stream 0 and so draw the same
/// numbers; the GPU with ordinal *k* uses stream *k*.
///
/// # Determinism
///
/// Fixed forever: the words at a position never change in any release. The values that
/// distributions compute from the words are fixed within a numerics version.
///
/// # Examples
///
/// ```
/// use samebits_rng::Generator;
///
/// let mut generator = Generator::new(42);
/// let saved = generator.to_bytes();
/// let first = generator.next_block();
///
/// let mut restored = Generator::from_bytes(&saved)?;
/// assert_eq!(restored.next_block(), first);
/// assert_eq!(format!("{restored:?}"), "Generator { seed: 42, stream: 0, offset: 1 }");
/// # Ok::<(), samebits_rng::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Generator {
    seed: u64,
    stream: u64,
    offset: u64,
}

impl Generator {
    /// The number of bytes that [`to_bytes`](Generator::to_bytes) returns.
    pub const STATE_BYTES: usize = HEADER + 24;

    /// Creates the generator at the start of stream 0 of `seed`.
    #[inline]
    pub const fn new(seed: u64) -> Generator {
        Generator { seed, stream: 0, offset: 0 }
    }

    /// Returns the generator at the start of another stream of the same seed. Streams of one seed
    /// never overlap: they differ in the counter's high half.
    #[inline]
    pub const fn with_stream(self, stream: u64) -> Generator {
        Generator { seed: self.seed, stream, offset: 0 }
    }

    /// Returns the generator with the same seed and stream at another block.
    #[inline]
    pub const fn with_offset(self, offset: u64) -> Generator {
        Generator { offset, ..self }
    }

    /// Returns the seed, which is Philox's key.
    #[inline]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the stream, which is the high half of Philox's counter.
    #[inline]
    pub const fn stream(&self) -> u64 {
        self.stream
    }

    /// Returns the number of the next block, which is the low half of Philox's counter.
    #[inline]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Advances by `blocks` blocks of four 32-bit words, at the same cost for any number. After
    /// 2^64 blocks the stream starts over.
    #[inline]
    pub const fn advance(&mut self, blocks: u64) {
        self.offset = self.offset.wrapping_add(blocks);
    }

    /// Reserves `blocks` blocks for one operation: returns the first of them and advances past all.
    #[inline]
    pub const fn reserve(&mut self, blocks: u64) -> u64 {
        let first = self.offset;
        self.advance(blocks);
        first
    }

    /// Returns the next four words; advances by one block.
    #[inline]
    pub const fn next_block(&mut self) -> [u32; 4] {
        let block = self.reserve(1);
        self.block_at(block)
    }

    /// Returns the four words of block `block` of this seed and stream, whatever the generator's
    /// position.
    #[inline]
    pub const fn block_at(&self, block: u64) -> [u32; 4] {
        Philox4x32::from_seed(self.seed).at(block, self.stream)
    }

    /// Splits off `n` generators with separate streams; advances by `n` blocks, so the next split
    /// gives different ones.
    ///
    /// Child *j* is a function of the seed, the stream and block `offset + j` alone. Its seed and
    /// stream are the 128 bits of a Philox block, a bijection of (block, stream): the children of
    /// all splits of one seed, on all streams, are pairwise distinct by construction. Among *m*
    /// unrelated generators, the probability of a collision is below *m*² / 2^129.
    ///
    /// # Errors
    ///
    /// If there is no memory for `n` generators. The generator is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut generator = Generator::new(7);
    /// let children = generator.split(2)?;
    /// assert_eq!(generator.offset(), 2);
    /// assert_ne!(children[0], children[1]);
    /// assert_eq!(children, Generator::new(7).split(2)?);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn split(&mut self, n: usize) -> Result<Vec<Generator>, Error> {
        let children = (0..n).map(|j| self.child(SPLIT, self.offset.wrapping_add(j as u64)));
        let children = memory::collected(children).map_err(Error::memory("Generator::split"))?;
        self.advance(n as u64);
        Ok(children)
    }

    /// Returns the generator of item `i`: a sample, a layer, an epoch. Neither changes `self` nor
    /// depends on its position.
    ///
    /// The children of one seed and all its streams are pairwise distinct by construction, as in
    /// [`split`](Generator::split), and differ from the children of `split`.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut generator = Generator::new(7);
    /// let sample = generator.fold_in(3);
    /// generator.advance(10);
    /// assert_eq!(generator.fold_in(3), sample);
    /// ```
    #[inline]
    #[must_use]
    pub const fn fold_in(&self, i: u64) -> Generator {
        self.child(FOLD, i)
    }

    /// Returns the generator for one named use of this one: "shuffle", "weights", "worker". Neither
    /// changes `self` nor depends on its position.
    ///
    /// Give every use of a generator its own name. Two uses that both fold in small numbers draw
    /// the same words; under two names they do not.
    ///
    /// The name's length in bytes is folded in first, then its UTF-8 bytes, eight at a time as
    /// little-endian numbers, the last padded with zeros. Each step works as
    /// [`fold_in`](Generator::fold_in) under another key, so names, folds and splits have different
    /// children; two names give the same child with a probability of about 2^-128.
    ///
    /// # Determinism
    ///
    /// Fixed forever.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let root = Generator::new(7);
    /// let third_sample = root.derive("sample").fold_in(3);
    /// let third_worker = root.derive("worker").fold_in(3);
    /// assert_ne!(third_sample, third_worker);
    /// ```
    #[must_use]
    pub fn derive(&self, domain: &str) -> Generator {
        let sized = self.child(DERIVE, domain.len() as u64);
        domain.as_bytes().chunks(8).fold(sized, |parent, chunk| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            parent.child(DERIVE, u64::from_le_bytes(bytes))
        })
    }

    /// Serialises the state in [`STATE_BYTES`](Generator::STATE_BYTES) bytes: the mark `b"sb"`, the
    /// kind 1, the version 1, CRC-32 of all other bytes, then seed, stream and offset; numbers are
    /// little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Generator::STATE_BYTES] {
        let mut bytes = [0; Generator::STATE_BYTES];
        bytes[8..16].copy_from_slice(&self.seed.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.stream.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.offset.to_le_bytes());
        state::seal(Kind::Philox4x32, &mut bytes);
        bytes
    }

    /// Restores the generator whose [`to_bytes`](Generator::to_bytes) returned `bytes`.
    ///
    /// # Errors
    ///
    /// If the bytes have the wrong length, come from another library or generator, have another
    /// version, or are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Generator, Error> {
        let op = "Generator::from_bytes";
        let fields = state::open(op, Kind::Philox4x32, Generator::STATE_BYTES, bytes)?;
        Ok(Generator {
            seed: u64_at(fields, 0),
            stream: u64_at(fields, 8),
            offset: u64_at(fields, 16),
        })
    }

    /// Returns the child at `index` of the family `domain`. The domain changes the key, so a
    /// child's identity is never drawn as data.
    const fn child(&self, domain: u64, index: u64) -> Generator {
        let [a, b, c, d] = Philox4x32::from_seed(self.seed ^ domain).at(index, self.stream);
        Generator {
            seed: a as u64 | (b as u64) << 32,
            stream: c as u64 | (d as u64) << 32,
            offset: 0,
        }
    }
}

/// Domains of derived keys: fractional digits of the golden ratio, of e and of pi, chosen as
/// numbers without hidden structure.
const SPLIT: u64 = 0x9e37_79b9_7f4a_7c15;
const FOLD: u64 = 0xb7e1_5162_8aed_2a6a;
const DERIVE: u64 = 0x243f_6a88_85a3_08d3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_to_any_bit_of_a_state_is_noticed() {
        let state = Generator::new(3).with_stream(1).with_offset(9).to_bytes();
        for bit in 0..8 * state.len() {
            let mut damaged = state;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Generator::from_bytes(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..state.len() {
            assert!(Generator::from_bytes(&state[..length]).is_err(), "length {length}");
        }
        let longer = [state.as_slice(), &[0]].concat();
        assert!(matches!(
            Generator::from_bytes(&longer),
            Err(Error::StateLength { expected: 32, found: 33, .. })
        ));
    }

    #[test]
    fn the_state_format_is_fixed() {
        let state = Generator::new(0x0102_0304_0506_0708).with_stream(2).with_offset(3).to_bytes();
        let text: String = state.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, "736201015f2e757e080706050403020102000000000000000300000000000000");
    }

    #[test]
    fn words_and_children_are_fixed() {
        let mut generator = Generator::new(42).with_stream(5);
        generator.advance(1 << 40);
        assert_eq!(generator.next_block(), [0x3d6ae144, 0x5c82ed25, 0x9475ef43, 0x1879a9aa]);
        let folded = generator.fold_in(7).next_block();
        assert_eq!(folded, [0x3083708e, 0xe931e3d6, 0xd973c115, 0x04583395]);
        let split = generator.split(3).unwrap()[2].clone().next_block();
        assert_eq!(split, [0xdac075a6, 0x351d6fee, 0x4f02f10a, 0x3f62a17a]);
    }

    /// The expected children come from a second program, written from the specification alone.
    #[test]
    fn the_children_of_names_are_fixed() {
        let cases = [
            ((42, 5), "", (0xc268_ab8a_dfae_fd4d, 0xd2df_05ec_d4d1_9710)),
            ((42, 5), "sample", (0x925d_bed0_a96f_1c40, 0x0e14_62ce_43a8_4ba6)),
            ((0, 0), "worker", (0x884a_a6d4_6d13_11b2, 0x746d_7207_6524_dd7f)),
            ((0, 0), "dataloader/order", (0xc35f_09f6_0115_474e, 0x8e16_429b_104f_593c)),
            ((u64::MAX, 1), "größer als acht", (0xb46a_fac4_4781_535e, 0x3bc6_c9fd_bcf1_3e68)),
        ];
        for ((seed, stream), name, (child_seed, child_stream)) in cases {
            let mut generator = Generator::new(seed).with_stream(stream);
            let child = Generator::new(child_seed).with_stream(child_stream);
            assert_eq!(generator.derive(name), child, "{name:?}");
            generator.advance(9);
            assert_eq!(generator.derive(name), child, "{name:?}");
        }
    }
}
