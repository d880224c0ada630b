//! Gamma, beta and Dirichlet variates.
//!
//! Element *i* owns block *i* of the draw, and through it a sequence of attempts (see *Rejection*
//! at [`Draw`]). All arithmetic is in f64, in a documented order; the two widths differ in the
//! number of words per attempt and in the last rounding.

#[cfg(not(feature = "std"))]
use samebits_numerics::Ieee as _;

use crate::draw::pair;
use crate::rejection::{Attempts, check_each};
use crate::uniform::positive_unit_f64;
use crate::{Draw, Error, Float, Generator, wide};
use samebits_numerics::{fpenv, memory};

impl Draw {
    /// Fills `out` with gamma variates of scale 1, each with its own shape; takes one block per
    /// element.
    ///
    /// Marsaglia and Tsang's method. An attempt's four words give a normal number
    /// √(−2 log((*w*₀ + 1)·2^-32)) · cospi(*w*₁·2^-31) and a uniform one. A shape *a* below 1 is
    /// drawn as *a* + 1 and multiplied by *u*^(1/*a*), *u* from attempt 2^64 − 1. Results below
    /// the smallest positive normal f32 are that number, so that their logarithm is finite.
    ///
    /// Small shapes have most of their mass at tiny numbers: 42 % of the draws of shape 0.01 and
    /// 0.02 % of those of shape 0.1 lie below that number. Use [`Draw::loggamma_f32`] for them.
    ///
    /// # Errors
    ///
    /// If a shape is not positive or not finite, or the slices differ in length.
    ///
    /// # References
    ///
    /// G. Marsaglia, W. W. Tsang, *A simple method for generating gamma variables*, ACM TOMS 26
    /// (2000).
    pub fn gamma_f32(&self, start: u64, shape: &[f32], out: &mut [f32]) -> Result<(), Error> {
        self.gamma("gamma_f32", start, shape, out)
    }

    /// Fills `out` as [`Draw::gamma_f32`] does, with all bits of an f64: one attempt consists of
    /// two. The words of the first give the normal number √(−2 log *u*) · cospi(2*v*), with *u* in
    /// (0, 1] and *v* in [0, 1) of 53 bits each, and the first two words of the second give the
    /// uniform one. Results below the smallest positive normal f64 are that number.
    ///
    /// # Errors
    ///
    /// As for [`Draw::gamma_f32`].
    pub fn gamma_f64(&self, start: u64, shape: &[f64], out: &mut [f64]) -> Result<(), Error> {
        self.gamma("gamma_f64", start, shape, out)
    }

    /// Fills `out` with the logarithms of the gamma variates of [`Draw::gamma_f32`], computed in
    /// f64 and rounded; takes one block per element.
    ///
    /// The logarithm stays finite even if the variate is too small for an f32. It is −∞ only if it
    /// is itself below the range of f32, which needs a shape below 2^-122.
    ///
    /// # Errors
    ///
    /// If a shape is not positive or not finite, or the slices differ in length.
    pub fn loggamma_f32(&self, start: u64, shape: &[f32], out: &mut [f32]) -> Result<(), Error> {
        self.loggamma("loggamma_f32", start, shape, out)
    }

    /// Fills `out` with the logarithms of the gamma variates of [`Draw::gamma_f64`]; takes one
    /// block per element.
    ///
    /// # Errors
    ///
    /// As for [`Draw::loggamma_f32`].
    pub fn loggamma_f64(&self, start: u64, shape: &[f64], out: &mut [f64]) -> Result<(), Error> {
        self.loggamma("loggamma_f64", start, shape, out)
    }

    /// Fills `out` with beta variates, each with its own shapes; takes one block per element.
    ///
    /// With *x* and *y* the logarithms of two gamma variates of shapes `alpha` and `beta`, an
    /// element is 1 / (1 + exp(*y* − *x*)), computed in f64 and rounded. *x* is drawn as in
    /// [`Draw::loggamma_f32`], then *y* from the following attempts, with *u* from attempt 2^64 −
    /// 2. The logarithms keep small shapes from underflowing.
    ///
    /// # Errors
    ///
    /// If a shape is not positive or not finite, or the slices differ in length.
    ///
    /// # References
    ///
    /// L. Devroye, *Non-uniform random variate generation*, Springer 1986, IX.3 and IX.4: the ratio
    /// of gamma variates.
    pub fn beta_f32(
        &self,
        start: u64,
        alpha: &[f32],
        beta: &[f32],
        out: &mut [f32],
    ) -> Result<(), Error> {
        self.beta("beta_f32", start, alpha, beta, out)
    }

