//! Norms and functions built on them: values and gradients are right even if a slope is infinite or
//! an intermediate number leaves the range of the type.

use samebits_autograd::{Result, Tensor, functional as f};
use samebits_numerics::math::f64::pow;
use samebits_tensor_core::ops::PoolParams;
use samebits_tensor_core::{DType, Element};

/// Returns the value of a function of some leaves, and the gradients of its sum.
fn graded<const N: usize>(
    leaves: [Tensor; N],
    function: impl Fn(&[Tensor; N]) -> Result<Tensor>,
) -> (Vec<f64>, [Vec<f64>; N]) {
    samebits_cpu_kernels::install();
    let leaves = leaves.map(|x| x.set_requires_grad(true).unwrap());
    let y = function(&leaves).unwrap();
    let gradients = y.sum_all().unwrap().backward().unwrap();
    let wide = |x: &Tensor| {
        let x = f::to_dtype(x, DType::F64).unwrap();
        x.to_vec::<f64>().unwrap()
    };
    (wide(&y), leaves.map(|x| wide(gradients.of(&x).unwrap())))
}

#[track_caller]
fn near(found: &[f64], expected: &[f64]) {
    let close = |(&a, &b): (&f64, &f64)| a == b || (a - b).abs() <= 1e-6 * f64::abs(b);
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(close), "{found:?}, expected {expected:?}");
}

/// Returns the gradient of a vector's norm.
fn norm_gradient<T: Element>(x: &[T], p: f64) -> Vec<f64> {
    let x = Tensor::from_slice(x, &[x.len()]).unwrap();
    graded([x], |[x]| f::norm(x, p, 0, false)).1[0].clone()
}

#[test]
fn gradients_of_norms_that_are_tiny_or_zero() {
    near(&norm_gradient(&[1e-20f32, 0.0], 3.0), &[1.0, 0.0]);
    near(&norm_gradient(&[1e-40f32], 2.0), &[1.0]);
    let (tiny, tinier) = (f32::from_bits(1 << 19), f64::from_bits(1 << 19));
    for p in [2.0, 2.0f64.next_up()] {
        near(&norm_gradient(&[3.0 * tiny, -4.0 * tiny], p), &[0.6, -0.8]);
        near(&norm_gradient(&[3.0 * tinier, -4.0 * tinier], p), &[0.6, -0.8]);
        near(&norm_gradient(&[3e200, -4e200], p), &[0.6, -0.8]);
    }
    near(&norm_gradient(&[3e38f32, 1e38], 2.0), &[0.9486833, 0.31622777]);
    for p in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        near(&norm_gradient(&[0.0f32, -0.0], p), &[0.0, 0.0]);
        near(&norm_gradient(&[0.0f64, -0.0], p), &[0.0, 0.0]);
    }
    near(&norm_gradient(&[1e-42f32, 0.0], -1.0), &[0.0, 0.0]);
    // Quotients with the norm underflow, but their powers do not.
    near(&norm_gradient(&[1e-40f32, 1.0], 1.5), &[f64::from(1e-40f32).sqrt(), 1.0]);
    near(&norm_gradient(&[1e-320f64, 1.0], 1.5), &[f64::sqrt(1e-320), 1.0]);
}

#[test]
fn gradients_of_distances_below_the_range() {
    let a = Tensor::new([[1e-45f32, 2.0]]).unwrap();
    let b = Tensor::new([[0.0f32, 5.0]]).unwrap();
    let (_, [of_a, of_b]) = graded([a, b], |[a, b]| f::cdist(a, b, 0.5));
    near(&of_a, &[4.6269554e22, -1.0]);
    near(&of_b, &[-4.6269554e22, 1.0]);
    let zero = || Tensor::new([[0.0f32, 0.0]]).unwrap();
    for p in [0.0, 0.5, 1.0, 2.0, 3.0, f64::INFINITY] {
        let (y, gradients) = graded([zero(), zero()], |[a, b]| f::cdist(a, b, p));
        assert_eq!((y, gradients), (vec![0.0], [vec![0.0; 2], vec![0.0; 2]]), "{p}");
        let (_, gradients) =
            graded([zero(), zero()], |[a, b]| f::pairwise_distance(a, b, p, 0.0, false));
        assert_eq!(gradients, [vec![0.0; 2], vec![0.0; 2]], "{p}");
    }
}

