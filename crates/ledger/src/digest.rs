//! `sum64`: a 64-bit digest of a tensor's elements.
//!
//! The digest is a wrapping sum of one term per 8-byte word; the term depends on the word and its
//! index. A wrapping sum has no order, so threads add pieces in any order. It detects accidents; it
//! is not collision-resistant against an attacker.
//!
//! # Examples
//!
//! ```
//! use samebits_ledger::digest::{Element, finish, sum, sum64};
//!
//! let bytes: Vec<u8> = [1.0f32, -2.5, 3.25].iter().flat_map(|x| x.to_le_bytes()).collect();
//! let whole = sum64(Element::F32, &bytes);
//! let pieces = sum(Element::F32, 1, &bytes[8..]).wrapping_add(sum(Element::F32, 0, &bytes[..8]));
//! assert_eq!(whole, finish(pieces, bytes.len() as u64));
//! assert_eq!(whole.to_string(), "6e0e17910eb5baaf");
//! ```

use std::fmt;
use std::hint;
use std::ops::Range;
use std::str::FromStr;

use samebits_numerics::simd;
use serde::{Deserialize, Serialize, Serializer};

/// The number of bytes in a word.
pub const WORD: usize = 8;

/// The largest number of words of which a sampled digest covers every word.
pub const SAMPLED_WORDS: u64 = 8192;

/// The number of blocks in a sampled digest of a larger tensor, and the number of words in a block.
const BLOCKS: u64 = 64;
const BLOCK: u64 = 8;

const K0: u64 = 0x9e37_79b9_7f4a_7c15;
const K1: u64 = 0xd1b5_4a32_d192_ed03;

/// A tensor's digest: 16 hexadecimal digits in a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest(pub u64);

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let digit = |i: u32| b"0123456789abcdef"[(self.0 >> (60 - 4 * i) & 15) as usize];
        let digits: [u8; 16] = std::array::from_fn(|i| digit(i as u32));
        to.serialize_str(std::str::from_utf8(&digits).unwrap_or_default())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = ParseDigestError;

    fn try_from(text: String) -> Result<Digest, ParseDigestError> {
        text.parse()
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Digest, ParseDigestError> {
        let digits =
            text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let error = || ParseDigestError { found: text.to_owned() };
        if !digits {
            return Err(error());
        }
        u64::from_str_radix(text, 16).map(Digest).map_err(|_| error())
    }
}

/// Error for text that is not a [`Digest`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("digest: expected 16 lower-case hexadecimal digits, found {found:?}")]
pub struct ParseDigestError {
    /// The text.
    pub found: String,
}

samebits_numerics::debug_is_message!(ParseDigestError);

/// Floating-point format of an element type, which locates NaNs: their payloads do not count in
/// digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// A type without NaN.
    Plain,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE binary32, and complex numbers of two such parts.
    F32,
    /// IEEE binary64, and complex numbers of two such parts.
    F64,
}

impl Element {
    /// Returns the element type of a ledger's `dtype`. Types unknown to the schema are
    /// [`Plain`](Self::Plain).
    pub fn of(dtype: &str) -> Element {
        match dtype {
            "f16" => Element::F16,
            "bf16" => Element::Bf16,
            "f32" | "c64" => Element::F32,
            "f64" | "c128" => Element::F64,
            _ => Element::Plain,
        }
    }

    /// Returns the bits of infinity and of the canonical NaN. A number is NaN if its bits without
    /// the sign exceed those of infinity; for a type without NaN, none do.
    pub fn infinity_and_nan(self) -> (u64, u64) {
        match self {
            Element::Plain => (u64::MAX, 0),
            Element::F16 => (0x7c00, 0x7e00),
            Element::Bf16 => (0x7f80, 0x7fc0),
            Element::F32 => (0x7f80_0000, 0x7fc0_0000),
            Element::F64 => (0x7ff0 << 48, 0x7ff8 << 48),
        }
    }
}

