//! Double-double arithmetic: numbers as the unevaluated sum of two f64, accurate to about 2^-103.
//!
//! It serves powers of f64, and the rare inputs of other functions that f64 cannot decide. The
//! algorithms and their error bounds are those of M. Joldes, J.-M. Muller and V. Popescu, *Tight
//! and rigorous error bounds for basic building blocks of double-word arithmetic*, ACM TOMS 44(2),
//! 2017.
//!
//! Everything is inlined, so that it is compiled with the instruction set of the kernel around it.

#[cfg(not(feature = "std"))]
use crate::Ieee as _;

/// The sum `high + low`, with |low| at most half an ulp of `high`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dd {
    pub(super) high: f64,
    pub(super) low: f64,
}

/// The values 1/1, 1/3, 1/5 and so on, each the quotient of [`Dd::div`].
pub(super) const ODD_RECIPROCALS: [Dd; 23] = [
    Dd { high: 1.0, low: 0.0 },
    Dd { high: 1.0 / 3.0, low: f64::from_bits(0x3c75_5555_5555_5555) },
    Dd { high: 1.0 / 5.0, low: f64::from_bits(0xbc69_9999_9999_999a) },
    Dd { high: 1.0 / 7.0, low: f64::from_bits(0x3c62_4924_9249_2492) },
    Dd { high: 1.0 / 9.0, low: f64::from_bits(0x3c5c_71c7_1c71_c71c) },
    Dd { high: 1.0 / 11.0, low: f64::from_bits(0xbc47_45d1_745d_1746) },
    Dd { high: 1.0 / 13.0, low: f64::from_bits(0xbc53_b13b_13b1_3b14) },
    Dd { high: 1.0 / 15.0, low: f64::from_bits(0x3c31_1111_1111_1111) },
    Dd { high: 1.0 / 17.0, low: f64::from_bits(0x3c2e_1e1e_1e1e_1e1e) },
    Dd { high: 1.0 / 19.0, low: f64::from_bits(0x3c4a_f286_bca1_af28) },
    Dd { high: 1.0 / 21.0, low: f64::from_bits(0x3c48_6186_1861_8618) },
    Dd { high: 1.0 / 23.0, low: f64::from_bits(0x3c36_42c8_590b_2164) },
    Dd { high: 1.0 / 25.0, low: f64::from_bits(0xbc2e_b851_eb85_1eb8) },
    Dd { high: 1.0 / 27.0, low: f64::from_bits(0x3c42_f684_bda1_2f68) },
    Dd { high: 1.0 / 29.0, low: f64::from_bits(0x3c21_a7b9_611a_7b96) },
    Dd { high: 1.0 / 31.0, low: f64::from_bits(0x3c30_8421_0842_1084) },
    Dd { high: 1.0 / 33.0, low: f64::from_bits(0xbc2f_07c1_f07c_1f08) },
    Dd { high: 1.0 / 35.0, low: f64::from_bits(0x3c30_7507_5075_0750) },
    Dd { high: 1.0 / 37.0, low: f64::from_bits(0xbc3b_acf9_14c1_bad0) },
    Dd { high: 1.0 / 39.0, low: f64::from_bits(0x3c30_6906_9069_0690) },
    Dd { high: 1.0 / 41.0, low: f64::from_bits(0xbc2f_3831_f383_1f38) },
    Dd { high: 1.0 / 43.0, low: f64::from_bits(0x3c17_d05f_417d_05f4) },
    Dd { high: 1.0 / 45.0, low: f64::from_bits(0xbc2f_49f4_9f49_f49f) },
];

impl Dd {
    #[inline(always)]
    pub(super) fn new(x: f64) -> Dd {
        Dd { high: x, low: 0.0 }
    }

    /// Returns a + b, exactly (Knuth's TwoSum).
    #[inline(always)]
    pub(super) fn sum(a: f64, b: f64) -> Dd {
        let high = a + b;
        let of_b = high - a;
        Dd { high, low: (a - (high - of_b)) + (b - of_b) }
    }

    /// Returns a + b, exactly, for |a| >= |b| (Dekker's Fast2Sum).
    #[inline(always)]
    fn ordered_sum(a: f64, b: f64) -> Dd {
        let high = a + b;
        Dd { high, low: b - (high - a) }
    }

    /// Returns a b, exactly.
    #[inline(always)]
    pub(super) fn product(a: f64, b: f64) -> Dd {
        let high = a * b;
        Dd { high, low: a.mul_add(b, -high) }
    }

