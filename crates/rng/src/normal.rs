//! Normal variates, and variates made of them or of the same logarithm.

#[cfg(not(feature = "std"))]
use samebits_numerics::Ieee as _;

use crate::draw::{Sampler, Words, pair};
use crate::philox::LANES;
use crate::uniform::{positive_unit_f32, positive_unit_f64, unit_f32, unit_f64};
use crate::{Draw, Error, Generator, wide};
use samebits_numerics::math;

impl Draw {
    /// Fills `out` with normal variates of the given mean and standard deviation; takes
    /// [`Draw::blocks_u32`] blocks.
    ///
    /// Elements 2*j* and 2*j* + 1 come from words 2*j* and 2*j* + 1, a pair inside one block, by
    /// the Box–Muller transform in f32:
    ///
    /// * *u* = ((word 2*j* >> 8) + 1) · 2^-24 in `(0, 1]` and
    ///   *v* = (word 2*j* + 1 >> 8) · 2^-24 in `[0, 1)`, both exact;
    /// * *r* = √(−2 log *u*): the logarithm is correctly rounded, the product exact, the square
    ///   root correctly rounded;
    /// * *c* = cospi(2*v*) and *s* = sinpi(2*v*), correctly rounded;
    /// * *r*·*c* and *r*·*s* are rounded once, and the elements are fma(*r*·*c*, `std`, `mean`)
    ///   and fma(*r*·*s*, `std`, `mean`).
    ///
    /// Variates of the standard normal distribution lie within ±5.77, the largest *r*.
    ///
    /// # Errors
    ///
    /// If `std` is negative, or a parameter is not finite.
    pub fn normal_f32(
        &self,
        start: u64,
        out: &mut [f32],
        mean: f32,
        std: f32,
    ) -> Result<(), Error> {
        self.fill(NormalF32::new("normal_f32", mean, std)?, start, out);
        Ok(())
    }

    /// Fills `out` with normal variates of the given mean and standard deviation; takes
    /// [`Draw::blocks_u64`] blocks.
    ///
    /// The method is [`Draw::normal_f32`] in f64: elements 2*j* and 2*j* + 1 come from word pairs
    /// 2*j* and 2*j* + 1, with *u* and *v* multiples of 2^-53. The logarithm, sine and cosine are a
    /// fixed, documented sequence of IEEE operations with errors around one unit in the last place.
    ///
    /// If `std` is negative, or a parameter is not finite.
    ///
    /// `std` is negative, or a parameter is not finite.
    pub fn normal_f64(
        &self,
        start: u64,
        out: &mut [f64],
        mean: f64,
        std: f64,
    ) -> Result<(), Error> {
        self.fill(NormalF64::new(mean, std)?, start, out);
        Ok(())
    }

    /// Fills `out` with log-normal variates; takes [`Draw::blocks_u32`] blocks.
    ///
    /// Element *i* is the correctly rounded exponential of element *i* of
    /// [`Draw::normal_f32`].
    ///
    /// # Errors
    ///
    /// If `std` is negative, or a parameter is not finite.
    pub fn log_normal_f32(
        &self,
        start: u64,
        out: &mut [f32],
        mean: f32,
        std: f32,
    ) -> Result<(), Error> {
        self.fill(LogNormal(NormalF32::new("log_normal_f32", mean, std)?), start, out);
        Ok(())
    }

    /// Fills `out` with exponential variates of the given rate; takes [`Draw::blocks_u32`] blocks.
    ///
    /// Element *i* is −log *u* / `rate` with *u* = ((word *i* >> 8) + 1) · 2^-24 in `(0, 1]`: a
    /// correctly rounded logarithm and a rounded division.
    ///
    /// # Errors
    ///
    /// If `rate` is not positive or not finite.
    pub fn exponential_f32(&self, start: u64, out: &mut [f32], rate: f32) -> Result<(), Error> {
        self.fill(ExponentialF32::new(rate)?, start, out);
        Ok(())
    }

    /// Fills `out` with normal variates of the given mean and standard deviation, truncated to the
    /// interval from `low` to `high`; takes [`Draw::blocks_u32`] blocks.
    ///
    /// Element *i* is the quantile of a uniform number, so no word is rejected: with *u* = (word
    /// *i* + 1/2) · 2^-32 and Φ the normal distribution function, it is `mean` + `std` · Φ⁻¹(*p*),
    /// where *p* = Φ(*a*) + *u* (Φ(*b*) − Φ(*a*)) and *a* and *b* are the bounds in standard
    /// deviations. An interval above the mean is mirrored to avoid cancellation of its
    /// probabilities. The element is computed in f64 by a fixed, documented sequence of IEEE
    /// operations, rounded to f32 and clamped to the bounds.
    ///
    /// # Errors
    ///
    /// If `std` is not positive, a parameter is NaN, `mean` or `std` is not finite, `low >= high`,
    /// or the interval lies so far out that its probability is below the smallest f64.
    pub fn truncated_normal_f32(
        &self,
        start: u64,
        out: &mut [f32],
        mean: f32,
        std: f32,
        low: f32,
        high: f32,
    ) -> Result<(), Error> {
        self.fill(TruncatedNormal::new(mean, std, low, high)?, start, out);
        Ok(())
    }
}