#[test]
fn cosines_of_zero_huge_tiny_and_broadcast_vectors() {
    let [zero, one] = [[[0.0f32, 0.0]], [[1.0, 2.0]]].map(|x| Tensor::new(x).unwrap());
    let (y, [of_zero, of_one]) = graded([zero, one], |[a, b]| f::cosine_similarity(a, b, 1, 1e-8));
    assert_eq!((y, of_one), (vec![0.0], vec![0.0, 0.0]));
    near(&of_zero, &[4.472136e7, 8.944272e7]);
    for scale in [1e-30f32, 1e30, 3e37] {
        let a = Tensor::new([[3.0 * scale, 4.0 * scale]]).unwrap();
        let b = Tensor::new([[scale, 0.0]]).unwrap();
        let (y, [of_a, of_b]) = graded([a, b], |[a, b]| f::cosine_similarity(a, b, 1, 0.0));
        near(&y, &[0.6]);
        let scale = f64::from(scale);
        assert!((of_a[0] * scale - 0.128).abs() < 1e-6 && (of_a[1] * scale + 0.096).abs() < 1e-6);
        assert!((of_b[0] * scale).abs() < 1e-6 && (of_b[1] * scale - 0.8).abs() < 1e-6);
    }
    let cosine = |a: &Tensor, b: &Tensor, dim: isize| {
        let y = f::cosine_similarity(a, b, dim, 1e-8).unwrap().to_vec::<f32>().unwrap();
        y.into_iter().map(f64::from).collect::<Vec<_>>()
    };
    let (column, one) = (Tensor::new([[1.0f32], [1.0]]).unwrap(), Tensor::new([[1.0f32]]).unwrap());
    near(&cosine(&column, &one, 0), &[1.0]);
    near(&cosine(&one, &column, 0), &[1.0]);
    let flat = Tensor::new([1.0f32, 1.0]).unwrap();
    let rows = Tensor::new([[1.0f32, 0.0], [2.0, 2.0]]).unwrap();
    near(&cosine(&rows, &flat, -1), &[0.70710677, 1.0]);
    near(&cosine(&flat, &rows, 0), &[0.94868327, 0.70710677]);
    let scalar = Tensor::scalar(2.0f32);
    near(&cosine(&scalar, &scalar, 0), &[1.0]);
}

#[test]
fn roots_of_means_of_squares_that_leave_the_range() {
    let expected = [0.36514837, 0.73029674, 1.0954452, 1.4605935];
    let rms = |x: &Tensor, eps| f::rms_norm(x, &[4], None, eps);
    for scale in [1e-40f32, 1e-30, 1e30, 8e37] {
        let x = Tensor::new([1.0, 2.0, 3.0, 4.0].map(|x: f32| x * scale)).unwrap();
        let (y, [gradient]) = graded([x], |[x]| rms(x, Some(0.0)));
        let tolerance = if scale == 1e-40 { 1e-4 } else { 1e-6 };
        assert!(y.iter().zip(expected).all(|(a, b)| (a - b).abs() < tolerance), "{y:?}");
        // (1 - h · mean(h)) / rms, where h is the result.
        for (h, slope) in expected.iter().zip(gradient) {
            let slope = slope * f64::from(scale) * 7.5f64.sqrt();
            assert!(scale == 1e-40 || (slope - (1.0 - h * 0.9128709)).abs() < 1e-5);
        }
    }
    for scale in [1e-320, 1e-200, 1e200, 4e307] {
        let x = Tensor::new([1.0, 2.0, 3.0, 4.0].map(|x: f64| x * scale)).unwrap();
        let y = rms(&x, Some(0.0)).unwrap().to_vec::<f64>().unwrap();
        assert!(y.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3), "{y:?}");
    }
    // `eps` dominates tiny numbers, and determines the slope of zeros.
    let x = Tensor::new([0.0f32, 1e-30, 0.0, 0.0]).unwrap();
    let (y, [gradient]) = graded([x], |[x]| rms(x, Some(1e-6)));
    near(&y, &[0.0, 1e-27, 0.0, 0.0]);
    near(&gradient, &[1e3; 4]);
}

