//! Norms and what is made of them, of numbers whose powers leave the range of the type, beside the
//! same in f64 with every vector divided by its largest magnitude first.

use proptest::prelude::*;
use samebits::functional as f;
use samebits::numerics::math::f64 as math;
use samebits::ops::PoolParams;
use samebits::{DType, Result, Tensor};

use super::{cases, on_devices};

/// Numbers of a type: zeros, subnormal ones, extremes, ordinary ones.
fn number(dtype: DType, finite: bool) -> impl Strategy<Value = f64> {
    let (tiny, small, large, huge) = match dtype {
        DType::F32 => (1e-39, 1e-30, 1e30, 1e38),
        _ => (1e-309, 1e-200, 1e200, 1e307),
    };
    let ends = if finite { vec![0.0] } else { vec![f64::INFINITY, f64::NAN] };
    (
        prop_oneof![
            1 => prop::sample::select(ends),
            1 => Just(0.0),
            1 => Just(tiny),
            1 => Just(small),
            1 => Just(large),
            1 => Just(huge),
            3 => Just(1.0),
        ],
        1.0f64..2.0,
        any::<bool>(),
    )
        .prop_map(move |(size, factor, negative)| {
            let x = if negative { -size * factor } else { size * factor };
            if dtype == DType::F32 { f64::from(x as f32) } else { x }
        })
}

fn numbers(finite: bool) -> impl Strategy<Value = (DType, Vec<f64>)> {
    prop_oneof![Just(DType::F32), Just(DType::F64)].prop_flat_map(move |dtype| {
        proptest::collection::vec(number(dtype, finite), 1..6).prop_map(move |x| (dtype, x))
    })
}

fn exponents() -> impl Strategy<Value = f64> {
    prop::sample::select(vec![
        0.0,
        0.5,
        1.0,
        1.5,
        2.0,
        2.5,
        3.0,
        30.0,
        3000.0,
        -1.0,
        -2.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ])
}

fn norm(x: &[f64], p: f64) -> f64 {
    let sizes: Vec<f64> = x.iter().map(|x| x.abs()).collect();
    if sizes.iter().any(|x| x.is_nan()) && p != 0.0 {
        return f64::NAN;
    }
    if p == 0.0 {
        return sizes.iter().filter(|&&x| x != 0.0).count() as f64;
    }
    let most = match p > 0.0 {
        true => sizes.iter().copied().fold(0.0, f64::max),
        false => sizes.iter().copied().fold(f64::INFINITY, f64::min),
    };
    if p.is_infinite() || most == 0.0 || most.is_infinite() {
        return most;
    }
    most * math::pow(sizes.iter().map(|x| math::pow(x / most, p)).sum(), 1.0 / p)
}

/// Of finite numbers.
fn norm_gradient(x: &[f64], p: f64) -> Vec<f64> {
    let size = norm(x, p);
    let sign = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
    if p.is_infinite() {
        let ties = x.iter().filter(|x| x.abs() == size).count() as f64;
        let share = |&x: &f64| if x.abs() == size { sign(x) / ties } else { 0.0 };
        return x.iter().map(share).collect();
    }
    let slope = |&x: &f64| {
        if p == 0.0 || size == 0.0 || x == 0.0 {
            return 0.0;
        }
        let ratio = x.abs() / size;
        let far = math::log(x.abs()) - math::log(size);
        let log = if ratio.is_normal() { math::log(ratio) } else { far };
        sign(x) * math::exp((p - 1.0) * log)
    };
    x.iter().map(slope).collect()
}

/// A tensor of the type, of one row.
fn row(dtype: DType, x: &[f64]) -> Tensor {
    let x = Tensor::from_slice(x, &[1, x.len()]).unwrap();
    f::to_dtype(&x, dtype).unwrap()
}

fn wide(x: &Tensor) -> Vec<f64> {
    f::to_dtype(x, DType::F64).unwrap().to_vec().unwrap()
}

/// The values of a function on every device.
fn valued(x: &Tensor, function: impl Fn(&Tensor) -> Result<Tensor>) -> Vec<f64> {
    on_devices(|device| vec![wide(&function(&x.to(device).unwrap()).unwrap())]).remove(0)
}

/// The values of a function, and the gradient of their sum, on every device.
fn graded(x: Tensor, function: impl Fn(&Tensor) -> Result<Tensor>) -> (Vec<f64>, Vec<f64>) {
    let mut both = on_devices(|device| {
        let x = x.to(device).unwrap().detach().set_requires_grad(true).unwrap();
        let y = function(&x).unwrap();
        let gradients = y.sum_all().unwrap().backward().unwrap();
        vec![wide(&y), wide(gradients.of(&x).unwrap())]
    });
    let gradient = both.remove(1);
    (both.remove(0), gradient)
}