impl Generator {
    /// Fills `out` with normal variates; advances by ⌈n/4⌉ blocks. See [`Draw::normal_f32`].
    ///
    /// # Errors
    ///
    /// If `std` is negative, or a parameter is not finite. The generator is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut x = [0.0; 1000];
    /// Generator::new(0).fill_normal_f32(&mut x, 0.0, 1.0)?;
    /// assert!(x.iter().sum::<f32>().abs() < 100.0);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn fill_normal_f32(&mut self, out: &mut [f32], mean: f32, std: f32) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u32(out.len()), |draw| draw.normal_f32(0, out, mean, std))
    }

    /// Fills `out` with normal variates; advances by ⌈n/2⌉ blocks. See [`Draw::normal_f64`].
    ///
    /// # Errors
    ///
    /// If `std` is negative, or a parameter is not finite. The generator is then unchanged.
    pub fn fill_normal_f64(&mut self, out: &mut [f64], mean: f64, std: f64) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u64(out.len()), |draw| draw.normal_f64(0, out, mean, std))
    }

    /// Fills `out` with numbers whose logarithms are normal variates; advances by ⌈n/4⌉ blocks. See
    /// [`Draw::log_normal_f32`].
    ///
    /// # Errors
    ///
    /// If `std` is negative, or a parameter is not finite. The generator is then unchanged.
    pub fn fill_log_normal_f32(
        &mut self,
        out: &mut [f32],
        mean: f32,
        std: f32,
    ) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u32(out.len()), |draw| draw.log_normal_f32(0, out, mean, std))
    }

    /// Fills `out` with exponential variates; advances by ⌈n/4⌉ blocks. See
    /// [`Draw::exponential_f32`].
    ///
    /// # Errors
    ///
    /// If `rate` is not positive or not finite. The generator is then unchanged.
    pub fn fill_exponential_f32(&mut self, out: &mut [f32], rate: f32) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u32(out.len()), |draw| draw.exponential_f32(0, out, rate))
    }

    /// Fills `out` with normal variates between `low` and `high`; advances by ⌈n/4⌉ blocks. See
    /// [`Draw::truncated_normal_f32`].
    ///
    /// # Errors
    ///
    /// As for [`Draw::truncated_normal_f32`]. The generator is then unchanged.
    pub fn fill_truncated_normal_f32(
        &mut self,
        out: &mut [f32],
        mean: f32,
        std: f32,
        low: f32,
        high: f32,
    ) -> Result<(), Error> {
        let blocks = Draw::blocks_u32(out.len());
        self.draw_if(blocks, |draw| draw.truncated_normal_f32(0, out, mean, std, low, high))
    }
}

fn check_normal(op: &'static str, mean: impl Into<f64>, std: impl Into<f64>) -> Result<(), Error> {
    let (mean, std) = (mean.into(), std.into());
    if mean.is_finite() && std >= 0.0 && std.is_finite() {
        return Ok(());
    }
    Err(Error::parameter(op, "(mean, std)", (mean, std), "finite, with std at least 0"))
}

#[derive(Clone, Copy)]
pub(crate) struct NormalF32 {
    mean: f32,
    std: f32,
}

impl NormalF32 {
    pub(crate) fn new(op: &'static str, mean: f32, std: f32) -> Result<NormalF32, Error> {
        check_normal(op, mean, std)?;
        Ok(NormalF32 { mean, std })
    }

    /// Returns the two elements of two words.
    #[inline(always)]
    pub(crate) fn pair(self, first: u32, second: u32) -> [f32; 2] {
        let (u, v) = (positive_unit_f32(first), unit_f32(second));
        let r = (-2.0 * math::log(u)).sqrt();
        let (cos, sin) = (math::cospi(2.0 * v), math::sinpi(2.0 * v));
        [(r * cos).mul_add(self.std, self.mean), (r * sin).mul_add(self.std, self.mean)]
    }
}

impl Sampler for NormalF32 {
    type Out = f32;
    const PER_BLOCK: usize = 4;

