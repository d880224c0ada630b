//! NumPy's `RandomState`.

use alloc::vec::Vec;
#[cfg(not(feature = "std"))]
use samebits_numerics::Ieee as _;

use samebits_numerics::{math, memory};

use super::{binomial, check_scale, choice, masked};
use crate::Error;
use crate::mt19937::Mt19937;

/// `numpy.random.RandomState`, and so `numpy.random.seed(seed)` and what `numpy.random` draws after
/// it: the Mersenne twister and NumPy's old samplers, which never change.
///
/// # Determinism
///
/// Fixed forever: the values of NumPy. Normal and exponential numbers go through a logarithm whose
/// last bit depends on the C library that NumPy calls. Here it is rounded correctly, which glibc's is
/// in all but about one of 2000 numbers. A binomial number is compared with such logarithms: about one
/// in 10^14 may be another than NumPy's.
///
/// # Limitations
///
/// Of NumPy's methods, `beta`, `bytes`, `chisquare`, `dirichlet`, `f`, `gamma`, `geometric`, `gumbel`,
/// `hypergeometric`, `laplace`, `logistic`, `lognormal`, `logseries`, `multinomial`,
/// `multivariate_normal`, `negative_binomial`, `noncentral_chisquare`, `noncentral_f`, `pareto`,
/// `poisson`, `power`, `random_integers`, `rayleigh`, `standard_cauchy`, `standard_gamma`,
/// `standard_t`, `tomaxint`, `triangular`, `vonmises`, `wald`, `weibull` and `zipf` are missing, and so
/// is `randint` of other types than int64.
///
/// # Examples
///
/// ```
/// use samebits_rng::numpy::RandomState;
///
/// // numpy.random.seed(0); numpy.random.rand(); numpy.random.permutation(5)
/// let mut random = RandomState::new(0);
/// assert_eq!(random.random_sample(), 0.5488135039273248);
/// # let mut random = RandomState::new(0);
/// assert_eq!(random.permutation(5)?, [2, 0, 1, 3, 4]);
/// # Ok::<(), samebits_rng::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RandomState {
    engine: Mt19937,
    /// The second number of the last pair of normal ones.
    gauss: Option<f64>,
}

impl RandomState {
    /// `RandomState(seed)` of a number.
    pub fn new(seed: u32) -> RandomState {
        RandomState { engine: Mt19937::new(seed), gauss: None }
    }

    /// `RandomState(seed)` of a list of numbers.
    ///
    /// # Errors
    ///
    /// The list is empty.
    pub fn from_words(seed: &[u32]) -> Result<RandomState, Error> {
        Ok(RandomState { engine: Mt19937::from_words(seed)?, gauss: None })
    }

    /// What `get_state()` holds: the key, the position in it, and the normal number that is left, if
    /// `has_gauss`.
    pub fn get_state(&self) -> (&[u32; Mt19937::WORDS], usize, Option<f64>) {
        // NumPy counts a fresh key as used up.
        let position =
            if self.engine.left() == 1 { Mt19937::WORDS as u32 } else { self.engine.next() };
        (self.engine.words(), position as usize, self.gauss)
    }

    /// `set_state(("MT19937", key, position, gauss is there, gauss))`.
    ///
    /// # Errors
    ///
    /// The position is beyond the key, or the key is all zeros.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::numpy::RandomState;
    ///
    /// let mut random = RandomState::new(7);
    /// random.standard_normal();
    /// let (key, position, gauss) = random.get_state();
    /// let mut restored = RandomState::from_state(*key, position, gauss)?;
    /// assert_eq!(restored.standard_normal(), random.standard_normal());
    /// assert_eq!(restored.random_sample(), random.random_sample());
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn from_state(
        key: [u32; Mt19937::WORDS],
        position: usize,
        gauss: Option<f64>,
    ) -> Result<RandomState, Error> {
        let beyond = || {
            let op = "numpy::RandomState::from_state";
            Error::parameter(op, "the position", position, "at most 624")
        };
        // All that the recurrence reads; of zeros it makes zeros, and draws that reject would not end.
        if key[0] >> 31 == 0 && key[1..].iter().all(|&word| word == 0) {
            let op = "numpy::RandomState::from_state";
            return Err(Error::parameter(op, "the key", "all zeros", "a word that is not 0"));
        }
        let left = (Mt19937::WORDS + 1).checked_sub(position).ok_or_else(beyond)?;
        let engine = Mt19937::from_parts(key, left as u32, position as u64).ok_or_else(beyond)?;
        Ok(RandomState { engine, gauss })
    }

    /// `random_sample()`, `random()` or `rand()`: uniform in `[0, 1)`, a multiple of 2^-53.
    pub fn random_sample(&mut self) -> f64 {
        let high = f64::from(self.engine.next_word() >> 5);
        let low = f64::from(self.engine.next_word() >> 6);
        (high * 67108864.0 + low) / 9007199254740992.0
    }

