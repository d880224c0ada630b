//! Running sums and products in the written order.

use crate::invariance::{Random, bits, everywhere};
use samebits_cpu_kernels::Float;
use samebits_cpu_kernels::scan::{
    cumextreme, cumprod, cumprod_backward, cumsum, cumsum_backward, logcumsumexp,
};
use samebits_numerics::math::f64::{exp, log};

/// Computes the module's pseudocode, step by step.
fn in_order<T: Float, S: Copy>(
    x: &[T],
    identity: S,
    element: impl Fn(f64) -> S,
    apply: impl Fn(S, S) -> S,
    result: impl Fn(S) -> f64,
) -> Vec<T> {
    let mut y = Vec::new();
    let mut carry = identity;
    for tile in x.chunks(1024) {
        let mut before = identity;
        for run in tile.chunks(32) {
            let mut local = identity;
            for &x in run {
                local = apply(local, element(x.into()));
                let sum = result(apply(carry, apply(before, local)));
                y.push(if sum.is_nan() { T::from_f64(f64::NAN) } else { T::from_f64(sum) });
            }
            before = apply(before, local);
        }
        carry = apply(carry, before);
    }
    y
}

/// Computes running sums or products in the module's order.
fn oracle<T: Float>(x: &[T], product: bool) -> Vec<T> {
    if product {
        return in_order(x, 1.0, |x| x, |a, b| a * b, |y| y);
    }
    in_order(x, 0.0, |x| x, |a, b| a + b, |y| y)
}

fn check<T: Float>(seed: u64) {
    let mut random = Random(seed);
    // Short rows and tiles of rows; few columns, groups of them and a rest, slabs cut by columns.
    for shape in [
        [3, 7, 1],
        [200, 7, 1],
        [70, 32, 1],
        [5, 33, 1],
        [43, 50, 1],
        [9, 127, 1],
        [5, 128, 1],
        [2, 300, 1],
        [1, 5000, 1],
        [1, 100_000, 1],
        [40, 1100, 1],
        [2, 33, 5],
        [3, 40, 2],
        [2, 40, 9],
        [2, 40, 15],
        [1, 2050, 3],
        [300, 40, 4],
        [3, 1030, 16],
        [2, 70, 37],
        [1, 1100, 130],
    ] {
        let [outer, dim, inner] = shape;
        let x: Vec<T> = random.wide(outer * dim * inner);
        // Near one, so that products neither underflow nor overflow.
        let near: Vec<T> = random
            .units::<f64>(outer * dim * inner)
            .iter()
            .map(|x| T::from_f64(1.0 + x / 64.0))
            .collect();
        let mut expected = [x.clone(), x.clone(), x.clone()];
        for o in 0..outer {
            for j in 0..inner {
                let at = |k: usize| (o * dim + k) * inner + j;
                let line: Vec<T> = (0..dim).map(|k| x[at(k)]).collect();
                let reversed: Vec<T> = line.iter().rev().copied().collect();
                let factors: Vec<T> = (0..dim).map(|k| near[at(k)]).collect();
                let sums = oracle(&line, false);
                let backward = oracle(&reversed, false);
                let products = oracle(&factors, true);
                for k in 0..dim {
                    expected[0][at(k)] = sums[k];
                    expected[1][at(k)] = backward[dim - 1 - k];
                    expected[2][at(k)] = products[k];
                }
            }
        }
        let expected = expected.map(|values| bits(&values));
        let got = everywhere(|| {
            let mut out = [x.clone(), x.clone(), x.clone()];
            cumsum(&x, shape, &mut out[0]).unwrap();
            cumsum_backward(&x, shape, &mut out[1]).unwrap();
            cumprod(&near, shape, &mut out[2]).unwrap();
            out.map(|values| bits(&values))
        });
        for k in 0..3 {
            assert!(got[k] == expected[k], "{shape:?}, scan {k}");
        }
    }
}

#[test]
fn scans_follow_the_written_order_everywhere() {
    check::<f32>(1);
    check::<f64>(2);
}