/// A row normalised, and the gradient of its sum with `weights`. Everything is divided by the largest
/// magnitude first.
fn normalised(x: &[f64], weights: &[f64], eps: f64) -> (Vec<f64>, Vec<f64>) {
    let n = x.len() as f64;
    let most = x.iter().fold(eps.sqrt(), |most, x| most.max(x.abs()));
    let mean = x.iter().map(|x| x / most / n).sum::<f64>();
    let centred: Vec<f64> = x.iter().map(|x| x / most - mean).collect();
    let variance = centred.iter().map(|x| x * x).sum::<f64>() / n;
    let rstd = 1.0 / (variance + eps / most / most).sqrt();
    let y: Vec<f64> = centred.iter().map(|x| x * rstd).collect();
    let mean = weights.iter().sum::<f64>() / n;
    let dot = y.iter().zip(weights).map(|(y, w)| y * w).sum::<f64>() / n;
    let slope = |(y, w): (&f64, &f64)| (w - mean - y * dot) * rstd / most;
    let gradient = y.iter().zip(weights).map(slope).collect();
    (y, gradient)
}

#[test]
fn rows_of_any_magnitude_are_normalised() {
    const WEIGHTS: [f64; 4] = [0.5, -1.0, 2.0, 0.25];
    let scales = |wide: bool| match wide {
        true => vec![1e-320, 1e-200, 1e-150, 1.0, 1e140, 1e200, 4e307],
        false => vec![1e-42, 1e-30, 1e-12, 1.0, 1e17, 1e30, 7e37],
    };
    for wide in [true, false] {
        let dtype = if wide { DType::F64 } else { DType::F32 };
        let of_type = |x: &[f64]| {
            let x = Tensor::from_slice(x, &[1, 4]).unwrap();
            f::to_dtype(&x, dtype).unwrap()
        };
        for (scale, eps) in scales(wide).into_iter().flat_map(|s| [(s, 0.0), (s, 1e-5)]) {
            let x = of_type(&[1.0, 3.0, -2.0, 4.0].map(|x| x * scale));
            let exact = f::to_dtype(&x, DType::F64).unwrap().to_vec::<f64>().unwrap();
            let expected = normalised(&exact, &WEIGHTS, eps);
            let weights = of_type(&WEIGHTS);
            let checked = |name: &str, function: &dyn Fn(&Tensor) -> Result<Tensor>| {
                let (y, [gradient]) =
                    graded([x.detach()], |[x]| f::mul(&function(x)?.reshape([1, 4])?, &weights));
                let y = y.iter().zip(WEIGHTS).map(|(y, w)| y / w);
                for (found, expected) in y.zip(&expected.0) {
                    let good = (found - expected).abs() < 1e-6;
                    assert!(good, "{name} {scale} {eps}: {found}, expected {expected}");
                }
                for (found, &expected) in gradient.iter().zip(&expected.1) {
                    let largest = if wide { f64::MAX } else { f32::MAX.into() };
                    let beyond = expected.abs() > largest && found.abs() >= largest;
                    let step = if wide { 1e-323 } else { 3e-45 };
                    let off = (found - expected).abs();
                    let good = beyond || off <= 2e-6 * expected.abs() + step;
                    assert!(good, "{name} {scale} {eps}: slope {found}, expected {expected}");
                }
            };
            checked("layer_norm", &|x| f::layer_norm(x, &[4], None, None, eps));
            checked("group_norm", &|x| f::group_norm(&x.reshape([1, 2, 2])?, 1, None, None, eps));
            let columns = |x: &Tensor| x.reshape([4, 1]);
            checked("batch_norm", &|x| Ok(f::batch_norm(&columns(x)?, None, None, eps)?.0));
            let rows = |x: &Tensor| x.reshape([1, 1, 4]);
            checked("instance_norm", &|x| Ok(f::instance_norm(&rows(x)?, None, None, eps)?.0));
        }
    }
}