/// A row normalised, and the gradient of its sum with `weights`; then the mean divided by the standard
/// deviation, and the reciprocal of the latter. Everything is divided by the largest magnitude first.
fn normalised(x: &[f64], weights: &[f64], eps: f64) -> (Vec<f64>, Vec<f64>, [f64; 2]) {
    let n = x.len() as f64;
    let most = norm(x, f64::INFINITY).max(eps.sqrt());
    let mean = x.iter().map(|x| x / most / n).sum::<f64>();
    let centred: Vec<f64> = x.iter().map(|x| x / most - mean).collect();
    let variance = centred.iter().map(|x| x * x).sum::<f64>() / n;
    let rstd = 1.0 / (variance + eps / most / most).sqrt();
    let y: Vec<f64> = centred.iter().map(|x| x * rstd).collect();
    let mean_grad = weights.iter().sum::<f64>() / n;
    let dot = y.iter().zip(weights).map(|(y, w)| y * w).sum::<f64>() / n;
    let slope = |(y, w): (&f64, &f64)| (w - mean_grad - y * dot) * rstd / most;
    let gradient = y.iter().zip(weights).map(slope).collect();
    (y, gradient, [mean.abs() * rstd, rstd / most])
}

/// Whether a number in the type is as it should be, to `relative` and some of the smallest steps.
fn near(dtype: DType, found: f64, expected: f64, relative: f64) -> bool {
    let (relative, step, largest) = match dtype {
        DType::F32 => (relative * 2e-7, 1e-44, f64::from(f32::MAX)),
        _ => (relative * 1e-15, 1e-322, f64::MAX),
    };
    let expected =
        if expected.abs() > largest { f64::INFINITY.copysign(expected) } else { expected };
    found == expected
        || (found.is_nan() && expected.is_nan())
        || (found - expected).abs() <= relative * expected.abs() + step
}

