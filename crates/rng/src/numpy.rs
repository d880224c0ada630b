//! Streams that equal NumPy's: `SeedSequence`, `default_rng` and its draws, and `RandomState`.
//!
//! ```
//! use samebits_rng::numpy;
//!
//! // numpy.random.default_rng(42).random()
//! assert_eq!(numpy::default_rng(42).random(), 0.7739560485559633);
//! ```

use alloc::vec::Vec;

mod binomial;
mod choice;
mod random_state;
mod seed_sequence;
mod ziggurat;
mod ziggurat_exponential;

pub use random_state::RandomState;
pub use seed_sequence::SeedSequence;

use crate::{Error, Pcg64, Pcg64Dxsm, Philox4x64, wide};
use rand_core::Rng;
use samebits_numerics::memory;

/// Creates `numpy.random.default_rng(seed)`: [`Pcg64`] seeded by a [`SeedSequence`].
pub fn default_rng(seed: u64) -> Generator<Pcg64> {
    Generator::new(Pcg64::new(seed))
}

/// One of NumPy's bit generators.
pub trait BitGenerator: Rng + Clone {
    /// Creates the bit generator that NumPy seeds with this sequence.
    fn from_seed_sequence(sequence: &SeedSequence) -> Self;

    /// Advances as NumPy's `advance`: by `delta` words or, for Philox, by `delta` blocks after
    /// dropping the rest of a started block.
    fn advance(&mut self, delta: u128);

    /// Returns a generator as NumPy's `jumped`: so far ahead that the two do not overlap in
    /// practice.
    #[must_use]
    fn jumped(&self, jumps: u128) -> Self;
}

impl BitGenerator for Pcg64 {
    fn from_seed_sequence(sequence: &SeedSequence) -> Pcg64 {
        Pcg64::from_seed_sequence(sequence)
    }

    fn advance(&mut self, delta: u128) {
        Pcg64::advance(self, delta);
    }

    fn jumped(&self, jumps: u128) -> Pcg64 {
        Pcg64::jumped(self, jumps)
    }
}

impl BitGenerator for Pcg64Dxsm {
    fn from_seed_sequence(sequence: &SeedSequence) -> Pcg64Dxsm {
        Pcg64Dxsm::from_seed_sequence(sequence)
    }

    fn advance(&mut self, delta: u128) {
        Pcg64Dxsm::advance(self, delta);
    }

    fn jumped(&self, jumps: u128) -> Pcg64Dxsm {
        Pcg64Dxsm::jumped(self, jumps)
    }
}

impl BitGenerator for Philox4x64 {
    fn from_seed_sequence(sequence: &SeedSequence) -> Philox4x64 {
        Philox4x64::from_seed_sequence(sequence)
    }

    fn advance(&mut self, delta: u128) {
        self.advance_blocks(delta);
    }

    fn jumped(&self, jumps: u128) -> Philox4x64 {
        Philox4x64::jumped(self, jumps)
    }
}

/// `numpy.random.Generator`: draws values from a bit generator, one after another.
///
/// # Determinism
///
/// Fixed forever: the values of NumPy 2. One number in 3600 of `standard_normal` lies in the tail
/// and is computed from a logarithm; there, NumPy's own last bit depends on its C library. A
/// binomial variate is compared with sums of such logarithms, so about one in 10^14 may differ from
/// NumPy's.
///
/// # Limitations
///
/// These methods of NumPy are missing: `beta`, `chisquare`, `dirichlet`, `f`, `gamma`, `geometric`,
/// `gumbel`, `hypergeometric`, `laplace`, `logistic`, `lognormal`, `logseries`, `multinomial`,
/// `multivariate_hypergeometric`, `multivariate_normal`, `negative_binomial`,
/// `noncentral_chisquare`, `noncentral_f`, `pareto`, `permuted`, `poisson`, `power`, `rayleigh`,
/// `standard_cauchy`, `standard_gamma`, `standard_t`, `triangular`, `vonmises`, `wald`, `weibull`,
/// `zipf`, `bytes` and `spawn`. f32 normal and exponential variates are missing too.
///
/// # Examples
///
/// ```
/// use samebits_rng::numpy;
///
/// let mut generator = numpy::default_rng(0);
/// assert_eq!(generator.permutation(10)?, [4, 6, 2, 7, 3, 5, 9, 0, 8, 1]);
/// # Ok::<(), samebits_rng::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Generator<B> {
    bits: B,
    /// The high half of a 64-bit word whose low half was drawn as a 32-bit word.
    half: Option<u32>,
}

