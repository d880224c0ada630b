//! Exact sums against big-integer arithmetic, under permutations, partitions and merges.

use num_bigint::{BigInt, Sign};
use proptest::prelude::*;
use samebits_numerics::exact::{ExactSum, ExactSum64, sum_f32, sum_f64, tested_sum};
use samebits_numerics::simd::{self, Kernel, Level};

/// Returns the sum of `values` in units of 2^-1074, by a library that shares no code with ours.
fn big_sum(values: &[f64]) -> BigInt {
    let mut sum = BigInt::from(0);
    for &x in values {
        let bits = x.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as usize;
        let fraction = bits & ((1 << 52) - 1);
        let magnitude = match exponent {
            0 => BigInt::from(fraction),
            _ => BigInt::from(fraction | 1 << 52) << (exponent - 1),
        };
        if bits >> 63 == 1 { sum -= magnitude } else { sum += magnitude }
    }
    sum
}

/// Rounds `sum` (units of 2^-1074) to a format with `digits` significant bits, smallest unit
/// 2^`lowest` and largest exponent `highest`; ties to even. Written from the definition: find the
/// two neighbours and compare the remainder with half their distance.
fn round_big(sum: &BigInt, digits: i64, lowest: i64, highest: i64) -> f64 {
    let negative = sum.sign() == Sign::Minus;
    let magnitude = sum.magnitude().clone();
    let length = magnitude.bits() as i64;
    if length == 0 {
        return 0.0;
    }
    let unit = (length - digits).max(lowest + 1074).max(0);
    let below = &magnitude >> unit as u64;
    let remainder = &magnitude - (&below << unit as u64);
    let doubled = remainder << 1u32;
    let distance = num_bigint::BigUint::from(1u32) << unit as u64;
    let odd = below.bit(0);
    let up = doubled > distance || (doubled == distance && odd);
    let rounded = if up { below + 1u32 } else { below };
    let exponent = unit - 1074;
    let significand = u64::try_from(&rounded).expect("at most 2^53");
    let value = if rounded.bits() as i64 + exponent > highest {
        f64::INFINITY
    } else {
        // Scale in two exact steps: the first keeps the value normal if possible.
        let half = exponent / 2;
        significand as f64 * power_of_two(half) * power_of_two(exponent - half)
    };
    if negative { -value } else { value }
}

fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

fn oracle32(values: &[f32]) -> u32 {
    if let Some(special) = special(values.iter().map(|&x| f64::from(x))) {
        return if special.is_nan() { 0x7fc0_0000 } else { (special as f32).to_bits() };
    }
    let wide: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
    (round_big(&big_sum(&wide), 24, -149, 128) as f32).to_bits()
}

fn oracle64(values: &[f64]) -> u64 {
    if let Some(special) = special(values.iter().copied()) {
        return if special.is_nan() { 0x7ff8_0000_0000_0000 } else { special.to_bits() };
    }
    round_big(&big_sum(values), 53, -1074, 1024).to_bits()
}

fn special(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut nan, mut up, mut down) = (false, false, false);
    for x in values {
        nan |= x.is_nan();
        up |= x == f64::INFINITY;
        down |= x == f64::NEG_INFINITY;
    }
    match (nan || up && down, up, down) {
        (true, _, _) => Some(f64::NAN),
        (_, true, _) => Some(f64::INFINITY),
        (_, _, true) => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Draws numbers of one of several kinds: the hard ones are far apart, cancel or are subnormal.
    fn values32(&mut self, kind: usize, n: usize) -> Vec<f32> {
        let mut values: Vec<f32> = (0..n)
            .map(|_| {
                let bits = self.next() as u32;
                match kind {
                    0 => (bits >> 8) as f32 / 16777216.0,
                    1 => f32::from_bits((bits % 0x7f80_0000) | (bits & 0x8000_0000)),
                    2 => f32::from_bits(bits & 0x80ff_ffff),
                    3 => f32::from_bits(0x7f00_0000 | bits & 0x807f_ffff),
                    4 => f32::from_bits(bits & 0x8000_0001),
                    _ => f32::from_bits(0x3f80_0000 + (bits & 0x8000_0003)),
                }
            })
            .collect();
        if kind == 1 && n > 1 {
            // Near total cancellation.
            let negated: Vec<f32> = values[..n / 2].iter().map(|x| -x).collect();
            values[n - n / 2..].copy_from_slice(&negated);
        }
        values
    }

    fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.below(i + 1));
        }
    }
}

