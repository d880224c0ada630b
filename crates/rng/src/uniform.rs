//! Uniform numbers in an interval, and events of a given probability.

#[cfg(not(feature = "std"))]
use samebits_numerics::Ieee as _;

use crate::draw::{Sampler, Span, Visitor, Words, in_chunks, pair};
use crate::{Draw, Error, Generator};
use samebits_numerics::simd;

impl Draw {
    /// Fills `out` with uniform numbers in `[low, high)`; takes [`Draw::blocks_u32`] blocks.
    ///
    /// Element *i* is `fma(u, high - low, low)` with *u* = (word *i* >> 8) · 2^-24 in `[0, 1)`. If
    /// rounding gives `high`, the element is the number just below `high` instead. If `low` equals
    /// `high`, every element is `low`.
    ///
    /// # Errors
    ///
    /// If `low > high`, or `high - low` is not finite.
    pub fn uniform_f32(
        &self,
        start: u64,
        out: &mut [f32],
        low: f32,
        high: f32,
    ) -> Result<(), Error> {
        check_interval("uniform_f32", low, high, (high - low).is_finite())?;
        self.fill(UniformF32::new(low, high), start, out);
        Ok(())
    }

    /// Fills `out` with uniform numbers in `[low, high)`; takes [`Draw::blocks_u64`] blocks.
    ///
    /// The method is [`Draw::uniform_f32`] with *u* = (word pair *i* >> 11) · 2^-53.
    ///
    /// # Errors
    ///
    /// If `low > high`, or `high - low` is not finite.
    pub fn uniform_f64(
        &self,
        start: u64,
        out: &mut [f64],
        low: f64,
        high: f64,
    ) -> Result<(), Error> {
        check_interval("uniform_f64", low, high, (high - low).is_finite())?;
        self.fill(UniformF64::new(low, high), start, out);
        Ok(())
    }

    /// Fills `out` with events of probability `p`; takes [`Draw::blocks_u32`] blocks.
    ///
    /// Element *i* is true if word *i* < `p` · 2^32, compared exactly: the probability is `p`
    /// rounded up to a multiple of 2^-32.
    ///
    /// # Errors
    ///
    /// If `p` is not in `[0, 1]`.
    pub fn bernoulli(&self, start: u64, out: &mut [bool], p: f64) -> Result<(), Error> {
        self.fill(Bernoulli { below: Below::new("bernoulli", p)? }, start, out);
        Ok(())
    }

    /// Fills `out` with events of the probabilities in `p`; takes [`Draw::blocks_u32`] blocks.
    ///
    /// The method is [`Draw::bernoulli`] with a separate probability for each element.
    ///
    /// # Errors
    ///
    /// If a probability is not in `[0, 1]`, or the slices differ in length.
    pub fn bernoulli_each(&self, start: u64, p: &[f32], out: &mut [bool]) -> Result<(), Error> {
        let op = "bernoulli_each";
        if p.len() != out.len() {
            return Err(Error::length(op, "p", p.len(), "out", out.len()));
        }
        if let Some(p) = p.iter().find(|p| !(0.0..=1.0).contains(*p)) {
            return Err(Error::parameter(op, "a probability", p, "in [0, 1]"));
        }
        in_chunks(out, |at, out| {
            let p = &p[at..][..out.len()];
            let start = u128::from(start) + at as u128;
            simd::dispatch(BernoulliEach { draw: self, start, p, out });
        });
        Ok(())
    }
}

impl Generator {
    /// Fills `out` with uniform numbers in `[low, high)`; advances by ⌈n/4⌉ blocks. See
    /// [`Draw::uniform_f32`].
    ///
    /// # Errors
    ///
    /// If `low > high`, or `high - low` is not finite. The generator is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut x = [0.0; 4];
    /// Generator::new(0).fill_uniform_f32(&mut x, 0.0, 1.0)?;
    /// assert_eq!(x, [0.39904642, 0.88052016, 0.73571277, 0.6054818]);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn fill_uniform_f32(&mut self, out: &mut [f32], low: f32, high: f32) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u32(out.len()), |draw| draw.uniform_f32(0, out, low, high))
    }

    /// Fills `out` with uniform numbers in `[low, high)`; advances by ⌈n/2⌉ blocks. See
    /// [`Draw::uniform_f64`].
    ///
    /// # Errors
    ///
    /// If `low > high`, or `high - low` is not finite. The generator is then unchanged.
    pub fn fill_uniform_f64(&mut self, out: &mut [f64], low: f64, high: f64) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u64(out.len()), |draw| draw.uniform_f64(0, out, low, high))
    }

    /// Fills `out` with events of probability `p`; advances by ⌈n/4⌉ blocks. See
    /// [`Draw::bernoulli`].
    ///
    /// # Errors
    ///
    /// If `p` is not in `[0, 1]`. The generator is then unchanged.
    pub fn fill_bernoulli(&mut self, out: &mut [bool], p: f64) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u32(out.len()), |draw| draw.bernoulli(0, out, p))
    }

    /// Fills `out` with events of the probabilities in `p`; advances by ⌈n/4⌉ blocks. See
    /// [`Draw::bernoulli_each`].
    ///
    /// # Errors
    ///
    /// If a probability is not in `[0, 1]`, or the slices differ in length. The generator is then
    /// unchanged.
    pub fn fill_bernoulli_each(&mut self, p: &[f32], out: &mut [bool]) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u32(out.len()), |draw| draw.bernoulli_each(0, p, out))
    }
}

