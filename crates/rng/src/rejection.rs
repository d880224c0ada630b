//! Gamma, beta, Dirichlet, Poisson and binomial numbers, which need an unknown number of words each.
//!
//! Element *i* owns block *i* of the draw, and by it a sequence of attempts in the draw's
//! private space (see *Rejection* at [`Draw`]). All arithmetic is in f64, in a written order.

use crate::draw::{Space, in_chunks, pair};
use crate::uniform::{positive_unit_f64, unit_f64};
use crate::{Draw, Error, Generator, wide};
use samebits_numerics::{fpenv, memory};

/// A type that can hold a number of events.
pub trait Count: Copy + Default + Send + Sync + private::Sealed {
    /// The nearest value of this type.
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
    /// Fills `out` with gamma numbers of scale 1, each of its own shape; takes one block per
    /// element.
    ///
    /// Marsaglia and Tsang's method. An attempt's four words give a normal number
    /// √(−2 log((*w*₀ + 1)·2^-32)) · cospi(*w*₁·2^-31) and a uniform one. A shape *a* below 1 is
    /// drawn as *a* + 1 and multiplied by *u*^(1/*a*), *u* from attempt 2^64 − 1. Results below
    /// the smallest positive normal f32 are that number, so that their logarithm is finite.
    ///
    /// Small shapes have most of their mass at tiny numbers: 42 % of the draws of shape 0.01 lie
    /// below that number, and 0.02 % of those of shape 0.1. Use [`Draw::loggamma_f32`] for them.
    ///
    /// # Errors
    ///
    /// A shape is not positive or not finite, or the slices differ in length.
    ///
    /// # References
    ///
    /// G. Marsaglia, W. W. Tsang, *A simple method for generating gamma variables*, ACM TOMS 26
    /// (2000).
    pub fn gamma_f32(&self, start: u64, shape: &[f32], out: &mut [f32]) -> Result<(), Error> {
        let op = "gamma_f32";
        check_shapes(op, shape, out.len())?;
        self.each(start, out, |attempts, i| gamma(attempts, f64::from(shape[i])));
        Ok(())
    }

    /// Fills `out` with the logarithms of the gamma numbers of [`Draw::gamma_f32`], computed in
    /// f64 and rounded; takes one block per element.
    ///
    /// The logarithm of a number that is too small for an f32 is not lost. It is −∞ only if it is
    /// itself below the range of f32, which needs a shape below 2^-122.
    ///
    /// # Errors
    ///
    /// A shape is not positive or not finite, or the slices differ in length.
    pub fn loggamma_f32(&self, start: u64, shape: &[f32], out: &mut [f32]) -> Result<(), Error> {
        let op = "loggamma_f32";
        check_shapes(op, shape, out.len())?;
        self.each(start, out, |attempts, i| {
            log_gamma(attempts, f64::from(shape[i]), u64::MAX) as f32
        });
        Ok(())
    }

    /// Fills `out` with beta numbers, each of its own shapes; takes one block per element.
    ///
    /// With *x* and *y* the logarithms of two gamma numbers of shapes `alpha` and `beta`, an element
    /// is 1 / (1 + exp(*y* − *x*)), computed in f64 and rounded. *x* is made as in
    /// [`Draw::loggamma_f32`], then *y* from the attempts that follow, with *u* from attempt
    /// 2^64 − 2. So neither is lost if the shapes are small.
    ///
    /// # Errors
    ///
    /// A shape is not positive or not finite, or the slices differ in length.
    ///
    /// # References
    ///
    /// L. Devroye, *Non-uniform random variate generation*, Springer 1986, IX.3 and IX.4: the ratio
    /// of gamma numbers.
    pub fn beta_f32(
        &self,
        start: u64,
        alpha: &[f32],
        beta: &[f32],
        out: &mut [f32],
    ) -> Result<(), Error> {
        let op = "beta_f32";
        check_each(op, "alpha", alpha, out.len(), SHAPE, is_shape)?;
        check_each(op, "beta", beta, out.len(), SHAPE, is_shape)?;
        self.each(start, out, |attempts, i| {
            let x = log_gamma(attempts, f64::from(alpha[i]), u64::MAX);
            let y = log_gamma(attempts, f64::from(beta[i]), u64::MAX - 1);
            (1.0 / (1.0 + wide::exp(y - x))) as f32
        });
        Ok(())
    }

