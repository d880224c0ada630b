//! [`Draw`], the address of one operation's random numbers, and the engine that fills slices.

use crate::parallel::*;
use crate::philox::{LANES, Philox4x32};
use crate::{Error, Generator};
use samebits_numerics::simd;

/// The address of one operation's random numbers: a seed, a stream and the first of the blocks that
/// the operation reserved.
///
/// A draw is to a [`Generator`] what a slice is to a vector: it has no position to advance. Every
/// value is a function of the draw and of the element's index, so any part of the operation can be
/// computed separately, in any order, on any thread or device. The methods of `Draw` take the index
/// of the first element to compute; filling a range in pieces gives the same bits as filling it at
/// once.
///
/// # Rejection
///
/// Some samplers reject words until one fits: unbiased integers, gamma, Poisson, binomial. Each
/// element then has its own counters, in a private space. The space's key is the first two words of
/// Philox at (block 0, the draw's stream) under key = seed xor 0x6a09e667f3bcc908. In it, the
/// counter's low half is the number of the attempt, and its high half is the element's block, one
/// of those that the operation reserved. No two elements, and no two operations on one stream,
/// share an attempt, and any element can still be computed alone.
///
/// The key is a 64-bit hash of the seed and the stream. Among *m* generators or streams, two have
/// the same private space with a probability of about *m*² / 2^65, although their ordinary words
/// differ: 2^-25 for a million.
///
/// # Determinism
///
/// Fixed forever for words; fixed within a numerics version for distributions.
///
/// # Examples
///
/// ```
/// use samebits_rng::{Draw, Generator};
///
/// let mut generator = Generator::new(1);
/// let draw = generator.draw(Draw::blocks_u32(10));
/// let (mut whole, mut tail) = ([0; 10], [0; 3]);
/// draw.words(0, &mut whole);
/// draw.words(7, &mut tail);
/// assert_eq!(tail, whole[7..]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    seed: u64,
    stream: u64,
    first: u64,
}

impl Draw {
    /// Creates the draw whose first block is block `first` of this seed and stream.
    #[inline]
    pub const fn new(seed: u64, stream: u64, first: u64) -> Draw {
        Draw { seed, stream, first }
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

    /// Returns the first block.
    #[inline]
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of blocks for `n` elements of one word: ⌈n/4⌉.
    #[inline]
    pub const fn blocks_u32(n: usize) -> u64 {
        (n as u64).div_ceil(4)
    }

    /// Returns the number of blocks for `n` elements of two words: ⌈n/2⌉.
    #[inline]
    pub const fn blocks_u64(n: usize) -> u64 {
        (n as u64).div_ceil(2)
    }

    /// Fills `out` with words `start`, `start + 1`, … of the draw: word *i* is word *i* mod 4
    /// of block ⌊*i*/4⌋.
    pub fn words(&self, start: u64, out: &mut [u32]) {
        self.fill(Words32, start, out);
    }

    /// Fills `out` with 64-bit words `start`, `start + 1`, … of the draw: word *i* is words
    /// 2*i* (low half) and 2*i* + 1 (high half).
    pub fn words64(&self, start: u64, out: &mut [u64]) {
        self.fill(Words64, start, out);
    }

    /// Returns the draw's private space, for samplers that need an unknown number of words per
    /// element.
    #[inline(always)]
    pub(crate) const fn space(&self) -> Space {
        let [a, b, ..] = Philox4x32::from_seed(self.seed ^ SPACE).at(0, self.stream);
        Space { philox: Philox4x32::new([a, b]) }
    }

    #[inline(always)]
    pub(crate) const fn philox(&self) -> Philox4x32 {
        Philox4x32::from_seed(self.seed)
    }

    /// Returns word pair `i` of the draw as one number.
    #[inline(always)]
    pub(crate) const fn word64(&self, i: u64) -> u64 {
        let block = self.philox().at(self.first.wrapping_add(i >> 1), self.stream);
        let half = 2 * (i & 1) as usize;
        pair(block[half], block[half + 1])
    }

    /// Fills `out` with elements `start`, `start + 1`, … of `sampler`, in parallel.
    pub(crate) fn fill<S: Sampler>(&self, sampler: S, start: u64, out: &mut [S::Out]) {
        in_chunks(out, |at, out| {
            let start = u128::from(start) + at as u128;
            simd::dispatch(Fill { draw: *self, sampler, start, out });
        });
    }

    /// Passes `visitor` the words of elements `start..start + len`, a group of [`LANES`] blocks at
    /// a time.
    ///
    /// Only this function maps elements to blocks. The last element may lie beyond 2^64.
    #[inline(always)]
    pub(crate) fn walk(
        &self,
        per_block: usize,
        start: u128,
        len: usize,
        visitor: &mut impl Visitor,
    ) {
        let schedule = self.philox().schedule();
        let group = per_block * LANES;
        let mut block = self.first.wrapping_add((start / per_block as u128) as u64);
        // Only the first group can start inside a block.
        let mut skip = (start % per_block as u128) as usize;
        let mut at = 0;
        while at < len {
            let count = (group - skip).min(len - at);
            let words = schedule.blocks(block, self.stream);
            visitor.visit(&words, Span { block, at, skip, count });
            at += count;
            skip = 0;
            block = block.wrapping_add(LANES as u64);
        }
    }
}

impl Generator {
    /// Takes `blocks` blocks for one operation and advances past them.
    #[inline]
    pub const fn draw(&mut self, blocks: u64) -> Draw {
        let first = self.reserve(blocks);
        Draw { seed: self.seed(), stream: self.stream(), first }
    }

