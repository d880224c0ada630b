//! Common parts of the f32 and f64 distributions.

#[cfg(not(feature = "std"))]
use samebits_numerics::Ieee as _;

use crate::draw::pair;
use crate::normal::{ExponentialF32, NormalF32, NormalF64};
use crate::quantile::exponential_f64;
use crate::rejection::Attempts;
use crate::uniform::{positive_unit_f64, unit_f32, unit_f64};
use crate::{Error, wide};
use core::fmt::Debug;
use samebits_numerics::fpenv;

/// `f32` or `f64`.
///
/// An operation takes [`Draw::blocks_u32`](crate::Draw::blocks_u32) blocks for its `f32` and
/// [`Draw::blocks_u64`](crate::Draw::blocks_u64) for its `f64`, unless it says otherwise.
pub trait Float: Copy + Debug + Default + Into<f64> + Send + Sync + private::Sealed {}

impl Float for f32 {}
impl Float for f64 {}

pub(crate) mod private {
    use crate::Error;
    use crate::rejection::Attempts;

    pub trait Sealed: Sized {
        /// The number of elements per block.
        const PER_BLOCK: usize;
        /// Returns the uniform number in [0, 1) of a block's first word or word pair.
        fn unit(block: [u32; 4]) -> Self;
        /// Returns the uniform number strictly between 0 and 1 of element `i` of `words`.
        fn open_unit(words: &[u32], i: usize) -> f64;
        /// Rounds to the nearest number of this type.
        fn rounded(x: f64) -> Self;
        /// The smallest positive normal number.
        const LEAST: f64;
        /// Draws a standard normal number and a uniform number in (0, 1] from attempts, as
        /// `gamma_f32` or `gamma_f64` does.
        fn normal_and_uniform(attempts: &mut Attempts) -> (f64, f64);
        /// Returns the first element that `normal_f32` or `normal_f64` makes of a block.
        fn normal(block: [u32; 4], mean: Self, std: Self) -> Result<Self, Error>;
        /// Returns the first element that `exponential_f32` or `exponential_f64` makes of a block.
        fn exponential(block: [u32; 4], rate: Self) -> Result<Self, Error>;
    }
}

impl private::Sealed for f32 {
    const PER_BLOCK: usize = 4;

    #[inline(always)]
    fn unit(block: [u32; 4]) -> f32 {
        unit_f32(block[0])
    }

    #[inline(always)]
    fn open_unit(words: &[u32], i: usize) -> f64 {
        (f64::from(words[i]) + 0.5) * (1.0 / 4294967296.0)
    }

    #[inline(always)]
    fn rounded(x: f64) -> f32 {
        x as f32
    }

    const LEAST: f64 = f32::MIN_POSITIVE as f64;

    fn normal_and_uniform(attempts: &mut Attempts) -> (f64, f64) {
        let [w0, w1, w2, w3] = attempts.words();
        let r = (-2.0 * wide::log((f64::from(w0) + 1.0) * (1.0 / 4294967296.0))).sqrt();
        let cos = wide::sin_cos_pi(f64::from(w1) * (1.0 / 2147483648.0)).1;
        (r * cos, positive_unit_f64(pair(w2, w3)))
    }

    fn normal(block: [u32; 4], mean: f32, std: f32) -> Result<f32, Error> {
        let normal = NormalF32::new("normal_f32", mean, std)?;
        Ok(fpenv::ieee(|| normal.pair(block[0], block[1])[0]))
    }

    fn exponential(block: [u32; 4], rate: f32) -> Result<f32, Error> {
        let exponential = ExponentialF32::new(rate)?;
        Ok(fpenv::ieee(|| exponential.at(block[0])))
    }
}

impl private::Sealed for f64 {
    const PER_BLOCK: usize = 2;

    #[inline(always)]
    fn unit(block: [u32; 4]) -> f64 {
        unit_f64(pair(block[0], block[1]))
    }

    #[inline(always)]
    fn open_unit(words: &[u32], i: usize) -> f64 {
        // 52 bits and a half make 53: exact, and never 1.
        ((pair(words[2 * i], words[2 * i + 1]) >> 12) as i64 as f64 + 0.5)
            * (1.0 / 4503599627370496.0)
    }

    #[inline(always)]
    fn rounded(x: f64) -> f64 {
        x
    }

    const LEAST: f64 = f64::MIN_POSITIVE;

    fn normal_and_uniform(attempts: &mut Attempts) -> (f64, f64) {
        let [w0, w1, w2, w3] = attempts.words();
        let r = (-2.0 * wide::log(positive_unit_f64(pair(w0, w1)))).sqrt();
        let cos = wide::sin_cos_pi(2.0 * unit_f64(pair(w2, w3))).1;
        let [w4, w5, ..] = attempts.words();
        (r * cos, positive_unit_f64(pair(w4, w5)))
    }

    fn normal(block: [u32; 4], mean: f64, std: f64) -> Result<f64, Error> {
        let normal = NormalF64::new(mean, std)?;
        Ok(fpenv::ieee(|| normal.pair(pair(block[0], block[1]), pair(block[2], block[3]))[0]))
    }

    fn exponential(block: [u32; 4], rate: f64) -> Result<f64, Error> {
        Ok(exponential_f64(rate)?.first(block))
    }
}
