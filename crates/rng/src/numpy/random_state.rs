//! NumPy's `RandomState`.

use alloc::vec::Vec;
#[cfg(not(feature = "std"))]
use samebits_numerics::Ieee as _;

use samebits_numerics::{math, memory};

use super::{binomial, check_scale, choice, masked};
use crate::Error;
use crate::mt19937::Mt19937;

/// `numpy.random.RandomState`, which also serves `numpy.random.seed(seed)` and the functions of
/// `numpy.random`: the Mersenne Twister and NumPy's frozen legacy samplers.
///
/// # Determinism
///
/// Fixed forever: the values of NumPy. Normal and exponential variates use a logarithm whose last
/// bit depends on NumPy's C library. Here it is correctly rounded, as glibc's is in all but about
/// one of 2000 numbers. A binomial variate is compared with such logarithms, so about one in 10^14
/// may differ from NumPy's.
///
/// # Limitations
///
/// These methods of NumPy are missing: `beta`, `bytes`, `chisquare`, `dirichlet`, `f`, `gamma`,
/// `geometric`, `gumbel`, `hypergeometric`, `laplace`, `logistic`, `lognormal`, `logseries`,
/// `multinomial`, `multivariate_normal`, `negative_binomial`, `noncentral_chisquare`,
/// `noncentral_f`, `pareto`, `poisson`, `power`, `random_integers`, `rayleigh`, `standard_cauchy`,
/// `standard_gamma`, `standard_t`, `tomaxint`, `triangular`, `vonmises`, `wald`, `weibull` and
/// `zipf`. `randint` supports only int64.
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
    /// The unused half of the last Gaussian pair (NumPy's `gauss`).
    gauss: Option<f64>,
}

impl RandomState {
    /// Creates `RandomState(seed)` from a number.
    pub fn new(seed: u32) -> RandomState {
        RandomState { engine: Mt19937::new(seed), gauss: None }
    }

    /// Creates `RandomState(seed)` from a list of numbers.
    ///
    /// # Errors
    ///
    /// If the list is empty.
    pub fn from_words(seed: &[u32]) -> Result<RandomState, Error> {
        Ok(RandomState { engine: Mt19937::from_words(seed)?, gauss: None })
    }

    /// Returns the contents of `get_state()`: the key, the position in it, and the cached Gaussian,
    /// if `has_gauss`.
    pub fn get_state(&self) -> (&[u32; Mt19937::WORDS], usize, Option<f64>) {
        // NumPy treats a fresh key as used up.
        let position =
            if self.engine.left() == 1 { Mt19937::WORDS as u32 } else { self.engine.next() };
        (self.engine.words(), position as usize, self.gauss)
    }

    /// Restores `set_state(("MT19937", key, position, has_gauss, gauss))`.
    ///
    /// # Errors
    ///
    /// If the position is beyond the key, or the key is all zeros.
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
        // These are the bits that the recurrence reads. All zeros would stay zeros, and draws with
        // rejection would never end.
        if key[0] >> 31 == 0 && key[1..].iter().all(|&word| word == 0) {
            let op = "numpy::RandomState::from_state";
            return Err(Error::parameter(op, "the key", "all zeros", "a word that is not 0"));
        }
        let left = (Mt19937::WORDS + 1).checked_sub(position).ok_or_else(beyond)?;
        let engine = Mt19937::from_parts(key, left as u32, position as u64).ok_or_else(beyond)?;
        Ok(RandomState { engine, gauss })
    }

    /// Returns `random_sample()`, `random()` or `rand()`: uniform in `[0, 1)`, a multiple of 2^-53.
    pub fn random_sample(&mut self) -> f64 {
        let high = f64::from(self.engine.next_word() >> 5);
        let low = f64::from(self.engine.next_word() >> 6);
        (high * 67108864.0 + low) / 9007199254740992.0
    }

    /// Returns `uniform(low, high)`: low + (high − low) · `random_sample()`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random_sample()
    }

    /// Returns `randint(low, high)` of dtype int64: uniform in `[low, high)`.
    ///
    /// # Errors
    ///
    /// If `low >= high`.
    pub fn randint(&mut self, low: i64, high: i64) -> Result<i64, Error> {
        if low >= high {
            let (op, found) = ("numpy::RandomState::randint", (low, high));
            return Err(Error::parameter(op, "(low, high)", found, "increasing"));
        }
        Ok(low.wrapping_add(self.interval((high.wrapping_sub(low) as u64) - 1) as i64))
    }

    /// Shuffles as `shuffle(items)` does a one-dimensional array or a list.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.interval(i as u64) as usize;
            items.swap(i, j);
        }
    }

    /// Returns `permutation(n)`.
    ///
    /// # Errors
    ///
    /// If there is no memory for `n` numbers. The generator is then unchanged.
    pub fn permutation(&mut self, n: usize) -> Result<Vec<i64>, Error> {
        self.permuted("numpy::RandomState::permutation", n)
    }

    fn permuted(&mut self, op: &'static str, n: usize) -> Result<Vec<i64>, Error> {
        let order = memory::collected((0..n).map(|i| i as i64));
        let mut order = order.map_err(Error::memory(op))?;
        self.shuffle(&mut order);
        Ok(order)
    }

    /// Returns `choice(n, size, replace, p)`: `size` of the numbers below `n`, each with
    /// probability `p[i]` or, without `p`, uniformly.
    ///
    /// # Errors
    ///
    /// As for [`Generator::choice`](super::Generator::choice).
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

    /// Returns `standard_normal()` or `randn()`, by the polar method: numbers come in pairs, and
    /// the second is kept for the next call.
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

    /// Returns `normal(loc, scale)`: loc + scale · `standard_normal()`.
    ///
    /// # Errors
    ///
    /// If `scale` is negative or NaN.
    pub fn normal(&mut self, loc: f64, scale: f64) -> Result<f64, Error> {
        check_scale("numpy::RandomState::normal", scale)?;
        Ok(loc + scale * self.standard_normal())
    }

    /// Returns `standard_exponential()`: −log(1 − `random_sample()`).
    pub fn standard_exponential(&mut self) -> f64 {
        -math::f64::log_rounded(1.0 - self.random_sample())
    }

    /// Returns `exponential(scale)`: scale · `standard_exponential()`.
    ///
    /// # Errors
    ///
    /// If `scale` is negative or NaN.
    pub fn exponential(&mut self, scale: f64) -> Result<f64, Error> {
        check_scale("numpy::RandomState::exponential", scale)?;
        Ok(scale * self.standard_exponential())
    }

    /// Returns `binomial(n, p)`: the number of successes in `n` trials of probability `p`, by
    /// inversion if the mean of the rarer outcome is at most 30, else by the method BTPE.
    ///
    /// # Errors
    ///
    /// If `n` is negative, or `p` is not from 0 to 1.
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
        // A small p is lost in 1 - p, as in NumPy.
        let log_rest = |p: f64| math::f64::log_rounded(1.0 - p);
        Ok(binomial::binomial(n, p, log_rest, || self.random_sample()))
    }

    /// Draws a number uniformly in `[0, largest]`.
    fn interval(&mut self, largest: u64) -> u64 {
        masked(largest, |wide| {
            let high = u64::from(self.engine.next_word());
            if wide { high << 32 | u64::from(self.engine.next_word()) } else { high }
        })
    }
}
