//! Samplers that need an unknown number of words per element; Poisson and binomial variates.
//!
//! Element *i* owns block *i* of the draw, and through it a sequence of attempts in the draw's
//! private space (see *Rejection* at [`Draw`]). All arithmetic is in f64, in a documented order.

#[cfg(not(feature = "std"))]
use samebits_numerics::Ieee as _;

use crate::draw::{Space, in_chunks, pair};
use crate::uniform::{positive_unit_f64, unit_f64};
use crate::{Draw, Error, Generator, wide};
use samebits_numerics::fpenv;

/// A type that can hold a number of events.
pub trait Count: Copy + Default + Send + Sync + private::Sealed {
    /// Converts to the nearest value of this type.
    fn from_count(count: u64) -> Self;
}

impl Count for i64 {
    #[inline]
    fn from_count(count: u64) -> i64 {
        i64::try_from(count).unwrap_or(i64::MAX)
    }
}

impl Count for u64 {
    #[inline]
    fn from_count(count: u64) -> u64 {
        count
    }
}

impl Count for f32 {
    #[inline]
    fn from_count(count: u64) -> f32 {
        count as f32
    }
}

impl Count for f64 {
    #[inline]
    fn from_count(count: u64) -> f64 {
        count as f64
    }
}

impl Draw {
    /// Fills `out` with Poisson variates, each with its own rate; takes one block per element.
    ///
    /// A rate below 10 is drawn by inversion: the smallest *k* whose distribution function, summed
    /// upwards, exceeds the uniform number of attempt 0. Other rates use Hörmann's transformed
    /// rejection (PTRS), with two uniform numbers per attempt.
    ///
    /// # Errors
    ///
    /// If a rate is negative or above 2^62, or the slices differ in length.
    ///
    /// # References
    ///
    /// W. Hörmann, *The transformed rejection method for generating Poisson random variables*,
    /// Insurance: Mathematics and Economics 12 (1993).
    pub fn poisson<T: Count>(&self, start: u64, rate: &[f32], out: &mut [T]) -> Result<(), Error> {
        let op = "poisson";
        check_each(op, "a rate", rate, out.len(), "in [0, 2^62]", |rate| {
            (0.0..=4611686018427387904.0).contains(&rate)
        })?;
        self.each(start, out, |attempts, i| T::from_count(poisson(attempts, f64::from(rate[i]))));
        Ok(())
    }

    /// Fills `out` with binomial variates: the number of successes in `trials` trials of
    /// probability `p`, both given per element; takes one block per element.
    ///
    /// With *q* = min(`p`, 1 − `p`): if `trials`·*q* is below 10, by inversion as for
    /// [`Draw::poisson`]; otherwise by Hörmann's transformed rejection (BTRS). For `p` above 1/2
    /// the failures are drawn.
    ///
    /// # Errors
    ///
    /// If a number of trials is above 2^52, a probability is not in `[0, 1]`, or the slices differ
    /// in length.
    ///
    /// # References
    ///
    /// W. Hörmann, *The generation of binomial random variates*, Journal of Statistical
    /// Computation and Simulation 46 (1993).
    pub fn binomial<T: Count>(
        &self,
        start: u64,
        trials: &[u64],
        p: &[f32],
        out: &mut [T],
    ) -> Result<(), Error> {
        let op = "binomial";
        check_each(op, "a number of trials", trials, out.len(), "at most 2^52", |n| n <= 1 << 52)?;
        check_each(op, "a probability", p, out.len(), "in [0, 1]", |p| (0.0..=1.0).contains(&p))?;
        self.each(start, out, |attempts, i| {
            T::from_count(binomial(attempts, trials[i], f64::from(p[i])))
        });
        Ok(())
    }

    /// Computes each element from its own attempts; element *i* of `out` is element `start` + *i*
    /// of the draw.
    pub(crate) fn each<T: Send>(
        &self,
        start: u64,
        out: &mut [T],
        element: impl Fn(&mut Attempts, usize) -> T + Send + Sync,
    ) {
        let space = self.space();
        in_chunks(out, |at, out| {
            fpenv::ieee(|| {
                for (i, out) in (at..).zip(out) {
                    let block = self.first().wrapping_add(start).wrapping_add(i as u64);
                    *out = element(&mut Attempts { space, block, next: 0 }, i);
                }
            });
        });
    }
}

impl Generator {
    /// Fills `out` with Poisson variates of the given rates; advances by n blocks. See
    /// [`Draw::poisson`].
    ///
    /// # Errors
    ///
    /// If a rate is negative or above 2^62, or the slices differ in length. The generator is then
    /// unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut counts = [0i64; 3];
    /// Generator::new(0).fill_poisson(&[0.0, 2.5, 1e6], &mut counts)?;
    /// assert_eq!(counts[0], 0);
    /// assert!((990_000..1_010_000).contains(&counts[2]));
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn fill_poisson<T: Count>(&mut self, rate: &[f32], out: &mut [T]) -> Result<(), Error> {
        self.draw_if(out.len() as u64, |draw| draw.poisson(0, rate, out))
    }