/// The gradient of a gradient, of rows that differ by a power of two.
#[test]
fn gradients_of_gradients_of_rows_of_any_magnitude() {
    samebits_cpu_kernels::install();
    let twice = |scale: f64, dtype: DType| {
        let x = Tensor::from_slice(&[1.0, 3.0, -2.0, 4.0].map(|x| x * scale), &[1, 4]).unwrap();
        let x = f::to_dtype(&x, dtype).unwrap().set_requires_grad(true).unwrap();
        let y = f::layer_norm(&x, &[4], None, None, 0.0).unwrap();
        let cube = f::mul(&f::square(&y).unwrap(), &y).unwrap().sum_all().unwrap();
        let one = Tensor::ones(&[], dtype).unwrap();
        let first = cube.backward_from(one, true).unwrap();
        let first = first.of(&x).unwrap();
        let sum = f::mul(first, &first.detach()).unwrap().sum_all().unwrap();
        let second = sum.backward().unwrap();
        let wide = |x: &Tensor, times: usize| {
            let x = f::to_dtype(x, DType::F64).unwrap().to_vec::<f64>().unwrap();
            x.into_iter().map(|x| (0..times).fold(x, |x, _| x * scale)).collect::<Vec<_>>()
        };
        (wide(first, 1), wide(second.of(&x).unwrap(), 3))
    };
    let ordinary = twice(1.0, DType::F64);
    for (power, dtype) in
        [(-40, DType::F32), (30, DType::F32), (-300, DType::F64), (300, DType::F64)]
    {
        let found = twice(f64::from_bits(((1023 + power) as u64) << 52), dtype);
        for (found, expected) in [(&found.0, &ordinary.0), (&found.1, &ordinary.1)] {
            for (found, expected) in found.iter().zip(expected) {
                let good = (found - expected).abs() < 1e-4 * expected.abs().max(1e-2);
                assert!(good, "2^{power}: {found}, expected {expected}");
            }
        }
    }
}

#[test]
fn statistics_of_numbers_whose_sums_leave_the_range() {
    samebits_cpu_kernels::install();
    let x = Tensor::from_slice(&[1e308, 1.5e308, 1e308, 1.5e308], &[4, 1]).unwrap();
    let (y, statistics) = f::batch_norm(&x, None, None, 1e-5).unwrap();
    near(&y.to_vec::<f64>().unwrap(), &[-1.0, 1.0, -1.0, 1.0]);
    near(&statistics.mean.to_vec::<f64>().unwrap(), &[1.25e308]);
    assert_eq!(statistics.var.to_vec::<f64>().unwrap(), [f64::INFINITY]);
    // Elements that are all the same number have no deviation, and `eps` decides.
    for x in [f64::MAX, 1e308, -1e308, 0.0, 1e-310] {
        let y =
            f::layer_norm(&Tensor::full(&[1, 4], x, DType::F64).unwrap(), &[4], None, None, 1e-5);
        assert_eq!(y.unwrap().to_vec::<f64>().unwrap(), [0.0; 4], "{x}");
    }
    for bad in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        let x = Tensor::from_slice(&[1e308, bad, 1e308, -1e308], &[1, 4]).unwrap();
        let (y, [gradient]) = graded([x], |[x]| f::layer_norm(x, &[4], None, None, 1e-5));
        assert!(y.iter().chain(&gradient).all(|x| x.is_nan()), "{y:?} {gradient:?}");
    }
}

#[test]
fn means_and_variances_whose_sums_leave_the_range() {
    samebits_cpu_kernels::install();
    let x = Tensor::from_slice(&[f64::MAX, f64::MAX, 1e308, 1e308, 1e154, 3e154], &[3, 2]).unwrap();
    let mean = |x: &Tensor, dim| f::mean(x, dim, false).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(mean(&x, 1), [f64::MAX, 1e308, 2e154]);
    near(&mean(&x, 0), &[9.325643782874386e307; 2]);
    let long = Tensor::full(&[2, 10_000], -1e308, DType::F64).unwrap();
    near(&mean(&long, 1), &[-1e308; 2]);
    let infinite = Tensor::from_slice(&[f64::INFINITY, 1e308, f64::MAX, f64::MAX], &[4]).unwrap();
    assert_eq!(mean(&infinite, 0), [f64::INFINITY]);
    let both = Tensor::from_slice(&[f64::INFINITY, f64::NEG_INFINITY], &[2]).unwrap();
    assert!(mean(&both, 0)[0].is_nan());
    // Squares whose sum is infinite, and their variance is not.
    let x = Tensor::from_slice(&[-1.2e154, 1.2e154, -1.2e154, 1.2e154], &[4]).unwrap();
    let (y, [gradient]) = graded([x], |[x]| f::var(x, 0, 0.0, false));
    near(&y, &[1.44e308]);
    near(&gradient, &[-6e153, 6e153, -6e153, 6e153]);
    let x = Tensor::from_slice(&[1.5e308, 1.6e308], &[2]).unwrap();
    let (variance, mean) = f::var_mean(&x, 0, 1.0, false).unwrap();
    assert_eq!(variance.to_vec::<f64>().unwrap(), [f64::INFINITY]);
    near(&mean.to_vec::<f64>().unwrap(), &[1.55e308]);
}

