//! Distributions by inversion: elements are quantiles of uniform numbers, and no word is rejected.

#[cfg(not(feature = "std"))]
use samebits_numerics::Ieee as _;

use crate::draw::{Sampler, Words};
use crate::float::private::Sealed;
use crate::rejection::Count;
use crate::{Draw, Error, Float, Generator, wide};
use core::marker::PhantomData;
use samebits_numerics::fpenv;

impl Draw {
    /// Fills `out` with Laplace (two-sided exponential) variates.
    ///
    /// Element *i* is `loc` + `scale` · *x*, where *x* is log(2*u*) if *u* < 1/2 and −log(2(1 −
    /// *u*)) otherwise. *u* is (word *i* + 1/2) · 2^-32 for f32 and ((word pair *i* >> 12) + 1/2) ·
    /// 2^-52 for f64. It is computed in f64 by a fixed, documented sequence of IEEE operations,
    /// none of them fused, and rounded to the type of `out`, in which it may be infinite.
    ///
    /// # Errors
    ///
    /// If `scale` is negative, or a parameter is not finite.
    ///
    /// # References
    ///
    /// L. Devroye, *Non-uniform random variate generation*, Springer 1986, II.2: inversion, here
    /// and in the other distributions by quantiles.
    pub fn laplace<T: Float>(
        &self,
        start: u64,
        out: &mut [T],
        loc: T,
        scale: T,
    ) -> Result<(), Error> {
        self.fill(laplace(loc, scale)?, start, out);
        Ok(())
    }

    /// Fills `out` with Gumbel variates, the extreme-value distribution of type I for maxima.
    ///
    /// Element *i* is `loc` + `scale` · −log(−log *u*), with *u* and the arithmetic of
    /// [`Draw::laplace`].
    ///
    /// # Errors
    ///
    /// If `scale` is negative, or a parameter is not finite.
    pub fn gumbel<T: Float>(
        &self,
        start: u64,
        out: &mut [T],
        loc: T,
        scale: T,
    ) -> Result<(), Error> {
        self.fill(gumbel(loc, scale)?, start, out);
        Ok(())
    }

    /// Fills `out` with Cauchy variates.
    ///
    /// Element *i* is `loc` + `scale` · tan(π(*u* − 1/2)) with *u* and the arithmetic of
    /// [`Draw::laplace`]; the tangent is −cos(π*u*) / sin(π*u*). Standard Cauchy variates lie
    /// within ±2.8·10^9 in f32 and ±2.9·10^15 in f64.
    ///
    /// # Errors
    ///
    /// If `scale` is negative, or a parameter is not finite.
    pub fn cauchy<T: Float>(
        &self,
        start: u64,
        out: &mut [T],
        loc: T,
        scale: T,
    ) -> Result<(), Error> {
        self.fill(cauchy(loc, scale)?, start, out);
        Ok(())
    }

    /// Fills `out` with exponential variates of the given rate; takes [`Draw::blocks_u64`] blocks.
    ///
    /// Element *i* is −log *u* / `rate` with the *u* of [`Draw::laplace`], in f64 by a fixed,
    /// documented sequence of IEEE operations; it may be infinite if `rate` is below 10^-306.
    ///
    /// # Errors
    ///
    /// If `rate` is not positive or not finite.
    pub fn exponential_f64(&self, start: u64, out: &mut [f64], rate: f64) -> Result<(), Error> {
        self.fill(exponential_f64(rate)?, start, out);
        Ok(())
    }

    /// Fills `out` with geometric variates: the number of trials of probability `p` up to and
    /// including the first success, 1 or more; takes [`Draw::blocks_u64`] blocks.
    ///
    /// Element *i* is ⌈log *u* / log(1 − `p`)⌉, at least 1 and at most 2^64 − 1, with the *u* of
    /// [`Draw::laplace`] for f64. Rounding may move a number of more than 2^40 trials by its
    /// relative error of about 2^-51.
    ///
    /// # Errors
    ///
    /// If `p` is not in `(0, 1]`.
    pub fn geometric<T: Count>(&self, start: u64, out: &mut [T], p: f64) -> Result<(), Error> {
        self.fill(Trials { quantile: Geometric::new(p)?, of: PhantomData }, start, out);
        Ok(())
    }
}