    /// Fills `out` with binomial variates of the given trials and probabilities; advances by n
    /// blocks. See [`Draw::binomial`].
    ///
    /// # Errors
    ///
    /// If a number of trials is above 2^52, a probability is not in `[0, 1]`, or the slices differ
    /// in length. The generator is then unchanged.
    pub fn fill_binomial<T: Count>(
        &mut self,
        trials: &[u64],
        p: &[f32],
        out: &mut [T],
    ) -> Result<(), Error> {
        self.draw_if(out.len() as u64, |draw| draw.binomial(0, trials, p, out))
    }
}

mod private {
    pub trait Sealed {}
    impl Sealed for i64 {}
    impl Sealed for u64 {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

pub(crate) fn check_each<P: Copy + core::fmt::Debug>(
    op: &'static str,
    name: &'static str,
    parameters: &[P],
    expected: usize,
    needed: &'static str,
    allowed: impl Fn(P) -> bool,
) -> Result<(), Error> {
    if parameters.len() != expected {
        return Err(Error::length(op, name, parameters.len(), "out", expected));
    }
    match parameters.iter().find(|parameter| !allowed(**parameter)) {
        Some(parameter) => Err(Error::parameter(op, name, parameter, needed)),
        None => Ok(()),
    }
}

/// The attempts of one element.
#[derive(Debug)]
pub struct Attempts {
    space: Space,
    block: u64,
    next: u64,
}

impl Attempts {
    pub(crate) fn words(&mut self) -> [u32; 4] {
        let words = self.at(self.next);
        self.next += 1;
        words
    }

    /// Returns the words of attempt `attempt`, without changing the order of the attempts.
    pub(crate) fn at(&self, attempt: u64) -> [u32; 4] {
        self.space.attempt(self.block, attempt)
    }

    /// Draws a uniform number in [0, 1) and one in (0, 1].
    fn uniforms(&mut self) -> (f64, f64) {
        let [a, b, c, d] = self.words();
        (unit_f64(pair(a, b)), positive_unit_f64(pair(c, d)))
    }
}

fn poisson(attempts: &mut Attempts, rate: f64) -> u64 {
    if rate < 10.0 {
        let chance = wide::exp(-rate);
        return invert(attempts, chance, u64::MAX, |k| rate / k);
    }
    // Hörmann's constants.
    let b = 0.931 + 2.53 * rate.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let sure = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let (u, v) = attempts.uniforms();
        let u = u - 0.5;
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + rate + 0.43).floor();
        if us >= 0.07 && v <= sure {
            return k as u64;
        }
        if k < 0.0 || (us < 0.013 && v > us) {
            continue;
        }
        if wide::log(v * inverse_alpha / (a / (us * us) + b)) <= wide::log_poisson(k, rate) {
            return k as u64;
        }
    }
}

fn binomial(attempts: &mut Attempts, trials: u64, p: f64) -> u64 {
    if p > 0.5 {
        return trials - binomial(attempts, trials, 1.0 - p);
    }
    let n = trials as f64;
    let q = 1.0 - p;
    if n * p < 10.0 {
        let odds = p / q;
        let chance = wide::exp(n * wide::log1p(-p));
        return invert(attempts, chance, trials, |k| odds * (n - k + 1.0) / k);
    }
    // Hörmann's constants.
    let deviation = (n * p * q).sqrt();
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * p;
    let centre = n * p + 0.5;
    let alpha = (2.83 + 5.1 / b) * deviation;
    let sure = 0.92 - 4.2 / b;
    let mode = ((n + 1.0) * p).floor();
    let at_mode = wide::log_binomial(mode, n, p, q);
    loop {
        let (u, v) = attempts.uniforms();
        let u = u - 0.5;
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + centre).floor();
        if us >= 0.07 && v <= sure {
            return k as u64;
        }
        if k < 0.0 || k > n {
            continue;
        }
        let bound = wide::log_binomial(k, n, p, q) - at_mode;
        if wide::log(v * alpha / (a / (us * us) + b)) <= bound {
            return k as u64;
        }
    }
}

/// Returns the smallest k up to `largest` whose distribution function exceeds the uniform number of
/// attempt 0. `chance` is the probability of 0, and `ratio(k)` is the probability of k divided by
/// that of k - 1.
fn invert(
    attempts: &mut Attempts,
    mut chance: f64,
    largest: u64,
    ratio: impl Fn(f64) -> f64,
) -> u64 {
    let (u, _) = attempts.uniforms();
    let mut sum = chance;
    let mut k = 0;
    // Rounding may leave the sum below u forever; the loop then ends when the probabilities
    // underflow.
    while u >= sum && k < largest && chance > 0.0 {
        k += 1;
        chance *= ratio(k as f64);
        sum += chance;
    }
    k
}