    /// Fills `out` as [`Draw::beta_f32`] does, in f64, from the logarithms of
    /// [`Draw::loggamma_f64`].
    ///
    /// # Errors
    ///
    /// As for [`Draw::beta_f32`].
    pub fn beta_f64(
        &self,
        start: u64,
        alpha: &[f64],
        beta: &[f64],
        out: &mut [f64],
    ) -> Result<(), Error> {
        self.beta("beta_f64", start, alpha, beta, out)
    }

    /// Fills the rows of `out` with Dirichlet variates: positive numbers with the sum 1. `start` is
    /// the first row; takes one block per element.
    ///
    /// Element *k* of a row is exp(*x*ₖ − *m*) / Σ exp(*x*ⱼ − *m*), where *x*ₖ is the logarithm of
    /// a gamma variate of shape `alpha`\[*k*\], drawn as in [`Draw::loggamma_f32`], and *m* is the
    /// row's largest. The sum runs over ascending *j* in f64, and the quotient is rounded.
    ///
    /// # Shapes
    ///
    /// `out` holds rows of the length of `alpha`.
    ///
    /// # Errors
    ///
    /// If `alpha` is empty, a shape is not positive or not finite, `out` does not hold whole rows,
    /// or there is no memory for as many f64.
    ///
    /// # References
    ///
    /// L. Devroye, *Non-uniform random variate generation*, Springer 1986, XI.4.
    pub fn dirichlet_f32(&self, start: u64, alpha: &[f32], out: &mut [f32]) -> Result<(), Error> {
        self.dirichlet("dirichlet_f32", start, alpha, out)
    }

    /// Fills `out` as [`Draw::dirichlet_f32`] does, in f64, from the logarithms of
    /// [`Draw::loggamma_f64`].
    ///
    /// # Errors
    ///
    /// As for [`Draw::dirichlet_f32`].
    pub fn dirichlet_f64(&self, start: u64, alpha: &[f64], out: &mut [f64]) -> Result<(), Error> {
        self.dirichlet("dirichlet_f64", start, alpha, out)
    }

    pub(crate) fn gamma<T: Float>(
        &self,
        op: &'static str,
        start: u64,
        shape: &[T],
        out: &mut [T],
    ) -> Result<(), Error> {
        check_shapes(op, "a shape", shape, out.len())?;
        self.each(start, out, |attempts, i| {
            let shape = shape[i].into();
            let mut sample = large_gamma::<T>(attempts, shape);
            if shape < 1.0 {
                sample *= wide::exp(log_boost(attempts, shape, u64::MAX));
            }
            T::rounded(sample.max(T::LEAST))
        });
        Ok(())
    }

    fn loggamma<T: Float>(
        &self,
        op: &'static str,
        start: u64,
        shape: &[T],
        out: &mut [T],
    ) -> Result<(), Error> {
        check_shapes(op, "a shape", shape, out.len())?;
        self.each(start, out, |attempts, i| T::rounded(log_gamma(attempts, shape[i], u64::MAX)));
        Ok(())
    }

    pub(crate) fn beta<T: Float>(
        &self,
        op: &'static str,
        start: u64,
        alpha: &[T],
        beta: &[T],
        out: &mut [T],
    ) -> Result<(), Error> {
        check_shapes(op, "alpha", alpha, out.len())?;
        check_shapes(op, "beta", beta, out.len())?;
        self.each(start, out, |attempts, i| {
            let x = log_gamma(attempts, alpha[i], u64::MAX);
            let y = log_gamma(attempts, beta[i], u64::MAX - 1);
            T::rounded(1.0 / (1.0 + wide::exp(y - x)))
        });
        Ok(())
    }

    fn dirichlet<T: Float>(
        &self,
        op: &'static str,
        start: u64,
        alpha: &[T],
        out: &mut [T],
    ) -> Result<(), Error> {
        check_shapes(op, "alpha", alpha, alpha.len())?;
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
            log_gamma(attempts, alpha[i % width], u64::MAX)
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
                    *out = T::rounded(*share / sum);
                }
            }
        });
        Ok(())
    }
}

impl Generator {
    /// Fills `out` with gamma variates of the given shapes and scale 1; advances by n blocks. See
    /// [`Draw::gamma_f32`].
    ///
    /// # Errors
    ///
    /// If a shape is not positive or not finite, or the slices differ in length. The generator is
    /// then unchanged.
    pub fn fill_gamma_f32(&mut self, shape: &[f32], out: &mut [f32]) -> Result<(), Error> {
        self.draw_if(out.len() as u64, |draw| draw.gamma_f32(0, shape, out))
    }

