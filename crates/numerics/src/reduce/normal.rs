//! Statistics of rows whose sums or squares leave the range.

use super::tree::sum_by;
#[cfg(not(feature = "std"))]
use crate::Ieee as _;

/// Statistics that normalise a row: an element `x` becomes `fma(x, scale, −mean) · rstd`.
///
/// All but `scale` are those of the row times `scale`, a power of two: 1 for a row of ordinary numbers.
///
/// # Determinism
///
/// Mean and variance are sums over the tree of the [module](super), divided by the number of elements;
/// `rstd` is `1 / √(variance + eps · scale · scale)`. If the mean is not finite, it is taken of the
/// elements times [`MEAN_SCALE`], divided by it, at most the largest f64. [`normal_scale`] chooses `scale` from the mean and `rstd` of the unscaled row; if it is not 1, both sums are taken again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normal {
    /// The mean of the scaled row.
    pub mean: f64,
    /// The biased variance of the scaled row.
    pub variance: f64,
    /// The reciprocal of the standard deviation of the scaled row.
    pub rstd: f64,
    /// The power of two.
    pub scale: f64,
}

impl Normal {
    /// Takes the statistics of `n` elements `x(i)` of f64 if `wide`, else of f32, whose mean and biased
    /// variance over the tree are `moments`.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_numerics::reduce::Normal;
    ///
    /// let normal = Normal::new([f64::INFINITY, f64::NAN], 1e-5, 2, true, &|_| 1e308);
    /// assert_eq!((normal.mean, normal.variance, normal.scale), (1e308, 0.0, 1.0));
    /// ```
    #[inline]
    #[must_use]
    pub fn new(
        moments: [f64; 2],
        eps: f64,
        n: usize,
        wide: bool,
        x: &dyn Fn(usize) -> f64,
    ) -> Normal {
        let plain = Normal::plain(moments, eps);
        if Normal::is_ordinary(plain.rstd, wide) { plain } else { plain.mended(eps, n, wide, x) }
    }

    /// Returns true if [`new`](Normal::new) takes mean, variance and this `1 / √(variance + eps)` for the
    /// statistics, with a scale of 1, whatever the elements are.
    #[inline(always)]
    #[must_use]
    pub fn is_ordinary(rstd: f64, wide: bool) -> bool {
        let [low, high, _] = reach(wide);
        // Without a branch, so that a loop over many rows has vectors.
        (low <= rstd) & (rstd <= high)
    }

    /// Takes the statistics again whose [`true_mean`](Normal::true_mean) and
    /// [`true_rstd`](Normal::true_rstd), rounded to the type of the elements, are known.
    #[inline]
    #[must_use]
    pub fn known(
        [mean, rstd]: [f64; 2],
        eps: f64,
        n: usize,
        wide: bool,
        x: &dyn Fn(usize) -> f64,
    ) -> Normal {
        match normal_scale(mean, rstd, wide) {
            1.0 => Normal { mean, variance: f64::NAN, rstd, scale: 1.0 },
            scale => Normal::scaled(scale, eps, n, x),
        }
    }

    fn plain([mean, variance]: [f64; 2], eps: f64) -> Normal {
        Normal { mean, variance, rstd: 1.0 / (variance + eps).sqrt(), scale: 1.0 }
    }

    #[cold]
    #[inline(never)]
    fn mended(self, eps: f64, n: usize, wide: bool, x: &dyn Fn(usize) -> f64) -> Normal {
        let mut plain = self;
        if !plain.mean.is_finite() {
            let mean = unscaled_mean(sum_by(n, |i| x(i) * MEAN_SCALE) / n as f64);
            plain = Normal::plain(moments(mean, n, x), eps);
        }
        match normal_scale(plain.mean, plain.rstd, wide) {
            1.0 => plain,
            scale => Normal::scaled(scale, eps, n, x),
        }
    }

    #[cold]
    #[inline(never)]
    fn scaled(scale: f64, eps: f64, n: usize, x: &dyn Fn(usize) -> f64) -> Normal {
        let x = |i| x(i) * scale;
        let mean = sum_by(n, x) / n as f64;
        Normal { scale, ..Normal::plain(moments(mean, n, &x), eps * scale * scale) }
    }

    /// Returns the mean of the row.
    #[inline]
    #[must_use]
    pub fn true_mean(&self) -> f64 {
        self.mean / self.scale
    }

    /// Returns the biased variance of the row.
    #[inline]
    #[must_use]
    pub fn true_variance(&self) -> f64 {
        self.variance / self.scale / self.scale
    }

    /// Returns the reciprocal of the standard deviation of the row.
    #[inline]
    #[must_use]
    pub fn true_rstd(&self) -> f64 {
        self.rstd * self.scale
    }
}

/// Returns the power of two that a row is multiplied with before it is normalised, by its mean and
/// the reciprocal `rstd` of its standard deviation.
///
/// It is 1 if `rstd` lies between 2^-50 and 2^50 for a row of f32, or between 2^-450 and 2^450 for one of
/// f64 (`wide`), or is NaN. Below it is 2^-90 (2^-600), and above, for means below 1, 2^90 (2^600). So
/// squares of scaled elements have room, and so have `rstd` and its products with what it meets.
///
/// # Examples
///
/// ```
/// use samebits_numerics::{math::f64::powi, reduce::normal_scale};
///
/// assert_eq!(normal_scale(1e9, 1e-9, true), 1.0);
/// assert_eq!(normal_scale(0.0, 1e-200, true), powi(0.5, 600));
/// assert_eq!(normal_scale(0.0, f64::INFINITY, false), powi(2.0, 90));
/// ```
#[inline]
#[must_use]
pub fn normal_scale(mean: f64, rstd: f64, wide: bool) -> f64 {
    let [low, high, scale] = reach(wide);
    if rstd < low {
        1.0 / scale
    } else if rstd > high && mean.abs() < 1.0 {
        scale
    } else {
        1.0
    }
}

/// Returns the least and the largest reciprocal of an ordinary standard deviation, and the scale of
/// a row with a larger one.
#[inline(always)]
fn reach(wide: bool) -> [f64; 3] {
    let power = |x: u64| f64::from_bits((1023 + x) << (f64::MANTISSA_DIGITS - 1));
    let (high, scale) = if wide { (power(450), power(600)) } else { (power(50), power(90)) };
    [1.0 / high, high, scale]
}

/// The power of two that elements are multiplied with for a mean whose sum leaves the range of f64: 2^-64.
pub const MEAN_SCALE: f64 = f64::from_bits((1023 - 64) << (f64::MANTISSA_DIGITS - 1));

/// Returns the mean of elements, from that of the elements times [`MEAN_SCALE`]: at most the
/// largest f64, if they are finite.
#[must_use]
pub fn unscaled_mean(mean: f64) -> f64 {
    if mean.is_finite() { (mean / MEAN_SCALE).clamp(-f64::MAX, f64::MAX) } else { mean }
}

/// Returns the mean again, and the biased variance about it.
fn moments(mean: f64, n: usize, x: &dyn Fn(usize) -> f64) -> [f64; 2] {
    let squares = sum_by(n, |i| {
        let deviation = x(i) - mean;
        deviation * deviation
    });
    [mean, squares / n as f64]
}