impl Generator {
    /// Fills `out` with Laplace variates; advances by ⌈n/4⌉ blocks for f32, ⌈n/2⌉ for f64. See
    /// [`Draw::laplace`].
    ///
    /// # Errors
    ///
    /// If `scale` is negative, or a parameter is not finite. The generator is then unchanged.
    pub fn fill_laplace<T: Float>(&mut self, out: &mut [T], loc: T, scale: T) -> Result<(), Error> {
        self.draw_if(blocks::<T>(out), |draw| draw.laplace(0, out, loc, scale))
    }

    /// Fills `out` with Gumbel variates; advances by ⌈n/4⌉ blocks for f32, ⌈n/2⌉ for f64. See
    /// [`Draw::gumbel`].
    ///
    /// # Errors
    ///
    /// If `scale` is negative, or a parameter is not finite. The generator is then unchanged.
    pub fn fill_gumbel<T: Float>(&mut self, out: &mut [T], loc: T, scale: T) -> Result<(), Error> {
        self.draw_if(blocks::<T>(out), |draw| draw.gumbel(0, out, loc, scale))
    }

    /// Fills `out` with Cauchy variates; advances by ⌈n/4⌉ blocks for f32, ⌈n/2⌉ for f64. See
    /// [`Draw::cauchy`].
    ///
    /// # Errors
    ///
    /// If `scale` is negative, or a parameter is not finite. The generator is then unchanged.
    pub fn fill_cauchy<T: Float>(&mut self, out: &mut [T], loc: T, scale: T) -> Result<(), Error> {
        self.draw_if(blocks::<T>(out), |draw| draw.cauchy(0, out, loc, scale))
    }

    /// Fills `out` with exponential variates of the given rate; advances by ⌈n/2⌉ blocks. See
    /// [`Draw::exponential_f64`].
    ///
    /// # Errors
    ///
    /// If `rate` is not positive or not finite. The generator is then unchanged.
    pub fn fill_exponential_f64(&mut self, out: &mut [f64], rate: f64) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u64(out.len()), |draw| draw.exponential_f64(0, out, rate))
    }

    /// Fills `out` with the numbers of trials up to and including the first success; advances by
    /// ⌈n/2⌉ blocks. See [`Draw::geometric`].
    ///
    /// # Errors
    ///
    /// If `p` is not in `(0, 1]`. The generator is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut trials = [0i64; 100];
    /// Generator::new(0).fill_geometric(&mut trials, 0.25)?;
    /// assert!(trials.iter().all(|n| *n >= 1));
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn fill_geometric<T: Count>(&mut self, out: &mut [T], p: f64) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u64(out.len()), |draw| draw.geometric(0, out, p))
    }
}

fn blocks<T: Float>(out: &[T]) -> u64 {
    (out.len() as u64).div_ceil(T::PER_BLOCK as u64)
}

/// A distribution by its quantile function.
pub(crate) trait Quantile: Copy + Send + Sync {
    /// Returns the quantile of probability `u`, strictly between 0 and 1.
    ///
    /// Must be `#[inline(always)]`.
    fn at(self, u: f64) -> f64;
}

#[derive(Clone, Copy)]
pub(crate) struct ByQuantile<T, Q> {
    quantile: Q,
    of: PhantomData<T>,
}

impl<T: Float, Q: Quantile> ByQuantile<T, Q> {
    /// Returns the first element of a block.
    pub(crate) fn first(self, block: [u32; 4]) -> T {
        fpenv::ieee(|| T::rounded(self.quantile.at(T::open_unit(&block, 0))))
    }
}

pub(crate) fn laplace<T: Float>(loc: T, scale: T) -> Result<ByQuantile<T, impl Quantile>, Error> {
    placed("laplace", Laplace, loc, scale)
}

pub(crate) fn gumbel<T: Float>(loc: T, scale: T) -> Result<ByQuantile<T, impl Quantile>, Error> {
    placed("gumbel", Gumbel, loc, scale)
}

pub(crate) fn cauchy<T: Float>(loc: T, scale: T) -> Result<ByQuantile<T, impl Quantile>, Error> {
    placed("cauchy", Cauchy, loc, scale)
}

