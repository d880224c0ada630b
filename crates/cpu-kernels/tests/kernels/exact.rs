//! Sums of f32 by a library of big integers, which shares no code with ours.

use num_bigint::{BigInt, Sign};

/// An exact sum, in units of 2^-149.
#[derive(Clone, Default)]
pub(crate) struct BigSum {
    sum: BigInt,
    nan: bool,
    /// True if an infinity of that sign was added.
    infinite: [bool; 2],
}

impl BigSum {
    pub(crate) fn new() -> BigSum {
        BigSum::default()
    }

    pub(crate) fn add(&mut self, x: f32) {
        if !x.is_finite() {
            self.nan |= x.is_nan();
            self.infinite[0] |= x == f32::INFINITY;
            self.infinite[1] |= x == f32::NEG_INFINITY;
            return;
        }
        let (bits, fraction) = (x.to_bits(), x.to_bits() & 0x7f_ffff);
        let magnitude = match bits >> 23 & 0xff {
            0 => BigInt::from(fraction),
            exponent => BigInt::from(fraction | 1 << 23) << (exponent - 1),
        };
        if x.is_sign_negative() { self.sum -= magnitude } else { self.sum += magnitude }
    }

    /// Returns the sum rounded once, to nearest even; +0 for a sum of zero.
    pub(crate) fn to_f32(&self) -> f32 {
        match (self.nan, self.infinite) {
            (true, _) | (_, [true, true]) => return f32::from_bits(0x7fc0_0000),
            (_, [true, false]) => return f32::INFINITY,
            (_, [false, true]) => return f32::NEG_INFINITY,
            _ => {}
        }
        let magnitude = self.sum.magnitude();
        // Compare the bits beyond the leading 24 with half a unit.
        let dropped = magnitude.bits().saturating_sub(24);
        let mut kept = magnitude >> dropped;
        let rest = (magnitude - (&kept << dropped)) << 1u32;
        let unit = num_bigint::BigUint::from(1u32) << dropped;
        if dropped > 0 && (rest > unit || (rest == unit && kept.bit(0))) {
            kept += 1u32;
        }
        let kept = u64::try_from(kept).expect("at most 2^24") as f64;
        // Exact in f64; a number beyond f32 becomes infinite.
        let scale = f64::from_bits((1023 - 149 + dropped) << 52);
        let value = (kept * scale) as f32;
        if self.sum.sign() == Sign::Minus { -value } else { value }
    }
}

impl FromIterator<f32> for BigSum {
    fn from_iter<I: IntoIterator<Item = f32>>(values: I) -> BigSum {
        let mut sum = BigSum::new();
        values.into_iter().for_each(|x| sum.add(x));
        sum
    }
}