/// Digests all elements, in row-major order and little-endian.
pub fn sum64(element: Element, bytes: &[u8]) -> Digest {
    finish(sum(element, 0, bytes), bytes.len() as u64)
}

/// Digests the words of a [`sample`].
pub fn sampled64(element: Element, bytes: &[u8]) -> Digest {
    let pieces = || {
        sample(bytes.len() as u64).map(|words| {
            let [start, end] = [words.start, words.end].map(|word| word as usize * WORD);
            (words.start, &bytes[start..end.min(bytes.len())])
        })
    };
    // Several pieces lie far apart; touching all first lets memory fetch them in parallel.
    if blocks(bytes.len() as u64).0 > 1 {
        let lines = pieces().flat_map(|(_, bytes)| bytes.iter().step_by(64));
        hint::black_box(lines.fold(0, |any, &byte| any | byte));
    }
    let sums = pieces().map(|(first_word, bytes)| sum(element, first_word, bytes));
    finish(sums.fold(0, u64::wrapping_add), bytes.len() as u64)
}

/// Returns the words that a sampled digest covers in a tensor of `bytes` bytes: all words up to
/// [`SAMPLED_WORDS`]; beyond, 64 blocks of 8 words, one in each 64th of the tensor, including the
/// first and the last words. The position of the block in its part varies from block to block, so
/// that blocks do not hit the same columns of every matrix. All blocks but the last start at a
/// multiple of 8 words, as cache lines do.
pub fn sample(bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let words = bytes.div_ceil(WORD as u64);
    let places = words / BLOCKS / BLOCK;
    let (blocks, block) = blocks(bytes);
    (0..blocks).map(move |i| {
        let start = if i + 1 == blocks {
            words - block
        } else {
            let place = i.wrapping_mul(K0 >> 32) as u32;
            (i * places + ((u128::from(place) * u128::from(places)) >> 32) as u64) * BLOCK
        };
        start..start + block
    })
}

/// Returns the number of blocks in a [`sample`], and the number of words in each.
pub fn blocks(bytes: u64) -> (u64, u64) {
    let words = bytes.div_ceil(WORD as u64);
    if words <= SAMPLED_WORDS { (1, words) } else { (BLOCKS, BLOCK) }
}

/// Sums the terms of the words in `bytes`, from index `first_word` on. Every piece but the last
/// must have whole words.
pub fn sum(element: Element, first_word: u64, bytes: &[u8]) -> u64 {
    match element {
        Element::Plain => simd::dispatch(Sum { first_word, bytes, nans: Plain }),
        Element::F16 => ieee::<16, 0x7c00, 0x7e00>(first_word, bytes),
        Element::Bf16 => ieee::<16, 0x7f80, 0x7fc0>(first_word, bytes),
        Element::F32 => ieee::<32, 0x7f80_0000, 0x7fc0_0000>(first_word, bytes),
        Element::F64 => ieee::<64, { 0x7ff0 << 48 }, { 0x7ff8 << 48 }>(first_word, bytes),
    }
}

fn ieee<const BITS: u32, const INFINITY: u64, const QUIET: u64>(
    first_word: u64,
    bytes: &[u8],
) -> u64 {
    simd::dispatch(Sum { first_word, bytes, nans: Ieee::<BITS, INFINITY, QUIET> })
}

/// Computes the digest of a tensor of `bytes` bytes from the sum of all its terms.
pub fn finish(sum: u64, bytes: u64) -> Digest {
    let mut x = sum ^ bytes.wrapping_mul(K1);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Digest(x ^ (x >> 31))
}

/// Sum of terms, compiled for each instruction set.
struct Sum<'a, N> {
    first_word: u64,
    bytes: &'a [u8],
    nans: N,
}

impl<N: Nans> simd::Kernel for Sum<'_, N> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        sum_of_blocks(self.first_word, self.bytes, self.nans)
    }
}

