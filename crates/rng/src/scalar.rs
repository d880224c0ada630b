//! One number at a time. Each is the one element that the operation over arrays gives, and takes one
//! block.

use crate::rejection::Count;
use crate::uniform::Below;
use crate::{Error, Float, Generator, quantile};

impl Generator {
    /// A uniform number in [0, 1); moves on by one block. It is the one element that
    /// [`fill_uniform_f32`](Generator::fill_uniform_f32) or
    /// [`fill_uniform_f64`](Generator::fill_uniform_f64) gives between 0 and 1.
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

    /// A normal number; moves on by one block. See
    /// [`fill_normal_f32`](Generator::fill_normal_f32) and
    /// [`fill_normal_f64`](Generator::fill_normal_f64).
    ///
    /// # Errors
    ///
    /// `std` is negative, or a parameter is not finite. The generator then has not moved.
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

    /// An exponential number; moves on by one block. See
    /// [`fill_exponential_f32`](Generator::fill_exponential_f32) and
    /// [`fill_exponential_f64`](Generator::fill_exponential_f64).
    ///
    /// # Errors
    ///
    /// `rate` is not positive or not finite. The generator then has not moved.
    pub fn exponential<T: Float>(&mut self, rate: T) -> Result<T, Error> {
        self.of_block(|block| T::exponential(block, rate))
    }

    /// A Laplace number; moves on by one block. See [`fill_laplace`](Generator::fill_laplace).
    ///
    /// # Errors
    ///
    /// `scale` is negative, or a parameter is not finite. The generator then has not moved.
    pub fn laplace<T: Float>(&mut self, loc: T, scale: T) -> Result<T, Error> {
        self.of_block(|block| Ok(quantile::laplace(loc, scale)?.first(block)))
    }

    /// A Gumbel number; moves on by one block. See [`fill_gumbel`](Generator::fill_gumbel).
    ///
    /// # Errors
    ///
    /// `scale` is negative, or a parameter is not finite. The generator then has not moved.
    pub fn gumbel<T: Float>(&mut self, loc: T, scale: T) -> Result<T, Error> {
        self.of_block(|block| Ok(quantile::gumbel(loc, scale)?.first(block)))
    }

    /// A Cauchy number; moves on by one block. See [`fill_cauchy`](Generator::fill_cauchy).
    ///
    /// # Errors
    ///
    /// `scale` is negative, or a parameter is not finite. The generator then has not moved.
    pub fn cauchy<T: Float>(&mut self, loc: T, scale: T) -> Result<T, Error> {
        self.of_block(|block| Ok(quantile::cauchy(loc, scale)?.first(block)))
    }

    /// A gamma number of scale 1; moves on by one block. See
    /// [`fill_gamma_f32`](Generator::fill_gamma_f32) and
    /// [`fill_gamma_f64`](Generator::fill_gamma_f64).
    ///
    /// # Errors
    ///
    /// `shape` is not positive or not finite. The generator then has not moved.
    pub fn gamma<T: Float>(&mut self, shape: T) -> Result<T, Error> {
        self.one(|g, out| g.draw_if(1, |draw| draw.gamma("gamma", 0, &[shape], out)))
    }

    /// A beta number; moves on by one block. See [`fill_beta_f32`](Generator::fill_beta_f32) and
    /// [`fill_beta_f64`](Generator::fill_beta_f64).
    ///
    /// # Errors
    ///
    /// A shape is not positive or not finite. The generator then has not moved.
    pub fn beta<T: Float>(&mut self, alpha: T, beta: T) -> Result<T, Error> {
        self.one(|g, out| g.draw_if(1, |draw| draw.beta("beta", 0, &[alpha], &[beta], out)))
    }

    /// True with probability `p`; moves on by one block. See
    /// [`fill_bernoulli`](Generator::fill_bernoulli).
    ///
    /// # Errors
    ///
    /// `p` is not in `[0, 1]`. The generator then has not moved.
    pub fn bernoulli(&mut self, p: f64) -> Result<bool, Error> {
        self.of_block(|block| Ok(Below::new("bernoulli", p)?.holds(block[0])))
    }

    /// The number of trials of probability `p` up to and with the first success; moves on by one
    /// block. See [`fill_geometric`](Generator::fill_geometric).
    ///
    /// # Errors
    ///
    /// `p` is not in `(0, 1]`. The generator then has not moved.
    pub fn geometric<T: Count>(&mut self, p: f64) -> Result<T, Error> {
        self.of_block(|block| quantile::geometric(block, p))
    }

    /// A Poisson number; moves on by one block. See [`fill_poisson`](Generator::fill_poisson).
    ///
    /// # Errors
    ///
    /// `rate` is negative or above 2^62. The generator then has not moved.
    pub fn poisson<T: Count>(&mut self, rate: f32) -> Result<T, Error> {
        self.one(|g, out| g.fill_poisson(&[rate], out))
    }

    /// The number of successes in `trials` trials of probability `p`; moves on by one block. See
    /// [`fill_binomial`](Generator::fill_binomial).
    ///
    /// # Errors
    ///
    /// `trials` is above 2^52, or `p` is not in `[0, 1]`. The generator then has not moved.
    pub fn binomial<T: Count>(&mut self, trials: u64, p: f32) -> Result<T, Error> {
        self.one(|g, out| g.fill_binomial(&[trials], &[p], out))
    }

    /// What the next block makes; moves on if it is no error.
    fn of_block<T>(&mut self, make: impl FnOnce([u32; 4]) -> Result<T, Error>) -> Result<T, Error> {
        let made = make(self.block_at(self.offset()))?;
        self.advance(1);
        Ok(made)
    }

    /// The one element of an operation over arrays.
    fn one<T: Default + Copy>(
        &mut self,
        fill: impl FnOnce(&mut Generator, &mut [T]) -> Result<(), Error>,
    ) -> Result<T, Error> {
        let mut out = [T::default()];
        fill(self, &mut out)?;
        Ok(out[0])
    }
}
