//! Pooling against loops written from the definition.

use crate::invariance::{Random, bits, everywhere};
use crate::pool::pool;
use samebits_cpu_kernels::pooling::{
    AdaptivePool, Average, FractionalPool, Pool, adaptive_avg_pool, adaptive_avg_pool_backward,
    adaptive_max_pool, avg_pool, avg_pool_backward, fractional_max_pool, max_pool,
    max_pool_backward, max_unpool, max_unpool_backward,
};
use samebits_cpu_kernels::{Error, Float};
use samebits_numerics::nan::canonical;

/// A pooling of a plane of any number of dimensions.
#[derive(Clone, Debug)]
struct Case {
    planes: usize,
    input: Vec<usize>,
    kernel: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    ceil_mode: bool,
}

impl Case {
    fn geometry(&self) -> samebits_tensor_core::Result<Pool> {
        let lists = [&self.kernel, &self.stride, &self.padding, &self.dilation];
        pool(self.planes, &self.input, lists.map(Vec::as_slice), self.ceil_mode)
    }

    fn random(random: &mut Random, dilated: bool) -> Case {
        loop {
            let dims = 1 + random.below(3);
            let mut list = |low: usize, high: usize| -> Vec<usize> {
                (0..dims).map(|_| low + random.below(high - low)).collect()
            };
            let (input, kernel, stride) = (list(1, 12), list(1, 5), list(1, 4));
            let padding = list(0, 3);
            let dilation = if dilated { list(1, 4) } else { vec![1; dims] };
            let planes = 1 + random.below(20);
            let ceil_mode = random.below(2) == 1;
            let case = Case { planes, input, kernel, stride, padding, dilation, ceil_mode };
            if case.geometry().is_ok() {
                return case;
            }
        }
    }

    /// Returns, for each output of a plane, the input positions of its window in row-major order,
    /// and the number of padded positions that it covers.
    fn windows(&self) -> Vec<(Vec<usize>, usize)> {
        let output = self.geometry().unwrap().output_shape()[2..].to_vec();
        all(&output)
            .iter()
            .map(|at| {
                let mut inside = Vec::new();
                let mut padded = 0;
                for tap in all(&self.kernel) {
                    let position: Vec<i64> = (0..at.len())
                        .map(|d| {
                            (at[d] * self.stride[d] + tap[d] * self.dilation[d]) as i64
                                - self.padding[d] as i64
                        })
                        .collect();
                    let within = |slack: usize| {
                        position.iter().enumerate().all(|(d, &p)| {
                            let slack = if slack == 1 { self.padding[d] as i64 } else { 0 };
                            p >= -slack && p < self.input[d] as i64 + slack
                        })
                    };
                    padded += usize::from(within(1));
                    if within(0) {
                        inside.push(
                            position
                                .iter()
                                .zip(&self.input)
                                .fold(0, |flat, (&p, &n)| flat * n + p as usize),
                        );
                    }
                }
                (inside, padded)
            })
            .collect()
    }
}

/// Returns all index tuples below `sizes`, in row-major order.
fn all(sizes: &[usize]) -> Vec<Vec<usize>> {
    sizes.iter().fold(vec![Vec::new()], |tuples, &n| {
        tuples
            .iter()
            .flat_map(|tuple| {
                (0..n).map(|i| {
                    let mut longer = tuple.clone();
                    longer.push(i);
                    longer
                })
            })
            .collect()
    })
}

fn naive_max<T: Float>(window: &[usize], plane: &[T]) -> (T, i64) {
    let mut best: Option<usize> = None;
    for &at in window {
        let replaces = match best {
            None => true,
            Some(old) => plane[at] > plane[old] || (plane[at].is_nan() && !plane[old].is_nan()),
        };
        if replaces {
            best = Some(at);
        }
    }
    best.map_or((T::LOWEST, -1), |at| (canonical(plane[at]), at as i64))
}

/// Returns values with ties, zeros of both signs, infinities and NaN.
fn hard<T: Float>(random: &mut Random, n: usize) -> Vec<T> {
    (0..n)
        .map(|_| match random.below(12) {
            0 => T::from_f64(-0.0),
            1 => T::ZERO,
            2 => T::LOWEST,
            3 if random.below(4) == 0 => T::from_f64(-f64::NAN),
            k => T::from_f64(k as f64 - 8.0),
        })
        .collect()
}