/// Combines pairs (m, s) that represent `s · exp(m)`, case by case as documented.
fn log_add((m, s): (f64, f64), (n, t): (f64, f64)) -> (f64, f64) {
    if m == f64::NEG_INFINITY {
        (n, t)
    } else if n == f64::NEG_INFINITY {
        (m, s)
    } else if m == n {
        (m, s + t)
    } else if m > n {
        (m, s + t * exp(n - m))
    } else {
        (n, s * exp(m - n) + t)
    }
}

/// Computes the logarithms of running sums of exponentials in the module's order.
fn log_oracle<T: Float>(x: &[T]) -> Vec<T> {
    let result = |(m, s): (f64, f64)| {
        if m.is_infinite() && !s.is_nan() { m } else { m + log(s) }
    };
    in_order(x, (f64::NEG_INFINITY, 1.0), |x| (x, 1.0), log_add, result)
}

fn check_logarithms<T: Float>(seed: u64) {
    let mut random = Random(seed);
    for shape in [[3, 7, 1], [5, 33, 1], [9, 127, 1], [2, 300, 1], [1, 5000, 1], [1, 70_000, 1]]
        .into_iter()
        .chain([[2, 33, 5], [3, 40, 2], [2, 40, 15], [1, 2050, 3], [3, 1030, 16], [2, 70, 37]])
    {
        let [outer, dim, inner] = shape;
        for special in 0..4 {
            // Equal elements, distances at which one of two vanishes, infinities, and one NaN.
            let mut x: Vec<T> = random
                .units::<f64>(outer * dim * inner)
                .iter()
                .enumerate()
                .map(|(i, x)| match (i / 3 % 7, special) {
                    (0, _) => T::from_f64(2.0),
                    (1, _) => T::from_f64(x * 800.0),
                    (2, 1..) => T::from_f64(f64::NEG_INFINITY),
                    _ => T::from_f64(x * 4.0),
                })
                .collect();
            let all = x.len();
            if special == 1 {
                x[..all / 3].fill(T::from_f64(f64::NEG_INFINITY));
            }
            if special == 2 {
                x[all / 2] = T::from_f64(f64::INFINITY);
                x[all / 2 + 1] = T::from_f64(f64::INFINITY);
            }
            if special == 3 {
                x[all / 2] = T::from_f64(f64::NAN);
            }
            let mut expected = x.clone();
            for o in 0..outer {
                for j in 0..inner {
                    let at = |k: usize| (o * dim + k) * inner + j;
                    let line: Vec<T> = (0..dim).map(|k| x[at(k)]).collect();
                    for (k, y) in log_oracle(&line).into_iter().enumerate() {
                        expected[at(k)] = y;
                    }
                }
            }
            let got = everywhere(|| {
                let mut out = x.clone();
                logcumsumexp(&x, shape, &mut out).unwrap();
                bits(&out)
            });
            assert!(got == bits(&expected), "{shape:?}, kind {special}");
        }
    }
}

#[test]
fn logarithms_of_running_sums_follow_the_written_order() {
    check_logarithms::<f32>(5);
    check_logarithms::<f64>(6);
}

/// Computes running extrema and their indices, element by element.
fn extremes<T: Float>(x: &[T], largest: bool) -> (Vec<T>, Vec<i64>) {
    let (mut best, mut place) = (0, Vec::new());
    for k in 0..x.len() {
        let (old, new): (f64, f64) = (x[best].into(), x[k].into());
        let better = if largest { new > old } else { new < old };
        if better || (new.is_nan() && !old.is_nan()) {
            best = k;
        }
        place.push(best);
    }
    let value = |&k: &usize| if x[k].into().is_nan() { T::from_f64(f64::NAN) } else { x[k] };
    (place.iter().map(value).collect(), place.iter().map(|&k| k as i64).collect())
}