#[test]
fn sums_equal_big_integer_sums_in_any_order_and_partition() {
    let mut random = Random(1);
    for n in [0usize, 1, 2, 3, 10, 31, 33, 500, 9000] {
        for kind in 0..6 {
            let mut values = random.values32(kind, n);
            let expected = oracle32(&values);
            for round in 0..4 {
                let what = format!("n {n} kind {kind} round {round}");
                let one: ExactSum = values.iter().copied().collect();
                assert_eq!(one.to_f32().to_bits(), expected, "{what}");
                assert_eq!(sum_f32(&values).to_bits(), expected, "{what}");
                // Random parts, merged in random order.
                let mut parts: Vec<ExactSum> = Vec::new();
                let mut rest = &values[..];
                while !rest.is_empty() {
                    let (part, later) = rest.split_at(1 + random.below(rest.len()));
                    parts.push(part.iter().copied().collect());
                    rest = later;
                }
                random.shuffle(&mut parts);
                let mut merged = ExactSum::new();
                parts.iter().for_each(|part| merged.merge(part));
                assert_eq!(merged.to_f32().to_bits(), expected, "{what}");
                random.shuffle(&mut values);
            }
        }
    }
}

#[test]
fn a_naive_sum_would_fail_the_same_test() {
    let mut random = Random(2);
    let values = random.values32(1, 500);
    let naive = values.iter().fold(0.0f32, |sum, x| sum + x);
    assert_ne!(naive.to_bits(), oracle32(&values));
}

#[test]
fn the_64_bit_sum_equals_the_big_integer_sum() {
    let mut random = Random(3);
    for n in [0usize, 1, 2, 7, 33, 300, 9000] {
        for kind in 0..4 {
            let mut values: Vec<f64> = (0..n)
                .map(|_| {
                    let bits = random.next();
                    let sign = bits & 1 << 63;
                    match kind {
                        0 => (bits >> 11) as f64 * power_of_two(-53),
                        1 => f64::from_bits((bits % 0x7ff0_0000_0000_0000) | sign),
                        2 => f64::from_bits(bits & 0x801f_ffff_ffff_ffff),
                        _ => f64::from_bits(0x7fe0_0000_0000_0000 | bits & !(0x7ff << 52)),
                    }
                })
                .collect();
            let expected = oracle64(&values);
            for _ in 0..3 {
                let one: ExactSum64 = values.iter().copied().collect();
                assert_eq!(one.to_f64().to_bits(), expected, "n {n} kind {kind}");
                assert_eq!(sum_f64(&values).to_bits(), expected, "n {n} kind {kind}");
                let (left, right) = values.split_at(random.below(n + 1));
                let mut merged: ExactSum64 = right.iter().copied().collect();
                merged.merge(&left.iter().copied().collect());
                assert_eq!(merged.to_f64().to_bits(), expected, "n {n} kind {kind}");
                random.shuffle(&mut values);
            }
        }
    }
}

#[test]
fn limbs_of_another_accumulator_are_addends() {
    // Limbs of either sign with carries in their upper halves, which make up the addends.
    let values = [1.5, -2.5e-300, 5e-324, 1.25e300, -f64::MIN_POSITIVE, 3.0, -0.75];
    let mut limbs = [0i64; 69];
    for x in values {
        let bits = f64::to_bits(x);
        let exponent = (bits >> 52 & 0x7ff) as usize;
        let fraction = bits & ((1 << 52) - 1);
        let (significand, shift) =
            if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) };
        let spread = u128::from(significand) << (shift % 32);
        let sign = if x < 0.0 { -1 } else { 1 };
        for part in 0..3 {
            limbs[shift / 32 + part] += sign * (spread >> (32 * part) & 0xffff_ffff) as i64;
        }
    }
    // 2^20 times the sum: the limbs hold it without a carry.
    let mut sum = ExactSum64::new();
    sum.add_limbs(&limbs.map(|limb| limb << 20));
    let scaled = round_big(&(big_sum(&values) << 20u32), 53, -1074, 1024);
    assert_eq!(sum.to_f64().to_bits(), scaled.to_bits());
    // Those of a negative sum, and the sum of both.
    let mut negative = ExactSum64::new();
    negative.add_limbs(&limbs.map(|limb| -(limb << 20)));
    assert_eq!(negative.to_f64(), -scaled);
    negative.merge(&sum);
    assert_eq!(negative.to_f64().to_bits(), 0);
    let mut small = ExactSum64::new();
    small.add_limbs(&[i64::MIN, i64::MAX]);
    small.add_limbs(&[i64::MIN]);
    let expected = BigInt::from(i64::MIN) * 2 + (BigInt::from(i64::MAX) << 32u32);
    assert_eq!(small.to_f64(), round_big(&expected, 53, -1074, 1024));
}

#[test]
fn rounding_to_f64_is_correct_too() {
    let mut random = Random(4);
    for kind in 0..6 {
        for n in [1usize, 2, 40, 3000] {
            let values = random.values32(kind, n);
            let wide: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
            let sum: ExactSum = values.iter().copied().collect();
            assert_eq!(sum.to_f64().to_bits(), oracle64(&wide), "n {n} kind {kind}");
        }
    }
}