    /// Fills the rows of `out` with Dirichlet numbers: positive numbers with the sum 1. `start` is
    /// the first row; takes one block per element.
    ///
    /// Element *k* of a row is exp(*x*ₖ − *m*) / Σ exp(*x*ⱼ − *m*), where *x*ₖ is the logarithm of a
    /// gamma number of shape `alpha`\[*k*\], made as in [`Draw::loggamma_f32`], and *m* the largest
    /// of the row's. The sum is that of ascending *j* in f64, and the quotient is rounded.
    ///
    /// # Shapes
    ///
    /// `out` holds rows of as many elements as `alpha` has.
    ///
    /// # Errors
    ///
    /// `alpha` is empty, a shape is not positive or not finite, `out` does not hold whole rows, or
    /// there is no memory for as many f64.
    ///
    /// # References
    ///
    /// L. Devroye, *Non-uniform random variate generation*, Springer 1986, XI.4.
    pub fn dirichlet_f32(&self, start: u64, alpha: &[f32], out: &mut [f32]) -> Result<(), Error> {
        let op = "dirichlet_f32";
        check_each(op, "alpha", alpha, alpha.len(), SHAPE, is_shape)?;
        let width = alpha.len();
        if width == 0 {
            return Err(Error::parameter(op, "alpha", alpha, "of at least one element"));
        }
        if !out.len().is_multiple_of(width) {
            let whole = out.len() - out.len() % width;
            return Err(Error::length(op, "out", out.len(), "rows as long as alpha", whole));
        }
        let mut logs = memory::zeroed(out.len()).map_err(Error::memory(op))?;
        self.each(start.wrapping_mul(width as u64), &mut logs, |attempts, i| {
            log_gamma(attempts, f64::from(alpha[i % width]), u64::MAX)
        });
        fpenv::ieee(|| {
            for (logs, out) in logs.chunks_mut(width).zip(out.chunks_mut(width)) {
                let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let mut sum = 0.0;
                for log in logs.iter_mut() {
                    *log = wide::exp(*log - largest);
                    sum += *log;
                }
                for (out, share) in out.iter_mut().zip(logs) {
                    *out = (*share / sum) as f32;
                }
            }
        });
        Ok(())
    }

    /// Fills `out` with Poisson numbers, each of its own rate; takes one block per element.
    ///
    /// A rate below 10 is drawn by inversion: the smallest *k* whose distribution function,
    /// summed upwards, exceeds the uniform number of attempt 0. Above, Hörmann's transformed
    /// rejection (PTRS), two uniform numbers per attempt.
    ///
    /// # Errors
    ///
    /// A rate is negative or above 2^62, or the slices differ in length.
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

    /// Fills `out` with the numbers of successes in `trials` trials of probability `p`, each
    /// element with its own; takes one block per element.
    ///
    /// With *q* = min(`p`, 1 − `p`): if `trials`·*q* is below 10, by inversion as for
    /// [`Draw::poisson`]; above, Hörmann's transformed rejection (BTRS). For `p` above 1/2 the
    /// failures are drawn.
    ///
    /// # Errors
    ///
    /// A number of trials is above 2^52, a probability is not in `[0, 1]`, or the slices differ
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

    /// Computes each element from its own attempts; element *i* of `out` is element `start` +
    /// *i* of the draw.
    fn each<T: Send>(
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
    /// Fills `out` with gamma numbers of the given shapes and scale 1; moves on by n blocks. See
    /// [`Draw::gamma_f32`].
    ///
    /// # Errors
    ///
    /// A shape is not positive or not finite, or the slices differ in length. The generator then
    /// has not moved.
    pub fn fill_gamma_f32(&mut self, shape: &[f32], out: &mut [f32]) -> Result<(), Error> {
        self.draw_if(out.len() as u64, |draw| draw.gamma_f32(0, shape, out))
    }

    /// Fills `out` with the logarithms of gamma numbers of the given shapes and scale 1; moves on by
    /// n blocks. See [`Draw::loggamma_f32`].
    ///
    /// # Errors
    ///
    /// A shape is not positive or not finite, or the slices differ in length. The generator then
    /// has not moved.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut logs = [0.0; 100];
    /// Generator::new(0).fill_loggamma_f32(&[0.001; 100], &mut logs)?;
    /// assert!(logs.iter().any(|log| *log < -1000.0));
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn fill_loggamma_f32(&mut self, shape: &[f32], out: &mut [f32]) -> Result<(), Error> {
        self.draw_if(out.len() as u64, |draw| draw.loggamma_f32(0, shape, out))
    }

    /// Fills `out` with beta numbers of the given shapes; moves on by n blocks. See
    /// [`Draw::beta_f32`].
    ///
    /// # Errors
    ///
    /// A shape is not positive or not finite, or the slices differ in length. The generator then
    /// has not moved.
    pub fn fill_beta_f32(
        &mut self,
        alpha: &[f32],
        beta: &[f32],
        out: &mut [f32],
    ) -> Result<(), Error> {
        self.draw_if(out.len() as u64, |draw| draw.beta_f32(0, alpha, beta, out))
    }

    /// Fills the rows of `out` with Dirichlet numbers; moves on by n blocks. See
    /// [`Draw::dirichlet_f32`].
    ///
    /// # Errors
    ///
    /// As for [`Draw::dirichlet_f32`]. The generator then has not moved.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut shares = [0.0; 6];
    /// Generator::new(0).fill_dirichlet_f32(&[0.5, 1.0, 2.0], &mut shares)?;
    /// assert!((shares[..3].iter().sum::<f32>() - 1.0).abs() < 1e-6);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn fill_dirichlet_f32(&mut self, alpha: &[f32], out: &mut [f32]) -> Result<(), Error> {
        self.draw_if(out.len() as u64, |draw| draw.dirichlet_f32(0, alpha, out))
    }