fn check_extremes<T: Float>(seed: u64) {
    let mut random = Random(seed);
    for shape in [
        [3, 7, 1],
        [1, 16, 1],
        [2, 1000, 1],
        [700, 6, 1],
        [2, 33, 3],
        [40, 5, 2],
        [2, 20, 15],
        [1, 30, 16],
        [3, 9, 37],
    ] {
        let [outer, dim, inner] = shape;
        for round in 0..4 {
            // Many ties, both zeros, and in some rounds NaN or a long ascent.
            let mut x: Vec<T> = (0..outer * dim * inner)
                .map(|at| {
                    let step = if round == 3 { at as f64 / 4.0 } else { 0.0 };
                    T::from_f64(step + random.below(9) as f64 - 4.0)
                })
                .collect();
            for _ in 0..3 {
                let at = random.below(x.len());
                x[at] = T::from_f64(-0.0);
                if round == 1 {
                    x[at] = T::from_f64(-f64::NAN);
                }
            }
            for largest in [true, false] {
                let (mut values, mut indices) = (x.clone(), vec![0; x.len()]);
                for o in 0..outer {
                    for j in 0..inner {
                        let at = |k: usize| (o * dim + k) * inner + j;
                        let line: Vec<T> = (0..dim).map(|k| x[at(k)]).collect();
                        let (best, places) = extremes(&line, largest);
                        for k in 0..dim {
                            (values[at(k)], indices[at(k)]) = (best[k], places[k]);
                        }
                    }
                }
                let got = everywhere(|| {
                    let (mut values, mut indices) = (x.clone(), vec![9; x.len()]);
                    cumextreme(&x, shape, largest, &mut values, &mut indices).unwrap();
                    (bits(&values), indices)
                });
                assert!(got == (bits(&values), indices), "{shape:?}, round {round}, {largest}");
            }
        }
    }
}

#[test]
fn running_extremes_are_the_first_ones_everywhere() {
    check_extremes::<f32>(6);
    check_extremes::<f64>(7);
}

#[test]
fn another_order_would_be_seen() {
    let x: Vec<f64> = Random(3).wide(3000);
    let mut sum = 0.0;
    let sequential: Vec<f64> = x
        .iter()
        .map(|x| {
            sum += x;
            sum
        })
        .collect();
    assert_ne!(bits(&sequential), bits(&oracle(&x, false)));
}

#[test]
fn nan_stays_from_where_it_comes_and_is_canonical() {
    let mut out = [0.0f32; 4];
    cumsum(&[1.0, f32::INFINITY, f32::NEG_INFINITY, 1.0], [1, 4, 1], &mut out).unwrap();
    assert_eq!(bits(&out), [0x3f80_0000, 0x7f80_0000, 0x7fc0_0000, 0x7fc0_0000]);
}

#[test]
fn the_gradient_of_a_product_equals_finite_differences_also_at_zeros() {
    let mut random = Random(4);
    for zeros in [&[][..], &[2], &[0], &[5], &[1, 4], &[0, 5], &[1, 2, 3]] {
        let shape = [2, 6, 2];
        let mut x: Vec<f64> = random.units::<f64>(24).iter().map(|x| x + 2.0).collect();
        for &k in zeros {
            for line in [0, 1, 12, 13] {
                x[line + 2 * k] = 0.0;
            }
        }
        let grad: Vec<f64> = random.units(24);
        let loss = |x: &[f64]| {
            let mut y = vec![0.0; 24];
            cumprod(x, shape, &mut y).unwrap();
            y.iter().zip(&grad).fold(0.0, |sum, (y, g)| sum + y * g)
        };
        let mut back = vec![9.0; 24];
        cumprod_backward(&x, &grad, shape, &mut back).unwrap();
        for at in 0..24 {
            let (mut low, mut high) = (x.clone(), x.clone());
            low[at] -= 1e-6;
            high[at] += 1e-6;
            let slope = (loss(&high) - loss(&low)) / 2e-6;
            assert!(
                (slope - back[at]).abs() < 1e-5,
                "zeros {zeros:?} at {at}: {slope} {}",
                back[at]
            );
        }
    }
}

#[test]
fn wrong_lengths_and_nothing_to_do() {
    let mut out = [0.0f32; 2];
    assert!(cumsum(&[1.0], [1, 2, 1], &mut out).is_err());
    assert!(cumprod_backward(&[1.0, 2.0], &[1.0], [1, 2, 1], &mut out).is_err());
    cumsum::<f32>(&[], [1, 0, 3], &mut []).unwrap();
    cumprod_backward::<f64>(&[], &[], [0, 2, 1], &mut []).unwrap();
}