#[test]
fn special_values() {
    let (inf, nan) = (f32::INFINITY, -f32::NAN);
    let cases: [(&[f32], u32); 12] = [
        (&[], 0),
        (&[-0.0], 0),
        (&[-0.0, -0.0], 0),
        (&[1.0, -1.0], 0),
        (&[nan, 1.0], 0x7fc0_0000),
        (&[inf, -inf], 0x7fc0_0000),
        (&[inf, 1.0, inf], 0x7f80_0000),
        (&[-inf, f32::MAX], 0xff80_0000),
        (&[f32::MAX, f32::MAX], 0x7f80_0000),
        (&[f32::MAX, f32::MAX, -f32::MAX], 0x7f7f_ffff),
        (&[f32::MIN, f32::MIN], 0xff80_0000),
        // Half a unit above the largest number is a tie and rounds to even: to infinity.
        (&[f32::MAX, 1.0141205e31], 0x7f80_0000),
    ];
    for (values, expected) in cases {
        assert_eq!(oracle32(values), expected, "the oracle on {values:?}");
        assert_eq!(sum_f32(values).to_bits(), expected, "{values:?}");
        let mut reversed = ExactSum::new();
        reversed.extend(values.iter().rev().copied());
        assert_eq!(reversed.to_f32().to_bits(), expected, "{values:?}");
    }
}

#[test]
fn ties_go_to_even_and_are_broken_by_the_last_bit_there_is() {
    let tiny = f32::from_bits(1);
    let half_unit = 2.0f32.powi_exact(-24);
    for (values, expected) in [
        (vec![1.0f32, half_unit], 1.0f32),
        (vec![1.0, half_unit, tiny], 1.0 + f32::EPSILON),
        (vec![1.0, half_unit, -tiny], 1.0),
        (vec![1.0 + f32::EPSILON, half_unit], 1.0 + 2.0 * f32::EPSILON),
        (vec![-1.0, -half_unit, -tiny], -1.0 - f32::EPSILON),
    ] {
        assert_eq!(sum_f32(&values), expected, "{values:?}");
        let sum: ExactSum = values.iter().copied().collect();
        assert_eq!(sum.to_f32(), expected, "{values:?}");
    }
}

trait PowiExact {
    fn powi_exact(self, exponent: i64) -> f32;
}

impl PowiExact for f32 {
    fn powi_exact(self, exponent: i64) -> f32 {
        assert_eq!(self, 2.0);
        power_of_two(exponent) as f32
    }
}

#[test]
fn merging_many_times_keeps_headroom() {
    // Doubling 41 times counts 2^41 addends, far more than may be pending between carries.
    let mut sum: ExactSum = [f32::MAX, -1.5f32, f32::from_bits(1)].into_iter().collect();
    for _ in 0..41 {
        let copy = sum.clone();
        sum.merge(&copy);
    }
    sum.merge(&{
        let mut negative: ExactSum = [-f32::MAX].into_iter().collect();
        for _ in 0..41 {
            let copy = negative.clone();
            negative.merge(&copy);
        }
        negative
    });
    assert_eq!(sum.to_f32(), -1.5 * power_of_two(41) as f32);
    // Each of eight equal addends uses some of the headroom before the first merge.
    let mut eight: ExactSum = [f32::MAX; 8].into_iter().collect();
    for _ in 0..41 {
        let copy = eight.clone();
        eight.merge(&copy);
    }
    assert_eq!(eight.to_f64(), f64::from(f32::MAX) * power_of_two(44));
}

/// Partial sums at the upper limit, against big integers.
#[test]
fn sums_of_large_partial_sums_are_exact() {
    let large = [170, 169, 150, 127, 100, 0, -149].map(power_of_two);
    let mut random = Random(1);
    for _ in 0..2000 {
        let partials: Vec<f64> = (0..random.below(40) + 1)
            .map(|_| {
                let (one, ulp) = (large[random.below(large.len())], f64::EPSILON);
                // The last bit of a significand must not be below 2^-149.
                let one = if one >= 1.0 { one * (2.0 - ulp) } else { one };
                if random.below(3) == 0 { -one } else { one }
            })
            .collect();
        let mut sum = ExactSum::new();
        partials.iter().for_each(|&partial| sum.add_partial(partial));
        let exact = big_sum(&partials);
        assert_eq!(sum.to_f64(), round_big(&exact, 53, -1074, 1024), "{partials:?}");
        assert_eq!(sum.to_f32(), round_big(&exact, 24, -149, 128) as f32, "{partials:?}");
    }
}