#[test]
fn standard_deviations_whose_squares_leave_the_range() {
    for scale in [1e-42f32, 1e-30, 1e30, 1e38] {
        let x = Tensor::new([scale, 3.0 * scale]).unwrap();
        let (y, [gradient]) = graded([x], |[x]| f::std(x, 0, 0.0, false));
        assert!((y[0] / f64::from(scale) - 1.0).abs() < 1e-3, "{y:?}");
        near(&gradient, &[-0.5, 0.5]);
    }
    for scale in [1e-320, 1e-200, 1e200, 5e307] {
        let x = Tensor::new([scale, 3.0 * scale]).unwrap();
        let (y, [gradient]) = graded([x], |[x]| f::std(x, 0, 0.0, false));
        assert!((y[0] / scale - 1.0).abs() < 1e-3, "{y:?}");
        near(&gradient, &[-0.5, 0.5]);
    }
    // Deviations that are small relative to the numbers.
    let x = Tensor::new([1e-13f32, 1e-13f32.next_up()]).unwrap();
    let y = f::std(&x, 0, 0.0, false).unwrap().item::<f32>().unwrap();
    assert_eq!(y, (1e-13f32.next_up() - 1e-13) / 2.0);
}

/// Scaled functions have the bits of unscaled ones unless a number leaves the range.
#[test]
fn scales_change_no_bit_of_ordinary_numbers() {
    samebits_cpu_kernels::install();
    let mut generator = samebits_rng::Generator::new(5);
    for size in [1e-8, 1e-3, 1.0, 300.0, 1e9] {
        let x = f::normal_scalar_with(size, size, &[40, 33], &mut generator).unwrap();
        for dtype in [DType::F32, DType::F64] {
            let x = f::to_dtype(&x, dtype).unwrap();
            let leaf = || [x.detach()];
            let rms = graded(leaf(), |[x]| {
                let mean = f::mean(&f::square(x)?, 1, true)?;
                f::mul(x, &f::rsqrt(&f::affine(&mean, 1.0, 1e-5)?)?)
            });
            assert_eq!(graded(leaf(), |[x]| f::rms_norm(x, &[33], None, Some(1e-5))), rms);
            let std = graded(leaf(), |[x]| f::sqrt(&f::var(x, 1, 1.0, false)?));
            assert_eq!(graded(leaf(), |[x]| f::std(x, 1, 1.0, false)), std);
            // One row for which a power is a factor: then it is for all.
            let one_tiny = |x: &Tensor| f::cat(&[x, &Tensor::full(&[1, 33], size, dtype)?], 0);
            let (values, [gradient]) = graded(leaf(), |[x]| f::std(&one_tiny(x)?, 1, 1.0, false));
            assert_eq!((&values[..40], values[40]), (&std.0[..], 0.0));
            assert_eq!(gradient, std.1[0]);
            let ones = Tensor::ones(&[40], dtype).unwrap();
            let losses = |cos: Tensor| f::affine(&cos, -1.0, 1.0);
            let cosine = graded([x.detach(), x.detach().flip(0).unwrap()], |[a, b]| {
                let dot = |x: &Tensor, y: &Tensor| f::sum(&f::mul(x, y)?, -1, false);
                let square = |x: &Tensor| f::affine(&dot(x, x)?, 1.0, 1e-12);
                losses(f::div(&dot(a, b)?, &f::sqrt(&f::mul(&square(a)?, &square(b)?)?)?)?)
            });
            let found = graded([x.detach(), x.detach().flip(0).unwrap()], |[a, b]| {
                f::cosine_embedding_loss(a, b, &ones, 0.0, f::Reduction::None)
            });
            // Products of squares leave the range of f32 first.
            assert!(found == cosine || (size == 1e9 && dtype == DType::F32), "{dtype}, {size}");
            let params = PoolParams { stride: vec![1], ..PoolParams::square(1, 3) };
            let pool = |x: &Tensor| {
                let mean = f::avg_pool(&f::pow_scalar(x, 2.0)?, &params, true, None)?;
                f::pow_scalar(&f::affine(&mean, 3.0, -0.0)?, 0.5)
            };
            let plain = graded(leaf(), |[x]| pool(x));
            assert_eq!(graded(leaf(), |[x]| f::lp_pool(x, 2.0, &params)), plain);
            // The same holds for windows beside scaled ones.
            let huge =
                Tensor::full(&[40, 4], if dtype == DType::F64 { 1e200 } else { 1e30 }, dtype);
            let more = f::cat(&[x.detach(), huge.unwrap()], 1).unwrap();
            let (values, [gradient]) = graded([more], |[x]| f::lp_pool(x, 2.0, &params));
            for row in 0..40 {
                assert_eq!(values[row * 35..][..31], plain.0[row * 31..][..31]);
                assert_eq!(gradient[row * 37..][..31], plain.1[0][row * 33..][..31]);
            }
        }
    }
}