fn check_max<T: Float>(seed: u64) {
    let mut random = Random(seed);
    for round in 0..120 {
        let case = Case::random(&mut random, true);
        let geometry = case.geometry().unwrap();
        let input: Vec<T> = hard(&mut random, geometry.input_len());
        let grad: Vec<T> = random.wide(geometry.output_len());
        let plane = geometry.input_len() / case.planes;
        let windows = case.windows();
        let (mut values, mut indices) = (Vec::new(), Vec::new());
        let mut grad_input = vec![T::ZERO; input.len()];
        for p in 0..case.planes {
            for (o, (window, _)) in windows.iter().enumerate() {
                let (value, index) = naive_max(window, &input[p * plane..(p + 1) * plane]);
                values.push(value);
                indices.push(index);
                if index >= 0 {
                    let sum = &mut grad_input[p * plane + index as usize];
                    *sum = *sum + grad[p * windows.len() + o];
                }
            }
        }
        let run = || {
            let mut out = vec![T::ONE; values.len()];
            let mut found = vec![7; values.len()];
            max_pool(&geometry, &input, &mut out, &mut found).unwrap();
            let mut back = vec![T::ONE; input.len()];
            max_pool_backward("max", case.planes, &grad, &found, &mut back).unwrap();
            (bits(&out), found, bits(&back))
        };
        let got = if round < 8 { everywhere(run) } else { run() };
        assert_eq!(got.0, bits(&values), "{case:?}");
        assert_eq!(got.1, indices, "{case:?}");
        assert_eq!(got.2, bits(&grad_input), "{case:?}");
    }
}

#[test]
fn max_pool_equals_the_definition() {
    check_max::<f32>(1);
    check_max::<f64>(2);
}

fn check_avg<T: Float>(seed: u64) {
    let mut random = Random(seed);
    for round in 0..120 {
        let case = Case::random(&mut random, false);
        let geometry = case.geometry().unwrap();
        let include_pad = random.below(2) == 1;
        let fixed = (random.below(3) == 0).then(|| random.below(9) as i64 - 10);
        let average = Average::new(geometry.clone(), include_pad, fixed).unwrap();
        let input: Vec<T> = random.wide(geometry.input_len());
        let grad: Vec<T> = random.wide(geometry.output_len());
        let plane = geometry.input_len() / case.planes;
        let windows = case.windows();
        let mut values = Vec::new();
        let mut grad_input = vec![T::ZERO; input.len()];
        for p in 0..case.planes {
            for (o, (window, padded)) in windows.iter().enumerate() {
                let count = if include_pad { *padded } else { window.len() };
                let divisor = fixed.map_or(count as f64, |d| d as f64);
                let mut sum = 0.0f64;
                for &at in window {
                    sum += input[p * plane + at].into();
                }
                values.push(if window.is_empty() {
                    T::from_f64(sum / divisor.signum())
                } else {
                    T::from_f64(sum / divisor)
                });
                let weight = T::ONE / T::from_f64(divisor);
                for &at in window {
                    let sum = &mut grad_input[p * plane + at];
                    *sum = grad[p * windows.len() + o].mul_add(weight, *sum);
                }
            }
        }
        let run = || {
            let mut out = vec![T::ONE; values.len()];
            avg_pool(&average, &input, &mut out).unwrap();
            let mut back = vec![T::ONE; input.len()];
            avg_pool_backward(&average, &grad, &mut back).unwrap();
            (bits(&out), bits(&back))
        };
        let got = if round < 8 { everywhere(run) } else { run() };
        assert_eq!(got.0, bits(&values), "{case:?} {average:?}");
        assert_eq!(got.1, bits(&grad_input), "{case:?} {average:?}");
    }
}

#[test]
fn avg_pool_equals_the_definition() {
    check_avg::<f32>(3);
    check_avg::<f64>(4);
}

#[test]
fn large_images_are_the_same_everywhere() {
    let mut random = Random(5);
    // Many planes, and one plane that threads have to share.
    for (planes, size) in [(40, [56, 56]), (1, [700, 300])] {
        let lists: [&[usize]; 4] = [&[3, 3], &[2, 2], &[1, 1], &[1, 1]];
        let geometry = pool(planes, &size, lists, true).unwrap();
        let averaged = Average::new(geometry.clone(), true, None).unwrap();
        let input: Vec<f32> = random.units(geometry.input_len());
        let grad: Vec<f32> = random.units(geometry.output_len());
        everywhere(|| {
            let mut out = vec![0.0; grad.len()];
            let mut indices = vec![0; grad.len()];
            max_pool(&geometry, &input, &mut out, &mut indices).unwrap();
            let mut back = vec![0.0; input.len()];
            max_pool_backward("max", planes, &grad, &indices, &mut back).unwrap();
            // The plain loop again, for the shared plane.
            let mut plain = vec![0.0f32; input.len()];
            let (small, large) = (grad.len() / planes, input.len() / planes);
            for (o, (&index, g)) in indices.iter().zip(&grad).enumerate() {
                plain[o / small * large + index as usize] += g;
            }
            assert_eq!(bits(&back), bits(&plain));
            let mut average = vec![0.0; grad.len()];
            avg_pool(&averaged, &input, &mut average).unwrap();
            let mut spread = vec![0.0; input.len()];
            avg_pool_backward(&averaged, &grad, &mut spread).unwrap();
            (bits(&out), bits(&back), bits(&average), bits(&spread))
        });
    }
}