    /// Fills `out` with the logarithms of gamma variates of the given shapes and scale 1; advances
    /// by n blocks. See [`Draw::loggamma_f32`].
    ///
    /// # Errors
    ///
    /// If a shape is not positive or not finite, or the slices differ in length. The generator is
    /// then unchanged.
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

    /// Fills `out` with beta variates of the given shapes; advances by n blocks. See
    /// [`Draw::beta_f32`].
    ///
    /// # Errors
    ///
    /// If a shape is not positive or not finite, or the slices differ in length. The generator is
    /// then unchanged.
    pub fn fill_beta_f32(
        &mut self,
        alpha: &[f32],
        beta: &[f32],
        out: &mut [f32],
    ) -> Result<(), Error> {
        self.draw_if(out.len() as u64, |draw| draw.beta_f32(0, alpha, beta, out))
    }

    /// Fills the rows of `out` with Dirichlet variates; advances by n blocks. See
    /// [`Draw::dirichlet_f32`].
    ///
    /// # Errors
    ///
    /// As for [`Draw::dirichlet_f32`]. The generator is then unchanged.
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

    /// Fills `out` with gamma variates of the given shapes and scale 1; advances by n blocks. See
    /// [`Draw::gamma_f64`].
    ///
    /// # Errors
    ///
    /// As for [`Generator::fill_gamma_f32`].
    pub fn fill_gamma_f64(&mut self, shape: &[f64], out: &mut [f64]) -> Result<(), Error> {
        self.draw_if(out.len() as u64, |draw| draw.gamma_f64(0, shape, out))
    }

    /// Fills `out` with the logarithms of gamma variates of the given shapes and scale 1; advances
    /// by n blocks. See [`Draw::loggamma_f64`].
    ///
    /// # Errors
    ///
    /// As for [`Generator::fill_loggamma_f32`].
    pub fn fill_loggamma_f64(&mut self, shape: &[f64], out: &mut [f64]) -> Result<(), Error> {
        self.draw_if(out.len() as u64, |draw| draw.loggamma_f64(0, shape, out))
    }

    /// Fills `out` with beta variates of the given shapes; advances by n blocks. See
    /// [`Draw::beta_f64`].
    ///
    /// # Errors
    ///
    /// As for [`Generator::fill_beta_f32`].
    pub fn fill_beta_f64(
        &mut self,
        alpha: &[f64],
        beta: &[f64],
        out: &mut [f64],
    ) -> Result<(), Error> {
        self.draw_if(out.len() as u64, |draw| draw.beta_f64(0, alpha, beta, out))
    }

    /// Fills the rows of `out` with Dirichlet variates; advances by n blocks. See
    /// [`Draw::dirichlet_f64`].
    ///
    /// # Errors
    ///
    /// As for [`Generator::fill_dirichlet_f32`].
    pub fn fill_dirichlet_f64(&mut self, alpha: &[f64], out: &mut [f64]) -> Result<(), Error> {
        self.draw_if(out.len() as u64, |draw| draw.dirichlet_f64(0, alpha, out))
    }
}

fn check_shapes<T: Float>(
    op: &'static str,
    name: &'static str,
    shapes: &[T],
    expected: usize,
) -> Result<(), Error> {
    check_each(op, name, shapes, expected, "positive and finite", |shape| {
        let shape: f64 = shape.into();
        shape > 0.0 && shape.is_finite()
    })
}

/// Draws the logarithm of a gamma variate; a shape below 1 needs another attempt, `boost`.
fn log_gamma<T: Float>(attempts: &mut Attempts, shape: T, boost: u64) -> f64 {
    let shape = shape.into();
    let mut log = wide::log(large_gamma::<T>(attempts, shape));
    if shape < 1.0 {
        log += log_boost(attempts, shape, boost);
    }
    log
}

/// Returns the logarithm of the factor from a gamma variate of shape `shape` + 1 to one of shape
/// `shape`.
fn log_boost(attempts: &Attempts, shape: f64, attempt: u64) -> f64 {
    let [a, b, ..] = attempts.at(attempt);
    wide::log(positive_unit_f64(pair(a, b))) / shape
}

/// Draws a gamma variate of shape `shape`, or of `shape` + 1 if that is below 1.
fn large_gamma<T: Float>(attempts: &mut Attempts, shape: f64) -> f64 {
    let d = if shape < 1.0 { shape + 1.0 } else { shape } - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let (x, u) = T::normal_and_uniform(attempts);
        let root = 1.0 + c * x;
        if root <= 0.0 {
            continue;
        }
        let v = root * root * root;
        if wide::log(u) < 0.5 * x * x + d - d * v + d * wide::log(v) {
            return d * v;
        }
    }
}