impl<B: BitGenerator> Generator<B> {
    /// Creates the generator over `bits`.
    pub const fn new(bits: B) -> Generator<B> {
        Generator { bits, half: None }
    }

    /// Returns the bit generator.
    pub const fn bits(&self) -> &B {
        &self.bits
    }

    /// Advances as NumPy's `bit_generator.advance`, and drops a half word.
    pub fn advance(&mut self, delta: u128) {
        self.bits.advance(delta);
        self.half = None;
    }

    /// Returns `integers(0, 2**64, dtype=uint64)`: the next 64-bit word.
    pub fn next_u64(&mut self) -> u64 {
        self.bits.next_u64()
    }

    /// Returns the next half of a 64-bit word, the low half first.
    pub fn next_u32(&mut self) -> u32 {
        if let Some(half) = self.half.take() {
            return half;
        }
        let word = self.bits.next_u64();
        self.half = Some((word >> 32) as u32);
        word as u32
    }

    /// Returns `random()`: uniform in `[0, 1)`, a multiple of 2^-53.
    pub fn random(&mut self) -> f64 {
        crate::uniform::unit_f64(self.next_u64())
    }

    /// Returns `random(dtype=float32)`: uniform in `[0, 1)`, a multiple of 2^-24.
    pub fn random_f32(&mut self) -> f32 {
        crate::uniform::unit_f32(self.next_u32())
    }