pub(crate) fn exponential_f64(rate: f64) -> Result<ByQuantile<f64, impl Quantile>, Error> {
    if !(rate > 0.0 && rate.is_finite()) {
        let needed = "positive and finite";
        return Err(Error::parameter("exponential_f64", "rate", rate, needed));
    }
    Ok(ByQuantile { quantile: Exponential { rate }, of: PhantomData })
}

/// Creates `standard`, scaled by `scale` and shifted by `loc`.
fn placed<T: Float, Q: Quantile>(
    op: &'static str,
    standard: Q,
    loc: T,
    scale: T,
) -> Result<ByQuantile<T, Placed<Q>>, Error> {
    let (loc, scale) = (loc.into(), scale.into());
    if !(loc.is_finite() && scale >= 0.0 && scale.is_finite()) {
        let needed = "finite, with scale at least 0";
        return Err(Error::parameter(op, "(loc, scale)", (loc, scale), needed));
    }
    Ok(ByQuantile { quantile: Placed { standard, loc, scale }, of: PhantomData })
}

/// Returns the number of trials given by a block's first word pair.
pub(crate) fn geometric<T: Count>(block: [u32; 4], p: f64) -> Result<T, Error> {
    let quantile = Geometric::new(p)?;
    Ok(T::from_count(fpenv::ieee(|| quantile.at(f64::open_unit(&block, 0))) as u64))
}

impl<T: Float, Q: Quantile> Sampler for ByQuantile<T, Q> {
    type Out = T;
    const PER_BLOCK: usize = T::PER_BLOCK;

    #[inline(always)]
    fn group(self, _: &Draw, _: u64, words: &Words, out: &mut [T]) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = T::rounded(self.quantile.at(T::open_unit(words, i)));
        }
    }
}

/// A standard distribution, scaled and shifted.
#[derive(Clone, Copy)]
struct Placed<Q> {
    standard: Q,
    loc: f64,
    scale: f64,
}

impl<Q: Quantile> Quantile for Placed<Q> {
    #[inline(always)]
    fn at(self, u: f64) -> f64 {
        self.loc + self.scale * self.standard.at(u)
    }
}

#[derive(Clone, Copy)]
struct Laplace;

impl Quantile for Laplace {
    #[inline(always)]
    fn at(self, u: f64) -> f64 {
        // Both arguments are exact, and one logarithm serves both tails.
        let lower = u < 0.5;
        let log = wide::log(2.0 * if lower { u } else { 1.0 - u });
        if lower { log } else { -log }
    }
}

#[derive(Clone, Copy)]
struct Gumbel;

impl Quantile for Gumbel {
    #[inline(always)]
    fn at(self, u: f64) -> f64 {
        -wide::log(-wide::log(u))
    }
}

#[derive(Clone, Copy)]
struct Cauchy;

impl Quantile for Cauchy {
    #[inline(always)]
    fn at(self, u: f64) -> f64 {
        let (sin, cos) = wide::sin_cos_pi(u);
        -cos / sin
    }
}

#[derive(Clone, Copy)]
struct Exponential {
    rate: f64,
}

impl Quantile for Exponential {
    #[inline(always)]
    fn at(self, u: f64) -> f64 {
        -wide::log(u) / self.rate
    }
}

#[derive(Clone, Copy)]
struct Geometric {
    log_failure: f64,
}

impl Geometric {
    fn new(p: f64) -> Result<Geometric, Error> {
        if !(p > 0.0 && p <= 1.0) {
            return Err(Error::parameter("geometric", "the probability", p, "in (0, 1]"));
        }
        // The logarithm of 1 + x is undefined for x = -1.
        Ok(Geometric { log_failure: if p == 1.0 { f64::NEG_INFINITY } else { wide::log1p(-p) } })
    }
}

impl Quantile for Geometric {
    #[inline(always)]
    fn at(self, u: f64) -> f64 {
        (wide::log(u) / self.log_failure).ceil().max(1.0)
    }
}

/// Counts from an f64 quantile function.
#[derive(Clone, Copy)]
struct Trials<T> {
    quantile: Geometric,
    of: PhantomData<T>,
}

impl<T: Count> Sampler for Trials<T> {
    type Out = T;
    const PER_BLOCK: usize = <f64 as Sealed>::PER_BLOCK;

    #[inline(always)]
    fn group(self, _: &Draw, _: u64, words: &Words, out: &mut [T]) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = T::from_count(self.quantile.at(f64::open_unit(words, i)) as u64);
        }
    }
}
