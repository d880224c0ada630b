//! `pow` has too many inputs to try them all: pairs that are likely to be wrong, at every level.

use samebits_numerics::math::{self, Exponents};
use samebits_numerics::simd::Level;

use crate::oracle::bits;
use crate::random;

/// Compares with CORE-MATH at every level, scalar and slice.
fn check(x: &[f32], y: &[f32]) {
    for level in Level::ALL {
        let mut output = vec![0.0; x.len()];
        math::pow_slice_at(level, x, Exponents::Each(y), &mut output);
        for i in 0..x.len() {
            let want = bits(core_math::powf(x[i], y[i]));
            assert_eq!(output[i].to_bits(), want, "{:e}^{:e} {}", x[i], y[i], level.name());
        }
    }
    for i in 0..x.len() {
        assert_eq!(math::pow(x[i], y[i]).to_bits(), bits(core_math::powf(x[i], y[i])));
    }
}

fn pairs(count: usize, mut f: impl FnMut(&mut u64) -> (f32, f32)) -> (Vec<f32>, Vec<f32>) {
    let mut state = 11;
    (0..count).map(|_| f(&mut state)).unzip()
}

#[test]
fn special_values() {
    let mut values = vec![0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 0.25, 1e-45, 1.1754944e-38, 150.0, 149.0];
    values.extend([
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
        16777215.0,
        16777216.0,
        33554432.0,
        8388609.5,
    ]);
    values.extend([f32::from_bits(0x3f80_0001), f32::from_bits(0x3f7f_ffff), f32::EPSILON]);
    values.extend(values.clone().iter().map(|v| -v));
    values.push(f32::from_bits(0xffc0_1234));
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for &a in &values {
        for &b in &values {
            x.push(a);
            y.push(b);
        }
    }
    check(&x, &y);
}

#[test]
fn random_bits() {
    let (x, y) = pairs(60_000, |s| (f32::from_bits(random(s)), f32::from_bits(random(s))));
    check(&x, &y);
}

#[test]
fn ordinary_powers() {
    let (x, y) = pairs(100_000, |s| {
        (f32::from_bits(0x3d00_0000 + (random(s) >> 6)), (random(s) >> 16) as f32 / 4096.0 - 8.0)
    });
    check(&x, &y);
}

/// Results near overflow, and subnormal ones.
#[test]
fn extreme_results() {
    let (x, y) = pairs(60_000, |s| {
        let x = f32::from_bits(0x3f80_0000 + (random(s) >> 5));
        let exponent = [128.0, -126.0, -140.0, -149.5][random(s) as usize % 4];
        let noise = (random(s) >> 8) as f32 / 1e7 - 0.8;
        (x, (exponent + noise) / math::log2(x))
    });
    check(&x, &y);
}

/// Exact squares, cubes and roots of integers: many are exact ties.
#[test]
fn exact_ties() {
    let (x, y) = pairs(100_000, |s| {
        let root = (random(s) >> 18) as f32;
        match random(s) % 8 {
            0 => (root, 2.0),
            1 => ((random(s) >> 23) as f32, 3.0),
            2 => ((random(s) >> 26) as f32, 5.0),
            3 => ((root * 0.25).floor() * (root * 0.25).floor(), 1.5),
            4 => (-root, 2.0),
            5 => ((random(s) >> 27) as f32, 15.0),
            6 => (f32::from_bits((random(s) % 255) << 23), (random(s) % 16) as f32 - 8.0),
            _ => (root * 4096.0, 2.0),
        }
    });
    check(&x, &y);
    // Certain ties: 4097^2 = 2^24 + 2^13 + 1 has 25 bits; 2^-150 lies between 0 and 2^-149.
    check(&[4097.0, 4099.0, 0.5, 8388609.0, 3.0], &[2.0, 2.0, 150.0, 2.0, 16.0]);
}

#[test]
fn one_exponent_for_all() {
    let x: Vec<f32> = (0..1000).map(|i| i as f32 * 0.37 - 20.0).collect();
    for y in [2.0, 3.0, 0.5, -1.0, 2.5, 0.0, f32::NAN, f32::INFINITY] {
        let mut output = vec![0.0; x.len()];
        math::slice::pow_scalar(&x, y, &mut output);
        for i in 0..x.len() {
            assert_eq!(output[i].to_bits(), math::pow(x[i], y).to_bits());
        }
    }
}