    /// Returns `uniform(low, high)`: low + (high − low) · `random()`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random()
    }

    /// Returns `integers(low, high)` of dtype int64: uniform in `[low, high)`.
    ///
    /// # Errors
    ///
    /// If `low >= high`.
    pub fn integers(&mut self, low: i64, high: i64) -> Result<i64, Error> {
        if low >= high {
            let found = (low, high);
            return Err(Error::parameter("integers", "(low, high)", found, "increasing"));
        }
        let largest = (high.wrapping_sub(low) as u64) - 1;
        Ok(low.wrapping_add(self.below_or_at(largest) as i64))
    }

    /// Shuffles as `shuffle(items)` does a one-dimensional array.
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
        let order = memory::collected((0..n).map(|i| i as i64));
        let mut order = order.map_err(Error::memory("numpy::Generator::permutation"))?;
        self.shuffle(&mut order);
        Ok(order)
    }

    /// Returns `standard_normal()`, by the ziggurat method.
    pub fn standard_normal(&mut self) -> f64 {
        loop {
            let word = self.next_u64();
            let layer = (word & 0xff) as usize;
            let number = word >> 9 & 0x000f_ffff_ffff_ffff;
            let sign = if word >> 8 & 1 == 0 { 1.0 } else { -1.0 };
            let x = sign * (number as f64 * f64::from_bits(ziggurat::W[layer]));
            if number < ziggurat::K[layer] {
                return x;
            }
            if layer == 0 {
                // The tail's sign is another bit of the number.
                let sign = if number >> 8 & 1 == 0 { 1.0 } else { -1.0 };
                return sign * self.tail();
            }
            let (inner, outer) = (ziggurat::F[layer - 1], ziggurat::F[layer]);
            let (inner, outer) = (f64::from_bits(inner), f64::from_bits(outer));
            if (inner - outer) * self.random() + outer < wide::exp(-0.5 * x * x) {
                return x;
            }
        }
    }

    /// Returns `normal(loc, scale)`: loc + scale · `standard_normal()`.
    ///
    /// # Errors
    ///
    /// If `scale` is negative or NaN.
    pub fn normal(&mut self, loc: f64, scale: f64) -> Result<f64, Error> {
        check_scale("numpy::Generator::normal", scale)?;
        Ok(loc + scale * self.standard_normal())
    }

    /// Returns `standard_exponential()`, by the ziggurat method.
    pub fn standard_exponential(&mut self) -> f64 {
        use ziggurat_exponential::{F, K, R, W};
        loop {
            let word = self.next_u64() >> 3;
            let (layer, number) = ((word & 0xff) as usize, word >> 8);
            let x = number as f64 * f64::from_bits(W[layer]);
            if number < K[layer] {
                return x;
            }
            if layer == 0 {
                return R - wide::log1p(-self.random());
            }
            let (inner, outer) = (f64::from_bits(F[layer - 1]), f64::from_bits(F[layer]));
            if (inner - outer) * self.random() + outer < wide::exp(-x) {
                return x;
            }
        }
    }

    /// Returns `exponential(scale)`: scale · `standard_exponential()`.
    ///
    /// # Errors
    ///
    /// If `scale` is negative or NaN.
    pub fn exponential(&mut self, scale: f64) -> Result<f64, Error> {
        check_scale("numpy::Generator::exponential", scale)?;
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
    /// use samebits_rng::numpy;
    ///
    /// let mut generator = numpy::default_rng(42);
    /// assert_eq!(generator.binomial(100, 0.5)?, 55);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn binomial(&mut self, n: i64, p: f64) -> Result<i64, Error> {
        binomial::check("numpy::Generator::binomial", n, p)?;
        if n == 0 || p == 0.0 {
            return Ok(0);
        }
        Ok(binomial::binomial(n, p, |p| wide::log1p(-p), || self.random()))
    }

    /// Returns `choice(n, size, replace, p)`: `size` of the numbers below `n`, each with
    /// probability `p[i]` or, without `p`, uniformly.
    ///
    /// # Errors
    ///
    /// If `n` is 0; without replacement, if `n` is smaller than `size` or fewer than `size`
    /// probabilities are positive; if `p` has not `n` elements, has a negative element or does not
    /// sum to 1; if there is no memory for the numbers.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::numpy;
    ///
    /// let mut generator = numpy::default_rng(0);
    /// assert_eq!(generator.choice(5, 3, true, None)?, [4, 3, 2]);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn choice(
        &mut self,
        n: usize,
        size: usize,
        replace: bool,
        p: Option<&[f64]>,
    ) -> Result<Vec<i64>, Error> {
        let op = "numpy::Generator::choice";
        choice::check(op, n, size, replace, p)?;
        match p {
            Some(p) => choice::weighted(op, p, size, replace, || self.random()),
            None if replace => {
                let drawn = (0..size).map(|_| self.below_or_at(n as u64 - 1) as i64);
                memory::collected(drawn).map_err(Error::memory(op))
            }
            None => {
                let chosen = choice::without_replacement(n, size, |most| self.below_or_at(most));
                chosen.map_err(Error::memory(op))
            }
        }
    }

    /// Draws a number beyond the ziggurat's base.
    fn tail(&mut self) -> f64 {
        loop {
            let x = -ziggurat::INV_R * wide::log1p(-self.random());
            let y = -wide::log1p(-self.random());
            if y + y > x * x {
                return ziggurat::R + x;
            }
        }
    }

    /// Draws a number uniformly in `[0, largest]` by masking and rejection, with 32-bit words if
    /// they suffice.
    fn interval(&mut self, largest: u64) -> u64 {
        masked(largest, |wide| if wide { self.next_u64() } else { u64::from(self.next_u32()) })
    }

    /// Draws a number uniformly in `[0, largest]` by Lemire's method, with 32-bit words if they
    /// suffice.
    fn below_or_at(&mut self, largest: u64) -> u64 {
        if largest == 0 {
            return 0;
        }
        if let Ok(narrow) = u32::try_from(largest) {
            let Some(range) = narrow.checked_add(1) else {
                return u64::from(self.next_u32());
            };
            let mut product = u64::from(self.next_u32()) * u64::from(range);
            if (product as u32) < range {
                let excess = range.wrapping_neg() % range;
                while (product as u32) < excess {
                    product = u64::from(self.next_u32()) * u64::from(range);
                }
            }
            return product >> 32;
        }
        let Some(range) = largest.checked_add(1) else {
            return self.next_u64();
        };
        let mut product = u128::from(self.next_u64()) * u128::from(range);
        if (product as u64) < range {
            let excess = range.wrapping_neg() % range;
            while (product as u64) < excess {
                product = u128::from(self.next_u64()) * u128::from(range);
            }
        }
        (product >> 64) as u64
    }
}

/// Draws a number uniformly in `[0, largest]` by masking and rejection of words: of 64 bits
/// (`true`), or of 32 if they suffice.
fn masked(largest: u64, mut word: impl FnMut(bool) -> u64) -> u64 {
    if largest == 0 {
        return 0;
    }
    let mask = u64::MAX >> largest.leading_zeros();
    loop {
        let word = word(largest > u64::from(u32::MAX)) & mask;
        if word <= largest {
            return word;
        }
    }
}

fn check_scale(op: &'static str, scale: f64) -> Result<(), Error> {
    // NumPy rejects -0, too.
    if scale.is_nan() || scale.is_sign_negative() {
        return Err(Error::parameter(op, "scale", scale, "at least 0"));
    }
    Ok(())
}