    /// Adds, within 3 * 2^-106: the paper's AccurateDWPlusDW.
    #[inline(always)]
    pub(super) fn add(self, other: Dd) -> Dd {
        let s = Dd::sum(self.high, other.high);
        let t = Dd::sum(self.low, other.low);
        let v = Dd::ordered_sum(s.high, s.low + t.high);
        Dd::ordered_sum(v.high, t.low + v.low)
    }

    /// Multiplies, within 4 * 2^-106: the paper's DWTimesDW3.
    #[inline(always)]
    pub(super) fn mul(self, other: Dd) -> Dd {
        let c = Dd::product(self.high, other.high);
        let t = self.low * other.low;
        let t = self.high.mul_add(other.low, t);
        let t = self.low.mul_add(other.high, t);
        Dd::ordered_sum(c.high, c.low + t)
    }

    /// Divides, within 15 * 2^-106: the paper's DWDivDW2.
    #[inline(always)]
    pub(super) fn div(self, other: Dd) -> Dd {
        let q = self.high / other.high;
        let r = other.mul(Dd::new(q));
        let rest = (self.high - r.high) + (self.low - r.low);
        Dd::ordered_sum(q, rest / other.high)
    }

    /// Multiplies by a power of two.
    #[inline(always)]
    pub(super) fn scaled(self, power: f64) -> Dd {
        Dd { high: self.high * power, low: self.low * power }
    }

    /// Returns the natural logarithm of a positive normal `x`, within 2^-99 relatively.
    #[inline(always)]
    pub(super) fn log(x: f64) -> Dd {
        let (k, m) = super::log::split(x);
        // If `x` is an f32, m - 1 and m + 1 each fit into one f64, else into two.
        let s = Dd::sum(m, -1.0).div(Dd::sum(m, 1.0));
        let z = s.mul(s);
        // 2 atanh s: |s| <= 0.1716, so the omitted terms are below 2^-118 of the whole.
        let mut p = Dd::new(0.0);
        for &one_over_odd in ODD_RECIPROCALS.iter().rev() {
            p = p.mul(z).add(one_over_odd);
        }
        let log_m = s.scaled(2.0).mul(p);
        if k == 0.0 { log_m } else { Dd::multiple_of_ln_2(k).add(log_m) }
    }

    /// Returns e^self for |self| < 2^9, within 2^-97 relatively.
    #[inline(always)]
    pub(super) fn exp(self) -> Dd {
        let (p, n) = self.exp_parts();
        p.scaled(f64::from_bits(((1023.0 + n) as u64) << 52))
    }

    /// Returns e^self as an f64, for |self| < 800.
    #[inline(always)]
    pub(super) fn exp_f64(self) -> f64 {
        let (p, n) = self.exp_parts();
        // In two factors, of which only the second may leave the normal range.
        let half = (0.5 * n).trunc();
        let power = |k: f64| f64::from_bits(((1023.0 + k) as u64) << 52);
        (p.high + p.low) * power(half) * power(n - half)
    }

    /// Returns (p, n) with e^self = 2^n p.
    #[inline(always)]
    pub(super) fn exp_parts(self) -> (Dd, f64) {
        let n = (self.high * core::f64::consts::LOG2_E).round_ties_even();
        let r = self.add(Dd::multiple_of_ln_2(-n));
        // |r| <= 0.35: what is left out is below 2^-120.
        let mut p = Dd::new(1.0);
        for i in (1..27).rev() {
            p = p.mul(r).div(Dd::new(i as f64)).add(Dd::new(1.0));
        }
        (p, n)
    }

    /// Returns n ln 2 for an integer |n| <= 2^12, within 2^-100 relatively.
    #[inline(always)]
    pub(super) fn multiple_of_ln_2(n: f64) -> Dd {
        // ln 2 in 40 bits, so that the product is exact, and twice 53 bits.
        const HIGH: f64 = f64::from_bits(0x3fe6_2e42_fefa_2000);
        const MIDDLE: f64 = f64::from_bits(0x3d69_ef35_793c_7673);
        const LOW: f64 = f64::from_bits(0x398f_97b5_7a07_9a19);
        let tail = Dd::product(n, MIDDLE);
        Dd::new(n * HIGH).add(Dd { high: tail.high, low: n.mul_add(LOW, tail.low) })
    }

    /// Returns the f32 nearest to `self * (1 + relative)`.
    #[inline(always)]
    pub(super) fn round(self, relative: f64) -> f32 {
        let low = relative.mul_add(self.high, self.low);
        super::fma::add_odd(self.high, low) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_are_quotients() {
        for (i, &it) in ODD_RECIPROCALS.iter().enumerate() {
            let quotient = Dd::new(1.0).div(Dd::new((2 * i + 1) as f64));
            assert_eq!((it.high, it.low), (quotient.high, quotient.low), "1/{}", 2 * i + 1);
        }
    }
}