    /// `uniform(low, high)`: low + (high − low) · `random_sample()`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random_sample()
    }

    /// `randint(low, high)` of dtype int64: uniform in `[low, high)`.
    ///
    /// # Errors
    ///
    /// `low >= high`.
    pub fn randint(&mut self, low: i64, high: i64) -> Result<i64, Error> {
        if low >= high {
            let (op, found) = ("numpy::RandomState::randint", (low, high));
            return Err(Error::parameter(op, "(low, high)", found, "increasing"));
        }
        Ok(low.wrapping_add(self.interval((high.wrapping_sub(low) as u64) - 1) as i64))
    }

    /// `shuffle(items)` of a one-dimensional array or a list.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.interval(i as u64) as usize;
            items.swap(i, j);
        }
    }

    /// `permutation(n)`.
    ///
    /// # Errors
    ///
    /// There is no memory for `n` numbers. The generator then has not moved.
    pub fn permutation(&mut self, n: usize) -> Result<Vec<i64>, Error> {
        self.permuted("numpy::RandomState::permutation", n)
    }

    fn permuted(&mut self, op: &'static str, n: usize) -> Result<Vec<i64>, Error> {
        let order = memory::collected((0..n).map(|i| i as i64));
        let mut order = order.map_err(Error::memory(op))?;
        self.shuffle(&mut order);
        Ok(order)
    }

    /// `choice(n, size, replace, p)`: `size` of the numbers below `n`, each with probability `p[i]`
    /// or all alike.
    ///
    /// # Errors
    ///
    /// As [`Generator::choice`](super::Generator::choice).
    pub fn choice(
        &mut self,
        n: usize,
        size: usize,
        replace: bool,
        p: Option<&[f64]>,
    ) -> Result<Vec<i64>, Error> {
        let op = "numpy::RandomState::choice";
        choice::check(op, n, size, replace, p)?;
        match p {
            Some(p) => choice::weighted(op, p, size, replace, || self.random_sample()),
            None if replace => {
                let drawn = (0..size).map(|_| self.interval(n as u64 - 1) as i64);
                memory::collected(drawn).map_err(Error::memory(op))
            }
            None => {
                let mut order = self.permuted(op, n)?;
                order.truncate(size);
                Ok(order)
            }
        }
    }

    /// `standard_normal()` or `randn()`, by the polar method: numbers come in pairs, of which the
    /// second is kept for the next call.
    pub fn standard_normal(&mut self) -> f64 {
        if let Some(gauss) = self.gauss.take() {
            return gauss;
        }
        loop {
            let x = 2.0 * self.random_sample() - 1.0;
            let y = 2.0 * self.random_sample() - 1.0;
            let square = x * x + y * y;
            if square < 1.0 && square != 0.0 {
                let factor = (-2.0 * math::f64::log_rounded(square) / square).sqrt();
                self.gauss = Some(factor * x);
                return factor * y;
            }
        }
    }

    /// `normal(loc, scale)`: loc + scale · `standard_normal()`.
    ///
    /// # Errors
    ///
    /// `scale` is negative or NaN.
    pub fn normal(&mut self, loc: f64, scale: f64) -> Result<f64, Error> {
        check_scale("numpy::RandomState::normal", scale)?;
        Ok(loc + scale * self.standard_normal())
    }

    /// `standard_exponential()`: −log(1 − `random_sample()`).
    pub fn standard_exponential(&mut self) -> f64 {
        -math::f64::log_rounded(1.0 - self.random_sample())
    }

    /// `exponential(scale)`: scale · `standard_exponential()`.
    ///
    /// # Errors
    ///
    /// `scale` is negative or NaN.
    pub fn exponential(&mut self, scale: f64) -> Result<f64, Error> {
        check_scale("numpy::RandomState::exponential", scale)?;
        Ok(scale * self.standard_exponential())
    }

    /// `binomial(n, p)`: how many of `n` trials of chance `p` succeed, by inversion where the mean of
    /// the rarer outcome is at most 30, else by the method BTPE.
    ///
    /// # Errors
    ///
    /// `n` is negative, or `p` not from 0 to 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::numpy::RandomState;
    ///
    /// // numpy.random.seed(42); numpy.random.binomial(100, 0.5)
    /// assert_eq!(RandomState::new(42).binomial(100, 0.5)?, 49);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// V. Kachitvichyanukul and B. W. Schmeiser, *Binomial random variate generation*,
    /// Communications of the ACM 31 (1988).
    pub fn binomial(&mut self, n: i64, p: f64) -> Result<i64, Error> {
        binomial::check("numpy::RandomState::binomial", n, p)?;
        // A small p is lost in 1 - p, in NumPy too.
        let log_rest = |p: f64| math::f64::log_rounded(1.0 - p);
        Ok(binomial::binomial(n, p, log_rest, || self.random_sample()))
    }

    /// Uniform in `[0, largest]`.
    fn interval(&mut self, largest: u64) -> u64 {
        masked(largest, |wide| {
            let high = u64::from(self.engine.next_word());
            if wide { high << 32 | u64::from(self.engine.next_word()) } else { high }
        })
    }
}