/// Converts a word to a uniform number in `[0, 1)`: a multiple of 2^-24.
#[inline(always)]
pub(crate) fn unit_f32(word: u32) -> f32 {
    // Signed, because every instruction set converts signed integers in vectors.
    (word >> 8) as i32 as f32 * (1.0 / 16777216.0)
}

/// Converts a word to a uniform number in `(0, 1]`: a multiple of 2^-24.
#[inline(always)]
pub(crate) fn positive_unit_f32(word: u32) -> f32 {
    ((word >> 8) as i32 + 1) as f32 * (1.0 / 16777216.0)
}

/// Converts a word pair to a uniform number in `[0, 1)`: a multiple of 2^-53.
#[inline(always)]
pub(crate) fn unit_f64(word: u64) -> f64 {
    (word >> 11) as i64 as f64 * (1.0 / 9007199254740992.0)
}

/// Converts a word pair to a uniform number in `(0, 1]`: a multiple of 2^-53.
#[inline(always)]
pub(crate) fn positive_unit_f64(word: u64) -> f64 {
    ((word >> 11) as i64 + 1) as f64 * (1.0 / 9007199254740992.0)
}

/// Event defined by a bound on the word.
#[derive(Clone, Copy)]
pub(crate) struct Below {
    /// The largest word for which the event occurs; meaningless if there is none.
    last: u32,
    any: bool,
}

impl Below {
    /// Creates the event of words below `p` · 2^32.
    pub(crate) fn new(op: &'static str, p: f64) -> Result<Below, Error> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::parameter(op, "the probability", p, "in [0, 1]"));
        }
        // Exact: a multiplication by a power of two, and an integer of at most 33 bits.
        let bound = (p * 4294967296.0).ceil() as u64;
        Ok(Below { last: bound.wrapping_sub(1) as u32, any: bound > 0 })
    }

    #[inline(always)]
    pub(crate) fn holds(self, word: u32) -> bool {
        (word <= self.last) & self.any
    }
}

fn check_interval(
    op: &'static str,
    low: impl Into<f64>,
    high: impl Into<f64>,
    finite: bool,
) -> Result<(), Error> {
    let (low, high) = (low.into(), high.into());
    if low <= high && finite {
        return Ok(());
    }
    Err(Error::parameter(op, "(low, high)", (low, high), "increasing with a finite difference"))
}

#[derive(Clone, Copy)]
pub(crate) struct UniformF32 {
    low: f32,
    high: f32,
    range: f32,
    /// The element's value if rounding gives `high`.
    last: f32,
}

impl UniformF32 {
    pub(crate) fn new(low: f32, high: f32) -> UniformF32 {
        UniformF32 { low, high, range: high - low, last: high.next_down().max(low) }
    }
}

impl Sampler for UniformF32 {
    type Out = f32;
    const PER_BLOCK: usize = 4;

    #[inline(always)]
    fn group(self, _: &Draw, _: u64, words: &Words, out: &mut [f32]) {
        for (out, &word) in out.iter_mut().zip(words) {
            let value = unit_f32(word).mul_add(self.range, self.low);
            *out = if value < self.high { value } else { self.last };
        }
    }
}

#[derive(Clone, Copy)]
struct UniformF64 {
    low: f64,
    high: f64,
    range: f64,
    last: f64,
}

impl UniformF64 {
    fn new(low: f64, high: f64) -> UniformF64 {
        UniformF64 { low, high, range: high - low, last: high.next_down().max(low) }
    }
}

impl Sampler for UniformF64 {
    type Out = f64;
    const PER_BLOCK: usize = 2;

    #[inline(always)]
    fn group(self, _: &Draw, _: u64, words: &Words, out: &mut [f64]) {
        for (i, out) in out.iter_mut().enumerate() {
            let unit = unit_f64(pair(words[2 * i], words[2 * i + 1]));
            let value = unit.mul_add(self.range, self.low);
            *out = if value < self.high { value } else { self.last };
        }
    }
}

#[derive(Clone, Copy)]
struct Bernoulli {
    below: Below,
}

impl Sampler for Bernoulli {
    type Out = bool;
    const PER_BLOCK: usize = 4;

    #[inline(always)]
    fn group(self, _: &Draw, _: u64, words: &Words, out: &mut [bool]) {
        for (out, &word) in out.iter_mut().zip(words) {
            *out = self.below.holds(word);
        }
    }
}

struct BernoulliEach<'a> {
    draw: &'a Draw,
    start: u128,
    p: &'a [f32],
    out: &'a mut [bool],
}

impl simd::Kernel for BernoulliEach<'_> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let (draw, start, len) = (self.draw, self.start, self.out.len());
        draw.walk(4, start, len, &mut self);
    }
}

impl Visitor for BernoulliEach<'_> {
    #[inline(always)]
    fn visit(&mut self, words: &Words, span: Span) {
        let words = &words[span.skip..][..span.count];
        let p = &self.p[span.at..][..span.count];
        let out = &mut self.out[span.at..][..span.count];
        for i in 0..span.count {
            // Both sides are exact in f64.
            out[i] = f64::from(words[i]) < f64::from(p[i]) * 4294967296.0;
        }
    }
}