/// A sum that no number of addends can reach, but that merging a sum with itself can, is infinite.
#[test]
fn a_sum_beyond_the_accumulator_is_an_infinity() {
    let doubled = |mut sum: ExactSum, times: u32| {
        for _ in 0..times {
            let copy = sum.clone();
            sum.merge(&copy);
        }
        sum
    };
    let one: ExactSum = [1.0].into_iter().collect();
    for times in [0, 1, 127, 128, 201] {
        let sum = doubled(one.clone(), times);
        assert_eq!(sum.to_f64(), power_of_two(times.into()), "2^{times}");
    }
    for times in [202, 203, 240, 300, 1000] {
        assert_eq!(doubled(one.clone(), times).to_f64(), f64::INFINITY, "2^{times}");
        let negative: ExactSum = [-1.0].into_iter().collect();
        assert_eq!(doubled(negative, times).to_f32(), f32::NEG_INFINITY, "-2^{times}");
    }
    let mut wide: ExactSum64 = [f64::MAX].into_iter().collect();
    for _ in 0..300 {
        let copy = wide.clone();
        wide.merge(&copy);
    }
    assert_eq!(wide.to_f64(), f64::INFINITY);
}

#[test]
fn partial_sums_count_like_their_addends() {
    let mut sum = ExactSum::new();
    sum.add_partial(f64::from(f32::MAX) * 4.0);
    sum.add_partial(f64::from(f32::from_bits(1)) * 3.0);
    sum.add(-f32::MAX);
    sum.add_partial(f64::from(f32::MAX) * -3.0);
    assert_eq!(sum.to_f32().to_bits(), 3);
    let refused = std::panic::catch_unwind(|| ExactSum::new().add_partial(1e-200));
    assert!(refused.is_err(), "a number that is no sum of f32 numbers was accepted");
}

#[test]
fn every_simd_level_gives_the_same_bits() {
    struct Add<'a>(&'a [f32]);
    impl Kernel for Add<'_> {
        type Output = u32;
        #[inline(always)]
        fn run(self) -> u32 {
            let mut sum = ExactSum::new();
            sum.add_slice(self.0);
            sum.to_f32().to_bits()
        }
    }
    let mut random = Random(5);
    for kind in 0..6 {
        let values = random.values32(kind, 20_000);
        let expected = oracle32(&values);
        for level in Level::ALL {
            assert_eq!(simd::dispatch_at(level, Add(&values)), expected, "{level:?} kind {kind}");
        }
    }
}

proptest! {
    #[test]
    fn any_bits_sum_as_big_integers_do(bits in prop::collection::vec(any::<u32>(), 0..40)) {
        let values: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).collect();
        let sum: ExactSum = values.iter().copied().collect();
        prop_assert_eq!(sum.to_f32().to_bits(), oracle32(&values));
        prop_assert_eq!(sum_f32(&values).to_bits(), oracle32(&values));
    }

    #[test]
    fn any_64_bits_sum_as_big_integers_do(bits in prop::collection::vec(any::<u64>(), 0..40)) {
        let values: Vec<f64> = bits.iter().map(|&b| f64::from_bits(b)).collect();
        let sum: ExactSum64 = values.iter().copied().collect();
        prop_assert_eq!(sum.to_f64().to_bits(), oracle64(&values));
        prop_assert_eq!(sum_f64(&values).to_bits(), oracle64(&values));
    }
}

#[test]
fn a_tested_sum_knows_if_it_is_exact() {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 20
    };
    let (mut exact, mut inexact) = (0, 0);
    for i in 0..200_000 {
        // Few bits or all, exponents that are near each other or at the lower end.
        let mut number = |near: u64| {
            let fraction = (draw() << 8 & ((1 << 52) - 1)) >> (draw() % 53) << (draw() % 40);
            let fraction = fraction & ((1 << 52) - 1);
            let exponent = if near < 60 { near + draw() % 60 } else { 1023 + draw() % 60 };
            f64::from_bits(draw() << 63 | exponent << 52 | fraction)
        };
        let near = if i % 3 == 0 { i / 3 % 60 } else { 100 };
        let (a, b) = (number(near), number(near));
        for (a, b) in [(a, b), (b, a), (a, -a), (a, 0.0), (-0.0, a), (0.0, -0.0)] {
            let (sum, lost) = tested_sum(a, b);
            assert_eq!(sum.to_bits(), (a + b).to_bits());
            let is_exact = big_sum(&[a, b]) == big_sum(&[sum]);
            assert_eq!(lost << 1 == 0, is_exact, "{a:e} + {b:e}");
            if is_exact { exact += 1 } else { inexact += 1 }
        }
    }
    assert!(exact > 100_000 && inexact > 100_000, "{exact} exact sums, {inexact} others");
    for x in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        for y in [0.0, -0.0, 1.5, f64::MAX, f64::INFINITY] {
            assert_ne!(tested_sum(x, y).1 << 1, 0, "{x} + {y}");
            assert_ne!(tested_sum(y, x).1 << 1, 0, "{y} + {x}");
        }
    }
}
