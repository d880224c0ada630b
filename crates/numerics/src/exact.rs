//! Sums without rounding error, rounded once.
//!
//! An [`ExactSum`] holds the exact sum of any f32 numbers as one long fixed-point integer
//! (Kulisch's accumulator); an [`ExactSum64`] holds that of f64 numbers. Addition is exact, so it
//! is associative and commutative. The order of the addends, their split into parts and the order
//! of merges cannot change a bit of the result. This makes irregular sums (`scatter_add` and
//! similar operations) reproducible under any schedule.
//!
//! # The value of a sum
//!
//! - the exact sum, rounded once to the nearest number, ties to even; subnormal results are kept;
//!   infinity only if the *exact* sum rounds to it, however large the partial sums are;
//! - `+0` if the exact sum is zero, even if there were no addends or only `-0`;
//! - an infinity, if there are infinite addends of its sign only;
//! - the canonical NaN, if an addend is NaN or there are infinities of both signs.
//!
//! An accumulator holds at least 2^74 addends of any size. Only repeated merging of a sum with its
//! own copies reaches more: an [`ExactSum`] beyond 2^202, or an [`ExactSum64`] beyond 2^1133,
//! becomes the infinity of its sign.
//!
//! # References
//!
//! U. Kulisch, *Computer Arithmetic and Validity*, 2013, chapter 8. The two-sum is Knuth's,
//! *The Art of Computer Programming* vol. 2, 4.2.2.

mod limbs;
mod slice;

pub use slice::{sum_f32, sum_f64, tested_sum, two_sum};

use crate::nan::CANONICAL_F32;
use limbs::{Flags, Limbs, Value};

/// Limbs of an [`ExactSum`]: 277 bits for one f32, plus room for 2^74 addends.
const LIMBS_32: usize = 11;
/// Limbs of an [`ExactSum64`]: 2098 bits for one f64, plus room for 2^109 addends.
const LIMBS_64: usize = 69;

/// The exact sum of f32 numbers.
///
/// # Determinism
///
/// Independent of the order of additions and merges: see the [module](self).
///
/// # Examples
///
/// ```
/// use samebits_numerics::exact::ExactSum;
///
/// let mut sum = ExactSum::new();
/// for x in [1e30f32, 1.0, -1e30] {
///     sum.add(x);
/// }
/// assert_eq!(sum.to_f32(), 1.0);
///
/// let (mut left, mut right) = (ExactSum::new(), ExactSum::new());
/// left.add(f32::MAX);
/// right.add(f32::MAX);
/// left.merge(&right);
/// left.add(-f32::MAX);
/// assert_eq!(left.to_f32(), f32::MAX);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExactSum {
    /// The sum in units of 2^-149, the smallest positive f32.
    limbs: Limbs<LIMBS_32>,
}

/// The exact sum of f64 numbers.
///
/// # Determinism
///
/// Independent of the order of additions and merges: see the [module](self).
///
/// # Examples
///
/// ```
/// use samebits_numerics::exact::ExactSum64;
///
/// let sum: ExactSum64 = [1e300, 1.0, -1e300].into_iter().collect();
/// assert_eq!(sum.to_f64(), 1.0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExactSum64 {
    /// The sum in units of 2^-1074, the smallest positive f64.
    limbs: Limbs<LIMBS_64>,
}

impl ExactSum {
    /// Returns a sum of no addends.
    pub fn new() -> ExactSum {
        ExactSum::default()
    }

    /// Adds `x`.
    #[inline]
    pub fn add(&mut self, x: f32) {
        let bits = x.to_bits();
        let exponent = (bits >> 23) & 0xff;
        let fraction = bits & 0x7f_ffff;
        if exponent == 0xff {
            self.limbs.flag(Flags::of(bits >> 31 != 0, fraction != 0));
        } else {
            // Subnormal numbers use the unit of the smallest normal ones, but have no hidden bit.
            let normal = u32::from(exponent != 0);
            self.limbs.add_narrow(fraction | normal << 23, exponent - normal, bits >> 31 != 0);
        }
    }

    /// Adds a partial sum of f32 numbers that an f64 holds exactly, or the exact rounding error
    /// of such a partial sum.
    ///
    /// # Panics
    ///
    /// If `x` is finite but not a multiple of 2^-149 below 2^171 in magnitude, so that it cannot be
    /// a sum of f32 numbers.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_numerics::exact::{ExactSum, two_sum};
    ///
    /// let (sum, error) = two_sum(1e30f32.into(), 1.0f32.into());
    /// let mut exact = ExactSum::new();
    /// exact.add_partial(sum);
    /// exact.add_partial(error);
    /// exact.add(-1e30);
    /// assert_eq!(exact.to_f32(), 1.0);
    /// ```
    #[inline]
    pub fn add_partial(&mut self, x: f64) {
        let bits = x.to_bits();
        let negative = bits >> 63 != 0;
        let exponent = ((bits >> 52) & 0x7ff) as u32;
        let fraction = bits & ((1 << 52) - 1);
        if exponent == 0x7ff {
            self.limbs.flag(Flags::of(negative, fraction != 0));
        } else if x != 0.0 {
            let significand = fraction | (1 << 52);
            // The unit of an f64 significand is 2^(exponent - 1075); limb 0 starts at 2^-149.
            let at = exponent as i32 - (1075 - 149);
            let dropped = (-at).max(0) as u32;
            assert!(
                at <= 171 + 149 - 53 && significand.trailing_zeros() >= dropped,
                "add_partial: {x:e} is not a sum of f32 numbers"
            );
            self.limbs.add(significand >> dropped, at.max(0) as u32, negative);
        }
    }