#[test]
fn adaptive_pools_equal_the_definition() {
    let mut random = Random(6);
    for round in 0..60 {
        let dims = 1 + random.below(3);
        let input: Vec<usize> = (0..dims).map(|_| 1 + random.below(9)).collect();
        let output: Vec<usize> = (0..dims).map(|_| 1 + random.below(9)).collect();
        let planes = 1 + random.below(20);
        let sizes =
            AdaptivePool::new("adaptive", &[&[1, planes], &input[..]].concat(), &output).unwrap();
        let plane: usize = input.iter().product();
        let x: Vec<f32> = hard(&mut random, sizes.input_len());
        let grad: Vec<f32> = random.wide(sizes.output_len());
        let (mut values, mut largest, mut indices) = (Vec::new(), Vec::new(), Vec::new());
        let mut back = vec![0.0f32; x.len()];
        for p in 0..planes {
            let x = &x[p * plane..(p + 1) * plane];
            for at in all(&output) {
                let window: Vec<usize> = all(&input)
                    .iter()
                    .filter(|position| {
                        (0..dims).all(|d| {
                            let start = at[d] * input[d] / output[d];
                            let end = ((at[d] + 1) * input[d]).div_ceil(output[d]);
                            (start..end).contains(&position[d])
                        })
                    })
                    .map(|position| {
                        position.iter().zip(&input).fold(0, |flat, (&i, &n)| flat * n + i)
                    })
                    .collect();
                let sum = window.iter().fold(0.0f64, |sum, &i| sum + f64::from(x[i]));
                let grad = grad[values.len()];
                values.push(canonical((sum / window.len() as f64) as f32));
                let (value, index) = naive_max(&window, x);
                largest.push(value);
                indices.push(index);
                for i in window.iter().map(|i| p * plane + i) {
                    back[i] = grad.mul_add(1.0 / window.len() as f32, back[i]);
                }
            }
        }
        let run = || {
            let mut out = vec![1.0; values.len()];
            adaptive_avg_pool(&sizes, &x, &mut out).unwrap();
            let mut spread = vec![1.0; x.len()];
            adaptive_avg_pool_backward(&sizes, &grad, &mut spread).unwrap();
            let (mut best, mut found) = (vec![1.0; values.len()], vec![7; values.len()]);
            adaptive_max_pool(&sizes, &x, &mut best, &mut found).unwrap();
            (bits(&out), bits(&spread), bits(&best), found)
        };
        let got = if round < 5 { everywhere(run) } else { run() };
        let what = format!("{planes} x {input:?} -> {output:?}");
        assert_eq!(got.0, bits(&values), "{what}");
        assert_eq!(got.1, bits(&back), "{what}");
        assert_eq!(got.2, bits(&largest), "{what}");
        assert_eq!(got.3, indices, "{what}");
    }
}

#[test]
fn fractional_windows_lie_where_the_samples_say() {
    // 1 plane, 6 x 5 to 3 x 2 with windows of 2: u_w = 0.5, u_h = 0.25.
    let sizes = FractionalPool::new("fractional", &[1, 1, 6, 5], &[3, 2], &[2, 2]).unwrap();
    let x: Vec<f32> = (0..30).map(|i| i as f32).collect();
    let (mut out, mut indices) = (vec![0.0; 6], vec![0; 6]);
    fractional_max_pool(&sizes, &x, &[0.5, 0.25], &mut out, &mut indices).unwrap();
    // Rows: a = 2, starts floor(0.5) - 0 = 0, floor(2.5) - 0 = 2, and 4. Columns: a = 3,
    // starts floor(1.5) - 1 = 0, and 3. The largest is the last element of a window.
    assert_eq!(indices, [6, 9, 16, 19, 26, 29]);
    assert_eq!(out, [6.0, 9.0, 16.0, 19.0, 26.0, 29.0]);
    let error = fractional_max_pool(&sizes, &x, &[1.0, 0.0], &mut out, &mut indices).unwrap_err();
    assert_eq!(error.to_string(), "fractional: sample 1.0 is not in [0, 1)");
    assert!(FractionalPool::new("fractional", &[1, 1, 4, 4], &[4, 4], &[2, 2]).is_err());
}

