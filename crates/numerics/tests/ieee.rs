//! The replacements of `std` operations have the same bits.

use samebits_numerics::Ieee;

/// Pseudo-random numbers, from a generator independent of this library.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

macro_rules! agrees {
    ($name:ident, $type:ident, $bits:ty, $corners:expr) => {
        #[test]
        fn $name() {
            let same = |what: &str, got: $type, want: $type, of: &[$type]| {
                let equal = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                assert!(equal, "{what} of {of:?}: {got:e}, std has {want:e}");
            };
            let check = |x: $type, a: $type, b: $type| {
                same("mul_add", Ieee::mul_add(x, a, b), x.mul_add(a, b), &[x, a, b]);
            };
            let check_one = |x: $type| {
                same("sqrt", Ieee::sqrt(x), x.sqrt(), &[x]);
                same("floor", Ieee::floor(x), x.floor(), &[x]);
                same("ceil", Ieee::ceil(x), x.ceil(), &[x]);
                same("trunc", Ieee::trunc(x), x.trunc(), &[x]);
                same("round", Ieee::round_ties_even(x), x.round_ties_even(), &[x]);
            };
            let exponents = <$type>::MANTISSA_DIGITS - 1;
            let mut corners: Vec<$type> = vec![0.0, 0.5, 1.0, 1.5, 2.5, <$type>::NAN];
            for exponent in $corners {
                for low in [0, 1, 2, (1 << (exponents - 1)) - 1, (1 << exponents) - 1] {
                    corners.push(<$type>::from_bits((exponent << exponents) + low));
                }
            }
            corners.extend_from_within(..);
            let half = corners.len() / 2;
            corners[half..].iter_mut().for_each(|x| *x = -*x);
            for &x in &corners {
                check_one(x);
                for &a in &corners {
                    corners.iter().step_by(3).for_each(|&b| check(x, a, b));
                }
            }
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            for _ in 0..200_000 {
                let [x, a, b] = [(); 3].map(|()| <$type>::from_bits(random.next() as $bits));
                check_one(x);
                check(x, a, b);
                // As large as the product, where bits cancel and ties occur.
                let near = (-(x * a)).to_bits().wrapping_add((random.next() & 3) as $bits);
                check(x, a, <$type>::from_bits(near));
                // Between 0 and 2^60, where numbers have fractions to round.
                let exponent = (random.next() % 61) as $bits;
                let bias = <$type>::MAX_EXP as $bits - 1;
                let fraction = x.to_bits() & ((1 << exponents) - 1);
                check_one(<$type>::from_bits(((bias + exponent) << exponents) | fraction));
            }
        }
    };
}

agrees!(f32_agrees_with_std, f32, u32, [0u32, 1, 23, 24, 126, 127, 128, 150, 151, 253, 254, 255]);
agrees!(
    f64_agrees_with_std,
    f64,
    u64,
    [0u64, 1, 52, 53, 970, 1022, 1023, 1024, 1075, 1076, 2045, 2046, 2047]
);