    /// Fills `out` with Poisson numbers of the given rates; moves on by n blocks. See
    /// [`Draw::poisson`].
    ///
    /// # Errors
    ///
    /// A rate is negative or above 2^62, or the slices differ in length. The generator then has
    /// not moved.
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

    /// Fills `out` with binomial numbers of the given trials and probabilities; moves on by n
    /// blocks. See [`Draw::binomial`].
    ///
    /// # Errors
    ///
    /// A number of trials is above 2^52, a probability is not in `[0, 1]`, or the slices differ
    /// in length. The generator then has not moved.
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

/// What a shape must be.
const SHAPE: &str = "positive and finite";

fn is_shape(shape: f32) -> bool {
    shape > 0.0 && shape.is_finite()
}

fn check_shapes(op: &'static str, shapes: &[f32], expected: usize) -> Result<(), Error> {
    check_each(op, "a shape", shapes, expected, SHAPE, is_shape)
}

fn check_each<P: Copy + std::fmt::Debug>(
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
struct Attempts {
    space: Space,
    block: u64,
    next: u64,
}

impl Attempts {
    fn words(&mut self) -> [u32; 4] {
        let words = self.space.attempt(self.block, self.next);
        self.next += 1;
        words
    }

    /// A uniform number in [0, 1) and one in (0, 1].
    fn uniforms(&mut self) -> (f64, f64) {
        let [a, b, c, d] = self.words();
        (unit_f64(pair(a, b)), positive_unit_f64(pair(c, d)))
    }
}

fn gamma(attempts: &mut Attempts, shape: f64) -> f32 {
    let mut sample = large_gamma(attempts, shape);
    if shape < 1.0 {
        sample *= wide::exp(log_boost(attempts, shape, u64::MAX));
    }
    (sample as f32).max(f32::MIN_POSITIVE)
}

/// The logarithm of a gamma number; a shape below 1 needs another attempt of its own, `boost`.
fn log_gamma(attempts: &mut Attempts, shape: f64, boost: u64) -> f64 {
    let mut log = wide::log(large_gamma(attempts, shape));
    if shape < 1.0 {
        log += log_boost(attempts, shape, boost);
    }
    log
}

/// The logarithm of what turns a gamma number of shape `shape` + 1 into one of shape `shape`.
fn log_boost(attempts: &Attempts, shape: f64, attempt: u64) -> f64 {
    let [a, b, ..] = attempts.space.attempt(attempts.block, attempt);
    wide::log(positive_unit_f64(pair(a, b))) / shape
}

/// A gamma number of shape `shape`, or of `shape` + 1 if that is below 1.
fn large_gamma(attempts: &mut Attempts, shape: f64) -> f64 {
    let d = if shape < 1.0 { shape + 1.0 } else { shape } - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let [w0, w1, w2, w3] = attempts.words();
        let r = (-2.0 * wide::log((f64::from(w0) + 1.0) * (1.0 / 4294967296.0))).sqrt();
        let x = r * wide::sin_cos_pi(f64::from(w1) * (1.0 / 2147483648.0)).1;
        let root = 1.0 + c * x;
        if root <= 0.0 {
            continue;
        }
        let v = root * root * root;
        let u = positive_unit_f64(pair(w2, w3));
        if wide::log(u) < 0.5 * x * x + d - d * v + d * wide::log(v) {
            return d * v;
        }
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

/// The smallest k up to `largest` whose distribution function exceeds the uniform number of
/// attempt 0. `chance` is that of 0, and `ratio(k)` times the chance of k - 1 is that of k.
fn invert(
    attempts: &mut Attempts,
    mut chance: f64,
    largest: u64,
    ratio: impl Fn(f64) -> f64,
) -> u64 {
    let (u, _) = attempts.uniforms();
    let mut sum = chance;
    let mut k = 0;
    // Rounding may leave the sum below u for ever; then the chances have died out.
    while u >= sum && k < largest && chance > 0.0 {
        k += 1;
        chance *= ratio(k as f64);
        sum += chance;
    }
    k
}