#[test]
fn windows_of_zeros_and_of_powers_outside_the_range() {
    let row = |x: &[f32]| Tensor::from_slice(x, &[1, 1, x.len()]).unwrap();
    let pool = |x: Tensor, p, params: &PoolParams| {
        let (y, [gradient]) = graded([x], |[x]| f::lp_pool(x, p, params));
        (y, gradient)
    };
    let pairs = PoolParams::square(1, 2);
    let (y, gradient) = pool(row(&[0.0, 0.0, 3.0, 4.0]), 2.0, &pairs);
    near(&y, &[0.0, 5.0]);
    near(&gradient, &[0.0, 0.0, 0.6, 0.8]);
    for p in [0.5, 1.5, 3.0, -1.0, -2.0] {
        let (y, gradient) = pool(row(&[0.0; 4]), p, &pairs);
        assert_eq!((y, gradient), (vec![0.0; 2], vec![0.0; 4]), "{p}");
    }
    // Huge, tiny, ordinary and zero windows that overlap; the last has half the size.
    let x = [3e30f32, 4e30, 0.0, 3.0, 4.0, 0.0, 3e-30, 4e-30, 0.0];
    let along = PoolParams { stride: vec![1], ceil_mode: true, ..PoolParams::square(1, 2) };
    let (y, gradient) = pool(row(&x), 2.0, &along);
    near(&y, &[5e30, 4e30, 3.0, 5.0, 4.0, 3e-30, 5e-30, 4e-30]);
    near(&gradient, &[0.6, 1.8, 0.0, 1.6, 1.8, 0.0, 1.6, 1.8, 0.0]);
    let hanging = PoolParams { stride: vec![2], ..along };
    let (y, gradient) = pool(row(&[3e30, 4e30, 1e30]), 2.0, &hanging);
    near(&y, &[5e30, f64::sqrt(2.0) * 1e30]);
    near(&gradient, &[0.6, 0.8, f64::sqrt(2.0)]);
    let plane = Tensor::from_slice(&[1e200, 2e200, 2e200, 4e200], &[1, 1, 2, 2]).unwrap();
    for p in [2.0, 40.0, -2.0] {
        let parts = [1.0, 2.0, 2.0, 4.0];
        let root = pow(parts.iter().map(|&x| pow(x, p)).sum(), 1.0 / p);
        let (y, gradient) = pool(plane.clone(), p, &PoolParams::square(2, 2));
        near(&y, &[root * 1e200]);
        near(&gradient, &parts.map(|x| pow(x / root, p - 1.0)));
    }
}

#[test]
fn cosine_losses_of_huge_and_tiny_vectors() {
    for scale in [1e-3f32, 1.0, 1e12, 1e30] {
        let a = Tensor::new([[3.0 * scale, 4.0 * scale]]).unwrap();
        let b = Tensor::new([[scale, 0.0]]).unwrap();
        let target = Tensor::new([1.0f32]).unwrap();
        let (loss, gradients) = graded([a, b], |[a, b]| {
            f::cosine_embedding_loss(a, b, &target, 0.0, f::Reduction::Mean)
        });
        assert!((loss[0] - 0.4).abs() < 1e-5, "{loss:?}");
        let gradient = gradients[1].iter().map(|x| x * f64::from(scale));
        for (found, expected) in gradient.zip([0.0, -0.8]) {
            assert!((found - expected).abs() < 1e-5, "{found}, expected {expected}");
        }
    }
    let zero = || Tensor::new([[0.0f32, 0.0]]).unwrap();
    let target = Tensor::new([1.0f32]).unwrap();
    let (loss, gradients) = graded([zero(), zero()], |[a, b]| {
        f::cosine_embedding_loss(a, b, &target, 0.0, f::Reduction::Mean)
    });
    assert_eq!((loss, gradients), (vec![1.0], [vec![0.0; 2], vec![0.0; 2]]));
}