#[test]
fn fractional_windows_start_at_exact_places() {
    exact_starts::<f32>();
    exact_starts::<f64>();
}

fn exact_starts<T: Float>() {
    for input in 2..60 {
        for output in 2..=input {
            let size = ([1, 1, 1, input], [1, output], [1, 1]);
            let pool = FractionalPool::new("fractional", &size.0, &size.1, &size.2).unwrap();
            let (x, mut out) = (vec![T::ZERO; input], vec![T::ZERO; output]);
            let mut starts = vec![0; output];
            fractional_max_pool(&pool, &x, &[T::ZERO; 2], &mut out, &mut starts).unwrap();
            let place = |o| (o * (input - 1) / (output - 1)) as i64;
            let expected: Vec<i64> = (0..output).map(place).collect();
            assert_eq!(starts, expected, "{input} to {output}");
        }
    }
}

#[test]
fn unpool_puts_the_last_duplicate_and_its_gradient_gathers() {
    let mut out = [9.0f32; 8];
    max_unpool("unpool", 2, &[1.0, 2.0, 3.0, 4.0, -0.0, 6.0], &[1, 1, 3, 0, 0, 2], &mut out)
        .unwrap();
    assert_eq!(bits(&out), bits(&[0.0f32, 2.0, 0.0, 3.0, -0.0, 0.0, 6.0, 0.0]));
    let grad: Vec<f64> = (0..8).map(f64::from).collect();
    let mut back = [0.0; 6];
    max_unpool_backward("unpool", 2, &grad, &[1, 1, 3, 0, 0, 2], &mut back).unwrap();
    assert_eq!(back, [1.0, 1.0, 3.0, 4.0, 4.0, 6.0]);
    let error = max_unpool("unpool", 2, &[0.0f32; 2], &[0, 4], &mut out).unwrap_err();
    assert_eq!(error, Error::IndexOutOfRange { op: "unpool", position: 1, index: 4, size: 4 });
}

#[test]
fn bad_indices_and_sizes_are_refused() {
    let mut back = [5.0f32; 4];
    for bad in [-2, 4, i64::MIN] {
        let error = max_pool_backward("max", 1, &[1.0, 1.0], &[0, bad], &mut back).unwrap_err();
        let expected = Error::IndexOutOfRange { op: "max", position: 1, index: bad, size: 4 };
        assert_eq!(error, expected);
        assert_eq!(back, [5.0; 4]);
    }
    let geometry = |input: &[usize], kernel: &[usize], stride, padding| {
        pool(1, input, [kernel, &[stride], &[padding], &[1]], false)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(geometry(&[4], &[3], 1, 1), Ok(()));
    assert_eq!(
        geometry(&[4], &[3], 1, 2).unwrap_err(),
        "pool: padding 2 is more than half the window of 3"
    );
    assert_eq!(
        geometry(&[4], &[3], 0, 1).unwrap_err(),
        "pool: kernel 3, stride 0 and dilation 1 must be at least 1"
    );
    assert_eq!(
        geometry(&[2], &[3], 1, 0).unwrap_err(),
        "pool: a window of 3 does not fit the padded size 2"
    );
    assert!(geometry(&[2, 2], &[3], 1, 0).unwrap_err().ends_with("of size [2, 2]"));
    assert!(geometry(&[4], &[usize::MAX], usize::MAX, 1).is_err());
    let dilated = pool(1, &[4], [&[2], &[2], &[0], &[2]], false).unwrap();
    assert!(Average::new(dilated, true, None).is_err(), "dilation");
    let sound = pool(1, &[4], [&[2], &[2], &[0], &[1]], false).unwrap();
    assert!(Average::new(sound.clone(), true, Some(0)).is_err());
    let sound = Average::new(sound, true, None).unwrap();
    assert!(avg_pool(&sound, &[0.0f32; 3], &mut [0.0; 2]).is_err());
}

#[test]
fn no_planes() {
    let geometry = pool(0, &[4], [&[2], &[2], &[0], &[1]], false).unwrap();
    max_pool::<f32>(&geometry, &[], &mut [], &mut []).unwrap();
    let average = Average::new(geometry, true, None).unwrap();
    avg_pool::<f32>(&average, &[], &mut []).unwrap();
    avg_pool_backward::<f32>(&average, &[], &mut []).unwrap();
    max_pool_backward::<f32>("pool", 0, &[], &[], &mut []).unwrap();
    let none = AdaptivePool::new("pool", &[1, 2, 3], &[0]).unwrap();
    let mut back = [1.0f32; 6];
    adaptive_avg_pool_backward(&none, &[], &mut back).unwrap();
    assert_eq!(back, [0.0; 6]);
}