/// Sums blocks of words for any element type. The terms of a block are independent, so the compiler
/// can vectorise them. Few blocks have a NaN to replace.
#[inline(always)]
fn sum_of_blocks(first_word: u64, bytes: &[u8], nans: impl Nans) -> u64 {
    const LANES: usize = 8;
    const OFFSETS: [u64; LANES] = {
        let mut offsets = [0; LANES];
        let mut lane = 0;
        while lane < LANES {
            offsets[lane] = K1.wrapping_mul(lane as u64);
            lane += 1;
        }
        offsets
    };
    let mut key = K0.wrapping_add(first_word.wrapping_mul(K1));
    let mut sums = [0u64; LANES];
    let (blocks, rest) = bytes.as_chunks::<{ LANES * WORD }>();
    for block in blocks {
        let (parts, _) = block.as_chunks::<WORD>();
        let mut words = [0; LANES];
        let mut any = 0;
        for lane in 0..LANES {
            words[lane] = u64::from_le_bytes(parts[lane]);
            any |= nans.among(words[lane]);
        }
        if any != 0 {
            words = words.map(|word| nans.replaced(word));
        }
        for lane in 0..LANES {
            sums[lane] =
                sums[lane].wrapping_add(term(words[lane], key.wrapping_add(OFFSETS[lane])));
        }
        key = key.wrapping_add(K1.wrapping_mul(LANES as u64));
    }
    let mut total = sums.iter().fold(0u64, |a, &b| a.wrapping_add(b));
    for part in rest.chunks(WORD) {
        let mut word = [0; WORD];
        word[..part.len()].copy_from_slice(part);
        total = total.wrapping_add(term(nans.replaced(u64::from_le_bytes(word)), key));
        key = key.wrapping_add(K1);
    }
    total
}

#[inline(always)]
fn term(word: u64, key: u64) -> u64 {
    let v = word ^ key;
    (v & 0xffff_ffff).wrapping_mul(v >> 32).wrapping_add(v.rotate_left(32))
}

/// The NaNs of an element type.
trait Nans: Copy {
    /// Returns a non-zero value if an element of the word is NaN.
    fn among(self, word: u64) -> u64;

    /// Replaces the NaNs of the word with canonical NaNs.
    fn replaced(self, word: u64) -> u64;
}

/// Element type without NaN.
#[derive(Clone, Copy)]
struct Plain;

impl Nans for Plain {
    #[inline(always)]
    fn among(self, _: u64) -> u64 {
        0
    }

    #[inline(always)]
    fn replaced(self, word: u64) -> u64 {
        word
    }
}

/// Elements of `BITS` bits, whose canonical NaN is `QUIET`.
#[derive(Clone, Copy)]
struct Ieee<const BITS: u32, const INFINITY: u64, const QUIET: u64>;

impl<const BITS: u32, const INFINITY: u64, const QUIET: u64> Ieee<BITS, INFINITY, QUIET> {
    const ONES: u64 = u64::MAX / (u64::MAX >> (64 - BITS));
    const SIGNS: u64 = Self::ONES << (BITS - 1);
}

impl<const BITS: u32, const INFINITY: u64, const QUIET: u64> Nans for Ieee<BITS, INFINITY, QUIET> {
    /// Returns the sign bits of the NaN elements. An element is NaN if its bits without the sign
    /// exceed `INFINITY`. Adding the distance from infinity to the largest pattern then carries
    /// into the sign bit, and into no other element.
    #[inline(always)]
    fn among(self, word: u64) -> u64 {
        let room = (1 << (BITS - 1)) - 1 - INFINITY;
        ((word & !Self::SIGNS) + Self::ONES * room) & Self::SIGNS
    }

