//! Single random numbers. Each equals a single element of the corresponding array operation, and
//! takes one block.

use crate::rejection::Count;
use crate::uniform::Below;
use crate::{Error, Float, Generator, quantile};

impl Generator {
    /// Draws a uniform number in [0, 1); advances by one block. The result equals a single element
    /// of [`fill_uniform_f32`](Generator::fill_uniform_f32) or
    /// [`fill_uniform_f64`](Generator::fill_uniform_f64) between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut generator = Generator::new(0);
    /// assert_eq!(generator.uniform::<f32>(), 0.39904642);
    /// assert_eq!(generator.offset(), 1);
    /// ```
    #[inline]
    pub fn uniform<T: Float>(&mut self) -> T {
        T::unit(self.next_block())
    }

    /// Draws a normal variate; advances by one block. See
    /// [`fill_normal_f32`](Generator::fill_normal_f32) and
    /// [`fill_normal_f64`](Generator::fill_normal_f64).
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
    /// let height = Generator::new(0).normal(170.0, 10.0)?;
    /// assert!((100.0..240.0).contains(&height));
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn normal<T: Float>(&mut self, mean: T, std: T) -> Result<T, Error> {
        self.of_block(|block| T::normal(block, mean, std))
    }

    /// Draws an exponential variate; advances by one block. See
    /// [`fill_exponential_f32`](Generator::fill_exponential_f32) and
    /// [`fill_exponential_f64`](Generator::fill_exponential_f64).
    ///
    /// # Errors
    ///
    /// If `rate` is not positive or not finite. The generator is then unchanged.
    pub fn exponential<T: Float>(&mut self, rate: T) -> Result<T, Error> {
        self.of_block(|block| T::exponential(block, rate))
    }

    /// Draws a Laplace variate; advances by one block. See
    /// [`fill_laplace`](Generator::fill_laplace).
    ///
    /// # Errors
    ///
    /// If `scale` is negative, or a parameter is not finite. The generator is then unchanged.
    pub fn laplace<T: Float>(&mut self, loc: T, scale: T) -> Result<T, Error> {
        self.of_block(|block| Ok(quantile::laplace(loc, scale)?.first(block)))
    }

    /// Draws a Gumbel variate; advances by one block. See [`fill_gumbel`](Generator::fill_gumbel).
    ///
    /// # Errors
    ///
    /// If `scale` is negative, or a parameter is not finite. The generator is then unchanged.
    pub fn gumbel<T: Float>(&mut self, loc: T, scale: T) -> Result<T, Error> {
        self.of_block(|block| Ok(quantile::gumbel(loc, scale)?.first(block)))
    }

    /// Draws a Cauchy variate; advances by one block. See [`fill_cauchy`](Generator::fill_cauchy).
    ///
    /// # Errors
    ///
    /// If `scale` is negative, or a parameter is not finite. The generator is then unchanged.
    pub fn cauchy<T: Float>(&mut self, loc: T, scale: T) -> Result<T, Error> {
        self.of_block(|block| Ok(quantile::cauchy(loc, scale)?.first(block)))
    }

    /// Draws a gamma variate of scale 1; advances by one block. See
    /// [`fill_gamma_f32`](Generator::fill_gamma_f32) and
    /// [`fill_gamma_f64`](Generator::fill_gamma_f64).
    ///
    /// # Errors
    ///
    /// If `shape` is not positive or not finite. The generator is then unchanged.
    pub fn gamma<T: Float>(&mut self, shape: T) -> Result<T, Error> {
        self.one(|g, out| g.draw_if(1, |draw| draw.gamma("gamma", 0, &[shape], out)))
    }

    /// Draws a beta variate; advances by one block. See [`fill_beta_f32`](Generator::fill_beta_f32)
    /// and [`fill_beta_f64`](Generator::fill_beta_f64).
    ///
    /// # Errors
    ///
    /// If a shape is not positive or not finite. The generator is then unchanged.
    pub fn beta<T: Float>(&mut self, alpha: T, beta: T) -> Result<T, Error> {
        self.one(|g, out| g.draw_if(1, |draw| draw.beta("beta", 0, &[alpha], &[beta], out)))
    }

    /// Returns true with probability `p`; advances by one block. See
    /// [`fill_bernoulli`](Generator::fill_bernoulli).
    ///
    /// # Errors
    ///
    /// If `p` is not in `[0, 1]`. The generator is then unchanged.
    pub fn bernoulli(&mut self, p: f64) -> Result<bool, Error> {
        self.of_block(|block| Ok(Below::new("bernoulli", p)?.holds(block[0])))
    }

    /// Draws the number of trials of probability `p` up to and including the first success;
    /// advances by one block. See [`fill_geometric`](Generator::fill_geometric).
    ///
    /// # Errors
    ///
    /// If `p` is not in `(0, 1]`. The generator is then unchanged.
    pub fn geometric<T: Count>(&mut self, p: f64) -> Result<T, Error> {
        self.of_block(|block| quantile::geometric(block, p))
    }

    /// Draws a Poisson variate; advances by one block. See
    /// [`fill_poisson`](Generator::fill_poisson).
    ///
    /// # Errors
    ///
    /// If `rate` is negative or above 2^62. The generator is then unchanged.
    pub fn poisson<T: Count>(&mut self, rate: f32) -> Result<T, Error> {
        self.one(|g, out| g.fill_poisson(&[rate], out))
    }

    /// Draws the number of successes in `trials` trials of probability `p`; advances by one block.
    /// See [`fill_binomial`](Generator::fill_binomial).
    ///
    /// # Errors
    ///
    /// If `trials` is above 2^52, or `p` is not in `[0, 1]`. The generator is then unchanged.
    pub fn binomial<T: Count>(&mut self, trials: u64, p: f32) -> Result<T, Error> {
        self.one(|g, out| g.fill_binomial(&[trials], &[p], out))
    }

    /// Calls `make` with the next block; advances unless it fails.
    fn of_block<T>(&mut self, make: impl FnOnce([u32; 4]) -> Result<T, Error>) -> Result<T, Error> {
        let made = make(self.block_at(self.offset()))?;
        self.advance(1);
        Ok(made)
    }

    /// Returns the single element of an array operation.
    fn one<T: Default + Copy>(
        &mut self,
        fill: impl FnOnce(&mut Generator, &mut [T]) -> Result<(), Error>,
    ) -> Result<T, Error> {
        let mut out = [T::default()];
        fill(self, &mut out)?;
        Ok(out[0])
    }
}