proptest! {
    #![proptest_config(cases(5))]

    #[test]
    fn norms_of_any_numbers((dtype, x) in numbers(false), p in exponents()) {
        let found = valued(&row(dtype, &x), |x| f::norm(x, p, 1, false))[0];
        let expected = norm(&x, p);
        prop_assert!(near(dtype, found, expected, 1000.0), "{found}, expected {expected}");
    }

    #[test]
    fn norms_and_their_gradients((dtype, x) in numbers(true), p in exponents()) {
        let (value, gradient) = graded(row(dtype, &x), |x| f::norm(x, p, 1, false));
        prop_assume!(value[0].is_finite());
        // Of a power of a quotient, the error grows with the exponent.
        let relative = 10.0 * (1.0 + p.abs().min(3000.0)) + 1000.0;
        let expected = norm_gradient(&x, p);
        for (found, expected) in gradient.iter().zip(&expected) {
            let good = near(dtype, *found, *expected, relative);
            prop_assert!(good, "{gradient:?}, expected {expected:?}");
        }
        // Distances from zero are norms.
        let zero = row(dtype, &vec![0.0; x.len()]);
        let distance = graded(row(dtype, &x), |x| f::cdist(x, &zero.to(x.device())?, p));
        prop_assert_eq!(&distance, &(value.clone(), gradient.clone()));
        let distance = graded(row(dtype, &x), |x| {
            f::pairwise_distance(x, &zero.to(x.device())?, p, 0.0, false)
        });
        prop_assert_eq!(distance, (value, gradient));
    }

    #[test]
    fn vectors_of_length_one((dtype, x) in numbers(true), eps in prop::sample::select(vec![0.0, 1e-6])) {
        let most = norm(&x, f64::INFINITY).max(f64::sqrt(eps));
        let unit: Vec<f64> = x.iter().map(|x| x / most).collect();
        if most > 0.0 {
            let square = unit.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
            let root = f64::sqrt(square + eps / most / most);
            let rms = |x: &Tensor| f::rms_norm(x, &x.shape()[1..], None, Some(eps));
            let found = valued(&row(dtype, &x), rms);
            for (&found, &unit) in found.iter().zip(&unit) {
                prop_assert!(near(dtype, found, unit / root, 100.0), "{found} {}", unit / root);
            }
            let whole = norm(&x, 2.0);
            if whole.is_finite() && (dtype == DType::F64 || whole < 3e38) {
                let found = valued(&row(dtype, &x), |x| f::normalize(x, 2.0, 1, eps));
                for (&found, &x) in found.iter().zip(&x) {
                    let expected = x / whole.max(eps);
                    prop_assert!(near(dtype, found, expected, 1e3), "{found} {expected}");
                }
            }
        }
        let n = x.len() as f64;
        let mean = unit.iter().sum::<f64>() / n;
        let squares: f64 = unit.iter().map(|x| (x - mean) * (x - mean)).sum();
        let (std, scale) = (f64::sqrt(squares / n), if most > 0.0 { most } else { 1.0 });
        let found = valued(&row(dtype, &x), |x| f::std(x, 1, 0.0, false))[0] / scale;
        prop_assert!(most == 0.0 || (found - std).abs() < 1e-6, "{found} {std}");
    }

    #[test]
    fn rows_are_normalised(
        (dtype, x) in numbers(false),
        eps in prop::sample::select(vec![0.0, 1e-12, 1e-5]),
        kind in 0..4,
    ) {
        let n = x.len();
        prop_assume!(n > 1);
        let weights = &[0.5, -1.0, 2.0, 0.25, 1.0][..n];
        let (y, gradient) = graded(row(dtype, &x), |x| {
            let y = match kind {
                0 => f::layer_norm(x, &[n], None, None, eps)?,
                1 => f::group_norm(&x.reshape([1, n])?, 1, None, None, eps)?,
                2 => f::batch_norm(&x.reshape([n, 1])?, None, None, eps)?.0,
                _ => f::instance_norm(&x.reshape([1, 1, n])?, None, None, eps)?.0,
            };
            f::mul(&y.reshape([1, n])?, &row(dtype, weights).to(x.device())?)
        });
        if x.iter().any(|x| !x.is_finite()) {
            prop_assert!(y.iter().chain(&gradient).all(|x| x.is_nan()), "{y:?} {gradient:?}");
            return Ok(());
        }
        let (values, slopes, [condition, steepness]) = normalised(&x, weights, eps);
        let epsilon = if dtype == DType::F32 { 2e-7 } else { 1e-15 };
        // Subnormal numbers lack digits, and so have means of them.
        let tolerance = 100.0 * epsilon * (1.0 + condition);
        // Of equal elements without `eps` nothing is left, or the rounding of the mean.
        prop_assume!(tolerance < 0.1);
        for ((y, w), expected) in y.iter().zip(weights).zip(&values) {
            prop_assert!((y / w - expected).abs() < tolerance, "{y} {expected}");
        }
        let largest = if dtype == DType::F32 { f64::from(f32::MAX) } else { f64::MAX };
        prop_assume!(steepness < largest / 8.0);
        for (found, expected) in gradient.iter().zip(&slopes) {
            let step = if dtype == DType::F32 { 1e-44 } else { 1e-322 };
            let good = (found - expected).abs() <= 10.0 * tolerance * steepness + step;
            prop_assert!(good, "{gradient:?}, expected {expected:?}");
        }
    }

    #[test]
    fn windows((dtype, x) in numbers(true), p in prop::sample::select(vec![0.5, 1.0, 2.0, 3.0, 30.0])) {
        let x: Vec<f64> = std::iter::once(1.0).chain(x).map(f64::abs).collect();
        let params = PoolParams { stride: vec![1], ..PoolParams::square(1, 2) };
        let (found, gradient) = graded(row(dtype, &x), |x| f::lp_pool1d(x, p, &params));
        let mut expected = vec![0.0; x.len()];
        for (i, window) in x.windows(2).enumerate() {
            let size = norm(window, p);
            prop_assert!(near(dtype, found[i], size, 1e3), "{found:?} {size}");
            for (sum, slope) in expected[i..].iter_mut().zip(norm_gradient(window, p)) {
                *sum += slope;
            }
        }
        for (i, (&found, &expected)) in gradient.iter().zip(&expected).enumerate() {
            // The norm of `p` 1 is a sum, whose slope at 0 is 1.
            let expected = if p == 1.0 && x[i] == 0.0 { found } else { expected };
            // Beside a slope of 1, those of subnormal windows are multiples of a step.
            let step = if dtype == DType::F32 { 1e-5 } else { 1e-12 };
            let good = near(dtype, found, expected, 1e4) || (found - expected).abs() < step;
            prop_assert!(good, "{gradient:?} {expected}");
        }
    }
}