    /// Adds every addend of `other`.
    pub fn merge(&mut self, other: &ExactSum) {
        self.limbs.merge(&other.limbs);
    }

    /// Returns the sum rounded to f32 by the rules of the [module](self).
    #[must_use]
    pub fn to_f32(&self) -> f32 {
        let (negative, magnitude) = match self.limbs.value() {
            Value::Special(nan) if nan.is_nan() => return CANONICAL_F32,
            Value::Special(infinity) => return infinity as f32,
            Value::Finite { negative, magnitude } => (negative, magnitude),
        };
        // The bits of an f32, read as an integer, count the f32 numbers below it. So the leading
        // bit of a significand carries one into the exponent field, and rounding up may do the
        // same.
        let bits = match limbs::round(&magnitude, 24) {
            None => 0,
            Some((significand, shift)) => ((u64::from(shift)) << 23) + significand,
        };
        let bits = bits.min(0x7f80_0000) as u32;
        f32::from_bits(bits | u32::from(negative) << 31)
    }

    /// Returns the sum rounded to f64, which always has the range for a sum of f32 numbers.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        let (negative, magnitude) = match self.limbs.value() {
            Value::Special(special) => return special,
            Value::Finite { negative, magnitude } => (negative, magnitude),
        };
        match limbs::round(&magnitude, 53) {
            None => 0.0,
            Some((significand, shift)) => {
                // The value has at most 2^53 units of 2^(shift - 149), far from both ends of the
                // range, so the conversion and the scaling are exact.
                let scale = f64::from_bits(u64::from(shift + 1023 - 149) << 52);
                let value = significand as f64 * scale;
                if negative { -value } else { value }
            }
        }
    }
}

impl Extend<f32> for ExactSum {
    fn extend<I: IntoIterator<Item = f32>>(&mut self, addends: I) {
        for x in addends {
            self.add(x);
        }
    }
}

impl FromIterator<f32> for ExactSum {
    fn from_iter<I: IntoIterator<Item = f32>>(addends: I) -> ExactSum {
        let mut sum = ExactSum::new();
        sum.extend(addends);
        sum
    }
}

impl ExactSum64 {
    /// Returns a sum of no addends.
    pub fn new() -> ExactSum64 {
        ExactSum64::default()
    }

    /// Adds `x`.
    #[inline]
    pub fn add(&mut self, x: f64) {
        let bits = x.to_bits();
        let negative = bits >> 63 != 0;
        let exponent = ((bits >> 52) & 0x7ff) as u32;
        let fraction = bits & ((1 << 52) - 1);
        match exponent {
            0x7ff => self.limbs.flag(Flags::of(negative, fraction != 0)),
            0 => self.limbs.add(fraction, 0, negative),
            _ => self.limbs.add(fraction | (1 << 52), exponent - 1, negative),
        }
    }

    /// Adds every addend of `other`.
    pub fn merge(&mut self, other: &ExactSum64) {
        self.limbs.merge(&other.limbs);
    }

    /// Adds a sum in fixed point, as another device accumulates it: limb `i` counts units of
    /// 2^(32 i − 1074). Limbs after the 69th are ignored.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_numerics::exact::ExactSum64;
    ///
    /// let mut sum = ExactSum64::new();
    /// sum.add_limbs(&[-3, 1]);
    /// assert_eq!(sum.to_f64().to_bits(), (1 << 32) - 3);
    /// ```
    pub fn add_limbs(&mut self, limbs: &[i64]) {
        for (place, &limb) in (0..).zip(limbs.iter().take(LIMBS_64)) {
            let (magnitude, negative) = (limb.unsigned_abs(), limb < 0);
            self.limbs.add(magnitude & 0xffff_ffff, 32 * place, negative);
            self.limbs.add(magnitude >> 32, 32 * (place + 1), negative);
        }
    }

    /// Returns the sum rounded to f64 by the rules of the [module](self).
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        let (negative, magnitude) = match self.limbs.value() {
            Value::Special(special) => return special,
            Value::Finite { negative, magnitude } => (negative, magnitude),
        };
        let bits = match limbs::round(&magnitude, 53) {
            None => 0,
            Some((significand, shift)) => (u64::from(shift) << 52) + significand,
        };
        let bits = bits.min(0x7ff0_0000_0000_0000);
        f64::from_bits(bits | u64::from(negative) << 63)
    }
}

impl Extend<f64> for ExactSum64 {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, addends: I) {
        for x in addends {
            self.add(x);
        }
    }
}

impl FromIterator<f64> for ExactSum64 {
    fn from_iter<I: IntoIterator<Item = f64>>(addends: I) -> ExactSum64 {
        let mut sum = ExactSum64::new();
        sum.extend(addends);
        sum
    }
}