    #[inline(always)]
    fn group(self, _: &Draw, _: u64, words: &Words, out: &mut [f32]) {
        for j in 0..2 * LANES {
            [out[2 * j], out[2 * j + 1]] = self.pair(words[2 * j], words[2 * j + 1]);
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct NormalF64 {
    mean: f64,
    std: f64,
}

impl NormalF64 {
    pub(crate) fn new(mean: f64, std: f64) -> Result<NormalF64, Error> {
        check_normal("normal_f64", mean, std)?;
        Ok(NormalF64 { mean, std })
    }

    /// Returns the two elements of two word pairs.
    #[inline(always)]
    pub(crate) fn pair(self, first: u64, second: u64) -> [f64; 2] {
        let (u, v) = (positive_unit_f64(first), unit_f64(second));
        let r = (-2.0 * wide::log(u)).sqrt();
        let (sin, cos) = wide::sin_cos_pi(2.0 * v);
        [(r * cos).mul_add(self.std, self.mean), (r * sin).mul_add(self.std, self.mean)]
    }
}

impl Sampler for NormalF64 {
    type Out = f64;
    const PER_BLOCK: usize = 2;

    #[inline(always)]
    fn group(self, _: &Draw, _: u64, words: &Words, out: &mut [f64]) {
        for j in 0..LANES {
            let first = pair(words[4 * j], words[4 * j + 1]);
            let second = pair(words[4 * j + 2], words[4 * j + 3]);
            [out[2 * j], out[2 * j + 1]] = self.pair(first, second);
        }
    }
}

#[derive(Clone, Copy)]
struct LogNormal(NormalF32);

impl Sampler for LogNormal {
    type Out = f32;
    const PER_BLOCK: usize = 4;

    #[inline(always)]
    fn group(self, draw: &Draw, block: u64, words: &Words, out: &mut [f32]) {
        self.0.group(draw, block, words, out);
        for x in out {
            *x = math::exp(*x);
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct ExponentialF32 {
    rate: f32,
}

impl ExponentialF32 {
    pub(crate) fn new(rate: f32) -> Result<ExponentialF32, Error> {
        if !(rate > 0.0 && rate.is_finite()) {
            let needed = "positive and finite";
            return Err(Error::parameter("exponential_f32", "rate", rate, needed));
        }
        Ok(ExponentialF32 { rate })
    }

    #[inline(always)]
    pub(crate) fn at(self, word: u32) -> f32 {
        // The logarithm of 1 is +0, which must not become -0.
        (0.0 - math::log(positive_unit_f32(word))) / self.rate
    }
}

impl Sampler for ExponentialF32 {
    type Out = f32;
    const PER_BLOCK: usize = 4;

    #[inline(always)]
    fn group(self, _: &Draw, _: u64, words: &Words, out: &mut [f32]) {
        for (out, &word) in out.iter_mut().zip(words) {
            *out = self.at(word);
        }
    }
}

#[derive(Clone, Copy)]
struct TruncatedNormal {
    mean: f64,
    /// Negative if the interval is mirrored.
    std: f64,
    low: f32,
    high: f32,
    /// The probability below the (mirrored) interval, and that of the interval.
    below: f64,
    inside: f64,
}

impl TruncatedNormal {
    fn new(mean: f32, std: f32, low: f32, high: f32) -> Result<TruncatedNormal, Error> {
        let op = "truncated_normal_f32";
        check_normal(op, mean, std)?;
        if std == 0.0 {
            return Err(Error::parameter(op, "std", std, "positive"));
        }
        if low.is_nan() || high.is_nan() || low >= high {
            return Err(Error::parameter(op, "(low, high)", (low, high), "increasing"));
        }
        let (mean, std) = (f64::from(mean), f64::from(std));
        let (mut a, mut b) = ((f64::from(low) - mean) / std, (f64::from(high) - mean) / std);
        let mirrored = a > 0.0;
        if mirrored {
            (a, b) = (-b, -a);
        }
        let below = wide::normal_above(-a);
        let inside = wide::normal_above(-b) - below;
        if inside <= 0.0 {
            let needed = "an interval with a chance that an f64 can hold";
            return Err(Error::parameter(op, "(low, high)", (low, high), needed));
        }
        let std = if mirrored { -std } else { std };
        Ok(TruncatedNormal { mean, std, low, high, below, inside })
    }
}

impl Sampler for TruncatedNormal {
    type Out = f32;
    const PER_BLOCK: usize = 4;

    #[inline(always)]
    fn group(self, _: &Draw, _: u64, words: &Words, out: &mut [f32]) {
        for (out, &word) in out.iter_mut().zip(words) {
            let u = (f64::from(word) + 0.5) * (1.0 / 4294967296.0);
            let z = wide::normal_quantile(self.below + u * self.inside);
            *out = ((self.mean + self.std * z) as f32).clamp(self.low, self.high);
        }
    }
}