    /// Takes `blocks` blocks for an operation that may reject its arguments, and advances only if
    /// it succeeds.
    #[inline]
    pub(crate) fn draw_if<T>(
        &mut self,
        blocks: u64,
        operation: impl FnOnce(Draw) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let done =
            operation(Draw { seed: self.seed(), stream: self.stream(), first: self.offset() })?;
        self.advance(blocks);
        Ok(done)
    }

    /// Fills `out` with the next words; advances by ⌈n/4⌉ blocks.
    pub fn fill_u32(&mut self, out: &mut [u32]) {
        self.draw(Draw::blocks_u32(out.len())).words(0, out);
    }

    /// Fills `out` with the next pairs of words; advances by ⌈n/2⌉ blocks.
    pub fn fill_u64(&mut self, out: &mut [u64]) {
        self.draw(Draw::blocks_u64(out.len())).words64(0, out);
    }
}

/// The words of [`LANES`] consecutive blocks.
pub(crate) type Words = [u32; 4 * LANES];

/// Consumer of an operation's words. A trait rather than a closure, because a closure cannot be
/// `#[inline(always)]` and would be compiled without the level's instructions.
pub(crate) trait Visitor {
    /// Processes a group of words. Must be `#[inline(always)]`.
    fn visit(&mut self, words: &Words, span: Span);
}

/// Part of a group of blocks that an operation needs: elements `skip..skip + count` of the group
/// are elements `at..at + count` of the slice.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    /// The first block of the group.
    pub(crate) block: u64,
    pub(crate) at: usize,
    pub(crate) skip: usize,
    pub(crate) count: usize,
}

/// A distribution that makes each element from a fixed share of one block.
pub(crate) trait Sampler: Copy + Send + Sync {
    /// The element's type.
    type Out: Copy + Default + Send;
    /// The number of elements per block: 4, 2 or 1.
    const PER_BLOCK: usize;
    /// Makes the `LANES * PER_BLOCK` elements of the group that starts at `block`.
    ///
    /// `out` has exactly that length. Must be `#[inline(always)]`.
    fn group(self, draw: &Draw, block: u64, words: &Words, out: &mut [Self::Out]);
}

/// A private space of counters under one draw, for samplers with rejection.
///
/// See *Rejection* at [`Draw`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    philox: Philox4x32,
}

impl Space {
    /// Returns the words of attempt `attempt` at `block`, one of those that the operation reserved.
    #[inline(always)]
    pub(crate) const fn attempt(&self, block: u64, attempt: u64) -> [u32; 4] {
        self.philox.at(attempt, block)
    }
}

/// Calls `work` on fixed pieces of `out`, with the index of each piece's first element, in
/// parallel if there is more than one.
pub(crate) fn in_chunks<T: Send>(out: &mut [T], work: impl Fn(usize, &mut [T]) + Send + Sync) {
    if out.len() <= CHUNK {
        work(0, out);
    } else {
        out.par_chunks_mut(CHUNK).enumerate().for_each(|(i, piece)| work(i * CHUNK, piece));
    }
}

/// Elements per task: enough work to hide a task's cost, few enough to stay in a core's cache. It
/// affects no bit.
pub(crate) const CHUNK: usize = 1 << 15;

/// Domain of the private spaces' keys: fractional digits of the square root of 2.
const SPACE: u64 = 0x6a09_e667_f3bc_c908;

/// Combines two words into one number.
#[inline(always)]
pub(crate) const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

struct Fill<'a, S: Sampler> {
    draw: Draw,
    sampler: S,
    start: u128,
    out: &'a mut [S::Out],
}

impl<S: Sampler> simd::Kernel for Fill<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let (draw, start, len) = (self.draw, self.start, self.out.len());
        draw.walk(S::PER_BLOCK, start, len, &mut self);
    }
}

impl<S: Sampler> Visitor for Fill<'_, S> {
    #[inline(always)]
    fn visit(&mut self, words: &Words, span: Span) {
        let group = S::PER_BLOCK * LANES;
        let out = &mut self.out[span.at..][..span.count];
        if span.count == group {
            self.sampler.group(&self.draw, span.block, words, out);
        } else {
            let mut whole = [S::Out::default(); 4 * LANES];
            self.sampler.group(&self.draw, span.block, words, &mut whole[..group]);
            out.copy_from_slice(&whole[span.skip..][..span.count]);
        }
    }
}

#[derive(Clone, Copy)]
struct Words32;

impl Sampler for Words32 {
    type Out = u32;
    const PER_BLOCK: usize = 4;

    #[inline(always)]
    fn group(self, _: &Draw, _: u64, words: &Words, out: &mut [u32]) {
        for (out, &word) in out.iter_mut().zip(words) {
            *out = word;
        }
    }
}

#[derive(Clone, Copy)]
struct Words64;

impl Sampler for Words64 {
    type Out = u64;
    const PER_BLOCK: usize = 2;

    #[inline(always)]
    fn group(self, _: &Draw, _: u64, words: &Words, out: &mut [u64]) {
        for i in 0..2 * LANES {
            out[i] = pair(words[2 * i], words[2 * i + 1]);
        }
    }
}