    #[inline(always)]
    fn replaced(self, word: u64) -> u64 {
        let nan = self.among(word);
        let mask = nan | (nan - (nan >> (BITS - 1)));
        (word & !mask) | ((Self::ONES * QUIET) & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the digest by its definition, word by word.
    fn defined(words: &[u64], bytes: u64) -> u64 {
        let mut s = 0u64;
        for (i, &word) in words.iter().enumerate() {
            let v = word ^ K0.wrapping_add((i as u64).wrapping_mul(K1));
            let (low, high) = (v & 0xffff_ffff, v >> 32);
            s = s.wrapping_add(low.wrapping_mul(high)).wrapping_add((low << 32) + high);
        }
        finish(s, bytes).0
    }

    fn words(bytes: &[u8]) -> Vec<u64> {
        let word =
            |part: &[u8]| part.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
        bytes.chunks(WORD).map(word).collect()
    }

    fn noise(n: usize) -> Vec<u8> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn vectors() {
        let text = include_str!("../tests/digest_vectors.json");
        let vectors: Vec<serde_json::Value> = serde_json::from_str(text).expect("JSON");
        assert!(vectors.len() >= 10);
        for vector in vectors {
            let field = |name: &str| vector[name].as_str().expect("a string").to_owned();
            let hex = field("bytes");
            let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal");
            let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            let found = sum64(Element::of(&field("dtype")), &bytes);
            assert_eq!(found.to_string(), field("digest"), "{}", field("name"));
        }
    }

    #[test]
    fn every_length_and_every_cut_agree_with_the_definition() {
        let bytes = noise(300);
        for n in 0..bytes.len() {
            let whole = sum64(Element::Plain, &bytes[..n]);
            assert_eq!(whole.0, defined(&words(&bytes[..n]), n as u64), "{n} bytes");
            let cut = n / 2 / WORD * WORD;
            let first = sum(Element::Plain, 0, &bytes[..cut]);
            let last = sum(Element::Plain, (cut / WORD) as u64, &bytes[cut..n]);
            assert_eq!(whole, finish(last.wrapping_add(first), n as u64), "{n} bytes cut at {cut}");
        }
    }

    #[test]
    fn each_word_has_its_own_place() {
        let mut bytes = noise(4096);
        let before = sum64(Element::Plain, &bytes);
        for i in (0..bytes.len()).step_by(97) {
            bytes[i] ^= 1;
            assert_ne!(sum64(Element::Plain, &bytes), before, "byte {i}");
            bytes[i] ^= 1;
        }
        bytes.copy_within(0..8, 8);
        let twice = sum64(Element::Plain, &bytes);
        bytes[..16].copy_from_slice(&[0; 16]);
        assert_ne!(sum64(Element::Plain, &bytes), twice);
        assert_ne!(sum64(Element::Plain, &[0; 8]), sum64(Element::Plain, &[0; 16]));
    }

    #[test]
    fn payloads_and_signs_of_nans_do_not_count() {
        fn check<const N: usize>(element: Element, same: &[[u8; N]], other: &[[u8; N]]) {
            // At the end of a block, inside a block and in the rest, among numbers.
            for place in [0, 3, 7, 32, 33] {
                let digest = |x: &[u8; N]| {
                    let mut bytes = noise(40 * N);
                    // Noise without NaN: clear the sign and the highest bit of the exponent.
                    bytes.iter_mut().skip(N - 1).step_by(N).for_each(|byte| *byte &= 0x3f);
                    bytes[place * N..][..N].copy_from_slice(x);
                    sum64(element, &bytes)
                };
                for x in same {
                    assert_eq!(digest(x), digest(&same[0]), "{element:?} {x:x?}");
                    let plain = |x: &[u8; N]| sum64(Element::Plain, x);
                    assert!(x == &same[0] || plain(x) != plain(&same[0]));
                }
                for x in other {
                    assert_ne!(digest(x), digest(&same[0]), "{element:?} {x:x?}");
                }
            }
        }
        let f32s = |all: &[u32]| -> Vec<[u8; 4]> { all.iter().map(|x| x.to_le_bytes()).collect() };
        check(
            Element::F32,
            &f32s(&[0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0xff80_0001, 0x7fff_ffff, 0xffff_ffff]),
            &f32s(&[0x7f80_0000, 0xff80_0000, 0, 0x8000_0000, 0x7f7f_ffff]),
        );
        let f64s = |all: &[u64]| -> Vec<[u8; 8]> { all.iter().map(|x| x.to_le_bytes()).collect() };
        check(
            Element::F64,
            &f64s(&[0x7ff8 << 48, 0xfff8 << 48, (0x7ff0 << 48) + 1, (0xfff0 << 48) + 1, u64::MAX]),
            &f64s(&[0x7ff0 << 48, 0xfff0 << 48, 0, 1 << 63]),
        );
        let halves =
            |all: &[u16]| -> Vec<[u8; 2]> { all.iter().map(|x| x.to_le_bytes()).collect() };
        check(
            Element::F16,
            &halves(&[0x7e00, 0xfe00, 0x7c01, 0xfc01, 0x7fff, 0xffff]),
            &halves(&[0x7c00, 0xfc00, 0, 0x8000]),
        );
        check(
            Element::Bf16,
            &halves(&[0x7fc0, 0xffc0, 0x7f81, 0xff81, 0x7fff, 0xffff]),
            &halves(&[0x7f80, 0xff80, 0, 0x8000]),
        );
        assert_eq!(sum64(Element::F32, &f32::NAN.to_le_bytes()).to_string(), "49f1beddd5459653");
    }

    #[test]
    fn a_sample_is_a_block_in_each_part() {
        let all = |bytes| sample(bytes).collect::<Vec<_>>();
        let most = SAMPLED_WORDS * 8;
        assert_eq!(all(0).as_slice(), std::slice::from_ref(&(0..0)));
        assert_eq!(all(most).as_slice(), std::slice::from_ref(&(0..SAMPLED_WORDS)));
        for words in [SAMPLED_WORDS + 1, 131_072, 1_000_003, u64::MAX / 8] {
            let (blocks, part) = (all(words * 8), words / 64 / BLOCK * BLOCK);
            assert_eq!((blocks.len(), blocks[0].start, blocks[63].end), (64, 0, words));
            for (i, block) in (0..63).zip(&blocks) {
                assert!(
                    i * part <= block.start && block.end <= (i + 1) * part,
                    "{words} {block:?}"
                );
                assert_eq!((block.start % BLOCK, block.end - block.start), (0, BLOCK));
            }
            assert!(63 * part <= blocks[63].start && blocks[63].end - blocks[63].start == BLOCK);
        }
        // In a matrix with rows of 256 words, blocks begin in many of its 32 columns of 8.
        let columns = all(1 << 20).iter().map(|block| block.start % 256).collect::<Vec<_>>();
        let distinct = columns.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert!(distinct > 20, "{columns:?}");
    }

    #[test]
    fn a_sampled_digest_sees_its_sample_alone() {
        let mut bytes = noise(8 * 20_000 + 3);
        let before = sampled64(Element::Plain, &bytes);
        // The value of the definition, which other recorders also compute.
        assert_eq!(before.to_string(), "106e096b5deccf69");
        let blocks: Vec<_> = sample(bytes.len() as u64).collect();
        for i in (0..bytes.len()).step_by(61).chain([bytes.len() - 1]) {
            let covered = blocks.iter().any(|block| block.contains(&(i as u64 / 8)));
            bytes[i] ^= 1;
            assert_eq!(sampled64(Element::Plain, &bytes) != before, covered, "byte {i}");
            bytes[i] ^= 1;
        }
        let small = noise(100);
        assert_eq!(sampled64(Element::F32, &small), sum64(Element::F32, &small));
    }

    #[test]
    fn digests_are_read_as_they_are_written() {
        let digest = Digest(0x0123_4567_89ab_cdef);
        assert_eq!("0123456789abcdef".parse(), Ok(digest));
        for wrong in
            ["", "0123456789ABCDEF", "123456789abcdef", "+123456789abcdef", "é23456789abcdef"]
        {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
